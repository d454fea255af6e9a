/* Lots that run out are refilled before requests need them: by the caller's loop, on a clock that the
 * test moves; and by the limiter's thread, on a store that takes its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"
#include "limiter/limiter.h"

enum { STEP_US = 200, TAKES = 1000, WARM_UP = 400, RULES = 5 };

static const char *const rules[RULES] = {
    "fixed-window:1000000/1h,lease=20ms", "sliding-window:1000000/1h,lease=20ms",
    "sliding-window:1000000/1h,strict,lease=20ms", "quota:1000000/1h,lease=20ms",
    "token-bucket:100000/1s,burst=100000,lease=20ms"};

static void sleep_us(long us) {
  const struct timespec time = {.tv_nsec = us * 1000};
  nanosleep(&time, NULL);
}

static int64_t renew(world *w) {
  int64_t next_us;
  assert_int_equal(weir_limiter_renew(w->limiter, &next_us, NULL), WEIR_OK);
  return next_us;
}

/* Asks so often, as an event loop does: what is due is refilled behind each request. Returns how many the
 * store answered. */
static int ask(world *w, int times, int64_t *now_us) {
  int waited = 0;
  for (int i = 0; i < times; i++) {
    weir_decision decision = world_take(w, "k", 1);
    assert_true(decision.allowed);
    waited += decision.source != WEIR_SOURCE_LOCAL;
    renew(w);
    world_set(w, *now_us += STEP_US);
  }
  return waited;
}

static void no_request_of_a_busy_key_waits(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    world w;
    int64_t now_us = 0;
    lease_open(&w, rules[i], 0);
    ask(&w, WARM_UP, &now_us);
    fake_forget();
    assert_int_equal(ask(&w, TAKES, &now_us), 0);

    /* 50 are asked in half a lease, and a refill brings as many. */
    int charges = the_fake.counts.of_kind[WEIR_ADD] + the_fake.counts.of_kind[WEIR_SWAP];
    assert_in_range(charges, TAKES / 50 - 2, TAKES / 50 + 5);
    assert_int_equal(the_fake.counts.of_kind[WEIR_GET], 0);
    assert_int_equal(lease_counts(w.limiter).allowed, WARM_UP + TAKES);
    lease_close(&w);
  }
}

/* Nothing is charged for a key that is not asked for; what was goes back. */
static void an_idle_key_is_not_refilled(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES - 1; i++) {
    world w;
    int64_t now_us = 0;
    lease_open(&w, rules[i], 0);
    ask(&w, WARM_UP, &now_us);
    assert_true(lease_held(w.limiter) > 0);
    assert_int_not_equal(renew(&w), WEIR_NEVER);
    fake_forget();
    for (int n = 0; n < 500; n++, world_set(&w, now_us += STEP_US))
      renew(&w);
    assert_int_equal(the_fake.counts.round_trips, 0);
    sleep_us(50000); /* two lives by the clock of deadlines */
    assert_int_equal(renew(&w), WEIR_NEVER);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_store_room(&w, rules[i], "k"), 1000000 - WARM_UP);
    lease_close(&w);
  }
}

/* Less than four requests in half a lease are not worth a lot, and no refill either. */
static void a_slow_key_is_not_refilled(void **state) {
  world w;
  (void)state;
  lease_open(&w, rules[0], 0);
  for (int n = 1; n < 100; n++) {
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    renew(&w);
    world_set(&w, n * 5000);
  }
  assert_int_equal(the_fake.counts.round_trips, 99);
  lease_close(&w);
}

/* --- a store far away, where there is hardly room ------------------------------------------------ */

static world *far;
static int64_t far_us, trip_us;

static void take_a_while(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  world_set(far, far_us += trip_us);
}

static weir_decision take_at(world *w, int64_t later_us) {
  world_set(w, far_us += later_us);
  return world_take(w, "k", 1);
}

/* Requests do not wait to hear that there is no room: the refill looks, and brings what there is. */
static void who_has_no_room_does_not_wait(void **state) {
  world w;
  weir_limiter_options other = {.processes = 1, .flags = WEIR_NO_LEASES};
  (void)state;
  far = &w;
  far_us = 0;
  trip_us = 80000;
  lease_open(&w, "fixed-window:1000/1h,lease=1s", 0);
  weir_limiter *greedy = world_limiter(&w, "fixed-window:1000/1h,lease=1s", &other);
  the_fake.before = take_a_while;
  for (int i = 0; i < 100; i++)
    take_at(&w, 1000);
  weir_decision all = limiter_take(greedy, "k", limiter_peek(greedy, "k", 1).remaining);
  renew(&w);
  for (int i = 0; i < 200 && take_at(&w, 1000).allowed; i++) {
  }
  take_at(&w, 60000);
  fake_forget();
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < 10; i++) {
      weir_decision decision = take_at(&w, i == 0 ? 60000 : 1000);
      assert_false(decision.allowed);
      assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
    }
    assert_int_equal(the_fake.counts.round_trips, round);
    renew(&w);
    assert_int_equal(the_fake.counts.round_trips, round + 1);
  }
  assert_int_equal(the_fake.counts.of_kind[WEIR_GET], 5);

  assert_int_equal(weir_limiter_refund(greedy, "k", 1, 500, &all, NULL), WEIR_OK);
  assert_false(take_at(&w, 60000).allowed);
  renew(&w);
  weir_decision decision = take_at(&w, 1000);
  assert_true(decision.allowed);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);

  /* A key that is not refilled any more asks the store. */
  lease_use_down_to(&w, "k", 0);
  the_fake.before = NULL;
  weir_limiter_destroy(greedy);
  lease_close(&w);
}

/* A store that is away answers no refill: then requests find out. */
static void a_refill_that_fails_denies_none(void **state) {
  world w;
  int64_t now_us = 0;
  (void)state;
  lease_open(&w, rules[0], 0);
  ask(&w, WARM_UP, &now_us);
  the_fake.trouble = FAKE_AWAY;
  weir_status status = WEIR_OK;
  for (int i = 0; i < 200 && status == WEIR_OK; i++, world_set(&w, now_us += STEP_US)) {
    int64_t next_us;
    weir_decision decision;
    assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    status = weir_limiter_renew(w.limiter, &next_us, NULL);
    if (status != WEIR_OK) assert_in_range(next_us, 1000, 10000);
  }
  assert_int_equal(status, WEIR_UNAVAILABLE);
  weir_decision decision;
  lease_use_down_to(&w, "k", 0);
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 1, &decision, NULL), WEIR_UNAVAILABLE);
  the_fake.trouble = FAKE_WELL;
  assert_true(world_take(&w, "k", 1).allowed);
  lease_close(&w);
}

/* --- the next window ----------------------------------------------------------------------------- */

/* Asks every 2 ms for so long, and refills what is due behind each request; a refill takes 80 ms, a quota
 * that opens three times that. Returns how many requests asked the store themselves. */
static int ask_far(world *w, int64_t for_us) {
  int waited = 0;
  for (int64_t until_us = far_us + for_us; far_us < until_us;) {
    int before = the_fake.counts.round_trips;
    assert_true(take_at(w, 2000).allowed);
    waited += the_fake.counts.round_trips > before;
    renew(w);
  }
  return waited;
}

/* A rule as it is written with a limit; or with another, where the key has that limit by its record, which is
 * believed for so long (0: it has none). */
static void open_far(world *w, const char *format, int limit, int64_t limits_us) {
  char text[128];
  weir_limiter_options options = {.processes = 1, .limits_us = limits_us};
  weir_limit set = {.key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_NUMBER, .limit = limit};
  int written = snprintf(text, sizeof text, format, limits_us > 0 ? 7 : limit, limit);
  assert_true(written > 0 && written < (int)sizeof text);
  far = w;
  far_us = 0;
  trip_us = 80000;
  world_open_backend(w, &fake_backend, "fake:", text, &options);
  if (limits_us > 0) assert_int_equal(weir_limiter_set_limits(w->limiter, &set, 1, NULL), WEIR_OK);
  fake_forget();
}

static void no_request_waits_for_the_next_window(void **state) {
  static const char *const windows[] = {
      "fixed-window:%d/3s,lease=1s,most=%d", "quota:%d/3s,lease=1s,most=%d",
      "fixed-window:%d/2s,lease=1s,most=%d;quota:100000/5s,lease=1s"};
  (void)state;
  for (size_t i = 0; i < 5; i++) { /* behind the last a refill may take too long: see below */
    world w;
    open_far(&w, windows[i / 2], 100000, i % 2 != 0 ? SECOND_US : 0);
    the_fake.before = take_a_while;
    trip_us = 2000;
    ask_far(&w, 2 * SECOND_US);
    trip_us = 80000;
    assert_int_equal(ask_far(&w, 20 * SECOND_US), 0);
    the_fake.before = NULL;
    lease_close(&w);
  }
}

/* The same with a schedule: what could not be asked while one waited is asked behind it at once. */
static int ask_far_on_time(world *w, int times) {
  int waited = 0;
  int64_t due_us = far_us;
  for (int i = 0; i < times; i++) {
    int before = the_fake.counts.round_trips;
    due_us += 2000;
    assert_true(take_at(w, due_us > far_us ? due_us - far_us : 0).allowed);
    waited += the_fake.counts.round_trips > before;
    renew(w);
  }
  return waited;
}

/* Of a stack the record is read before the charge, and a refill that begins a window and a quota takes up to four
 * trips, most of the half lease that it has. Then one of 500 requests may wait, but not more; leases.md says
 * why more do where the only caller asks the next one behind each. */
static void few_wait_where_two_windows_of_a_limited_key_begin(void **state) {
  static const char *const stack = "fixed-window:%d/2s,lease=1s,most=%d;quota:100000/5s,lease=1s";
  (void)state;
  for (int limited = 0; limited < 2; limited++) {
    world w;
    open_far(&w, stack, 100000, limited != 0 ? SECOND_US : 0);
    the_fake.before = take_a_while;
    trip_us = 2000;
    ask_far(&w, 2 * SECOND_US);
    trip_us = 80000;
    assert_in_range(ask_far_on_time(&w, 10000), 0, limited != 0 ? 20 : 4);
    the_fake.before = NULL;
    lease_close(&w);
  }
}

/* A charge to the next window is none of the present one, and all others see it in the next. */
static void the_next_window_is_not_used_before_it_begins(void **state) {
  static const char *const windows[] = {"fixed-window:%d/3s,lease=1s,most=%d",
                                        "quota:%d/3s,lease=1s,most=%d"};
  weir_limiter_options other = {.processes = 1, .flags = WEIR_NO_LEASES};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    char text[128];
    world w;
    open_far(&w, windows[i / 2], 500, i % 2 != 0 ? 60 * SECOND_US : 0);
    snprintf(text, sizeof text, windows[i / 2], 500, 500);
    weir_limiter *beside = world_limiter(&w, text, &other);
    the_fake.before = take_a_while;
    weir_decision decision = {.allowed = true};
    int admitted = 0;
    int64_t next_us = 0;
    for (; decision.allowed; admitted += decision.allowed) {
      decision = take_at(&w, 1000);
      next_us = far_us + decision.retry_after_us;
      renew(&w);
    }
    assert_int_equal(admitted, 500);
    while (lease_held(w.limiter) == 0) {
      assert_false(take_at(&w, 2000).allowed);
      renew(&w);
      assert_true(far_us < next_us);
    }
    the_fake.before = NULL;
    far_us = next_us - 1;
    assert_false(take_at(&w, 0).allowed);
    fake_forget();
    decision = take_at(&w, 1);
    assert_true(decision.allowed);
    assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(decision.remaining, 499);
    assert_int_equal(decision.reset_after_us, 3 * SECOND_US);
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(limiter_peek(beside, "k", 1).remaining, 500 - 1 - lease_held(w.limiter));
    weir_limiter_destroy(beside);
    lease_close(&w);
  }
}

/* A charge to the present window, once the next one was charged ahead, is none of the next one. */
static void the_present_window_is_charged_to_its_end(void **state) {
  static const char *const windows[] = {"fixed-window:100000/3s,lease=1s",
                                        "quota:100000/3s,lease=1s"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    far = &w;
    far_us = 0;
    trip_us = 2000;
    lease_open(&w, windows[i], 0);
    the_fake.before = take_a_while;
    ask_far(&w, 2 * SECOND_US);
    trip_us = 80000;
    ask_far(&w, 700000);
    weir_decision decision = take_at(&w, 0);
    assert_in_range(decision.reset_after_us, 1, 400000); /* half a lease before it was charged */
    int64_t next_us = far_us + decision.reset_after_us;
    trip_us = 2000;
    int64_t room = lease_store_room(&w, windows[i], "k") + lease_held(w.limiter);
    for (int n = 0; n < 3; n++)
      assert_true(world_take(&w, "k", 5000).allowed);
    assert_int_equal(lease_store_room(&w, windows[i], "k") + lease_held(w.limiter), room - 15000);
    the_fake.before = NULL;
    world_set(&w, next_us);
    assert_true(lease_held(w.limiter) > 0);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_store_room(&w, windows[i], "k"), 100000);
    lease_close(&w);
  }
}

/* Nor is it charged where little was asked lately. */
static void the_next_window_of_an_idle_key_is_not_charged(void **state) {
  world w;
  (void)state;
  far = &w;
  far_us = 0;
  trip_us = 80000;
  lease_open(&w, "fixed-window:100000/3s,lease=1s", 0);
  the_fake.before = take_a_while;
  ask_far(&w, SECOND_US);
  weir_decision decision = take_at(&w, 0);
  far_us += decision.reset_after_us - 1200000;
  int64_t charged = (int64_t)lease_counts(w.limiter).leased;
  for (int n = 0; n < 10; n++) {
    take_at(&w, 110000);
    renew(&w);
  }
  assert_int_equal(lease_counts(w.limiter).leased, charged);
  the_fake.before = NULL;
  lease_close(&w);
}

/* --- a refill that is on its way ------------------------------------------------------------------ */

static struct returning {
  weir_limiter *limiter;
  weir_status status;
  pthread_t thread;
} returning;

static void *return_leases(void *context) {
  struct returning *own = context;
  own->status = weir_limiter_return_leases(own->limiter, NULL);
  return NULL;
}

static void have_them_returned(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  the_fake.before = NULL;
  assert_int_equal(pthread_create(&returning.thread, NULL, return_leases, &returning), 0);
  sleep_us(20000); /* it must wait for the refill, whose answer is not there yet */
}

/* Asks until a refill is due, and leaves that. Returns how many were admitted. */
static int ask_until_due(world *w) {
  int64_t now_us = 0;
  int taken = WARM_UP;
  ask(w, WARM_UP, &now_us);
  for (; atomic_load(&w->limiter->leased.due.count) == 0; taken++) {
    assert_true(world_take(w, "k", 1).allowed);
    world_set(w, now_us += STEP_US);
  }
  return taken;
}

/* Who gives all back before the end keeps nothing, though a refill was under way just then. */
static void what_a_refill_brings_goes_back_too(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES - 1; i++) {
    world w;
    lease_open(&w, rules[i], 0);
    int taken = ask_until_due(&w);
    returning.limiter = w.limiter;
    the_fake.before = have_them_returned;
    renew(&w);
    assert_null(the_fake.before);
    pthread_join(returning.thread, NULL);
    assert_int_equal(returning.status, WEIR_OK);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(lease_store_room(&w, rules[i], "k"), 1000000 - taken);
    lease_close(&w);
  }
}

/* Nor is anything charged afterwards for what was due before. */
static void what_was_due_is_not_refilled_afterwards(void **state) {
  world w;
  (void)state;
  lease_open(&w, rules[0], 0);
  ask_until_due(&w);
  assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
  fake_forget();
  renew(&w);
  assert_int_equal(the_fake.counts.round_trips, 0);
  assert_int_equal(lease_held(w.limiter), 0);
  lease_close(&w);
}

/* --- a record that cannot be read ------------------------------------------------------------------
 */

/* A refill is about to read the record of its key, when two requests for it come: one looks for more
 * than is held; so the other, which a lot covers, waits behind it. */
typedef struct meeting {
  weir_limiter *limiter;
  weir_request requests[2];
  pthread_t thread;
} meeting;
static meeting *_Atomic met;

static void *ask_two(void *context) {
  meeting *own = context;
  weir_limiter *limiters[] = {own->limiter, own->limiter};
  own->requests[0] =
      (weir_request){.key = "k", .key_length = 1, .cost = 5000, .flags = WEIR_REQUEST_PEEK};
  own->requests[1] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  weir_decide_together(limiters, own->requests, 2, NULL);
  return NULL;
}

static size_t waiting_in_line(weir_limiter *limiter) {
  weir_memo_entry *entry = weir_limiter_lock(limiter, "k", 1);
  size_t count = 0;
  for (const weir_claim *request = entry->first_waiting; request != NULL; request = request->next)
    count++;
  weir_lock_leave(&entry->shard->lock);
  return count;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void __real_weir_call_run(weir_call *first);
void __wrap_weir_call_run(weir_call *first);

void __wrap_weir_call_run(weir_call *first) {
  meeting *own = met;
  if (own != NULL && first->batch[0].claim.ask.kind == WEIR_REFILL) {
    met = NULL;
    assert_int_equal(pthread_create(&own->thread, NULL, ask_two, own), 0);
    for (int i = 0; i < 100000 && waiting_in_line(own->limiter) < 3; i++)
      sleep_us(100);
  }
  __real_weir_call_run(first);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* The reading fails when the record that was known is too old: no lot of before admits anything then. */
static void nothing_is_admitted_behind_a_reading_that_failed(void **state) {
  world w;
  meeting own = {0};
  int64_t next_us;
  (void)state;
  open_far(&w, "fixed-window:%d/1h,lease=1s,most=%d", 100000, SECOND_US);
  lease_fill(&w, "k", 20);
  renew(&w);
  assert_int_equal(take_at(&w, 600000).source, WEIR_SOURCE_LOCAL); /* the record is to be read */
  int64_t held = lease_held(w.limiter);
  own.limiter = w.limiter;
  met = &own;
  trip_us = 500000;
  the_fake.before = take_a_while;
  fake_fail_next(WEIR_GET, WEIR_NOT_SENT, false);
  (void)weir_limiter_renew(w.limiter, &next_us, NULL);
  the_fake.before = NULL;
  assert_null(met);
  pthread_join(own.thread, NULL);
  for (int i = 0; i < 2; i++)
    assert_int_equal(own.requests[i].status, WEIR_UNAVAILABLE);
  assert_int_equal(lease_held(w.limiter), held);
  assert_true(take_at(&w, 0).allowed);
  lease_close(&w);
}

/* --- the limiter's thread ------------------------------------------------------------------------ */

static weir_limiter *open_with_thread(const char *rule, weir_store **store) {
  weir_limiter *limiter;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.processes = 1;
  options.deadline_us = SECOND_US;
  options.fallback = WEIR_FALLBACK_NONE;
  assert_int_equal(weir_store_open_backend(&fake_backend, "fake:", store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(*store, rule, &options, &limiter, NULL), WEIR_OK);
  return limiter;
}

static void the_thread_refills_while_requests_come(void **state) {
  weir_store *store;
  weir_limiter *limiter = open_with_thread("fixed-window:1000000/1h,lease=1s", &store);
  weir_decision decision;
  (void)state;
  the_fake.delay_us = 60000; /* a third of how early a refill is asked for */
  int waited = 0;
  for (int i = 0; i < 2000; i++) {
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    assert_true(decision.allowed);
    waited += i >= 500 && decision.source != WEIR_SOURCE_LOCAL;
    sleep_us(1000);
  }
  assert_int_equal(waited, 0);
  the_fake.delay_us = 0;
  weir_limiter_destroy(limiter); /* while the thread waits */
  weir_store_close(store);
}

/* A refill is over, and its thread about to look when the next may be due: requests make it due now. */
enum { NARROW_TRIES = 11, NARROW_LIFE_US = 5000 };
static weir_limiter *_Atomic narrow;
static int64_t narrow_since_us;
static atomic_int narrow_tries, narrow_soon;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void __real_weir_call_release(weir_call *call);
void __wrap_weir_call_release(weir_call *call);

void __wrap_weir_call_release(weir_call *call) {
  weir_limiter *limiter = narrow;
  weir_decision decision;
  bool of_thread = limiter != NULL && pthread_equal(pthread_self(), limiter->renewer.thread);
  __real_weir_call_release(call);
  if (!of_thread || narrow_tries == NARROW_TRIES) return;
  narrow = NULL; /* for what is released here */
  narrow_soon += weir_monotonic_us() - narrow_since_us < NARROW_LIFE_US / 2;
  for (int i = 0; i < 1000000 && limiter->leased.due.count == 0; i++)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  narrow_since_us = weir_monotonic_us();
  narrow = limiter;
  narrow_tries++;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void the_thread_sleeps_past_nothing_that_is_due(void **state) {
  weir_store *store;
  weir_limiter *limiter = open_with_thread("fixed-window:1000000000/1h,lease=5ms", &store);
  weir_decision decision;
  (void)state;
  narrow = limiter;
  while (narrow_tries < NARROW_TRIES)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  assert_true(narrow_soon > NARROW_TRIES / 2);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_request_of_a_busy_key_waits),
      cmocka_unit_test(an_idle_key_is_not_refilled),
      cmocka_unit_test(a_slow_key_is_not_refilled),
      cmocka_unit_test(who_has_no_room_does_not_wait),
      cmocka_unit_test(a_refill_that_fails_denies_none),
      cmocka_unit_test(no_request_waits_for_the_next_window),
      cmocka_unit_test(few_wait_where_two_windows_of_a_limited_key_begin),
      cmocka_unit_test(the_next_window_is_not_used_before_it_begins),
      cmocka_unit_test(the_present_window_is_charged_to_its_end),
      cmocka_unit_test(the_next_window_of_an_idle_key_is_not_charged),
      cmocka_unit_test(what_a_refill_brings_goes_back_too),
      cmocka_unit_test(what_was_due_is_not_refilled_afterwards),
      cmocka_unit_test(nothing_is_admitted_behind_a_reading_that_failed),
      cmocka_unit_test(the_thread_refills_while_requests_come),
      cmocka_unit_test(the_thread_sleeps_past_nothing_that_is_due),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
