/* slow_tail [TAKES]
 *
 * A store that never leaves, and answers with a long tail: 4 ms, and an exponential of 8 ms more, where
 * the deadline is 20 ms. Every seventh answer or so is late, and now and then several are in a row. Two
 * limiters, each with a store of its own as two processes have, stay below the limit: nobody may be
 * denied, and the server may not count as away. For a machine that does nothing else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "fixture/proxy.h"
#include "limiter/limiter.h"
#include "random.h"

enum {
  PROCESSES = 2,
  TAKES = 800,
  LEAST_MS = 4,
  TAIL_MS = 8,
  EVERY_US = 25000, /* 40 a second, of 50 */
  CONNECT_US = 10000000
};

static const char rule[] = "fixed-window:50/1s";
static proxy door;
static weir_store *stores[PROCESSES];
static weir_limiter *limiters[PROCESSES];

static int next_delay_ms(uint64_t *random) {
  double chance = (double)(weir_random_next(random) % 1000000 + 1) / 1e6;
  return LEAST_MS + (int)lround(-log(chance) * TAIL_MS);
}

static void open_process(int i) {
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u", (unsigned)address_port(&door.address));
  if (weir_store_open(url, &stores[i], &message) == WEIR_OK &&
      weir_store_connect(stores[i], CONNECT_US, &message) == WEIR_OK &&
      weir_limiter_create(stores[i], rule, NULL, &limiters[i], &message) == WEIR_OK)
    return;
  fprintf(stderr, "given up: %s\n", message.text);
  exit(2);
}

/* Returns how often it counted its server as away. */
static int close_process(int i) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  weir_store_read_server(stores[i], 0, &state);
  weir_limiter_destroy(limiters[i]);
  weir_store_close(stores[i]);
  return (int)state.outages;
}

int main(int count, char **arguments) {
  long takes = count > 1 ? strtol(arguments[1], NULL, 10) : TAKES;
  uint64_t random = 1;
  int late = 0;
  int by_fallback = 0;
  int denied = 0;
  int outages = 0;
  proxy_start(&door, server_start_memcached(SERVER_IPV4, NULL), PROXY_OPEN);
  for (int i = 0; i < PROCESSES; i++)
    open_process(i);
  int64_t begin_us = weir_monotonic_us();
  for (long i = 0; i < takes; i++) {
    weir_decision decision = {0};
    weir_sleep_until(begin_us + i * EVERY_US);
    atomic_store(&door.delay_ms, next_delay_ms(&random));
    weir_limiter *limiter = limiters[weir_random_next(&random) % PROCESSES];
    weir_limiter_take(limiter, "k", 1, 1, &decision, NULL);
    late += decision.source == WEIR_SOURCE_LATE;
    by_fallback += decision.source == WEIR_SOURCE_FALLBACK;
    denied += !decision.allowed;
  }
  for (int i = 0; i < PROCESSES; i++)
    outages += close_process(i);
  proxy_stop(&door);
  printf("%ld takes: %d late, %d by the fallback, %d denied, %d outages\n", takes, late,
         by_fallback, denied, outages);
  return denied == 0 && outages == 0 ? 0 : 1;
}
