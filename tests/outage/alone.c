#include "outage/alone.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

#include "faults/ground.h"
#include "scale/virtual.h"

const struct alone_row alone_rows[] = {
    {.name = "fresh",
     .about = "it has just started, and is held up as beside ten busy loops",
     .trouble = {.way_us = 60, .run_us = 5000, .pause_us = 15000},
     .rule = "sliding-window:20/1m",
     .takes = 5,
     .processes = 100,
     .worst = 2,
     .median = .5},
    {.name = "tail",
     .about =
         "each answer takes 4 ms, and 8 more on average: one of seven comes after the deadline",
     .trouble = {.way_us = 2000, .tail_us = 8000},
     .rule = "fixed-window:50/1s",
     .every_us = 25000,
     .takes = 400,
     .processes = 1,
     .worst = 5,
     .median = .5},
};
const size_t alone_rows_count = sizeof alone_rows / sizeof alone_rows[0];

enum { PROCESSES_MOST = 100 };

/* What is on its way outlives its process. */
static struct wire wires[PROCESSES_MOST];

struct counts {
  int asked, denied, late, denying;
};

static int64_t read_clock(void *context) {
  (void)context;
  return real_time_us();
}

static void take_all(const struct alone_row *row, weir_limiter *limiter, const char *key,
                     struct wire *wire, struct counts *counts) {
  int denied = 0;
  for (int i = 0; i < row->takes; i++) {
    weir_decision decision = {0};
    weir_status status = weir_limiter_take(limiter, key, strlen(key), 1, &decision, NULL);
    if (status != WEIR_OK) give_up("%s: %s", row->rule, weir_status_name(status));
    counts->late += decision.source != WEIR_SOURCE_STORE;
    denied += !decision.allowed;
    sleep_us(row->every_us);
    wire_pass_pauses(wire);
  }
  counts->asked += row->takes;
  counts->denied += denied;
  counts->denying += denied > 0;
}

static void run_process(const struct alone_row *row, struct server *server, int number,
                        struct counts *counts) {
  char key[32];
  struct wire *wire = &wires[number];
  weir_store *store;
  weir_limiter *limiter;
  weir_message message = {""};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.clock = (weir_clock){read_clock, NULL};
  snprintf(key, sizeof key, "%s-%d", row->name, number);
  wire_begin(wire, server, &store);
  if (weir_limiter_create(store, row->rule, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", row->rule, message.text);
  take_all(row, limiter, key, wire, counts);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

void alone_run(const struct alone_row *row, struct server *server, struct figure *figure) {
  struct counts counts = {0};
  for (int i = 0; i < row->processes; i++)
    run_process(row, server, i, &counts);
  *figure = (struct figure){.unit = "%",
                            .value = 100.0 * counts.denied / counts.asked,
                            .worst = row->worst,
                            .median = row->median};
  snprintf(figure->name, sizeof figure->name, "%s, denied", row->name);
  snprintf(figure->text, sizeof figure->text,
           "%d of %d, in %d of %d processes; %d not answered by the store", counts.denied,
           counts.asked, counts.denying, row->processes, counts.late);
}
