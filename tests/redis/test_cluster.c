/* A store on a real cluster, while its slots and its masters move. */
#include <pthread.h>
#include <stdatomic.h>
#include <weir/limiter.h>

#include "fixture/cluster.h"
#include "redis/plain.h"

enum { HOMES = 40, THREADS = 3, MOVES = 12 };

static cluster nodes;

static int start(void **state) {
  (void)state;
  cluster_start(&nodes, &(cluster_options){.replicas = 1}, false);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cluster_stop(&nodes);
  return 0;
}

static weir_store *open_url(const char *url) {
  weir_message message = {""};
  weir_store *store = NULL;
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

static weir_store *open_cluster(const char *query) {
  char url[SERVER_URL_BYTES];
  cluster_url(&nodes, query, url);
  return open_url(url);
}

static void add_on_every_node(weir_store *store, const char *name, int64_t value) {
  for (int i = 0; i < HOMES; i++) {
    char key[64];
    weir_message message = {""};
    snprintf(key, sizeof key, "weir:%s:{%d}:1", name, i);
    weir_operation add = execute(store, add_to(key, value), &message);
    if (add.outcome != WEIR_DONE) fail_msg("%s: %s", key, message.text);
    assert_int_equal(add.value, value);
  }
}

static void one_host_is_enough(void **state) {
  (void)state;
  char url[128];
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=5s",
           (unsigned)cluster_port(&nodes, nodes.count - 1)); /* a replica */
  weir_store *store = open_url(url);
  add_on_every_node(store, "one", 3);
  weir_store_close(store);
}

/* The map is read when the store is opened: nobody is redirected. */
static void several_hosts_are_a_map(void **state) {
  (void)state;
  weir_store *store = open_cluster("timeout=5s");
  long long before[CLUSTER_NODES_MOST];
  for (size_t i = 0; i < nodes.masters; i++)
    before[i] = cluster_refused(&nodes, i, "incrby");
  add_on_every_node(store, "several", 2);
  for (size_t i = 0; i < nodes.masters; i++)
    assert_int_equal(cluster_refused(&nodes, i, "incrby"), before[i]);
  weir_store_close(store);
}

/* A batch for all nodes is one round. */
static void a_batch_is_spread_over_the_nodes(void **state) {
  (void)state;
  weir_store *store = open_cluster("timeout=5s");
  static char keys[HOMES][64];
  weir_operation batch[2 * HOMES];
  weir_message message = {""};
  for (int i = 0; i < HOMES; i++) {
    snprintf(keys[i], sizeof keys[i], "weir:batch:{%d}:1", i);
    batch[2 * i] = add_to(keys[i], i + 1);
    batch[2 * i + 1] = get_of(keys[i]);
  }
  weir_store_exec(store, batch, 2 * HOMES, deadline_in_ms(PATIENCE_MS), &message);
  for (int i = 0; i < 2 * HOMES; i++) {
    if (batch[i].outcome != WEIR_DONE) fail_msg("%d: %s", i, message.text);
    assert_int_equal(batch[i].value, i / 2 + 1);
    assert_int_equal(batch[i].version_out, 0);
  }
  weir_store_close(store);
}

/* One of two counters has gone ahead: "first key done, GET of the second ASK", or the other way round;
 * then both have gone; then the slot is another's. A GET may see what stands behind it. */
static void move_one_and_the_other(const char *const keys[2], size_t first) {
  weir_store *store = open_cluster("timeout=5s");
  weir_message message = {""};
  execute(store, add_to(keys[0], 10), NULL);
  execute(store, add_to(keys[1], 20), NULL);
  int slot = cluster_slot_of(&nodes, keys[0]);
  size_t from = cluster_owner(&nodes, 0, slot);
  size_t to = (from + 1) % nodes.masters;
  cluster_slot_open(&nodes, slot, from, to);
  for (int step = 0; step < 4; step++) {
    weir_operation made[4] = {add_to(keys[0], 1), get_of(keys[1]), add_to(keys[1], 1),
                              get_of(keys[0])};
    weir_store_exec(store, made, 4, deadline_in_ms(PATIENCE_MS), &message);
    const int64_t expected[4] = {11 + step, 20 + step, 21 + step, 11 + step};
    for (size_t i = 0; i < 4; i++) {
      bool right = made[i].value == expected[i] || (i == 1 && made[i].value == expected[2]);
      if (made[i].outcome != WEIR_DONE || !right)
        fail_msg("step %d, %zu: outcome %d, value %lld: %s", step, i, (int)made[i].outcome,
                 (long long)made[i].value, message.text);
    }
    if (step < 2) cluster_key_move(&nodes, keys[(first + (size_t)step) % 2], from, to);
    if (step == 2) cluster_slot_close(&nodes, slot, from, to, 0);
  }
  cluster_await_agreement(&nodes, 0);
  weir_store_close(store);
}

static void keys_may_be_on_both_sides(void **state) {
  (void)state;
  move_one_and_the_other((const char *const[]){"weir:{half}:1", "weir:{half}:2"}, 0);
  move_one_and_the_other((const char *const[]){"weir:{whole}:1", "weir:{whole}:2"}, 1);
}

/* New keys of a slot that moves, and what is not there. */
static void a_slot_that_moves_takes_new_keys(void **state) {
  (void)state;
  weir_store *store = open_cluster("timeout=5s");
  int slot = cluster_slot_of(&nodes, "weir:{new}:3");
  size_t from = cluster_owner(&nodes, 0, slot);
  size_t to = (from + 1) % nodes.masters;
  cluster_slot_open(&nodes, slot, from, to);
  assert_done(execute(store, add_to("weir:{new}:3", 5), NULL), 5);
  assert_outcome(execute(store, get_of("weir:{new}:4"), NULL), WEIR_ABSENT);
  assert_outcome(execute(store, sub_from("weir:{new}:4", 2), NULL), WEIR_ABSENT);
  assert_done(execute(store, raise_to("weir:{new}:5", 100, 5), NULL), 105);
  while (cluster_slot_move(&nodes, slot, from, to, 9) > 0) {
  }
  cluster_slot_close(&nodes, slot, from, to, 0);
  cluster_await_agreement(&nodes, 0);
  assert_done(execute(store, get_of("weir:{new}:3"), NULL), 5);
  weir_store_close(store);
}

typedef struct worker {
  weir_store *store;
  atomic_bool *over;
  pthread_t thread;
  long long answered, unknown, refused;
} worker;

/* Adds to two counters of one home, and reads the one added to before: never less than it answered.
 */
static void *work(void *context) {
  worker *self = context;
  int64_t last[2] = {0, 0};
  for (unsigned i = 0; !atomic_load(self->over); i++) {
    static const char *const keys[2] = {"weir:{moves}:1", "weir:{moves}:2"};
    weir_message message = {""};
    weir_operation made[2] = {add_to(keys[i % 2], 1), get_of(keys[1 - i % 2])};
    weir_store_exec(self->store, made, 2, deadline_in_ms(PATIENCE_MS), &message);
    self->answered += made[0].outcome == WEIR_DONE;
    self->unknown += made[0].outcome == WEIR_UNKNOWN;
    self->refused += made[0].outcome == WEIR_REFUSED || made[0].outcome == WEIR_NOT_SENT;
    if (made[0].outcome == WEIR_DONE && made[0].value <= last[i % 2])
      fail_msg("a counter went from %lld to %lld", (long long)last[i % 2],
               (long long)made[0].value);
    if (made[1].outcome == WEIR_DONE && made[1].value < last[1 - i % 2])
      fail_msg("read too early: %lld after %lld", (long long)made[1].value,
               (long long)last[1 - i % 2]);
    if (made[0].outcome == WEIR_DONE) last[i % 2] = made[0].value;
  }
  return NULL;
}

static void every_addition_counts_once_while_its_slot_moves(void **state) {
  (void)state;
  weir_store *store = open_cluster("timeout=5s");
  static worker workers[THREADS];
  atomic_bool over = false;
  long long answered = 0;
  long long unknown = 0;
  long long refused = 0;
  int slot = cluster_slot_of(&nodes, "weir:{moves}:1");
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.store = store, .over = &over};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int move = 0; move < MOVES; move++) {
    size_t from = cluster_owner(&nodes, 0, slot);
    cluster_slot_migrate(&nodes, slot, from, (from + 1) % nodes.masters);
    cluster_await_agreement(&nodes, 0);
  }
  atomic_store(&over, true);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    answered += workers[i].answered;
    unknown += workers[i].unknown;
    refused += workers[i].refused;
  }
  long long stored = 0;
  for (int i = 1; i <= 2; i++) {
    char key[32];
    long long number = 0;
    snprintf(key, sizeof key, "weir:{moves}:%d", i);
    cluster_read(&nodes, key, &number);
    stored += number;
  }
  if (answered > stored || stored > answered + unknown || refused > 0 || answered == 0)
    fail_msg("%lld answered, %lld unknown, %lld refused, %lld stored", answered, unknown, refused,
             stored);
  weir_store_close(store);
}

/* The limiter above it: a limit is a limit, with leases as well, on every node. A thread that refills
 * them may deny the last few while it looks. */
static void a_limit_holds_with_leases(void **state) {
  const weir_limiter_options options = {.size = sizeof options, .renew = WEIR_RENEW_BY_CALLER};
  (void)state;
  weir_store *store = open_cluster("timeout=5s");
  static const char *const rules[] = {"sliding-window:300/1d", "sliding-window:300/1d,lease=100ms"};
  for (size_t rule = 0; rule < sizeof rules / sizeof rules[0]; rule++) {
    weir_limiter *limiter = NULL;
    weir_message message = {""};
    weir_status made = weir_limiter_create(store, rules[rule], &options, &limiter, &message);
    if (made != WEIR_OK) fail_msg("%s: %s", rules[rule], message.text);
    for (int home = 0; home < 6; home++) {
      char key[32];
      int admitted = 0;
      snprintf(key, sizeof key, "leased%zu-%d", rule, home);
      for (int i = 0; i < 330; i++) {
        weir_decision decision;
        made = weir_limiter_take(limiter, key, strlen(key), 1, &decision, &message);
        if (made != WEIR_OK) fail_msg("%s", message.text);
        admitted += decision.allowed;
      }
      assert_int_equal(admitted, 300);
    }
    weir_limiter_destroy(limiter);
  }
  weir_store_close(store);
}

/* A user who may not ask for the map, and one who may not say ASKING. */
static void a_user_with_fewer_rights_is_told(void **state) {
  (void)state;
  char url[256];
  weir_message message = {""};
  for (size_t i = 0; i < nodes.count; i++)
    cluster_do(&nodes, i,
               "ACL SETUSER few reset on >s3cret ~weir:* -@all +ping +set +incrby +pttl +get "
               "+pexpire");
  snprintf(url, sizeof url, "redis://few:s3cret@127.0.0.1:%u,127.0.0.1:%u?timeout=5s",
           (unsigned)cluster_port(&nodes, 0), (unsigned)cluster_port(&nodes, 1));
  weir_store *store = open_url(url);
  int refused = 0;
  for (int i = 0; i < HOMES; i++) { /* the third node is a stranger, whom nobody vouches for */
    char key[64];
    snprintf(key, sizeof key, "weir:stranger:{%d}:1", i);
    weir_operation add = execute(store, add_to(key, 1), &message);
    if (add.outcome == WEIR_DONE) continue;
    assert_outcome(add, WEIR_REFUSED);
    if (strstr(message.text, "not told the password: let the user with ACL SETUSER") == NULL)
      fail_msg("%s", message.text);
    refused++;
  }
  assert_in_range(refused, 1, HOMES - 1);
  weir_store_close(store);
  snprintf(url, sizeof url, "redis://few:s3cret@127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u?timeout=5s",
           (unsigned)cluster_port(&nodes, 0), (unsigned)cluster_port(&nodes, 1),
           (unsigned)cluster_port(&nodes, 2));
  store = open_url(url);
  add_on_every_node(store, "few", 4);
  int slot = cluster_slot_of(&nodes, "weir:few:{1}:1");
  size_t from = cluster_owner(&nodes, 0, slot);
  size_t to = (from + 1) % nodes.masters;
  cluster_slot_open(&nodes, slot, from, to);
  assert_outcome(execute(store, add_to("weir:few:{1}:2", 1), &message), WEIR_REFUSED);
  if (strstr(message.text, "+asking") == NULL) fail_msg("%s", message.text);
  while (cluster_slot_move(&nodes, slot, from, to, 9) > 0) {
  }
  cluster_slot_close(&nodes, slot, from, to, 0);
  cluster_await_agreement(&nodes, 0);
  weir_store_close(store);
}

/* A request without an answer meanwhile is the policy's. */
static int64_t until_it_answers(weir_store *store, const char *key) {
  int64_t begin_us = weir_monotonic_us();
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  weir_message message = {""};
  for (;;) {
    weir_operation add = add_to(key, 1);
    weir_store_exec(store, &add, 1, deadline_in_ms(500), &message);
    if (add.outcome == WEIR_DONE) return weir_monotonic_us() - begin_us;
    if (weir_monotonic_us() > end_us) fail_msg("%s", message.text);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
}

static void a_heir_is_found(void **state) {
  (void)state;
  weir_store *store = open_cluster("timeout=100ms");
  const char *key = "weir:{heir}:1";
  size_t owner = cluster_owner(&nodes, 0, cluster_slot_of(&nodes, key));
  until_it_answers(store, key);
  /* Planned: nothing is lost. */
  assert_true(cluster_failover(&nodes, nodes.masters + owner, NULL, PATIENCE_MS));
  until_it_answers(store, key);
  cluster_await_ok(&nodes, 0);
  /* Killed: it is another's as soon as the cluster says so. */
  server_kill(nodes.nodes[nodes.masters + owner]);
  assert_true(cluster_await_master(&nodes, owner, PATIENCE_MS));
  int64_t taken_us = until_it_answers(store, key);
  print_message("found %lld ms after the promotion\n", (long long)(taken_us / 1000));
  for (int i = 0; i < HOMES; i++) {
    char other[32];
    snprintf(other, sizeof other, "weir:after:{%d}:1", i);
    until_it_answers(store, other);
  }
  cluster_await_ok(&nodes, 1U << (nodes.masters + owner));
  weir_store_close(store);
}

/* Names in redirections, which the certificates are for. */
static void tls_goes_by_names(void **state) {
  (void)state;
  static const char *const names[] = {"--cluster-announce-hostname",
                                      "localhost",
                                      "--cluster-preferred-endpoint-type",
                                      "hostname",
                                      "--tls-auth-clients",
                                      "no",
                                      NULL};
  static cluster secure;
  char url[256];
  cluster_start(&secure, &(cluster_options){.secure = true, .arguments = names}, false);
  for (size_t i = 0; i < secure.count; i++)
    cluster_do(&secure, i,
               "ACL SETUSER few reset on >s3cret ~weir:* -@all +ping +set +incrby +pttl");
  static const char *const credentials[] = {"", "few:s3cret@"}; /* who may not ask for the map */
  for (size_t who = 0; who < 2; who++) {
    snprintf(url, sizeof url, "rediss://%slocalhost:%u?timeout=5s&tls-ca=%s", credentials[who],
             (unsigned)cluster_port(&secure, 0), certificate_file(CERTIFICATE_CA));
    weir_store *store = open_url(url);
    for (int i = 0; i < HOMES; i++) {
      char key[32];
      snprintf(key, sizeof key, "weir:tls%zu:{%d}:1", who, i);
      until_it_answers(store, key);
    }
    weir_store_close(store);
  }
  cluster_stop(&secure);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_host_is_enough),
      cmocka_unit_test(several_hosts_are_a_map),
      cmocka_unit_test(a_batch_is_spread_over_the_nodes),
      cmocka_unit_test(keys_may_be_on_both_sides),
      cmocka_unit_test(a_slot_that_moves_takes_new_keys),
      cmocka_unit_test(every_addition_counts_once_while_its_slot_moves),
      cmocka_unit_test(a_limit_holds_with_leases),
      cmocka_unit_test(a_user_with_fewer_rights_is_told),
      cmocka_unit_test(tls_goes_by_names),
      cmocka_unit_test(a_heir_is_found),
  };
  return cmocka_run_group_tests(tests, start, tear_down);
}
