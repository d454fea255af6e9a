/* weir_pairs: every order in which the operations of weir_decide_all can reach a store.
 *
 * Two callers, each in a process of its own as far as the library can tell, decide two keys
 * each. The library is the real one, all of it; the backend here lets one operation of one caller
 * land at a time. All orders are tried, one after another, each on new keys; of orders that differ
 * only in when operations on different keys land, one is (sleep sets: Godefroid, "Partial-Order
 * Methods for the Verification of Concurrent Systems", 1996).
 *
 *     whole     a decision has all of its members or none
 *     bound     no key has more admitted than its limit
 *     leak      at the end each key holds what was admitted, and what a fault may have left
 *     last one  where each of them fits alone, one is admitted
 *
 * Once in a run a caller may stop for ever before any of its operations, or an operation may land
 * without an answer. Mutants change what lands; each must be caught by the check it names. Exits 0
 * when every scope holds and every mutant is caught.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <weir/backend.h>
#include <weir/weir.h>

enum { CALLERS_MOST = 2, KEYS = 2, DEPTH_MOST = 256, COUNTERS_MOST = 8, TEXT_BYTES = 192 };
enum { STACK_BYTES = 1 << 18 };

typedef enum check { HOLDS, WHOLE, BOUND, LEAK, LAST_ONE } check;
static const char *const check_names[] = {"holds", "whole", "bound", "leak", "last one"};

typedef struct scope {
  const char *name;
  const char *rule;
  int64_t limit;
  int64_t before[KEYS];           /* charged by others */
  const char *asks[CALLERS_MOST]; /* "ab": a, then b; both cost 1 */
  bool stops, loses;              /* faults */
  bool one_fits;
} scope;

typedef struct mutant {
  const char *name, *scope;
  check caught_by;
  bool keeps;       /* what goes back does not arrive, */
  bool gives_twice; /* or arrives twice */
  bool looks_first; /* before what goes back with it */
  bool counts_own;  /* an addition answers without what others have charged */
} mutant;

static const scope scopes[] = {
    {"crosswise, one place", "fixed-window:1/1d", 1, {0}, {"ab", "ba"}, .one_fits = true},
    {"crosswise, one place, sliding",
     "sliding-window:1/1d",
     1,
     {0},
     {"ab", "ba"},
     .one_fits = true},
    {"crosswise, one place left of two",
     "fixed-window:2/1d",
     2,
     {1, 1},
     {"ab", "ba"},
     .one_fits = true},
    {"crosswise, room for both", "fixed-window:2/1d", 2, {0}, {"ab", "ba"}, .one_fits = true},
    {"beside one whose other key is full",
     "fixed-window:1/1d",
     1,
     {0, 1},
     {"ab", "a"},
     .one_fits = false},
    {"crosswise, one stops", "fixed-window:1/1d", 1, {0}, {"ab", "ba"}, .stops = true},
    {"crosswise, an answer is lost", "fixed-window:1/1d", 1, {0}, {"ab", "ba"}, .loses = true},
};

static const mutant mutants[] = {
    {"keeps what it gives back", "crosswise, one place", LEAK, .keeps = true},
    {"gives back twice", "crosswise, one place", BOUND, .gives_twice = true},
    {"looks before it gives back", "crosswise, one place", LAST_ONE, .looks_first = true},
    {"sees no other's charge", "crosswise, one place", BOUND, .counts_own = true},
};
static const mutant no_mutant = {.name = ""};

/* --- the world ----------------------------------------------------------------------------------
 */

typedef struct caller {
  ucontext_t context;
  char *stack;
  weir_limiter *limiters[KEYS];
  const weir_operation *next; /* that it wants to land; NULL: it has its answer */
  bool stopped;
  int64_t charged[KEYS]; /* landed, and not given back */
  int64_t unsure[KEYS];
  weir_status status;
  size_t denied_by, count;
  weir_request requests[KEYS];
} caller;

typedef struct counter {
  char key[TEXT_BYTES];
  int64_t value;
} counter;

/* What can come next: a caller's operation lands, with an answer or without, or the caller stops. */
typedef enum kind { LANDS, STOPS, LOSES } kind;
typedef struct action {
  kind kind;
  int who;
} action;

/* Where a run has branched. */
typedef struct branch {
  action actions[3 * CALLERS_MOST];
  size_t count, chosen;
  unsigned asleep; /* callers whose operation need not land first here, one bit each */
} branch;

static struct {
  const scope *scope;
  const mutant *mutant;
  ucontext_t scheduler;
  caller callers[CALLERS_MOST];
  caller *running;
  int count;
  counter counters[COUNTERS_MOST];
  size_t counter_count;
  char keys[KEYS][TEXT_BYTES];
  int64_t run;
  bool over; /* whoever has stopped goes on, to free its memory: nothing lands any more */
  bool faulty;
  bool tells; /* what lands */
  bool loses; /* what lands next has no answer */
} world;

static branch branches[DEPTH_MOST];
static size_t branch_count;

/* In the first cell of a counter, so that its value is what is charged. */
static int64_t read_clock(void *context) {
  (void)context;
  return INT64_C(1699920000000000) + INT64_C(7200000000);
}

/* A pause is as long as the orders make it. */
void __wrap_weir_sleep_until(int64_t monotonic_us);
void __wrap_weir_sleep_until(int64_t monotonic_us) {
  (void)monotonic_us;
}

/* --- the store ----------------------------------------------------------------------------------
 */

static int side_of(const weir_operation *operation) {
  char text[TEXT_BYTES];
  memcpy(text, operation->key, operation->key_length);
  text[operation->key_length] = '\0';
  return strstr(text, world.keys[0]) != NULL ? 0 : 1;
}

static counter *find(const weir_operation *operation) {
  for (size_t i = 0; i < world.counter_count; i++)
    if (strlen(world.counters[i].key) == operation->key_length &&
        memcmp(world.counters[i].key, operation->key, operation->key_length) == 0)
      return &world.counters[i];
  if (world.counter_count == COUNTERS_MOST) abort();
  counter *made = &world.counters[world.counter_count++];
  *made = (counter){.value = world.scope->before[side_of(operation)]};
  memcpy(made->key, operation->key, operation->key_length);
  return made;
}

static void land(caller *by, weir_operation *operation) {
  counter *at = find(operation);
  int side = side_of(operation);
  bool adds = operation->kind == WEIR_ADD;
  operation->version_out = 1;
  operation->outcome = WEIR_DONE;
  if (adds) {
    at->value += operation->delta;
    by->charged[side] += operation->delta;
  } else if (operation->kind == WEIR_SUB) {
    if (!world.mutant->keeps)
      at->value -= world.mutant->gives_twice ? 2 * operation->delta : operation->delta;
    by->charged[side] -= operation->delta;
  } else if (operation->kind != WEIR_GET) {
    abort(); /* windows need nothing else */
  }
  if (world.tells)
    printf("  %d %s %c: %" PRId64 "%s\n", (int)(by - world.callers),
           adds                          ? "adds to"
           : operation->kind == WEIR_SUB ? "takes from"
                                         : "looks at",
           'a' + side, at->value, world.loses ? ", and has no answer" : "");
  operation->value = adds && world.mutant->counts_own ? by->charged[side] : at->value;
  if (!world.loses) return;
  world.loses = false;
  operation->outcome = WEIR_UNKNOWN;
  operation->late = true;
  if (adds) by->unsure[side] += operation->delta;
}

static void model_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                       weir_message *message) {
  caller *self = world.running;
  (void)handle;
  (void)deadline_us;
  weir_message_set(message, "an answer was lost");
  for (int looks = 1; looks >= 0; looks--) {
    for (size_t i = 0; i < count; i++) {
      if (world.mutant->looks_first ? (operations[i].kind == WEIR_GET) != looks : !looks) continue;
      self->next = &operations[i];
      swapcontext(&self->context, &world.scheduler);
      operations[i].outcome = WEIR_NOT_SENT;
      if (!world.over) land(self, &operations[i]);
    }
  }
  self->next = NULL;
}

static weir_status model_open(const weir_url *url, int64_t timeout_us, void **handle,
                              weir_message *message) {
  (void)url;
  (void)timeout_us;
  (void)message;
  *handle = &world;
  return WEIR_OK;
}

static void model_close(void *handle) {
  (void)handle;
}

static const weir_backend model_backend = {
    .size = sizeof(weir_backend),
    .name = "model",
    .schemes = (const weir_scheme[]){{"model", 0}, {NULL, 0}},
    .options = (const char *const[]){NULL},
    .traits = WEIR_TRAIT_SWAP,
    .open = model_open,
    .exec = model_exec,
    .close = model_close,
};

/* --- a run --------------------------------------------------------------------------------------
 */

static void decide(void) {
  caller *self = world.running;
  weir_limiter *limiters[KEYS];
  const char *asks = world.scope->asks[self - world.callers];
  for (size_t i = 0; i < self->count; i++) {
    const char *key = world.keys[asks[i] - 'a'];
    limiters[i] = self->limiters[asks[i] - 'a'];
    self->requests[i] = (weir_request){.key = key, .key_length = strlen(key), .cost = 1};
  }
  self->status = weir_decide_all(limiters, self->requests, self->count, &self->denied_by, NULL);
  swapcontext(&self->context, &world.scheduler);
}

static void go_on(caller *who) {
  world.running = who;
  swapcontext(&world.scheduler, &who->context);
}

/* Each caller up to its first operation, behind what others have charged. */
static void begin_run(void) {
  world.run++;
  world.counter_count = 0;
  world.over = world.faulty = world.loses = false;
  for (int i = 0; i < KEYS; i++)
    snprintf(world.keys[i], TEXT_BYTES, "%c-%" PRId64 "-", 'a' + i, world.run);
  for (int i = 0; i < world.count; i++) {
    caller *who = &world.callers[i];
    memset(who->charged, 0, sizeof who->charged);
    memset(who->unsure, 0, sizeof who->unsure);
    who->stopped = false;
    who->next = NULL;
    who->count = strlen(world.scope->asks[i]);
    getcontext(&who->context);
    who->context.uc_stack.ss_sp = who->stack;
    who->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&who->context, decide, 0);
    go_on(who);
  }
}

static bool independent(const weir_operation *one, const weir_operation *other) {
  return side_of(one) != side_of(other) || (one->kind == WEIR_GET && other->kind == WEIR_GET);
}

static void find_actions(branch *at) {
  at->count = at->chosen = 0;
  for (int who = 0; who < world.count; who++) {
    const caller *c = &world.callers[who];
    if (c->next != NULL && !c->stopped && !(at->asleep >> who & 1U))
      at->actions[at->count++] = (action){LANDS, who};
  }
  for (int who = 0; who < world.count && !world.faulty; who++) {
    const caller *c = &world.callers[who];
    if (c->next == NULL || c->stopped) continue;
    if (world.scope->stops) at->actions[at->count++] = (action){STOPS, who};
    if (world.scope->loses) at->actions[at->count++] = (action){LOSES, who};
  }
}

/* What need not come first behind this action: what was tried before it, and commutes with it. */
static unsigned asleep_behind(const branch *at) {
  const action *taken = &at->actions[at->chosen];
  unsigned asleep = at->asleep, left = 0;
  if (taken->kind != LANDS) return 0;
  for (size_t i = 0; i < at->chosen; i++)
    if (at->actions[i].kind == LANDS) asleep |= 1U << at->actions[i].who;
  for (int who = 0; who < world.count; who++)
    if (asleep >> who & 1U && who != taken->who && world.callers[who].next != NULL &&
        independent(world.callers[who].next, world.callers[taken->who].next))
      left |= 1U << who;
  return left;
}

static void take(const action *taken) {
  caller *who = &world.callers[taken->who];
  world.faulty = world.faulty || taken->kind != LANDS;
  world.loses = taken->kind == LOSES;
  if (taken->kind == STOPS && world.tells) printf("  %d stops\n", taken->who);
  if (taken->kind == STOPS)
    who->stopped = true;
  else
    go_on(who);
}

static bool some_wait(void) {
  for (int i = 0; i < world.count; i++)
    if (world.callers[i].next != NULL && !world.callers[i].stopped) return true;
  return false;
}

/* Goes the way of `branches`, and on from there. False: another order stands for this one. */
static bool run(void) {
  size_t depth = 0;
  unsigned asleep = 0;
  bool stands = true;
  begin_run();
  for (; some_wait(); depth++) {
    if (depth == DEPTH_MOST) abort();
    branch *at = &branches[depth];
    if (depth == branch_count) {
      at->asleep = asleep;
      find_actions(at);
      if (at->count == 0) { /* to its end, in any order */
        stands = false;
        break;
      }
      branch_count++;
    }
    asleep = asleep_behind(at);
    take(&at->actions[at->chosen]);
  }
  while (!stands && some_wait())
    for (int i = 0; i < world.count; i++)
      if (world.callers[i].next != NULL && !world.callers[i].stopped) go_on(&world.callers[i]);
  return stands;
}

/* Whoever has stopped goes on, and gets nowhere. */
static void end_run(void) {
  world.over = true;
  for (int i = 0; i < world.count; i++)
    while (world.callers[i].next != NULL)
      go_on(&world.callers[i]);
}

/* The order that was tried last, once more for people. */
static void tell(void) {
  world.tells = true;
  run();
  world.tells = false;
  end_run();
}

/* The next order; false: there is none. */
static bool turn_to_next(void) {
  while (branch_count > 0 &&
         branches[branch_count - 1].chosen + 1 == branches[branch_count - 1].count)
    branch_count--;
  if (branch_count == 0) return false;
  branches[branch_count - 1].chosen++;
  return true;
}

/* --- checks -------------------------------------------------------------------------------------
 */

static int64_t held(int side) {
  int64_t sum = 0;
  for (size_t i = 0; i < world.counter_count; i++)
    if (strstr(world.counters[i].key, world.keys[side]) != NULL)
      sum += world.counters[i].value - world.scope->before[side];
  return sum;
}

static check judge(void) {
  int64_t admitted[KEYS] = {0}, may_stay[KEYS] = {0};
  int whole = 0;
  for (int i = 0; i < world.count; i++) {
    const caller *who = &world.callers[i];
    bool all = !who->stopped && who->status == WEIR_OK && who->denied_by == who->count;
    whole += all;
    for (size_t n = 0; n < who->count; n++) {
      int side = world.scope->asks[i][n] - 'a';
      if (!who->stopped && who->status == WEIR_OK && who->requests[n].decision.allowed != all)
        return WHOLE;
      admitted[side] += all;
      may_stay[side] += who->stopped ? who->charged[side] : who->unsure[side];
    }
  }
  for (int side = 0; side < KEYS; side++) {
    int64_t left = held(side) - admitted[side];
    if (admitted[side] > world.scope->limit - world.scope->before[side]) return BOUND;
    if (left < 0 || left > may_stay[side]) return LEAK;
  }
  return world.scope->one_fits && whole == 0 ? LAST_ONE : HOLDS;
}

/* --- a scope ------------------------------------------------------------------------------------
 */

static void open_callers(weir_store *stores[CALLERS_MOST]) {
  weir_message message = {""};
  static weir_limiter_options options = {.size = sizeof options,
                                         .clock = {read_clock, NULL},
                                         .deadline_us = 60000000,
                                         .processes = CALLERS_MOST,
                                         .fallback = WEIR_FALLBACK_NONE};
  for (int i = 0; i < world.count; i++) {
    world.callers[i].stack = malloc(STACK_BYTES);
    if (world.callers[i].stack == NULL ||
        weir_store_open_backend(&model_backend, "model:", &stores[i], &message) != WEIR_OK)
      abort();
    for (int side = 0; side < KEYS; side++)
      if (weir_limiter_create(stores[i], world.scope->rule, &options,
                              &world.callers[i].limiters[side], &message) != WEIR_OK)
        abort();
  }
}

static check explore(const scope *in, const mutant *with, int64_t *orders) {
  weir_store *stores[CALLERS_MOST];
  check found = HOLDS;
  world.scope = in;
  world.mutant = with;
  world.count = 0;
  while (world.count < CALLERS_MOST && in->asks[world.count] != NULL)
    world.count++;
  open_callers(stores);
  branch_count = 0;
  *orders = 0;
  do {
    if (run()) {
      found = judge();
      ++*orders;
    }
    end_run();
    if (found != HOLDS) tell();
  } while (found == HOLDS && turn_to_next());
  for (int i = 0; i < world.count; i++) {
    for (int side = 0; side < KEYS; side++)
      weir_limiter_destroy(world.callers[i].limiters[side]);
    weir_store_close(stores[i]);
    free(world.callers[i].stack);
  }
  return found;
}

int main(void) {
  int bad = 0;
  int64_t orders;
  for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
    check found = explore(&scopes[i], &no_mutant, &orders);
    printf("%-40s %9" PRId64 " orders  %s\n", scopes[i].name, orders, check_names[found]);
    fflush(stdout);
    bad += found != HOLDS;
  }
  for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
    const scope *in = scopes;
    while (strcmp(in->name, mutants[i].scope) != 0)
      in++;
    check found = explore(in, &mutants[i], &orders);
    printf("mutant \"%s\": caught by %s after %" PRId64 " orders\n", mutants[i].name,
           check_names[found], orders);
    bad += found != mutants[i].caught_by;
  }
  return bad == 0 ? 0 : 1;
}
