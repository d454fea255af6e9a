/* weir_soak --seconds N [--seed S]
 *
 * Several processes and threads use all that a limiter can do on several stores at once, whose
 * servers (started here) fail in another way every second. Exit code 0 only if in all that time no
 * answer was wrong, no bound was exceeded, nothing leaked and nobody crashed or hung. */
#include "faults/soak.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/bound.h"
#include "faults/ground.h"
#include "faults/plain.h"
#include "faults/site.h"

/* As much too late as a busy machine may make a call. */
enum { GRACE_US = 2 * 1000 * 1000 };

enum { END_US = 120 * 1000 * 1000, NOTES_PER_SECOND = 20000, LOSSES_MOST = 1 << 16 };

/* The stores; the last one is inside each process, and forgets nothing. */
static const struct place {
  site_kind kind;
  bool by_way, evicts;
} places[SOAK_STORES] = {
    {SITE_META, true, false},  {SITE_CLASSIC, true, false},
    {SITE_THREE, true, false}, {SITE_TWEMPROXY, false, false},
    {SITE_REDIS, true, false}, {SITE_REDIS_TWEMPROXY, false, false},
    {SITE_META, false, true},  {SITE_MEMORY, false, false},
};
enum { SOAK_FAILING = SOAK_STORES - 1, SOAK_EVICTING = SOAK_STORES - 2 };

static soak *mine;
static site sites[SOAK_STORES];
static pid_t children[SOAK_PROCESSES];
static eviction_watch *watch;
static pid_t watcher;
static struct {
  loss of[LOSSES_MOST];
  size_t count;
} losses[SOAK_STORES];

/* --- what fails --------------------------------------------------------------------------------
 */

static void begin_to_forget(int store) {
  atomic_fetch_add(&mine->losses[store], 1);
  if (losses[store].count == LOSSES_MOST) give_up("more losses than there is room to note");
  losses[store].of[losses[store].count].from_us = real_time_us() - SOAK_DEADLINE_US;
}

static void end_forgetting(int store) {
  losses[store].of[losses[store].count++].to_us = real_time_us();
  atomic_fetch_add(&mine->losses[store], 1);
}

static void stop(int store, int64_t us) {
  server_stop(sites[store].servers[0]);
  sleep_us(us);
  server_continue(sites[store].servers[0]);
}

static void start_again(int store, int64_t us) {
  begin_to_forget(store);
  server_kill(sites[store].servers[0]);
  end_forgetting(store);
  sleep_us(us);
  server_restart(sites[store].servers[0]);
}

static void flush(int store, int64_t us) {
  begin_to_forget(store);
  plain_flush(sites[store].servers[0]);
  end_forgetting(store);
  sleep_us(us);
}

static void fail_way(int store, int64_t us) {
  static const proxy_mode modes[] = {PROXY_MUTE,          PROXY_TRICKLES, PROXY_DROPS_REQUESTS,
                                     PROXY_DROPS_REPLIES, PROXY_SILENT,   PROXY_FULL};
  proxy_mode mode = modes[us % (int64_t)(sizeof modes / sizeof modes[0])];
  if (sites[store].way == NULL || !places[store].by_way) return;
  proxy_set(sites[store].way, mode);
  sleep_us(us);
  proxy_set(sites[store].way, PROXY_OPEN);
}

/* Each counter that is evicted is a loss of its own, see check_result(). */
static void press(int store, int64_t us) {
  static pressure *weight;
  if (!places[store].evicts) return;
  if (weight == NULL) weight = share_memory(sizeof *weight);
  *weight = (pressure){.server = sites[store].servers[0]};
  pid_t presser = plain_press(weight);
  sleep_us(us);
  atomic_store(&weight->stopped, true);
  if (!await_process(presser, END_US)) give_up("a process that presses did not end");
}

/* The watch of the server that evicts ends with its connection, so that one is not killed. */
static void fail_somewhere(uint64_t *chance) {
  static void (*const faults[])(int store, int64_t us) = {stop,     start_again, flush,
                                                          fail_way, fail_way,    press};
  enum { FAULTS = sizeof faults / sizeof faults[0] };
  int store = (int)(next_number(chance) % SOAK_FAILING);
  size_t fault = next_number(chance) % FAULTS;
  if (store == SOAK_EVICTING && faults[fault] == start_again) fault = FAULTS - 1;
  faults[fault](store, (int64_t)(next_number(chance) % (700 * MS_US)));
}

/* --- the verdict -------------------------------------------------------------------------------
 */

static bool is_of(const soak_admission *a, int store, int rule, int key, bool by_fallback) {
  return a->store == store && a->rule == rule && a->key == key && a->by_fallback == by_fallback;
}

/* "weir:<tag>+r<rule>:{key.<key>}:<index>" */
static size_t add_evictions(int rule, int key, loss *into) {
  char mark[32];
  size_t count = 0;
  snprintf(mark, sizeof mark, "+r%d:{key.%d}", rule, key);
  for (size_t i = 0; i < watch->count; i++)
    if (strstr(watch->seen[i].key, mark) != NULL)
      into[count++] =
          (loss){watch->seen[i].when.from_us - SOAK_DEADLINE_US, watch->seen[i].when.to_us};
  return count;
}

static promise promise_to(int store, int rule, bool by_fallback) {
  weir_stack whole;
  weir_stack_parse(soak_rules[rule].text, SOAK_PROCESSES, &whole, NULL);
  if (by_fallback) return promise_of_accounts(&whole.rules[0], SOAK_PROCESSES, soak_costs[1]);
  if (places[store].kind == SITE_MEMORY) return promise_of(&whole.rules[0], SOAK_PROCESSES, 0, 0);
  bool raises = plain_is_redis(sites[store].servers[0]);
  int64_t in_vain = raises ? (SOAK_PROCESSES - 1) * whole.rules[0].burst : 0;
  int64_t in_flight = SOAK_PROCESSES * SOAK_THREADS * 2 * (soak_costs[0] + soak_costs[1]);
  return promise_of(&whole.rules[0], 1, in_vain, in_flight);
}

static void check_result(int store, int rule, int key, bool by_fallback, admission *admissions,
                         loss *lost) {
  size_t count = 0;
  for (size_t i = 0; i < mine->used; i++)
    if (is_of(&mine->admissions[i], store, rule, key, by_fallback))
      admissions[count++] = (admission){mine->admissions[i].at_us, mine->admissions[i].cost};
  size_t lost_count = losses[store].count;
  memcpy(lost, losses[store].of, lost_count * sizeof *lost);
  if (places[store].evicts) lost_count += add_evictions(rule, key, lost + lost_count);
  promise given = promise_to(store, rule, by_fallback);
  worst found = find_worst(&given, admissions, count, lost, lost_count);
  if (count > 0 && found.excess > 0)
    soak_wrong(mine, "%s, %s, key %d%s: %" PRId64 " admitted, the bound is %" PRId64,
               mine->urls[store], soak_rules[rule].text, key, by_fallback ? ", by the policy" : "",
               found.admitted, found.bound);
}

static void check_all(void) {
  size_t room = (size_t)LOSSES_MOST + watch->count;
  admission *admissions = calloc(mine->used + 1, sizeof *admissions);
  loss *lost = calloc(room, sizeof *lost);
  if (admissions == NULL || lost == NULL) give_up("no memory");
  for (int store = 0; store < SOAK_STORES; store++)
    for (int rule = 0; rule < SOAK_CHECKED; rule++)
      for (int key = 0; key < SOAK_KEYS; key++)
        for (int by_fallback = 0; by_fallback < 2; by_fallback++)
          check_result(store, rule, key, by_fallback != 0, admissions, lost);
  free(admissions);
  free(lost);
}

/* --- the run -----------------------------------------------------------------------------------
 */

static void start_all(void) {
  for (int i = 0; i < SOAK_STORES; i++) {
    site_start(&sites[i], places[i].kind, places[i].evicts);
    site_url(&sites[i], places[i].by_way, (int)(SOAK_DEADLINE_US / MS_US), mine->urls[i]);
  }
  mine->losses[SOAK_EVICTING] = 1; /* once it is full it evicts all the time */
  watch = share_memory(sizeof *watch);
  watch->server = sites[SOAK_EVICTING].servers[0];
  watcher = plain_watch(watch);
  for (int i = 0; i < SOAK_PROCESSES; i++) {
    mine->process = i;
    children[i] = start_process(soak_run, mine);
    while (!atomic_load(&mine->taken_up[i]))
      sleep_us(MS_US);
  }
}

/* All evictions while the load ran must be known. */
static void finish_watch(void) {
  pressure *weight = share_memory(sizeof *weight);
  int64_t last_us = real_time_us();
  weight->server = watch->server;
  pid_t presser = plain_press(weight);
  for (int64_t end_us = weir_monotonic_us() + END_US; watch->reported_us <= last_us;) {
    if (weir_monotonic_us() > end_us) give_up("a server does not tell what it evicts");
    sleep_us(5 * MS_US);
  }
  end_process(presser);
  end_process(watcher);
  if (watch->missed) give_up("a server did not tell all that it evicted");
}

static void read_arguments(int count, char **arguments, int *seconds, uint64_t *seed) {
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--seconds") == 0) *seconds = atoi(arguments[i + 1]);
    if (strcmp(arguments[i], "--seed") == 0) *seed = strtoull(arguments[i + 1], NULL, 10);
  }
  if (*seconds < 1 || *seed == 0 || count % 2 == 0)
    give_up("usage: weir_soak --seconds N [--seed S], both 1 or more");
}

int main(int count, char **arguments) {
  int seconds = 0;
  uint64_t seed = (uint64_t)real_time_us();
  read_arguments(count, arguments, &seconds, &seed);
  size_t room = (size_t)seconds * NOTES_PER_SECOND;
  mine = share_memory(sizeof *mine + room * sizeof *mine->admissions);
  mine->room = room;
  mine->seed = seed;
  start_all();
  int64_t begin_us = weir_monotonic_us();
  bool good = true;
  uint64_t chance = seed;
  for (int i = 0; i < seconds; i++) {
    if (i == seconds / 4) atomic_store(&mine->quarter, true);
    fail_somewhere(&chance);
    sleep_us(begin_us + (i + 1) * SECOND_US - weir_monotonic_us());
  }
  atomic_store(&mine->stopped, true);
  for (int i = 0; i < SOAK_PROCESSES; i++)
    good = await_process(children[i], END_US) && good;
  if (!good) soak_wrong(mine, "a process did not end, or not well");
  if (mine->longest_us > SOAK_DEADLINE_US + GRACE_US) soak_wrong(mine, "a call took too long");
  finish_watch();
  check_all();
  printf("seed %" PRIu64 ", %d s: %" PRIu64 " requests, %" PRIu64 " decided, %" PRIu64
         " of them by a policy; %" PRIu64 " without a decision; %" PRIu64
         " counts known for certain; %zu admissions held against bounds; %zu evicted, %" PRIu64
         " counters noticed to be lost; longest call %.1f ms; %" PRIu64 " wrong\n",
         seed, seconds, mine->asked, mine->decided, mine->by_fallback, mine->no_decision,
         mine->certain, (size_t)mine->used, (size_t)watch->count, mine->keys_lost,
         (double)mine->longest_us / 1000.0, mine->wrong);
  bool shows = mine->certain > 0 && mine->by_fallback > 0;
  return good && mine->wrong == 0 && shows ? 0 : 1;
}
