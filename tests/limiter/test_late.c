/* Requests that run out of their own time, on a store that answers. Late and away cannot be told
 * apart in time, so what LOCAL says is the same: the account's answer. The store stands in this
 * process and takes longer than the deadline, or says that it is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "fixture/fake.h"
#include "limiter/world.h"

enum { DEADLINE_US = 20000, DELAY_US = 40000 };

static const char untouched[] = "untouched";
static const char no_time[] = "the deadline passed before the operation began";
static const char no_share[] =
    "; this process has not met its store yet and takes its share to be 1/1 (peers)";

static void open_with(world *w, const char *rules, weir_fallback fallback) {
  const weir_limiter_options options = {
      .deadline_us = DEADLINE_US, .fallback = fallback, .peers = 1};
  weir_limiter_options with_clock = options;
  weir_message message = {""};
  world_set(w, 0);
  with_clock.size = sizeof with_clock;
  with_clock.clock = hand_clock_as_clock(&w->clock);
  assert_int_equal(weir_store_open_backend(&fake_backend, "fake:", &w->store, &message), WEIR_OK);
  if (weir_limiter_create(w->store, rules, &with_clock, &w->limiter, &message) != WEIR_OK)
    fail_msg("%s", message.text);
}

static weir_status take(world *w, weir_decision *decision, weir_message *message) {
  snprintf(message->text, sizeof message->text, "%s", untouched);
  return weir_limiter_take(w->limiter, "k", 1, 1, decision, message);
}

static weir_limiter_counts counts_of(const world *w) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(w->limiter, &counts);
  return counts;
}

static void assert_says(const weir_message *message, const char *why, bool by_account) {
  char text[WEIR_MESSAGE_BYTES];
  snprintf(text, sizeof text, "%s%s", why, by_account ? no_share : "");
  assert_string_equal(message->text, text);
}

static void who_is_late_is_answered_by_the_policy(void **state) {
  static const weir_fallback policies[] = {WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_DENY,
                                           WEIR_FALLBACK_ALLOW};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    world w;
    weir_decision decision;
    weir_message message;
    open_with(&w, "fixed-window:10/1m", policies[i]);
    the_fake.delay_us = DELAY_US;
    assert_int_equal(take(&w, &decision, &message), WEIR_OK);
    assert_int_equal(decision.source, WEIR_SOURCE_LATE);
    assert_int_equal(decision.store_status, WEIR_UNKNOWN_OUTCOME); /* there is no time to undo it */
    assert_says(&message, no_time, policies[i] == WEIR_FALLBACK_LOCAL);
    assert_int_equal(decision.limit, 10);
    assert_int_equal(decision.cost, 1);
    if (policies[i] == WEIR_FALLBACK_ALLOW)
      assert_allowed(decision, WEIR_NOT_KNOWN, WEIR_NOT_KNOWN);
    else if (policies[i] == WEIR_FALLBACK_LOCAL)
      assert_allowed(decision, 9, 60 * SECOND_US);
    else
      assert_denied(decision, 0, 50000, 50000);
    the_fake.delay_us = 0;
    weir_limiter_counts counts = counts_of(&w);
    assert_int_equal(counts.by_late, 1);
    assert_int_equal(counts.by_fallback, 0);
    assert_int_equal(counts.statuses[WEIR_UNKNOWN_OUTCOME], 1);
    assert_int_equal(counts.allowed, policies[i] != WEIR_FALLBACK_DENY);
    assert_int_equal(counts.allowed + counts.denied, 1);
    assert_int_equal(counts.owed, 0); /* most likely it counts in the store */
    world_close(&w);
  }
}

/* Alone with a key, of which the first charges and every other one get no answer: they are its own all the
 * same. */
static void what_got_no_answer_is_part_of_the_share(void **state) {
  static const char *const rules[] = {
      "fixed-window:1000/1m",
      "sliding-window:1000/1m",
      "sliding-window:1000/1m,strict",
      "quota:1000/1m",
      "fixed-window:1000/1m;quota:2000/1h",
  };
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    open_with(&w, rules[i], WEIR_FALLBACK_LOCAL);
    for (int n = 0; n < 100; n++) {
      if (n < 40 || n % 2 == 1) {
        fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, true);
        the_fake.fault.late = the_fake.fault.slow = true;
      }
      world_take(&w, "k", 1);
      w.clock.now_us += 1000;
    }
    if (counts_of(&w).share < 950000) /* of a million; half of that without them */
      fail_msg("%s: %d", rules[i], (int)counts_of(&w).share);
    assert_true(counts_of(&w).by_late >= 69); /* one that creates the key is none of these */
    world_close(&w);
  }
}

/* No more is own than came to stand there: 29 of 129 charges, and a hundred that never arrived. */
static void what_never_arrived_is_no_part_of_the_share(void **state) {
  world w;
  (void)state;
  open_with(&w, "fixed-window:1000/1m", WEIR_FALLBACK_LOCAL);
  weir_limiter *other = world_limiter(&w, "fixed-window:1000/1m", NULL);
  for (int n = 0; n < 120; n++) {
    if (n % 6 != 0) {
      fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, false);
      the_fake.fault.late = the_fake.fault.slow = true;
    }
    world_take(&w, "k", 1);
  }
  assert_in_range(world_peek(&w, "k", 1).remaining, 980,
                  985); /* where the machine is busy others are late, too */
  for (int n = 0; n < 100; n++)
    limiter_take(other, "k", 1);
  for (int n = 0; n < 9; n++) /* what was learnt is told every eighth time */
    world_take(&w, "k", 1);
  assert_in_range(counts_of(&w).share, 150000, 300000); /* of a million */
  weir_limiter_destroy(other);
  world_close(&w);
}

/* What eight processes take to be their shares adds up to 1, whichever of their charges get no answer. */
static void shares_without_answers_add_up_to_1(void **state) {
  enum { PROCESSES = 8, CHARGES = 800 };
  (void)state;
  for (uint32_t lost = 0; lost < 8; lost += 3) { /* of ten */
    world w;
    weir_limiter *limiters[PROCESSES];
    uint32_t seed = 5;
    double sum = 0;
    open_with(&w, "fixed-window:100000/1h", WEIR_FALLBACK_LOCAL);
    weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
    options.clock = hand_clock_as_clock(&w.clock);
    options.peers = PROCESSES;
    for (int i = 0; i < PROCESSES; i++)
      assert_int_equal(
          weir_limiter_create(w.store, "fixed-window:100000/1h", &options, &limiters[i], NULL),
          WEIR_OK);
    for (int n = 0; n < CHARGES; n++) {
      if (chance(&seed, 10) < lost) {
        fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, true);
        the_fake.fault.late = the_fake.fault.slow = true;
      }
      limiter_take(limiters[chance(&seed, PROCESSES)], "k", 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
      weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
      weir_limiter_read_counts(limiters[i], &counts);
      sum += (double)counts.share / 1e6;
      weir_limiter_destroy(limiters[i]);
    }
    print_message("%u of ten without an answer: %.3f\n", (unsigned)lost, sum);
    assert_true(sum > 0.93 && sum < 1.05);
    world_close(&w);
  }
}

/* It is told to come again as soon as one that was late may find the store in time. */
static void the_account_denies_who_is_late_for_a_short_while(void **state) {
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  open_with(&w, "fixed-window:2/1m", WEIR_FALLBACK_LOCAL);
  world_take(&w, "k", 1);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  the_fake.fault.late = true;
  assert_int_equal(take(&w, &decision, &message), WEIR_OK);
  assert_allowed(decision, 0, 60 * SECOND_US);
  fake_fail_next(WEIR_GET, WEIR_NOT_SENT, false); /* what is owed is looked for first */
  the_fake.fault.late = true;
  assert_int_equal(take(&w, &decision, &message), WEIR_OK);
  assert_int_equal(decision.source, WEIR_SOURCE_LATE);
  assert_denied(decision, 0, 50000, 60 * SECOND_US);
  assert_int_equal(counts_of(&w).owed, 1);
  world_close(&w);
}

static void without_a_policy_it_is_a_status(void **state) {
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  open_with(&w, "fixed-window:10/1m", WEIR_FALLBACK_NONE);
  the_fake.delay_us = DELAY_US;
  assert_int_equal(take(&w, &decision, &message), WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(weir_limiter_peek(w.limiter, "k", 1, 1, &decision, &message), WEIR_TIMEOUT);
  the_fake.delay_us = 0;
  assert_int_equal(counts_of(&w).by_late, 0);
  world_close(&w);
}

/* Whatever an operation ends in: the account answers, and owes what was certainly not sent. */
static void late_and_away_are_both_answered_by_the_account(void **state) {
  static const struct {
    weir_outcome outcome;
    bool late;
    weir_source source;
    weir_status store_status;
    uint64_t owed;
  } cases[] = {
      {WEIR_NOT_SENT, false, WEIR_SOURCE_FALLBACK, WEIR_UNAVAILABLE, 1},
      {WEIR_NOT_SENT, true, WEIR_SOURCE_LATE, WEIR_UNAVAILABLE, 1},
      {WEIR_UNKNOWN, false, WEIR_SOURCE_FALLBACK, WEIR_UNKNOWN_OUTCOME, 0},
      {WEIR_UNKNOWN, true, WEIR_SOURCE_LATE, WEIR_UNKNOWN_OUTCOME, 0},
      {WEIR_REFUSED, false, WEIR_SOURCE_FALLBACK, WEIR_REFUSED_BY_STORE, 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    weir_decision decision;
    weir_message message;
    open_with(&w, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
    fake_fail_next(WEIR_ADD, cases[i].outcome, false);
    the_fake.fault.late = cases[i].late;
    assert_int_equal(take(&w, &decision, &message), WEIR_OK);
    assert_int_equal(decision.source, cases[i].source);
    assert_int_equal(decision.store_status, cases[i].store_status);
    assert_allowed(decision, 9, 60 * SECOND_US);
    assert_says(&message, "the fake made operation 0 fail", true);
    weir_limiter_counts counts = counts_of(&w);
    assert_int_equal(counts.by_late, cases[i].source == WEIR_SOURCE_LATE);
    assert_int_equal(counts.owed, cases[i].owed);
    world_close(&w);
  }
}

/* A late request counts in the store, or is paid to it: all together is never more than the
 * rule. */
static void a_busy_process_admits_no_more_than_the_rule(void **state) {
  static const char *const rules[] = {"fixed-window:10/1h", "sliding-log:10/1h",
                                      "token-bucket:10/1h;quota:20/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    int admitted = 0;
    int beside = 0; /* a log has no entries for what is paid later */
    bool is_log = strncmp(rules[i], "sliding-log", 11) == 0;
    open_with(&w, rules[i], WEIR_FALLBACK_LOCAL);
    for (int n = 0; n < 40; n++) {
      the_fake.delay_us = n % 4 == 3 ? DELAY_US : 0;
      weir_decision decision = world_take(&w, "k", 1);
      admitted += decision.allowed;
      beside += decision.allowed && is_log && decision.source == WEIR_SOURCE_LATE;
      w.clock.now_us += 60000; /* denials are forgotten; too little for another token */
    }
    the_fake.delay_us = 0;
    assert_int_equal(admitted, 10 + beside);
    assert_true(counts_of(&w).by_late > 0);
    assert_int_equal(counts_of(&w).owed, counts_of(&w).paid);
    assert_in_range(beside, 0, 3); /* what was admitted late before the log was known to be full */
    world_close(&w);
  }
}

static void who_waits_is_answered_at_once(void **state) {
  static const weir_fallback policies[] = {WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_DENY};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    weir_decision decision;
    weir_message message = {"untouched"};
    bool local = policies[i] == WEIR_FALLBACK_LOCAL;
    open_with(&w, "fixed-window:10/1m", policies[i]);
    the_fake.delay_us = DELAY_US;
    assert_int_equal(weir_limiter_wait(w.limiter, "k", 1, 1, 1000, &decision, &message), WEIR_OK);
    assert_int_equal(decision.source, WEIR_SOURCE_LATE);
    assert_int_equal(decision.allowed, local);
    assert_says(&message, no_time, local);
    the_fake.delay_us = 0;
    world_close(&w);
  }
}

/* A cost that LOCAL let pass late, and certainly did not send, is owed until it goes back. */
static void what_local_admitted_late_goes_back_to_the_account(void **state) {
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  open_with(&w, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
  world_take(&w, "k", 4);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  the_fake.fault.late = true;
  assert_int_equal(take(&w, &decision, &message), WEIR_OK);
  assert_int_equal(decision.source, WEIR_SOURCE_LATE);
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  assert_int_equal(decision.cost, 0);
  assert_int_equal(counts_of(&w).unpaid, 1);
  assert_int_equal(world_take(&w, "k", 1).remaining, 5);
  world_close(&w);
}

/* A cost that ALLOW let pass late was charged nowhere that is known. */
static void what_was_admitted_late_goes_back_nowhere(void **state) {
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  open_with(&w, "fixed-window:10/1m", WEIR_FALLBACK_ALLOW);
  world_take(&w, "k", 4);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  the_fake.fault.late = true;
  assert_int_equal(take(&w, &decision, &message), WEIR_OK);
  assert_int_equal(decision.source, WEIR_SOURCE_LATE);
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  assert_int_equal(decision.cost, 0);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 6);
  world_close(&w);
}

static void assert_about(const weir_message *message, int request, const char *what) {
  char text[WEIR_MESSAGE_BYTES];
  snprintf(text, sizeof text, "requests[%d]: %s", request, what);
  assert_string_equal(message->text, text);
}

/* The message is about the first without a decision, else about the first that a policy answered.
 */
static void the_message_names_its_request(void **state) {
  world w;
  weir_message message = {"untouched"};
  weir_request requests[] = {{.key = "known", .key_length = 5, .cost = 11},
                             {.key = "a", .key_length = 1, .cost = 1},
                             {.key = "b", .key_length = 1, .cost = 1},
                             {.key = "c", .key_length = 1, .cost = 1}};
  (void)state;
  open_with(&w, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 4, &message), WEIR_OK);
  assert_string_equal(message.text, untouched);
  the_fake.delay_us = DELAY_US;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 4, &message), WEIR_OK);
  assert_about(&message, 1, no_time);
  requests[3].flags = WEIR_REQUEST_PEEK;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 4, &message), WEIR_TIMEOUT);
  assert_memory_equal(message.text, "requests[3]: ", 13);
  requests[2].cost = 0;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 4, &message), WEIR_BAD_COST);
  assert_about(&message, 2, "cost 0 is outside 1 to 2147483648");
  the_fake.delay_us = 0;
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_is_late_is_answered_by_the_policy),
      cmocka_unit_test(what_got_no_answer_is_part_of_the_share),
      cmocka_unit_test(what_never_arrived_is_no_part_of_the_share),
      cmocka_unit_test(shares_without_answers_add_up_to_1),
      cmocka_unit_test(the_account_denies_who_is_late_for_a_short_while),
      cmocka_unit_test(without_a_policy_it_is_a_status),
      cmocka_unit_test(late_and_away_are_both_answered_by_the_account),
      cmocka_unit_test(a_busy_process_admits_no_more_than_the_rule),
      cmocka_unit_test(who_waits_is_answered_at_once),
      cmocka_unit_test(what_local_admitted_late_goes_back_to_the_account),
      cmocka_unit_test(what_was_admitted_late_goes_back_nowhere),
      cmocka_unit_test(the_message_names_its_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
