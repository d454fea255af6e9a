#include "limiter/outage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "limiter/world.h"

#define LONG_US (30 * SECOND_US)

static const char *const names[OUTAGE_KINDS] = {"memcached, meta", "memcached, classic", "redis"};
static const char *const queries[OUTAGE_KINDS] = {"protocol=meta", "protocol=classic", NULL};

void outage_start(outage *o, enum outage_kind kind, size_t servers) {
  *o = (outage){.name = names[kind], .count = servers, .clock = {START_US}};
  for (size_t i = 0; i < servers; i++)
    o->servers[i] = kind == OUTAGE_REDIS ? server_start_redis(SERVER_IPV4, NULL)
                                         : server_start_memcached(SERVER_IPV4, NULL);
  server_url(o->servers, servers, queries[kind], o->url);
}

static void open_with(outage *o, const char *rules, weir_fallback fallback, int64_t deadline_us,
                      weir_clock clock) {
  weir_message message = {""};
  weir_limiter_options options = {
      .size = sizeof options,
      .clock = clock,
      .deadline_us = deadline_us != 0 ? deadline_us : LONG_US,
      .fallback = fallback,
      .peers = OUTAGE_PEERS,
  };
  if (weir_store_open(o->url, &o->store, &message) != WEIR_OK ||
      weir_limiter_create(o->store, rules, &options, &o->limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", rules, message.text);
}

void outage_open(outage *o, const char *rules, weir_fallback fallback, int64_t deadline_us) {
  open_with(o, rules, fallback, deadline_us, hand_clock_as_clock(&o->clock));
}

void outage_open_real(outage *o, const char *rules, weir_fallback fallback, int64_t deadline_us) {
  open_with(o, rules, fallback, deadline_us, (weir_clock){NULL, NULL});
}

void outage_close(outage *o) {
  weir_limiter_destroy(o->limiter);
  weir_store_close(o->store);
}

static bool counts_as_away(const outage *o, size_t server) {
  weir_server_state state = {.size = sizeof state};
  assert_int_equal(weir_store_read_server(o->store, server, &state), WEIR_OK);
  return state.breaker != WEIR_BREAKER_CLOSED;
}

void outage_kill(outage *o, size_t server) {
  server_kill(o->servers[server]);
  for (char key = 'a'; !counts_as_away(o, server); key = key == 'z' ? 'a' : (char)(key + 1)) {
    weir_decision decision;
    weir_limiter_peek(o->limiter, &key, 1, 1, &decision, NULL);
  }
}

weir_decision outage_take(outage *o, const char *key, int64_t cost) {
  return limiter_take(o->limiter, key, cost);
}

void outage_flush(outage *o) {
  for (size_t i = 0; i < o->count; i++) {
    const char *word = strncmp(o->url, "redis", 5) == 0 ? "FLUSHALL\r\n" : "flush_all\r\n";
    char answer[8] = "";
    int fd = server_connect(o->servers[i]);
    assert_int_equal(send(fd, word, strlen(word), MSG_NOSIGNAL), (ssize_t)strlen(word));
    assert_true(recv(fd, answer, sizeof answer, 0) > 0);
    assert_true(strncmp(answer, "OK", 2) == 0 || strncmp(answer, "+OK", 3) == 0);
    close(fd);
  }
}

weir_limiter_counts outage_counts(const weir_limiter *limiter) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}
