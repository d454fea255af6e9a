/* Pools of 3, 8 and 16 memcacheds whose list changes: which keys move, and what their counts do.
 * All keys are used up at first, so whatever is admitted again has lost its count. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/weir.h>

#include "wire/operations.h"

/* SILENCE_MS: what who answers may take on a busy machine; who does not costs it a few times. */
enum { SIZES = 3, MOST = 16, KEYS = 300, LIMIT = 5, SILENCE_MS = 3000 };

static const size_t sizes[SIZES] = {3, 8, MOST};
static struct server *all[MOST + 1]; /* one more than the largest pool has */

/* It stands still: no day ends while its keys are used up. */
static hand_clock noon = {20000 * INT64_C(86400000000) + INT64_C(43200000000)};

/* A client of a pool. */
typedef struct client {
  weir_store *store;
  weir_limiter *limiter;
} client;

static client open_url(const char *url, int64_t deadline_ms) {
  const weir_limiter_options options = {.size = sizeof options,
                                        .fallback = WEIR_FALLBACK_NONE,
                                        .deadline_us = deadline_ms * 1000,
                                        .clock = hand_clock_as_clock(&noon)};
  weir_message message = {""};
  client made;
  if (weir_store_open(url, &made.store, &message) != WEIR_OK ||
      weir_limiter_create(made.store, "fixed-window:5/1d", &options, &made.limiter, &message) !=
          WEIR_OK)
    fail_msg("%s: %s", url, message.text);
  return made;
}

static client open_pool(struct server *const *servers, size_t count) {
  char url[SERVER_URL_BYTES];
  server_url(servers, count, "timeout=2s", url);
  return open_url(url, PATIENCE_MS);
}

static void close_pool(client *c) {
  weir_limiter_destroy(c->limiter);
  weir_store_close(c->store);
}

static weir_status take(const client *c, const char *group, int key, int64_t cost,
                        weir_decision *decision) {
  char name[48];
  int length = snprintf(name, sizeof name, "%s-%d", group, key);
  return weir_limiter_take(c->limiter, name, (size_t)length, cost, decision, NULL);
}

/* Each key's whole limit; how many keys had it. */
static int take_all(client c, const char *group, bool admitted[KEYS]) {
  int count = 0;
  for (int i = 0; i < KEYS; i++) {
    weir_decision decision;
    assert_int_equal(take(&c, group, i, LIMIT, &decision), WEIR_OK);
    admitted[i] = decision.allowed;
    count += decision.allowed;
  }
  close_pool(&c);
  return count;
}

static void use_up(struct server *const *servers, size_t count, const char *group) {
  bool admitted[KEYS];
  assert_int_equal(take_all(open_pool(servers, count), group, admitted), KEYS);
}

/* How many of the counts of a group a server holds. Each test has a group of its own, so the others
 * are known from before. */
static int items_of(const struct server *server) {
  char text[4096] = "";
  size_t used = 0;
  int fd = server_connect(server);
  assert_true(fd >= 0);
  assert_int_equal(send(fd, "stats\r\n", 7, MSG_NOSIGNAL), 7);
  while (strstr(text, "END\r\n") == NULL) {
    ssize_t got = recv(fd, text + used, sizeof text - 1 - used, 0);
    assert_true(got > 0);
    used += (size_t)got;
    text[used] = '\0';
  }
  close(fd);
  const char *items = strstr(text, "STAT curr_items ");
  assert_non_null(items);
  return atoi(items + strlen("STAT curr_items "));
}

/* For docs/pools.md. */
static void print_figure(size_t servers, const char *change, int again) {
  print_message("moved: %2zu servers, %s: %d of %d keys\n", servers, change, again, KEYS);
}

/* --- the list changes --------------------------------------------------------------------------
 */

static void in_another_order_no_key_moves(void **state) {
  (void)state;
  for (size_t i = 0; i < SIZES; i++) {
    struct server *turned[MOST];
    bool again[KEYS];
    char group[16];
    snprintf(group, sizeof group, "order%zu", sizes[i]);
    for (size_t j = 0; j < sizes[i]; j++)
      turned[j] = all[sizes[i] - 1 - j];
    use_up(all, sizes[i], group);
    assert_int_equal(take_all(open_pool(turned, sizes[i]), group, again), 0);
  }
}

/* The share of one server, twice: a ring is uneven, and so is a draw of 300 keys. */
static int most_of_one(size_t servers) {
  return 2 * KEYS / (int)servers + 10;
}

static void to_one_more_move_its_own_keys_and_no_others(void **state) {
  (void)state;
  for (size_t i = 0; i < SIZES; i++) {
    bool again[KEYS];
    char group[16];
    snprintf(group, sizeof group, "more%zu", sizes[i]);
    use_up(all, sizes[i], group);
    int had = items_of(all[sizes[i]]);
    int moved = take_all(open_pool(all, sizes[i] + 1), group, again);
    print_figure(sizes[i], "one added", moved);
    assert_in_range(moved, 1, most_of_one(sizes[i] + 1));
    assert_int_equal(items_of(all[sizes[i]]) - had, moved);
  }
}

static void of_one_less_move_its_own_keys_and_no_others(void **state) {
  (void)state;
  for (size_t i = 0; i < SIZES; i++) {
    bool again[KEYS];
    char group[16];
    snprintf(group, sizeof group, "less%zu", sizes[i]);
    int had = items_of(all[0]);
    use_up(all, sizes[i], group);
    int its_own = items_of(all[0]) - had;
    print_figure(sizes[i], "one removed", its_own);
    assert_int_equal(take_all(open_pool(all + 1, sizes[i] - 1), group, again), its_own);
    assert_in_range(its_own, 1, most_of_one(sizes[i]));
  }
}

/* Another spelling is another server on the ring, although it is the same: what it had before and
 * what it has now move, but for what is in both. Nobody gets more than one limit more. */
static void a_renamed_one_is_another_server(void **state) {
  (void)state;
  for (size_t i = 0; i < SIZES; i++) {
    char url[SERVER_URL_BYTES], group[16];
    bool again[KEYS];
    snprintf(group, sizeof group, "name%zu", sizes[i]);
    use_up(all, sizes[i], group);
    server_url(all, sizes[i], "timeout=2s", url);
    char *host = strstr(url, "127.0.0.1");
    memmove(host + strlen("localhost"), host + strlen("127.0.0.1"),
            strlen(host + strlen("127.0.0.1")) + 1);
    memcpy(host, "localhost", strlen("localhost"));
    int moved = take_all(open_url(url, PATIENCE_MS), group, again);
    print_figure(sizes[i], "one renamed", moved);
    assert_in_range(moved, 1, 2 * most_of_one(sizes[i]));
    assert_int_equal(take_all(open_url(url, PATIENCE_MS), group, again), 0);
  }
}

/* --- a server is away --------------------------------------------------------------------------
 */

/* Which keys that server has: those that are decided while it alone is left. */
static void find_away(const client *c, const char *group, bool away[KEYS], int *count) {
  *count = 0;
  for (int i = 0; i < KEYS; i++) {
    weir_decision decision;
    weir_status status = take(c, group, i, LIMIT, &decision);
    away[i] = status != WEIR_OK;
    *count += away[i];
    if (away[i]) assert_int_equal(weir_status_classify(status), WEIR_CLASS_STORE);
    if (!away[i]) assert_false(decision.allowed);                       /* nothing is forgotten, */
    if (!away[i]) assert_int_equal(decision.source, WEIR_SOURCE_STORE); /* and nothing is made up */
  }
}

static void a_dead_one_costs_its_own_keys_and_no_others(void **state) {
  (void)state;
  for (size_t i = 0; i < SIZES; i++) {
    bool away[KEYS], again[KEYS];
    char group[16];
    int count;
    snprintf(group, sizeof group, "dead%zu", sizes[i]);
    int had = items_of(all[1]);
    use_up(all, sizes[i], group);
    int its_own = items_of(all[1]) - had;
    client c = open_pool(all, sizes[i]);
    server_kill(all[1]);
    find_away(&c, group, away, &count);
    assert_int_equal(count, its_own);
    close_pool(&c);
    server_restart(all[1]); /* empty: each of its keys begins anew, once */
    assert_int_equal(take_all(open_pool(all, sizes[i]), group, again), its_own);
    assert_memory_equal(again, away, sizeof away);
    assert_int_equal(take_all(open_pool(all, sizes[i]), group, again), 0);
  }
}

/* A stopped server takes connections and says nothing. A caller that asks it waits until its
 * breaker opens; everybody else is decided, every time. */
static void a_silent_one_does_not_hold_up_the_others(void **state) {
  (void)state;
  char url[SERVER_URL_BYTES];
  bool away[KEYS];
  int count;
  int had = items_of(all[1]);
  use_up(all, MOST, "slow");
  int its_own = items_of(all[1]) - had;
  server_url(all, MOST, "timeout=3s&probe=60s", url);
  client c = open_url(url, SILENCE_MS);
  server_stop(all[1]);
  find_away(&c, "slow", away, &count);
  server_continue(all[1]);
  assert_int_equal(count, its_own);
  close_pool(&c);
}

/* --- proxies -----------------------------------------------------------------------------------
 */

static int through_proxy(const char *hash, const char *group) {
  bool again[KEYS];
  use_up(all, 3, group);
  struct server *proxy = server_start_nutcracker_hashing(hash, all, 3);
  int count = take_all(open_pool(&proxy, 1), group, again);
  server_kill(proxy);
  print_figure(3, hash, count);
  return count;
}

static void twemproxy_shares_the_ring_with_hash_md5_alone(void **state) {
  (void)state;
  assert_int_equal(through_proxy("md5", "md5"), 0);
  assert_in_range(through_proxy("fnv1a_64", "fnv"), 1, KEYS);
}

static int start_servers(void **state) {
  (void)state;
  for (int i = 0; i <= MOST; i++)
    all[i] = server_start_memcached(SERVER_IPV4, (const char *const[]){"-m", "8", "-t", "1", NULL});
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_another_order_no_key_moves),
      cmocka_unit_test(to_one_more_move_its_own_keys_and_no_others),
      cmocka_unit_test(of_one_less_move_its_own_keys_and_no_others),
      cmocka_unit_test(a_renamed_one_is_another_server),
      cmocka_unit_test(twemproxy_shares_the_ring_with_hash_md5_alone),
      cmocka_unit_test(a_silent_one_does_not_hold_up_the_others),
      cmocka_unit_test(a_dead_one_costs_its_own_keys_and_no_others),
  };
  return cmocka_run_group_tests_name("pools", tests, start_servers, NULL);
}
