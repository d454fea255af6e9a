#include "limiter/away.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

void away_open_on(world *w, const weir_backend *backend, const char *rules,
                  const weir_limiter_options *options) {
  weir_limiter_options with_clock = *options;
  weir_message message = {""};
  world_set(w, 0);
  with_clock.size = sizeof with_clock;
  if (with_clock.deadline_us == 0) with_clock.deadline_us = AWAY_DEADLINE_US;
  with_clock.clock = hand_clock_as_clock(&w->clock);
  assert_int_equal(weir_store_open_backend(backend, "fake:", &w->store, &message), WEIR_OK);
  if (weir_limiter_create(w->store, rules, &with_clock, &w->limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", rules, message.text);
}

void away_open_with(world *w, const char *rules, const weir_limiter_options *options) {
  away_open_on(w, &fake_backend, rules, options);
}

void away_open(world *w, const char *rules, uint32_t peers) {
  away_open_with(w, rules, &(weir_limiter_options){.peers = peers});
}

weir_decision away_take(world *w, const char *key, int64_t cost) {
  weir_decision decision = world_take(w, key, cost);
  assert_int_equal(decision.source, WEIR_SOURCE_STORE);
  return decision;
}

weir_decision away_take_without(world *w, const char *key, int64_t cost) {
  the_fake.trouble = FAKE_AWAY;
  weir_decision decision = world_take(w, key, cost);
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
  assert_int_equal(decision.store_status, WEIR_UNAVAILABLE);
  return decision;
}

weir_decision away_withheld(world *w, const char *key, int64_t cost) {
  weir_decision decision = world_take(w, key, cost);
  assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
  assert_int_equal(decision.store_status, WEIR_OK);
  assert_false(decision.allowed);
  return decision;
}

int away_admits(world *w, const char *key, int tries) {
  int admitted = 0;
  for (int i = 0; i < tries; i++)
    admitted += away_take_without(w, key, 1).allowed;
  return admitted;
}

int64_t away_remaining(world *w, const char *rules, const char *key) {
  weir_limiter *other = world_limiter(w, rules, NULL);
  int64_t remaining = limiter_peek(other, key, 1).remaining;
  weir_limiter_destroy(other);
  return remaining;
}

void away_expect(const world *w, uint64_t owed, uint64_t paid, uint64_t unpaid) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(w->limiter, &counts);
  assert_int_equal(counts.owed, owed);
  assert_int_equal(counts.paid, paid);
  assert_int_equal(counts.unpaid, unpaid);
}
