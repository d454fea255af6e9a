#include "limiter/limiter.h"

#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "algorithm/method.h"
#include "store/process.h"

weir_status weir_no_memory(weir_message *message) {
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

size_t weir_limiter_rules(const weir_limiter *limiter) {
  return limiter->stack.count;
}

weir_status weir_limiter_check_process(const weir_limiter *limiter, weir_message *message) {
  return weir_process_check(limiter->process, "the limiter", message);
}

/* What the caller's structure has beyond ours is 0; what ours has beyond the caller's is left out.
 */
void weir_limiter_read_counts(const weir_limiter *limiter, weir_limiter_counts *counts) {
  size_t size = counts->size;
  weir_limiter_counts sum = {
      .size = size,
      .clock_steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed)};
  weir_counts_read(limiter->counts, &sum);
  if (size > sizeof sum) memset((char *)counts + sizeof sum, 0, size - sizeof sum);
  memcpy(counts, &sum, size < sizeof sum ? size : sizeof sum);
}

/* What is denied goes back, so more than fits is charged in vain. Where denied requests stay
 * charged all of them may as well go together; no rule with lanes is among those. */
static int64_t most_of_a_group(const weir_stack *stack) {
  return stack->count_all ? WEIR_VALUE_MOST : weir_stack_least_capacity(stack);
}

weir_status weir_limiter_finish(weir_limiter *made, weir_message *message) {
  made->process = weir_process_number();
  made->group_most = most_of_a_group(&made->stack);
  for (size_t i = 0; i < made->stack.count; i++)
    if (weir_method_of(&made->stack.rules[i])->one_by_one) made->one_by_one = true;
  prepare_fronts(made);
  weir_limiter_guard_clock(made);
  made->table = weir_table_create(made->memo_keys, weir_memo_bytes(&made->stack));
  made->counts = weir_counts_create();
  made->idle = weir_idle_create();
  if (weir_limiter_init_reserved(made) && made->table != NULL && made->counts != NULL &&
      made->idle != NULL && weir_limiter_warn_of_short_cells(made))
    return WEIR_OK;
  weir_limiter_destroy(made);
  return weir_no_memory(message);
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
  status = weir_process_check(store->process, "the store", message);
  if (status != WEIR_OK) return status;
  weir_limiter *made = calloc(1, sizeof *made);
  if (made == NULL) return weir_no_memory(message);
  made->store = store;
  status = weir_limiter_configure(made, options, store->timeout_us, &processes, message);
  if (status == WEIR_OK) status = weir_stack_parse(rules, processes, &made->stack, message);
  if (status == WEIR_OK) status = weir_limiter_check_store(made, message);
  if (status != WEIR_OK) {
    free(made);
    return status;
  }
  status = weir_limiter_finish(made, message);
  if (status != WEIR_OK) return status;
  if (!weir_limiter_enter_store(made) || !weir_limiter_warn_of_outages(made)) {
    weir_limiter_destroy(made);
    return weir_no_memory(message);
  }
  *limiter = made;
  return WEIR_OK;
}

void weir_limiter_destroy(weir_limiter *limiter) {
  if (limiter == NULL) return;
  weir_limiter_leave_store(limiter);
  weir_limiter_destroy_local(limiter);
  weir_limiter_clean_up_reserved(limiter);
  weir_idle_destroy(limiter->idle);
  weir_table_destroy(limiter->table);
  weir_counts_destroy(limiter->counts);
  weir_limiter_clean_up_warnings(limiter);
  free(limiter);
}
