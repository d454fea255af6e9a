/* Several processes at the same keys lose none of them by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { PROCESSES = 6, RUN_US = 300000 };

/* All that callers do, on a few keys, across the edges of short windows. */
static void live(outage *o, int seed) {
  int64_t end_us = weir_monotonic_us() + RUN_US;
  for (int i = seed; weir_monotonic_us() < end_us; i++) {
    char key = (char)('a' + i % 3);
    weir_decision decision;
    weir_reservation *reservation = NULL;
    weir_request request = {.key = &key, .key_length = 1, .cost = 1};
    switch (i * 7 % 6) {
      case 0:
        if (weir_limiter_take(o->limiter, &key, 1, 1, &decision, NULL) == WEIR_OK &&
            decision.allowed && i % 2 == 0)
          weir_limiter_refund(o->limiter, &key, 1, 1, &decision, NULL);
        break;
      case 1:
        weir_limiter_reserve(o->limiter, &request, &reservation, NULL);
        if (reservation != NULL) weir_reservation_cancel(reservation, NULL);
        weir_reservation_destroy(reservation);
        break;
      case 2:
        weir_limiter_peek(o->limiter, &key, 1, 1, &decision, NULL);
        break;
      default:
        weir_limiter_take(o->limiter, &key, 1, 1, &decision, NULL);
    }
  }
}

static void several_processes_lose_nothing_by_themselves(void **state) {
  static const char *const short_rules[] = {
      "fixed-window:30/200ms",
      "sliding-window:300/400ms",
      "sliding-window:30/1s,cells=16",
      "quota:30/200ms",
      "sliding-log:30/200ms",
      "token-bucket:100/1s,burst=30",
      "leaky-bucket:1000/1s,queue=20",
      "fixed-window:60/300ms;token-bucket:100/1s,burst=30;sliding-log:90/1s",
      "fixed-window:20/100ms;sliding-window:100/1s;fixed-window:150/1s",
  };
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    for (size_t i = 0; i < sizeof short_rules / sizeof short_rules[0]; i++) {
      pid_t children[PROCESSES];
      for (int n = 0; n < PROCESSES; n++) {
        children[n] = fork();
        assert_true(children[n] >= 0);
        if (children[n] != 0) continue;
        outage_open_real(&o, short_rules[i], WEIR_FALLBACK_NONE, 200000);
        live(&o, n);
        uint64_t found = outage_counts(o.limiter).keys_lost;
        outage_close(&o);
        _exit(found != 0);
      }
      for (int n = 0; n < PROCESSES; n++) {
        int status;
        assert_int_equal(waitpid(children[n], &status, 0), children[n]);
        if (status != 0) fail_msg("%s on %s: ended with %d", short_rules[i], o.name, status);
      }
      outage_flush(&o); /* the same tags do not meet again */
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_processes_lose_nothing_by_themselves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
