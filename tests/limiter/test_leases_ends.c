/* Leases where something else ends or changes meanwhile: the cell during a round trip, the memory
 * of the key, the rule's text, the limiter's process, the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "fixture/fake.h"
#include "limiter/leases.h"

static world *moved;

/* The cell ends while the request's first round trip is under way. */
static void end_the_cell(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  the_fake.before = NULL;
  world_set(moved, 250000);
}

/* It was to be admitted in part from a lot that is no longer usable at its stamp: what the store
 * admitted of it is not enough, and it asks again for the whole. */
static void a_request_whose_lot_ended_asks_again(void **state) {
  static const char *const rules[] = {"sliding-window:1000/1s,lease=1s",
                                      "sliding-window:1000/1s,strict,lease=1s"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    weir_limiter_options other = {.processes = 1, .flags = WEIR_NO_LEASES};
    moved = &w;
    lease_open(&w, rules[i], 30);
    lease_use_down_to(&w, "k", 7);
    weir_limiter *greedy = world_limiter(&w, rules[i], &other);
    weir_decision all = limiter_take(greedy, "k", limiter_peek(greedy, "k", 1).remaining);
    assert_true(all.allowed);
    /* By its own charge: the next one looks first. */
    assert_false(world_take(&w, "k", 400).allowed);
    assert_int_equal(lease_held(w.limiter), 7);
    assert_int_equal(weir_limiter_refund(greedy, "k", 1, 100, &all, NULL), WEIR_OK);
    weir_limiter_counts before = lease_counts(w.limiter);
    world_set(&w, 249999);
    the_fake.before = end_the_cell;
    fake_forget();
    weir_decision decision = world_take(&w, "k", 20);
    assert_null(the_fake.before);
    assert_true(decision.allowed);
    assert_int_equal(decision.cost, 20);
    assert_int_equal(decision.at_us, START_US + 250000);
    assert_true(the_fake.counts.round_trips >= 3);
    assert_int_equal(lease_counts(w.limiter).allowed, before.allowed + 1);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(limiter_peek(greedy, "k", 1).remaining, 100 + 7 - 20);
    weir_limiter_destroy(greedy);
    lease_close(&w);
  }
}

/* A lease that got less than it wanted gives the rest back, all of it, for sure: nobody has to look
 * before the next charge, as after a request that was denied by its own. */
static void a_short_grant_needs_no_look(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_limiter_options other = {.processes = 1, .flags = WEIR_NO_LEASES};
    lease_open(&w, lease_windows[i], 30);
    lease_use_down_to(&w, "k", 0);
    weir_limiter *greedy = world_limiter(&w, lease_windows[i], &other);
    int64_t room = limiter_peek(greedy, "k", 1).remaining;
    weir_decision most = limiter_take(greedy, "k", room - 20);
    fake_forget();
    assert_true(world_take(&w, "k", 1).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(lease_held(w.limiter), 19);
    assert_int_equal(weir_limiter_refund(greedy, "k", 1, 100, &most, NULL), WEIR_OK);
    fake_forget();
    assert_true(world_take(&w, "k", 20).allowed);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(the_fake.counts.round_trips, 1);
    weir_limiter_destroy(greedy);
    lease_close(&w);
  }
}

/* A memory of one key: what is held goes back along with the charge to the key that comes. */
static void a_key_that_is_forgotten_gives_back_its_lease(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_limiter_options options = {.processes = 1, .memo_keys = 1};
    world_open_backend(&w, &fake_backend, "fake:", lease_windows[i], &options);
    int64_t held = lease_fill(&w, "k", 30);
    int64_t room = lease_store_room(&w, lease_windows[i], "k");
    fake_forget();
    world_take(&w, "another", 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(lease_counts(w.limiter).lease_returned, held);
    assert_int_equal(lease_counts(w.limiter).lease_lost, 0);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(world_take(&w, "k", 1).remaining, room + held - 1);
    lease_close(&w);
  }
}

/* To a bucket nothing goes back. */
static void a_bucket_that_is_forgotten_loses_its_lease(void **state) {
  world w;
  weir_limiter_options options = {.processes = 1, .memo_keys = 1};
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", lease_bucket, &options);
  int64_t held = lease_fill(&w, "k", 30);
  world_take(&w, "another", 1);
  assert_int_equal(lease_counts(w.limiter).lease_lost, held);
  assert_int_equal(lease_held(w.limiter), 0);
  lease_close(&w);
}

/* The store is away as a key goes: its lot waits, and goes back when the store is there again; or
 * it has not gone when the limiter ends. */
static void what_was_forgotten_waits_for_the_store(void **state) {
  (void)state;
  for (int comes_back = 0; comes_back < 2; comes_back++) {
    world w;
    weir_decision decision;
    weir_limiter_options options = {.processes = 1, .memo_keys = 1};
    world_open_backend(&w, &fake_backend, "fake:", lease_windows[0], &options);
    int64_t held = lease_fill(&w, "k", 30);
    int64_t room = lease_store_room(&w, lease_windows[0], "k");
    the_fake.scripted = true;
    for (size_t n = 0; n < FAKE_ANSWERS_MOST; n++)
      the_fake.outcomes[n] = WEIR_NOT_SENT;
    assert_int_equal(weir_limiter_take(w.limiter, "another", 7, 1, &decision, NULL),
                     WEIR_UNAVAILABLE);
    assert_int_equal(lease_held(w.limiter), held);
    the_fake.scripted = false;
    if (comes_back == 1) {
      world_take(&w, "a third", 1);
      assert_int_equal(lease_counts(w.limiter).lease_returned, held);
      assert_int_equal(lease_store_room(&w, lease_windows[0], "k"), room + held);
    }
    lease_close(&w);
  }
}

/* Three times as many keys as the memory has room for, each asked for a while now and then. */
static void many_keys_lose_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_limiter_options options = {.processes = 1, .memo_keys = 100};
    uint32_t seed = 11;
    world_open_backend(&w, &fake_backend, "fake:", lease_windows[i], &options);
    for (int n = 0; n < 3000; n++) {
      char key[16];
      snprintf(key, sizeof key, "key%u", chance(&seed, 300));
      for (uint32_t times = 10 + chance(&seed, 20); times > 0; times--)
        world_take(&w, key, 1);
      world_set(&w, n * 50);
    }
    weir_limiter_counts counts = lease_counts(w.limiter);
    assert_true(counts.leased > 5000);
    assert_int_equal(counts.lease_lost, 0);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_held(w.limiter), 0);
    lease_close(&w);
  }
}

/* Where others can go, they go first. */
static void a_key_with_a_lease_is_forgotten_last(void **state) {
  world w;
  weir_limiter_options options = {.processes = 1, .memo_keys = 256};
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", lease_windows[0], &options);
  int64_t held = lease_fill(&w, "k", 30);
  for (int i = 0; i < 2000; i++) {
    char key[16];
    snprintf(key, sizeof key, "other%d", i);
    world_take(&w, key, 1);
  }
  assert_int_equal(lease_held(w.limiter), held);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
  lease_close(&w);
}

/* A bucket's B' is what a full one gives; earlier charges are not forgotten. */
static void counts_go_on_when_a_rule_gets_a_lease(void **state) {
  static const char *const rules[][2] = {
      {"fixed-window:1000/1s", "fixed-window:1000/1s,lease=20ms"},
      {"sliding-window:1000/1s", "sliding-window:1000/1s,lease=20ms"},
      {"quota:1000/1s", "quota:1000/1s,lease=20ms"},
      {"token-bucket:1000/1s,burst=1020", "token-bucket:1000/1s,burst=1020,lease=20ms"}};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    weir_limiter_options options = {.processes = 1};
    lease_open(&w, rules[i][0], 0);
    world_take(&w, "k", 300);
    weir_limiter *leased = world_limiter(&w, rules[i][1], &options);
    assert_int_equal(limiter_peek(leased, "k", 1).remaining, 700);
    assert_int_equal(limiter_peek(leased, "k", 1).limit, 1000);
    weir_limiter_destroy(leased);
    lease_close(&w);
  }
}

/* The parent's grants are no child's. */
static void a_child_has_no_lease(void **state) {
  world w;
  int status;
  (void)state;
  lease_open(&w, lease_windows[0], 30);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    weir_decision decision;
    bool refused = weir_limiter_take(w.limiter, "k", 1, 1, &decision, NULL) == WEIR_BAD_ARGUMENT &&
                   weir_limiter_return_leases(w.limiter, NULL) == WEIR_BAD_ARGUMENT;
    _exit(refused ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
  lease_close(&w);
}

/* Uses come first; what is asked beyond them the policy decides, and its share leases nothing. */
static void the_policy_answers_behind_the_lease(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_limiter_options options = {.processes = 1, .peers = 1, .fallback = WEIR_FALLBACK_DENY};
    world_open_backend(&w, &fake_backend, "fake:", lease_windows[i], &options);
    int64_t held = lease_fill(&w, "k", 30);
    the_fake.scripted = true;
    for (size_t n = 0; n < FAKE_ANSWERS_MOST; n++)
      the_fake.outcomes[n] = WEIR_NOT_SENT;
    for (int64_t n = 0; n < held; n++)
      assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
    weir_decision decision = world_take(&w, "k", 1);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_false(decision.allowed);
    the_fake.scripted = false;
    lease_close(&w);
  }
}

/* A request that may wait gets what is held at once. */
static void who_may_wait_uses_what_is_held(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_decision decision;
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_held(w.limiter);
    assert_int_equal(weir_limiter_wait(w.limiter, "k", 1, held, SECOND_US, &decision, NULL),
                     WEIR_OK);
    assert_true(decision.allowed);
    assert_int_equal(decision.delay_us, 0);
    assert_int_equal(decision.cost, held);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(the_fake.counts.round_trips, 0);
    lease_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_whose_lot_ended_asks_again),
      cmocka_unit_test(a_short_grant_needs_no_look),
      cmocka_unit_test(a_key_that_is_forgotten_gives_back_its_lease),
      cmocka_unit_test(a_bucket_that_is_forgotten_loses_its_lease),
      cmocka_unit_test(what_was_forgotten_waits_for_the_store),
      cmocka_unit_test(many_keys_lose_nothing),
      cmocka_unit_test(a_key_with_a_lease_is_forgotten_last),
      cmocka_unit_test(counts_go_on_when_a_rule_gets_a_lease),
      cmocka_unit_test(a_child_has_no_lease),
      cmocka_unit_test(the_policy_answers_behind_the_lease),
      cmocka_unit_test(who_may_wait_uses_what_is_held),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
