/* Bodies of JSON, read by tables of their members; and RateLimitRequest, as proto3 has it in JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/word.h>

#include "protocol/http/call.h"

/* The message may hold text of a client's, which may have been cut within a character. */
bool weir_http_decline(weir_http_refusal *refusal, int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(refusal->why.text, sizeof refusal->why.text, format, arguments);
  va_end(arguments);
  for (char *c = refusal->why.text; *c != '\0'; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  refusal->status = status;
  return false;
}

static const char *accepted(const weir_http_member *wanted) {
  return wanted->text != NULL     ? wanted->needed ? "a string that is not empty" : "a string"
         : wanted->texts != NULL  ? "a list of up to 8 strings that are not empty"
         : wanted->number != NULL ? "a whole number"
         : wanted->is_one         ? "a whole number"
         : wanted->amount != NULL ? "a whole number, or a list of one for each rule,"
         : wanted->hits != NULL   ? "a whole number from 0 on"
         : wanted->flag != NULL   ? "true or false"
         : wanted->list != NULL   ? "a list of objects"
                                  : "an object";
}

static bool read_hits(const json_t *value, int64_t *hits) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  size_t digits = json_string_length(value);
  int64_t read = -1;
  if (json_is_integer(value)) read = json_integer_value(value);
  bool is_quoted = digits > 0 && digits <= 20 && strspn(text, "0123456789") == digits;
  if (is_quoted && !weir_order_number(text, digits, &read)) read = INT64_MAX;
  if (read < 0) return false;
  *hits = read < WEIR_ORDER_COST_MOST ? read : WEIR_ORDER_COST_MOST;
  return true;
}

static bool read_amount(const json_t *value, bool is_one, weir_order_amount *amount) {
  bool is_list = !is_one && json_is_array(value);
  size_t count = is_list ? json_array_size(value) : 1;
  if (count < 1 || count > WEIR_ORDER_COSTS_MOST) return false;
  for (size_t i = 0; i < count; i++) {
    const json_t *one = is_list ? json_array_get(value, i) : value;
    if (!json_is_integer(one)) return false;
    amount->each[i] = json_integer_value(one);
  }
  amount->count = count;
  return true;
}

static bool read_texts(const json_t *list, weir_order_key *texts, size_t *length) {
  size_t count = json_array_size(list);
  for (size_t i = 0; i < count && count <= WEIR_CONFIG_MEMBERS_MOST; i++) {
    const json_t *one = json_array_get(list, i);
    if (!json_is_string(one) || json_string_length(one) == 0) return false;
    texts[i] = (weir_order_key){json_string_value(one), json_string_length(one)};
  }
  *length = count;
  return count > 0 && count <= WEIR_CONFIG_MEMBERS_MOST;
}
_Static_assert(WEIR_CONFIG_MEMBERS_MOST == 8, "as accepted() says");

static bool is_list_of_objects(const json_t *value) {
  bool are_objects = json_is_array(value);
  for (size_t i = 0; are_objects && i < json_array_size(value); i++)
    are_objects = json_is_object(json_array_get(value, i));
  return are_objects;
}

static bool read_member(const weir_http_member *wanted, json_t *value) {
  if (wanted->text != NULL && json_is_string(value) &&
      (json_string_length(value) > 0 || !wanted->needed)) {
    *wanted->text = json_string_value(value);
    *wanted->length = json_string_length(value);
  } else if (wanted->number != NULL && json_is_integer(value)) {
    *wanted->number = json_integer_value(value);
  } else if (wanted->flag != NULL && json_is_boolean(value)) {
    *wanted->flag = json_is_true(value);
  } else if (wanted->list != NULL && is_list_of_objects(value)) {
    *wanted->list = value;
  } else if (wanted->object != NULL && json_is_object(value)) {
    *wanted->object = value;
  } else if (wanted->any != NULL) {
    *wanted->any = value;
  } else {
    return (wanted->texts != NULL && read_texts(value, wanted->texts, wanted->length)) ||
           (wanted->hits != NULL && read_hits(value, wanted->hits)) ||
           (wanted->amount != NULL && read_amount(value, wanted->is_one, wanted->amount));
  }
  return true;
}

static bool has(const json_t *object, const char *name) {
  const json_t *value = name != NULL ? json_object_get(object, name) : NULL;
  return value != NULL && !json_is_null(value);
}

/* An object that has these members and no other. `where`: what stands before their names in messages,
 * "descriptors[0]." */
static bool read_object(json_t *object, const char *where, const weir_http_member *members,
                        size_t count, weir_http_refusal *refusal) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    const weir_http_member *wanted = NULL;
    for (size_t i = 0; wanted == NULL && i < count; i++)
      if (strcmp(name, members[i].name) == 0 ||
          (members[i].other != NULL && strcmp(name, members[i].other) == 0))
        wanted = &members[i];
    if (wanted == NULL && members[count - 1].is_any_other) wanted = &members[count - 1];
    if (wanted == NULL) {
      char list[160] = "";
      for (size_t i = 0; i < count; i++)
        weir_word_list(list, sizeof list, members[i].name, i + 1 == count);
      return weir_http_decline(refusal, 400,
                               "\"%s%.64s\" is no member that is known: accepted are %s", where,
                               name, list);
    }
    if (!json_is_null(value) && !read_member(wanted, value))
      return weir_http_decline(refusal, 400, "%s%s: %s is accepted", where, name, accepted(wanted));
  }
  for (size_t i = 0; i < count; i++) {
    const weir_http_member *wanted = &members[i];
    bool spelt = has(object, wanted->name), spelt_otherwise = has(object, wanted->other);
    if (wanted->needed && !spelt && !spelt_otherwise)
      return weir_http_decline(refusal, 400, "\"%s%s\" is missing", where, wanted->name);
    if (spelt && spelt_otherwise)
      return weir_http_decline(refusal, 400, "%s%s: it stands there as %s too", where, wanted->name,
                               wanted->other);
  }
  return true;
}

bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal) {
  json_error_t error;
  weir_http_text text = request->body;
  if (request->is_chunked) {
    weir_http_text chunk;
    for (size_t position = 0; weir_http_next_chunk(request, &position, &chunk);)
      weir_bytes_add(&call->text, chunk.bytes, chunk.length);
    text = (weir_http_text){call->text.data != NULL ? call->text.data : "", call->text.length};
    if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  }
  call->body = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (call->body == NULL)
    return weir_http_decline(refusal, 400, "the body is no JSON: %s", error.text);
  if (!json_is_object(call->body))
    return weir_http_decline(refusal, 400, "the body is no JSON object");
  return read_object(call->body, "", members, count, refusal);
}

/* --- RateLimitRequest ----------------------------------------------------------------------------
 */

/* "descriptors[N].", and "entries[N]." behind it. */
enum { WHERE_BYTES = 48, INNER_BYTES = WHERE_BYTES + 32 };

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
  if (!read_object(object, inner, members, 2, refusal)) return false;
  if (descriptor->requests > WEIR_CONFIG_REQUESTS_MOST)
    descriptor->requests = WEIR_CONFIG_REQUESTS_MOST;
  /* The units of an override are numbered as those of a file, but have no week. */
  const char *name = json_is_string(unit) ? json_string_value(unit) : "";
  for (int each = WEIR_CONFIG_SECOND; each <= WEIR_CONFIG_YEAR; each++) {
    bool is_number = json_is_integer(unit) && json_integer_value(unit) == each;
    if (!is_number && strcmp(name, weir_config_units[each]) != 0) continue;
    descriptor->unit = (weir_config_unit)each;
    return true;
  }
  return weir_http_decline(refusal, 400,
                           "%sunit: SECOND, MINUTE, HOUR, DAY, MONTH and YEAR are accepted", inner);
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
    if (!read_object(json_array_get(list, i), inner, members, 2, refusal)) return false;
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
  if (!read_object(object, where, members, sizeof members / sizeof *members, refusal)) return false;
  return read_entries(entries, where, request, descriptor, refusal) &&
         (limit == NULL || read_limit(limit, where, descriptor, refusal));
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
  if (!weir_http_read_body(http, members, sizeof members / sizeof *members, call, refusal))
    return false;
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
