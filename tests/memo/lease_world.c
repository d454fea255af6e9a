#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "lease_world.h"

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algorithm/method.h"

void world_open(world *w, const char *rules) {
  weir_message message = {""};
  *w = (world){.settings = {.clock_error_us = 10 * MS,
                            .ahead_us = 70 * MS,
                            .final_us = 120 * MS,
                            .memo_age_us = 5000 * MS,
                            .local_denial_us = 100 * MS,
                            .processes = 4,
                            .traits = WEIR_TRAIT_SWAP,
                            .cached_cells = true,
                            .local_denial = true}};
  if (weir_stack_parse(rules, 4, &w->stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  weir_lease_init(&w->lease, &w->stack, &w->settings);
  w->stock = calloc(1, weir_stock_bytes(&w->stack));
  w->memo = calloc(1, weir_memo_bytes(&w->stack));
  assert_non_null(w->stock);
  assert_non_null(w->memo);
  for (size_t i = 0; i < w->stack.count; i++) {
    const weir_rule *rule = &w->stack.rules[i];
    if (rule->kind == WEIR_QUOTA)
      w->places[i] = START;
    else if (!weir_rule_moves_in_time(rule))
      w->places[i] = START / rule->cell_us;
  }
}

void world_close(world *w) {
  free(w->stock);
  free(w->memo);
}

/* A store of one key that holds what was last written, and of others of which nothing is known. */
static void execute(weir_operation *operation, weir_operation *written) {
  bool known = operation->counter.place == written->counter.place &&
               operation->counter.index == written->counter.index && written->ttl_us > 0;
  if (operation->kind == WEIR_GET) {
    operation->outcome = known ? WEIR_DONE : WEIR_ABSENT;
    operation->value = known ? written->value : 0;
    return;
  }
  if (operation->kind == WEIR_ADD) operation->value = operation->delta;
  operation->outcome = WEIR_DONE;
  operation->version_out = 1;
  *written = *operation;
}

void world_remember_charge(world *w, int64_t now_us, int64_t cost) {
  void *memory = malloc(weir_machine_bytes(&w->stack));
  weir_operation *operations = calloc(weir_machine_operations_most(&w->stack), sizeof *operations);
  weir_operation written = {.kind = WEIR_GET};
  weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = cost}};
  assert_non_null(memory);
  assert_non_null(operations);
  weir_machine *machine = weir_machine_init(memory, &w->stack, &w->settings);
  weir_turn turn = weir_machine_start(machine, now_us, w->memo, &request, operations);
  while (turn == WEIR_TURN_EXECUTE) {
    for (size_t n = 0; n < machine->frame.operation_count; n++)
      execute(&operations[n], &written);
    turn = weir_machine_resume(machine, now_us, false, operations);
  }
  assert_true(request.verdict.decision.allowed);
  memcpy(w->memo, machine->frame.memo, weir_memo_bytes(&w->stack));
  free(operations);
  free(memory);
}

void world_grant(world *w, int64_t stamp_us, int64_t cost) {
  weir_stock_grant(w->stock, &w->lease, stamp_us, stamp_us, cost, w->places, 0);
}
