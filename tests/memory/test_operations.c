#include "memory/counter.h"

static void add_creates_with_seed_and_delta(void **state) {
  weir_operation operation = {.kind = WEIR_ADD, .delta = 5, .seed = 7, .ttl_us = MINUTE_US};
  operation = run(*state, "k", operation);
  assert_int_equal(operation.outcome, WEIR_DONE);
  assert_int_equal(operation.value, 12);
  assert_holds(*state, "k", 12);
}

static void add_ignores_the_seed_of_a_present_key(void **state) {
  add(*state, "k", 1, MINUTE_US);
  weir_operation operation = {.kind = WEIR_ADD, .delta = 5, .seed = 7, .ttl_us = MINUTE_US};
  assert_int_equal(run(*state, "k", operation).value, 6);
}

static void add_refuses_what_no_int64_holds(void **state) {
  add(*state, "k", WEIR_VALUE_MOST, MINUTE_US);
  assert_int_equal(add(*state, "k", WEIR_VALUE_MOST - 1, MINUTE_US).value, INT64_MAX);
  assert_int_equal(add(*state, "k", 1, MINUTE_US).outcome, WEIR_REFUSED);
  assert_holds(*state, "k", INT64_MAX);
}

static void add_refuses_a_seed_and_delta_that_no_int64_holds(void **state) {
  weir_operation operation = {
      .kind = WEIR_ADD, .delta = WEIR_VALUE_MOST, .seed = WEIR_VALUE_MOST, .ttl_us = MINUTE_US};
  assert_int_equal(run(*state, "k", operation).outcome, WEIR_REFUSED);
  assert_absent(*state, "k");
}

static weir_operation sub(weir_store *store, const char *key, int64_t delta) {
  return run(store, key, (weir_operation){.kind = WEIR_SUB, .delta = delta, .ttl_us = MINUTE_US});
}

static void sub_takes_back_below_zero_too(void **state) {
  add(*state, "k", 5, MINUTE_US);
  assert_int_equal(sub(*state, "k", 2).value, 3);
  weir_operation operation = sub(*state, "k", 10);
  assert_int_equal(operation.outcome, WEIR_DONE);
  assert_int_equal(operation.value, -7);
  assert_holds(*state, "k", -7);
}

static void sub_never_creates(void **state) {
  assert_int_equal(sub(*state, "k", 2).outcome, WEIR_ABSENT);
  assert_absent(*state, "k");
}

static void sub_refuses_what_no_int64_holds(void **state) {
  put(*state, "k", 0, MINUTE_US);
  sub(*state, "k", WEIR_VALUE_MOST);
  assert_int_equal(sub(*state, "k", WEIR_VALUE_MOST).value, INT64_MIN);
  assert_int_equal(sub(*state, "k", 1).outcome, WEIR_REFUSED);
  assert_holds(*state, "k", INT64_MIN);
}

static weir_operation create(weir_store *store, const char *key, int64_t value) {
  return run(store, key,
             (weir_operation){.kind = WEIR_CREATE, .value = value, .ttl_us = MINUTE_US});
}

static void create_stores_only_where_nothing_is(void **state) {
  weir_operation operation = create(*state, "k", 3);
  assert_int_equal(operation.outcome, WEIR_DONE);
  assert_true(operation.version_out == get(*state, "k").version_out);
  assert_int_equal(create(*state, "k", 4).outcome, WEIR_CONFLICT);
  assert_holds(*state, "k", 3);
}

static weir_operation swap(weir_store *store, const char *key, uint64_t version, int64_t value) {
  return run(
      store, key,
      (weir_operation){.kind = WEIR_SWAP, .version = version, .value = value, .ttl_us = MINUTE_US});
}

static void swap_stores_over_the_version_that_was_read(void **state) {
  uint64_t version = put(*state, "k", 1, MINUTE_US).version_out;
  weir_operation operation = swap(*state, "k", get(*state, "k").version_out, 2);
  assert_int_equal(operation.outcome, WEIR_DONE);
  assert_true(operation.version_out != version);
  assert_int_equal(swap(*state, "k", operation.version_out, 3).outcome, WEIR_DONE);
  assert_holds(*state, "k", 3);
}

static void swap_meets_every_kind_of_write_as_a_conflict(void **state) {
  uint64_t before = put(*state, "k", 1, MINUTE_US).version_out;
  add(*state, "k", 1, MINUTE_US);
  assert_int_equal(swap(*state, "k", before, 9).outcome, WEIR_CONFLICT);
  before = get(*state, "k").version_out;
  sub(*state, "k", 1);
  assert_int_equal(swap(*state, "k", before, 9).outcome, WEIR_CONFLICT);
  before = get(*state, "k").version_out;
  put(*state, "k", 1, MINUTE_US);
  assert_int_equal(swap(*state, "k", before, 9).outcome, WEIR_CONFLICT);
  before = get(*state, "k").version_out;
  swap(*state, "k", before, 1);
  assert_int_equal(swap(*state, "k", before, 9).outcome, WEIR_CONFLICT);
  assert_holds(*state, "k", 1);
}

static void swap_needs_the_key(void **state) {
  assert_int_equal(swap(*state, "k", 1, 9).outcome, WEIR_ABSENT);
  assert_absent(*state, "k");
}

static void swap_does_not_take_a_new_key_for_the_old_one(void **state) {
  uint64_t before = create(*state, "k", 1).version_out;
  run(*state, "k", (weir_operation){.kind = WEIR_DROP});
  create(*state, "k", 1);
  assert_int_equal(swap(*state, "k", before, 9).outcome, WEIR_CONFLICT);
}

static void reading_leaves_the_version(void **state) {
  add(*state, "k", 1, MINUTE_US);
  assert_true(get(*state, "k").version_out == get(*state, "k").version_out);
}

static void put_stores_whatever_was_there(void **state) {
  assert_int_equal(put(*state, "k", 4, MINUTE_US).outcome, WEIR_DONE);
  assert_holds(*state, "k", 4);
  assert_int_equal(put(*state, "k", 0, MINUTE_US).outcome, WEIR_DONE);
  assert_holds(*state, "k", 0);
}

static void drop_deletes_and_tells_whether_it_did(void **state) {
  add(*state, "k", 1, MINUTE_US);
  assert_int_equal(run(*state, "k", (weir_operation){.kind = WEIR_DROP}).outcome, WEIR_DONE);
  assert_absent(*state, "k");
  assert_int_equal(run(*state, "k", (weir_operation){.kind = WEIR_DROP}).outcome, WEIR_ABSENT);
}

static void raise_is_refused(void **state) {
  weir_operation operation = {.kind = WEIR_RAISE, .delta = 1, .ttl_us = MINUTE_US};
  assert_int_equal(run(*state, "k", operation).outcome, WEIR_REFUSED);
}

static void keys_that_differ_in_one_byte_are_apart(void **state) {
  add(*state, "weir:{a}:1", 1, MINUTE_US);
  add(*state, "weir:{a}:2", 2, MINUTE_US);
  add(*state, "weir:{a}:", 3, MINUTE_US);
  assert_holds(*state, "weir:{a}:1", 1);
  assert_holds(*state, "weir:{a}:2", 2);
  assert_holds(*state, "weir:{a}:", 3);
}

static void stores_are_apart(void **state) {
  weir_store *other = open_memory("memory:");
  add(*state, "k", 1, MINUTE_US);
  assert_absent(other, "k");
  weir_store_close(other);
}

static weir_operation on_k(weir_operation_kind kind) {
  return (weir_operation){
      .kind = kind, .key = "k", .key_length = 1, .home_length = 1, .delta = 2, .ttl_us = MINUTE_US};
}

static void a_batch_runs_in_order(void **state) {
  weir_operation operations[] = {on_k(WEIR_GET), on_k(WEIR_ADD),  on_k(WEIR_GET),
                                 on_k(WEIR_ADD), on_k(WEIR_DROP), on_k(WEIR_GET)};
  weir_message message;
  weir_store_exec(*state, operations, 6, deadline_in_ms(1000), &message);
  assert_int_equal(operations[0].outcome, WEIR_ABSENT);
  assert_int_equal(operations[1].value, 2);
  assert_int_equal(operations[2].value, 2);
  assert_int_equal(operations[3].value, 4);
  assert_int_equal(operations[4].outcome, WEIR_DONE);
  assert_int_equal(operations[5].outcome, WEIR_ABSENT);
  assert_string_equal(message.text, "");
}

static void nothing_begins_after_the_deadline(void **state) {
  weir_operation operations[] = {on_k(WEIR_ADD), on_k(WEIR_GET)};
  weir_message message;
  weir_store_exec(*state, operations, 2, deadline_in_ms(-1), &message);
  assert_int_equal(operations[0].outcome, WEIR_NOT_SENT);
  assert_int_equal(operations[1].outcome, WEIR_NOT_SENT);
  assert_non_null(strstr(message.text, "deadline"));
  assert_absent(*state, "k");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_store, tear_down_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(add_creates_with_seed_and_delta),
      TEST(add_ignores_the_seed_of_a_present_key),
      TEST(add_refuses_what_no_int64_holds),
      TEST(add_refuses_a_seed_and_delta_that_no_int64_holds),
      TEST(sub_takes_back_below_zero_too),
      TEST(sub_never_creates),
      TEST(sub_refuses_what_no_int64_holds),
      TEST(create_stores_only_where_nothing_is),
      TEST(swap_stores_over_the_version_that_was_read),
      TEST(swap_meets_every_kind_of_write_as_a_conflict),
      TEST(swap_needs_the_key),
      TEST(swap_does_not_take_a_new_key_for_the_old_one),
      TEST(reading_leaves_the_version),
      TEST(put_stores_whatever_was_there),
      TEST(drop_deletes_and_tells_whether_it_did),
      TEST(raise_is_refused),
      TEST(keys_that_differ_in_one_byte_are_apart),
      TEST(stores_are_apart),
      TEST(a_batch_runs_in_order),
      TEST(nothing_begins_after_the_deadline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
