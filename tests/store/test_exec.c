#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "store/store.h"

enum { ALL_TRAITS = WEIR_TRAIT_SWAP | WEIR_TRAIT_RAISE };

static weir_backend backend;

static weir_store *open_with(unsigned traits) {
  weir_store *store;
  the_fake = (fake){.scripted = true, .result = {.value = 1, .version_out = 1}};
  backend = fake_backend_with(traits);
  if (weir_store_open_backend(&backend, "fake:", &store, NULL) != WEIR_OK) fail();
  return store;
}

static int set_up(void **state) {
  *state = open_with(ALL_TRAITS);
  return 0;
}

static int tear_down(void **state) {
  weir_store_close(*state);
  return 0;
}

/* One that keeps the contract, whatever its kind. */
static weir_operation good(weir_operation_kind kind) {
  return (weir_operation){.kind = kind,
                          .key = "weir:{k}:0",
                          .key_length = 10,
                          .home_offset = 6,
                          .home_length = 1,
                          .delta = 1,
                          .ttl_us = 1000,
                          .version = 1};
}

static weir_operation at_the_most(weir_operation_kind kind) {
  static char longest[WEIR_STORE_KEY_MOST];
  memset(longest, '~', sizeof longest);
  longest[0] = '!';
  return (weir_operation){.kind = kind,
                          .key = longest,
                          .key_length = WEIR_STORE_KEY_MOST,
                          .home_length = WEIR_STORE_KEY_MOST,
                          .delta = WEIR_VALUE_MOST,
                          .seed = WEIR_VALUE_MOST,
                          .floor = INT64_C(1) << 52,
                          .ttl_us = WEIR_TTL_MOST_US,
                          .version = UINT64_MAX,
                          .value = WEIR_VALUE_MOST};
}

static void good_operations_pass_at_both_ends_of_their_ranges(void **state) {
  for (int kind = WEIR_ADD; kind <= WEIR_DROP; kind++) {
    weir_operation operations[] = {good((weir_operation_kind)kind),
                                   at_the_most((weir_operation_kind)kind)};
    weir_message message;
    the_fake.outcomes[0] = the_fake.outcomes[1] = WEIR_DONE;
    weir_store_exec(*state, operations, 2, 12345, &message);
    assert_int_equal(operations[0].outcome, WEIR_DONE);
    assert_int_equal(operations[1].outcome, WEIR_DONE);
    assert_string_equal(message.text, "");
  }
  assert_int_equal(the_fake.counts.round_trips, WEIR_DROP + 1);
  assert_int_equal(the_fake.deadline_us, 12345);
}

/* The one before it is good, and is not sent either. */
static void assert_not_sent(weir_store *store, weir_operation operation, const char *part) {
  weir_operation operations[] = {good(WEIR_ADD), operation};
  weir_message message;
  int before = the_fake.counts.round_trips;
  weir_store_exec(store, operations, 2, 0, &message);
  assert_int_equal(the_fake.counts.round_trips, before);
  assert_int_equal(operations[0].outcome, WEIR_REFUSED);
  assert_int_equal(operations[1].outcome, WEIR_REFUSED);
  if (strstr(message.text, "bug in weir: operation 1 (") == NULL ||
      strstr(message.text, part) == NULL)
    fail_msg("\"%s\" lacks \"%s\"", message.text, part);
}

#define ASSERT_NOT_SENT(kind, member, wrong, part) \
  do {                                             \
    weir_operation operation = good(kind);         \
    operation.member = wrong;                      \
    assert_not_sent(*state, operation, part);      \
  } while (0)

static void bad_keys_are_not_sent(void **state) {
  ASSERT_NOT_SENT(WEIR_GET, key, NULL, "there is no key");
  ASSERT_NOT_SENT(WEIR_GET, key_length, 0, "key_length");
  ASSERT_NOT_SENT(WEIR_GET, key, "weir {k}:0", "not printable ASCII, or a space");
  ASSERT_NOT_SENT(WEIR_GET, key, "weir:{k}:\n", "not printable ASCII");
  ASSERT_NOT_SENT(WEIR_GET, key, "weir:{k}:\x7f", "not printable ASCII");
  ASSERT_NOT_SENT(WEIR_GET, key, "weir:{k}:\x80", "not printable ASCII");
  ASSERT_NOT_SENT(WEIR_GET, key, "\xffweir{k}:0", "not printable ASCII");
  weir_operation operation = at_the_most(WEIR_GET);
  operation.key_length++;
  assert_not_sent(*state, operation, "key_length");
}

static void every_byte_of_a_key_is_looked_at(void **state) {
  char key[21];
  weir_operation operation = good(WEIR_GET);
  operation.key = key;
  operation.key_length = sizeof key;
  for (size_t at = 0; at < sizeof key; at++) {
    for (int byte = 0; byte < 256; byte++) {
      memset(key, byte % 2 == 0 ? '!' : '~', sizeof key);
      key[at] = (char)byte;
      the_fake.outcomes[0] = WEIR_ABSENT;
      weir_store_exec(*state, &operation, 1, 0, NULL);
      assert_int_equal(operation.outcome, byte > ' ' && byte < 0x7f ? WEIR_ABSENT : WEIR_REFUSED);
    }
  }
}

static void homes_outside_the_key_are_not_sent(void **state) {
  ASSERT_NOT_SENT(WEIR_GET, home_length, 0, "home");
  ASSERT_NOT_SENT(WEIR_GET, home_length, 5, "home");
  ASSERT_NOT_SENT(WEIR_GET, home_offset, 10, "home");
  ASSERT_NOT_SENT(WEIR_GET, home_offset, UINT16_MAX, "home");
  ASSERT_NOT_SENT(WEIR_GET, home_length, UINT16_MAX, "home");
}

static void numbers_out_of_range_are_not_sent(void **state) {
  static const weir_operation_kind with_delta[] = {WEIR_ADD, WEIR_SUB, WEIR_RAISE};
  for (size_t i = 0; i < 3; i++) {
    ASSERT_NOT_SENT(with_delta[i], delta, 0, "delta");
    ASSERT_NOT_SENT(with_delta[i], delta, -1, "delta");
    ASSERT_NOT_SENT(with_delta[i], delta, WEIR_VALUE_MOST + 1, "delta");
  }
  ASSERT_NOT_SENT(WEIR_ADD, seed, -1, "seed");
  ASSERT_NOT_SENT(WEIR_ADD, seed, WEIR_VALUE_MOST + 1, "seed");
  ASSERT_NOT_SENT(WEIR_RAISE, floor, -1, "floor");
  ASSERT_NOT_SENT(WEIR_RAISE, floor, (INT64_C(1) << 52) + 1, "floor");
  static const weir_operation_kind with_value[] = {WEIR_CREATE, WEIR_SWAP, WEIR_PUT};
  for (size_t i = 0; i < 3; i++) {
    ASSERT_NOT_SENT(with_value[i], value, -1, "value");
    ASSERT_NOT_SENT(with_value[i], value, WEIR_VALUE_MOST + 1, "value");
  }
  static const weir_operation_kind with_ttl[] = {WEIR_ADD,  WEIR_SUB,   WEIR_CREATE,
                                                 WEIR_SWAP, WEIR_RAISE, WEIR_PUT};
  for (size_t i = 0; i < 6; i++) {
    ASSERT_NOT_SENT(with_ttl[i], ttl_us, 999, "ttl_us");
    ASSERT_NOT_SENT(with_ttl[i], ttl_us, WEIR_TTL_MOST_US + 1, "ttl_us");
  }
  ASSERT_NOT_SENT(WEIR_SWAP, version, 0, "version");
}

static void members_that_an_operation_does_not_use_are_not_looked_at(void **state) {
  weir_operation operation = good(WEIR_GET);
  operation.delta = operation.seed = operation.floor = operation.ttl_us = operation.value = -1;
  the_fake.outcomes[0] = WEIR_ABSENT;
  weir_store_exec(*state, &operation, 1, 0, NULL);
  assert_int_equal(operation.outcome, WEIR_ABSENT);
}

static void unknown_kinds_are_not_sent(void **state) {
  ASSERT_NOT_SENT(WEIR_GET, kind, (weir_operation_kind)(WEIR_DROP + 1), "kind");
}

static weir_operation raised(weir_operation operation) {
  operation.raised = true;
  return operation;
}

static void only_a_get_and_a_sub_take_a_raised_key(void **state) {
  (void)state;
  weir_store *store = open_with(WEIR_TRAIT_RAISE);
  weir_operation sub = raised(good(WEIR_SUB));
  sub.delta = INT64_C(1) << 53;
  weir_operation operations[] = {raised(good(WEIR_GET)), sub};
  the_fake.outcomes[0] = the_fake.outcomes[1] = WEIR_ABSENT;
  weir_store_exec(store, operations, 2, 0, NULL);
  assert_int_equal(operations[0].outcome, WEIR_ABSENT);
  assert_int_equal(operations[1].outcome, WEIR_ABSENT);
  sub.delta++;
  assert_not_sent(store, sub, "(SUB) for backend fake: delta is out of range for a raised key");
  static const weir_operation_kind others[] = {WEIR_ADD, WEIR_CREATE, WEIR_RAISE, WEIR_PUT,
                                               WEIR_DROP};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_not_sent(store, raised(good(others[i])), "raised is for GET and SUB alone");
  weir_store_close(store);
  store = open_with(WEIR_TRAIT_SWAP);
  assert_not_sent(store, raised(good(WEIR_SWAP)), "raised is for GET and SUB alone");
  assert_not_sent(store, raised(good(WEIR_GET)),
                  "(GET) for backend fake: the backend lacks the trait");
  assert_not_sent(store, raised(good(WEIR_SUB)),
                  "(SUB) for backend fake: the backend lacks the trait");
  weir_store_close(store);
}

static void operations_without_their_trait_are_not_sent(void **state) {
  (void)state;
  weir_store *store = open_with(WEIR_TRAIT_SWAP);
  assert_not_sent(store, good(WEIR_RAISE), "(RAISE) for backend fake: the backend lacks the trait");
  weir_store_close(store);
  store = open_with(WEIR_TRAIT_RAISE);
  assert_not_sent(store, good(WEIR_SWAP), "(SWAP) for backend fake: the backend lacks the trait");
  weir_store_close(store);
}

static void too_many_operations_are_not_sent(void **state) {
  size_t count = WEIR_OPERATIONS_MOST + 1;
  weir_operation *operations = calloc(count, sizeof *operations);
  assert_non_null(operations);
  weir_message message;
  weir_store_exec(*state, operations, count, 0, &message);
  assert_int_equal(the_fake.counts.round_trips, 0);
  assert_int_equal(operations[count - 1].outcome, WEIR_REFUSED);
  assert_non_null(strstr(message.text, "131073 operations in one exec"));
  free(operations);
}

static void no_operations_are_no_call(void **state) {
  weir_message message = {"left over"};
  weir_store_exec(*state, NULL, 0, 0, &message);
  assert_int_equal(the_fake.counts.round_trips, 0);
  assert_string_equal(message.text, "");
}

static bool may_end_in(weir_operation_kind kind, weir_outcome outcome) {
  switch (outcome) {
    case WEIR_PENDING:
      return false;
    case WEIR_ABSENT:
      return kind == WEIR_SUB || kind == WEIR_GET || kind == WEIR_SWAP || kind == WEIR_RAISE ||
             kind == WEIR_DROP;
    case WEIR_CONFLICT:
      return kind == WEIR_CREATE || kind == WEIR_SWAP;
    default:
      return outcome <= WEIR_REFUSED;
  }
}

static void only_the_outcomes_of_its_kind_pass(void **state) {
  for (int kind = WEIR_ADD; kind <= WEIR_DROP; kind++) {
    for (int outcome = WEIR_PENDING; outcome <= WEIR_FULL + 1; outcome++) {
      weir_operation operations[] = {good((weir_operation_kind)kind), good(WEIR_ADD)};
      weir_message message;
      the_fake.outcomes[0] = (weir_outcome)outcome;
      the_fake.outcomes[1] = WEIR_DONE;
      weir_store_exec(*state, operations, 2, 0, &message);
      bool fine = may_end_in(operations[0].kind, (weir_outcome)outcome);
      assert_int_equal(operations[0].outcome, fine ? outcome : WEIR_UNKNOWN);
      assert_int_equal(operations[1].outcome, WEIR_DONE);
      assert_int_equal(
          strstr(message.text, "backend fake broke its contract: operation 0 (") == NULL, fine);
    }
  }
}

static void an_addition_is_full_only_by_its_bound(void **state) {
  for (unsigned n = 0; n < 4; n++) {
    weir_operation operation = good(WEIR_ADD);
    backend.traits = n % 2 == 0 ? ALL_TRAITS : ALL_TRAITS | WEIR_TRAIT_BOUND;
    operation.floor = n / 2;
    the_fake.outcomes[0] = WEIR_FULL;
    weir_store_exec(*state, &operation, 1, 0, NULL);
    assert_int_equal(operation.outcome, n == 3 ? WEIR_FULL : WEIR_UNKNOWN);
    operation.floor = -1;
    weir_store_exec(*state, &operation, 1, 0, NULL);
    assert_int_equal(operation.outcome, WEIR_REFUSED);
  }
}

static void a_forgotten_operation_is_named(void **state) {
  weir_operation operation = good(WEIR_SUB);
  weir_message message;
  operation.outcome = WEIR_DONE; /* what came in does not pass for an answer */
  the_fake.outcomes[0] = WEIR_PENDING;
  weir_store_exec(*state, &operation, 1, 0, &message);
  assert_int_equal(operation.outcome, WEIR_UNKNOWN);
  assert_string_equal(message.text,
                      "backend fake broke its contract: operation 0 (SUB) ended in PENDING");
}

static void a_get_with_swap_needs_a_version(void **state) {
  weir_operation operation = good(WEIR_GET);
  weir_message message;
  the_fake.outcomes[0] = WEIR_DONE;
  the_fake.result.version_out = 0;
  weir_store_exec(*state, &operation, 1, 0, &message);
  assert_int_equal(operation.outcome, WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "version 0"));

  weir_store *store = open_with(0);
  the_fake.outcomes[0] = WEIR_DONE;
  the_fake.result.version_out = 0;
  operation = good(WEIR_GET);
  weir_store_exec(store, &operation, 1, 0, &message);
  assert_int_equal(operation.outcome, WEIR_DONE);
  weir_store_close(store);
}

static void the_backend_explains_a_failure_itself(void **state) {
  weir_operation operation = good(WEIR_GET);
  weir_message message;
  the_fake.outcomes[0] = WEIR_NOT_SENT;
  the_fake.exec_message = "connection refused";
  weir_store_exec(*state, &operation, 1, 0, &message);
  assert_int_equal(operation.outcome, WEIR_NOT_SENT);
  assert_string_equal(message.text, "connection refused");
  weir_store_exec(*state, &operation, 1, 0, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(good_operations_pass_at_both_ends_of_their_ranges),
      TEST(bad_keys_are_not_sent),
      TEST(every_byte_of_a_key_is_looked_at),
      TEST(homes_outside_the_key_are_not_sent),
      TEST(numbers_out_of_range_are_not_sent),
      TEST(members_that_an_operation_does_not_use_are_not_looked_at),
      TEST(unknown_kinds_are_not_sent),
      TEST(only_a_get_and_a_sub_take_a_raised_key),
      TEST(operations_without_their_trait_are_not_sent),
      TEST(too_many_operations_are_not_sent),
      TEST(no_operations_are_no_call),
      TEST(only_the_outcomes_of_its_kind_pass),
      TEST(an_addition_is_full_only_by_its_bound),
      TEST(a_forgotten_operation_is_named),
      TEST(a_get_with_swap_needs_a_version),
      TEST(the_backend_explains_a_failure_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
