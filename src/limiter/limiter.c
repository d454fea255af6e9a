#include "limiter/limiter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#define COST_MOST (INT64_C(1) << 31)

static weir_status no_memory(weir_message *message) {
  weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

static void prepare_fronts(weir_limiter *limiter) {
  for (size_t i = 0; i < limiter->stack.count; i++) {
    weir_key_front *front = &limiter->fronts[i];
    front->length =
        weir_key_prefix(limiter->store->namespace_text, limiter->stack.rules[i].tag, front->text);
  }
}

/* Only one cell ahead is read; see docs/guarantees.md. */
static void warn_of_short_cells(weir_limiter *limiter) {
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (rule->kind == WEIR_FIXED_WINDOW || rule->cell_us >= limiter->terms.margin_us) continue;
    weir_message_set(&limiter->warning,
                     "the cells of rule %zu are %" PRId64
                     " us wide, less than 2 * clock error + "
                     "deadline (%" PRId64
                     " us): what other processes charge within that time can "
                     "exceed the bound",
                     i + 1, rule->cell_us, limiter->terms.margin_us);
    return;
  }
}

const char *weir_limiter_warning(const weir_limiter *limiter) {
  return limiter->warning.text[0] != '\0' ? limiter->warning.text : NULL;
}

weir_status weir_limiter_create(weir_store *store, const char *rules,
                                const weir_limiter_options *options, weir_limiter **limiter,
                                weir_message *message) {
  uint32_t processes;
  weir_status status;
  *limiter = NULL;
  if (store == NULL || rules == NULL) {
    weir_message_set(message, "%s is NULL", store == NULL ? "the store" : "the rule text");
    return WEIR_BAD_ARGUMENT;
  }
  weir_limiter *made = calloc(1, sizeof *made);
  if (made == NULL) return no_memory(message);
  made->store = store;
  if (pthread_mutex_init(&made->idle_mutex, NULL) != 0) {
    free(made);
    return no_memory(message);
  }
  status = weir_limiter_configure(made, options, store->timeout_us, &processes, message);
  if (status == WEIR_OK) status = weir_stack_parse(rules, processes, &made->stack, message);
  if (status != WEIR_OK) goto fail;
  made->least_limit = weir_stack_least_limit(&made->stack);
  prepare_fronts(made);
  warn_of_short_cells(made);
  made->table = weir_table_create(made->memo_keys, weir_memo_bytes(&made->stack));
  if (made->table == NULL) {
    status = no_memory(message);
    goto fail;
  }
  *limiter = made;
  return WEIR_OK;
fail:
  weir_limiter_destroy(made);
  return status;
}

void weir_limiter_destroy(weir_limiter *limiter) {
  if (limiter == NULL) return;
  for (weir_call *call = limiter->idle_calls; call != NULL;) {
    weir_call *next = call->next_idle;
    weir_call_destroy(call);
    call = next;
  }
  weir_table_destroy(limiter->table);
  pthread_mutex_destroy(&limiter->idle_mutex);
  free(limiter);
}

static weir_status check_request(const void *key, size_t key_length, int64_t cost,
                                 weir_message *message) {
  if (key == NULL || key_length == 0) {
    weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
    return WEIR_BAD_KEY;
  }
  if (cost < 1 || cost > COST_MOST) {
    weir_message_set(message, "cost %" PRId64 " is outside 1 to %" PRId64, cost, COST_MOST);
    return WEIR_BAD_COST;
  }
  return WEIR_OK;
}

/* One request, decided alone. */
static weir_status run_one(weir_limiter *limiter, weir_ask_kind kind, const void *key,
                           size_t key_length, int64_t cost, weir_decision *decision,
                           weir_message *message) {
  weir_status status = check_request(key, key_length, cost, message);
  if (status != WEIR_OK) return status;
  weir_call *call = weir_call_acquire(limiter, 1);
  if (call == NULL) return no_memory(message);
  weir_call_add(call, kind, key, key_length, cost);
  weir_call_run(call);
  const weir_ask *ask = &call->members[0].ask;
  status = ask->status;
  if (status == WEIR_OK && decision != NULL) *decision = ask->decision;
  if (status != WEIR_OK) weir_message_set(message, "%s", call->explanation.text);
  weir_call_release(call);
  return status;
}

weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  return run_one(limiter, WEIR_ASK_TAKE, key, key_length, cost, decision, message);
}

weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  return run_one(limiter, WEIR_ASK_PEEK, key, key_length, cost, decision, message);
}

weir_status weir_limiter_reset(weir_limiter *limiter, const void *key, size_t key_length,
                               weir_message *message) {
  return run_one(limiter, WEIR_ASK_RESET, key, key_length, 1, NULL, message);
}

/* Carries the members' answers over to their requests; the first that failed speaks for the batch.
 */
static weir_status collect(const weir_call *call, weir_request *requests, size_t count,
                           weir_message *message) {
  weir_status first = WEIR_OK;
  const weir_member *member = call->members;
  for (size_t i = 0; i < count; i++) {
    weir_request *request = &requests[i];
    bool asked = request->status == WEIR_OK;
    if (asked) {
      request->status = member->ask.status;
      if (request->status == WEIR_OK) request->decision = member->ask.decision;
      member++;
    }
    if (first != WEIR_OK || request->status == WEIR_OK) continue;
    first = request->status;
    if (asked)
      weir_message_set(message, "%s", call->explanation.text);
    else
      check_request(request->key, request->key_length, request->cost, message);
  }
  return first;
}

weir_status weir_limiter_take_batch(weir_limiter *limiter, weir_request *requests, size_t count,
                                    weir_message *message) {
  if (count == 0 || count > WEIR_BATCH_MOST) {
    weir_message_set(message, "a batch of %zu requests: accepted are 1 to %d", count,
                     WEIR_BATCH_MOST);
    return WEIR_BAD_ARGUMENT;
  }
  weir_call *call = weir_call_acquire(limiter, count);
  if (call == NULL) return no_memory(message);
  for (size_t i = 0; i < count; i++) {
    weir_request *request = &requests[i];
    request->status = check_request(request->key, request->key_length, request->cost, NULL);
    if (request->status == WEIR_OK)
      weir_call_add(call, WEIR_ASK_TAKE, request->key, request->key_length, request->cost);
  }
  weir_call_run(call);
  weir_status status = collect(call, requests, count, message);
  weir_call_release(call);
  return status;
}
