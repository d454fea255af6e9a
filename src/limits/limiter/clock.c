/* What time it is, and sleeping.
 *
 * The guard: a clock that steps back a little (an adjusted clock, two cores) is held at the latest
 * time seen; a larger step is somebody setting the clock, and is followed. */
#include <errno.h>
#include <time.h>

#include "clock.h"
#include "limiter/limiter.h"

int64_t weir_real_time_us(void *context) {
  (void)context;
  return weir_clock_us(CLOCK_REALTIME);
}

void weir_limiter_guard_clock(weir_limiter *limiter) {
  const int64_t held_least_us = 1000000;
  const int64_t grain_most_us = 100;
  int64_t error_us = limiter->settings.clock_error_us;
  limiter->held_back_us = error_us > held_least_us ? error_us : held_least_us;
  limiter->grain_us = error_us / 100 < grain_most_us ? error_us / 100 : grain_most_us;
}

/* The latest time is shared by all threads, and writing it costs them a cache line each: it is
 * written once in a grain. */
int64_t weir_limiter_now(weir_limiter *limiter) {
  int64_t now_us = limiter->clock.now_us(limiter->clock.context);
  if (now_us < 0) now_us = 0;
  if (now_us > WEIR_TIME_MOST_US) now_us = WEIR_TIME_MOST_US;
  int64_t latest_us = atomic_load_explicit(&limiter->latest_us, memory_order_relaxed);
  if (now_us >= latest_us && now_us - latest_us < limiter->grain_us) return now_us;
  do {
    if (now_us <= latest_us && latest_us - now_us <= limiter->held_back_us) return latest_us;
  } while (!atomic_compare_exchange_weak_explicit(&limiter->latest_us, &latest_us, now_us,
                                                  memory_order_relaxed, memory_order_relaxed));
  if (now_us < latest_us) atomic_fetch_add_explicit(&limiter->clock_steps, 1, memory_order_relaxed);
  return now_us;
}

/* The steps are counted before the clock is read: a step between the two is noticed, and the
 * reading not used for longer than it should be. */
weir_moment weir_limiter_moment(weir_limiter *limiter) {
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  return (weir_moment){.clock_steps = steps, .now_us = weir_limiter_now(limiter)};
}

/* Whether the clock said so. What is no later than the latest time may be that itself: held, however much
 * time goes by meanwhile. */
static bool was_read(const weir_limiter *limiter, const weir_moment *at) {
  return at->now_us > atomic_load_explicit(&limiter->latest_us, memory_order_relaxed);
}

/* How far CLOCK_REALTIME is ahead changes only when it is set. What a look finds holds for a tenth of a
 * millisecond: a moment that is not shortly behind that look finds it old, and so does one after a step.
 * It is rounded up, so that what is made of it is not too late. */
int64_t weir_limiter_monotonic(weir_limiter *limiter, weir_moment *at) {
  enum { HOLDS_US = 100, TAKES_US = 2 };
  static struct { _Alignas(WEIR_CACHE_LINE_BYTES) _Atomic int64_t ahead_us, read_us; } kept;
  bool of_system = limiter->clock.now_us == weir_real_time_us;
  if (of_system && was_read(limiter, at)) {
    int64_t read_us = atomic_load_explicit(&kept.read_us, memory_order_acquire);
    int64_t ahead_us = atomic_load_explicit(&kept.ahead_us, memory_order_relaxed);
    int64_t since_us = at->now_us - ahead_us - read_us;
    if (since_us >= 0 && since_us < HOLDS_US) return read_us + since_us;
  }
  int64_t monotonic_us = weir_monotonic_us();
  *at = weir_limiter_moment(limiter);
  if (of_system && was_read(limiter, at) && weir_monotonic_us() - monotonic_us <= TAKES_US) {
    int64_t ahead_us = at->now_us - monotonic_us + 1;
    atomic_store_explicit(&kept.ahead_us, ahead_us, memory_order_relaxed);
    atomic_store_explicit(&kept.read_us, monotonic_us - 1, memory_order_release);
  }
  return monotonic_us;
}

void weir_sleep_until(int64_t monotonic_us) {
  struct timespec until = {.tv_sec = (time_t)(monotonic_us / 1000000),
                           .tv_nsec = (long)(monotonic_us % 1000000) * 1000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}
