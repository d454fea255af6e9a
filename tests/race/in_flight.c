/* in_flight --store URL | --moves ANY | --stops memcached|redis [--rule RULE] [--seconds N] [--rounds N]
 *
 * Processes hold places under an in-flight rule, wait for them, work for longer than a period, and are
 * killed and stopped at random moments; their clocks differ by as much as they may. Two things are
 * checked:
 *
 *   never more places are held than the rule says, at any moment, each by the clock of its own
 *   process: who is stopped holds on until what was paid is over
 *   when all processes are killed at once, all places can be entered again within 1.25 periods
 *
 * URL may be the name of an environment variable. With --moves it is a cluster, in which the slot of the
 * key moves from master to master all the time; with --stops a server that is stopped now and then, as
 * the processes are. Exit code 0 only if both hold. The second is tried again where a busy machine may
 * have been late.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"
#include "fixture/cluster.h"
#include "rule/rule.h"

enum {
  PROCESSES = 8,
  THREADS = 4, /* of each */
  HELD_MOST = 1 << 18,
  CLOCK_ERROR_US = 5000, /* and so far each clock is off */
  DEADLINE_US = 50000,
  WAIT_US = 200000,
  LOOK_US = 2000, /* how often a holder looks whether it still holds */
  ATTEMPTS = 6,   /* to have all places back in time */
  KEY_BYTES = 64
};

/* In real time. The end is noted before it comes: of a process that is killed it stays, and is at the
 * latest when it was killed. */
typedef struct holding {
  _Atomic int64_t from_us, until_us;
  _Atomic int process; /* which, from 1 on; 0: it is over */
} holding;

typedef struct shared {
  char key[KEY_BYTES];
  _Atomic size_t used;
  _Atomic uint64_t lost, moves;
  _Atomic bool still; /* the slot stays where it is */
  holding held[HELD_MOST];
} shared;

static shared *common;
static struct {
  char url[2 * SERVER_URL_BYTES];
  const char *rule_text;
  weir_rule rule;
  int64_t seconds, rounds;
  bool moves;
  cluster nodes;
  struct server *stops; /* NULL: none is */
} settings = {.rule_text = "in-flight:10/1s", .seconds = 4, .rounds = 2};

static const weir_limiter_options base_options = {.size = sizeof base_options,
                                                  .deadline_us = DEADLINE_US,
                                                  .clock_error_us = CLOCK_ERROR_US,
                                                  .fallback = WEIR_FALLBACK_NONE};

/* --- a child ------------------------------------------------------------------------------------
 */

typedef struct child {
  int number;
  int64_t offset_us; /* of its clock */
  uint64_t random;
  weir_limiter *limiter;
} child;

static int64_t own_time_us(void *context) {
  return real_time_us() + ((const child *)context)->offset_us;
}

/* The answer of held_until_us() was true before it was asked, too. */
static void work(const child *self, weir_reservation *place, holding *note, int64_t end_us) {
  for (;;) {
    int64_t until_us = weir_reservation_held_until_us(place);
    if (until_us == 0) {
      atomic_fetch_add(&common->lost, 1);
      return;
    }
    note->until_us = until_us - self->offset_us;
    if (real_time_us() >= end_us) return;
    sleep_us(LOOK_US);
  }
}

static void *hold_places(void *context) {
  child self = *(child *)context;
  uint64_t random = self.random + (uintptr_t)&self; /* another stack, another stream */
  for (;;) {
    weir_request request = {.key = common->key, .key_length = strlen(common->key), .cost = 1};
    weir_reservation *place = NULL;
    if (weir_limiter_reserve_wait(self.limiter, &request, WAIT_US, &place, NULL) != WEIR_OK ||
        place == NULL) {
      sleep_us((int64_t)(next_number(&random) % 5000));
      continue;
    }
    int64_t from_us = real_time_us();
    int64_t until_us = weir_reservation_held_until_us(place);
    size_t at = atomic_fetch_add(&common->used, 1);
    if (at >= HELD_MOST) give_up("too many places to note");
    holding *note = &common->held[at];
    note->from_us = from_us;
    note->until_us = until_us > 0 ? until_us - self.offset_us : 0;
    note->process = self.number;
    bool is_long = next_number(&random) % 4 == 0;
    int64_t work_us =
        (int64_t)(next_number(&random) % (uint64_t)(is_long ? 3 * settings.rule.period_us : 50000));
    if (until_us > 0) work(&self, place, note, from_us + work_us);
    int64_t left_us = real_time_us();
    if (left_us < note->until_us) note->until_us = left_us;
    note->process = 0;
    weir_reservation_commit(place, NULL);
    weir_reservation_destroy(place);
  }
  return NULL;
}

static void run_child(void *context) {
  child self = *(child *)context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter_options options = base_options;
  pthread_t thread;
  options.clock = (weir_clock){own_time_us, &self};
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_text, &options, &self.limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  for (int i = 1; i < THREADS; i++)
    if (pthread_create(&thread, NULL, hold_places, &self) != 0) give_up("no thread left");
  hold_places(&self);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

static pid_t start_child(int number, uint64_t *random) {
  child made = {.number = number,
                .offset_us = number % 3 == 0   ? 0
                             : number % 3 == 1 ? CLOCK_ERROR_US
                                               : -CLOCK_ERROR_US,
                .random = next_number(random)};
  return start_process(run_child, &made);
}

/* It believes nothing any more. A note that it left half written stands for no place. */
static void end_child(pid_t process, int number) {
  end_process(process);
  int64_t now_us = real_time_us();
  for (size_t i = 0; i < common->used; i++) {
    holding *note = &common->held[i];
    if (note->process != number) continue;
    note->process = 0;
    if (note->until_us > now_us) note->until_us = now_us;
  }
}

static void disturb(pid_t processes[PROCESSES], int64_t until_us, uint64_t *random, int *killed,
                    int *stopped) {
  int64_t period_us = settings.rule.period_us;
  while (real_time_us() < until_us) {
    sleep_us((int64_t)(next_number(random) % (uint64_t)(period_us / 3)));
    int victim = (int)(next_number(random) % PROCESSES);
    if (settings.stops != NULL && next_number(random) % 8 == 0) {
      server_stop(settings.stops);
      sleep_us((int64_t)(next_number(random) % (uint64_t)(period_us / 2)));
      server_continue(settings.stops);
    }
    if (next_number(random) % 2 == 0) {
      end_child(processes[victim], victim + 1);
      processes[victim] = start_child(victim + 1, random);
      ++*killed;
    } else {
      kill(processes[victim], SIGSTOP);
      sleep_us((int64_t)(next_number(random) % (uint64_t)(period_us / 2)));
      kill(processes[victim], SIGCONT);
      ++*stopped;
    }
  }
}

/* The slot of the key goes round, and stands open for a while each time. */
static void move_slot(void *context) {
  enum { OPEN_US = 3000, REST_US = 20000 };
  const cluster *nodes = &settings.nodes;
  char key[2 * KEY_BYTES];
  (void)context;
  snprintf(key, sizeof key, "{%s}", common->key);
  int slot = cluster_slot_of(nodes, key);
  size_t from = cluster_owner(nodes, 0, slot);
  for (; !common->still; common->moves++) {
    size_t to = (from + 1) % nodes->masters;
    cluster_slot_open(nodes, slot, from, to);
    sleep_us(OPEN_US);
    while (cluster_slot_move(nodes, slot, from, to, 1) > 0)
      sleep_us(OPEN_US);
    cluster_slot_close(nodes, slot, from, to, 0);
    cluster_await_agreement(nodes, 0);
    sleep_us(REST_US);
    from = to;
  }
}

typedef struct edge {
  int64_t at_us;
  int change;
} edge;

/* At the same moment one leaves before the next enters. */
static int compare_edges(const void *a, const void *b) {
  const edge *left = a, *right = b;
  if (left->at_us != right->at_us) return left->at_us < right->at_us ? -1 : 1;
  return left->change - right->change;
}

static int most_at_once(size_t count) {
  edge *edges = malloc(2 * count * sizeof *edges);
  size_t used = 0;
  int held = 0, most = 0;
  if (edges == NULL) give_up("no memory");
  for (size_t i = 0; i < count; i++) {
    const holding *note = &common->held[i];
    if (note->until_us <= note->from_us) continue;
    edges[used++] = (edge){note->from_us, 1};
    edges[used++] = (edge){note->until_us, -1};
  }
  qsort(edges, used, sizeof *edges, compare_edges);
  for (size_t i = 0; i < used; i++) {
    held += edges[i].change;
    if (held > most) most = held;
  }
  free(edges);
  return most;
}

/* How long until all places can be entered again; 2 periods: they cannot. A try without an answer is made
 * again, and may have taken them all until its period is over. */
static int64_t await_all(int64_t since_us, int *unanswered) {
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  weir_request request = {
      .key = common->key, .key_length = strlen(common->key), .cost = settings.rule.limit};
  weir_reservation *all = NULL;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_text, &base_options, &limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  int64_t end_us = since_us + 2 * settings.rule.period_us;
  while (all == NULL && real_time_us() < end_us) {
    if (weir_limiter_reserve_wait(limiter, &request, end_us - real_time_us(), &all, NULL) ==
        WEIR_OK)
      continue;
    ++*unanswered;
    sleep_us(LOOK_US);
  }
  int64_t took_us = all != NULL ? real_time_us() - since_us : 2 * settings.rule.period_us;
  if (all != NULL) weir_reservation_commit(all, NULL);
  weir_reservation_destroy(all);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return took_us;
}

typedef enum verdict { VERDICT_GOOD, VERDICT_LATE, VERDICT_WRONG } verdict;

static verdict run(int round) {
  pid_t processes[PROCESSES];
  uint64_t random = (uint64_t)round + 1;
  int killed = 0, stopped = 0, unanswered = 0;
  memset(common, 0, sizeof *common);
  snprintf(common->key, KEY_BYTES, "in-flight-%ld-%d", (long)getpid(), round);
  pid_t mover = settings.moves ? start_process(move_slot, NULL) : 0;
  for (int i = 0; i < PROCESSES; i++)
    processes[i] = start_child(i + 1, &random);
  disturb(processes, real_time_us() + settings.seconds * SECOND_US / settings.rounds, &random,
          &killed, &stopped);
  for (int i = 0; i < PROCESSES; i++)
    kill(processes[i], SIGKILL);
  int64_t killed_us = real_time_us();
  for (int i = 0; i < PROCESSES; i++)
    end_child(processes[i], i + 1);
  int64_t back_us = await_all(killed_us, &unanswered);
  common->still = true;
  if (mover > 0 && !await_process(mover, 60 * SECOND_US)) give_up("the slot does not move");
  if (common->used == 0) give_up("nothing was entered");
  int most = most_at_once(common->used);
  printf("%s on %s: %zu places entered, %" PRIu64 " lost; %d killed, %d stopped, %" PRIu64
         " moves; %d at once; all back after %.2f periods, %d tries unanswered\n",
         settings.rule_text, settings.url, (size_t)common->used, (uint64_t)common->lost, killed,
         stopped, (uint64_t)common->moves, most, (double)back_us / (double)settings.rule.period_us,
         unanswered);
  if (most > settings.rule.limit) return VERDICT_WRONG;
  return back_us * 4 <= settings.rule.period_us * 5 ? VERDICT_GOOD : VERDICT_LATE;
}

static void use_store(const char *url) {
  if (getenv(url) != NULL) url = getenv(url);
  snprintf(settings.url, sizeof settings.url, "%s%ctimeout=%dms", url,
           strchr(url, '?') != NULL ? '&' : '?', DEADLINE_US / 1000);
}

static void use_cluster(void) {
  char url[SERVER_URL_BYTES];
  settings.moves = true;
  cluster_start(&settings.nodes, &(cluster_options){.node_timeout_ms = 5000}, false);
  cluster_url(&settings.nodes, NULL, url);
  use_store(url);
}

static void use_server(const char *kind) {
  char url[SERVER_URL_BYTES];
  settings.stops = strcmp(kind, "redis") == 0 ? server_start_redis(SERVER_IPV4, NULL)
                                              : server_start_memcached(SERVER_IPV4, NULL);
  server_url(&settings.stops, 1, NULL, url);
  use_store(url);
}

static void read_arguments(int count, char **arguments) {
  weir_message message = {""};
  weir_stack stack;
  for (int i = 1; i + 1 < count; i += 2) {
    const char *value = arguments[i + 1];
    if (strcmp(arguments[i], "--store") == 0) use_store(value);
    if (strcmp(arguments[i], "--moves") == 0) use_cluster();
    if (strcmp(arguments[i], "--stops") == 0) use_server(value);
    if (strcmp(arguments[i], "--rule") == 0) settings.rule_text = value;
    if (strcmp(arguments[i], "--seconds") == 0) settings.seconds = strtol(value, NULL, 10);
    if (strcmp(arguments[i], "--rounds") == 0) settings.rounds = strtol(value, NULL, 10);
  }
  if (settings.url[0] == '\0' || settings.seconds < 1 || settings.rounds < 1 || count % 2 == 0)
    give_up(
        "usage: in_flight --store URL | --moves ANY | --stops memcached|redis [--rule RULE] "
        "[--seconds N] [--rounds N]");
  if (weir_stack_parse(settings.rule_text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
  settings.rule = stack.rules[0];
}

int main(int count, char **arguments) {
  int64_t wrong = 0, late = 0;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  common = share_memory(sizeof *common);
  read_arguments(count, arguments);
  for (int round = 0; round < settings.rounds; round++) {
    verdict found = VERDICT_LATE;
    for (int attempt = 0; attempt < ATTEMPTS && found == VERDICT_LATE; attempt++)
      found = run(round + attempt * (int)settings.rounds);
    wrong += found == VERDICT_WRONG;
    late += found == VERDICT_LATE;
  }
  return wrong + late == 0 ? 0 : 1;
}
