#include "limiter/leases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture/fake.h"

const char *const lease_windows[LEASE_WINDOWS] = {
    "fixed-window:1000/1s,lease=20ms", "sliding-window:1000/1s,lease=20ms",
    "sliding-window:1000/1s,strict,lease=20ms", "quota:1000/1s,lease=20ms"};
const char lease_bucket[] = "token-bucket:20000/1s,burst=20400,lease=20ms";

void lease_open(world *w, const char *rules, int64_t held) {
  weir_limiter_options options = {.processes = 1};
  world_open_backend(w, &fake_backend, "fake:", rules, &options);
  if (held > 0) lease_fill(w, "k", held);
  fake_forget();
}

void lease_close(world *w) {
  assert_int_equal(lease_counts(w->limiter).keys_lost, 0);
  world_close(w);
}

weir_limiter_counts lease_counts(const weir_limiter *limiter) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}

int64_t lease_held(const weir_limiter *limiter) {
  weir_limiter_counts counts = lease_counts(limiter);
  return (int64_t)(counts.leased - counts.lease_used - counts.lease_returned - counts.lease_lost);
}

int64_t lease_fill(world *w, const char *key, int64_t least) {
  for (int i = 0; i < 2000; i++) {
    int64_t held = lease_held(w->limiter);
    if (held >= least) return held;
    assert_true(world_take(w, key, 1).allowed);
  }
  fail_msg("after 2000 requests %lld are held", (long long)lease_held(w->limiter));
  return 0;
}

void lease_use_down_to(world *w, const char *key, int64_t left) {
  while (lease_held(w->limiter) > left) {
    int64_t before = lease_held(w->limiter);
    assert_true(world_take(w, key, 1).allowed);
    assert_int_equal(lease_held(w->limiter), before - 1);
  }
}

int64_t lease_store_room(world *w, const char *rules, const char *key) {
  weir_limiter_options options = {.flags = WEIR_NO_LEASES, .processes = 1};
  weir_limiter *limiter = world_limiter(w, rules, &options);
  int64_t remaining = limiter_peek(limiter, key, 1).remaining;
  weir_limiter_destroy(limiter);
  return remaining;
}
