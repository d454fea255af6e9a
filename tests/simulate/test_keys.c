#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/simulation.h"

static weir_simulation simulation;

static void init(const char *rule) {
  static const weir_limiter_options options = {.size = sizeof options};
  const char *const rules[] = {rule};
  weir_message why = {""};
  assert_int_equal(weir_simulation_init(&simulation, rules, 1, &options, &why), WEIR_OK);
}

static int clean_up(void **state) {
  (void)state;
  weir_simulation_clean_up(&simulation);
  return 0;
}

static void send_request(int64_t time_us, const char *key) {
  weir_message why = {""};
  const weir_simulated request = {
      .time_us = time_us, .key = key, .key_length = strlen(key), .cost = 1};
  assert_int_equal(weir_simulation_request(&simulation, &request, &why), WEIR_OK);
}

static void keys_that_nobody_asks_for_any_more_take_no_memory(void **state) {
  enum { VISITORS = 20000 };
  char key[32];
  (void)state;
  init("sliding-window:10/1s");
  for (int i = 0; i < VISITORS; i++) {
    snprintf(key, sizeof key, "visitor%d", i);
    send_request(1000000000 + INT64_C(10000) * i, key);
  }
  assert_int_equal(simulation.requests, VISITORS);
  /* 100 come in a second, and one is remembered for some seconds */
  assert_in_range(simulation.keys.most, 100, 1000);
  assert_in_range(simulation.keys.table.room, 64, 4096);
}

/* A crowd that is gone leaves no room behind, and those that came after it are found in what is
 * left: what they had still denies them. A key is remembered for two hours and some seconds. */
static void the_table_shrinks_behind_a_crowd(void **state) {
  enum { CROWD = 500, STEADY = 10 };
  static const int64_t minutes[] = {65, 123};
  char key[32];
  (void)state;
  init("sliding-window:1/1h");
  for (int i = 0; i < CROWD; i++) {
    snprintf(key, sizeof key, "visitor%d", i);
    send_request(0, key);
  }
  assert_in_range(simulation.keys.table.room, CROWD, 4 * CROWD);
  for (int i = 0; i < 2 * STEADY; i++) {
    snprintf(key, sizeof key, "steady%d", i % STEADY);
    send_request(minutes[i / STEADY] * 60000000, key);
  }
  assert_int_equal(simulation.keys.table.count, STEADY);
  assert_in_range(simulation.keys.table.room, 64, 128);
  assert_int_equal(simulation.measures[0].allowed, CROWD + STEADY);
}

static void forgetting_changes_no_decision(void **state) {
  char key[32];
  (void)state;
  init("sliding-window:3/1s");
  for (int round = 0; round < 300; round++) {
    for (int i = 0; i < 5; i++) {
      snprintf(key, sizeof key, "key%d", i * 7 % 50);
      send_request(1000000000 + INT64_C(700000) * round, key);
    }
    send_request(1000000000 + INT64_C(700000) * round, "steady");
  }
  assert_int_equal(simulation.measures[0].requests, 1800);
  assert_int_equal(simulation.measures[0].allowed, 1800);
  assert_int_equal(simulation.measures[0].cost_exactly_allowed, 1800);
}

static void a_request_with_an_earlier_time_counts_as_now(void **state) {
  (void)state;
  init("fixed-window:1/1s");
  send_request(5000000, "a");
  send_request(3500000, "a");
  send_request(5999999, "a");
  send_request(6000000, "a");
  assert_int_equal(simulation.out_of_order, 1);
  assert_int_equal(simulation.furthest_us, 1500000);
  assert_int_equal(simulation.measures[0].allowed, 2);
}

/* More keys than stand ready, asked in turn: every request finds what was packed. */
static void packing_changes_no_decision(void **state) {
  static const char *const rules[] = {
      "sliding-window:3/1s",         "sliding-log:3/1s",
      "token-bucket:3/1s",           "quota:3/1s",
      "fixed-window:2/1s,count=all", "fixed-window:2/1s;quota:3/2s"};
  enum { RULES = sizeof rules / sizeof *rules, READY = 3, ALIKE = 2 * READY };
  static const weir_limiter_options options = {.size = sizeof options};
  weir_message why = {""};
  weir_measure alone[RULES];
  char key[32];
  for (int many = 0; many < 2; many++) {
    assert_int_equal(weir_simulation_init(&simulation, rules, RULES, &options, &why), WEIR_OK);
    simulation.keys.ready_most = READY;
    for (int round = 0; round < 60; round++)
      for (int i = 0; i < (many ? ALIKE : 1); i++) {
        snprintf(key, sizeof key, "key%d", i);
        send_request(1000000000 + INT64_C(170000) * round + 40000 * (round % 3), key);
      }
    assert_int_equal(weir_simulation_finish(&simulation), WEIR_OK);
    for (int i = 0; !many && i < RULES; i++)
      alone[i] = simulation.measures[i];
    if (many) break;
    clean_up(state);
  }
  for (int i = 0; i < RULES; i++) {
    const weir_measure *all = &simulation.measures[i];
    assert_in_range(alone[i].allowed, 1, 59);
    assert_int_equal(all->allowed, alone[i].allowed * ALIKE);
    assert_int_equal(all->wrongly_allowed, alone[i].wrongly_allowed * ALIKE);
    assert_int_equal(all->wrongly_denied, alone[i].wrongly_denied * ALIKE);
    assert_int_equal(all->cost_exactly_allowed, alone[i].cost_exactly_allowed * ALIKE);
    assert_int_equal(all->cost_differing, alone[i].cost_differing * ALIKE);
    assert_int_equal(all->local, alone[i].local * ALIKE);
    assert_int_equal(all->entries, alone[i].entries * ALIKE);
  }
}

/* Twice one too many under a fixed window, and forgotten in between; one key is one sum. */
static void differences_are_summed_by_key_over_all_of_the_time(void **state) {
  (void)state;
  init("fixed-window:2/1s");
  for (int round = 0; round < 2; round++) {
    int64_t edge_us = 1000000000 + INT64_C(100000000) * round;
    for (int i = 0; i < 4; i++)
      send_request(edge_us - 20 + i * 10, "a");
    send_request(edge_us, "b");
  }
  assert_int_equal(weir_simulation_finish(&simulation), WEIR_OK);
  assert_int_equal(simulation.measures[0].cost_differing, 4);
  assert_int_equal(simulation.differences[0].table.count, 1);
}

static void numbers_of_any_size_come_back(void **state) {
  static const int64_t numbers[] = {0, 1, -1, 31, 32, -32, -33, 8191, INT64_MAX, INT64_MIN};
  enum { COUNT = sizeof numbers / sizeof *numbers };
  weir_packer packer = {0};
  (void)state;
  for (int i = 0; i < COUNT * COUNT; i++)
    weir_pack_number(&packer, numbers[i / COUNT], numbers[i % COUNT]);
  const unsigned char *at = packer.bytes;
  for (int i = 0; i < COUNT * COUNT; i++)
    assert_true(weir_unpack_number(&at, numbers[i % COUNT]) == numbers[i / COUNT]);
  assert_ptr_equal(at, packer.bytes + packer.length);
  weir_packer_clean_up(&packer);
}

static uint64_t packed_bytes(const weir_simulation *of) {
  uint64_t bytes = 0;
  weir_packer packer = {0};
  for (const weir_seen_key *key = of->keys.oldest; key != of->keys.oldest_ready; key = key->newer) {
    const unsigned char *at = key->packed;
    weir_subject subject;
    assert_non_null(key->packed);
    (void)weir_unpack_number(&at, 0);
    assert_true(weir_subject_init(&subject, &of->drivers[0]));
    assert_true(weir_subject_unpack(&subject, &of->drivers[0], key->used_us, &at));
    bytes += (uint64_t)(at - key->packed) + sizeof *key + key->length;
    packer.length = 0;
    weir_subject_pack(&subject, &of->drivers[0], key->used_us, &packer);
    assert_int_equal(packer.length, at - key->packed - 1); /* unpacked, it is the same again */
    weir_subject_clean_up(&subject, &of->drivers[0]);
  }
  weir_packer_clean_up(&packer);
  return bytes;
}

/* One key is 300 bytes a rule, and of a log so much more for each request that lives. */
static void a_key_that_waits_takes_few_bytes(void **state) {
  static const struct {
    const char *rule;
    int requests;
    uint64_t most;
  } kinds[] = {{"sliding-window:20/1h", 3, 300},
               {"sliding-window:20/1h,cells=64", 3, 300},
               {"fixed-window:20/1h", 3, 300},
               {"quota:20/1h", 3, 300},
               {"token-bucket:20/1h", 3, 300},
               {"leaky-bucket:20/1h,queue=9", 3, 300},
               {"sliding-log:200/1h", 100, 300 + 100 * 20}};
  char key[32];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    enum { READY = 2, PACKED = 40, KEYS = READY + PACKED };
    init(kinds[i].rule);
    simulation.keys.ready_most = READY;
    for (int j = 0; j < KEYS * kinds[i].requests; j++) {
      snprintf(key, sizeof key, "192.0.2.%d", j % KEYS);
      send_request(INT64_C(1700000000000000) + INT64_C(20123) * j, key);
    }
    uint64_t each = packed_bytes(&simulation) / PACKED;
    if (each > kinds[i].most) fail_msg("%s: %d bytes", kinds[i].rule, (int)each);
    print_message("%s: %d bytes\n", kinds[i].rule, (int)each);
    clean_up(state);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(keys_that_nobody_asks_for_any_more_take_no_memory, clean_up),
      cmocka_unit_test_teardown(the_table_shrinks_behind_a_crowd, clean_up),
      cmocka_unit_test_teardown(forgetting_changes_no_decision, clean_up),
      cmocka_unit_test_teardown(a_request_with_an_earlier_time_counts_as_now, clean_up),
      cmocka_unit_test_teardown(packing_changes_no_decision, clean_up),
      cmocka_unit_test_teardown(differences_are_summed_by_key_over_all_of_the_time, clean_up),
      cmocka_unit_test(numbers_of_any_size_come_back),
      cmocka_unit_test(a_key_that_waits_takes_few_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
