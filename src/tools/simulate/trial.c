#include "simulate/trial.h"

#include <weir/backend.h>

/* One key's requests through the rule, as far as they are needed. */
struct run {
  weir_trial *trial;
  weir_driver driver;
  weir_driven_key key;
  weir_status status;
  weir_message *message;
};

/* Cells count until the whole of them has left the window. */
int64_t weir_trial_reach_us(const weir_rule *rule) {
  return rule->period_us + (weir_rule_has_cells(rule) ? rule->cell_us : 0);
}

/* A window or a log: no more than L asks. A bucket that is asked for P at most in any period has
 * P * T to drain in each, which it does where that is no more than the period: then P is also the
 * most that it ever holds. Both products are below 2^50 (rule/bucket.c). */
int64_t weir_trial_harmless(const weir_rule *rule) {
  if (!weir_rule_moves_in_time(rule)) return rule->limit;
  int64_t drains = (rule->period_us << rule->unit_bits) / rule->token_units;
  return drains < rule->capacity ? drains : rule->capacity;
}

static bool run_key(void *context, uint32_t number, const weir_record_reader *requests) {
  struct run *run = context;
  weir_trial *trial = run->trial;
  weir_record_reader reader = *requests;
  weir_record_request asked;
  uint64_t denied = 0, room = trial->most.requests - trial->denied.requests;
  weir_driver_clear_key(&run->driver, &run->key);
  while (denied <= room && weir_record_read(&reader, &asked)) {
    weir_request_state request = {.kind = WEIR_TAKE, .cost = asked.cost};
    trial->decided++;
    run->status =
        weir_driver_decide(&run->driver, &run->key, asked.time_us, &request, run->message);
    if (run->status != WEIR_OK) return false;
    denied += !request.decision.allowed;
  }
  trial->denied.requests += denied;
  trial->denied.keys += denied > 0;
  if (denied > trial->top_requests) {
    trial->top_requests = denied;
    trial->top = number;
  }
  return denied <= room && trial->denied.keys <= trial->most.keys;
}

static void run_only(struct run *run) {
  const weir_record *record = run->trial->record;
  weir_record_reader reader = {.key = (uint32_t)(run->trial->only - record->keys)};
  weir_record_begin(record, &reader.cursor);
  (void)run_key(run, reader.key, &reader);
}

weir_status weir_trial_run(weir_trial *trial, const char *rule, const weir_limiter_options *options,
                           weir_message *message) {
  struct run run = {.trial = trial, .message = message};
  trial->denied = (weir_denials){0};
  trial->top_requests = 0;
  weir_status status = weir_driver_init(&run.driver, rule, options, message);
  if (status != WEIR_OK) {
    weir_driver_clean_up(&run.driver);
    return status;
  }
  const weir_rule *parsed = &run.driver.stack.rules[0];
  bool enough = weir_driver_add_key(&run.driver, &run.key);
  if (enough && trial->only != NULL)
    run_only(&run);
  else if (enough)
    enough = weir_record_find_peaks(trial->record, weir_trial_reach_us(parsed)) &&
             weir_record_visit(trial->record, weir_trial_harmless(parsed), run_key, &run);
  if (!enough) run.status = WEIR_NO_MEMORY;
  weir_driver_remove_key(&run.driver, &run.key);
  weir_driver_clean_up(&run.driver);
  return run.status;
}
