/* Reads one line of a web server's access log, in the common, combined or vhost_combined format. */
#include "access_log.h"

#include <stdio.h>
#include <string.h>

#include "access_log_time.h"

#define LINE_FORM \
  "a line is [HOST:PORT] CLIENT IDENT USER [TIME] \"REQUEST\" STATUS BYTES, and more if you like"

static bool reject(weir_message *message, const char *problem) {
  snprintf(message->text, sizeof message->text, "%s; " LINE_FORM, problem);
  return false;
}

/* Everything up to the first blank, which is taken too. False: there is no blank, or nothing before
 * it. */
static bool take_word(weir_access_rest *rest, const char **word, size_t *length) {
  const char *blank =
      rest->at < rest->end ? memchr(rest->at, ' ', (size_t)(rest->end - rest->at)) : NULL;
  if (blank == NULL || blank == rest->at) return false;
  *word = rest->at;
  *length = (size_t)(blank - rest->at);
  rest->at = blank + 1;
  return true;
}

/* --- the line -------------------------------------------------------------------------------- */

/* A quoted text, in which a backslash stands before a quote that does not end it. */
static bool take_quoted(weir_access_rest *rest, const char **text, size_t *length) {
  if (!weir_access_take_text(rest, "\"")) return false;
  const char *at = rest->at;
  while (at < rest->end && *at != '"')
    at += *at == '\\' && rest->end - at > 1 ? 2 : 1;
  if (at >= rest->end) return false;
  *text = rest->at;
  *length = (size_t)(at - rest->at);
  rest->at = at + 1;
  return true;
}

void weir_access_set(weir_access *access, int field, const char *text, size_t length) {
  bool dash = length == 1 && text[0] == '-';
  if (!dash) access->fields[field] = (weir_access_text){text, length};
}

void weir_access_set_path(weir_access *access, const char *text, size_t length) {
  const char *query = length > 0 ? memchr(text, '?', length) : NULL;
  weir_access_set(access, WEIR_ACCESS_PATH, text, query != NULL ? (size_t)(query - text) : length);
}

void weir_access_set_request(weir_access *access, const char *request, size_t length) {
  weir_access_rest words = {request, request + length};
  const char *method;
  size_t method_length;
  if (!take_word(&words, &method, &method_length)) return;
  weir_access_set(access, WEIR_ACCESS_METHOD, method, method_length);
  size_t left = (size_t)(words.end - words.at);
  const char *blank = left > 0 ? memchr(words.at, ' ', left) : NULL;
  weir_access_set_path(access, words.at, blank != NULL ? (size_t)(blank - words.at) : left);
}

static bool take_status_and_bytes(weir_access_rest *rest, weir_access *access) {
  if (!weir_access_take_text(rest, " ")) return false;
  const char *status = rest->at;
  size_t digits = 0;
  while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
    rest->at++, digits++;
  if (digits != 3 || !weir_access_take_text(rest, " ")) return false;
  weir_access_set(access, WEIR_ACCESS_STATUS, status, digits);
  const char *first = rest->at;
  if (!weir_access_take_text(rest, "-"))
    while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
      rest->at++;
  weir_access_set(access, WEIR_ACCESS_BYTES, first, (size_t)(rest->at - first));
  return rest->at > first && (rest->at == rest->end || *rest->at == ' ');
}

/* The user's name is the only part that may hold blanks; the time's bracket ends it. */
static bool take_user(weir_access_rest *rest, const char **user, size_t *length) {
  const char *first = rest->at;
  for (const char *at = first; at + 1 < rest->end; at++) {
    if (at[0] != ' ' || at[1] != '[') continue;
    *user = first;
    *length = (size_t)(at - first);
    rest->at = at + 2;
    return *length > 0;
  }
  return false;
}

/* Referer and agent of the combined format, where they are. */
static void take_more(weir_access_rest *rest, weir_access *access) {
  static const int fields[] = {WEIR_ACCESS_REFERER, WEIR_ACCESS_AGENT};
  for (size_t i = 0; i < 2; i++) {
    const char *text;
    size_t length;
    if (!weir_access_take_text(rest, " ") || !take_quoted(rest, &text, &length)) return;
    weir_access_set(access, fields[i], text, length);
  }
}

static bool parse_common(weir_access_rest rest, weir_access *access, weir_message *message) {
  const char *client, *ident, *user, *request;
  size_t client_length, ident_length, user_length, request_length;
  if (!take_word(&rest, &client, &client_length) || !take_word(&rest, &ident, &ident_length) ||
      !take_user(&rest, &user, &user_length))
    return reject(message, "no client, ident, user and [ before the time");
  if (!weir_access_take_time(&rest, &access->time_us) || !weir_access_take_text(&rest, "] "))
    return reject(message, "the time is not like [10/Oct/2000:13:55:36 -0700]");
  if (!take_quoted(&rest, &request, &request_length))
    return reject(message, "the request is not between quotes");
  if (!take_status_and_bytes(&rest, access))
    return reject(message,
                  "no status of three digits and number of bytes (or -) after the request");
  weir_access_set(access, WEIR_ACCESS_CLIENT, client, client_length);
  weir_access_set(access, WEIR_ACCESS_USER, user, user_length);
  weir_access_set_request(access, request, request_length);
  take_more(&rest, access);
  return true;
}

/* "www.example.com:80 ": what vhost_combined has before the client. An IPv6 address is none. */
static bool take_host(weir_access_rest *rest, const char **host, size_t *length) {
  if (!take_word(rest, host, length)) return false;
  size_t digits = 0;
  while (digits < *length && (*host)[*length - digits - 1] >= '0' &&
         (*host)[*length - digits - 1] <= '9')
    digits++;
  if (digits == 0 || *length < digits + 2 || (*host)[*length - digits - 1] != ':') return false;
  *length -= digits + 1;
  return memchr(*host, ':', *length) == NULL || (*host)[0] == '[';
}

/* What stands behind a host must be a whole line: a client with a port looks like a host. */
static bool parse_vhost(weir_access_rest rest, weir_access *access) {
  weir_message unused;
  const char *host;
  size_t length;
  if (!take_host(&rest, &host, &length) || !parse_common(rest, access, &unused) ||
      access->fields[WEIR_ACCESS_CLIENT].length == 0)
    return false;
  weir_access_set(access, WEIR_ACCESS_HOST, host, length);
  return true;
}

const char *weir_access_field_name(weir_access_field field) {
  static const char *const names[WEIR_ACCESS_FIELDS + 1] = {
      [WEIR_ACCESS_CLIENT] = "client", [WEIR_ACCESS_USER] = "user",
      [WEIR_ACCESS_PATH] = "path",     [WEIR_ACCESS_METHOD] = "method",
      [WEIR_ACCESS_STATUS] = "status", [WEIR_ACCESS_BYTES] = "bytes",
      [WEIR_ACCESS_HOST] = "host",     [WEIR_ACCESS_REFERER] = "referer",
      [WEIR_ACCESS_AGENT] = "agent",   [WEIR_ACCESS_FORWARDED] = "forwarded",
  };
  return names[field];
}

bool weir_access_log_parse(const char *text, size_t length, weir_access *access,
                           weir_message *message) {
  if (length > 0 && text[length - 1] == '\r') length--;
  weir_access_rest rest = {text, text + length};
  *access = (weir_access){0};
  if (length == 0) return reject(message, "blank line");
  if (memchr(text, '\0', length) != NULL) return reject(message, "NUL byte");
  if (parse_vhost(rest, access)) return true;
  *access = (weir_access){0};
  return parse_common(rest, access, message);
}
