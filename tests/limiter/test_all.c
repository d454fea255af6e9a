/* weir_decide_all: several requests that are one decision. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "fixture/fake.h"
#include "limiter/leases.h"
#include "limiter/stores.h"
#include "limiter/world.h"
#include "store/store.h"

static weir_request request(const char *key, int64_t cost) {
  return (weir_request){.key = key, .key_length = strlen(key), .cost = cost};
}

/* Two limiters of one store: "address" under the first, "account" under the second. */
typedef struct login {
  world w;
  weir_limiter *limiters[2];
  weir_request requests[2];
  size_t denied_by;
} login;

static void open_login(login *l, const char *by_address, const char *by_account,
                       const weir_limiter_options *options) {
  world_open_backend(&l->w, &fake_backend, "fake:", by_address, options);
  l->limiters[0] = l->w.limiter;
  l->limiters[1] = world_limiter(&l->w, by_account, options);
  l->requests[0] = request("address", 1);
  l->requests[1] = request("account", 1);
  world_set(&l->w, 5 * SECOND_US);
  fake_forget();
}

static void close_login(login *l) {
  weir_limiter_destroy(l->limiters[1]);
  world_close(&l->w);
}

static bool decide(login *l) {
  fake_forget();
  assert_int_equal(weir_decide_all(l->limiters, l->requests, 2, &l->denied_by, NULL), WEIR_OK);
  bool admitted = l->denied_by == 2;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(l->requests[i].status, WEIR_OK);
    assert_int_equal(l->requests[i].decision.allowed, admitted);
  }
  return admitted;
}

static int64_t room(weir_limiter *limiter, const char *key) {
  return limiter_peek(limiter, key, 1).remaining;
}

/* --- round trips -------------------------------------------------------------------------------
 */

static const weir_limiter_options forgetful = {.flags = WEIR_NO_LOCAL_DENIAL};

static void two_keys_need_one_round_trip_or_two(void **state) {
  static const char *const rules[][2] = {
      {"fixed-window:9/1m,name=a", "fixed-window:2/1m"},
      {"sliding-window:9/1m,name=a", "sliding-window:2/1m"},
      {"fixed-window:9/1m;fixed-window:99/1h", "sliding-window:2/1m;sliding-window:9/1h"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    login l;
    open_login(&l, rules[i][0], rules[i][1], NULL);
    for (int n = 0; n < 2; n++) {
      assert_true(decide(&l));
      assert_int_equal(the_fake.counts.round_trips, 1);
      assert_int_equal(l.requests[0].decision.remaining, 8 - n);
      assert_int_equal(l.requests[1].decision.remaining, 1 - n);
    }
    assert_false(decide(&l));
    assert_int_equal(l.denied_by, 1);
    assert_int_equal(the_fake.counts.round_trips, 2);
    assert_int_equal(l.requests[0].decision.remaining, 7);
    assert_int_equal(l.requests[0].decision.retry_after_us, 0);
    assert_int_equal(l.requests[1].decision.remaining, 0);
    assert_true(l.requests[1].decision.retry_after_us > 0);
    assert_int_equal(room(l.limiters[0], "address"), 7);
    assert_false(decide(&l)); /* from memory */
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(l.requests[0].decision.remaining, WEIR_NOT_KNOWN);
    close_login(&l);
  }
}

/* A key that denied lately is looked at before anything is charged: the other key sees none of
 * it. */
static void who_must_look_does_so_first(void **state) {
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m,name=a", "fixed-window:1/1m", &forgetful);
  assert_true(decide(&l));
  assert_false(decide(&l));
  assert_false(decide(&l));
  assert_int_equal(the_fake.counts.round_trips, 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 0);
  assert_int_equal(l.denied_by, 1);
  assert_int_equal(room(l.limiters[0], "address"), 8);
  world_set(&l.w, 65 * SECOND_US); /* it fits again: looked at, then charged */
  assert_true(decide(&l));
  assert_int_equal(the_fake.counts.round_trips, 2);
  close_login(&l);
}

/* Deadlines of their own stand for stores of their own. */
static void each_further_store_needs_one_more(void **state) {
  const weir_limiter_options longer = {.deadline_us = 2 * WORLD_DEADLINE_US};
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m,name=a", "fixed-window:1/1m", NULL);
  weir_limiter_destroy(l.limiters[1]);
  l.limiters[1] = world_limiter(&l.w, "fixed-window:1/1m", &longer);
  assert_true(decide(&l));
  assert_int_equal(the_fake.counts.round_trips, 2);
  assert_false(decide(&l)); /* there, there and back, and back */
  assert_int_equal(the_fake.counts.round_trips, 4);
  assert_int_equal(room(l.limiters[0], "address"), 8);
  assert_int_equal(l.requests[0].decision.remaining, 8);
  close_login(&l);
}

/* --- the same decisions ------------------------------------------------------------------------
 */

enum { KINDS = 6, STEPS = 300 };

static const char *const kinds[KINDS] = {"fixed-window:12/1m",
                                         "sliding-window:9/1m",
                                         "sliding-window:8/1m,strict,name=q",
                                         "token-bucket:7/10s,burst=9",
                                         "fixed-window:6/10s,name=x;sliding-window:15/1m,name=y",
                                         "fixed-window:12/1m,name=s;token-bucket:9/30s,name=z"};

/* Each is decided by a twin with counts of its own: first looked at, then charged where all fit. */
static void decides_as_looks_and_charges(void **state) {
  static const char *const keys[] = {"a", "b", "c"};
  int store = *(int *)*state;
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 30 * SECOND_US};
  world w, alone;
  weir_limiter *limiters[KINDS], *twins[KINDS];
  uint32_t seed = 7;
  int64_t at_us = 0;
  int admitted = 0;
  world_open(&w, stores_url(store, url), kinds[0], &options);
  world_open(&alone, stores_url(store, url), kinds[0], &options);
  for (int i = 0; i < KINDS; i++) {
    limiters[i] = world_limiter(&w, kinds[i], &options);
    twins[i] = world_limiter(&alone, kinds[i], &options);
  }
  for (int step = 0; step < STEPS; step++) {
    weir_limiter *of[KINDS];
    weir_request requests[KINDS];
    weir_decision looks[KINDS], takes[KINDS];
    size_t count = 0, denied_by;
    bool fits = true;
    world_set(&w, at_us += chance(&seed, 3000000));
    world_set(&alone, at_us);
    for (size_t kind = 0; kind < KINDS; kind++) {
      if (chance(&seed, 2) == 0 && !(kind == KINDS - 1 && count == 0)) continue;
      of[count] = limiters[kind];
      requests[count] = request(keys[chance(&seed, 3)], 1 + chance(&seed, 2));
      const weir_request *r = &requests[count];
      looks[count] = limiter_peek(twins[kind], r->key, r->cost);
      fits = fits && looks[count].allowed;
      count++;
    }
    for (size_t i = 0; i < count && fits; i++)
      for (int kind = 0; kind < KINDS; kind++)
        if (of[i] == limiters[kind])
          takes[i] = limiter_take(twins[kind], requests[i].key, requests[i].cost);
    assert_int_equal(weir_decide_all(of, requests, count, &denied_by, NULL), WEIR_OK);
    assert_int_equal(denied_by == count, fits);
    admitted += fits;
    for (size_t i = 0; i < count; i++) {
      const weir_decision *told = &requests[i].decision;
      const weir_decision *alone_told = fits ? &takes[i] : &looks[i];
      assert_int_equal(told->allowed, fits);
      if (!fits) assert_true(told->retry_after_us <= requests[denied_by].decision.retry_after_us);
      if (!fits && told->remaining == WEIR_NOT_KNOWN) continue;
      assert_int_equal(told->remaining, alone_told->remaining);
      assert_int_equal(told->retry_after_us, alone_told->retry_after_us);
      if (fits) assert_int_equal(told->reset_after_us, alone_told->reset_after_us);
    }
  }
  assert_in_range(admitted, STEPS / 20, STEPS * 19 / 20);
  for (int i = 0; i < KINDS; i++) {
    weir_limiter_destroy(limiters[i]);
    weir_limiter_destroy(twins[i]);
  }
  world_close(&w);
  world_close(&alone);
}

/* --- what is charged otherwise -----------------------------------------------------------------
 */

/* Whatever denies it, and whether that was known before. */
static void rules_that_count_denied_requests_do(void **state) {
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m,count=all", "fixed-window:1/1m", NULL);
  assert_true(decide(&l));
  for (int n = 2; n <= 4; n++) {
    assert_false(decide(&l));
    assert_int_equal(l.denied_by, 1);
    assert_int_equal(room(l.limiters[0], "address"), 9 - n);
  }
  close_login(&l);
}

static void what_came_from_a_lease_is_held_again(void **state) {
  world w;
  (void)state;
  for (int i = 0; i < LEASE_WINDOWS; i++) {
    lease_open(&w, lease_windows[i], 20);
    weir_limiter *full = world_limiter(&w, "fixed-window:1/1h,name=full", NULL);
    weir_limiter *of[] = {w.limiter, full};
    weir_request requests[] = {request("k", 1), request("l", 1)};
    size_t denied_by;
    limiter_take(full, "l", 1);
    world_set(&w, SECOND_US / 100); /* what denies is forgotten; */
    weir_limiter_destroy(full);
    full = of[1] = world_limiter(&w, "fixed-window:1/1h,name=full", NULL);
    int64_t held = lease_fill(&w, "k", 20);
    fake_forget();
    assert_int_equal(weir_decide_all(of, requests, 2, &denied_by, NULL), WEIR_OK);
    assert_int_equal(denied_by, 1);
    assert_int_equal(lease_held(w.limiter), held);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1); /* to the other key */
    weir_limiter_destroy(full);
    lease_close(&w);
  }
}

/* A log gives nothing back: it comes last, and denies without a trace elsewhere. */
static void a_log_comes_last(void **state) {
  int store = *(int *)*state;
  char url[STORE_URL_BYTES];
  world w;
  (void)state;
  world_open(&w, stores_url(store, url), "sliding-log:2/1m", NULL);
  weir_limiter *window = world_limiter(&w, "fixed-window:3/1m", NULL);
  weir_limiter *of[] = {w.limiter, window};
  weir_request requests[] = {request("a", 1), request("b", 1)};
  size_t denied_by;
  for (int n = 0; n < 2; n++) {
    world_set(&w, n * SECOND_US);
    assert_int_equal(weir_decide_all(of, requests, 2, &denied_by, NULL), WEIR_OK);
    assert_int_equal(denied_by, 2);
  }
  world_set(&w, 3 * SECOND_US);
  assert_int_equal(weir_decide_all(of, requests, 2, &denied_by, NULL), WEIR_OK);
  assert_int_equal(denied_by, 0);
  assert_int_equal(room(window, "b"), 1);
  limiter_take(window, "b", 1);
  requests[0].key = "new";
  requests[0].key_length = 3;
  assert_int_equal(weir_decide_all(of, requests, 2, &denied_by, NULL), WEIR_OK);
  assert_int_equal(denied_by, 1);
  assert_true(limiter_take(w.limiter, "new", 1).allowed);
  assert_true(limiter_take(w.limiter, "new", 1).allowed);
  weir_limiter_destroy(window);
  world_close(&w);
}

/* --- bad requests ------------------------------------------------------------------------------
 */

static void assert_refused(weir_limiter **limiters, weir_request *requests, size_t count,
                           weir_status status, size_t at, const char *why) {
  weir_message message = {""};
  size_t denied_by = 99;
  fake_forget();
  assert_int_equal(weir_decide_all(limiters, requests, count, &denied_by, &message), status);
  if (strstr(message.text, why) == NULL) fail_msg("%s", message.text);
  assert_int_equal(denied_by, at);
  assert_int_equal(the_fake.counts.commands, 0);
}

static void refuses_by_name_what_cannot_go_back(void **state) {
  login l;
  char text[64];
  (void)state;
  open_login(&l, "sliding-log:9/1m", "sliding-log:1/1h", NULL);
  assert_refused(l.limiters, l.requests, 2, WEIR_BAD_ARGUMENT, 1,
                 "requests[1]: sliding-log:1/1h beside sliding-log:9/1m: neither gives back");
  close_login(&l);
  open_login(&l, "fixed-window:9/1m", "fixed-window:9/1h", NULL);
  l.requests[1].flags = WEIR_REQUEST_UP_TO;
  assert_refused(l.limiters, l.requests, 2, WEIR_BAD_ARGUMENT, 1, "requests[1]: flags is 0x2");
  l.requests[1].flags = WEIR_REQUEST_PEEK;
  assert_refused(l.limiters, l.requests, 2, WEIR_BAD_ARGUMENT, 1, "requests[1]: flags is 0x1");
  l.requests[1].flags = 0;
  l.requests[1].cost = 0;
  assert_refused(l.limiters, l.requests, 2, WEIR_BAD_COST, 1, "requests[1]: cost 0");
  l.requests[1].cost = 1;
  l.requests[0].key_length = 0;
  assert_refused(l.limiters, l.requests, 2, WEIR_BAD_KEY, 0, "requests[0]: the key is empty");
  l.requests[0] = l.requests[1];
  weir_limiter *twice[] = {l.limiters[1], l.limiters[1]};
  assert_refused(twice, l.requests, 2, WEIR_BAD_ARGUMENT, 1, "the limiter and key of requests[0]");
  weir_limiter *none[] = {l.limiters[1], NULL};
  assert_refused(none, l.requests, 2, WEIR_BAD_ARGUMENT, 2, "limiters[1] is NULL");
  assert_refused(l.limiters, l.requests, 0, WEIR_BAD_ARGUMENT, 0, "accepted are 1 to 16");
  snprintf(text, sizeof text, "accepted are 1 to %d", WEIR_ALL_MOST);
  assert_refused(l.limiters, l.requests, WEIR_ALL_MOST + 1, WEIR_BAD_ARGUMENT, WEIR_ALL_MOST + 1,
                 text);
  close_login(&l);
  weir_backend raises = fake_backend_with(WEIR_TRAIT_RAISE);
  world w;
  world_open_backend(&w, &raises, "fake:", "leaky-bucket:9/1m,queue=3", NULL);
  weir_request one = request("k", 1);
  assert_refused(&w.limiter, &one, 1, WEIR_BAD_ARGUMENT, 0, "leaky-bucket:9/1m,queue=3: a place");
  world_close(&w);
}

/* Before there are requests: whatever the keys, and whichever members stand beside each other. */
static void says_beforehand_what_it_refuses(void **state) {
  login l;
  weir_message message = {""};
  (void)state;
  open_login(&l, "sliding-log:9/1m", "sliding-log:1/1h", NULL);
  fake_forget();
  assert_int_equal(weir_check_all(l.limiters, 1, &message), WEIR_OK);
  assert_int_equal(weir_check_all(l.limiters, 2, &message), WEIR_BAD_ARGUMENT);
  assert_string_equal(message.text,
                      "sliding-log:1/1h beside sliding-log:9/1m: neither gives back what it was "
                      "charged, and accepted is one such rule");
  weir_limiter *one_of_none[] = {l.limiters[0], NULL};
  assert_int_equal(weir_check_all(one_of_none, 2, &message), WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_check_all(l.limiters, 0, &message), WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_check_all(l.limiters, WEIR_ALL_MOST + 1, NULL), WEIR_BAD_ARGUMENT);
  close_login(&l);
  open_login(&l, "sliding-log:9/1m", "fixed-window:1/1h", NULL);
  weir_limiter *twice[] = {l.limiters[1], l.limiters[0], l.limiters[1]};
  assert_int_equal(weir_check_all(twice, 3, &message), WEIR_OK);
  assert_int_equal(the_fake.counts.commands, 0);
  close_login(&l);
}

static void looks_where_all_do(void **state) {
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m", "fixed-window:1/1h", NULL);
  assert_true(decide(&l));
  l.requests[0].flags = l.requests[1].flags = WEIR_REQUEST_PEEK;
  fake_forget();
  assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, NULL), WEIR_OK);
  assert_int_equal(l.denied_by, 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 0);
  assert_int_equal(l.requests[0].decision.remaining, 8);
  close_login(&l);
}

/* --- faults ------------------------------------------------------------------------------------
 */

/* An unknown outcome of one key does not leave the other charged. */
static void an_unknown_outcome_leaves_the_others_as_they_were(void **state) {
  login l;
  weir_message message;
  (void)state;
  for (int executed = 0; executed <= 1; executed++) {
    open_login(&l, "fixed-window:9/1m", "fixed-window:9/1h", NULL);
    the_fake.fault = (fake_fault){.kind = WEIR_ADD, .outcome = WEIR_UNKNOWN, .executed = executed};
    the_fake.faulty = true;
    assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, &message),
                     WEIR_UNKNOWN_OUTCOME);
    assert_int_equal(l.denied_by, 0);
    assert_int_equal(strncmp(message.text, "requests[0]: ", 13), 0);
    assert_int_equal(l.requests[0].status, WEIR_UNKNOWN_OUTCOME);
    assert_int_equal(l.requests[1].status, WEIR_OK);
    assert_false(l.requests[1].decision.allowed);
    assert_int_equal(room(l.limiters[1], "account"), 9);
    close_login(&l);
  }
}

/* The second store keeps silent from its charge on; it may or may not have it, and the first has
 * not. */
static void fall_silent(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  the_fake.trouble = FAKE_MUTE;
}

static void a_silent_store_leaves_the_others_as_they_were(void **state) {
  const weir_limiter_options longer = {.deadline_us = 2 * WORLD_DEADLINE_US};
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m", "fixed-window:9/1h", NULL);
  weir_limiter_destroy(l.limiters[1]);
  l.limiters[1] = world_limiter(&l.w, "fixed-window:9/1h", &longer);
  the_fake.before = fall_silent;
  assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, NULL),
                   WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(l.denied_by, 1);
  assert_false(l.requests[0].decision.allowed);
  the_fake.before = NULL;
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(room(l.limiters[0], "address"), 9);
  close_login(&l);
}

static void go_away(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  the_fake.trouble = FAKE_AWAY;
}

/* The message is that of the first that a policy answered, as one request alone has it; where the store has
 * answered all there is none. */
static void says_why_a_policy_answered(void **state) {
  const unsigned policies[] = {WEIR_FALLBACK_ALLOW, WEIR_FALLBACK_DENY};
  (void)state;
  for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
    const weir_limiter_options options = {.fallback = policies[i]};
    const weir_limiter_options longer = {.fallback = policies[i],
                                         .deadline_us = 2 * WORLD_DEADLINE_US};
    weir_message message = {"untouched"}, alone = {""};
    weir_decision decision;
    login l;
    open_login(&l, "fixed-window:9/1m", "fixed-window:9/1h", &options);
    weir_limiter_destroy(l.limiters[1]);
    l.limiters[1] = world_limiter(&l.w, "fixed-window:9/1h", &longer);
    assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, &message), WEIR_OK);
    assert_string_equal(message.text, "untouched");

    the_fake.before = go_away; /* behind the first, which is charged and may go back */
    assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, &message), WEIR_OK);
    the_fake.before = NULL;
    assert_int_equal(weir_limiter_take(l.limiters[0], "other", 5, 1, &decision, &alone), WEIR_OK);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_non_null(strstr(alone.text, "away"));
    assert_int_equal(l.requests[1].decision.source, WEIR_SOURCE_FALLBACK);
    assert_int_equal(l.denied_by, policies[i] == WEIR_FALLBACK_DENY ? 1 : 2);
    assert_memory_equal(message.text, "requests[1]: ", 13);
    assert_string_equal(message.text + 13, alone.text);

    l.requests[0] = request("another address", 1);
    l.requests[1] = request("another account", 1);
    assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, &message), WEIR_OK);
    assert_memory_equal(message.text, "requests[0]: ", 13);
    assert_string_equal(message.text + 13, alone.text);
    the_fake.trouble = FAKE_WELL;
    close_login(&l);
  }
}

/* --- others --------------------------------------------------------------------------------------
 */

static int turns;

/* Somebody charges the account before us, and has it back before we look once more. */
static void come_and_go(weir_store *behind, const weir_operation *operations, size_t count) {
  static weir_operation theirs;
  static char key[256];
  turns++;
  for (size_t i = 0; turns == 1 && i < count; i++) {
    if (operations[i].kind != WEIR_ADD || operations[i].key_length >= sizeof key) continue;
    memcpy(key, operations[i].key, operations[i].key_length);
    key[operations[i].key_length] = '\0';
    if (strstr(key, "account") == NULL) continue;
    theirs = operations[i];
    theirs.key = key;
  }
  if (turns > 2) return;
  theirs.kind = turns == 1 ? WEIR_ADD : WEIR_SUB;
  weir_store_exec(behind, &theirs, 1, INT64_MAX, NULL);
}

static void who_was_denied_by_a_passing_charge_tries_again(void **state) {
  login l;
  (void)state;
  open_login(&l, "fixed-window:9/1m", "fixed-window:1/1h", NULL);
  the_fake.before = come_and_go;
  turns = 0;
  assert_true(decide(&l));
  assert_int_equal(the_fake.counts.round_trips, 4); /* two, and then one for each key */
  assert_int_equal(l.requests[0].decision.remaining, 8);
  assert_int_equal(l.requests[1].decision.remaining, 0);
  the_fake.before = NULL;
  assert_int_equal(room(l.limiters[0], "address"), 8);
  assert_int_equal(room(l.limiters[1], "account"), 0);
  close_login(&l);
}

static void *take_the_account(void *limiter) {
  weir_decision decision;
  weir_limiter_take(limiter, "account", 7, 1, &decision, NULL);
  return NULL;
}

static void sleep_ms(int ms) {
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* The first leads, the second waits and leads next, and decides ours along; what we have charged
 * meanwhile goes back by one round trip more, and no lead is kept. */
static void what_another_leader_denies_goes_back(void **state) {
  login l;
  pthread_t first, second;
  (void)state;
  open_login(&l, "fixed-window:9/1m", "fixed-window:1/1h", NULL);
  the_fake.delay_us = 120000;
  assert_int_equal(pthread_create(&first, NULL, take_the_account, l.limiters[1]), 0);
  sleep_ms(30);
  assert_int_equal(pthread_create(&second, NULL, take_the_account, l.limiters[1]), 0);
  sleep_ms(30);
  assert_int_equal(weir_decide_all(l.limiters, l.requests, 2, &l.denied_by, NULL), WEIR_OK);
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  assert_int_equal(l.denied_by, 1);
  assert_int_equal(the_fake.counts.round_trips, 5); /* of ours three: there, back there, and back */
  the_fake.delay_us = 0;
  assert_int_equal(room(l.limiters[0], "address"), 9);
  assert_int_equal(l.requests[0].decision.remaining, 9);
  close_login(&l);
}

int main(void) {
  static int numbers[STORES] = {0, 1, 2, 3};
  struct CMUnitTest tests[2 * STORES + 16];
  size_t count = 0;
  stores_start();
  for (int i = 0; i < STORES; i++) {
    tests[count++] =
        (struct CMUnitTest){stores[i].name, decides_as_looks_and_charges, NULL, NULL, &numbers[i]};
    tests[count++] = (struct CMUnitTest){"a log", a_log_comes_last, NULL, NULL, &numbers[i]};
  }
  const struct CMUnitTest others[] = {
      cmocka_unit_test(two_keys_need_one_round_trip_or_two),
      cmocka_unit_test(who_must_look_does_so_first),
      cmocka_unit_test(each_further_store_needs_one_more),
      cmocka_unit_test(rules_that_count_denied_requests_do),
      cmocka_unit_test(what_came_from_a_lease_is_held_again),
      cmocka_unit_test(refuses_by_name_what_cannot_go_back),
      cmocka_unit_test(says_beforehand_what_it_refuses),
      cmocka_unit_test(looks_where_all_do),
      cmocka_unit_test(an_unknown_outcome_leaves_the_others_as_they_were),
      cmocka_unit_test(a_silent_store_leaves_the_others_as_they_were),
      cmocka_unit_test(says_why_a_policy_answered),
      cmocka_unit_test(who_was_denied_by_a_passing_charge_tries_again),
      cmocka_unit_test(what_another_leader_denies_goes_back),
  };
  memcpy(tests + count, others, sizeof others);
  count += sizeof others / sizeof others[0];
  return _cmocka_run_group_tests("all", tests, count, NULL, NULL);
}
