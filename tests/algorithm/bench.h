/* A machine under hand: the test plays the store. Include after cmocka.h. */
#ifndef TESTS_ALGORITHM_BENCH_H
#define TESTS_ALGORITHM_BENCH_H

#include <stdlib.h>
#include <string.h>

#include "algorithm/view.h"

struct bench {
  weir_stack stack;
  weir_settings settings;
  weir_machine *machine;
  weir_operation *operations; /* of one round */
  weir_memo *memo;
  weir_claim requests[3];
};

static inline struct bench set_up(const char *rules) {
  struct bench b = {.settings = {.clock_error_us = 10000,
                                 .ahead_us = 40000,
                                 .final_us = 120000,
                                 .memo_age_us = 1000000,
                                 .local_denial_us = 50000,
                                 .cached_cells = true,
                                 .local_denial = true}};
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &b.stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  b.memo = calloc(1, weir_memo_bytes(&b.stack));
  b.operations = calloc(weir_machine_operations_most(&b.stack), sizeof *b.operations);
  return b;
}

static inline void tear_down(struct bench *b) {
  free(b->machine);
  free(b->operations);
  free(b->memo);
}

/* Starts a group of takes; cost 0 ends the list. */
static inline weir_turn start(struct bench *b, int64_t now_us, int64_t first, int64_t second) {
  free(b->machine);
  b->machine = weir_machine_init(malloc(weir_machine_bytes(&b->stack)), &b->stack, &b->settings);
  b->requests[0] = (weir_claim){.ask.cost = first, .next = second > 0 ? &b->requests[1] : NULL};
  b->requests[1] = (weir_claim){.ask.cost = second};
  return weir_machine_start(b->machine, now_us, b->memo, b->requests, b->operations);
}

static inline void keep(struct bench *b) {
  memcpy(b->memo, b->machine->frame.memo, weir_memo_bytes(&b->stack));
}

static inline void answer(struct bench *b, size_t operation, weir_outcome outcome, int64_t value) {
  b->machine->frame.operations[operation].outcome = outcome;
  b->machine->frame.operations[operation].value = value;
}

static inline void expect(const struct bench *b, size_t operation, weir_operation_kind kind,
                          int64_t index, int64_t delta) {
  assert_in_range(operation, 0, b->machine->frame.operation_count - 1);
  assert_int_equal(b->machine->frame.operations[operation].kind, kind);
  assert_int_equal(b->machine->frame.operations[operation].counter.index, index);
  assert_int_equal(b->machine->frame.operations[operation].delta, delta);
}

#endif
