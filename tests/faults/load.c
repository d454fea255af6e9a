#include "faults/load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/backend.h>

#include "faults/ground.h"

enum { START_US = 60 * 1000 * 1000, END_US = 60 * 1000 * 1000 };

/* Each is a window of 400 ms, or as much: a cell is longer than 2d + deadline. */
static const char *const rule_texts[LOAD_RULES] = {"sliding-window:40/400ms,name=r0",
                                                   "fixed-window:40/400ms,name=r1",
                                                   "token-bucket:100/s,burst=20,name=r2"};

const char *load_rule_text(int i) {
  return rule_texts[i];
}

const weir_rule *load_rule(const load *of, int i) {
  static weir_stack stack;
  if (weir_stack_parse(rule_texts[i], (uint32_t)of->processes, &stack, NULL) != WEIR_OK)
    give_up("%s cannot be read", rule_texts[i]);
  return &stack.rules[0];
}

/* --- a child ------------------------------------------------------------------------------------
 */

static struct {
  load *mine;
  int process; /* its number; both are set before it is started */
  weir_limiter *limiters[LOAD_RULES];
} self;

static int64_t shifted_now_us(void *context) {
  (void)context;
  return real_time_us() + atomic_load(&self.mine->offsets_us[self.process]);
}

static void note(const load_call *made) {
  size_t place = atomic_fetch_add(&self.mine->used, 1);
  if (place >= CALLS_MOST) give_up("more calls than there is room to note");
  load_call *call = &self.mine->calls[place];
  *call = *made;
  atomic_store_explicit(&call->written, true, memory_order_release);
}

static bool ask(uint64_t *chance, int64_t late_us) {
  load *mine = self.mine;
  weir_decision decision = {0};
  uint8_t rule = (uint8_t)(next_number(chance) % LOAD_RULES);
  uint8_t key = (uint8_t)(next_number(chance) % LOAD_KEYS);
  int64_t begin_us = weir_monotonic_us();
  weir_status status = weir_limiter_take(self.limiters[rule], mine->keys[key],
                                         strlen(mine->keys[key]), 1, &decision, NULL);
  note(&(load_call){.begin_us = begin_us,
                    .end_us = weir_monotonic_us(),
                    .at_us = decision.at_us,
                    .late_us = late_us,
                    .process = (uint8_t)self.process,
                    .rule = rule,
                    .key = key,
                    .status = (uint8_t)status,
                    .source = (uint8_t)decision.source,
                    .store_status = (uint8_t)decision.store_status,
                    .allowed = status == WEIR_OK && decision.allowed});
  return status == WEIR_OK;
}

/* How much longer it took. */
static int64_t pause_for(int64_t us) {
  int64_t end_us = weir_monotonic_us() + us;
  sleep_us(us);
  return weir_monotonic_us() - end_us;
}

static void *run_thread(void *number) {
  load *mine = self.mine;
  uint64_t chance = (uint64_t)(uintptr_t)number * 7919 + 1;
  bool answered = false;
  int64_t late_us = 0;
  while (!atomic_load(&mine->stopped)) {
    bool good = ask(&chance, late_us);
    if (good && !answered) atomic_fetch_add(&mine->running, 1);
    answered = answered || good;
    late_us =
        pause_for(mine->pause_us / 2 + (int64_t)(next_number(&chance) % (uint64_t)mine->pause_us));
  }
  return NULL;
}

static void create_limiter(weir_store *store, int i) {
  weir_message message = {""};
  weir_limiter_options options = {
      .size = sizeof options,
      .clock = {shifted_now_us, NULL},
      .deadline_us = self.mine->deadline_us,
      .clock_error_us = LOAD_CLOCK_ERROR_US,
      .processes = (uint32_t)self.mine->processes,
      .memo_keys = 1024,
      .fallback = WEIR_FALLBACK_LOCAL,
  };
  if (weir_limiter_create(store, rule_texts[i], &options, &self.limiters[i], &message) != WEIR_OK)
    give_up("%s: %s", rule_texts[i], message.text);
}

static void destroy_limiter(int i) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(self.limiters[i], &counts);
  atomic_fetch_add(&self.mine->keys_lost, counts.keys_lost);
  atomic_fetch_add(&self.mine->clock_steps, counts.clock_steps);
  weir_limiter_destroy(self.limiters[i]);
}

static void run_child(void *context) {
  enum { THREADS_MOST = 64 };
  pthread_t threads[THREADS_MOST];
  weir_message message = {""};
  weir_store *store;
  (void)context;
  if (weir_store_open(self.mine->url, &store, &message) != WEIR_OK)
    give_up("%s: %s", self.mine->url, message.text);
  for (int i = 0; i < LOAD_RULES; i++)
    create_limiter(store, i);
  for (int i = 0; i < self.mine->threads; i++) {
    uintptr_t number = (uintptr_t)(self.process * THREADS_MOST + i);
    if (pthread_create(&threads[i], NULL, run_thread, (void *)number) != 0) give_up("no thread");
  }
  for (int i = 0; i < self.mine->threads; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < LOAD_RULES; i++)
    destroy_limiter(i);
  weir_store_close(store);
}

/* --- the program --------------------------------------------------------------------------------
 */

void load_start(load *mine) {
  self.mine = mine;
  for (self.process = 0; self.process < mine->processes; self.process++)
    mine->children[self.process] = start_process(run_child, NULL);
  for (int64_t end_us = weir_monotonic_us() + START_US;
       atomic_load(&mine->running) < mine->processes * mine->threads; sleep_us(MS_US))
    if (weir_monotonic_us() > end_us) give_up("%s: not every thread gets an answer", mine->url);
}

bool load_stop(load *mine) {
  bool good = true;
  atomic_store(&mine->stopped, true);
  for (int i = 0; i < mine->processes; i++)
    good = await_process(mine->children[i], END_US) && good;
  return good;
}

size_t load_calls(const load *of) {
  size_t used = atomic_load(&of->used);
  size_t count = 0;
  while (count < used && atomic_load_explicit(&of->calls[count].written, memory_order_acquire))
    count++;
  return count;
}
