/* A decision for programs: one object. */
#include "decision.h"
#include "json.h"

enum { DIGITS = 0 }; /* every number is whole */

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
    case WEIR_SOURCE_LATE:
      return "late";
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
         weir_cli_json_set_bytes(object, "key", request->key, request->key_length) &&
         set_cost(object, request);
}

/* Only of one cost for all rules. */
static bool set_charged(json_t *object, const weir_cli_request *request,
                        const weir_decision *decision) {
  int64_t charge = decision->allowed ? decision->cost : 0;
  if (decision->cost == WEIR_OWN_COSTS) return true;
  return set_integer(object, "charged", request->peek ? 0 : charge);
}

static bool set_decision(json_t *object, const weir_cli_request *request,
                         const weir_decision *decision) {
  return set_text(object, "decision", decision->allowed ? "allowed" : "denied") &&
         set_integer(object, "limit", decision->limit) &&
         set_integer(object, "remaining", decision->remaining) &&
         set_integer(object, "retry_after_us", decision->retry_after_us) &&
         set_integer(object, "reset_after_us", decision->reset_after_us) &&
         set_integer(object, "delay_us", decision->delay_us) &&
         set_text(object, "source", source_name(decision->source)) &&
         set_integer(object, "rule", decision->rule) && set_charged(object, request, decision) &&
         set_integer(object, "at_us", decision->at_us);
}

bool weir_cli_decision_json(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision) {
  json_t *object = json_object();
  bool printed = set_request(object, request) && set_decision(object, request, decision) &&
                 weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}

bool weir_cli_done_json(FILE *out, const weir_cli_request *request, const char *what) {
  json_t *object = json_object();
  bool printed = weir_cli_json_set_bytes(object, "key", request->key, request->key_length) &&
                 json_object_set_new(object, what, json_true()) == 0 &&
                 weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}
