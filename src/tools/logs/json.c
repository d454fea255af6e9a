/* Lines that are JSON objects: each field is the first member there is of those that servers write
 * it as. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

#include "access_log.h"

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
