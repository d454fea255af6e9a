/* What takes time: round trips, the order inside a write, the end of a key. */
#include <stdlib.h>

#include "doctor/inspect.h"

enum {
  ROUND_TRIPS = 100,
  ROUND_TRIPS_DIVISOR = 4, /* of the time for a server: the part for them, however few they are */
  ROUND_TRIPS_LEAST = 4,   /* that a deadline should have room for */
  PAIRS = 64,              /* of one write */
  WRITES = 24,             /* that are looked at for their order */
  FIRST_KEY = 5,
  SECOND_KEY = 6,
  SHORT_KEY = 7
};
#define SHORT_TTL_US INT64_C(1000000)
#define LAST_LOOK_US INT64_C(1000000)
#define PATIENCE_US INT64_C(4000000) /* past the TTL: memcached rounds up to 2 s more */

/* A read that this store and these needs allow; false: none is needed. */
static bool make_read(const weir_probe *probe, size_t key, weir_operation *read) {
  *read = weir_probe_operation(probe, WEIR_GET, key);
  read->raised = !(probe->plan->needs & WEIR_NEED_GET);
  return probe->plan->needs & (WEIR_NEED_GET | WEIR_NEED_RAISED_GET);
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* Three quarters of a deadline are for looking and charging (the last is for giving back). In them
 * a request that others get in the way of, or that its own charge denies, takes two or three round
 * trips, and in a busy process it waits for its turn besides. */
static void report_times(const weir_probe *probe, int64_t times[ROUND_TRIPS], size_t count) {
  qsort(times, count, sizeof *times, compare);
  int64_t median_us = times[count / 2] > 0 ? times[count / 2] : 1;
  long long fit = probe->plan->deadline_us * 3 / 4 / median_us;
  double median_ms = (double)times[count / 2] / 1000;
  double late_ms = (double)times[(count * 99 + 99) / 100 - 1] / 1000;
  double deadline_ms = (double)probe->plan->deadline_us / 1000;
  if (median_ms >= deadline_ms) {
    weir_probe_report(probe, WEIR_FINDING_FAULT, "round trip",
                      "median %.3f ms, p99 %.3f ms: longer than the deadline of %.0f ms, so that "
                      "most decisions are not made by this store; raise timeout=",
                      median_ms, late_ms, deadline_ms);
  } else if (late_ms * 2 >= deadline_ms) {
    weir_probe_report(
        probe, WEIR_FINDING_WARNING, "round trip",
        "median %.3f ms, p99 %.3f ms: more than half the deadline of %.0f ms, so that "
        "some decisions are not made by this store; raise timeout=",
        median_ms, late_ms, deadline_ms);
  } else if (fit < ROUND_TRIPS_LEAST) {
    weir_probe_report(
        probe, WEIR_FINDING_WARNING, "round trip",
        "median %.3f ms, p99 %.3f ms: a deadline of %.0f ms has room for %lld; a "
        "contended or denied request takes two or three, and a busy process waits "
        "besides, so that some decisions are not made by this store; raise timeout= to "
        "%.0f ms",
        median_ms, late_ms, deadline_ms, fit, ROUND_TRIPS_LEAST * median_ms * 4 / 3 + 1);
  } else {
    weir_probe_report(probe, WEIR_FINDING_FACT, "round trip",
                      "median %.3f ms, p99 %.3f ms; a deadline of %.0f ms has room for %lld",
                      median_ms, late_ms, deadline_ms, fit);
  }
}

void weir_probe_round_trips(weir_probe *probe) {
  int64_t times[ROUND_TRIPS];
  weir_operation read;
  size_t count = 0;
  if (!make_read(probe, 0, &read)) return;
  int64_t enough_us = weir_monotonic_us() + probe->plan->timeout_us / ROUND_TRIPS_DIVISOR;
  for (int64_t begin_us = 0; count < ROUND_TRIPS && begin_us < enough_us; count++) {
    begin_us = weir_monotonic_us();
    weir_probe_run(probe, &read, 1);
    times[count] = weir_monotonic_us() - begin_us;
    if (read.outcome == WEIR_DONE || read.outcome == WEIR_ABSENT) continue;
    if (read.outcome == WEIR_REFUSED) return; /* the operations say so */
    weir_probe_report(probe, WEIR_FINDING_FAULT, "round trip", "read %zu of %d got no answer: %s",
                      count + 1, ROUND_TRIPS, probe->why.text);
    return;
  }
  report_times(probe, times, count);
}

/* Additions to two keys by turns, each read back behind: what a sliding window does. Answers with
 * how many reads came too early, or -1. */
static int count_early(weir_probe *probe, int64_t written) {
  weir_operation all[2 * PAIRS];
  int early = 0;
  for (size_t i = 0; i < PAIRS; i++) {
    size_t key = i % 2 == 0 ? FIRST_KEY : SECOND_KEY;
    all[2 * i] = weir_probe_operation(probe, WEIR_ADD, key);
    all[2 * i + 1] = weir_probe_operation(probe, WEIR_GET, key);
  }
  weir_probe_run(probe, all, 2 * PAIRS);
  for (size_t i = 0; i < PAIRS; i++) {
    const weir_operation *read = &all[2 * i + 1];
    int64_t least = written / 2 + (int64_t)(i / 2) + 1;
    if (all[2 * i].outcome != WEIR_DONE || read->outcome == WEIR_REFUSED) return -1;
    early += read->outcome == WEIR_ABSENT || (read->outcome == WEIR_DONE && read->value < least);
  }
  return early;
}

void weir_probe_order(weir_probe *probe) {
  static const unsigned needed = WEIR_NEED_ADD | WEIR_NEED_GET;
  int early = 0;
  if ((probe->plan->needs & needed) != needed) return;
  for (int i = 0; i < WRITES && early == 0; i++)
    early = count_early(probe, (int64_t)i * PAIRS);
  if (early < 0) return; /* the operations, or the next use, say so */
  if (early > 0) {
    weir_probe_report(probe, WEIR_FINDING_FAULT, "order",
                      "reads overtake additions of the same write, so that more than the limit is "
                      "admitted: a proxy in between needs server_connections: 1");
  } else if (!weir_probe_is_over(probe)) {
    weir_probe_report(probe, WEIR_FINDING_FACT, "order", "operations of one write stay in order");
  }
}

/* --- expiry -------------------------------------------------------------------------------------
 */

/* The second addition asks for a longer life, which it must not give. */
static bool begin_by_add(weir_probe *probe) {
  weir_operation add = weir_probe_operation(probe, WEIR_ADD, SHORT_KEY);
  add.ttl_us = SHORT_TTL_US;
  weir_probe_run(probe, &add, 1);
  if (add.outcome != WEIR_DONE) return false;
  add.ttl_us = WEIR_PROBE_TTL_US;
  weir_probe_run(probe, &add, 1);
  return add.outcome == WEIR_DONE && add.value == 2; /* 1: the first was gone, on a busy machine */
}

static bool begin_by(weir_probe *probe, weir_operation_kind kind) {
  weir_operation make = weir_probe_operation(probe, kind, SHORT_KEY);
  make.refresh = kind == WEIR_RAISE; /* without, it makes nothing */
  make.ttl_us = SHORT_TTL_US;
  weir_probe_run(probe, &make, 1);
  return make.outcome == WEIR_DONE;
}

void weir_probe_expiry_begin(weir_probe *probe) {
  unsigned needs = probe->plan->needs;
  if (!make_read(probe, SHORT_KEY, &probe->read)) return;
  int64_t now_us = weir_monotonic_us();
  bool begun = needs & WEIR_NEED_ADD      ? begin_by_add(probe)
               : needs & WEIR_NEED_CREATE ? begin_by(probe, WEIR_CREATE)
                                          : begin_by(probe, WEIR_RAISE);
  if (begun) probe->made_us = now_us;
}

bool weir_probe_expiry_look(weir_probe *probe) {
  int64_t last_us = probe->made_us + SHORT_TTL_US + PATIENCE_US;
  int64_t now_us = weir_monotonic_us();
  if (probe->made_us == 0 || probe->gone_us != 0 || now_us >= last_us) return false;
  probe->end_us = last_us + LAST_LOOK_US;
  weir_probe_run(probe, &probe->read, 1);
  if (probe->read.outcome == WEIR_ABSENT) probe->gone_us = weir_monotonic_us();
  return probe->gone_us == 0;
}

void weir_probe_expiry_report(const weir_probe *probe) {
  if (probe->made_us == 0) return;
  double lived_s = (double)(probe->gone_us - probe->made_us) / 1e6;
  if (probe->gone_us == 0 && probe->read.outcome != WEIR_DONE) {
    weir_probe_report(probe, WEIR_FINDING_FAULT, "expiry", "the server stopped answering: %s",
                      probe->why.text);
  } else if (probe->gone_us == 0) {
    weir_probe_report(
        probe, WEIR_FINDING_WARNING, "expiry",
        "a key with a TTL of 1 s was still there after 5 s: keys pile up; decisions do "
        "not depend on it");
  } else if (probe->gone_us < probe->made_us + SHORT_TTL_US) {
    weir_probe_report(probe, WEIR_FINDING_FAULT, "expiry",
                      "a key with a TTL of 1 s was gone after %.2f s: what is counted is forgotten "
                      "too early, and more than the limit is admitted",
                      lived_s);
  } else {
    weir_probe_report(probe, WEIR_FINDING_FACT, "expiry",
                      "a key with a TTL of 1 s was gone after %.2f s; no decision depends on when",
                      lived_s);
  }
}
