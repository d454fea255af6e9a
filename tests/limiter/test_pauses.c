/* Rounds that others disturb: pauses, tries again, contended keys; and what the reserve of a
 * deadline is for. A rival stands in front of the embedded store and writes a key just before it is
 * swapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"
#include "store/store.h"

enum { RIVALS = 2, WITHOUT_END = -1 };

/* Which keys are written, by a part of their text, and how often it still happens. */
static struct rival {
  const char *key;
  bool only_lowering; /* before what gives back, not before what charges */
  _Atomic int writes_left;
} rivals[RIVALS];

static _Atomic int swaps_seen;

static bool is_about(const weir_operation *operation, const char *key) {
  char text[WEIR_STORE_KEY_MOST + 1];
  snprintf(text, sizeof text, "%.*s", (int)operation->key_length, operation->key);
  return strstr(text, key) != NULL;
}

/* The same value once more: only the version tells. False where there is nothing, or it is not
 * meant.
 */
static bool write_first(weir_store *inner, const weir_operation *swap, bool only_lowering) {
  weir_operation write = *swap;
  write.kind = WEIR_GET;
  weir_store_exec(inner, &write, 1, INT64_MAX, NULL);
  if (write.outcome != WEIR_DONE || (only_lowering && swap->value >= write.value)) return false;
  write.kind = WEIR_SWAP;
  write.version = write.version_out;
  weir_store_exec(inner, &write, 1, INT64_MAX, NULL);
  return true;
}

static void compete(weir_store *inner, const weir_operation *operations, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (operations[i].kind != WEIR_SWAP) continue;
    atomic_fetch_add(&swaps_seen, 1);
    for (size_t j = 0; j < RIVALS; j++) {
      struct rival *rival = &rivals[j];
      if (rival->key == NULL || !is_about(&operations[i], rival->key)) continue;
      bool wrote =
          rival->writes_left != 0 && write_first(inner, &operations[i], rival->only_lowering);
      if (wrote && rival->writes_left > 0) rival->writes_left--;
    }
  }
}

static void open_rival(world *w, const char *rules, int64_t deadline_us) {
  weir_limiter_options options = {.deadline_us = deadline_us};
  for (size_t i = 0; i < RIVALS; i++)
    rivals[i].key = NULL;
  world_open_backend(w, &fake_backend, "fake:", rules, &options);
  the_fake.before = compete;
  swaps_seen = 0;
}

static void set_rival(size_t i, const char *key, int writes) {
  rivals[i].only_lowering = false;
  rivals[i].writes_left = writes;
  rivals[i].key = key;
}

static weir_status take(world *w, const char *key, weir_decision *decision, weir_message *message) {
  return weir_limiter_take(w->limiter, key, strlen(key), 1, decision, message);
}

static void a_key_that_others_write_is_tried_again_and_charged_once(void **state) {
  world w;
  (void)state;
  open_rival(&w, "token-bucket:10/1h", 20 * SECOND_US);
  world_take(&w, "busy", 1);
  set_rival(0, "{busy}", 5);
  weir_decision decision = world_take(&w, "busy", 1);
  assert_true(decision.allowed);
  assert_int_equal(decision.remaining, 8);
  assert_int_equal(swaps_seen, 6);
  assert_int_equal(world_peek(&w, "busy", 1).remaining, 8);
  world_close(&w);
}

/* Runs a scene until it shows something: a machine that stalls for too long hides it. */
static void until_shown(bool (*scene)(void)) {
  for (int i = 0; i < 20; i++)
    if (scene()) return;
  fail_msg("nothing was shown in 20 tries");
}

enum { CONTENDED_DEADLINE_US = 2000000 };

/* Whether the call had its time, and used it: then it can only have ended contended. */
static bool was_calm(int64_t began_us) {
  return weir_monotonic_us() - began_us < CONTENDED_DEADLINE_US && swaps_seen > 20;
}

/* Without pauses, or with pauses that do not grow, there would be tens of thousands of tries. */
static bool contended_key(void) {
  world w;
  weir_decision decision = {.cost = 77};
  weir_message message = {""};
  open_rival(&w, "token-bucket:10/1h", CONTENDED_DEADLINE_US);
  world_take(&w, "busy", 1);
  set_rival(0, "{busy}", WITHOUT_END);
  int64_t began_us = weir_monotonic_us();
  weir_status status = take(&w, "busy", &decision, &message);
  bool shown = was_calm(began_us);
  if (shown) {
    assert_true(weir_monotonic_us() - began_us >= CONTENDED_DEADLINE_US / 2);
    assert_int_equal(status, WEIR_CONTENDED);
    assert_string_equal(message.text, weir_status_text(WEIR_CONTENDED));
    assert_int_equal(decision.cost, 77);
    assert_true(swaps_seen < 10000);
    set_rival(0, "{busy}", 0);
    assert_int_equal(world_peek(&w, "busy", 1).remaining, 9);
    assert_int_equal(world_take(&w, "busy", 1).remaining, 8);
  }
  world_close(&w);
  return shown;
}

static void a_key_that_others_never_let_go_is_contended(void **state) {
  (void)state;
  until_shown(contended_key);
}

static bool contended_batch(void) {
  world w;
  weir_message message = {""};
  weir_request requests[] = {{.key = "never", .key_length = 5, .cost = 1},
                             {.key = "calm", .key_length = 4, .cost = 1},
                             {.key = "soon", .key_length = 4, .cost = 1},
                             {.key = "new", .key_length = 3, .cost = 1}};
  open_rival(&w, "token-bucket:10/1h", CONTENDED_DEADLINE_US);
  for (size_t i = 0; i < 3; i++)
    world_take(&w, requests[i].key, 1);
  set_rival(0, "{never}", WITHOUT_END);
  set_rival(1, "{soon}", 3);
  int64_t began_us = weir_monotonic_us();
  weir_status status = weir_limiter_decide(w.limiter, requests, 4, &message);
  bool shown = was_calm(began_us);
  if (shown) {
    assert_int_equal(status, WEIR_CONTENDED);
    assert_string_equal(message.text,
                        "requests[0]: others kept writing the key until the deadline");
    assert_int_equal(requests[0].status, WEIR_CONTENDED);
    for (size_t i = 1; i < 4; i++) {
      assert_int_equal(requests[i].status, WEIR_OK);
      assert_int_equal(requests[i].decision.remaining, i < 3 ? 8 : 9);
    }
  }
  world_close(&w);
  return shown;
}

static void groups_of_one_call_pause_each_for_itself(void **state) {
  (void)state;
  until_shown(contended_batch);
}

static bool contended_stack(void) {
  static const char *const rules[] = {"fixed-window:9/1h", "token-bucket:9/1h", "quota:9/1h"};
  world w;
  weir_decision decision;
  open_rival(&w, "fixed-window:9/1h;token-bucket:9/1h;quota:9/1h", CONTENDED_DEADLINE_US);
  world_take(&w, "busy", 1);
  set_rival(0, "tb-", WITHOUT_END);
  int64_t began_us = weir_monotonic_us();
  weir_status status = take(&w, "busy", &decision, NULL);
  bool shown = was_calm(began_us);
  set_rival(0, "tb-", 0);
  if (shown) assert_int_equal(status, WEIR_CONTENDED);
  for (size_t i = 0; shown && i < 3; i++) {
    weir_limiter *alone = world_limiter(&w, rules[i], NULL);
    assert_int_equal(limiter_peek(alone, "busy", 1).remaining, 8);
    weir_limiter_destroy(alone);
  }
  world_close(&w);
  return shown;
}

static void what_other_rules_were_charged_goes_back_before_a_pause(void **state) {
  (void)state;
  until_shown(contended_stack);
}

/* One bucket was charged and cannot be given back, the other never gets its charge: it must not be
 * said that nothing is charged, nor is it charged again and again. */
static void what_cannot_go_back_is_not_called_contended(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  open_rival(&w, "token-bucket:9/1h;token-bucket:99/1d", CONTENDED_DEADLINE_US);
  world_take(&w, "busy", 1);
  set_rival(0, "tb-86400000", WITHOUT_END);
  set_rival(1, "tb-3600000", WITHOUT_END);
  rivals[1].only_lowering = true;
  assert_int_equal(take(&w, "busy", &decision, NULL), WEIR_UNKNOWN_OUTCOME);
  set_rival(0, "tb-", 0);
  set_rival(1, "tb-", 0);
  assert_in_range(world_peek(&w, "busy", 1).remaining, 7, 8);
  world_close(&w);
}

/* An answer of WEIR_OK would say that it is back. */
static void a_refund_that_others_keep_out_says_so(void **state) {
  world w;
  weir_message message = {""};
  (void)state;
  open_rival(&w, "token-bucket:10/1h", 20 * SECOND_US);
  weir_decision taken = world_take(&w, "busy", 4);
  set_rival(0, "{busy}", WITHOUT_END);
  assert_int_equal(weir_limiter_refund(w.limiter, "busy", 4, 3, &taken, &message), WEIR_CONTENDED);
  assert_int_equal(taken.cost, 4);
  set_rival(0, "{busy}", 1);
  assert_int_equal(weir_limiter_refund(w.limiter, "busy", 4, 3, &taken, &message), WEIR_OK);
  assert_int_equal(taken.cost, 1);
  assert_int_equal(world_peek(&w, "busy", 1).remaining, 9);
  world_close(&w);
}

/* In the second round one key's charge goes back and another's first charge would leave, when the
 * time for charging is just over. */
static bool late_second_round(void) {
  enum { DEADLINE_US = 2000000, CHARGE_US = DEADLINE_US / 4 * 3 };
  world w;
  weir_limiter_options options = {.deadline_us = DEADLINE_US, .flags = WEIR_NO_LOCAL_DENIAL};
  weir_request requests[] = {{.key = "full", .key_length = 4, .cost = 1},
                             {.key = "seen", .key_length = 4, .cost = 1}};
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:2/1h", &options);
  weir_limiter *other = world_limiter(&w, "fixed-window:2/1h", &options);
  limiter_take(other, "full", 2); /* this limiter does not know */
  world_take(&w, "seen", 1);
  world_take(&w, "seen", 2); /* denied: the next touch looks first */
  fake_forget();
  the_fake.delay_us = CHARGE_US;
  int64_t began_us = weir_monotonic_us();
  weir_limiter_decide(w.limiter, requests, 2, NULL);
  bool shown = weir_monotonic_us() - began_us - CHARGE_US < DEADLINE_US; /* of two rounds */
  the_fake.delay_us = 0;
  if (shown) {
    assert_int_equal(requests[0].status, WEIR_OK);
    assert_false(requests[0].decision.allowed);
    assert_int_equal(requests[1].status, WEIR_TIMEOUT);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
    assert_int_equal(limiter_peek(other, "full", 1).remaining, 0);
    assert_int_equal(limiter_peek(other, "seen", 1).remaining, 1);
  }
  weir_limiter_destroy(other);
  world_close(&w);
  return shown;
}

static void the_reserve_is_for_giving_back_alone(void **state) {
  (void)state;
  until_shown(late_second_round);
}

/* --- who shares a bucket -----------------------------------------------------------------------
 */

static int round_trips_of(weir_limiter *limiter) {
  fake_forget();
  assert_true(limiter_take(limiter, "k", 1).allowed);
  return the_fake.counts.round_trips;
}

/* Another takes between every two of its own: what it kept is stale each time. */
static void whoever_met_a_conflict_looks_first_for_a_second(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "token-bucket:1000/1s", NULL);
  weir_limiter *other = world_limiter(&w, "token-bucket:1000/1s", NULL);
  assert_int_equal(round_trips_of(w.limiter), 1); /* create */
  assert_int_equal(round_trips_of(other), 2);     /* in vain with a look, swap */
  assert_int_equal(round_trips_of(w.limiter), 3); /* in vain, look, swap */
  assert_int_equal(round_trips_of(other), 3);
  for (int64_t ms = 1; ms < 1000; ms += 2) {
    world_set(&w, ms * 1000);
    assert_int_equal(round_trips_of(w.limiter), 2);
    assert_int_equal(round_trips_of(other), 2);
  }
  world_set(&w, SECOND_US); /* it tries, and meets the other again */
  assert_int_equal(round_trips_of(w.limiter), 3);
  world_set(&w, SECOND_US + 1000);
  assert_int_equal(round_trips_of(w.limiter), 2);
  for (int64_t ms = 1900; ms < 2500; ms += 100) { /* and is alone from now on */
    world_set(&w, ms * 1000);
    assert_int_equal(round_trips_of(w.limiter), ms < 2000 ? 2 : 1);
  }
  weir_limiter_destroy(other);
  world_close(&w);
}

/* Even where the decision itself was left without an answer for it. */
static void a_contended_key_is_looked_at_first(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  open_rival(&w, "token-bucket:1000/1s", 20000);
  assert_int_equal(take(&w, "k", &decision, NULL), WEIR_OK);
  set_rival(0, "k", WITHOUT_END);
  assert_int_equal(take(&w, "k", &decision, NULL), WEIR_CONTENDED);
  set_rival(0, "k", 0);
  assert_int_equal(take(&w, "k", &decision, NULL), WEIR_OK);
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(w.limiter, &counts);
  uint64_t before = counts.round_trips;
  assert_int_equal(take(&w, "k", &decision, NULL), WEIR_OK);
  weir_limiter_read_counts(w.limiter, &counts);
  assert_int_equal(counts.round_trips - before, 2);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_key_that_others_write_is_tried_again_and_charged_once),
      cmocka_unit_test(a_key_that_others_never_let_go_is_contended),
      cmocka_unit_test(groups_of_one_call_pause_each_for_itself),
      cmocka_unit_test(what_other_rules_were_charged_goes_back_before_a_pause),
      cmocka_unit_test(what_cannot_go_back_is_not_called_contended),
      cmocka_unit_test(a_refund_that_others_keep_out_says_so),
      cmocka_unit_test(the_reserve_is_for_giving_back_alone),
      cmocka_unit_test(whoever_met_a_conflict_looks_first_for_a_second),
      cmocka_unit_test(a_contended_key_is_looked_at_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
