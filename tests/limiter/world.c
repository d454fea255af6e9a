#include "limiter/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void check(weir_status status, const weir_message *message) {
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message->text);
}

weir_limiter *world_limiter(world *w, const char *rules, const weir_limiter_options *options) {
  weir_limiter_options with_clock = {0};
  weir_message message = {""};
  weir_limiter *limiter;
  if (options != NULL) with_clock = *options;
  with_clock.size = sizeof with_clock;
  if (with_clock.deadline_us == 0) with_clock.deadline_us = WORLD_DEADLINE_US;
  if (with_clock.fallback == 0) with_clock.fallback = WEIR_FALLBACK_NONE;
  if (strstr(rules, "lease=") != NULL && strstr(rules, "in-flight") == NULL)
    with_clock.renew = WEIR_RENEW_BY_CALLER; /* time stands still: no other thread asks the store */
  with_clock.clock = hand_clock_as_clock(&w->clock);
  check(weir_limiter_create(w->store, rules, &with_clock, &limiter, &message), &message);
  return limiter;
}

void world_open(world *w, const char *url, const char *rules, const weir_limiter_options *options) {
  weir_message message = {""};
  world_set(w, 0);
  check(weir_store_open(url, &w->store, &message), &message);
  w->limiter = world_limiter(w, rules, options);
}

void world_open_backend(world *w, const weir_backend *backend, const char *url, const char *rules,
                        const weir_limiter_options *options) {
  weir_message message = {""};
  world_set(w, 0);
  check(weir_store_open_backend(backend, url, &w->store, &message), &message);
  w->limiter = world_limiter(w, rules, options);
}

void world_close(world *w) {
  weir_limiter_destroy(w->limiter);
  weir_store_close(w->store);
}

void world_set(world *w, int64_t after_start_us) {
  w->clock.now_us = START_US + after_start_us;
}

weir_decision limiter_take(weir_limiter *limiter, const char *key, int64_t cost) {
  weir_decision decision = {0};
  weir_message message = {""};
  check(weir_limiter_take(limiter, key, strlen(key), cost, &decision, &message), &message);
  return decision;
}

weir_decision limiter_peek(weir_limiter *limiter, const char *key, int64_t cost) {
  weir_decision decision = {0};
  weir_message message = {""};
  check(weir_limiter_peek(limiter, key, strlen(key), cost, &decision, &message), &message);
  return decision;
}

weir_decision world_take(world *w, const char *key, int64_t cost) {
  return limiter_take(w->limiter, key, cost);
}

weir_decision world_peek(world *w, const char *key, int64_t cost) {
  return limiter_peek(w->limiter, key, cost);
}

void world_reset(world *w, const char *key) {
  weir_message message = {""};
  check(weir_limiter_reset(w->limiter, key, strlen(key), &message), &message);
}

void assert_allowed(weir_decision decision, int64_t remaining, int64_t reset_after_us) {
  assert_true(decision.allowed);
  assert_int_equal(decision.remaining, remaining);
  assert_int_equal(decision.retry_after_us, 0);
  assert_int_equal(decision.reset_after_us, reset_after_us);
  assert_int_equal(decision.delay_us, 0);
}

void assert_denied(weir_decision decision, int64_t remaining, int64_t retry_after_us,
                   int64_t reset_after_us) {
  assert_false(decision.allowed);
  assert_int_equal(decision.remaining, remaining);
  assert_int_equal(decision.retry_after_us, retry_after_us);
  assert_int_equal(decision.reset_after_us, reset_after_us);
  assert_int_equal(decision.delay_us, 0);
}
