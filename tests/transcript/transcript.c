/* transcript: what limiters ask of their stores and answer to their callers, as hashes.
 *
 *     transcript stacks WORLDS        that many random stacks, on every store: a line for each group
 *     transcript world NUMBER STORE   one of them, every operation and decision in plain text
 *     transcript replay NAME RULES    the requests of standard input: lines "TIME_MS KEY COST"
 *     transcript simulation RULES     the same requests, through the simulator; STORE is simulated
 *
 * Lines are "GROUP STORE OPERATIONS DECISIONS HASH". STORE is memory (as it is, with identities),
 * texts (the same store, as one that only swaps), memcached or redis: the servers of with_servers.
 * Whatever the machine does, two runs say the same: time is moved by hand, and so is chance. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "fixture/chance.h"
#include "simulate/simulation.h"
#include "transcript/recorder.h"
#include "transcript/stack.h"

enum { STORES = 4, STEPS = 50, KEYS = 3, LIMITERS = 2, BATCH_MOST = 12, RULES_MOST = 8 };
enum { GROUPS_MOST = 64, TAKEN_MOST = 8, NAME_BYTES = 32, LINE_BYTES = 4096 };

#define START_US (INT64_C(1700000160) * 1000000)

static const struct {
  const char *name;
  const char *variable; /* NULL: in this process */
  bool texts;
} stores[STORES] = {{"memory", NULL, false},
                    {"texts", NULL, true},
                    {"memcached", "WEIR_TEST_MEMCACHED_META", false},
                    {"redis", "WEIR_TEST_REDIS", false}};

static const char *const keys[KEYS] = {"a", "b", "visitor"};

typedef struct world {
  uint32_t seed;
  weir_store *store;
  const char *rules;
  weir_limiter_options options;
  weir_limiter *limiters[LIMITERS];
  struct {
    const char *key;
    weir_decision decision;
  } taken[TAKEN_MOST]; /* what may be refunded */
} world;

static _Noreturn void give_up(const char *what, const char *why) {
  fprintf(stderr, "transcript: %s: %s\n", what, why);
  exit(1);
}

static const char *url_of(int store) {
  if (stores[store].variable == NULL) return "memory:";
  const char *url = getenv(stores[store].variable);
  if (url == NULL) give_up(stores[store].variable, "is not set: run it behind with_servers");
  return url;
}

static void begin_transcript(uint32_t seed, bool faulty) {
  the_recorder.hash = UINT64_C(0xcbf29ce484222325);
  the_recorder.clock_us = START_US;
  the_recorder.monotonic_us = 1000000;
  the_recorder.chance = seed;
  the_recorder.random = seed;
  the_recorder.away = 0;
  the_recorder.faulty = faulty;
}

static void note_decision(const char *what, weir_status status, const weir_decision *decision) {
  if (the_recorder.printed) printf("\n%s", what);
  recorder_note("status", status);
  if (status == WEIR_OK && decision != NULL) {
    recorder_note("allowed", decision->allowed);
    recorder_note("source", decision->source);
    recorder_note("rule", decision->rule);
    recorder_note("limit", decision->limit);
    recorder_note("remaining", decision->remaining);
    recorder_note("retry", decision->retry_after_us);
    recorder_note("reset", decision->reset_after_us);
    recorder_note("delay", decision->delay_us);
    recorder_note("cost", decision->cost);
    recorder_note("at", decision->at_us - START_US);
    recorder_note("store", decision->store_status);
  }
  the_recorder.decisions++;
}

/* --- a world of requests ------------------------------------------------------------------------
 */

static const char *pick_key(world *w) {
  return keys[chance(&w->seed, KEYS)];
}

static weir_limiter *pick_limiter(world *w) {
  return w->limiters[chance(&w->seed, 4) == 0];
}

static int64_t pick_cost(world *w) {
  return chance(&w->seed, 30) == 0 ? 200 : 1 + chance(&w->seed, 4);
}

static void keep(world *w, const char *key, const weir_decision *decision) {
  if (!decision->allowed || decision->cost <= 0) return;
  uint32_t place = chance(&w->seed, TAKEN_MOST);
  w->taken[place].key = key;
  w->taken[place].decision = *decision;
}

static void ask_once(world *w) {
  const char *key = pick_key(w);
  size_t length = strlen(key);
  weir_limiter *limiter = pick_limiter(w);
  int64_t cost = pick_cost(w);
  weir_decision decision = {0};
  weir_status status;
  switch (chance(&w->seed, 8)) {
    case 0:
      status = weir_limiter_peek(limiter, key, length, cost, &decision, NULL);
      note_decision("peek", status, &decision);
      return;
    case 1:
      status = weir_limiter_take_up_to(limiter, key, length, cost, &decision, NULL);
      break;
    case 2:
      status = weir_limiter_wait(limiter, key, length, cost, 50000, &decision, NULL);
      break;
    default:
      status = weir_limiter_take(limiter, key, length, cost, &decision, NULL);
      break;
  }
  note_decision("take", status, &decision);
  if (status == WEIR_OK) keep(w, key, &decision);
}

static void ask_batch(world *w) {
  weir_request requests[BATCH_MOST];
  weir_limiter *limiters[BATCH_MOST];
  int64_t costs[BATCH_MOST][RULES_MOST];
  size_t count = 2 + chance(&w->seed, BATCH_MOST - 1);
  size_t rules = weir_limiter_rules(w->limiters[0]);
  bool together = chance(&w->seed, 2) == 0;
  for (size_t i = 0; i < count; i++) {
    const char *key = pick_key(w);
    requests[i] =
        (weir_request){.key = key, .key_length = strlen(key), .cost = 1 + chance(&w->seed, 3)};
    uint32_t how = chance(&w->seed, 10);
    if (how == 0) requests[i].flags = WEIR_REQUEST_PEEK;
    if (how == 1) requests[i].flags = WEIR_REQUEST_UP_TO;
    if (how == 2) requests[i].longest_wait_us = 1 + chance(&w->seed, 1000000);
    if (how == 3) {
      for (size_t rule = 0; rule < rules; rule++)
        costs[i][rule] = chance(&w->seed, 4);
      costs[i][chance(&w->seed, (uint32_t)rules)]++;
      requests[i].costs = costs[i];
      requests[i].cost = 0;
    }
    limiters[i] = together ? pick_limiter(w) : w->limiters[0];
  }
  weir_status status = together ? weir_decide_together(limiters, requests, count, NULL)
                                : weir_limiter_decide(w->limiters[0], requests, count, NULL);
  note_decision("batch", status, NULL);
  for (size_t i = 0; i < count; i++)
    note_decision("  of it", requests[i].status, &requests[i].decision);
}

static void refund(world *w) {
  uint32_t place = chance(&w->seed, TAKEN_MOST);
  weir_decision *taken = &w->taken[place].decision;
  if (!taken->allowed || taken->cost <= 0) return;
  int64_t cost = 1 + chance(&w->seed, (uint32_t)taken->cost);
  const char *key = w->taken[place].key;
  note_decision("refund", weir_limiter_refund(pick_limiter(w), key, strlen(key), cost, taken, NULL),
                taken);
}

static void reserve(world *w) {
  const char *key = pick_key(w);
  weir_request request = {.key = key, .key_length = strlen(key), .cost = pick_cost(w)};
  weir_reservation *reservation = NULL;
  if (chance(&w->seed, 2) == 0) request.longest_wait_us = 1 + chance(&w->seed, 1000000);
  weir_status status = weir_limiter_reserve(w->limiters[0], &request, &reservation, NULL);
  note_decision("reserve", status, &request.decision);
  if (reservation == NULL) return;
  recorder_move(chance(&w->seed, 20000));
  if (chance(&w->seed, 3) == 0)
    note_decision("commit", weir_reservation_commit(reservation, NULL), NULL);
  else
    note_decision("cancel", weir_reservation_cancel(reservation, NULL), NULL);
  weir_reservation_destroy(reservation);
}

static void open_limiter(world *w, int place) {
  weir_message why = {""};
  weir_status status =
      weir_limiter_create(w->store, w->rules, &w->options, &w->limiters[place], &why);
  if (status != WEIR_OK) give_up(w->rules, why.text);
}

/* A process ends, and another one begins. */
static void begin_anew(world *w) {
  weir_limiter_destroy(w->limiters[1]);
  open_limiter(w, 1);
}

static void move_clock(world *w) {
  uint32_t *seed = &w->seed;
  switch (chance(seed, 12)) {
    case 0:
      recorder_move((int64_t)chance(seed, 100) * 1000000);
      break;
    case 1:
      recorder_move((int64_t)chance(seed, 3000) * 1000);
      break;
    case 2:
      recorder_move(-(int64_t)chance(seed, 40000));
      break;
    case 3:
      if (chance(seed, 4) == 0) recorder_move(-(int64_t)chance(seed, 5000) * 1000);
      break;
    default:
      recorder_move(chance(seed, 30000));
      break;
  }
}

static void step(world *w) {
  move_clock(w);
  uint32_t what = chance(&w->seed, 100);
  if (the_recorder.faulty && chance(&w->seed, 60) == 0)
    the_recorder.away = 1 + chance(&w->seed, 12);
  if (what < 55)
    ask_once(w);
  else if (what < 75)
    ask_batch(w);
  else if (what < 85)
    refund(w);
  else if (what < 91)
    reserve(w);
  else if (what < 93)
    note_decision("reset", weir_limiter_reset(pick_limiter(w), "a", 1, NULL), NULL);
  else if (what < 97)
    note_decision("return", weir_limiter_return_leases(pick_limiter(w), NULL), NULL);
  else
    begin_anew(w);
}

static void note_counts(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  const uint64_t figures[] = {
      counts.by_store,    counts.by_local, counts.by_fallback, counts.by_late,
      counts.allowed,     counts.denied,   counts.keys_lost,   counts.clock_steps,
      counts.round_trips, counts.leased,   counts.lease_used,  counts.lease_returned,
      counts.lease_lost,  counts.owed,     counts.paid,        counts.unpaid};
  if (the_recorder.printed) printf("\ncounts");
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    recorder_note("", (int64_t)figures[i]);
}

/* The first stack from `seed` on that is one. */
static void write_rules(uint32_t *seed, char text[STACK_BYTES], char group[STACK_GROUP_BYTES]) {
  weir_store *store;
  weir_limiter *limiter;
  if (weir_store_open("memory:", &store, NULL) != WEIR_OK) give_up("memory:", "cannot be opened");
  do
    stack_write(seed, text, group);
  while (weir_limiter_create(store, text, NULL, &limiter, NULL) != WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static weir_limiter_options choose_options(uint32_t *seed) {
  static const unsigned flags[] = {WEIR_NO_CACHED_CELLS, WEIR_NO_LOCAL_DENIAL, WEIR_NO_LEASES};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.renew = WEIR_RENEW_BY_CALLER; /* time stands still: no other thread asks the store */
  options.clock = recorder_clock();
  options.deadline_us = 200000;
  options.longest_wait_us = 1000000;
  options.fallback = chance(seed, 4);
  options.peers = 1 + chance(seed, 4);
  if (chance(seed, 4) == 0) options.flags = flags[chance(seed, 3)];
  if (chance(seed, 8) == 0) options.memo_keys = 1;
  if (chance(seed, 4) == 0) options.processes = 1 + chance(seed, 100);
  return options;
}

static void run_world(unsigned number, int store, char group[STACK_GROUP_BYTES]) {
  char text[STACK_BYTES], name[NAME_BYTES];
  world w = {.seed = number * 2654435761U + 1, .rules = text};
  begin_transcript(number, stores[store].texts || stores[store].variable != NULL);
  write_rules(&w.seed, text, group);
  w.options = choose_options(&w.seed);
  snprintf(name, sizeof name, "w%u", number);
  w.store = recorder_open(url_of(store), name, stores[store].texts);
  if (the_recorder.printed) printf("%s", text);
  for (int i = 0; i < LIMITERS; i++)
    open_limiter(&w, i);
  for (int i = 0; i < STEPS; i++)
    step(&w);
  for (int i = 0; i < LIMITERS; i++) {
    note_counts(w.limiters[i]);
    weir_limiter_destroy(w.limiters[i]);
  }
  recorder_close(w.store);
}

/* --- lines ---------------------------------------------------------------------------------------
 */

typedef struct line {
  char group[STACK_GROUP_BYTES];
  uint64_t operations, decisions, hash;
} line;

static void show(const line *of, int store) {
  printf("%s %s %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", of->group, stores[store].name,
         of->operations, of->decisions, of->hash);
}

static void run_stacks(unsigned worlds, int store) {
  line lines[GROUPS_MOST] = {{.group = ""}};
  int count = 0;
  for (unsigned number = 1; number <= worlds; number++) {
    char group[STACK_GROUP_BYTES];
    the_recorder.operations = the_recorder.decisions = 0;
    run_world(number, store, group);
    int i = 0;
    while (i < count && strcmp(lines[i].group, group) != 0)
      i++;
    if (i == GROUPS_MOST) give_up(group, "too many groups");
    if (i == count) memcpy(lines[count++].group, group, sizeof group);
    lines[i].operations += the_recorder.operations;
    lines[i].decisions += the_recorder.decisions;
    lines[i].hash = lines[i].hash * 31 + the_recorder.hash;
  }
  for (int i = 0; i < count; i++)
    show(&lines[i], store);
}

/* A copy of the requests of standard input, for every store. */
static char *read_requests(void) {
  size_t length = 0, room = 1 << 20;
  char *text = malloc(room);
  while (text != NULL && (length += fread(text + length, 1, room - length - 1, stdin)) == room - 1)
    text = realloc(text, room *= 2);
  if (text == NULL) give_up("standard input", "no memory");
  text[length] = '\0';
  return text;
}

static void replay_on(int store, const char *name, const char *rules, const char *requests) {
  line all = {.operations = 0};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.renew = WEIR_RENEW_BY_CALLER; /* time stands still: no other thread asks the store */
  weir_limiter *limiter;
  weir_message why = {""};
  int64_t began_ms = 0;
  snprintf(all.group, sizeof all.group, "%s", name);
  begin_transcript(1, false);
  the_recorder.operations = the_recorder.decisions = 0;
  options.clock = recorder_clock();
  options.flags = WEIR_NO_LEASES;
  weir_store *opened = recorder_open(url_of(store), name, stores[store].texts);
  if (weir_limiter_create(opened, rules, &options, &limiter, &why) != WEIR_OK)
    give_up(rules, why.text);
  for (const char *at = requests; *at != '\0'; at += strcspn(at, "\n") + 1) {
    char *end;
    int64_t time_ms = strtoll(at, &end, 10);
    const char *key = end + 1;
    size_t length = strcspn(key, " \n");
    if (began_ms == 0) began_ms = time_ms;
    recorder_move((time_ms - began_ms) * 1000 + START_US - the_recorder.clock_us);
    weir_decision decision = {0};
    weir_status status =
        weir_limiter_take(limiter, key, length, strtoll(key + length, NULL, 10), &decision, NULL);
    note_decision("take", status, &decision);
  }
  weir_limiter_destroy(limiter);
  recorder_close(opened);
  all.operations = the_recorder.operations;
  all.decisions = the_recorder.decisions;
  all.hash = the_recorder.hash;
  show(&all, store);
}

/* --- the simulator ------------------------------------------------------------------------------
 */

/* Records what the simulator's own store is asked, and what it decides: linked with --wrap. */
bool __real_weir_slots_execute(weir_slots *places, int64_t now_us, uint64_t version,
                               weir_operation *operation);
bool __wrap_weir_slots_execute(weir_slots *places, int64_t now_us, uint64_t version,
                               weir_operation *operation);
bool __wrap_weir_slots_execute(weir_slots *places, int64_t now_us, uint64_t version,
                               weir_operation *operation) {
  recorder_note_asked(operation);
  bool enough = __real_weir_slots_execute(places, now_us, version, operation);
  recorder_note_answer(operation);
  return enough;
}

weir_status __real_weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                                      weir_claim *request, weir_message *message);
weir_status __wrap_weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                                      weir_claim *request, weir_message *message);
weir_status __wrap_weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                                      weir_claim *request, weir_message *message) {
  weir_status status = __real_weir_driver_decide(driver, key, now_us, request, message);
  note_decision("decides", status, &request->verdict.decision);
  return status;
}

/* With room for few keys, so that all others are packed and unpacked. */
static void simulate(const char *rules, const char *requests) {
  weir_simulation simulation;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.renew = WEIR_RENEW_BY_CALLER; /* time stands still: no other thread asks the store */
  weir_message why = {""};
  int64_t began_ms = 0;
  begin_transcript(1, false);
  the_recorder.operations = the_recorder.decisions = 0;
  if (weir_simulation_init(&simulation, &rules, 1, &options, &why) != WEIR_OK)
    give_up(rules, why.text);
  simulation.keys.ready_most = 4;
  for (const char *at = requests; *at != '\0'; at += strcspn(at, "\n") + 1) {
    char *end;
    int64_t time_ms = strtoll(at, &end, 10);
    const char *key = end + 1;
    size_t length = strcspn(key, " \n");
    if (began_ms == 0) began_ms = time_ms;
    int64_t cost = strtoll(key + length, NULL, 10);
    const weir_simulated request = {.time_us = START_US + (time_ms - began_ms) * 1000,
                                    .key = key,
                                    .key_length = length,
                                    .cost = cost};
    weir_status status = weir_simulation_request(&simulation, &request, &why);
    if (status != WEIR_OK && status != WEIR_BAD_COST) give_up(rules, why.text);
  }
  if (weir_simulation_finish(&simulation) != WEIR_OK) give_up(rules, "no memory");
  weir_simulation_clean_up(&simulation);
  printf("%s simulated %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", rules, the_recorder.operations,
         the_recorder.decisions, the_recorder.hash);
}

int main(int count, char **arguments) {
  if (count == 3 && strcmp(arguments[1], "stacks") == 0) {
    for (int store = 0; store < STORES; store++)
      run_stacks((unsigned)atoi(arguments[2]), store);
    return 0;
  }
  if (count == 4 && strcmp(arguments[1], "replay") == 0) {
    char *requests = read_requests();
    for (int store = 0; store < STORES; store++)
      replay_on(store, arguments[2], arguments[3], requests);
    free(requests);
    return 0;
  }
  if (count == 3 && strcmp(arguments[1], "simulation") == 0) {
    char *requests = read_requests();
    simulate(arguments[2], requests);
    free(requests);
    return 0;
  }
  if (count == 4 && strcmp(arguments[1], "world") == 0) {
    for (int store = 0; store < STORES; store++) {
      char group[STACK_GROUP_BYTES];
      if (strcmp(arguments[3], stores[store].name) != 0) continue;
      the_recorder.printed = true;
      run_world((unsigned)atoi(arguments[2]), store, group);
      printf("\n");
      return 0;
    }
  }
  fputs(
      "usage: transcript stacks WORLDS | world NUMBER STORE | replay NAME RULES | simulation "
      "RULES\n",
      stderr);
  return 2;
}
