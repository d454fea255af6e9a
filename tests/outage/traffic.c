#include "outage/traffic.h"

#include "faults/ground.h"

enum { CONNECT_US = 10000000, END_US = 20000000 };

struct process {
  const struct traffic *traffic;
  size_t number;
};

static weir_store *connect_store(const char *url) {
  weir_message message = {""};
  weir_store *store;
  if (weir_store_open(url, &store, &message) != WEIR_OK ||
      weir_store_connect(store, CONNECT_US, &message) != WEIR_OK)
    give_up("%s: %s", url, message.text);
  return store;
}

static void run_process(void *context) {
  const struct process *process = context;
  weir_store *store = connect_store(process->traffic->url);
  struct callers *callers = callers_make(process->traffic, process->number, store, (weir_clock){0});
  pthread_barrier_wait(&process->traffic->tally->ready);
  callers_begin(callers);
  callers_end(callers);
}

void traffic_begin(const struct traffic *traffic, pid_t processes[PROCESSES]) {
  share_barrier(&traffic->tally->ready, PROCESSES + 1);
  traffic->tally->origin_us = real_time_us() / WINDOW_US * WINDOW_US;
  for (size_t i = 0; i < PROCESSES; i++)
    processes[i] = start_process(run_process, &(struct process){traffic, i});
  pthread_barrier_wait(&traffic->tally->ready);
}

void traffic_end(const struct traffic *traffic, const pid_t processes[PROCESSES]) {
  atomic_store(&traffic->tally->over, true);
  for (size_t i = 0; i < PROCESSES; i++)
    if (!await_process(processes[i], END_US)) give_up("a process did not end well");
}
