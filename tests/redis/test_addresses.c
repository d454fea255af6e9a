/* A node of a real cluster that changes its address for ever, as pods do, is followed each time, and
 * nothing is left behind. */
#include <pthread.h>
#include <stdatomic.h>

#include "fixture/cluster.h"
#include "fixture/process.h"
#include "fixture/server.h"
#include "redis/plain.h"

enum {
  CHANGES = 80,
  GUARDED_CHANGES = 30,
  FOLLOWED_US = 2000000,
  HOMES = 12,
  MOVING = 2,
  WORKERS = 2,
  FURTHER_MOST = 9 /* connections that its threads may make meanwhile: to three nodes, three each */
};

static cluster nodes;
static struct address moved = {.reservation = -1}; /* since it moved first */
static redisContext *plain;                        /* the moving node's, which stays */
static int changes = CHANGES;

static int tear_down(void **state) {
  (void)state;
  redisFree(plain);
  cluster_stop(&nodes);
  return 0;
}

typedef struct busy {
  weir_store *store;
  atomic_bool over;
} busy;

/* The key is the moving node's. */
static void find_key(char key[32]) {
  for (int i = 0;; i++) {
    snprintf(key, 32, "weir:{%d}:1", i);
    if (cluster_owner(&nodes, 0, cluster_slot_of(&nodes, key)) == MOVING) return;
  }
}

/* As when it is gone and comes back elsewhere: the old address refuses, and who was connected is
 * not any more. */
static void change_address(void) {
  char command[128];
  struct address fresh;
  assert_int_equal(address_take_port(&fresh, SERVER_IPV4), 0);
  snprintf(command, sizeof command, "CONFIG SET port %u", (unsigned)address_port(&fresh));
  plain_do(plain, command);
  plain_do(plain, "CLIENT KILL TYPE normal SKIPME yes");
  address_release(&moved);
  moved = fresh;
}

/* That all others have heard of the address: they need half a node timeout, and those who ask them
 * until then are told the old one. */
static void await_gossip(void) {
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%u@%u", (unsigned)address_port(&moved),
           (unsigned)address_port(&nodes.buses[MOVING]));
  for (size_t i = 0; i < MOVING; i++)
    assert_true(cluster_await_known(&nodes, i, address, PATIENCE_MS));
}

static int64_t until_done(weir_store *store, const char *key) {
  int64_t begin_us = weir_monotonic_us();
  for (;;) {
    weir_message message = {""};
    weir_operation add = add_to(key, 1);
    weir_store_exec(store, &add, 1, deadline_in_ms(200), &message);
    int64_t taken_us = weir_monotonic_us() - begin_us;
    if (add.outcome == WEIR_DONE) return taken_us;
    if (taken_us > PATIENCE_MS * INT64_C(1000)) fail_msg("%s", message.text);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

/* Others use the store all the time: a node that is forgotten is not in use. */
static void *keep_adding(void *context) {
  busy *self = context;
  for (int i = 0; !atomic_load(&self->over); i = (i + 1) % HOMES) {
    char key[32];
    weir_message message = {""};
    snprintf(key, sizeof key, "weir:{%d}:3", i);
    weir_operation add = add_to(key, 1);
    weir_store_exec(self->store, &add, 1, deadline_in_ms(50), &message);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return NULL;
}

/* How long it takes, at the worst. */
static void follow(const char *credentials, int count) {
  char url[256];
  char key[32];
  char other[32];
  weir_store *store = NULL;
  weir_message message = {""};
  int64_t worst_us = 0;
  int64_t known_us = 0; /* once the others know */
  int descriptors = 0;
  int threads = 0;
  snprintf(url, sizeof url, "redis://%s%s127.0.0.1:%u,127.0.0.1:%u?timeout=100ms", credentials,
           credentials[0] != '\0' ? "@" : "", (unsigned)cluster_port(&nodes, 0),
           (unsigned)cluster_port(&nodes, 1));
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  find_key(key);
  busy others = {.store = store};
  pthread_t workers[WORKERS];
  for (int i = 0; i < WORKERS; i++)
    assert_int_equal(pthread_create(&workers[i], NULL, keep_adding, &others), 0);
  for (int i = 0; i < count; i++) {
    change_address();
    bool known = i % 2 == 0;
    if (known) await_gossip();
    int64_t taken_us = until_done(store, key);
    if (taken_us > worst_us) worst_us = taken_us;
    if (known && taken_us > known_us) known_us = taken_us;
    for (int home = 0; home < HOMES; home++) {
      snprintf(other, sizeof other, "weir:{%d}:2", home);
      until_done(store, other);
    }
    if (i == 9) {
      descriptors = process_descriptors();
      threads = process_threads();
    }
  }
  nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* the thread that reads the map is through */
  int descriptors_now = process_descriptors();
  int threads_now = process_threads();
  print_message(
      "%d changes, followed in %.1f ms at most, %.1f ms once the others knew; "
      "%d descriptors, %d threads\n",
      count, (double)worst_us / 1000, (double)known_us / 1000, descriptors_now, threads_now);
  assert_true(worst_us < FOLLOWED_US);
  assert_in_range(descriptors_now, 1, descriptors + FURTHER_MOST);
  assert_in_range(threads_now, 1, threads + 1);
  atomic_store(&others.over, true);
  for (int i = 0; i < WORKERS; i++)
    pthread_join(workers[i], NULL);
  weir_store_close(store);
}

static void an_address_that_changes_is_followed(void **state) {
  (void)state;
  follow("", changes);
}

/* A server must be vouched for before it is told a password, each time anew. */
static void a_password_is_told_to_whom_the_cluster_lists(void **state) {
  (void)state;
  static const char user[] =
      "ACL SETUSER few reset on >s3cret ~weir:* -@all +ping +set +incrby +pttl +cluster|slots";
  for (size_t i = 0; i < MOVING; i++)
    cluster_do(&nodes, i, user);
  plain_do(plain, user);
  follow("few:s3cret", GUARDED_CHANGES);
}

/* With a number: so many changes. */
int main(int count, char **arguments) {
  if (count > 1) changes = (int)strtol(arguments[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_address_that_changes_is_followed),
      cmocka_unit_test(a_password_is_told_to_whom_the_cluster_lists),
  };
  cluster_start(&nodes, &(cluster_options){.node_timeout_ms = 400}, false);
  plain = plain_connect(nodes.nodes[MOVING]);
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
