#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/ground.h"
#include "faults/soak.h"

/* The sanitizer itself remembers what was freed, and tells leaks better. */
#if defined(__SANITIZE_ADDRESS__)
#define GROWS_BY_ITSELF true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GROWS_BY_ITSELF true
#endif
#endif
#ifndef GROWS_BY_ITSELF
#define GROWS_BY_ITSELF false
#endif

enum { PAUSE_US = 3000, GROWTH_MOST_KB = 8192 };

const soak_rule soak_rules[SOAK_RULES] = {
    {.text = "sliding-window:12/400ms,name=r0", .refunds = true, .takes_less = true},
    {.text = "fixed-window:12/400ms,name=r1", .is_counted = true, .refunds = true},
    {.text = "token-bucket:30/s,burst=9,name=r2"},
    {.text = "quota:12/500ms,name=r3",
     .fallback = WEIR_FALLBACK_DENY,
     .is_counted = true,
     .refunds = true},
    {.text = "leaky-bucket:60/s,queue=8,name=r4",
     .fallback = WEIR_FALLBACK_NONE,
     .refunds = true,
     .resets = true},
    {.text = "sliding-window:30/1s,cells=8,name=r5;token-bucket:60/s,burst=12,name=r5",
     .fallback = WEIR_FALLBACK_ALLOW,
     .refunds = true,
     .takes_less = true},
    {.text = "sliding-window:12/400ms,strict,name=r6;quota:40/2s,name=r6",
     .refunds = true,
     .resets = true},
    {.text = "fixed-window:1000000/2s,name=r7", .fallback = WEIR_FALLBACK_NONE, .refunds = true},
};

const int64_t soak_costs[SOAK_KEYS] = {2, 3};

static struct {
  soak *mine;
  int process;
  weir_store *stores[SOAK_STORES];
  weir_limiter *limiters[SOAK_STORES][SOAK_RULES];
} self;

/* --- a thread ----------------------------------------------------------------------------------
 */

typedef struct worker {
  int number;
  uint64_t chance;
  soak_model models[SOAK_STORES];
  int store, rule, key; /* of the present request */
  weir_limiter *limiter;
  char name[40];
  unsigned losses;
} worker;

static unsigned draw(worker *w, unsigned below) {
  return (unsigned)(next_number(&w->chance) % below);
}

static void choose(worker *w) {
  w->store = (int)draw(w, SOAK_STORES);
  w->rule = draw(w, 2) == 0 ? (int)draw(w, SOAK_CHECKED) : (int)draw(w, SOAK_RULES);
  w->key = (int)draw(w, SOAK_KEYS);
  w->limiter = self.limiters[w->store][w->rule];
  w->losses = atomic_load(&self.mine->losses[w->store]);
  if (w->rule == SOAK_OWN)
    snprintf(w->name, sizeof w->name, "own.%d.%d", self.process, w->number);
  else
    snprintf(w->name, sizeof w->name, "key.%d", w->key);
}

static void note_admitted(const worker *w, const weir_decision *taken, int64_t cost) {
  if (w->rule >= SOAK_CHECKED || cost <= 0) return;
  size_t place = atomic_fetch_add(&self.mine->used, 1);
  if (place >= self.mine->room) give_up("more was admitted than there is room to note");
  self.mine->admissions[place] = (soak_admission){
      .at_us = taken->at_us,
      .cost = (int16_t)cost,
      .store = (uint8_t)w->store,
      .rule = (uint8_t)w->rule,
      .key = (uint8_t)w->key,
      .by_fallback = taken->source == WEIR_SOURCE_FALLBACK || taken->source == WEIR_SOURCE_LATE};
}

static void count_answer(const soak_answer *answer) {
  soak *mine = self.mine;
  bool decided = answer->status == WEIR_OK;
  atomic_fetch_add(&mine->asked, 1);
  atomic_fetch_add(decided ? &mine->decided : &mine->no_decision, 1);
  if (decided && answer->decision.source == WEIR_SOURCE_FALLBACK)
    atomic_fetch_add(&mine->by_fallback, 1);
}

static void note_time(int64_t took_us) {
  int64_t longest_us = atomic_load(&self.mine->longest_us);
  while (took_us > longest_us &&
         !atomic_compare_exchange_weak(&self.mine->longest_us, &longest_us, took_us))
    continue;
}

static void check(worker *w, const soak_answer *answer) {
  count_answer(answer);
  soak_check(self.mine, answer);
  if (w->rule == SOAK_OWN)
    soak_model_check(self.mine, &w->models[w->store], w->store, answer, w->losses);
}

static soak_answer begin(const worker *w) {
  return (soak_answer){
      .rule = w->rule, .key = w->key, .cost = soak_costs[w->key], .begin_us = real_time_us()};
}

/* --- what a thread does ------------------------------------------------------------------------
 */

/* A cost that may have been given back is not held against the bound. */
static void refund(worker *w, weir_decision *taken) {
  int64_t cost = taken->cost;
  weir_decision before = *taken;
  weir_status status = weir_limiter_refund(w->limiter, w->name, strlen(w->name), cost, taken, NULL);
  if (w->rule == SOAK_OWN) soak_model_refund(&w->models[w->store], &before, cost, status);
}

static void take(worker *w) {
  soak_answer answer = begin(w);
  bool less = soak_rules[w->rule].takes_less && draw(w, 4) == 0;
  int64_t begin_us = weir_monotonic_us();
  answer.may_be_less = less;
  answer.status = (less ? weir_limiter_take_up_to : weir_limiter_take)(
      w->limiter, w->name, strlen(w->name), answer.cost, &answer.decision, NULL);
  note_time(weir_monotonic_us() - begin_us);
  answer.end_us = real_time_us();
  check(w, &answer);
  if (answer.status != WEIR_OK || !answer.decision.allowed) return;
  if (soak_rules[w->rule].refunds && draw(w, 5) == 0)
    refund(w, &answer.decision);
  else
    note_admitted(w, &answer.decision, answer.decision.cost);
}

static void peek(worker *w) {
  soak_answer answer = begin(w);
  answer.is_peek = true;
  answer.status =
      weir_limiter_peek(w->limiter, w->name, strlen(w->name), answer.cost, &answer.decision, NULL);
  answer.end_us = real_time_us();
  check(w, &answer);
}

/* All keys of the rule at once, each in its turn once more. */
static void decide(worker *w) {
  enum { COUNT = 2 * SOAK_KEYS };
  static const char *const names[SOAK_KEYS] = {"key.0", "key.1"};
  weir_request requests[COUNT] = {{0}};
  int64_t begin_us = real_time_us();
  if (w->rule == SOAK_OWN) return;
  for (int i = 0; i < COUNT; i++)
    requests[i] = (weir_request){.key = names[i % SOAK_KEYS],
                                 .key_length = strlen(names[i % SOAK_KEYS]),
                                 .cost = soak_costs[i % SOAK_KEYS]};
  weir_limiter_decide(w->limiter, requests, COUNT, NULL);
  for (int i = 0; i < COUNT; i++) {
    soak_answer answer = {.rule = w->rule,
                          .key = i % SOAK_KEYS,
                          .cost = requests[i].cost,
                          .begin_us = begin_us,
                          .end_us = real_time_us(),
                          .status = requests[i].status,
                          .decision = requests[i].decision};
    w->key = answer.key;
    check(w, &answer);
    if (answer.status == WEIR_OK && answer.decision.allowed)
      note_admitted(w, &answer.decision, answer.decision.cost);
  }
}

/* A cost that was cancelled is not held against the bound either. */
static void reserve(worker *w) {
  soak_answer answer = begin(w);
  weir_reservation *reservation = NULL;
  weir_request request = {
      .key = w->name, .key_length = strlen(w->name), .cost = answer.cost, .longest_wait_us = 0};
  if (w->rule == SOAK_OWN) return;
  answer.status = weir_limiter_reserve(w->limiter, &request, &reservation, NULL);
  answer.decision = request.decision;
  answer.end_us = real_time_us();
  check(w, &answer);
  if ((reservation != NULL) != (answer.status == WEIR_OK && answer.decision.allowed))
    soak_wrong(self.mine, "a reservation that does not fit its decision");
  if (reservation == NULL) return;
  if (soak_rules[w->rule].refunds && draw(w, 2) == 0) {
    weir_reservation_cancel(reservation, NULL);
  } else {
    weir_reservation_commit(reservation, NULL);
    note_admitted(w, &answer.decision, answer.decision.cost);
  }
  weir_reservation_destroy(reservation);
}

static void reset(worker *w) {
  if (soak_rules[w->rule].resets) weir_limiter_reset(w->limiter, w->name, strlen(w->name), NULL);
}

static void *run_thread(void *context) {
  static void (*const deeds[])(worker * w) = {take, take, take, take, peek, decide, reserve, reset};
  worker *w = context;
  while (!atomic_load(&self.mine->stopped)) {
    choose(w);
    deeds[draw(w, sizeof deeds / sizeof deeds[0])](w);
    sleep_us(PAUSE_US / 2 + draw(w, PAUSE_US));
  }
  return NULL;
}

/* --- a process ---------------------------------------------------------------------------------
 */

static long memory_kb(void) {
  char line[128];
  long found = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "RssAnon:", 8) == 0) found = strtol(line + 8, NULL, 10);
  if (file != NULL) fclose(file);
  return found;
}

static int open_files(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder != NULL && readdir(folder) != NULL)
    count++;
  if (folder != NULL) closedir(folder);
  return count;
}

static void open_all(void) {
  weir_message message = {""};
  for (int i = 0; i < SOAK_STORES; i++) {
    if (weir_store_open(self.mine->urls[i], &self.stores[i], &message) != WEIR_OK)
      give_up("%s: %s", self.mine->urls[i], message.text);
    for (int j = 0; j < SOAK_RULES; j++) {
      const weir_limiter_options options = {.size = sizeof options,
                                            .deadline_us = SOAK_DEADLINE_US,
                                            .processes = SOAK_PROCESSES,
                                            .memo_keys = 256,
                                            .fallback = soak_rules[j].fallback};
      if (weir_limiter_create(self.stores[i], soak_rules[j].text, &options, &self.limiters[i][j],
                              &message) != WEIR_OK)
        give_up("%s: %s", soak_rules[j].text, message.text);
    }
  }
}

static void close_all(void) {
  for (int i = 0; i < SOAK_STORES; i++) {
    for (int j = 0; j < SOAK_RULES; j++) {
      weir_limiter_counts counts = {.size = sizeof counts};
      weir_limiter_read_counts(self.limiters[i][j], &counts);
      atomic_fetch_add(&self.mine->keys_lost, counts.keys_lost);
      weir_limiter_destroy(self.limiters[i][j]);
    }
    weir_store_close(self.stores[i]);
  }
}

/* Grown since a quarter of the time was over, when all that warms up had its time to. */
static void watch_memory(void) {
  long early_kb = 0;
  while (!atomic_load(&self.mine->stopped)) {
    if (early_kb == 0 && atomic_load(&self.mine->quarter)) early_kb = memory_kb();
    sleep_us(20 * MS_US);
  }
  long grown_kb = memory_kb() - early_kb;
  if (early_kb > 0 && grown_kb > GROWTH_MOST_KB && !GROWS_BY_ITSELF)
    soak_wrong(self.mine, "a process grew by %ld kB", grown_kb);
}

void soak_run(void *mine) {
  static worker workers[SOAK_THREADS];
  pthread_t threads[SOAK_THREADS];
  self.mine = mine;
  self.process = self.mine->process;
  atomic_store(&self.mine->taken_up[self.process], true);
  int files = open_files();
  open_all();
  for (int i = 0; i < SOAK_THREADS; i++) {
    workers[i].number = i;
    workers[i].chance = self.mine->seed * 1000003 + (uint64_t)(self.process * SOAK_THREADS + i) + 1;
    if (pthread_create(&threads[i], NULL, run_thread, &workers[i]) != 0) give_up("no thread");
  }
  watch_memory();
  for (int i = 0; i < SOAK_THREADS; i++)
    pthread_join(threads[i], NULL);
  close_all();
  if (open_files() != files)
    soak_wrong(self.mine, "%d descriptors are open that were not before", open_files() - files);
}
