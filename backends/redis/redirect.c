#include "redis/redirect.h"

#include <string.h>

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

/* A name, IPv4, IPv6, or IPv6 with a zone: what may stand in a URL. */
static bool is_host(piece host) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:%";
  if (host.length > WEIR_REDIS_HOST_MOST) return false;
  for (size_t i = 0; i < host.length; i++)
    if (host.text[i] == '\0' || strchr(accepted, host.text[i]) == NULL) return false;
  return true;
}

/* "host:port"; the port is behind the last colon. */
static bool read_endpoint(piece endpoint, weir_redirect *redirect) {
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
  return is_host(host);
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
