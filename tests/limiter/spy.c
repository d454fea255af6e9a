#include "limiter/spy.h"

#include <time.h>

#include "store/store.h"

spy the_spy;

static weir_status spy_open(const weir_url *url, int64_t timeout_us, void **handle,
                            weir_message *message) {
  weir_store *inner;
  (void)url;
  (void)timeout_us;
  weir_status status = weir_store_open("memory:", &inner, message);
  if (status != WEIR_OK) return status;
  spy_forget();
  the_spy.delay_us = 0;
  *handle = inner;
  return WEIR_OK;
}

static void count(const weir_operation *operations, size_t how_many) {
  atomic_fetch_add(&the_spy.counts.round_trips, 1);
  atomic_fetch_add(&the_spy.counts.commands, (int)how_many);
  for (size_t i = 0; i < how_many; i++)
    atomic_fetch_add(&the_spy.counts.of_kind[operations[i].kind], 1);
}

/* The first operation that the fault is meant for, or `count`. */
static size_t find_victim(const weir_operation *operations, size_t count) {
  size_t i = 0;
  if (!atomic_load(&the_spy.faulty)) return count;
  while (i < count && operations[i].kind != the_spy.fault.kind)
    i++;
  if (i < count) atomic_store(&the_spy.faulty, false);
  return i;
}

static void pass_on(weir_store *inner, weir_operation *operations, size_t count,
                    int64_t deadline_us, weir_message *message) {
  if (count > 0) weir_store_exec(inner, operations, count, deadline_us, message);
}

static void spy_exec(void *handle, weir_operation *operations, size_t how_many, int64_t deadline_us,
                     weir_message *message) {
  weir_store *inner = handle;
  size_t victim = find_victim(operations, how_many);
  int64_t delay_us = the_spy.delay_us;
  count(operations, how_many);
  if (victim == how_many || the_spy.fault.executed) {
    pass_on(inner, operations, how_many, deadline_us, message);
  } else {
    pass_on(inner, operations, victim, deadline_us, message);
    pass_on(inner, operations + victim + 1, how_many - victim - 1, deadline_us, message);
  }
  if (delay_us > 0)
    nanosleep(
        &(struct timespec){.tv_sec = delay_us / 1000000, .tv_nsec = delay_us % 1000000 * 1000},
        NULL);
  if (victim == how_many) return;
  operations[victim].outcome = the_spy.fault.outcome;
  operations[victim].late = the_spy.fault.late;
  weir_message_set(message, "the spy made operation %zu fail", victim);
}

static void spy_close(void *handle) {
  weir_store_close(handle);
}

void spy_forget(void) {
  the_spy.counts.round_trips = 0;
  the_spy.counts.commands = 0;
  for (size_t i = 0; i < SPY_KINDS; i++)
    the_spy.counts.of_kind[i] = 0;
  the_spy.faulty = false;
}

void spy_fail_next(weir_operation_kind kind, weir_outcome outcome, bool executed) {
  the_spy.fault = (spy_fault){kind, outcome, executed, false};
  the_spy.faulty = true;
}

const weir_backend spy_backend = {
    .size = sizeof(weir_backend),
    .name = "spy",
    .schemes = (const weir_scheme[]){{"spy", 0}, {NULL, 0}},
    .options = (const char *const[]){NULL},
    .traits = WEIR_TRAIT_SWAP,
    .open = spy_open,
    .exec = spy_exec,
    .close = spy_close,
};
