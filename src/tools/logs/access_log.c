/* The common form of an access log, with what combined and vhost_combined add to it; and the fields
 * that all forms set. */
#include "access_log.h"

#include <stdio.h>
#include <string.h>

#include "line.h"

#define LINE_FORM \
  "a line is [HOST:PORT] CLIENT IDENT USER [TIME] \"REQUEST\" STATUS BYTES, and more if you like"

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

/* Everything up to the first blank, which is taken too. False: there is no blank, or nothing before
 * it. */
static bool take_word(weir_line_rest *rest, weir_access_text *word) {
  const char *blank =
      rest->at < rest->end ? memchr(rest->at, ' ', (size_t)(rest->end - rest->at)) : NULL;
  if (blank == NULL || blank == rest->at) return false;
  *word = (weir_access_text){rest->at, (size_t)(blank - rest->at)};
  rest->at = blank + 1;
  return true;
}

/* A quoted text, in which a backslash stands before a quote that does not end it. */
static bool take_quoted(weir_line_rest *rest, weir_access_text *text) {
  if (!weir_line_take_text(rest, "\"")) return false;
  const char *at = rest->at;
  while (at < rest->end && *at != '"')
    at += *at == '\\' && rest->end - at > 1 ? 2 : 1;
  if (at >= rest->end) return false;
  *text = (weir_access_text){rest->at, (size_t)(at - rest->at)};
  rest->at = at + 1;
  return true;
}

/* --- fields ---------------------------------------------------------------------------------- */

void weir_access_set(weir_access *access, int field, const char *text, size_t length) {
  const char *query = field == WEIR_ACCESS_PATH && length > 0 ? memchr(text, '?', length) : NULL;
  if (query != NULL) length = (size_t)(query - text);
  bool dash = length == 1 && text[0] == '-';
  if (!dash) access->fields[field] = (weir_access_text){text, length};
}

void weir_access_set_request(weir_access *access, const char *request, size_t length) {
  weir_line_rest words = {request, request + length};
  weir_access_text method, path;
  if (!take_word(&words, &method)) return;
  weir_access_set(access, WEIR_ACCESS_METHOD, method.at, method.length);
  size_t left = (size_t)(words.end - words.at);
  const char *blank = left > 0 ? memchr(words.at, ' ', left) : NULL;
  path = (weir_access_text){words.at, blank != NULL ? (size_t)(blank - words.at) : left};
  weir_access_set(access, WEIR_ACCESS_PATH, path.at, path.length);
}

/* --- a line ---------------------------------------------------------------------------------- */

/* From the client on. NULL, or what is wrong. */
static const char *parse_common(weir_line_rest rest, weir_access *access) {
  weir_access_text client, ident, request;
  static const char no_client[] = "no client, ident, user and [ before the time";
  if (!take_word(&rest, &client) || !take_word(&rest, &ident)) return no_client;
  /* The user's name is the only part that may hold blanks; the time's bracket ends it. */
  const char *user = rest.at;
  while (!weir_line_take_text(&rest, " [")) {
    if (rest.at == rest.end) return no_client;
    rest.at++;
  }
  const char *user_end = rest.at - strlen(" [");
  if (user_end == user) return no_client;

  if (!weir_line_take_time(&rest, &access->time_us) || !weir_line_take_text(&rest, "] "))
    return "the time is not like [10/Oct/2000:13:55:36 -0700]";
  if (!take_quoted(&rest, &request)) return "the request is not between quotes";

  bool good = weir_line_take_text(&rest, " ");
  const char *status = rest.at;
  good = good && weir_line_take_digits(&rest) == 3 && weir_line_take_text(&rest, " ");
  const char *bytes = rest.at;
  good = good && (weir_line_take_text(&rest, "-") || weir_line_take_digits(&rest) > 0);
  if (!good || (rest.at < rest.end && *rest.at != ' '))
    return "no status of three digits and number of bytes (or -) after the request";
  weir_access_set(access, WEIR_ACCESS_CLIENT, client.at, client.length);
  weir_access_set(access, WEIR_ACCESS_USER, user, (size_t)(user_end - user));
  weir_access_set_request(access, request.at, request.length);
  weir_access_set(access, WEIR_ACCESS_STATUS, status, 3);
  weir_access_set(access, WEIR_ACCESS_BYTES, bytes, (size_t)(rest.at - bytes));

  /* Referer and agent of the combined form, where they are. */
  for (int field = WEIR_ACCESS_REFERER; field <= WEIR_ACCESS_AGENT; field++) {
    weir_access_text text;
    if (!weir_line_take_text(&rest, " ") || !take_quoted(&rest, &text)) break;
    weir_access_set(access, field, text.at, text.length);
  }
  return NULL;
}

/* "www.example.com:80 " before the client, as vhost_combined has it; an IPv6 address is no host.
 * What stands behind a host must be a whole line: a client with a port looks like a host. */
static bool parse_vhost(weir_line_rest rest, weir_access *access) {
  weir_access_text host;
  size_t digits = 0;
  if (!take_word(&rest, &host)) return false;
  while (digits < host.length && host.at[host.length - digits - 1] >= '0' &&
         host.at[host.length - digits - 1] <= '9')
    digits++;
  if (digits == 0 || host.length < digits + 2 || host.at[host.length - digits - 1] != ':')
    return false;
  host.length -= digits + 1;
  if (host.at[0] != '[' && memchr(host.at, ':', host.length) != NULL) return false;
  if (parse_common(rest, access) != NULL || access->fields[WEIR_ACCESS_CLIENT].length == 0)
    return false;
  weir_access_set(access, WEIR_ACCESS_HOST, host.at, host.length);
  return true;
}

bool weir_access_log_parse(const char *text, size_t length, weir_access *access,
                           weir_message *message) {
  if (length > 0 && text[length - 1] == '\r') length--;
  const weir_line_rest rest = {text, text + length};
  const char *problem = NULL;
  *access = (weir_access){0};
  if (length == 0)
    problem = "blank line";
  else if (memchr(text, '\0', length) != NULL)
    problem = "NUL byte";
  else if (!parse_vhost(rest, access)) {
    *access = (weir_access){0};
    problem = parse_common(rest, access);
  }
  if (problem == NULL) return true;
  snprintf(message->text, sizeof message->text, "%s; " LINE_FORM, problem);
  return false;
}
