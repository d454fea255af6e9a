/* sentinel_load [--seconds N] [--strict]: load on a primary that sentinels name, which is killed,
 * and what must hold then: counters may forget what the replica had not got, and no more.
 *
 * --strict asserts times as well, on a machine that has nothing else to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "cluster/load.h"
#include "fixture/cluster.h"
#include "fixture/sentinel.h"

enum { THREADS = 4, PATIENCE_MS = 60000, FOLLOWED_US = 2000000, PROMOTIONS = 1 };

static sentinel_group group;
static load asked;
static cluster heir; /* the new primary, for its counts */
static int faults;

static void fault(const load_key *key, long long value, long long least, long long most) {
  printf("FAULT: %s: %lld, which is not from %lld to %lld\n", key->name, value, least, most);
  faults++;
}

static void expect(const load_key *key, long long value, long long least, long long most) {
  if (value < least || value > most) fault(key, value, least, most);
}

/* How long sentinels take, and then how long until every key is decided again. */
static void lose_primary(bool strict) {
  int64_t killed_us = weir_monotonic_us();
  server_kill(group.data[0]);
  if (!sentinel_await_primary(&group, 1, PATIENCE_MS)) load_fail("nobody is promoted");
  int64_t named_us = weir_monotonic_us() - killed_us;
  int64_t back_us = load_await(&asked, 0, killed_us, PATIENCE_MS * INT64_C(1000));
  if (back_us < 0) load_fail("nothing is decided: %s", asked.last.text);
  printf("sentinels name another after %.0f ms; decided again after %.0f ms\n",
         (double)named_us / 1000, (double)back_us / 1000);
  if (strict && back_us > named_us + FOLLOWED_US) {
    printf("FAULT: more than %d ms later\n", FOLLOWED_US / 1000);
    faults++;
  }
}

static long long in_store(const load_key *key) {
  char pattern[64];
  snprintf(pattern, sizeof pattern, "weir:*{%s}*", key->name);
  return cluster_sum(&heir, pattern, 0);
}

static void check(void) {
  long long most = 0;
  for (size_t i = 0; i < LOAD_KEYS; i++) {
    const load_key *key = &asked.keys[i];
    if (i < LOAD_COUNTED) {
      expect(key, in_store(key), 1, key->done + key->unknown);
      continue;
    }
    expect(key, key->done, 0, (long long)LOAD_FEW * (1 + PROMOTIONS));
    if (key->done > most) most = key->done;
  }
  printf("of a limit of %d: at most %lld admitted; p99.9 %.1f ms over the deadline\n", LOAD_FEW,
         most, (double)load_over_us(&asked, 1) / 1000);
}

/* Every answer from now on is in the store. */
static void check_calm(void) {
  for (size_t i = 0; i < LOAD_COUNTED; i++) {
    const load_key *key = &asked.keys[i];
    long long before = in_store(key);
    long long done = key->done;
    long long unknown = key->unknown;
    for (int round = 0; round < 10; round++)
      load_ask(&asked, i);
    expect(key, in_store(key) - before, key->done - done,
           key->done + key->unknown - done - unknown);
  }
}

int main(int count, char **arguments) {
  long seconds = 5;
  bool strict = false;
  char url[SERVER_URL_BYTES];
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--strict") == 0) {
      strict = true;
    } else if (strcmp(arguments[i], "--seconds") == 0 && i + 1 < count) {
      seconds = strtol(arguments[++i], NULL, 10);
    } else {
      fputs("usage: sentinel_load [--seconds N] [--strict]\n", stderr);
      return 2;
    }
  }
  sentinel_start(&group, &(sentinel_options){0});
  sentinel_url(&group, NULL, NULL, url);
  heir = (cluster){.masters = 1, .count = 1, .nodes = {group.data[1]}};
  load_open(&asked, url, THREADS);
  load_start(&asked);
  load_pause_us(500000);
  load_mark(&asked);
  lose_primary(strict);
  load_pause_us(seconds * 1000000);
  load_stop(&asked);
  check();
  check_calm();
  load_close(&asked);
  sentinel_stop(&group);
  return faults > 0 ? 1 : 0;
}
