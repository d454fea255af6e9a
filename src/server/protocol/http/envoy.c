/* RateLimitRequest from JSON, RateLimitResponse to it, as proto3 has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/http/internal.h"

/* "descriptors[N].", and "entries[N]." behind it. */
enum { WHERE_BYTES = 48, INNER_BYTES = WHERE_BYTES + 32 };

/* The units of an override are numbered as those of a file, but have no week. */
static bool read_unit(const json_t *value, const char *where, weir_config_unit *unit,
                      weir_http_refusal *refusal) {
  const char *name = json_is_string(value) ? json_string_value(value) : "";
  for (int each = WEIR_CONFIG_SECOND; each <= WEIR_CONFIG_YEAR; each++) {
    bool is_number = json_is_integer(value) && json_integer_value(value) == each;
    if (!is_number && strcmp(name, weir_config_units[each]) != 0) continue;
    *unit = (weir_config_unit)each;
    return true;
  }
  return weir_http_decline(refusal, 400,
                           "%sunit: SECOND, MINUTE, HOUR, DAY, MONTH and YEAR are accepted", where);
}

static bool read_limit(json_t *object, const char *where, weir_envoy_descriptor *descriptor,
                       weir_http_refusal *refusal) {
  char inner[INNER_BYTES];
  const json_t *unit = NULL;
  const weir_http_member members[] = {
      {.name = "requestsPerUnit", .other = "requests_per_unit", .hits = &descriptor->requests},
      {.name = "unit", .any = &unit, .needed = true},
  };
  descriptor->has_limit = true;
  snprintf(inner, sizeof inner, "%slimit.", where);
  if (!weir_http_read_object(object, inner, members, 2, refusal)) return false;
  if (descriptor->requests > WEIR_CONFIG_REQUESTS_MOST)
    return weir_http_decline(refusal, 400, "%srequestsPerUnit: up to %d is accepted", inner,
                             WEIR_CONFIG_REQUESTS_MOST);
  return read_unit(unit, inner, &descriptor->unit, refusal);
}

static bool read_entries(const json_t *list, const char *where, weir_envoy_request *request,
                         weir_envoy_descriptor *descriptor, weir_http_refusal *refusal) {
  char inner[INNER_BYTES];
  descriptor->entries = &request->entries[request->entry_count];
  descriptor->count = json_array_size(list);
  if (descriptor->count > WEIR_ENVOY_ENTRIES_MOST - request->entry_count)
    return weir_http_decline(refusal, 400, "%sentries: there are more than %d of all descriptors",
                             where, WEIR_ENVOY_ENTRIES_MOST);
  for (size_t i = 0; i < descriptor->count; i++) {
    weir_entry *entry = &request->entries[request->entry_count++];
    const weir_http_member members[] = {
        {.name = "key", .text = &entry->key, .length = &entry->key_length, .needed = true},
        {.name = "value", .text = &entry->value, .length = &entry->value_length},
    };
    *entry = (weir_entry){.key = "", .value = ""};
    snprintf(inner, sizeof inner, "%sentries[%zu].", where, i);
    if (!weir_http_read_object(json_array_get(list, i), inner, members, 2, refusal)) return false;
  }
  return true;
}

/* descriptor->hits is the request's until then. */
static bool read_descriptor(json_t *object, const char *where, weir_envoy_request *request,
                            weir_envoy_descriptor *descriptor, weir_http_refusal *refusal) {
  const json_t *entries = NULL;
  json_t *limit = NULL;
  const weir_http_member members[] = {
      {.name = "entries", .list = &entries},
      {.name = "limit", .object = &limit},
      {.name = "hitsAddend", .other = "hits_addend", .hits = &descriptor->hits},
      {.name = "isNegativeHits", .other = "is_negative_hits", .flag = &descriptor->gives_back},
  };
  if (!weir_http_read_object(object, where, members, sizeof members / sizeof *members, refusal))
    return false;
  return read_entries(entries, where, request, descriptor, refusal) &&
         (limit == NULL || read_limit(limit, where, descriptor, refusal));
}

static bool read_descriptors(const json_t *list, int64_t hits, weir_envoy_request *request,
                             weir_http_refusal *refusal) {
  char where[WHERE_BYTES];
  request->count = json_array_size(list);
  if (request->count < 1 || request->count > WEIR_ENVOY_DESCRIPTORS_MOST)
    return weir_http_decline(refusal, 400, "descriptors: 1 to %d are accepted",
                             WEIR_ENVOY_DESCRIPTORS_MOST);
  for (size_t i = 0; i < request->count; i++) {
    weir_envoy_descriptor *descriptor = &request->descriptors[i];
    descriptor->hits = hits > 0 ? hits : 1;
    snprintf(where, sizeof where, "descriptors[%zu].", i);
    if (!read_descriptor(json_array_get(list, i), where, request, descriptor, refusal))
      return false;
  }
  return true;
}

bool weir_http_read_envoy(const weir_http_request *http, weir_http_call *call,
                          weir_http_refusal *refusal) {
  weir_envoy_request *request = call->envoy = calloc(1, sizeof *request);
  const json_t *list = NULL;
  int64_t hits = 0;
  if (request == NULL) return weir_http_decline(refusal, 503, "the server is short of memory");
  const weir_http_member members[] = {
      {.name = "domain",
       .text = &request->domain,
       .length = &request->domain_length,
       .needed = true},
      {.name = "descriptors", .list = &list, .needed = true},
      {.name = "hitsAddend", .other = "hits_addend", .hits = &hits},
  };
  return weir_http_read_body(http, members, sizeof members / sizeof *members, call, refusal) &&
         read_descriptors(list, hits, request, refusal);
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

void weir_http_answer_envoy(const weir_envoy_answer *answer, unsigned format, weir_bytes *out) {
  weir_bytes body = {0};
  write_code(&body, "overallCode", answer->is_over);
  for (size_t i = 0; i < answer->count; i++) {
    weir_bytes_text(&body, i == 0 ? ",\"statuses\":[" : ",");
    write_status(&body, &answer->statuses[i]);
  }
  for (size_t i = 0; i < answer->field_count; i++) {
    weir_bytes_text(&body, i == 0 ? "],\"responseHeadersToAdd\":[" : ",");
    weir_bytes_format(&body, "{\"key\":\"%s\",\"value\":", answer->fields[i].name);
    weir_http_write_string(&body, answer->fields[i].value, strlen(answer->fields[i].value));
    weir_bytes_text(&body, "}");
  }
  weir_bytes_text(&body, "]}\n");
  weir_http_begin(answer->is_over ? 429 : 200, out);
  weir_http_end("application/json", &body, format, out);
  weir_bytes_free(&body);
}

void weir_http_word_envoy(const weir_envoy_refusal *refusal, weir_http_refusal *worded) {
  static const int statuses[] = {[WEIR_ENVOY_WELL] = 200,
                                 [WEIR_ENVOY_BAD_REQUEST] = 400,
                                 [WEIR_ENVOY_NO_FILES] = 404,
                                 [WEIR_ENVOY_UNAVAILABLE] = 503,
                                 [WEIR_ENVOY_EXPIRED] = 504};
  *worded = (weir_http_refusal){statuses[refusal->failure], refusal->why};
}
