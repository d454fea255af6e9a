#include "cluster/load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/backend.h>

void load_fail(const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("load: ", stderr);
  vfprintf(stderr, format, words);
  fputc('\n', stderr);
  va_end(words);
  exit(1);
}

void load_pause_us(int64_t us) {
  nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = us % 1000000 * 1000},
            NULL);
}

static weir_limiter *make_limiter(weir_store *store, const char *rule) {
  weir_limiter *made = NULL;
  weir_message message = {""};
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = LOAD_DEADLINE_US, .fallback = WEIR_FALLBACK_NONE};
  if (weir_limiter_create(store, rule, &options, &made, &message) != WEIR_OK)
    load_fail("%s: %s", rule, message.text);
  return made;
}

void load_open(load *made, const char *url, int threads) {
  char rule[64];
  weir_message message = {""};
  memset(made, 0, sizeof *made);
  made->threads = threads < LOAD_THREADS_MOST ? threads : LOAD_THREADS_MOST;
  if (pthread_mutex_init(&made->lock, NULL) != 0) load_fail("no lock");
  if (weir_store_open(url, &made->store, &message) != WEIR_OK)
    load_fail("%s: %s", url, message.text);
  snprintf(rule, sizeof rule, "fixed-window:%d/400d,name=few", LOAD_FEW);
  made->counted = make_limiter(made->store, "fixed-window:1000000000/400d,name=counted");
  made->few = make_limiter(made->store, rule);
  for (size_t i = 0; i < LOAD_KEYS; i++)
    snprintf(made->keys[i].name, sizeof made->keys[i].name, "key%02zu", i);
}

void load_close(load *done) {
  weir_limiter_destroy(done->counted);
  weir_limiter_destroy(done->few);
  weir_store_close(done->store);
  pthread_mutex_destroy(&done->lock);
}

static void raise_to(_Atomic int64_t *most, int64_t value) {
  for (int64_t seen = atomic_load(most);
       seen < value && !atomic_compare_exchange_weak(most, &seen, value);) {
  }
}

static void note_answer(load_key *key, int64_t now_us) {
  int64_t before_us = atomic_exchange(&key->answered_us, now_us);
  if (before_us > 0) raise_to(&key->gap_us, now_us - before_us);
}

static void note_over(load *self, int64_t over_us) {
  size_t step = over_us <= 0 ? 0 : (size_t)(over_us / 100) + 1;
  atomic_fetch_add(&self->over[step < LOAD_OVER_STEPS ? step : LOAD_OVER_STEPS - 1], 1);
}

void load_ask(load *self, size_t number) {
  load_key *key = &self->keys[number];
  weir_decision decision = {0};
  weir_message message = {""};
  int64_t begin_us = weir_monotonic_us();
  weir_status status = weir_limiter_take(number < LOAD_COUNTED ? self->counted : self->few,
                                         key->name, strlen(key->name), 1, &decision, &message);
  int64_t end_us = weir_monotonic_us();
  atomic_fetch_add(&self->calls, 1);
  note_over(self, end_us - begin_us - LOAD_DEADLINE_US);
  if (status == WEIR_OK) {
    atomic_fetch_add(decision.allowed ? &key->done : &key->denied, 1);
    if (decision.source == WEIR_SOURCE_STORE) note_answer(key, end_us);
    if (decision.allowed) raise_to(&key->admitted_us, end_us);
    return;
  }
  bool doubt = status == WEIR_UNKNOWN_OUTCOME || status == WEIR_TIMEOUT;
  atomic_fetch_add(doubt ? &key->unknown : &key->no, 1);
  pthread_mutex_lock(&self->lock);
  self->last = message;
  pthread_mutex_unlock(&self->lock);
}

static void *run(void *context) {
  load *self = context;
  uint64_t chance = (uint64_t)(uintptr_t)&chance | 1;
  while (!atomic_load(&self->stopped)) {
    chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407;
    size_t number =
        (size_t)(chance >> 33) % (atomic_load(&self->few_open) ? LOAD_KEYS : LOAD_COUNTED);
    if (!self->one_shard || self->keys[number].shard == self->shard) load_ask(self, number);
  }
  return NULL;
}

void load_start(load *self) {
  atomic_store(&self->stopped, false);
  for (int i = 0; i < self->threads; i++)
    if (pthread_create(&self->running[i], NULL, run, self) != 0) load_fail("no thread");
}

void load_stop(load *self) {
  atomic_store(&self->stopped, true);
  for (int i = 0; i < self->threads; i++)
    pthread_join(self->running[i], NULL);
}

void load_mark(load *self) {
  atomic_store(&self->few_open, true);
  for (size_t i = 0; i < LOAD_KEYS; i++) {
    atomic_store(&self->keys[i].gap_us, 0);
    atomic_store(&self->keys[i].answered_us, weir_monotonic_us());
  }
}

int64_t load_await(load *self, size_t shard, int64_t since_us, int64_t within_us) {
  int64_t last_us = since_us;
  for (size_t i = 0; i < LOAD_COUNTED; i++) {
    const load_key *key = &self->keys[i];
    while (key->shard == shard && atomic_load(&key->answered_us) <= since_us) {
      last_us = weir_monotonic_us();
      if (last_us - since_us > within_us) return -1;
      load_pause_us(1000);
    }
  }
  return last_us - since_us;
}

/* The keys with a limit are denied from memory, and not asked for all the time. */
int64_t load_gap_us(load *self, size_t shard) {
  int64_t most_us = 0;
  for (size_t i = 0; i < LOAD_COUNTED; i++) {
    int64_t gap_us = atomic_load(&self->keys[i].gap_us);
    if (self->keys[i].shard == shard && gap_us > most_us) most_us = gap_us;
  }
  return most_us;
}

int64_t load_over_us(load *self, int thousandths) {
  long long left = atomic_load(&self->calls) * thousandths / 1000;
  for (size_t step = LOAD_OVER_STEPS; step-- > 1;) {
    left -= atomic_load(&self->over[step]);
    if (left < 0) return (int64_t)step * 100;
  }
  return 0;
}
