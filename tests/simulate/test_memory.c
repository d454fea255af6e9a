/* Memory: what is allocated for keys and for requests that count is bounded, and where there is not
 * enough of it the simulation says so. The linker sends every allocation to the wrappers below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "simulate/simulation.h"

enum { HEADER_BYTES = 8 }; /* of the allocator, for each piece */
static const int64_t begin_us = INT64_C(1700000000000000);

static int64_t allocated, most_allocated;
static int left = -1; /* before memory ends; below 0: it does not */
static bool ended;

static bool may_have(void) {
  ended = ended || left == 0;
  if (left == 0) return false;
  if (left > 0) left--;
  return true;
}

/* A size known before is taken off first: a realloc may free it. */
static void note(int64_t before, void *memory) {
  int64_t bytes = memory != NULL ? (int64_t)malloc_usable_size(memory) + HEADER_BYTES : 0;
  allocated += bytes - before;
  if (allocated > most_allocated) most_allocated = allocated;
}

static int64_t bytes_of(void *memory) {
  return memory != NULL ? (int64_t)malloc_usable_size(memory) + HEADER_BYTES : 0;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size) {
  void *memory = may_have() ? __real_malloc(size) : NULL;
  note(0, memory);
  return memory;
}

void *__wrap_calloc(size_t count, size_t size) {
  void *memory = may_have() ? __real_calloc(count, size) : NULL;
  note(0, memory);
  return memory;
}

void *__wrap_realloc(void *memory, size_t size) {
  int64_t before = bytes_of(memory);
  void *larger = may_have() ? __real_realloc(memory, size) : NULL;
  if (larger != NULL) note(before, larger);
  return larger;
}

void __wrap_free(void *memory) {
  note(bytes_of(memory), NULL);
  __real_free(memory);
}

/* NOLINTEND(bugprone-reserved-identifier) */

static weir_simulation simulation;

static weir_status init(const char *const *rules, size_t count) {
  static const weir_limiter_options options = {.size = sizeof options};
  weir_message why = {""};
  return weir_simulation_init(&simulation, rules, count, &options, &why);
}

static int clean_up(void **state) {
  (void)state;
  left = -1;
  weir_simulation_clean_up(&simulation);
  return 0;
}

static weir_status ask(int64_t time_us, int key) {
  char text[32];
  weir_message why = {""};
  int length = snprintf(text, sizeof text, "192.0.%d.%d", key / 256, key % 256);
  const weir_simulated request = {
      .time_us = time_us, .key = text, .key_length = (size_t)length, .cost = 1};
  return weir_simulation_request(&simulation, &request, &why);
}

/* So many keys ask, in turn, so often; what is allocated then. */
static int64_t allocated_for(int keys, int requests, int64_t apart_us) {
  for (int i = 0; i < requests; i++)
    for (int key = 0; key < keys; key++)
      assert_int_equal(ask(begin_us + apart_us * (i * (int64_t)keys + key), key), WEIR_OK);
  assert_int_equal(simulation.keys.table.count, keys);
  return allocated;
}

/* The bytes of one more key, with its place in the table: as long as it is asked for seldom, the
 * same as others that nobody has denied. */
static void a_key_takes_at_most_300_bytes_a_rule(void **state) {
  enum { FEW = 1000, MANY = 5000, REQUESTS = 3 };
  static const char *const kinds[][3] = {
      {"sliding-window:20/1h", "token-bucket:20/1h", "quota:1000/1d"},
      {"fixed-window:20/1h"},
      {"sliding-window:20/1h,cells=64"},
      {"sliding-window:20/1h,strict"},
      {"quota:20/1d"},
      {"token-bucket:20/1h"},
      {"leaky-bucket:20/1h,queue=19"},
      {"sliding-log:20/1h"},
      {"fixed-window:20/1h;sliding-log:50/1d"}};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t rules = kinds[i][1] != NULL ? 3 : 1;
    int64_t bytes[2];
    for (int many = 0; many < 2; many++) {
      allocated = 0;
      assert_int_equal(init(kinds[i], rules), WEIR_OK);
      bytes[many] = allocated_for(many ? MANY : FEW, REQUESTS, 12345);
      assert_int_equal(simulation.measures[0].allowed, simulation.requests);
      weir_simulation_clean_up(&simulation);
      assert_int_equal(allocated, 0);
    }
    int64_t each = (bytes[1] - bytes[0]) / (MANY - FEW);
    print_message("%s: %d bytes a key\n", kinds[i][0], (int)each);
    assert_in_range(each, 1, 300 * rules);
  }
}

/* Those who were denied are remembered for good, in each rule's table. */
static void a_key_that_is_denied_takes_no_more(void **state) {
  enum { FEW = 1000, MANY = 5000, REQUESTS = 4 };
  static const char *const rules[] = {"sliding-window:1/1h", "token-bucket:2/1h", "quota:3/1d"};
  int64_t bytes[2];
  (void)state;
  for (int many = 0; many < 2; many++) {
    allocated = 0;
    assert_int_equal(init(rules, 3), WEIR_OK);
    bytes[many] = allocated_for(many ? MANY : FEW, REQUESTS, 12345);
    for (int i = 0; i < 3; i++)
      assert_int_equal(simulation.denied[i].table.count, simulation.keys.table.count);
    weir_simulation_clean_up(&simulation);
  }
  int64_t each = (bytes[1] - bytes[0]) / (MANY - FEW);
  print_message("%d bytes a key\n", (int)each);
  assert_in_range(each, 1, 300 * 3);
}

/* More than may stand ready: all but the newest are packed, and one more request of each takes no
 * more than 8 bytes, for as long as the store holds it. */
static void a_request_that_counts_takes_at_most_8_bytes(void **state) {
  enum { KEYS = 4, FEW = 200, MANY = 500 };
  static const struct {
    const char *rule;
    int64_t apart_us;
  } kinds[] = {{"sliding-log:3000/1h", 300123},
               {"sliding-log:3000/1d", 6000000},
               {"sliding-log:2000/1h;sliding-log:3000/1d", 300123},
               {"sliding-window:3000/1h", 300123},
               {"token-bucket:3000/1h", 300123}};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int64_t bytes[2];
    for (int many = 0; many < 2; many++) {
      allocated = 0;
      assert_int_equal(init(&kinds[i].rule, 1), WEIR_OK);
      simulation.keys.weight_most = 1;
      bytes[many] = allocated_for(KEYS, many ? MANY : FEW, kinds[i].apart_us);
      assert_int_equal(simulation.measures[0].allowed, simulation.requests);
      assert_int_equal(simulation.keys.ready, 1);
      const weir_seen_key *newest = simulation.keys.newest;
      for (size_t j = 0; j < simulation.drivers[0].stack.count; j++) /* the one that stands ready */
        for (size_t place = 0; place < WEIR_PLACES; place++)
          bytes[many] -= bytes_of(newest->subjects->driven.places[j * WEIR_PLACES + place].slots);
      for (size_t j = 0; j < simulation.drivers[0].stack.count; j++)
        bytes[many] -= bytes_of(newest->subjects->exact[j].ruled.stamps) +
                       bytes_of(newest->subjects->exact[j].own.stamps);
      bytes[many] -= bytes_of(simulation.keys.packer.bytes);
      weir_simulation_clean_up(&simulation);
    }
    double each = (double)(bytes[1] - bytes[0]) / ((KEYS - 1) * (MANY - FEW));
    print_message("%s: %.2f bytes a request\n", kinds[i].rule, each);
    assert_true(each > 0 && each <= 8);
  }
}

/* With the weight as it is set, memory stays near it however much the keys in use hold. */
static void keys_that_stand_ready_have_a_bounded_weight(void **state) {
  enum { KEYS = 20, REQUESTS = 400, WEIGHT = 64 << 10 };
  static const char *const rules[] = {"sliding-log:3000/1h"};
  (void)state;
  allocated = most_allocated = 0;
  assert_int_equal(init(rules, 1), WEIR_OK);
  simulation.keys.weight_most = WEIGHT;
  (void)allocated_for(KEYS, REQUESTS, 1000);
  /* the weight, the two that are at work, in an array while a larger one is filled, and the rest */
  int64_t one = 2 * 512 * (int64_t)(sizeof(weir_stored_counter) + 2 * sizeof(weir_stamp));
  assert_in_range(most_allocated, 1, WEIGHT + 3 * one + KEYS * REQUESTS * 8 + (64 << 10));
}

/* Each allocation in turn fails: what is told is that, and nothing is lost or left. */
static void memory_that_ends_is_told(void **state) {
  static const char *const rules[] = {"sliding-log:2/1s", "quota:2/1s;token-bucket:1/1s"};
  int failed = 0;
  (void)state;
  for (int after = 0;; after++) {
    weir_status status;
    allocated = 0;
    ended = false;
    left = after;
    status = init(rules, 2);
    if (status == WEIR_OK) {
      simulation.keys.ready_most = 2;
      for (int i = 0; i < 300 && status == WEIR_OK; i++)
        status = ask(begin_us + 50000 * i, i * 7 % 5);
      if (status == WEIR_OK) status = weir_simulation_finish(&simulation);
      weir_simulation_clean_up(&simulation);
    }
    left = -1;
    assert_int_equal(allocated, 0);
    if (!ended) break;
    failed++;
    assert_int_equal(status, WEIR_NO_MEMORY);
  }
  assert_in_range(failed, 50, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_key_takes_at_most_300_bytes_a_rule, clean_up),
      cmocka_unit_test_teardown(a_key_that_is_denied_takes_no_more, clean_up),
      cmocka_unit_test_teardown(a_request_that_counts_takes_at_most_8_bytes, clean_up),
      cmocka_unit_test_teardown(keys_that_stand_ready_have_a_bounded_weight, clean_up),
      cmocka_unit_test_teardown(memory_that_ends_is_told, clean_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
