#include <jansson.h>
#include <stdlib.h>

#include "decision.h"

/* RFC 4648, section 4, with padding. */
static char *encode_base64(const unsigned char *bytes, size_t length, size_t *text_length) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  *text_length = (length + 2) / 3 * 4; /* a key in memory is far below SIZE_MAX / 2 */
  char *text = malloc(*text_length + 1);
  if (text == NULL) return NULL;
  char *out = text;
  for (size_t i = 0; i < length; i += 3) {
    size_t present = length - i < 3 ? length - i : 3;
    unsigned group = (unsigned)bytes[i] << 16;
    if (present > 1) group |= (unsigned)bytes[i + 1] << 8;
    if (present > 2) group |= bytes[i + 2];
    *out++ = digits[group >> 18];
    *out++ = digits[group >> 12 & 63];
    *out++ = present > 1 ? digits[group >> 6 & 63] : '=';
    *out++ = present > 2 ? digits[group & 63] : '=';
  }
  *out = '\0';
  return text;
}

/* JSON holds Unicode only, so a key that is not UTF-8 goes in as base64 under another name. */
static bool set_key(json_t *object, const weir_cli_request *request) {
  json_t *key = json_stringn(request->key, request->key_length);
  if (key != NULL) return json_object_set_new(object, "key", key) == 0;
  size_t length;
  char *text = encode_base64((const unsigned char *)request->key, request->key_length, &length);
  if (text == NULL) return false;
  bool set = json_object_set_new(object, "key_base64", json_stringn(text, length)) == 0;
  free(text);
  return set;
}

static bool set_integer(json_t *object, const char *name, int64_t value) {
  return json_object_set_new(object, name, json_integer(value)) == 0;
}

static bool set_text(json_t *object, const char *name, const char *value) {
  return json_object_set_new(object, name, json_string(value)) == 0;
}

static const char *source_name(weir_source source) {
  switch (source) {
    case WEIR_SOURCE_STORE:
      return "store";
    case WEIR_SOURCE_LOCAL:
      return "local";
    case WEIR_SOURCE_FALLBACK:
      return "fallback";
  }
  return "unknown";
}

/* One cost, or a list of one per rule. */
static bool set_cost(json_t *object, const weir_cli_request *request) {
  if (request->costs == NULL) return set_integer(object, "cost", request->cost);
  json_t *costs = json_array();
  bool set = costs != NULL;
  for (int i = 0; set && i < request->cost_count; i++)
    set = json_array_append_new(costs, json_integer(request->costs[i])) == 0;
  if (set) return json_object_set_new(object, "costs", costs) == 0;
  json_decref(costs);
  return false;
}

static bool set_request(json_t *object, const weir_cli_request *request) {
  bool timeless = request->time_ms == WEIR_CLI_NO_TIME;
  return (timeless || set_integer(object, "time_ms", request->time_ms)) &&
         set_key(object, request) && set_cost(object, request);
}

static bool set_decision(json_t *object, const weir_decision *decision) {
  return set_text(object, "decision", decision->allowed ? "allowed" : "denied") &&
         set_integer(object, "limit", decision->limit) &&
         set_integer(object, "remaining", decision->remaining) &&
         set_integer(object, "retry_after_us", decision->retry_after_us) &&
         set_integer(object, "reset_after_us", decision->reset_after_us) &&
         set_integer(object, "delay_us", decision->delay_us) &&
         set_text(object, "source", source_name(decision->source)) &&
         set_integer(object, "rule", decision->rule) &&
         (decision->cost == WEIR_OWN_COSTS ||
          set_integer(object, "charged", decision->allowed ? decision->cost : 0)) &&
         set_integer(object, "at_us", decision->at_us);
}

/* Nothing reaches `out` unless the whole object is there. */
static bool print_object(FILE *out, json_t *object) {
  char *text = json_dumps(object, JSON_COMPACT);
  if (text == NULL) return false;
  fprintf(out, "%s\n", text); /* a lost write stays visible in ferror(out) */
  free(text);
  return true;
}

bool weir_cli_decision_json(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision) {
  json_t *object = json_object();
  bool printed =
      set_request(object, request) && set_decision(object, decision) && print_object(out, object);
  json_decref(object);
  return printed;
}

bool weir_cli_done_json(FILE *out, const weir_cli_request *request, const char *what) {
  json_t *object = json_object();
  bool printed = set_key(object, request) && json_object_set_new(object, what, json_true()) == 0 &&
                 print_object(out, object);
  json_decref(object);
  return printed;
}
