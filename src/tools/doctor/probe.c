/* One server is tried: its operations, one by one, are held against weir/backend.h; then what
 * takes time, its round trips, the order within a write, the end of a key. Every probe makes
 * operations on keys of its own, has them executed within its time, and reports. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/inspect.h"

enum {
  ROUND_TRIPS = 100,
  ROUND_TRIPS_DIVISOR = 4, /* of the time for a server: the part for them, however few they are */
  ROUND_TRIPS_LEAST = 4,   /* that a deadline should have room for */
  PAIRS = 64,              /* of one write */
  WRITES = 24,             /* that are looked at for their order */
  FIRST_KEY = 5,
  SECOND_KEY = 6,
  SHORT_KEY = 7,
  LONG_KEY = 8
};
#define SHORT_TTL_US INT64_C(1000000)
#define LAST_LOOK_US INT64_C(1000000)
#define PATIENCE_US INT64_C(4000000) /* past the TTL: memcached rounds up to 2 s more */

enum { FINDING_BYTES = 768 };

void weir_probe_report(const weir_probe *probe, weir_finding_level level, const char *topic,
                       const char *format, ...) {
  char text[FINDING_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *at = text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  const weir_finding finding = {
      .level = level, .server = probe->name, .topic = topic, .text = text};
  probe->plan->tell(probe->plan->context, &finding);
}

/* An operation on one of the probe's keys, that may be changed before it runs. */
static weir_operation make_operation(const weir_probe *probe, weir_operation_kind kind,
                                     size_t key) {
  return (weir_operation){.kind = kind,
                          .key = probe->keys[key],
                          .key_length = (uint16_t)strlen(probe->keys[key]),
                          .home_offset = probe->home_offset,
                          .home_length = WEIR_HOME_DIGITS,
                          .delta = 1,
                          .ttl_us = WEIR_PROBE_TTL_US};
}

void weir_probe_give_time(weir_probe *probe, int64_t us) {
  probe->end_us = weir_monotonic_us() + us;
}

bool weir_probe_is_over(const weir_probe *probe) {
  return weir_monotonic_us() >= probe->end_us;
}

/* Within the probe's time. */
static void run(weir_probe *probe, weir_operation *operations, size_t count) {
  weir_store_exec(probe->store, operations, count, probe->end_us, &probe->why);
}

/* A refusal is an answer. */
bool weir_probe_connect(weir_probe *probe) {
  bool raised = !(probe->plan->needs & WEIR_NEED_GET);
  weir_operation read = make_operation(probe, WEIR_GET, 0);
  read.raised = raised && probe->store->backend->traits & WEIR_TRAIT_RAISE;
  run(probe, &read, 1);
  if (read.outcome != WEIR_NOT_SENT && read.outcome != WEIR_UNKNOWN) return true;
  weir_probe_report(probe, WEIR_FINDING_FAULT, "connection", "%s", probe->why.text);
  return false;
}

enum version { NO_VERSION, VERSION_READ, VERSION_OLD };

#define ENDS(outcome) (1U << WEIR_##outcome)
#define SUMS (WEIR_NEED_ADD | WEIR_NEED_SUB | WEIR_NEED_GET)
#define SWAPS (WEIR_NEED_CREATE | WEIR_NEED_GET | WEIR_NEED_SWAP)
#define RAISES (WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB)

enum { ANY_VALUE = -1 };

/* A step is done where all of `needs` is needed, in this order. */
static const struct step {
  unsigned needs;
  const char *name;
  weir_operation_kind kind;
  size_t key;
  int64_t delta, seed, floor, value;
  enum version version;
  bool refresh, raised;
  unsigned ends;    /* outcomes that are right */
  int64_t expected; /* the value of DONE */
} steps[] = {
    {WEIR_NEED_ADD, "ADD", WEIR_ADD, 0, .delta = 3, .seed = 5, .ends = ENDS(DONE), .expected = 8},
    {WEIR_NEED_ADD, "ADD", WEIR_ADD, 0, .delta = 2, .ends = ENDS(DONE), .expected = 10},
    {SUMS, "GET", WEIR_GET, 0, .ends = ENDS(DONE), .expected = 10},
    {WEIR_NEED_ADD | WEIR_NEED_SUB, "SUB", WEIR_SUB, 0, .delta = 4, .ends = ENDS(DONE),
     .expected = 6},
    {WEIR_NEED_SUB, "SUB", WEIR_SUB, 1, .delta = 1, .ends = ENDS(DONE) | ENDS(ABSENT),
     .expected = ANY_VALUE},
    {WEIR_NEED_CREATE, "CREATE", WEIR_CREATE, 2, .value = 7, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {WEIR_NEED_CREATE, "CREATE", WEIR_CREATE, 2, .value = 9, .ends = ENDS(CONFLICT)},
    {SWAPS, "GET", WEIR_GET, 2, .ends = ENDS(DONE), .expected = 7},
    {SWAPS, "SWAP", WEIR_SWAP, 2, .value = 8, .version = VERSION_READ, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {SWAPS, "SWAP", WEIR_SWAP, 2, .value = 9, .version = VERSION_OLD, .ends = ENDS(CONFLICT)},
    {SWAPS, "GET", WEIR_GET, 2, .ends = ENDS(DONE), .expected = 8},
    {RAISES, "RAISE without refresh", WEIR_RAISE, 3, .floor = 100, .delta = 5,
     .ends = ENDS(ABSENT)},
    {RAISES, "RAISE", WEIR_RAISE, 3, .floor = 100, .delta = 5, .refresh = true, .ends = ENDS(DONE),
     .expected = 105},
    {RAISES, "RAISE without refresh", WEIR_RAISE, 3, .floor = 50, .delta = 5, .ends = ENDS(DONE),
     .expected = 110},
    {RAISES, "GET of a raised key", WEIR_GET, 3, .raised = true, .ends = ENDS(DONE),
     .expected = 110},
    {RAISES, "SUB of a raised key", WEIR_SUB, 3, .delta = 10, .raised = true, .ends = ENDS(DONE),
     .expected = 100},
    {WEIR_NEED_PUT, "PUT", WEIR_PUT, 4, .value = 4, .ends = ENDS(DONE), .expected = ANY_VALUE},
    {WEIR_NEED_PUT | WEIR_NEED_GET, "GET", WEIR_GET, 4, .ends = ENDS(DONE), .expected = 4},
    {WEIR_NEED_PUT | WEIR_NEED_DROP, "DROP", WEIR_DROP, 4, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {WEIR_NEED_PUT | WEIR_NEED_DROP | WEIR_NEED_GET, "GET", WEIR_GET, 4, .ends = ENDS(ABSENT)},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* The outcome of a step, in words; false: what it should be. */
static bool is_wrong(const struct step *step, const weir_operation *done, const weir_message *why,
                     weir_message *text) {
  static const char *const outcomes[] = {
      [WEIR_PENDING] = "nothing",   [WEIR_DONE] = "done",         [WEIR_ABSENT] = "absent",
      [WEIR_CONFLICT] = "conflict", [WEIR_NOT_SENT] = "not sent", [WEIR_UNKNOWN] = "unknown",
      [WEIR_REFUSED] = "refused"};
  bool failed = done->outcome == WEIR_NOT_SENT || done->outcome == WEIR_UNKNOWN ||
                done->outcome == WEIR_REFUSED;
  if (failed) {
    weir_message_set(text, "%s: %s: %s", step->name, outcomes[done->outcome], why->text);
    return true;
  }
  if (!(step->ends & 1U << done->outcome)) {
    weir_message_set(text,
                     "%s: \"%s\" is not what follows from the operations before it: the store "
                     "lost or kept what it should not",
                     step->name, outcomes[done->outcome]);
    return true;
  }
  if (done->outcome != WEIR_DONE || step->expected == ANY_VALUE || done->value == step->expected)
    return false;
  weir_message_set(text, "%s: answered %lld where %lld was expected: the store counts wrongly",
                   step->name, (long long)done->value, (long long)step->expected);
  return true;
}

bool weir_probe_operations(weir_probe *probe) {
  static const struct {
    unsigned need;
    const char *name;
  } names[] = {{WEIR_NEED_ADD, "ADD"},       {WEIR_NEED_SUB, "SUB"},   {WEIR_NEED_GET, "GET"},
               {WEIR_NEED_CREATE, "CREATE"}, {WEIR_NEED_SWAP, "SWAP"}, {WEIR_NEED_RAISE, "RAISE"},
               {WEIR_NEED_PUT, "PUT"},       {WEIR_NEED_DROP, "DROP"}};
  unsigned needs = probe->plan->needs;
  uint64_t versions[] = {[VERSION_READ] = 1, [VERSION_OLD] = 1};
  unsigned failed = 0; /* keys on which a step went wrong: the rest of their steps would as well */
  for (const struct step *step = steps; step < steps + STEPS; step++) {
    weir_message text;
    if ((needs & step->needs) != step->needs || failed & 1U << step->key) continue;
    weir_operation done = make_operation(probe, step->kind, step->key);
    if (step->delta != 0) done.delta = step->delta;
    done.seed = step->seed;
    done.floor = step->floor;
    done.value = step->value;
    done.refresh = step->refresh;
    done.raised = step->raised;
    done.version = versions[step->version];
    run(probe, &done, 1);
    if (weir_probe_is_over(probe)) return false;
    if (is_wrong(step, &done, &probe->why, &text)) {
      weir_probe_report(probe, WEIR_FINDING_FAULT, "operations", "%s", text.text);
      failed |= 1U << step->key;
    } else if (step->kind == WEIR_GET && done.outcome == WEIR_DONE && done.version_out != 0) {
      versions[VERSION_READ] = versions[VERSION_OLD] = done.version_out;
    }
  }
  if (failed != 0) return false;
  char list[64] = "";
  size_t used = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (needs & names[i].need)
      used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i].name);
  weir_probe_report(probe, WEIR_FINDING_FACT, "operations", "do what they must:%s", list);
  return true;
}

/* --- time --------------------------------------------------------------------------------------
 */

/* A read that this store and these needs allow; false: none is needed. */
static bool make_read(const weir_probe *probe, size_t key, weir_operation *read) {
  *read = make_operation(probe, WEIR_GET, key);
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
  int64_t late_us = times[(count * 99 + 99) / 100 - 1];
  double late_ms = (double)late_us / 1000;
  double deadline_ms = (double)probe->plan->deadline_us / 1000;
  weir_inspect_worst *worst = probe->plan->worst;
  if (late_us > worst->late_us) worst->late_us = late_us;
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
    run(probe, &read, 1);
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
    all[2 * i] = make_operation(probe, WEIR_ADD, key);
    all[2 * i + 1] = make_operation(probe, WEIR_GET, key);
  }
  run(probe, all, 2 * PAIRS);
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

/* By which a key is made. */
static weir_operation_kind making_kind(const weir_probe *probe) {
  unsigned needs = probe->plan->needs;
  return needs & WEIR_NEED_ADD ? WEIR_ADD : needs & WEIR_NEED_CREATE ? WEIR_CREATE : WEIR_RAISE;
}

/* A store may write a long life otherwise than a short one: as a date. Where it could not be deleted
 * none is made. */
void weir_probe_long_life(weir_probe *probe) {
  int64_t ttl_us = probe->plan->ttl_us;
  weir_operation read;
  weir_operation make = make_operation(probe, making_kind(probe), LONG_KEY);
  if (ttl_us <= WEIR_PROBE_TTL_US || !make_read(probe, LONG_KEY, &read)) return;
  make.refresh = make.kind == WEIR_RAISE; /* without, it makes nothing */
  make.ttl_us = ttl_us;
  weir_operation drop = make_operation(probe, WEIR_DROP, LONG_KEY);
  run(probe, &drop, 1);
  if (drop.outcome != WEIR_ABSENT && drop.outcome != WEIR_DONE) return;
  run(probe, &make, 1);
  if (weir_probe_is_over(probe)) return;
  if (make.outcome == WEIR_DONE) run(probe, &read, 1);
  if (make.outcome == WEIR_REFUSED)
    weir_probe_report(probe, WEIR_FINDING_FAULT, "expiry", "a key with a TTL of %lld s: %s",
                      (long long)(ttl_us / 1000000), probe->why.text);
  else if (make.outcome == WEIR_DONE && read.outcome == WEIR_ABSENT)
    weir_probe_report(probe, WEIR_FINDING_FAULT, "expiry",
                      "a key with a TTL of %lld s was gone at once: what is counted is forgotten, "
                      "and more than the limit is admitted",
                      (long long)(ttl_us / 1000000));
}

void weir_probe_expiry_begin(weir_probe *probe) {
  weir_operation_kind kind = making_kind(probe);
  if (!make_read(probe, SHORT_KEY, &probe->read)) return;
  int64_t now_us = weir_monotonic_us();
  weir_operation make = make_operation(probe, kind, SHORT_KEY);
  make.refresh = kind == WEIR_RAISE; /* without, it makes nothing */
  make.ttl_us = SHORT_TTL_US;
  run(probe, &make, 1);
  bool begun = make.outcome == WEIR_DONE;
  if (begun && kind == WEIR_ADD) {
    /* The second addition asks for a longer life, which it must not give. */
    make.ttl_us = WEIR_PROBE_TTL_US;
    run(probe, &make, 1);
    begun = make.outcome == WEIR_DONE && make.value == 2; /* 1: a busy machine came too late */
  }
  if (begun) probe->made_us = now_us;
}

bool weir_probe_expiry_look(weir_probe *probe) {
  int64_t last_us = probe->made_us + SHORT_TTL_US + PATIENCE_US;
  int64_t now_us = weir_monotonic_us();
  if (probe->made_us == 0 || probe->gone_us != 0 || now_us >= last_us) return false;
  probe->end_us = last_us + LAST_LOOK_US;
  run(probe, &probe->read, 1);
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

/* --- the end ------------------------------------------------------------------------------------
 */

/* Keys that cannot be deleted in time go when their TTL ends. */
#define CLEAN_US INT64_C(1000000)

void weir_probe_clean(weir_probe *probe) {
  weir_operation drops[WEIR_PROBE_KEYS];
  weir_probe_give_time(probe,
                       probe->plan->timeout_us < CLEAN_US ? probe->plan->timeout_us : CLEAN_US);
  for (size_t i = 0; i < WEIR_PROBE_KEYS; i++)
    drops[i] = make_operation(probe, WEIR_DROP, i);
  run(probe, drops, WEIR_PROBE_KEYS);
}
