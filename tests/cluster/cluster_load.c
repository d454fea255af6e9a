/* cluster_load [--seconds N] [--threads N] [--strict] MODE: load on a real cluster of three masters
 * with a replica each, while something happens to it, and what must hold then.
 *
 *   --migrations  slots move endlessly: nothing is lost, nothing counted twice
 *   --failover    replicas are asked to take over, one after the other: the same
 *   --kill        a master is killed: its counters may forget what the replica had not got
 *   --stop        a master is stopped for a while: the same
 *   --takeover    a replica takes over without asking anybody: the same
 *   --partition   a master is cut off with some of its clients: the same, and it soon stops
 *   --older       of nodes with INCREX one master has lost it, and so has each replica; they take over, and
 *                 go back: nothing is lost, nothing counted twice
 *   --rights      the right to INCREX is taken away from each master, and given back, with new
 *                 connections: the same, and each thread is turned away once or so a time
 *
 * --strict asserts times as well, on a machine that has nothing else to do. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "cluster/load.h"
#include "cluster/parting.h"
#include "fixture/cluster.h"

enum {
  NODE_TIMEOUT_MS = 1000,
  CALM_TIMEOUT_MS = 5000,
  MASTERS = 3,
  PATIENCE_MS = 60000,
  PROBES = 400,
  REDIRECTED = 20,
  PROBED = 4
};

typedef struct trial {
  const char *mode;
  int64_t seconds;
  int threads;
  bool strict;
  cluster nodes;
  load load;
  load beyond; /* by clients that are cut off with node 0 */
  parting parting;
  int promotions[MASTERS]; /* of each shard, that may have lost something */
  unsigned dead;           /* nodes that are not asked any more */
  int ordered;             /* fail-overs of the test's own doing */
  long long epoch;         /* before them */
  int faults;
} trial;

static trial self;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("FAULT: ", stdout);
  vprintf(format, words);
  putchar('\n');
  va_end(words);
  self.faults++;
}

static bool is_mode(const char *name) {
  return strcmp(self.mode, name) == 0;
}

/* --- what happens ------------------------------------------------------------------------------
 */

static atomic_bool moving;
static long long moves;

/* The slots of all keys that `from` has go to `to`, of which many are open at a time. */
static void move_all(size_t from, size_t to) {
  int slots[LOAD_KEYS];
  size_t count = 0;
  for (size_t i = 0; i < LOAD_KEYS; i++)
    if (cluster_owner(&self.nodes, from, self.load.keys[i].slot) == from)
      slots[count++] = self.load.keys[i].slot;
  for (size_t i = 0; i < count; i++)
    cluster_slot_open(&self.nodes, slots[i], from, to);
  for (size_t i = 0; i < count; i++) {
    while (cluster_slot_move(&self.nodes, slots[i], from, to, 1) > 0)
      load_pause_us(1000);
  }
  for (size_t i = 0; i < count; i++)
    cluster_slot_close(&self.nodes, slots[i], from, to, 0);
  cluster_await_agreement(&self.nodes, 0);
  moves += (long long)count;
}

static void *move_endlessly(void *context) {
  (void)context;
  for (size_t i = 0; atomic_load(&moving); i = (i + 1) % MASTERS)
    move_all(i, (i + 1) % MASTERS);
  return NULL;
}

static void migrate_during(void (*work)(void)) {
  pthread_t mover;
  atomic_store(&moving, true);
  if (pthread_create(&mover, NULL, move_endlessly, NULL) != 0) load_fail("no thread");
  work();
  atomic_store(&moving, false);
  pthread_join(mover, NULL);
}

static void pass_time(void) {
  load_pause_us(self.seconds * 1000000);
}

/* One call at a time, and how often it was turned away on its way. It uses few keys, so that each
 * is asked for more often than it moves: a map that is two moves old costs two hops. */
static void probe_hops(void) {
  long long redirected = 0;
  long long hops = 0;
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  int i = 0;
  for (; i < PROBES || (redirected < REDIRECTED && weir_monotonic_us() < end_us); i++) {
    long long before = 0;
    long long after = 0;
    for (size_t node = 0; node < MASTERS; node++)
      before += cluster_refused(&self.nodes, node, "incrby");
    load_ask(&self.load, (size_t)i % PROBED);
    for (size_t node = 0; node < MASTERS; node++)
      after += cluster_refused(&self.nodes, node, "incrby");
    redirected += after > before;
    hops += after - before;
  }
  printf("%lld of %d decisions redirected, %lld hops\n", redirected, i, hops);
  if (redirected == 0) fault("no decision met a move");
  if (hops * 100 > redirected * (self.strict ? 105 : 130) + 200)
    fault("too many hops for a redirected decision");
}

/* --- INCREX ------------------------------------------------------------------------------------
 */

static const char *const with_increx[] = {"--loadmodule", WEIR_INCREX_MODULE,
                                          "--enable-module-command", "yes", NULL};

static bool has_increx(void) {
  return is_mode("--older") || is_mode("--rights");
}

enum { LACKING = 1, CALLS_OF_EACH = 100 };

static void lose_increx(void) {
  for (size_t node = 0; node < 2 * MASTERS; node++)
    if (node == LACKING || node >= MASTERS) cluster_do(&self.nodes, node, "MODULE UNLOAD increx");
}

static void await_increx(size_t node, long long since) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  while (cluster_calls(&self.nodes, node, "increx") < since + CALLS_OF_EACH) {
    if (weir_monotonic_us() > end_us) load_fail("node %zu is not charged by INCREX", node);
    load_pause_us(1000);
  }
}

/* Who has the command is charged by it, and who has not is charged all the same. */
static void check_forms(void) {
  for (size_t node = 0; node < 2 * MASTERS; node++) {
    bool has = node < MASTERS && node != LACKING;
    long long bounded = cluster_calls(&self.nodes, node, "increx");
    long long plain = cluster_calls(&self.nodes, node, "incrby");
    printf("node %zu %s INCREX: %lld times, INCRBY %lld\n", node, has ? "with" : "without", bounded,
           plain);
    if (has ? bounded < CALLS_OF_EACH : plain < CALLS_OF_EACH) fault("node %zu was not used", node);
  }
}

/* A thread has one request under way, which is turned away once; so is a question, whose answer may also
 * have been on its way and last for one request more. New connections end what was under way: of that nobody
 * knows. */
static void change_rights(void) {
  int64_t end_us = weir_monotonic_us() + self.seconds * 1000000;
  long long taken = 0;
  long long most = 0;
  for (size_t i = 0; i < MASTERS || weir_monotonic_us() < end_us; i++) {
    size_t node = i % MASTERS;
    await_increx(node, cluster_calls(&self.nodes, node, "increx"));
    long long before = cluster_refused(&self.nodes, node, "increx");
    long long plain = cluster_calls(&self.nodes, node, "incrby");
    cluster_do(&self.nodes, node, "ACL SETUSER default -increx");
    while (cluster_calls(&self.nodes, node, "incrby") < plain + CALLS_OF_EACH)
      load_pause_us(1000);
    long long turned_away = cluster_refused(&self.nodes, node, "increx") - before;
    if (turned_away > most) most = turned_away;
    if (turned_away > 2 * self.threads) fault("node %zu turned %lld away", node, turned_away);
    cluster_do(&self.nodes, node, "ACL SETUSER default +increx");
    cluster_do(&self.nodes, node, "CLIENT KILL TYPE normal SKIPME yes");
    taken++;
  }
  printf("taken away %lld times from %d threads: %lld requests at most were turned away\n", taken,
         self.threads, most);
  if (most == 0) fault("nobody was turned away");
}

/* How long the keys of a shard are away, and what the others notice. */
static void await_shard(size_t shard, int64_t since_us, int64_t most_us) {
  int64_t took_us = load_await(&self.load, shard, since_us, PATIENCE_MS * INT64_C(1000));
  if (took_us < 0)
    load_fail("the keys of shard %zu do not come back: %s", shard, self.load.last.text);
  printf("shard %zu decides again after %.0f ms\n", shard, (double)took_us / 1000);
  if (self.strict && took_us > most_us) fault("which is more than %.0f ms", (double)most_us / 1000);
}

static void await_promotion(size_t node) {
  if (!cluster_await_master(&self.nodes, node, PATIENCE_MS))
    load_fail("node %zu is not promoted", node);
}

static const int64_t back_us = (NODE_TIMEOUT_MS + 2500) * INT64_C(1000);

static void kill_one(void) {
  int64_t since_us = weir_monotonic_us();
  server_kill(self.nodes.nodes[0]);
  self.dead |= 1;
  self.promotions[0]++;
  self.ordered++;
  await_promotion(MASTERS);
  await_shard(0, since_us, back_us);
  pass_time();
  cluster_await_agreement(&self.nodes, self.dead);
}

static void stop_one(void) {
  int64_t since_us = weir_monotonic_us();
  server_stop(self.nodes.nodes[0]);
  self.promotions[0]++;
  self.ordered++;
  await_promotion(MASTERS);
  await_shard(0, since_us, back_us);
  server_continue(self.nodes.nodes[0]);
  pass_time();
  cluster_await_agreement(&self.nodes, 0);
  cluster_await_ok(&self.nodes, 0);
}

/* When the clients that are cut off were last admitted. */
static int64_t last_beyond_us(void) {
  int64_t last_us = 0;
  for (size_t i = 0; i < LOAD_KEYS; i++) {
    int64_t admitted_us = atomic_load(&self.beyond.keys[i].admitted_us);
    if (admitted_us > last_us) last_us = admitted_us;
  }
  return last_us;
}

static const int64_t goes_on_us = NODE_TIMEOUT_MS * INT64_C(1500) + 500000;

/* Both sides count for the same keys, until the one that is cut off gives up. */
static void part_one(void) {
  load_start(&self.beyond);
  if (load_await(&self.beyond, 0, weir_monotonic_us(), PATIENCE_MS * INT64_C(1000)) < 0)
    load_fail("node 0 does not answer: %s", self.beyond.last.text);
  load_mark(&self.beyond);
  int64_t since_us = weir_monotonic_us();
  parting_cut(&self.parting);
  self.promotions[0]++;
  self.ordered++;
  await_promotion(MASTERS);
  await_shard(0, since_us, back_us);
  pass_time();
  int64_t more_us = last_beyond_us() - since_us;
  printf("who was cut off went on for %.0f ms\n", (double)more_us / 1000);
  if (more_us < 0) fault("nobody was cut off with it");
  if (self.strict && more_us > goes_on_us)
    fault("which is more than %.0f ms", (double)goes_on_us / 1000);
  int64_t healed_us = weir_monotonic_us();
  parting_heal(&self.parting);
  if (load_await(&self.beyond, 0, healed_us, PATIENCE_MS * INT64_C(1000)) < 0)
    load_fail("who was cut off does not come back: %s", self.beyond.last.text);
  load_stop(&self.beyond);
  cluster_await_agreement(&self.nodes, 0);
  cluster_await_ok(&self.nodes, 0);
}

/* To and fro, shard by shard. */
static void fail_over(const char *how) {
  int64_t end_us = weir_monotonic_us() + self.seconds * 1000000;
  size_t present[MASTERS] = {0, 1, 2};
  for (size_t i = 0; i < MASTERS || weir_monotonic_us() < end_us; i++) {
    size_t shard = i % MASTERS;
    size_t next = (present[shard] + MASTERS) % (2 * (size_t)MASTERS);
    int64_t since_us = weir_monotonic_us();
    if (!cluster_failover(&self.nodes, next, how, PATIENCE_MS))
      load_fail("node %zu does not take over", next);
    present[shard] = next;
    self.ordered++;
    if (how != NULL) self.promotions[shard]++;
    await_shard(shard, since_us, back_us);
    cluster_await_agreement(&self.nodes, 0);
    cluster_await_ok(&self.nodes, 0);
    load_pause_us(NODE_TIMEOUT_MS * INT64_C(700)); /* of three shards, so each votes after two */
  }
}

/* --- what must hold ----------------------------------------------------------------------------
 */

/* A busy machine lets nodes find others dead that were only held up: any shard may have lost by it.
 */
static void count_strays(void) {
  long long strays = cluster_epoch(&self.nodes, 1) - self.epoch - self.ordered;
  if (is_mode("--migrations") || strays <= 0) return;
  printf("%lld fail-overs that nobody ordered\n", strays);
  for (size_t shard = 0; shard < MASTERS; shard++)
    self.promotions[shard] += (int)strays;
}

static long long in_store(const load_key *key) {
  char pattern[64];
  snprintf(pattern, sizeof pattern, "weir:*{%s}*", key->name);
  return cluster_sum(&self.nodes, pattern, self.dead);
}

static void check_counted(size_t number) {
  const load_key *key = &self.load.keys[number];
  const load_key *beyond = &self.beyond.keys[number];
  long long value = in_store(key);
  long long done = key->done + beyond->done;
  long long unknown = key->unknown + beyond->unknown;
  if (value > done + unknown)
    fault("%s: %lld in the store, and no more than %lld + %lld were asked for", key->name, value,
          done, unknown);
  if (value < done && self.promotions[key->shard] == 0)
    fault("%s: %lld in the store, and %lld were answered", key->name, value, done);
}

/* Each promotion may admit the limit once more; returns how much was admitted. */
static long long check_few(size_t number) {
  const load_key *key = &self.load.keys[number];
  const load_key *beyond = &self.beyond.keys[number];
  long long done = key->done + beyond->done;
  long long unknown = key->unknown + beyond->unknown;
  long long most = LOAD_FEW * (1LL + self.promotions[key->shard]);
  if (done > most) fault("%s: %lld admitted of %lld", key->name, done, most);
  if (key->denied > 0 && done + unknown < LOAD_FEW)
    fault("%s: denied with %lld admitted of %d", key->name, done, LOAD_FEW);
  return done;
}

/* After what happened, every answered call is in the store, on every shard. */
static void check_calm(void) {
  long long before[LOAD_COUNTED];
  long long done[LOAD_COUNTED];
  long long unknown[LOAD_COUNTED];
  for (size_t i = 0; i < LOAD_COUNTED; i++) {
    before[i] = in_store(&self.load.keys[i]);
    done[i] = self.load.keys[i].done;
    unknown[i] = self.load.keys[i].unknown;
  }
  for (int round = 0; round < 10; round++)
    for (size_t i = 0; i < LOAD_COUNTED; i++)
      load_ask(&self.load, i);
  for (size_t i = 0; i < LOAD_COUNTED; i++) {
    load_key *key = &self.load.keys[i];
    long long more = in_store(key) - before[i];
    long long least = key->done - done[i];
    if (more < least || more > least + key->unknown - unknown[i])
      fault("%s: %lld in the calm were answered, %lld are in the store", key->name, least, more);
  }
}

static void check(void) {
  long long totals[4] = {0};
  long long most = 0;
  for (size_t i = 0; i < LOAD_KEYS; i++) {
    const load_key *key = &self.load.keys[i];
    if (i < LOAD_COUNTED) {
      check_counted(i);
    } else {
      long long few = check_few(i);
      if (few > most) most = few;
    }
    totals[0] += key->done;
    totals[1] += key->denied;
    totals[2] += key->unknown;
    totals[3] += key->no;
  }
  int64_t over_us = load_over_us(&self.load, 1);
  printf(
      "%s: %lld calls: %lld admitted, %lld denied, %lld unknown, %lld without a decision; "
      "p99.9 %.1f ms over the deadline\n",
      self.mode, (long long)self.load.calls, totals[0], totals[1], totals[2], totals[3],
      (double)over_us / 1000);
  printf("of a limit of %d: at most %lld admitted\n", LOAD_FEW, most);
  for (size_t shard = 0; shard < MASTERS; shard++)
    printf("shard %zu: longest time without a decision of a key %.0f ms\n", shard,
           (double)load_gap_us(&self.load, shard) / 1000);
  if (totals[0] == 0) fault("nothing was admitted: %s", self.load.last.text);
  if (totals[3] > 0) printf("last: %s\n", self.load.last.text);
  if (self.strict && over_us > 5000) fault("p99.9 is over the deadline by more than 5 ms");
}

/* --- the program -------------------------------------------------------------------------------
 */

static void name_keys(load *made) {
  for (size_t i = 0; i < LOAD_KEYS; i++) {
    load_key *key = &made->keys[i];
    key->slot = cluster_slot_of(&self.nodes, key->name);
    key->shard = cluster_owner(&self.nodes, 0, key->slot);
  }
}

/* Processes that are cut off know node 0 alone; the rest know it by what the others say of it. */
static void open_both_sides(void) {
  char url[SERVER_URL_BYTES];
  parting_start(&self.parting, &self.nodes);
  server_url(self.nodes.nodes + 1, MASTERS - 1, NULL, url);
  load_open(&self.load, url, self.threads);
  server_url(self.nodes.nodes, 1, NULL, url);
  load_open(&self.beyond, url, 1);
  name_keys(&self.beyond);
  self.beyond.one_shard = true;
}

static void set_up(void) {
  char url[SERVER_URL_BYTES];
  /* While slots move, or rights, nobody is to be found dead for being held up. */
  bool calm = is_mode("--migrations") || is_mode("--rights");
  int timeout_ms = calm ? CALM_TIMEOUT_MS : NODE_TIMEOUT_MS;
  cluster_start(&self.nodes,
                &(cluster_options){.replicas = 1,
                                   .node_timeout_ms = timeout_ms,
                                   .arguments = has_increx() ? with_increx : NULL},
                false);
  if (is_mode("--older")) lose_increx();
  if (is_mode("--partition")) {
    open_both_sides();
  } else {
    cluster_url(&self.nodes, NULL, url);
    load_open(&self.load, url, self.threads);
  }
  name_keys(&self.load);
  self.epoch = cluster_epoch(&self.nodes, 1);
}

static void happen(void) {
  if (is_mode("--migrations"))
    migrate_during(pass_time);
  else if (is_mode("--failover") || is_mode("--older"))
    fail_over(NULL);
  else if (is_mode("--rights"))
    change_rights();
  else if (is_mode("--takeover"))
    fail_over("TAKEOVER");
  else if (is_mode("--kill"))
    kill_one();
  else if (is_mode("--stop"))
    stop_one();
  else if (is_mode("--partition"))
    part_one();
}

static void read_arguments(int count, char **arguments) {
  static const char *const modes[] = {"--migrations", "--failover",  "--takeover", "--kill",
                                      "--stop",       "--partition", "--older",    "--rights"};
  self.seconds = 5;
  self.threads = 4;
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--seconds") == 0 && i + 1 < count)
      self.seconds = strtol(arguments[++i], NULL, 10);
    else if (strcmp(arguments[i], "--threads") == 0 && i + 1 < count)
      self.threads = (int)strtol(arguments[++i], NULL, 10);
    else if (strcmp(arguments[i], "--strict") == 0)
      self.strict = true;
    else
      for (size_t j = 0; j < sizeof modes / sizeof modes[0]; j++)
        if (strcmp(arguments[i], modes[j]) == 0) self.mode = modes[j];
  }
  if (self.mode == NULL || self.seconds < 1 || self.threads < 1) {
    fputs(
        "usage: cluster_load [--seconds N] [--threads N] [--strict] --migrations | --failover | "
        "--takeover | --kill | --stop | --partition | --older | --rights\n",
        stderr);
    exit(2);
  }
}

int main(int count, char **arguments) {
  read_arguments(count, arguments);
  set_up();
  load_start(&self.load);
  load_pause_us(500000);
  load_mark(&self.load);
  happen();
  load_stop(&self.load);
  count_strays();
  check();
  check_calm();
  if (is_mode("--older")) check_forms();
  if (is_mode("--migrations")) {
    printf("%lld slots moved\n", moves);
    migrate_during(probe_hops);
  }
  load_close(&self.load);
  if (self.beyond.store != NULL) load_close(&self.beyond);
  cluster_stop(&self.nodes);
  if (self.parting.nodes != NULL) parting_stop(&self.parting);
  return self.faults > 0 ? 1 : 0;
}
