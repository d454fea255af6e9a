#include "wire/breaker.h"

#include "random.h"

void weir_breaker_init(weir_breaker *breaker, int64_t timeout_us, int64_t most_us, uint64_t seed) {
  *breaker = (weir_breaker){.timeout_us = timeout_us, .most_us = most_us, .random = seed};
}

/* Opens until a moment in the second half of the pause. Processes that lost a server together come
 * back to it one after the other; nothing secret hangs on when. */
static void open_for_pause(weir_breaker *breaker, int64_t now_us) {
  int64_t half_us = breaker->pause_us / 2;
  uint64_t jitter_us = weir_random_next(&breaker->random) % (uint64_t)(half_us + 1);
  breaker->state = WEIR_BREAKER_OPEN;
  breaker->probe = NULL;
  breaker->probe_at_us = now_us + breaker->pause_us - half_us + (int64_t)jitter_us;
}

bool weir_breaker_admits(weir_breaker *breaker, const void *who, int64_t now_us) {
  if (breaker->state == WEIR_BREAKER_HALF_OPEN || now_us < breaker->probe_at_us) return false;
  breaker->state = WEIR_BREAKER_HALF_OPEN;
  breaker->probe = who;
  return true;
}

void weir_breaker_fail(weir_breaker *breaker, const char *why, int64_t now_us) {
  weir_message_set(&breaker->why, "%s", why);
  if (breaker->state == WEIR_BREAKER_OPEN) return;
  if (breaker->state == WEIR_BREAKER_CLOSED) {
    bool short_pause = breaker->most_us < WEIR_BREAKER_FIRST_US;
    breaker->pause_us = short_pause ? breaker->most_us : WEIR_BREAKER_FIRST_US;
    breaker->missed = breaker->slow = false;
    breaker->opened++;
  } else {
    bool may_double = breaker->pause_us <= breaker->most_us / 2;
    breaker->pause_us = may_double ? 2 * breaker->pause_us : breaker->most_us;
  }
  open_for_pause(breaker, now_us);
}

static bool is_probe(const weir_breaker *breaker, const void *who) {
  return breaker->state == WEIR_BREAKER_HALF_OPEN && breaker->probe == who;
}

void weir_breaker_end(weir_breaker *breaker, const void *who, int64_t now_us) {
  if (is_probe(breaker, who)) open_for_pause(breaker, now_us);
}

void weir_breaker_miss(weir_breaker *breaker, const void *who, const char *why, int64_t now_us) {
  if (breaker->state != WEIR_BREAKER_CLOSED) {
    if (is_probe(breaker, who)) weir_breaker_fail(breaker, why, now_us);
  } else if (!breaker->missed) {
    breaker->missed = true;
    breaker->missed_us = now_us;
  } else if (now_us - breaker->missed_us >=
             breaker->timeout_us * (breaker->slow ? WEIR_BREAKER_SLOW_TIMEOUTS : 1)) {
    weir_breaker_fail(breaker, why, now_us);
  }
}

void weir_breaker_hasten(weir_breaker *breaker) {
  breaker->probe_at_us = 0;
}

void weir_breaker_answered_late(weir_breaker *breaker) {
  breaker->slow = breaker->missed;
}

void weir_breaker_answered(weir_breaker *breaker) {
  breaker->state = WEIR_BREAKER_CLOSED;
  breaker->probe = NULL;
  breaker->missed = breaker->slow = false;
}
