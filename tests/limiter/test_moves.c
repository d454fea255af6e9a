/* A name that moves from server to server while many threads count by it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture/servers.h"
#include "limiter/world.h"
#include "wire/resolver.h"

enum { THREADS = 8, LIMIT = 200, SERVERS = 3, TRIES = 3, BEFORE_MS = 100 };

/* How soon the new server decides, and what it takes at most on a machine that is held up. */
#define BACK_US (2 * SECOND_US)
#define PATIENCE_US (30 * SECOND_US)

typedef enum store_kind {
  KIND_MEMCACHED,
  KIND_REDIS,
  KIND_MEMCACHED_TLS,
  KIND_REDIS_TLS,
} store_kind;

static const char *const schemes[] = {[KIND_MEMCACHED] = "memcached",
                                      [KIND_REDIS] = "redis",
                                      [KIND_MEMCACHED_TLS] = "memcacheds",
                                      [KIND_REDIS_TLS] = "rediss"};

typedef struct moving {
  store_kind kind;
  struct server *servers[SERVERS];
  weir_store *store;
  weir_limiter *limiter;
  pthread_t threads[THREADS];
  atomic_bool over;
  atomic_int used;   /* servers that the name has led to */
  atomic_int old;    /* admissions of the key that is used all the time */
  atomic_int excess; /* of those, beyond one limit for each server */
  /* Keys that are new with each server: */
  atomic_int admitted; /* in all */
  atomic_int unknown;  /* which may count or not: charges without an answer, or at a move */
  atomic_int decided;  /* by the store */
  atomic_int denied;   /* of those */
} moving;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct server *start_kind(store_kind kind) {
  static const char *const lenient[] = {"--tls-auth-clients", "no", NULL};
  switch (kind) {
    case KIND_MEMCACHED:
      return server_start_memcached(SERVER_IPV4, NULL);
    case KIND_REDIS:
      return server_start_redis(SERVER_IPV4, NULL);
    case KIND_MEMCACHED_TLS:
      return server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER, NULL);
    case KIND_REDIS_TLS:
      return server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, lenient);
  }
  return NULL;
}

static bool is_redis(store_kind kind) {
  return kind == KIND_REDIS || kind == KIND_REDIS_TLS;
}

static void lead_to(moving *m, int server) {
  bool secure = m->kind == KIND_MEMCACHED_TLS || m->kind == KIND_REDIS_TLS;
  const struct server *to = m->servers[server];
  const uint16_t port = secure ? server_secure_port(to) : server_port(to);
  atomic_store(&m->used, server + 1);
  resolver_lead_to_ports(&port, 1);
}

static void take_old(moving *m) {
  weir_decision decision;
  weir_status status = weir_limiter_take(m->limiter, "old", 3, 1, &decision, NULL);
  if (status != WEIR_OK || !decision.allowed) return;
  int most = atomic_load(&m->used) * LIMIT;
  if (atomic_fetch_add(&m->old, 1) >= most) atomic_fetch_add(&m->excess, 1);
}

static void take_new(moving *m) {
  weir_decision decision;
  char key[8];
  int server = atomic_load(&m->used);
  snprintf(key, sizeof key, "new%d", server);
  weir_status status = weir_limiter_take(m->limiter, key, strlen(key), 1, &decision, NULL);
  atomic_fetch_add(&m->unknown, status == WEIR_UNKNOWN_OUTCOME);
  if (status != WEIR_OK) {
    pause_ms(1);
    return;
  }
  bool moved = atomic_load(&m->used) != server; /* the thread was held up: which one counted it? */
  atomic_fetch_add(moved ? &m->unknown : &m->admitted, decision.allowed);
  if (decision.source != WEIR_SOURCE_STORE) return;
  atomic_fetch_add(&m->denied, !decision.allowed);
  atomic_fetch_add(&m->decided, 1);
}

static void *keep_taking(void *context) {
  moving *m = context;
  while (!atomic_load(&m->over)) {
    take_old(m);
    take_new(m);
  }
  return NULL;
}

static void begin(moving *m, store_kind kind) {
  const weir_limiter_options options = {.size = sizeof options, .fallback = WEIR_FALLBACK_NONE};
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  *m = (moving){.kind = kind};
  for (int i = 0; i < SERVERS; i++)
    m->servers[i] = start_kind(kind);
  bool secure = kind == KIND_MEMCACHED_TLS || kind == KIND_REDIS_TLS;
  snprintf(url, sizeof url, "%s://cache.test%s%s", schemes[kind],
           secure ? "?tls-name=127.0.0.1&tls-ca=" : "",
           secure ? certificate_file(CERTIFICATE_CA) : "");
  lead_to(m, 0);
  char rule[64];
  snprintf(rule, sizeof rule, "fixed-window:%d/400d", LIMIT);
  if (weir_store_open(url, &m->store, &message) != WEIR_OK ||
      weir_limiter_create(m->store, rule, &options, &m->limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", url, message.text);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&m->threads[i], NULL, keep_taking, m), 0);
}

static void end(moving *m) {
  atomic_store(&m->over, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(m->threads[i], NULL);
  weir_limiter_destroy(m->limiter);
  weir_store_close(m->store);
  for (int i = 0; i < SERVERS; i++)
    server_kill(m->servers[i]);
}

/* How long until the store has decided more. */
static int64_t await_more(const atomic_int *decisions, int more) {
  int64_t begin_us = weir_monotonic_us();
  int before = atomic_load(decisions);
  while (atomic_load(decisions) < before + more) {
    assert_true(weir_monotonic_us() - begin_us < PATIENCE_US);
    pause_ms(1);
  }
  return weir_monotonic_us() - begin_us;
}

/* Until the server that the name leads to has admitted what it may: how long until the first. */
static int64_t await_back(moving *m) {
  int64_t back_us = await_more(&m->decided, 1);
  await_more(&m->denied, THREADS + 1);
  return back_us;
}

/* The server dies; a while later the name leads to the next one. */
static void move_from_dead(moving *m, int to) {
  server_kill(m->servers[to - 1]);
  pause_ms(BEFORE_MS);
  lead_to(m, to);
}

/* The server lives on, as a replica of the next one. A command that it refused is known to be
 * nobody's. */
static void move_from_demoted(moving *m, int to) {
  char text[128];
  char answer[8] = "";
  int fd = server_connect(m->servers[to - 1]);
  int length = snprintf(text, sizeof text, "REPLICAOF 127.0.0.1 %u\r\n",
                        (unsigned)server_port(m->servers[to]));
  assert_int_equal(write(fd, text, (size_t)length), length);
  assert_true(read(fd, answer, sizeof answer) > 0);
  assert_memory_equal(answer, "+OK", 3);
  close(fd);
  pause_ms(BEFORE_MS);
  lead_to(m, to);
}

/* On a machine that is held up a move may be late; the best of some is not. */
static void expect_moves_to_be_followed(store_kind kind) {
  bool late = true;
  for (int i = 0; i < TRIES && late; i++) {
    static moving m;
    begin(&m, kind);
    await_back(&m);
    late = false;
    for (int to = 1; to < SERVERS; to++) {
      if (to == 2 && is_redis(kind)) {
        move_from_demoted(&m, to);
      } else {
        move_from_dead(&m, to);
      }
      int64_t back_us = await_back(&m);
      late |= back_us > BACK_US;
      print_message("%s, move %d: back after %lld ms\n", schemes[kind], to,
                    (long long)back_us / 1000);
    }
    end(&m);
    assert_int_equal(atomic_load(&m.excess), 0);
    assert_in_range(atomic_load(&m.admitted) + atomic_load(&m.unknown), SERVERS * LIMIT,
                    SERVERS * LIMIT + atomic_load(&m.unknown));
  }
  assert_false(late);
}

static void a_memcached_that_moves_is_followed(void **state) {
  (void)state;
  expect_moves_to_be_followed(KIND_MEMCACHED);
}

static void a_redis_that_moves_is_followed(void **state) {
  (void)state;
  expect_moves_to_be_followed(KIND_REDIS);
}

static void a_memcached_that_moves_is_followed_over_tls(void **state) {
  (void)state;
  expect_moves_to_be_followed(KIND_MEMCACHED_TLS);
}

static void a_redis_that_moves_is_followed_over_tls(void **state) {
  (void)state;
  expect_moves_to_be_followed(KIND_REDIS_TLS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_memcached_that_moves_is_followed),
      cmocka_unit_test(a_redis_that_moves_is_followed),
      cmocka_unit_test(a_memcached_that_moves_is_followed_over_tls),
      cmocka_unit_test(a_redis_that_moves_is_followed_over_tls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
