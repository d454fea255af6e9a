/* Places while the store is away: those that are held, and those that a policy gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"

#define PERIOD_US (60 * SECOND_US)
#define GUARD_US (PERIOD_US / 16)
#define RUN_UP_US (2 * GUARD_US + AWAY_DEADLINE_US)
#define RULE "in-flight:4/1m"

static void open_with(world *w, const char *rules, weir_fallback policy) {
  away_open_with(
      w, rules,
      &(weir_limiter_options){.peers = 2, .fallback = policy, .renew = WEIR_RENEW_BY_CALLER});
}

static weir_status enter(world *w, int64_t cost, weir_reservation **made, weir_source *source) {
  weir_request request = {.key = "k", .key_length = 1, .cost = cost};
  weir_status status = weir_limiter_reserve(w->limiter, &request, made, NULL);
  if (source != NULL) *source = request.decision.source;
  return status;
}

static weir_reservation *enter_without(world *w) {
  weir_reservation *made;
  weir_source source;
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(enter(w, 1, &made, &source), WEIR_OK);
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(source, WEIR_SOURCE_FALLBACK);
  return made;
}

static void leave(weir_reservation *place) {
  weir_message message = {""};
  weir_status expected = weir_reservation_held(place) ? WEIR_OK : WEIR_PLACE_LOST;
  if (weir_reservation_commit(place, &message) != expected) fail_msg("%s", message.text);
  weir_reservation_destroy(place);
}

static weir_limiter_counts counts_of(const world *w) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(w->limiter, &counts);
  return counts;
}

/* A place that is paid for is held; one that cannot be paid for is lost, and known to be. */
static void places_are_held_as_long_as_they_were_paid_for(void **state) {
  world w;
  weir_reservation *kept, *lost;
  int64_t next_us;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_LOCAL);
  assert_int_equal(enter(&w, 1, &kept, NULL), WEIR_OK);
  world_set(&w, PERIOD_US - RUN_UP_US);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_UNAVAILABLE);
  assert_in_range(next_us, 1, 20000); /* it is tried again */
  world_set(&w, PERIOD_US - GUARD_US - 1);
  assert_true(weir_reservation_held(kept));
  the_fake.trouble = FAKE_WELL; /* just in time */
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  world_set(&w, PERIOD_US);
  assert_true(weir_reservation_held(kept));
  assert_int_equal(enter(&w, 1, &lost, NULL), WEIR_OK);
  the_fake.trouble = FAKE_AWAY;
  world_set(&w, 2 * PERIOD_US - RUN_UP_US);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_UNAVAILABLE);
  world_set(&w, 2 * PERIOD_US - GUARD_US);
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_false(weir_reservation_held(lost));
  assert_false(weir_reservation_held(kept));
  assert_int_equal(counts_of(&w).places_lost, 2);
  assert_int_equal(counts_of(&w).places_held, 0);
  leave(lost);
  leave(kept);
  world_close(&w);
}

/* A payment that is not answered is made again; what it may have paid is no place of others. */
static void a_payment_without_an_answer_is_made_again(void **state) {
  world w;
  weir_reservation *place;
  int64_t next_us;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_NONE);
  assert_int_equal(enter(&w, 2, &place, NULL), WEIR_OK);
  world_set(&w, PERIOD_US - RUN_UP_US);
  fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, true);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_UNKNOWN_OUTCOME);
  assert_true(weir_reservation_held_until_us(place) == START_US + PERIOD_US - GUARD_US);
  world_set(&w, PERIOD_US - RUN_UP_US + next_us);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_true(weir_reservation_held_until_us(place) == START_US + 2 * PERIOD_US - GUARD_US);
  world_set(&w, PERIOD_US);
  assert_int_equal(away_remaining(&w, RULE, "k"), 0);
  leave(place);
  assert_int_equal(away_remaining(&w, RULE, "k"), 2);
  world_close(&w);
}

/* Half of four: two at once, and again when they are left. They are not paid for. */
static void local_gives_this_process_its_share(void **state) {
  world w;
  weir_reservation *first, *second;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_LOCAL);
  first = enter_without(&w);
  second = enter_without(&w);
  assert_non_null(first);
  assert_non_null(second);
  assert_null(enter_without(&w));
  for (int i = 0; i < 5; i++) {
    leave(second);
    second = enter_without(&w);
    assert_non_null(second);
  }
  assert_true(weir_reservation_held(first));
  assert_true(weir_reservation_held_until_us(first) == START_US + PERIOD_US - GUARD_US);
  world_set(&w, PERIOD_US - GUARD_US);
  assert_false(weir_reservation_held(first));
  leave(first);
  leave(second);
  world_close(&w);
}

/* The places that it has paid for in the next period count as well, though it knows of nothing else
 * there. */
static void what_is_held_is_part_of_the_share(void **state) {
  world w;
  weir_reservation *places[2];
  int64_t next_us;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_LOCAL);
  for (int i = 0; i < 2; i++)
    assert_int_equal(enter(&w, 1, &places[i], NULL), WEIR_OK);
  world_set(&w, PERIOD_US - RUN_UP_US);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_null(enter_without(&w));
  world_set(&w, PERIOD_US);
  assert_null(enter_without(&w));
  for (int i = 0; i < 2; i++) {
    assert_true(weir_reservation_held(places[i]));
    leave(places[i]);
  }
  world_close(&w);
}

/* It is held there, and so it is owed there. */
static void what_is_held_for_one_period_more_is_paid_there(void **state) {
  world w;
  weir_reservation *places[2], *last;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_LOCAL);
  world_set(&w, PERIOD_US - RUN_UP_US);
  for (int i = 0; i < 2; i++)
    assert_non_null(places[i] = enter_without(&w));
  world_set(&w, PERIOD_US);
  assert_int_equal(enter(&w, 1, &last, NULL), WEIR_OK);
  assert_null(last); /* of its own share nothing is left; but it pays */
  assert_int_equal(counts_of(&w).paid, 2);
  assert_int_equal(away_remaining(&w, RULE, "k"), 2);
  for (int i = 0; i < 2; i++) {
    assert_true(weir_reservation_held(places[i]));
    leave(places[i]);
  }
  world_close(&w);
}

/* Late, as by a busy thread: it was owed in a period that is over. */
static void what_is_left_late_pays_for_no_other(void **state) {
  world w;
  weir_reservation *early, *ahead, *last;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_LOCAL);
  assert_non_null(early = enter_without(&w));
  world_set(&w, PERIOD_US - RUN_UP_US);
  assert_non_null(ahead = enter_without(&w));
  world_set(&w, PERIOD_US);
  leave(early);
  assert_int_equal(enter(&w, 1, &last, NULL), WEIR_OK);
  assert_int_equal(counts_of(&w).paid, 1);
  if (last != NULL) leave(last);
  leave(ahead);
  world_close(&w);
}

static void other_policies_do_as_they_say(void **state) {
  world w;
  weir_reservation *place;
  (void)state;
  open_with(&w, RULE, WEIR_FALLBACK_DENY);
  assert_null(enter_without(&w));
  world_close(&w);

  open_with(&w, RULE, WEIR_FALLBACK_ALLOW);
  place = enter_without(&w);
  world_set(&w, 10 * PERIOD_US);
  assert_true(weir_reservation_held(place));
  assert_true(weir_reservation_held_until_us(place) == INT64_MAX);
  leave(place);
  assert_int_equal(away_remaining(&w, RULE, "k"), 4);
  world_close(&w);

  open_with(&w, RULE, WEIR_FALLBACK_NONE);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(enter(&w, 1, &place, NULL), WEIR_UNAVAILABLE);
  the_fake.trouble = FAKE_WELL;
  assert_null(place);
  world_close(&w);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_are_held_as_long_as_they_were_paid_for),
      cmocka_unit_test(a_payment_without_an_answer_is_made_again),
      cmocka_unit_test(local_gives_this_process_its_share),
      cmocka_unit_test(what_is_held_is_part_of_the_share),
      cmocka_unit_test(what_is_held_for_one_period_more_is_paid_there),
      cmocka_unit_test(what_is_left_late_pays_for_no_other),
      cmocka_unit_test(other_policies_do_as_they_say),
  };
  return cmocka_run_group_tests_name("limiter in flight away", tests, NULL, NULL);
}
