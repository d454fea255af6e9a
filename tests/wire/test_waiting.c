/* How a thread waits, from what the wire has seen: no server, no thread, no time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/waiting.h"

enum { LONG_US = 1000000 };

static weir_wire wire;
static weir_wire_line *const line = &wire.lines[0];
static weir_wire_slot slot;

/* One thread waits for one command at a near server, and has time. */
static int begin(void **state) {
  (void)state;
  memset(&wire, 0, sizeof wire);
  memset(&slot, 0, sizeof slot);
  line->wire = &wire;
  line->connection = &wire.server.connections[0];
  line->waiting = wire.waiting = 1;
  slot.count = slot.encoded = 1;
  wire.patience_us = 5000;
  return 0;
}

static weir_wait how(int64_t left_us) {
  return weir_how_to_wait(line, &slot, left_us);
}

static void one_thread_sleeps_in_its_receive(void **state) {
  (void)state;
  weir_wait wait = how(LONG_US);
  assert_true(wait.listens);
  assert_false(wait.tries || wait.counts);
  assert_int_equal(wait.gives_way, 0);
  assert_int_equal(wait.yields, 0);
}

static void the_last_moments_and_tls_are_polled_for(void **state) {
  (void)state;
  assert_false(how(wire.patience_us).listens);
  assert_true(how(wire.patience_us + 1).listens);
  line->session = (weir_tls_session *)&slot; /* any: nothing looks into it */
  assert_false(how(LONG_US).listens);
}

static void a_crowd_yields(void **state) {
  (void)state;
  wire.crowd = 1;
  assert_int_equal(how(LONG_US).gives_way, 0); /* nobody else is here */
  line->waiting = 2;
  assert_int_equal(how(LONG_US).gives_way, 1);
  assert_int_equal(how(LONG_US).yields, weir_waiting.yields);
  assert_true(how(LONG_US).counts);
  wire.took_us = weir_waiting.near_us; /* too far to stay awake, but who leads still changes */
  assert_int_equal(how(LONG_US).yields, 0);
  assert_int_equal(how(LONG_US).gives_way, 1);
  slot.encoded = 0; /* never sent: nothing is learnt from it */
  assert_false(how(LONG_US).counts);
  wire.crowded.felt = true;
  assert_int_equal(how(LONG_US).gives_way, 0);
}

static void many_commands_are_tried_for(void **state) {
  (void)state;
  int64_t least_us = wire.patience_us + weir_waiting.near_us;
  slot.count = weir_waiting.many_commands - 1;
  assert_false(how(LONG_US).tries || how(LONG_US).counts);
  slot.count++;
  assert_true(how(LONG_US).tries && how(LONG_US).counts);
  assert_true(how(least_us + 1).tries);
  assert_false(how(least_us).tries);
  wire.took_us = weir_waiting.near_us;
  assert_false(how(LONG_US).tries);
  wire.took_us = 0;
  wire.waiting = 2;
  assert_false(how(LONG_US).tries);
  wire.waiting = 1;
  wire.server.connections[1].state = WEIR_CONNECTION_READY;
  assert_false(how(LONG_US).tries);
  wire.server.connections[1].state = WEIR_CONNECTION_CLOSED;
  wire.watched.felt = true;
  assert_false(how(LONG_US).tries);
}

static void pressure_doubles_while_it_comes_again_soon(void **state) {
  (void)state;
  weir_pressure pressure = {.felt = false};
  int64_t now_us = LONG_US, lasts_us = weir_waiting.pressed_us;
  for (int i = 0; i < 10; i++) {
    weir_pressure_feel(&pressure, now_us);
    assert_int_equal(pressure.lasts_us, lasts_us);
    weir_pressure_feel(&pressure, now_us + 1); /* it is felt already */
    assert_int_equal(pressure.until_us, now_us + lasts_us);
    weir_pressure_ease(&pressure, pressure.until_us - 1);
    assert_true(pressure.felt);
    now_us = pressure.until_us;
    weir_pressure_ease(&pressure, now_us);
    assert_false(pressure.felt);
    lasts_us *= 2;
    if (lasts_us > weir_waiting.pressed_most_us) lasts_us = weir_waiting.pressed_most_us;
  }
  weir_pressure_feel(&pressure, now_us + pressure.lasts_us);
  assert_int_equal(pressure.lasts_us, weir_waiting.pressed_us);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(one_thread_sleeps_in_its_receive, begin),
      cmocka_unit_test_setup(the_last_moments_and_tls_are_polled_for, begin),
      cmocka_unit_test_setup(a_crowd_yields, begin),
      cmocka_unit_test_setup(many_commands_are_tried_for, begin),
      cmocka_unit_test_setup(pressure_doubles_while_it_comes_again_soon, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
