/* Servers that speak TLS and stop, die or lie, and those that do not speak it. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "fixture/proxy.h"
#include "wire/operations.h"

enum { KINDS = 2, BUSY_US = 10000000, LARGE = 20000, LARGE_KEY_BYTES = 200 };

static const char *const schemes[KINDS] = {"memcacheds", "rediss"};

static struct server *servers[KINDS];
static struct server *plain[KINDS];

static weir_store *open_at(const char *scheme, uint16_t port, const char *more) {
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  weir_store *store = NULL;
  snprintf(url, sizeof url, "%s://%s127.0.0.1:%u?%s", scheme,
           strcmp(more, "login") == 0 ? "ann:secret@" : "", (unsigned)port,
           strcmp(more, "login") == 0 ? "" : more);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

static const char *trusting(const char *more) {
  static char query[SERVER_URL_BYTES];
  snprintf(query, sizeof query, "tls-ca=%s%s", certificate_file(CERTIFICATE_CA), more);
  return query;
}

static weir_store *open_kind(int kind, const char *more) {
  return open_servers(&servers[kind], 1, trusting(more));
}

/* One ADD within that time. */
static weir_operation add_within(weir_store *store, const char *key, int64_t ms,
                                 weir_message *message) {
  weir_operation add = add_to(key, 1);
  int64_t begin_us = weir_monotonic_us();
  weir_store_exec(store, &add, 1, begin_us + ms * 1000, message);
  int64_t late_us = weir_monotonic_us() - begin_us - ms * 1000;
  if (late_us > BUSY_US) fail_msg("%lld us late", (long long)late_us);
  return add;
}

/* A busy machine may need longer to come as far as what is to be said. */
static void expect_not_sent(weir_store *store, int64_t ms, const char *said) {
  weir_message message = {""};
  for (bool reported = false; !reported && ms <= PATIENCE_MS; ms *= 2) {
    assert_outcome(add_within(store, "weir:t:{n}:1", ms, &message), WEIR_NOT_SENT);
    reported = strstr(message.text, said) != NULL;
  }
  if (strstr(message.text, said) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", message.text, said);
  weir_store_close(store);
}

/* Repeats what was not sent: a server that was away is asked again after a while. */
static weir_operation persist(weir_store *store, weir_operation operation) {
  weir_message message = {""};
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  weir_operation done;
  do {
    done = execute(store, operation, &message);
  } while (done.outcome == WEIR_NOT_SENT && weir_monotonic_us() < end_us);
  return done;
}

static void a_server_without_tls_is_found_out(void **state) {
  (void)state;
  expect_not_sent(open_at("memcacheds", server_port(plain[0]), trusting("")), PATIENCE_MS,
                  "does not speak TLS here");
  expect_not_sent(open_at("rediss", server_port(plain[1]), trusting("")), 300,
                  "does not speak TLS here");
}

static void a_server_with_tls_is_found_out(void **state) {
  (void)state;
  const uint16_t ports[KINDS] = {server_secure_port(servers[0]), server_secure_port(servers[1])};
  expect_not_sent(open_at("redis", ports[1], ""), PATIENCE_MS, "rediss://");
  expect_not_sent(open_at("memcached", ports[0], "login"), PATIENCE_MS, "memcacheds://");
  expect_not_sent(open_at("memcached", ports[0], ""), PATIENCE_MS, "memcacheds://");
}

static void a_handshake_that_is_never_answered_costs_one_deadline(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    server_stop(servers[kind]);
    expect_not_sent(open_kind(kind, "&timeout=50ms"), 50, "");
    expect_not_sent(open_kind(kind, "&timeout=200ms"), 200, "no TLS handshake in time");
    server_continue(servers[kind]);
    weir_store *store = open_kind(kind, "");
    assert_outcome(persist(store, add_to("weir:t:{h}:1", 1)), WEIR_DONE);
    weir_store_close(store);
  }
}

static void a_stopped_server_leaves_the_stream_in_step(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_message message = {""};
    weir_store *store = open_kind(kind, "&timeout=30s");
    for (int round = 0; round < 3; round++) {
      char key[32];
      weir_operation late = {.outcome = WEIR_NOT_SENT};
      snprintf(key, sizeof key, "weir:t:{step%d}:1", round);
      assert_done(persist(store, add_to(key, 1)), 1);
      server_stop(servers[kind]);
      for (int64_t ms = 20; late.outcome == WEIR_NOT_SENT && ms < PATIENCE_MS; ms *= 2)
        late = add_within(store, key, ms, &message);
      assert_outcome(late, WEIR_UNKNOWN);
      server_continue(servers[kind]);
      assert_done(persist(store, get_of(key)), 2);
    }
    weir_store_close(store);
  }
}

static void an_idle_connection_to_a_restarted_server_is_reopened(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_store *store = open_kind(kind, "");
    for (int round = 0; round < 3; round++) {
      assert_done(persist(store, add_to("weir:t:{r}:1", 1)), 1);
      assert_done(persist(store, add_to("weir:t:{r}:1", 1)), 2);
      server_restart(servers[kind]);
      poll(NULL, 0, 20); /* idle for long enough to be looked at */
    }
    weir_store_close(store);
  }
}

static weir_operation large[LARGE];
static char large_keys[LARGE][LARGE_KEY_BYTES];

static void fill_large(unsigned number) {
  for (int i = 0; i < LARGE; i++) {
    snprintf(large_keys[i], sizeof large_keys[i], "weir:large%u:{%0150d}:1", number, i);
    large[i] = i % 3 == 0 ? put_to(WEIR_PUT, large_keys[i], i) : add_to(large_keys[i], i + 1);
  }
}

/* Values among it: their ends meet the ends of records. */
static void a_large_batch_is_answered_to_the_last(void **state) {
  weir_message message = {""};
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_store *store = open_kind(kind, "");
    fill_large((unsigned)kind);
    weir_store_exec(store, large, LARGE, deadline_in_ms(PATIENCE_MS * 2), &message);
    for (int i = 0; i < LARGE; i++) {
      if (large[i].outcome != WEIR_DONE) fail_msg("%d: %s", i, message.text);
      if (large[i].kind == WEIR_ADD) assert_int_equal(large[i].value, i + 1);
    }
    weir_store_close(store);
  }
}

/* The last record of a batch ends wherever the batch does, others where they are full. Whatever of
 * a value were in the next one, memcached would forget what follows. */
static void a_value_never_ends_in_the_next_record(void **state) {
  enum { BATCHES = 60, LEAST = 280 };
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_store *store = open_kind(kind, "");
    for (int batch = 0; batch < BATCHES; batch++) {
      weir_message message = {""};
      int count = LEAST + batch;
      for (int i = 0; i < count; i++) {
        snprintf(large_keys[i], sizeof large_keys[i], "weir:t:{v%d}:%d", batch, i);
        large[i] = put_to(WEIR_PUT, large_keys[i], WEIR_VALUE_MOST - i);
      }
      weir_store_exec(store, large, (size_t)count, deadline_in_ms(PATIENCE_MS), &message);
      for (int i = 0; i < count; i++)
        if (large[i].outcome != WEIR_DONE) fail_msg("%d of %d: %s", i, count, message.text);
    }
    weir_store_close(store);
  }
}

/* Nothing reported as not sent is ever executed, though part of it may have been encrypted. */
static void a_large_batch_to_a_stopped_server_keeps_the_deadline(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_message message = {""};
    weir_store *store = open_kind(kind, "&timeout=30s");
    int unknown = 0;
    int not_sent = 0;
    fill_large(2 + (unsigned)kind);
    assert_outcome(persist(store, get_of("weir:t:{warm}:1")), WEIR_ABSENT);
    server_stop(servers[kind]);
    for (int64_t ms = 500; unknown == 0 && ms < 60000; ms *= 2) {
      int64_t begin_us = weir_monotonic_us();
      weir_store_exec(store, large, LARGE, begin_us + ms * 1000, &message);
      assert_true(weir_monotonic_us() - begin_us < ms * 1000 + BUSY_US);
      for (int i = 0; i < LARGE; i++)
        unknown += large[i].outcome == WEIR_UNKNOWN;
    }
    server_continue(servers[kind]);
    for (int i = 0; i < LARGE; i++) {
      assert_true(large[i].outcome == WEIR_UNKNOWN || large[i].outcome == WEIR_NOT_SENT);
      not_sent += large[i].outcome == WEIR_NOT_SENT;
    }
    assert_in_range(unknown, 1, LARGE);
    weir_store_close(store);
    store = open_kind(kind, "");
    for (int i = LARGE - 1; i >= 0 && not_sent > 0; i -= 500) {
      if (large[i].outcome != WEIR_NOT_SENT) continue;
      assert_outcome(persist(store, get_of(large_keys[i])), WEIR_ABSENT);
    }
    weir_store_close(store);
  }
}

typedef struct load {
  weir_store *store;
  atomic_bool stop;
  int64_t done;
  int64_t unknown;
} load;

static void *keep_adding(void *context) {
  load *self = context;
  weir_message message = {""};
  while (!atomic_load(&self->stop)) {
    weir_operation batch[64];
    for (int i = 0; i < 64; i++)
      batch[i] = add_to("weir:t:{load}:1", 1);
    weir_store_exec(self->store, batch, 64, deadline_in_ms(100), &message);
    for (int i = 0; i < 64; i++) {
      self->done += batch[i].outcome == WEIR_DONE;
      self->unknown += batch[i].outcome == WEIR_UNKNOWN;
    }
  }
  return NULL;
}

/* Also that no SIGPIPE comes of it: nothing here ignores it. */
static void kills_under_load_end_nothing_but_the_connection(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    pthread_t threads[4];
    static load loads[4];
    weir_store *store = open_kind(kind, "");
    for (int i = 0; i < 4; i++) {
      loads[i] = (load){.store = store};
      atomic_init(&loads[i].stop, false);
      assert_int_equal(pthread_create(&threads[i], NULL, keep_adding, &loads[i]), 0);
    }
    for (int round = 0; round < 10; round++)
      server_restart(servers[kind]);
    assert_outcome(persist(store, add_to("weir:t:{after}:1", 1)), WEIR_DONE);
    for (int i = 0; i < 4; i++)
      atomic_store(&loads[i].stop, true);
    for (int i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
    weir_store_close(store);
  }
}

/* It cannot read a word of what it carries. */
static proxy between;

static void records_in_pieces_are_put_together(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    proxy_start(&between, servers[kind], PROXY_OPEN);
    atomic_store(&between.secure, true);
    atomic_store(&between.piece, 1);
    weir_store *store = open_at(schemes[kind], proxy_port(&between), trusting(""));
    for (int i = 0; i < 3; i++)
      assert_done(persist(store, add_to("weir:t:{pieces}:1", 1)), i + 1);
    weir_store_close(store);
    proxy_stop(&between);
  }
}

/* One bit anywhere between the two: either it ends the connection or it was never read. Additions
 * that were made can be counted on the server. */
static void a_flipped_bit_is_never_believed(void **state) {
  enum { BYTES = 2400, STEP = 61 };
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    proxy_start(&between, servers[kind], PROXY_OPEN);
    atomic_store(&between.secure, true);
    int done = 0;
    int unknown = 0;
    for (size_t at = 1; at < BYTES; at += STEP) {
      weir_message message = {""};
      atomic_store(&between.flips_replies, at % 2 == 0);
      atomic_store(&between.flip_at, at);
      weir_store *store = open_at(schemes[kind], proxy_port(&between), trusting(""));
      weir_operation add = add_within(store, "weir:t:{flip}:1", 200, &message);
      assert_true(add.outcome == WEIR_DONE || add.outcome == WEIR_UNKNOWN ||
                  add.outcome == WEIR_NOT_SENT);
      done += add.outcome == WEIR_DONE;
      unknown += add.outcome == WEIR_UNKNOWN;
      if (add.outcome == WEIR_DONE) assert_in_range(add.value, done, done + unknown);
      weir_store_close(store);
    }
    proxy_stop(&between);
    weir_store *store = open_kind(kind, "");
    weir_operation get = persist(store, get_of("weir:t:{flip}:1"));
    if (get.outcome != WEIR_ABSENT) assert_in_range(get.value, done, done + unknown);
    assert_true(get.outcome != WEIR_ABSENT || done == 0);
    weir_store_close(store);
  }
}

int main(void) {
  static const char *const lenient[] = {"--tls-auth-clients", "no", NULL};
  servers[0] = server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER, NULL);
  servers[1] = server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, lenient);
  plain[0] = server_start_memcached(SERVER_IPV4, NULL);
  plain[1] = server_start_redis(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_without_tls_is_found_out),
      cmocka_unit_test(a_server_with_tls_is_found_out),
      cmocka_unit_test(a_handshake_that_is_never_answered_costs_one_deadline),
      cmocka_unit_test(a_stopped_server_leaves_the_stream_in_step),
      cmocka_unit_test(an_idle_connection_to_a_restarted_server_is_reopened),
      cmocka_unit_test(a_large_batch_is_answered_to_the_last),
      cmocka_unit_test(a_value_never_ends_in_the_next_record),
      cmocka_unit_test(a_large_batch_to_a_stopped_server_keeps_the_deadline),
      cmocka_unit_test(kills_under_load_end_nothing_but_the_connection),
      cmocka_unit_test(records_in_pieces_are_put_together),
      cmocka_unit_test(a_flipped_bit_is_never_believed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
