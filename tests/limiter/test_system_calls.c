/* A decision under default settings costs one send and one receive that waits: no poll in between.
 * The linker sends every poll of the library to the wrapper below. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "fixture/servers.h"

enum { DECISIONS = 400, SHORT_TICK_NS = 5000000 };

static atomic_int polls; /* of the threads that look for a store's nodes too */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_poll(struct pollfd *sockets, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout_ms);

int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout_ms) {
  polls++;
  return __real_poll(sockets, count, timeout_ms);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int polls_of(struct server *server) {
  char url[SERVER_URL_BYTES];
  weir_store *store;
  weir_limiter *limiter;
  weir_limiter_options options = {.size = sizeof options, .fallback = WEIR_FALLBACK_ALLOW};
  weir_decision decision;
  server_url(&server, 1, "", url);
  assert_int_equal(weir_store_open(url, &store, NULL), WEIR_OK);
  assert_int_equal(
      weir_limiter_create(store, "sliding-window:1000000/1h", &options, &limiter, NULL), WEIR_OK);
  polls = 0;
  for (int i = 0; i < DECISIONS; i++)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return polls;
}

/* A kernel whose clock ticks more slowly may let such a receive last until the deadline. */
static bool ticks_fast(void) {
  struct timespec tick;
  assert_int_equal(clock_getres(CLOCK_MONOTONIC_COARSE, &tick), 0);
  return tick.tv_sec == 0 && tick.tv_nsec <= SHORT_TICK_NS;
}

/* Where a busy machine makes an answer late, the rest of the wait is a poll. */
static void a_decision_waits_in_its_receive(void **state) {
  int most = ticks_fast() ? DECISIONS / 2 : 2 * DECISIONS;
  (void)state;
  assert_in_range(polls_of(server_start_memcached(SERVER_IPV4, NULL)), 1, most);
  assert_in_range(polls_of(server_start_redis(SERVER_IPV4, NULL)), 1, most);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_decision_waits_in_its_receive)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
