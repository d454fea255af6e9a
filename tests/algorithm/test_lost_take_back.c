/* A take-back that is lost leaves a charge that nobody may add to unseen, of whatever class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algorithm/algorithm.h"

enum { BEFORE = 80, COST = 30 };

/* Carries out what is planned on one counter, and loses what gives back. */
static void execute(weir_frame *frame, int64_t *counter) {
  for (size_t i = 0; i < frame->operation_count; i++) {
    weir_operation *operation = &frame->operations[i];
    if (operation->kind == WEIR_ADD) *counter += operation->delta;
    operation->outcome = operation->kind == WEIR_SUB ? WEIR_UNKNOWN : WEIR_DONE;
    operation->value = *counter;
  }
}

static void decide(weir_machine *machine, weir_memo *memo, int64_t now_us, unsigned class,
                   int64_t *counter) {
  weir_operation operations[16];
  weir_claim request = {
      .ask = {.kind = WEIR_TAKE, .class = class, .cost = COST, .key = "k", .key_length = 1}};
  weir_turn turn = weir_machine_start(machine, now_us, memo, &request, operations);
  while (turn == WEIR_TURN_EXECUTE) {
    execute(&machine->frame, counter);
    turn = weir_machine_resume(machine, now_us, false, operations);
  }
  assert_int_equal(turn, WEIR_TURN_DONE);
  assert_false(request.verdict.status == WEIR_OK && request.verdict.decision.allowed);
  memcpy(memo, machine->frame.memo, weir_memo_bytes(machine->frame.stack));
}

static void higher_classes_look_behind_a_lost_take_back(void **state) {
  weir_stack stack;
  weir_settings settings = {.clock_error_us = 10000,
                            .memo_age_us = 1000000,
                            .processes = 64,
                            .cached_cells = true,
                            .notices_loss = true};
  int64_t now_us = INT64_C(1700000000000000), counter = BEFORE;
  (void)state;
  assert_int_equal(weir_stack_parse("fixed-window:100/1d,classes=a:30%|b:60%", 64, &stack, NULL),
                   WEIR_OK);
  weir_settings_set_margins(&settings, 100000);
  void *memory = calloc(1, weir_machine_bytes(&stack));
  weir_memo *memo = calloc(1, weir_memo_bytes(&stack));
  assert_true(memory != NULL && memo != NULL);
  weir_machine *machine = weir_machine_init(memory, &stack, &settings);
  const unsigned classes[] = {1, 2, 0};
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
    decide(machine, memo, now_us += 1000, classes[i], &counter);
  assert_int_equal(counter, BEFORE + COST); /* the first alone was charged in vain */
  free(memo);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(higher_classes_look_behind_a_lost_take_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
