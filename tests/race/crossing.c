/* crossing --store URL [--seconds N]
 *
 * Requests for two keys that are one decision, by 4 processes of 32 threads, in two parts:
 *
 *   crosswise   (a, b) beside (b, a), on a few keys with little room, all of which is wanted; what is
 *               admitted is soon given back. No key ever has more admitted than its limit, and at
 *               the end each is charged exactly what was admitted and not given back
 *   beside      one process of 128 threads whose other key is full, and that do not remember denials;
 *               and a second that asks for half of the limit: of what that asks, less than 0.5 % is
 *               denied
 *
 * N seconds each. URL may be the name of an environment variable. Exit code 0 only if all hold.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"

enum {
  PROCESSES = 4,
  THREADS = 32, /* of each process */
  KEYS = 6,     /* under each of two limiters */
  LIMIT = 20,
  FULL = 128, /* callers whose other key is full */
  ASKERS = 8,
  SHARED_LIMIT = 100,    /* in a second, of which half is asked for */
  DEADLINE_US = 1000000, /* a machine that is busy must not be late */
  STALL_US = 200000,     /* that a thread slept longer than it asked for */
  ATTEMPTS = 3,
  URL_BYTES = 512,
  KEY_BYTES = 64
};

static const char *const rules[2] = {"fixed-window:20/1d,name=left",
                                     "sliding-window:20/1d,name=right"};

/* All processes share this. */
typedef struct shared {
  char run[KEY_BYTES];
  _Atomic int64_t end_us;
  _Atomic int64_t held[2][KEYS]; /* admitted, and not about to be given back */
  _Atomic int64_t over, asked, admitted, failed;
  _Atomic int64_t open[2][KEYS]; /* may or may not have gone back */
  _Atomic int64_t stalls;
  _Atomic int full; /* callers that were denied by their own key */
} shared;

static shared *common;
static struct {
  char url[URL_BYTES];
  int64_t run_us;
} settings = {.run_us = 2 * SECOND_US};

typedef struct work {
  weir_limiter *limiters[2];
  uint64_t random;
  int number;
} work;

static void open_limiters(weir_store **store, const char *const texts[2], uint32_t processes,
                          weir_limiter *limiters[2]) {
  weir_message message = {""};
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = DEADLINE_US,
                                  .processes = processes,
                                  .flags = WEIR_NO_LOCAL_DENIAL,
                                  .fallback = WEIR_FALLBACK_NONE};
  if (weir_store_open(settings.url, store, &message) != WEIR_OK) give_up("%s", message.text);
  for (int i = 0; i < 2; i++)
    if (weir_limiter_create(*store, texts[i], &options, &limiters[i], &message) != WEIR_OK)
      give_up("%s", message.text);
}

/* --- crosswise ----------------------------------------------------------------------------------
 */

static void name_key(char text[KEY_BYTES], int key) {
  snprintf(text, KEY_BYTES, "%.40s-%d", common->run, key);
}

static void give_one_back(const work *own, weir_request *request, int side, int key) {
  atomic_fetch_sub(&common->held[side][key], 1);
  weir_status status = weir_limiter_refund(own->limiters[side], request->key, request->key_length,
                                           1, &request->decision, NULL);
  if (status == WEIR_OK) return;
  if (status == WEIR_UNKNOWN_OUTCOME)
    atomic_fetch_add(&common->open[side][key], 1);
  else
    atomic_fetch_add(&common->held[side][key], 1);
}

static void *ask_crosswise(void *context) {
  work *own = context;
  while (real_time_us() < common->end_us) {
    char texts[2][KEY_BYTES];
    int keys[2], order = (int)(next_number(&own->random) % 2);
    weir_limiter *limiters[2];
    weir_request requests[2] = {{0}};
    size_t denied_by = 0;
    for (int side = 0; side < 2; side++) {
      keys[side] = (int)(next_number(&own->random) % KEYS);
      name_key(texts[side], keys[side]);
      limiters[side ^ order] = own->limiters[side];
      requests[side ^ order] =
          (weir_request){.key = texts[side], .key_length = strlen(texts[side]), .cost = 1};
    }
    weir_status status = weir_decide_all(limiters, requests, 2, &denied_by, NULL);
    atomic_fetch_add(&common->asked, 1);
    if (status != WEIR_OK) {
      atomic_fetch_add(&common->failed, 1);
      for (int side = 0; side < 2; side++)
        if (requests[side ^ order].status == WEIR_UNKNOWN_OUTCOME)
          atomic_fetch_add(&common->open[side][keys[side]], 1);
      continue;
    }
    if (denied_by < 2) continue;
    atomic_fetch_add(&common->admitted, 1);
    for (int side = 0; side < 2; side++)
      if (atomic_fetch_add(&common->held[side][keys[side]], 1) >= LIMIT)
        atomic_fetch_add(&common->over, 1);
    sleep_us((int64_t)(next_number(&own->random) % 3000));
    for (int side = 0; side < 2; side++)
      give_one_back(own, &requests[side ^ order], side, keys[side]);
  }
  return NULL;
}

static void run_crosswise(void *context) {
  const int *number = context;
  pthread_t threads[THREADS];
  work works[THREADS];
  weir_store *store;
  weir_limiter *limiters[2];
  open_limiters(&store, rules, PROCESSES, limiters);
  for (int i = 0; i < THREADS; i++) {
    works[i] = (work){.limiters = {limiters[0], limiters[1]},
                      .random = (uint64_t)(*number * THREADS + i + 1) * 0x9e3779b97f4a7c15U};
    if (pthread_create(&threads[i], NULL, ask_crosswise, &works[i]) != 0) give_up("no thread left");
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
}

/* How much some keys hold that nobody was admitted for, or lack. */
static int64_t count_leaked(void) {
  weir_store *store;
  weir_limiter *limiters[2];
  int64_t leaked = 0;
  open_limiters(&store, rules, PROCESSES, limiters);
  for (int side = 0; side < 2; side++) {
    for (int key = 0; key < KEYS; key++) {
      char text[KEY_BYTES];
      weir_decision decision = {0};
      name_key(text, key);
      if (weir_limiter_peek(limiters[side], text, strlen(text), 1, &decision, NULL) != WEIR_OK)
        give_up("the store does not answer");
      int64_t charged = LIMIT - decision.remaining;
      int64_t more = charged - common->held[side][key];
      if (more > common->open[side][key] || more < 0) leaked += more < 0 ? -more : more;
    }
    weir_limiter_destroy(limiters[side]);
  }
  weir_store_close(store);
  return leaked;
}

static bool crosswise_holds(void) {
  pid_t processes[PROCESSES];
  int numbers[PROCESSES];
  common->end_us = real_time_us() + settings.run_us;
  for (int i = 0; i < PROCESSES; i++) {
    numbers[i] = i;
    processes[i] = start_process(run_crosswise, &numbers[i]);
  }
  for (int i = 0; i < PROCESSES; i++)
    if (!await_process(processes[i], settings.run_us + 60 * SECOND_US))
      give_up("a process ended early");
  int64_t leaked = count_leaked();
  printf("crosswise on %s: %" PRId64 " asked, %" PRId64 " admitted, %" PRId64
         " without an answer; over the limit %" PRId64 ", leaked %" PRId64 "\n",
         settings.url, common->asked, common->admitted, common->failed, common->over, leaked);
  return common->over == 0 && leaked == 0 && common->admitted > 0;
}

/* --- beside full keys ---------------------------------------------------------------------------
 */

static const char *const beside[2] = {"fixed-window:100/1s,name=shared",
                                      "fixed-window:1/1d,name=own"};

/* Each at its pace: what was kept from asking does not make up for it, or more than half of the limit
 * would be asked for at once. The first denial by a full key is not foreseen, so that 128 of them at
 * once leave the other key no room: they come before the others ask. */
static void *ask_beside(void *context) {
  work *own = context;
  bool is_full = own->number < FULL;
  int64_t pause_us = is_full ? 20000 : SECOND_US * ASKERS * 2 / SHARED_LIMIT;
  char full[KEY_BYTES];
  weir_decision filled;
  snprintf(full, sizeof full, "%.30s-%d-0", common->run, own->number);
  if (is_full) weir_limiter_take(own->limiters[1], full, strlen(full), 1, &filled, NULL);
  int64_t next_us = real_time_us() + (int64_t)(next_number(&own->random) % (uint64_t)pause_us);
  for (int n = 0; next_us < common->end_us; n++) {
    char text[KEY_BYTES];
    size_t denied_by = 0;
    snprintf(text, sizeof text, "%.30s-%d-%d", common->run, own->number, is_full ? 0 : n);
    int64_t now_us = real_time_us();
    if (next_us > now_us) {
      sleep_us(next_us - now_us);
      if (real_time_us() - next_us > STALL_US) atomic_fetch_add(&common->stalls, 1);
      now_us = next_us;
    }
    next_us = now_us + pause_us;
    weir_request requests[2] = {{.key = common->run, .key_length = strlen(common->run), .cost = 1},
                                {.key = text, .key_length = strlen(text), .cost = 1}};
    weir_status status = weir_decide_all(own->limiters, requests, 2, &denied_by, NULL);
    bool late = real_time_us() - now_us > STALL_US;
    if (is_full && n == 0) atomic_fetch_add(&common->full, status == WEIR_OK && denied_by == 1);
    if (late || (is_full && status != WEIR_OK)) atomic_fetch_add(&common->stalls, 1);
    if (is_full) continue;
    atomic_fetch_add(&common->asked, 1);
    if (status != WEIR_OK) atomic_fetch_add(&common->failed, 1);
    if (status == WEIR_OK && denied_by == 2) atomic_fetch_add(&common->admitted, 1);
  }
  return NULL;
}

static void run_beside(void *context) {
  const int *first = context;
  int count = *first == 0 ? FULL : ASKERS;
  pthread_t threads[FULL];
  work works[FULL];
  weir_store *store;
  weir_limiter *limiters[2];
  open_limiters(&store, beside, 2, limiters);
  for (int i = 0; i < count; i++) {
    works[i] = (work){.limiters = {limiters[0], limiters[1]},
                      .random = (uint64_t)(*first + i + 1) * 0x9e3779b97f4a7c15U,
                      .number = *first + i};
    if (pthread_create(&threads[i], NULL, ask_beside, &works[i]) != 0) give_up("no thread left");
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
}

/* Where the machine stood still, what was under way went past its deadline and stays charged: a denial is
 * right then, and it is measured again. */
static bool beside_holds(void) {
  int firsts[2] = {0, FULL};
  bool holds = false;
  for (int attempt = 0; attempt < ATTEMPTS && !holds; attempt++) {
    pid_t processes[2];
    common->full = 0;
    common->end_us = INT64_MAX;
    snprintf(common->run, KEY_BYTES, "crossing-%ld-%d", (long)getpid(), attempt);
    processes[0] = start_process(run_beside, &firsts[0]);
    int64_t latest_us = real_time_us() + 30 * SECOND_US;
    while (common->full < FULL && real_time_us() < latest_us)
      sleep_us(1000);
    if (common->full < FULL) give_up("%d of %d callers have a full key", common->full, FULL);
    sleep_us(SECOND_US); /* what they charged is of a window before */
    common->asked = common->admitted = common->failed = common->stalls = 0;
    common->end_us = real_time_us() + settings.run_us;
    processes[1] = start_process(run_beside, &firsts[1]);
    for (int i = 0; i < 2; i++)
      if (!await_process(processes[i], settings.run_us + 60 * SECOND_US))
        give_up("a process ended early");
    int64_t denied = common->asked - common->admitted - common->failed;
    printf("beside full keys on %s: %" PRId64 " asked, %" PRId64 " denied, %" PRId64
           " without an answer; the machine stood still %" PRId64 " times\n",
           settings.url, common->asked, denied, common->failed, common->stalls);
    holds = common->asked > 0 && denied * 200 < common->asked && common->failed == 0;
    if (common->asked > 0 && common->stalls == 0) break;
  }
  return holds;
}

int main(int count, char **arguments) {
  const char *url = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) url = arguments[i + 1];
    if (strcmp(arguments[i], "--seconds") == 0)
      settings.run_us = (int64_t)strtol(arguments[i + 1], NULL, 10) * SECOND_US;
  }
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || count % 2 == 0 || settings.run_us < SECOND_US)
    give_up("usage: crossing --store URL [--seconds N]");
  snprintf(settings.url, URL_BYTES, "%s%ctimeout=%dms", url, strchr(url, '?') != NULL ? '&' : '?',
           DEADLINE_US / 1000);
  common = share_memory(sizeof *common);
  snprintf(common->run, KEY_BYTES, "crossing-%ld", (long)getpid());
  bool crosswise = crosswise_holds();
  return beside_holds() && crosswise ? 0 : 1;
}
