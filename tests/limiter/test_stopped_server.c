/* One of two memcached servers is stopped: what is lost is its keys' decisions, nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/servers.h"
#include "limiter/world.h"

/* The server that answers may take so long on a busy machine; the other one costs the deadline
 * whole. */
enum { KEYS = 20, DEADLINE_US = 4000000 };

typedef struct pool {
  struct server *servers[2];
  weir_store *store;
  weir_limiter *limiter;
  char names[KEYS][8];
  weir_request requests[KEYS];
} pool;

static void open_pool(pool *p) {
  char url[SERVER_URL_BYTES];
  weir_limiter_options options = {
      .size = sizeof options, .deadline_us = DEADLINE_US, .fallback = WEIR_FALLBACK_NONE};
  for (int i = 0; i < 2; i++)
    p->servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  server_url(p->servers, 2, "protocol=meta", url);
  assert_int_equal(weir_store_open(url, &p->store, NULL), WEIR_OK);
  assert_int_equal(
      weir_limiter_create(p->store, "fixed-window:100/400d", &options, &p->limiter, NULL), WEIR_OK);
  for (int i = 0; i < KEYS; i++) {
    snprintf(p->names[i], sizeof p->names[i], "k%d", i);
    p->requests[i] =
        (weir_request){.key = p->names[i], .key_length = strlen(p->names[i]), .cost = 10};
  }
}

static void close_pool(pool *p) {
  weir_limiter_destroy(p->limiter);
  weir_store_close(p->store);
}

static void a_batch_decides_the_keys_of_the_server_that_answers(void **state) {
  pool p;
  int decided = 0;
  (void)state;
  open_pool(&p);
  assert_int_equal(weir_limiter_decide(p.limiter, p.requests, KEYS, NULL), WEIR_OK);
  server_stop(p.servers[0]);
  assert_int_not_equal(weir_limiter_decide(p.limiter, p.requests, KEYS, NULL), WEIR_OK);
  server_continue(p.servers[0]);
  for (int i = 0; i < KEYS; i++) {
    if (p.requests[i].status != WEIR_OK) continue;
    decided++;
    assert_int_equal(p.requests[i].decision.remaining, 80);
    assert_int_equal(limiter_peek(p.limiter, p.names[i], 1).remaining, 80);
  }
  assert_in_range(decided, 1, KEYS - 1);
  close_pool(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_decides_the_keys_of_the_server_that_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
