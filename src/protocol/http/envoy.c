/* RateLimitRequest from JSON, RateLimitResponse to it. Members have two spellings each, null stands
 * for the default, and numbers may be strings, as proto3 has it. */
#include "protocol/http/envoy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
  weir_envoy_request *request;
  weir_envoy_descriptor *descriptor; /* that is being read */
  weir_entry *entry;
  weir_http_refusal *refusal;
} reader;

enum { WHERE_BYTES = 96 };

/* `where`: the path of what is read, "descriptors[0].limit.unit". */
typedef bool read_value(reader *self, json_t *value, const char *where);

typedef struct member {
  const char *name, *other; /* its second spelling */
  read_value *read;
} member;

static bool refuse(reader *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(reader *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(self->refusal->why.text, sizeof self->refusal->why.text, format, arguments);
  va_end(arguments);
  for (char *at = self->refusal->why.text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?'; /* of a name that was cut, perhaps within a character */
  self->refusal->status = 400;
  return false;
}

/* --- values -------------------------------------------------------------------------------------
 */

static bool read_text(reader *self, json_t *value, const char *where, const char **text,
                      size_t *length) {
  if (!json_is_string(value)) return refuse(self, "%s: a string is accepted", where);
  *text = json_string_value(value);
  *length = json_string_length(value);
  return true;
}

/* What is above `most` is `most`. */
static bool read_number(reader *self, json_t *value, const char *where, int64_t most,
                        int64_t *number) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  size_t digits = json_is_string(value) ? json_string_length(value) : 0;
  bool is_text = digits > 0 && digits <= 20 && strspn(text, "0123456789") == digits;
  int64_t read = -1;
  if (json_is_integer(value)) read = json_integer_value(value);
  if (is_text && !weir_number_read(text, digits, &read)) read = most; /* more than 18 digits */
  if (read < 0) return refuse(self, "%s: a whole number from 0 on is accepted", where);
  *number = read < most ? read : most;
  return true;
}

static bool read_object(reader *self, json_t *object, const char *where, const member *members,
                        size_t count) {
  char inner[WHERE_BYTES];
  const char *name;
  json_t *value;
  if (!json_is_object(object)) return refuse(self, "%s: an object is accepted", where);
  json_object_foreach(object, name, value) {
    const member *found = NULL;
    for (size_t i = 0; i < count; i++)
      if (strcmp(name, members[i].name) == 0 || strcmp(name, members[i].other) == 0)
        found = &members[i];
    snprintf(inner, sizeof inner, "%.54s%s%.40s", where, where[0] != '\0' ? "." : "", name);
    if (found == NULL) return refuse(self, "%s: no member of this name is known", inner);
    if (strcmp(name, found->name) != 0 && json_object_get(object, found->name) != NULL)
      return refuse(self, "%s: stands there as %s too", inner, found->name);
    if (!json_is_null(value) && !found->read(self, value, inner)) return false;
  }
  return true;
}

/* Reads each of a list; how it is called in messages goes with it. */
static bool read_list(reader *self, json_t *list, const char *where, read_value *read) {
  char inner[WHERE_BYTES];
  if (!json_is_array(list)) return refuse(self, "%s: a list is accepted", where);
  for (size_t i = 0; i < json_array_size(list); i++) {
    snprintf(inner, sizeof inner, "%.64s[%zu]", where, i);
    if (!read(self, json_array_get(list, i), inner)) return false;
  }
  return true;
}

/* --- descriptors --------------------------------------------------------------------------------
 */

static bool read_key(reader *self, json_t *value, const char *where) {
  return read_text(self, value, where, &self->entry->key, &self->entry->key_length);
}

static bool read_entry_value(reader *self, json_t *value, const char *where) {
  return read_text(self, value, where, &self->entry->value, &self->entry->value_length);
}

static bool read_entry(reader *self, json_t *value, const char *where) {
  static const member members[] = {{"key", "key", read_key}, {"value", "value", read_entry_value}};
  weir_envoy_request *request = self->request;
  if (request->entry_count == WEIR_ENVOY_ENTRIES_MOST)
    return refuse(self, "%s: more than %d entries", where, WEIR_ENVOY_ENTRIES_MOST);
  self->entry = &request->entries[request->entry_count++];
  *self->entry = (weir_entry){.key = "", .value = ""};
  if (!read_object(self, value, where, members, 2)) return false;
  self->descriptor->count++;
  return self->entry->key_length > 0 || refuse(self, "%s.key: it is empty or missing", where);
}

static bool read_entries(reader *self, json_t *value, const char *where) {
  return read_list(self, value, where, read_entry);
}

static bool read_requests(reader *self, json_t *value, const char *where) {
  int64_t *requests = &self->descriptor->requests;
  if (!read_number(self, value, where, INT64_MAX, requests)) return false;
  return *requests <= WEIR_CONFIG_REQUESTS_MOST ||
         refuse(self, "%s: up to %d is accepted", where, WEIR_CONFIG_REQUESTS_MOST);
}

/* The units of an override are numbered alike, but have no week. */
static bool read_unit(reader *self, json_t *value, const char *where) {
  const char *name = json_is_string(value) ? json_string_value(value) : "";
  for (int unit = WEIR_CONFIG_SECOND; unit <= WEIR_CONFIG_YEAR; unit++) {
    bool is_number = json_is_integer(value) && json_integer_value(value) == unit;
    if (!is_number && strcmp(name, weir_config_units[unit]) != 0) continue;
    self->descriptor->unit = (weir_config_unit)unit;
    return true;
  }
  return refuse(self, "%s: SECOND, MINUTE, HOUR, DAY, MONTH and YEAR are accepted", where);
}

static bool read_limit(reader *self, json_t *value, const char *where) {
  static const member members[] = {{"requestsPerUnit", "requests_per_unit", read_requests},
                                   {"unit", "unit", read_unit}};
  if (!read_object(self, value, where, members, 2)) return false;
  self->descriptor->has_limit = true;
  return self->descriptor->unit != WEIR_CONFIG_UNIT_UNKNOWN ||
         refuse(self, "%s.unit: it is missing", where);
}

static bool read_own_hits(reader *self, json_t *value, const char *where) {
  self->descriptor->has_hits = true;
  return read_number(self, value, where, WEIR_ASK_COST_MOST, &self->descriptor->hits);
}

static bool read_negative(reader *self, json_t *value, const char *where) {
  return json_is_false(value) || refuse(self, "%s: hits cannot be given back", where);
}

static bool read_descriptor(reader *self, json_t *value, const char *where) {
  static const member members[] = {{"entries", "entries", read_entries},
                                   {"limit", "limit", read_limit},
                                   {"hitsAddend", "hits_addend", read_own_hits},
                                   {"isNegativeHits", "is_negative_hits", read_negative}};
  weir_envoy_request *request = self->request;
  if (request->count == WEIR_ENVOY_DESCRIPTORS_MOST)
    return refuse(self, "%s: more than %d descriptors", where, WEIR_ENVOY_DESCRIPTORS_MOST);
  self->descriptor = &request->descriptors[request->count++];
  *self->descriptor = (weir_envoy_descriptor){.entries = &request->entries[request->entry_count]};
  return read_object(self, value, where, members, sizeof members / sizeof *members);
}

/* --- the request --------------------------------------------------------------------------------
 */

static bool read_domain(reader *self, json_t *value, const char *where) {
  return read_text(self, value, where, &self->request->domain, &self->request->domain_length);
}

static bool read_descriptors(reader *self, json_t *value, const char *where) {
  return read_list(self, value, where, read_descriptor);
}

static bool read_hits(reader *self, json_t *value, const char *where) {
  return read_number(self, value, where, WEIR_ASK_COST_MOST, &self->request->hits);
}

static bool read_request(reader *self, json_t *body) {
  static const member members[] = {{"domain", "domain", read_domain},
                                   {"descriptors", "descriptors", read_descriptors},
                                   {"hitsAddend", "hits_addend", read_hits}};
  weir_envoy_request *request = self->request;
  if (!read_object(self, body, "", members, sizeof members / sizeof *members)) return false;
  if (request->domain_length == 0) return refuse(self, "domain: it is empty or missing");
  if (request->count == 0) return refuse(self, "descriptors: it is empty or missing");
  for (size_t i = 0; i < request->count; i++)
    if (!request->descriptors[i].has_hits)
      request->descriptors[i].hits = request->hits > 0 ? request->hits : 1;
  return true;
}

bool weir_http_read_envoy(const weir_http_request *http, weir_envoy_request *request, json_t **body,
                          weir_http_refusal *refusal) {
  json_error_t error;
  reader self = {.request = request, .refusal = refusal};
  request->domain = "";
  request->domain_length = request->count = request->entry_count = 0;
  request->hits = 0;
  *body = json_loadb(http->body.bytes, http->body.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                     &error);
  if (*body == NULL) return refuse(&self, "the body is no JSON: %s", error.text);
  if (!json_is_object(*body)) return refuse(&self, "the body is no JSON object");
  return read_request(&self, *body);
}

/* --- the answer ---------------------------------------------------------------------------------
 */

static void write_number(weir_bytes *out, const char *name, int64_t number) {
  weir_bytes_text(out, name);
  weir_bytes_number(out, number);
}

static void write_code(weir_bytes *out, const char *name, bool is_over) {
  weir_bytes_format(out, "{\"%s\":\"%s\"", name, is_over ? "OVER_LIMIT" : "OK");
}

static void write_status(weir_bytes *out, const weir_envoy_status *status) {
  write_code(out, "code", status->is_over);
  if (status->has_limit) {
    write_number(out, ",\"currentLimit\":{\"requestsPerUnit\":", status->requests);
    weir_bytes_format(out, ",\"unit\":\"%s\"", weir_config_units[status->unit]);
    if (status->name != NULL) weir_bytes_text(out, ",\"name\":");
    if (status->name != NULL) weir_http_write_string(out, status->name, strlen(status->name));
    weir_bytes_text(out, "}");
  }
  if (status->remaining >= 0) write_number(out, ",\"limitRemaining\":", status->remaining);
  if (status->reset_after_us >= 0) {
    write_number(out, ",\"durationUntilReset\":\"", weir_seconds_up(status->reset_after_us));
    weir_bytes_text(out, "s\"");
  }
  weir_bytes_text(out, "}");
}

void weir_http_answer_envoy(const weir_envoy_answer *answer, unsigned manner, weir_bytes *out) {
  weir_bytes body = {0};
  write_code(&body, "overallCode", answer->is_over);
  for (size_t i = 0; i < answer->count; i++) {
    weir_bytes_text(&body, i == 0 ? ",\"statuses\":[" : ",");
    write_status(&body, &answer->statuses[i]);
  }
  weir_bytes_text(&body, "]}\n");
  weir_http_text_answer(answer->is_over ? 429 : 200, "application/json", body.data, body.length,
                        manner, out);
  out->failed |= body.failed;
  weir_bytes_free(&body);
}
