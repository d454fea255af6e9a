/* The common form of an access log, with what combined and vhost_combined add to it; and the fields
 * that all forms set. */
#include "access_log.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <weir/backend.h>

#include "number.h"

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
 * The rest behind a host must be a whole line: a client with a port looks like a host. */
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

/* --- reading along a line -----------------------------------------------------------------------
 *
 * Times as logs write them: each is taken piece by piece, and counted as microseconds since 1970.
 */

bool weir_line_take_text(weir_line_rest *rest, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, text, length) != 0) return false;
  rest->at += length;
  return true;
}

size_t weir_line_take_digits(weir_line_rest *rest) {
  const char *first = rest->at;
  while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
    rest->at++;
  return (size_t)(rest->at - first);
}

/* Exactly `digits` digits, with a value up to `most`. */
static bool take_number(weir_line_rest *rest, size_t digits, int64_t most, int64_t *value) {
  if ((size_t)(rest->end - rest->at) < digits || !weir_number_read(rest->at, digits, most, value))
    return false;
  rest->at += digits;
  return true;
}

/* 13:55:36, as seconds of its day. */
static bool take_clock(weir_line_rest *rest, int64_t *seconds) {
  int64_t hour, minute, second;
  if (!take_number(rest, 2, 23, &hour) || !weir_line_take_text(rest, ":") ||
      !take_number(rest, 2, 59, &minute) || !weir_line_take_text(rest, ":") ||
      !take_number(rest, 2, 60, &second))
    return false;
  *seconds = (hour * 60 + minute) * 60 + second;
  return true;
}

/* Digits after a point, as microseconds; what is finer is cut off. None is 0. */
static int64_t take_fraction(weir_line_rest *rest) {
  int64_t us = 0;
  if (!weir_line_take_text(rest, ".")) return 0;
  for (int64_t unit = 100000; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9';
       unit /= 10)
    us += (*rest->at++ - '0') * unit;
  return us;
}

/* -0700, as seconds to the east; `between` may stand between hours and minutes. */
static bool take_zone(weir_line_rest *rest, const char *between, int64_t *seconds) {
  int64_t hours, minutes;
  bool west = weir_line_take_text(rest, "-");
  if (!west && !weir_line_take_text(rest, "+")) return false;
  if (!take_number(rest, 2, 14, &hours)) return false;
  (void)weir_line_take_text(rest, between);
  if (!take_number(rest, 2, 59, &minutes)) return false;
  *seconds = (hours * 60 + minutes) * (west ? -60 : 60);
  return true;
}

/* False where the calendar has no such day. Up to the year 9998 microseconds fit 64 bits. */
static bool count_time(int64_t year, int64_t month, int64_t day, int64_t seconds,
                       int64_t *time_us) {
  static const int64_t days_in[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (year < 1971 || month < 1 || day < 1) return false;
  if (day > days_in[month - 1] + (month == 2 ? leap : 0)) return false;
  int64_t before = year - 1; /* 719162: days from 1 January of the year 1 to that of 1970 */
  int64_t days = before * 365 + before / 4 - before / 100 + before / 400 - 719162 + day - 1;
  for (int64_t m = 1; m < month; m++)
    days += days_in[m - 1] + (m == 2 ? leap : 0);
  *time_us = (days * 24 * 3600 + seconds) * 1000000;
  return true;
}

bool weir_line_take_time(weir_line_rest *rest, int64_t *time_us) {
  static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int64_t day, month = 1, year, seconds, zone;
  if (!take_number(rest, 2, 31, &day) || !weir_line_take_text(rest, "/")) return false;
  while (month <= 12 && !weir_line_take_text(rest, months[month - 1]))
    month++;
  return month <= 12 && weir_line_take_text(rest, "/") && take_number(rest, 4, 9998, &year) &&
         weir_line_take_text(rest, ":") && take_clock(rest, &seconds) &&
         weir_line_take_text(rest, " ") && take_zone(rest, "", &zone) &&
         count_time(year, month, day, seconds - zone, time_us);
}

bool weir_line_take_iso_time(weir_line_rest *rest, int64_t *time_us) {
  int64_t day, month, year, seconds, us, zone = 0;
  if (!take_number(rest, 4, 9998, &year) || !weir_line_take_text(rest, "-") ||
      !take_number(rest, 2, 12, &month) || !weir_line_take_text(rest, "-") ||
      !take_number(rest, 2, 31, &day) ||
      (!weir_line_take_text(rest, "T") && !weir_line_take_text(rest, " ")) ||
      !take_clock(rest, &seconds))
    return false;
  us = take_fraction(rest);
  bool is_utc = rest->at == rest->end || weir_line_take_text(rest, "Z");
  if (!is_utc && !take_zone(rest, ":", &zone)) return false;
  if (!count_time(year, month, day, seconds - zone, time_us)) return false;
  *time_us += us;
  return true;
}

bool weir_line_take_seconds(weir_line_rest *rest, int64_t *time_us) {
  static const int64_t latest_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  int64_t whole;
  const char *first = rest->at;
  size_t digits = weir_line_take_digits(rest);
  if (!weir_number_read(first, digits, latest_us, &whole)) return false;
  int64_t us = take_fraction(rest);
  if (whole >= INT64_C(100000000000000))
    *time_us = whole;
  else if (whole >= INT64_C(100000000000))
    *time_us = whole * 1000 + us / 1000;
  else
    *time_us = whole * 1000000 + us;
  return *time_us <= latest_us;
}

bool weir_line_take_duration(weir_line_rest *rest, int64_t unit_us, int64_t *duration_us) {
  static const int64_t most_us = INT64_C(400) * 24 * 3600 * 1000000;
  int64_t whole;
  const char *first = rest->at;
  size_t digits = weir_line_take_digits(rest);
  if (!weir_number_read(first, digits, most_us / unit_us, &whole)) return false;
  *duration_us = whole * unit_us + take_fraction(rest) * unit_us / 1000000;
  return true;
}

/* --- lines that are JSON ------------------------------------------------------------------------
 *
 * Lines that are JSON objects: each field is the first member there is of those that servers write
 * it as. */

/* As servers call them, the likeliest first; a point leads into an object within. */
static const char *const times[] = {"time",       "ts",           "timestamp", "@timestamp",
                                    "time_local", "time_iso8601", "msec",      NULL};
static const char *const names[WEIR_ACCESS_FIELDS][9] = {
    [WEIR_ACCESS_CLIENT] = {"client", "remote_addr", "remote_ip", "client_ip", "clientip", "ip",
                            "request.client_ip", "request.remote_ip"},
    [WEIR_ACCESS_USER] = {"user", "remote_user", "user_id"},
    [WEIR_ACCESS_PATH] = {"path", "uri", "request_uri", "url", "request.uri"},
    [WEIR_ACCESS_METHOD] = {"method", "request_method", "request.method"},
    [WEIR_ACCESS_STATUS] = {"status", "status_code"},
    [WEIR_ACCESS_BYTES] = {"bytes", "body_bytes_sent", "bytes_sent", "size"},
    [WEIR_ACCESS_HOST] = {"host", "http_host", "server_name", "request.host"},
    [WEIR_ACCESS_REFERER] = {"referer", "http_referer", "request.headers.Referer"},
    [WEIR_ACCESS_AGENT] = {"agent", "user_agent", "http_user_agent", "request.headers.User-Agent"},
    [WEIR_ACCESS_FORWARDED] = {"forwarded", "http_x_forwarded_for", "x_forwarded_for",
                               "request.headers.X-Forwarded-For"},
};

/* A member of that name, else one within; of a list the last, which a header's nearest proxy has
 * written. NULL: none that is a text or a number. */
static const json_t *look_up(const json_t *object, const char *name, size_t length) {
  const json_t *found = json_object_getn(object, name, length);
  for (const char *point = name; found == NULL && point != NULL;) {
    point = memchr(name, '.', length);
    if (point == NULL || !json_is_object(object)) break;
    object = json_object_getn(object, name, (size_t)(point - name));
    length -= (size_t)(point + 1 - name);
    name = point + 1;
    found = json_object_getn(object, name, length);
  }
  if (json_is_array(found)) found = json_array_get(found, json_array_size(found) - 1);
  return json_is_string(found) || json_is_number(found) ? found : NULL;
}

static const json_t *look_up_any(const json_t *object, const char *const *list) {
  const json_t *found = NULL;
  for (; *list != NULL && found == NULL; list++)
    found = look_up(object, *list, strlen(*list));
  return found;
}

/* Numbers as text: whole ones as they are. */
static weir_access_text text_of(const json_t *value, char number[WEIR_ACCESS_NUMBER_BYTES]) {
  if (json_is_string(value))
    return (weir_access_text){json_string_value(value), json_string_length(value)};
  int length;
  if (json_is_integer(value))
    length =
        snprintf(number, WEIR_ACCESS_NUMBER_BYTES, "%" PRId64, (int64_t)json_integer_value(value));
  else
    length = snprintf(number, WEIR_ACCESS_NUMBER_BYTES, "%.6f", json_real_value(value));
  size_t written = length < 0 ? 0 : (size_t)length;
  if (written >= WEIR_ACCESS_NUMBER_BYTES) written = WEIR_ACCESS_NUMBER_BYTES - 1;
  return (weir_access_text){number, written};
}

/* `value`: NULL where there is none. */
static bool read_time(const json_t *value, int64_t *time_us) {
  bool (*const forms[])(weir_line_rest *, int64_t *) = {
      weir_line_take_iso_time, weir_line_take_seconds, weir_line_take_time};
  char number[WEIR_ACCESS_NUMBER_BYTES];
  if (value == NULL) return false;
  weir_access_text text = text_of(value, number);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    weir_line_rest rest = {text.at, text.at + text.length};
    if (forms[i](&rest, time_us) && rest.at == rest.end) return true;
  }
  return false;
}

void weir_access_json_clean_up(weir_access_json *json) {
  json_decref(json->line);
  json->line = NULL;
}

bool weir_access_json_parse(weir_access_json *json, const char *text, size_t length,
                            weir_access *access, weir_message *message) {
  json_error_t why;
  weir_access_json_clean_up(json);
  *access = (weir_access){0};
  json->line = json_loadb(text, length, 0, &why);
  if (!json_is_object(json->line)) {
    weir_message_set(message, "no JSON object on the line");
    return false;
  }
  if (!read_time(look_up_any(json->line, times), &access->time_us)) {
    weir_message_set(message,
                     "no time, ts, timestamp, @timestamp, time_local, time_iso8601 or msec "
                     "that is a time");
    return false;
  }
  /* A request's line says method and path, which members of their own say better. */
  const json_t *request = json_object_get(json->line, "request");
  if (json_is_string(request))
    weir_access_set_request(access, json_string_value(request), json_string_length(request));
  int others = json->others != NULL ? (int)json->others->count : 0;
  for (int field = 0; field < WEIR_ACCESS_FIELDS + others; field++) {
    const json_t *value;
    if (field < WEIR_ACCESS_FIELDS) {
      value = look_up_any(json->line, names[field]);
    } else {
      const weir_access_text *name = &json->others->names[field - WEIR_ACCESS_FIELDS];
      value = look_up(json->line, name->at, name->length);
    }
    if (value == NULL) continue;
    weir_access_text found = text_of(value, json->numbers[field]);
    weir_access_set(access, field, found.at, found.length);
  }
  return true;
}
