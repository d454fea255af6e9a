/* Classes of one limit: each is admitted as if its part were all of it, and costs nothing more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/away.h"
#include "limiter/stores.h"
#include "limiter/world.h"
#include "store/store.h"

static const weir_extra batch = {.size = sizeof(weir_extra), .class_name = "batch"};
static const weir_extra free_ = {.size = sizeof(weir_extra), .class_name = "free"};

/* 10 in all: of these 6 for batch, and 8 for free. */
static const char *const rules[] = {
    "fixed-window:10/1h,classes=batch:60%|free:80%",
    "sliding-window:10/1h,classes=batch:6|free:80%",
    "sliding-window:10/1h,most=5000,classes=batch:60%|free:8",
    "sliding-window:10/1h,cells=16,strict,classes=batch:60%|free:80%",
    "sliding-log:10/1h,classes=batch:60%|free:80%",
    "quota:10/1h,classes=batch:60%|free:80%",
    "token-bucket:10/1h,classes=batch:60%|free:80%",
    "token-bucket:5/1h,burst=10,classes=batch:60%|free:80%",
    "leaky-bucket:10/1h,queue=9,classes=batch:60%|free:80%",
    "fixed-window:10/1h,classes=batch:60%|free:80%;quota:1000/1d",
    ("sliding-window:99/1h;fixed-window:10/1m,classes=batch:60%|free:80%;"
     "quota:50/1d,classes=batch:99%|free:100%"),
    "sliding-log:10/1h,classes=batch:60%|free:80%;sliding-log:500/1d",
};
enum { RULES = sizeof rules / sizeof rules[0] };

static void open_on(world *w, int store, const char *text) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .longest_wait_us = SECOND_US};
  world_open(w, stores_url(store, url), text, &options);
}

static weir_decision decide(weir_limiter *limiter, const weir_extra *extra, int64_t cost,
                            unsigned flags) {
  weir_message why = {""};
  weir_request request = {.key = "k", .key_length = 1, .cost = cost, .flags = flags};
  weir_status status = weir_decide_extra(&limiter, &request, &extra, 1, &why);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), why.text);
  return request.decision;
}

static weir_decision take(const world *w, const weir_extra *extra) {
  return decide(w->limiter, extra, 1, 0);
}

/* Takes one by one until it is denied: so many were admitted. */
static int take_all(const world *w, const weir_extra *extra, int64_t limit) {
  int count = 0;
  weir_decision decision;
  while ((decision = take(w, extra)).allowed) {
    assert_int_equal(decision.limit, limit);
    count++;
  }
  assert_int_equal(decision.limit, limit);
  assert_true(decision.retry_after_us > 0);
  return count;
}

static void each_fills_its_part(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < RULES; i++) {
      world w;
      open_on(&w, store, rules[i]);
      assert_int_equal(take_all(&w, &batch, 6), 6);
      assert_int_equal(take_all(&w, &free_, 8), 2);
      assert_int_equal(take_all(&w, &batch, 6), 0);
      assert_int_equal(take_all(&w, NULL, 10), 2);
      assert_int_equal(take_all(&w, &free_, 8), 0);
      assert_int_equal(take_all(&w, NULL, 10), 0);
      world_close(&w);
    }
  }
}

/* Who knows nothing of the key before, as a process that has just begun. */
static void each_is_told_what_is_left_of_its_part(void **state) {
  static const struct {
    const weir_extra *extra;
    int64_t limit, left;
  } cases[] = {{&batch, 6, 1}, {&free_, 8, 3}, {NULL, 10, 5}};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < RULES; i++) {
      world w;
      open_on(&w, store, rules[i]);
      for (int n = 0; n < 5; n++)
        assert_true(take(&w, NULL).allowed);
      for (size_t n = 0; n < 3; n++) {
        weir_decision told = decide(w.limiter, cases[n].extra, 1, WEIR_REQUEST_PEEK);
        assert_true(told.allowed);
        assert_int_equal(told.limit, cases[n].limit);
        assert_int_equal(told.remaining, cases[n].left);
      }
      if (strstr(rules[i], "log") == NULL)
        assert_int_equal(decide(w.limiter, &batch, 7, WEIR_REQUEST_PEEK).retry_after_us,
                         WEIR_NEVER);
      world_close(&w);
    }
  }
}

/* As they come, each by its own: in one charge where all fit, and where some do not. */
static void a_group_is_judged_in_its_order(void **state) {
  static const char order[] = "bbbbfnnbbfbnfnnn"; /* of one key, all at once */
  static const char fits[] = "1111111001010100";  /* 6 for b, 8 for f; 10 in all */
  static const char told[] = "5432343---------";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < RULES; i++) {
      world w;
      weir_request requests[sizeof order - 1];
      const weir_extra *extras[sizeof order - 1];
      weir_limiter *limiters[sizeof order - 1];
      open_on(&w, store, rules[i]);
      for (size_t n = 0; n < sizeof order - 1; n++) {
        requests[n] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
        extras[n] = order[n] == 'b' ? &batch : order[n] == 'f' ? &free_ : NULL;
        limiters[n] = w.limiter;
      }
      assert_int_equal(weir_decide_extra(limiters, requests, extras, sizeof order - 1, NULL),
                       WEIR_OK);
      for (size_t n = 0; n < sizeof order - 1; n++) {
        const weir_decision *decision = &requests[n].decision;
        if (decision->allowed != (fits[n] == '1'))
          fail_msg("%s on %s: %zu is %d", rules[i], stores[store].name, n, decision->allowed);
        if (told[n] != '-' && decision->remaining != WEIR_NOT_KNOWN)
          assert_int_equal(decision->remaining, told[n] - '0');
      }
      world_close(&w);
    }
  }
}

static void as_much_as_fits_is_that_of_the_class(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < RULES; i++) {
      world w;
      if (strstr(rules[i], "log") != NULL) continue;
      open_on(&w, store, rules[i]);
      assert_int_equal(decide(w.limiter, &batch, 100, WEIR_REQUEST_UP_TO).cost, 6);
      assert_false(decide(w.limiter, &batch, 100, WEIR_REQUEST_UP_TO).allowed);
      assert_int_equal(decide(w.limiter, NULL, 3, WEIR_REQUEST_UP_TO).cost, 3);
      assert_int_equal(decide(w.limiter, &free_, 3, WEIR_REQUEST_PEEK).remaining, 0);
      assert_int_equal(decide(w.limiter, NULL, 3, WEIR_REQUEST_UP_TO).cost, 1);
      world_close(&w);
    }
  }
}

/* It is entered by a reservation, and what a higher class leaves goes to no lower one. */
static void places_are_kept_for_higher_classes(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_reservation *held[10];
    int count = 0;
    open_on(&w, store, "in-flight:10/5m,classes=batch:60%|free:80%");
    const weir_extra *const as[] = {&batch, &free_, NULL};
    for (size_t n = 0; n < 3; n++) {
      for (;;) {
        weir_request request = {.key = "k", .key_length = 1, .cost = 1};
        weir_reservation *made = NULL;
        assert_int_equal(weir_reserve_extra(&w.limiter, &request, &as[n], 1, &made, NULL), WEIR_OK);
        if (made == NULL) break;
        held[count++] = made;
      }
      assert_int_equal(count, 6 + 2 * (int)n);
    }
    for (int n = 6; n < 10; n++)
      assert_int_equal(weir_reservation_commit(held[n], NULL), WEIR_OK);
    weir_request request = {.key = "k", .key_length = 1, .cost = 1};
    weir_reservation *made = NULL;
    assert_int_equal(weir_reserve_extra(&w.limiter, &request, &as[0], 1, &made, NULL), WEIR_OK);
    assert_null(made);
    assert_int_equal(weir_reserve_extra(&w.limiter, &request, &as[1], 1, &made, NULL), WEIR_OK);
    assert_non_null(made);
    weir_reservation_destroy(made);
    for (int n = 0; n < 10; n++)
      weir_reservation_destroy(held[n]);
    world_close(&w);
  }
}

/* What turned out to cost more is charged up to what the class may have, and the debt. */
static void an_overrun_is_cut_at_its_class(void **state) {
  static const char *const texts[] = {"fixed-window:10/1h,debt=1,classes=batch:60%|free:80%",
                                      "sliding-window:10/1h,debt=1,classes=batch:60%|free:80%",
                                      "quota:10/1h,debt=1,classes=batch:60%|free:80%",
                                      "token-bucket:10/1h,debt=1,classes=batch:60%|free:80%"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < 4; i++) {
      for (int by = 0; by < 3; by++) {
        static const int64_t most[] = {7, 9, 11};
        const weir_extra *const as[] = {&batch, &free_, NULL};
        world w;
        open_on(&w, store, texts[i]);
        weir_request request = {.key = "k", .key_length = 1, .flags = WEIR_REQUEST_SETTLE};
        if (by == 0 && store % 2 == 0) assert_true(take(&w, NULL).allowed); /* known, or not */
        int64_t before = by == 0 && store % 2 == 0 ? 1 : 0;
        request.decision = take(&w, as[by]);
        request.cost = 50;
        assert_int_equal(weir_decide_extra(&w.limiter, &request, &as[by], 1, NULL), WEIR_OK);
        assert_int_equal(request.decision.cost, most[by] - before);
        assert_int_equal(request.decision.limit, most[by] - 1);
        world_close(&w);
      }
    }
  }
}

static void a_reservation_is_settled_as_what_it_is(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:10/1h,classes=batch:60%|free:80%");
    weir_request request = {.key = "k", .key_length = 1, .cost = 1};
    weir_reservation *made = NULL;
    const weir_extra *extra = &batch;
    int64_t real = 9;
    assert_int_equal(weir_reserve_extra(&w.limiter, &request, &extra, 1, &made, NULL), WEIR_OK);
    assert_int_equal(weir_reservation_settle(made, &real, NULL), WEIR_OK);
    assert_int_equal(real, 6);
    weir_reservation_destroy(made);
    world_close(&w);
  }
}

/* --- what it costs ------------------------------------------------------------------------------
 */

static void assert_asked(int trips, int commands) {
  assert_int_equal(the_fake.counts.round_trips, trips);
  assert_int_equal(the_fake.counts.commands, commands);
  fake_forget();
}

/* Neither a look before the next charge, nor that what was denied is forgotten. */
static void a_denial_of_a_low_class_costs_a_higher_one_nothing(void **state) {
  static const char *const texts[] = {"fixed-window:10/1h,classes=batch:60%|free:80%",
                                      "sliding-window:10/1h,classes=batch:60%|free:80%",
                                      "quota:10/1h,classes=batch:60%|free:80%",
                                      "token-bucket:10/1h,classes=batch:60%|free:80%"};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    world w;
    world_open_backend(&w, &fake_backend, "fake:", texts[i], NULL);
    assert_int_equal(take_all(&w, &batch, 6), 6);
    fake_forget();
    assert_true(take(&w, NULL).allowed);
    assert_asked(1, 1);
    assert_int_equal(take(&w, &batch).source, WEIR_SOURCE_LOCAL);
    assert_asked(0, 0);
    assert_true(take(&w, &free_).allowed);
    assert_asked(1, 1);
    assert_int_equal(take(&w, &batch).source, WEIR_SOURCE_LOCAL);
    assert_asked(0, 0);
    weir_decision denied = take(&w, &free_); /* which speaks for batch, too */
    assert_false(denied.allowed);
    fake_forget();
    assert_int_equal(take(&w, &free_).source, WEIR_SOURCE_LOCAL);
    denied = take(&w, &batch);
    assert_int_equal(denied.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(denied.limit, 6);
    assert_asked(0, 0);
    assert_true(take(&w, NULL).allowed);
    assert_asked(1, 1);
    assert_true(take(&w, NULL).allowed);
    assert_false(take(&w, NULL).allowed);
    fake_forget();
    assert_int_equal(take(&w, &free_).limit, 8);
    assert_int_equal(take(&w, &batch).limit, 6);
    assert_int_equal(take(&w, NULL).limit, 10);
    assert_asked(0, 0);
    world_close(&w);
  }
}

/* What is denied is looked at before it is charged in vain again. */
static void a_denied_class_looks_when_its_denial_is_over(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:10/1h,classes=batch:60%", NULL);
  assert_int_equal(take_all(&w, &batch, 6), 6);
  assert_true(take(&w, NULL).allowed);
  world_set(&w, SECOND_US);
  fake_forget();
  assert_false(take(&w, &batch).allowed);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 0);
  assert_asked(1, 1);
  world_close(&w);
}

/* What a cost of a class can never have is denied by itself. */
static void what_a_class_never_has_needs_no_store(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "token-bucket:10/1h,classes=batch:60%", NULL);
  fake_forget();
  weir_decision denied = decide(w.limiter, &batch, 7, 0);
  assert_int_equal(denied.retry_after_us, WEIR_NEVER);
  assert_int_equal(denied.limit, 6);
  assert_asked(0, 0);
  assert_true(decide(w.limiter, NULL, 7, 0).allowed);
  world_close(&w);
}

/* --- what goes back ------------------------------------------------------------------------------
 */

static int rounds;

/* Requests of batch that are denied have charged all that is left, and give it back a round later. */
static void come_and_go(weir_store *behind, const weir_operation *operations, size_t count) {
  static weir_operation theirs[2];
  static char keys[2][256];
  static size_t some;
  if (++rounds > 2) return;
  if (rounds == 1) some = 0;
  for (size_t i = 0; rounds == 1 && i < count; i++) {
    if (operations[i].kind != WEIR_ADD) continue;
    memcpy(keys[some], operations[i].key, operations[i].key_length);
    theirs[some] = operations[i];
    theirs[some].key = keys[some];
    theirs[some++].delta *= 4;
  }
  for (size_t i = 0; i < some; i++)
    theirs[i].kind = rounds == 1 ? WEIR_ADD : WEIR_SUB;
  weir_store_exec(behind, theirs, some, INT64_MAX, NULL);
}

static void what_denied_low_classes_take_back_denies_no_higher_one(void **state) {
  static const char *const texts[] = {"fixed-window:10/1h,classes=batch:60%|free:80%",
                                      "sliding-window:10/1h,classes=batch:60%|free:80%",
                                      "sliding-window:1000/1h;fixed-window:10/1h,classes=batch:60%",
                                      "quota:10/1h,classes=batch:60%|free:80%"};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    world w;
    world_open_backend(&w, &fake_backend, "fake:", texts[i], NULL);
    assert_int_equal(take_all(&w, &batch, 6), 6);
    rounds = 0;
    the_fake.before = come_and_go;
    fake_forget();
    weir_decision decision = take(&w, NULL);
    the_fake.before = NULL;
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 3);
    assert_int_equal(the_fake.counts.round_trips, i == 2 ? 4 : 3); /* rule by rule */
    assert_int_equal(decide(w.limiter, NULL, 1, WEIR_REQUEST_PEEK).remaining, 3);
    world_close(&w);
  }
}

/* Nothing is kept for the lowest class, so that it is not looked at once more. */
static void the_lowest_class_is_denied_at_once(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:10/1h,classes=batch:60%", NULL);
  for (int i = 0; i < 5; i++)
    assert_true(take(&w, &batch).allowed);
  rounds = 0;
  the_fake.before = come_and_go;
  fake_forget();
  assert_false(take(&w, &batch).allowed);
  the_fake.before = NULL;
  assert_asked(2, 2);
  world_close(&w);
}

/* --- without the store ---------------------------------------------------------------------------
 */

static void an_outage_keeps_the_parts(void **state) {
  static const char *const texts[] = {"fixed-window:10/1h,classes=batch:60%|free:80%",
                                      "sliding-window:10/1h,classes=batch:60%|free:80%",
                                      "sliding-log:10/1h,classes=batch:60%|free:80%",
                                      "quota:10/1h,classes=batch:60%|free:80%",
                                      "token-bucket:10/1h,classes=batch:60%|free:80%"};
  (void)state;
  for (size_t i = 0; i < 5; i++) {
    world w;
    away_open(&w, texts[i], 1);
    the_fake.trouble = FAKE_AWAY;
    assert_int_equal(take_all(&w, &batch, 6), 6);
    assert_int_equal(take_all(&w, &free_, 8), 2);
    assert_int_equal(take_all(&w, NULL, 10), 2);
    the_fake.trouble = FAKE_WELL;
    world_close(&w);
  }
}

static void a_class_that_no_rule_has_is_refused(void **state) {
  const weir_extra gold = {.size = sizeof gold, .class_name = "gold"};
  const weir_extra *extra = &gold;
  world w;
  weir_message why = {""};
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", rules[0], NULL);
  fake_forget();
  assert_int_equal(weir_decide_extra(&w.limiter, &request, &extra, 1, &why), WEIR_BAD_ARGUMENT);
  assert_string_equal(why.text,
                      "the class \"gold\" is none of this limiter: accepted are batch and free, or "
                      "none");
  assert_asked(0, 0);
  world_close(&w);
}

static void their_names_are_told(void **state) {
  char name[WEIR_CLASS_NAME_BYTES];
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", rules[10], NULL); /* its first rule has none */
  assert_int_equal(weir_limiter_read_class(w.limiter, 0, name), WEIR_OK);
  assert_string_equal(name, "batch");
  assert_int_equal(weir_limiter_read_class(w.limiter, 1, name), WEIR_OK);
  assert_string_equal(name, "free");
  assert_int_equal(weir_limiter_read_class(w.limiter, 2, name), WEIR_BAD_ARGUMENT);
  world_close(&w);
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:10/1h", NULL);
  assert_int_equal(weir_limiter_read_class(w.limiter, 0, name), WEIR_BAD_ARGUMENT);
  world_close(&w);
}

static int start(void **state) {
  (void)state;
  stores_start();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_fills_its_part),
      cmocka_unit_test(each_is_told_what_is_left_of_its_part),
      cmocka_unit_test(a_group_is_judged_in_its_order),
      cmocka_unit_test(as_much_as_fits_is_that_of_the_class),
      cmocka_unit_test(places_are_kept_for_higher_classes),
      cmocka_unit_test(an_overrun_is_cut_at_its_class),
      cmocka_unit_test(a_reservation_is_settled_as_what_it_is),
      cmocka_unit_test(a_denial_of_a_low_class_costs_a_higher_one_nothing),
      cmocka_unit_test(a_denied_class_looks_when_its_denial_is_over),
      cmocka_unit_test(what_a_class_never_has_needs_no_store),
      cmocka_unit_test(what_denied_low_classes_take_back_denies_no_higher_one),
      cmocka_unit_test(the_lowest_class_is_denied_at_once),
      cmocka_unit_test(an_outage_keeps_the_parts),
      cmocka_unit_test(a_class_that_no_rule_has_is_refused),
      cmocka_unit_test(their_names_are_told),
  };
  return cmocka_run_group_tests(tests, start, NULL);
}
