/* What an error says: why a server refused a command and whether it may have been executed all the
 * same, or where a node of a cluster sends it. Pure functions of text. */
#include "redis/refusal.h"

#include <string.h>

#define REDIRECTED                                                                     \
  "the server is part of a cluster and names another node, which cannot be followed: " \
  "leave out cluster=off, and have the nodes announce their addresses"

/* What an error starts with, what to tell people, and whether the command may have been executed
 * all the same. The first that fits counts; the last fits everything. */
static const struct cause {
  const char *prefix;
  const char *text;
  bool doubt;
} causes[] = {
    {"NOPERM", NULL, false},
    {"WRONGTYPE", "it holds another type than this operation needs", false},
    {"ERR value is not an integer", "it holds something that is not an integer", false},
    {"ERR increment or decrement would overflow", "the value would leave the range of an int64",
     false},
    {"NOAUTH", "the server wants a password", false},
    {"DENIED",
     "the server is in protected mode and takes connections of its own machine alone: "
     "give it a password, or protected-mode no",
     false},
    {"LOADING", "the server still loads its data", false},
    {"READONLY", "the server is a read-only replica; its primary is needed", false},
    {"OOM", "the server is out of memory: it reached maxmemory and may not evict", false},
    {"MISCONF", "the server cannot save its data and refuses writes", false},
    {"MASTERDOWN", "the server is a replica that lost its primary", false},
    {"NOREPLICAS", "the server has too few replicas and refuses writes", false},
    {"MOVED", REDIRECTED, false},
    {"ASK", REDIRECTED, false},
    {"ERR MOVED", REDIRECTED, false},
    {"ERR ASK", REDIRECTED, false},
    {"CLUSTERDOWN", "the server's cluster is down", false},
    {"TRYAGAIN", "the server's cluster is moving this key", false},
    {"ERR SELECT is not allowed", "a cluster has database 0 alone; leave it out of the URL", false},
    {"ERR unknown command", "the server does not have this command", false},
    {"ERR syntax error", "the server is too old for this command", false},
    {"ERR wrong number of arguments", "the server is too old for this command", false},
    {"ERR invalid expire", "the server does not accept this TTL", false},
    {"ERR Connection refused", "the proxy cannot reach its server", false},
    {"WRONGPASS", "the server does not accept this user and password", false},
    {"ERR invalid password", "the server does not accept this password", false},
    {"ERR Client sent AUTH", "the server has no password; leave it out of the URL", false},
    {"ERR AUTH <password> called", "the server has no password; leave it out of the URL", false},
    {"ERR DB index", "the server has no database of this number", false},
    {"ERR max number of clients", "the server accepts no more connections", false},
    {"BUSY", "the server is busy with a script of another client", false},
    {"ERR Connection timed out", "the proxy's server does not answer", true},
    {WEIR_REDIS_TABLE_IS_FULL,
     "the server names another node, and 256 are known already, which is the most: those that own "
     "nothing are forgotten within seconds",
     false},
    {"", NULL, true}, /* a proxy's, or one not known here */
};
enum { CAUSE_COUNT = sizeof causes / sizeof causes[0] };

weir_outcome weir_redis_refusal_classify(const weir_redis_reply *error, unsigned *cause) {
  *cause = 0;
  while (!weir_redis_reply_starts(error, causes[*cause].prefix))
    ++*cause;
  return causes[*cause].doubt ? WEIR_UNKNOWN : WEIR_REFUSED;
}

bool weir_redis_refusal_bars(const weir_redis_reply *error) {
  return weir_redis_reply_starts(error, "NOPERM") ||
         weir_redis_reply_starts(error, "ERR unknown command");
}

bool weir_redis_refusal_lacks(const weir_redis_reply *error) {
  return weir_redis_refusal_bars(error) || weir_redis_reply_starts(error, "ERR syntax error") ||
         weir_redis_reply_starts(error, "ERR wrong number of arguments");
}

bool weir_redis_refusal_is_foreign(const weir_redis_reply *error) {
  return weir_redis_reply_starts(error, "ERR value is not an integer");
}

bool weir_redis_refusal_is_demotion(const weir_redis_reply *error) {
  return weir_redis_reply_starts(error, "READONLY") || weir_redis_reply_starts(error, "MASTERDOWN");
}

void weir_redis_refusal_explain(unsigned cause, const char *name, const weir_operation *operation,
                                const weir_redis_reply *error, weir_message *message) {
  if (cause >= CAUSE_COUNT) cause = CAUSE_COUNT - 1;
  bool key_denied = cause == 0 && error != NULL && strstr(error->text, " key") != NULL;
  if (key_denied) {
    weir_message_set(message,
                     "the user may not touch this key: let it with ACL SETUSER <user> ~weir:*");
  } else if (cause == 0) {
    weir_message_set(message,
                     "the user may not run this command: let it with ACL SETUSER <user> +%s", name);
  } else if (causes[cause].text != NULL) {
    weir_message_set(message, "%s", causes[cause].text);
  } else {
    weir_message_set(message, "the server answered \"%s\"",
                     error != NULL ? error->text : "an error");
  }
  if (operation == NULL) {
    weir_message_prefix(message, "%s: ", name);
  } else {
    char key[WEIR_KEY_SHOWN_BYTES];
    weir_message_prefix(message, "%s of key \"%s\": ", name,
                        weir_operation_show_key(operation, key));
  }
}

/* --- where to instead ----------------------------------------------------------------------------
 */

typedef struct piece {
  const char *text;
  size_t length;
} piece;

static bool take_word(piece *rest, const char *word) {
  size_t length = strlen(word);
  if (rest->length < length || memcmp(rest->text, word, length) != 0) return false;
  if (rest->length > length && rest->text[length] != ' ') return false;
  rest->text += length;
  rest->length -= length;
  while (rest->length > 0 && rest->text[0] == ' ') {
    rest->text++;
    rest->length--;
  }
  return true;
}

/* Digits up to `most`, to the end of the piece. */
static bool read_number(piece digits, unsigned most, uint16_t *number) {
  unsigned value = 0;
  if (digits.length == 0) return false;
  for (size_t i = 0; i < digits.length; i++) {
    if (digits.text[i] < '0' || digits.text[i] > '9') return false;
    value = value * 10 + (unsigned)(digits.text[i] - '0');
    if (value > most) return false;
  }
  *number = (uint16_t)value;
  return true;
}

/* "host:port"; the port is behind the last colon. The host is what may stand in a URL: a name,
 * IPv4, IPv6, or IPv6 with a zone. */
static bool read_endpoint(piece endpoint, weir_redirect *redirect) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:%";
  size_t colon = endpoint.length;
  while (colon > 0 && endpoint.text[colon - 1] != ':')
    colon--;
  if (colon == 0) return false;
  const piece port = {endpoint.text + colon, endpoint.length - colon};
  piece host = {endpoint.text, colon - 1};
  redirect->unknown = host.length == 1 && host.text[0] == '?';
  if (redirect->unknown) return true;
  if (!read_number(port, UINT16_MAX, &redirect->port) || redirect->port == 0) return false;
  if (host.length > 2 && host.text[0] == '[' && host.text[host.length - 1] == ']')
    host = (piece){host.text + 1, host.length - 2};
  redirect->host = host.text;
  redirect->length = host.length;
  for (size_t i = 0; i < host.length; i++)
    if (host.text[i] == '\0' || strchr(accepted, host.text[i]) == NULL) return false;
  return host.length <= WEIR_REDIS_HOST_MOST;
}

bool weir_redirect_read(const char *text, size_t length, weir_redirect *redirect) {
  piece rest = {text, length};
  *redirect = (weir_redirect){.host = ""};
  while (rest.length > 0 && strchr(" \r\n", rest.text[rest.length - 1]) != NULL)
    rest.length--;
  take_word(&rest, "ERR");
  if (take_word(&rest, "TRYAGAIN")) {
    redirect->kind = WEIR_REDIRECT_TRYAGAIN;
    return true;
  }
  if (take_word(&rest, "CLUSTERDOWN")) {
    redirect->kind = WEIR_REDIRECT_CLUSTERDOWN;
    return true;
  }
  bool moved = take_word(&rest, "MOVED");
  if (!moved && !take_word(&rest, "ASK")) return false;
  redirect->kind = moved ? WEIR_REDIRECT_MOVED : WEIR_REDIRECT_ASK;
  const char *space = memchr(rest.text, ' ', rest.length);
  if (space == NULL) return false;
  const piece slot = {rest.text, (size_t)(space - rest.text)};
  const piece endpoint = {space + 1, rest.length - slot.length - 1};
  return read_number(slot, WEIR_REDIS_SLOTS - 1, &redirect->slot) &&
         read_endpoint(endpoint, redirect);
}
