/* Reads one line of a web server's access log, in the common or combined format. */
#include "access_log.h"

#include <stdio.h>
#include <string.h>

#include "number.h"

#define LINE_FORM \
  "a line is CLIENT IDENT USER [TIME] \"REQUEST\" STATUS BYTES, and more if you like"

/* What is left of a line. */
struct rest {
  const char *at;
  const char *end;
};

static bool reject(weir_message *message, const char *problem) {
  snprintf(message->text, sizeof message->text, "%s; " LINE_FORM, problem);
  return false;
}

/* Everything up to the first blank, which is taken too. False: there is no blank, or nothing before
 * it. */
static bool take_word(struct rest *rest, const char **word, size_t *length) {
  const char *blank =
      rest->at < rest->end ? memchr(rest->at, ' ', (size_t)(rest->end - rest->at)) : NULL;
  if (blank == NULL || blank == rest->at) return false;
  *word = rest->at;
  *length = (size_t)(blank - rest->at);
  rest->at = blank + 1;
  return true;
}

static bool take_text(struct rest *rest, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, text, length) != 0) return false;
  rest->at += length;
  return true;
}

/* Exactly `digits` digits, with a value up to `most`. */
static bool take_number(struct rest *rest, size_t digits, int64_t most, int64_t *value) {
  if ((size_t)(rest->end - rest->at) < digits ||
      !weir_cli_parse_integer(rest->at, digits, most, value))
    return false;
  rest->at += digits;
  return true;
}

/* --- time ------------------------------------------------------------------------------------ */

static bool take_month(struct rest *rest, int64_t *month) {
  static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (*month = 1; *month <= 12; ++*month)
    if (take_text(rest, names[*month - 1])) return true;
  return false;
}

static bool is_leap(int64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t days_in(int64_t month, int64_t year) {
  static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1 January 1970 to that day. */
static int64_t days_until(int64_t year, int64_t month, int64_t day) {
  int64_t before = year - 1;
  int64_t days = before * 365 + before / 4 - before / 100 + before / 400 - 719162;
  for (int64_t m = 1; m < month; m++)
    days += days_in(m, year);
  return days + day - 1;
}

static bool take_zone(struct rest *rest, int64_t *seconds) {
  int64_t hours, minutes;
  bool west = take_text(rest, "-");
  if (!west && !take_text(rest, "+")) return false;
  if (!take_number(rest, 2, 14, &hours) || !take_number(rest, 2, 59, &minutes)) return false;
  *seconds = (hours * 60 + minutes) * 60;
  if (west) *seconds = -*seconds;
  return true;
}

/* 10/Oct/2000:13:55:36 -0700, a leap second being the end of its minute. */
static bool take_time(struct rest *rest, int64_t *time_us) {
  int64_t day, month, year, hour, minute, second, zone;
  if (!take_number(rest, 2, 31, &day) || !take_text(rest, "/") || !take_month(rest, &month) ||
      !take_text(rest, "/") || !take_number(rest, 4, 9998, &year) || !take_text(rest, ":") ||
      !take_number(rest, 2, 23, &hour) || !take_text(rest, ":") ||
      !take_number(rest, 2, 59, &minute) || !take_text(rest, ":") ||
      !take_number(rest, 2, 60, &second) || !take_text(rest, " ") || !take_zone(rest, &zone))
    return false;
  if (year < 1971 || day < 1 || day > days_in(month, year)) return false;
  int64_t hours = days_until(year, month, day) * 24 + hour;
  *time_us = ((hours * 60 + minute) * 60 + second - zone) * 1000000;
  return true;
}

/* --- the line -------------------------------------------------------------------------------- */

/* A quoted text, in which a backslash stands before a quote that does not end it. */
static bool take_quoted(struct rest *rest, const char **text, size_t *length) {
  if (!take_text(rest, "\"")) return false;
  const char *at = rest->at;
  while (at < rest->end && *at != '"')
    at += *at == '\\' && rest->end - at > 1 ? 2 : 1;
  if (at >= rest->end) return false;
  *text = rest->at;
  *length = (size_t)(at - rest->at);
  rest->at = at + 1;
  return true;
}

/* "GET /path?query HTTP/1.1": what stands between the blanks, without the query. Anything may be
 * logged as a request; what has no such part has no path. */
static void find_path(const char *request, size_t length, weir_access *access) {
  struct rest words = {request, request + length};
  const char *method;
  size_t method_length;
  if (!take_word(&words, &method, &method_length)) return;
  access->key = words.at;
  while (words.at < words.end && *words.at != ' ' && *words.at != '?')
    words.at++;
  access->key_length = (size_t)(words.at - access->key);
}

static bool take_status_and_bytes(struct rest *rest) {
  int64_t number;
  if (!take_text(rest, " ") || !take_number(rest, 3, 999, &number) || !take_text(rest, " "))
    return false;
  if (take_text(rest, "-")) return rest->at == rest->end || *rest->at == ' ';
  const char *first = rest->at;
  while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
    rest->at++;
  return rest->at > first && (rest->at == rest->end || *rest->at == ' ');
}

/* The user's name is the only part that may hold blanks; the time's bracket ends it. */
static bool take_user(struct rest *rest, const char **user, size_t *length) {
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

static void choose_key(weir_access *access, const char *text, size_t length) {
  if (length == 1 && text[0] == '-') return;
  access->key = text;
  access->key_length = length;
}

bool weir_access_log_parse(const char *text, size_t length, weir_access_key key,
                           weir_access *access, weir_message *message) {
  if (length > 0 && text[length - 1] == '\r') length--;
  struct rest rest = {text, text + length};
  const char *client, *ident, *user, *request;
  size_t client_length, ident_length, user_length, request_length;
  *access = (weir_access){0};
  if (length == 0) return reject(message, "blank line");
  if (memchr(text, '\0', length) != NULL) return reject(message, "NUL byte");
  if (!take_word(&rest, &client, &client_length) || !take_word(&rest, &ident, &ident_length) ||
      !take_user(&rest, &user, &user_length))
    return reject(message, "no client, ident, user and [ before the time");
  if (!take_time(&rest, &access->time_us) || !take_text(&rest, "] "))
    return reject(message, "the time is not like [10/Oct/2000:13:55:36 -0700]");
  if (!take_quoted(&rest, &request, &request_length))
    return reject(message, "the request is not between quotes");
  if (!take_status_and_bytes(&rest))
    return reject(message,
                  "no status of three digits and number of bytes (or -) after the request");
  if (key == WEIR_ACCESS_CLIENT) choose_key(access, client, client_length);
  if (key == WEIR_ACCESS_USER) choose_key(access, user, user_length);
  if (key == WEIR_ACCESS_PATH) find_path(request, request_length, access);
  return true;
}
