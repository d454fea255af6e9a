/* Requests that are decided under the lock of their key: what must not happen there, and what others
 * on the same store do meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"
#include "store/store.h"

enum { DIRECT = WEIR_TRAIT_SWAP | WEIR_TRAIT_IMMEDIATE | WEIR_TRAIT_IDENTITY };

/* --- a pause -----------------------------------------------------------------------------------
 */

static weir_limiter *paused;
static atomic_int pauses;
static atomic_bool other_is_done;

static void *take_other(void *nothing) {
  weir_decision decision;
  (void)nothing;
  weir_limiter_take(paused, "other", 5, 1, &decision, NULL);
  other_is_done = true;
  return NULL;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void __wrap_weir_sleep_until(int64_t monotonic_us);
void __real_weir_sleep_until(int64_t monotonic_us);

/* In the first pause another thread takes of another key, in the same shard. */
void __wrap_weir_sleep_until(int64_t monotonic_us) {
  pthread_t thread;
  if (paused != NULL && atomic_fetch_add(&pauses, 1) == 0) {
    assert_int_equal(pthread_create(&thread, NULL, take_other, NULL), 0);
    for (int ms = 0; ms < 5000 && !other_is_done; ms++)
      __real_weir_sleep_until(weir_monotonic_us() + 1000);
    pthread_detach(thread);
  }
  __real_weir_sleep_until(monotonic_us);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int writes_left;

/* Another limiter was faster: the same value once more, so that only the version tells. */
static void write_first(weir_store *behind, const weir_operation *operations, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (operations[i].kind != WEIR_SWAP || writes_left == 0) continue;
    weir_operation write = operations[i];
    write.kind = WEIR_GET;
    weir_store_exec(behind, &write, 1, INT64_MAX, NULL);
    write.kind = WEIR_SWAP;
    write.version = write.version_out;
    weir_store_exec(behind, &write, 1, INT64_MAX, NULL);
    writes_left--;
  }
}

static void a_pause_keeps_no_other_key_waiting(void **state) {
  const weir_backend backend = fake_backend_with(DIRECT);
  const weir_limiter_options options = {.memo_keys = 1, .deadline_us = 20 * SECOND_US};
  world w;
  (void)state;
  world_open_backend(&w, &backend, "fake:", "token-bucket:10/1h", &options);
  world_take(&w, "busy", 1);
  paused = w.limiter;
  pauses = 0;
  other_is_done = false;
  writes_left = 3;
  the_fake.before = write_first;
  assert_int_equal(world_take(&w, "busy", 1).remaining, 8);
  assert_int_equal(writes_left, 0);
  assert_in_range(pauses, 1, 3); /* one that is over when its thread runs again needs no sleep */
  assert_true(other_is_done);
  the_fake.before = NULL;
  paused = NULL;
  assert_int_equal(world_peek(&w, "busy", 1).remaining, 8);
  assert_int_equal(world_peek(&w, "other", 1).remaining, 9);
  world_close(&w);
}

/* --- held up -----------------------------------------------------------------------------------
 */

static int64_t held_up_us;

static void hold_up(weir_store *behind, const weir_operation *operations, size_t count) {
  int64_t until_us = weir_monotonic_us() + held_up_us;
  (void)behind;
  (void)operations;
  (void)count;
  while (held_up_us > 0 && weir_monotonic_us() < until_us)
    __real_weir_sleep_until(until_us);
}

/* By the system's clock: a thread that is held up between its stamp and its charge for longer than a
 * deadline admits nothing. */
static void what_is_charged_late_admits_nothing(void **state) {
  const weir_backend backend = fake_backend_with(DIRECT);
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = 20000, .fallback = WEIR_FALLBACK_NONE};
  weir_decision decision;
  weir_limiter *limiter;
  world w;
  (void)state;
  world_open_backend(&w, &backend, "fake:", "fixed-window:10/1h", NULL);
  assert_int_equal(weir_limiter_create(w.store, "fixed-window:10/1h", &options, &limiter, NULL),
                   WEIR_OK);
  the_fake.before = hold_up;
  for (int i = 0; i < 5; i++) {
    held_up_us = 20001;
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_TIMEOUT);
    held_up_us = 0;
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.remaining, 9 - i);
  }
  the_fake.before = NULL;
  weir_limiter_destroy(limiter);
  world_close(&w);
}

/* --- threads -----------------------------------------------------------------------------------
 */

enum { THREADS = 4, KEYS = 3, LIMIT = 500, TAKES = 600, BATCH = 3 };

static const char *const keys[KEYS] = {"a", "b", "c"};

typedef struct taker {
  pthread_t thread;
  weir_limiter *limiter;
  bool in_batches;
  int64_t admitted[KEYS];
} taker;

static void *take_all(void *memory) {
  taker *self = memory;
  for (int n = 0; n < TAKES; n++) {
    weir_request requests[BATCH];
    for (int i = 0; i < BATCH; i++)
      requests[i] = (weir_request){.key = keys[i], .key_length = 1, .cost = 1};
    if (self->in_batches) weir_limiter_decide(self->limiter, requests, BATCH, NULL);
    for (int i = 0; i < BATCH && !self->in_batches; i++)
      requests[i].status =
          weir_limiter_take(self->limiter, keys[i], 1, 1, &requests[i].decision, NULL);
    for (int i = 0; i < BATCH; i++)
      if (requests[i].status == WEIR_OK) self->admitted[i] += requests[i].decision.allowed;
  }
  return NULL;
}

/* Two limiters on one store, alone and in batches, admit the limit together. */
static void all_that_share_a_store_admit_its_limit(void **state) {
  static const char *const rules[] = {"fixed-window:500/1h", "token-bucket:500/1h",
                                      "fixed-window:500/1h;sliding-window:5000/1h"};
  const weir_limiter_options options = {.flags = WEIR_NO_LOCAL_DENIAL};
  (void)state;
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
    taker takers[2 * THREADS] = {0};
    world w;
    world_open(&w, "memory:", rules[r], &options);
    weir_limiter *other = world_limiter(&w, rules[r], &options);
    for (int i = 0; i < 2 * THREADS; i++) {
      takers[i].limiter = i % 2 == 0 ? w.limiter : other;
      takers[i].in_batches = i % 4 == 3;
      assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
    }
    int64_t admitted[KEYS] = {0};
    for (int i = 0; i < 2 * THREADS; i++) {
      pthread_join(takers[i].thread, NULL);
      for (int k = 0; k < KEYS; k++)
        admitted[k] += takers[i].admitted[k];
    }
    for (int k = 0; k < KEYS; k++) {
      assert_in_range(admitted[k], 1, LIMIT);
      while (world_take(&w, keys[k], 1).allowed) /* one may have denied what others took back */
        admitted[k]++;
      assert_int_equal(admitted[k], LIMIT);
    }
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pause_keeps_no_other_key_waiting),
      cmocka_unit_test(what_is_charged_late_admits_nothing),
      cmocka_unit_test(all_that_share_a_store_admit_its_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
