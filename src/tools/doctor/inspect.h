/* The engine of `weir doctor`: trying out a store. Not part of the library. Files: inspect.c goes
 * from server to server, says which periods of in-flight rules there may be, and knows what the rules
 * of a limiter need and promise; probe.c tries one server: its operations, its round trips, the order
 * within a write, expiry. */
#ifndef WEIR_DOCTOR_INSPECT_H
#define WEIR_DOCTOR_INSPECT_H

#include <weir/inspect.h>

#include "rule/rule.h"
#include "store/store.h"

/* The figures that were measured, of the worst of all servers. */
typedef struct weir_inspect_worst {
  int64_t clock_off_us; /* so far a server's clock and this machine's are apart, at least */
  int64_t late_us;      /* p99 of a round trip */
} weir_inspect_worst;

/* The subject of an inspection, and what it is held against. */
typedef struct weir_inspect_plan {
  unsigned needs; /* enum weir_need */
  int64_t timeout_us;
  int64_t deadline_us; /* of a decision */
  int64_t clock_error_us;
  int64_t ttl_us; /* the longest that the rules give a key */
  weir_tell *tell;
  void *context;
  weir_inspect_worst *worst;
} weir_inspect_plan;

/* weir_store_inspect() with a plan. */
weir_status weir_store_inspect_plan(weir_store *store, const weir_inspect_plan *plan,
                                    weir_message *message);

/* --- for the files named above ----------------------------------------------------------------
 */

enum { WEIR_PROBE_KEYS = 10, WEIR_PROBE_KEY_BYTES = 128, WEIR_HOME_DIGITS = 32 };
#define WEIR_PROBE_TTL_US INT64_C(60000000)

/* One server that is probed. */
typedef struct weir_probe {
  weir_store *store;
  const weir_inspect_plan *plan;
  size_t server;
  const char *name; /* NULL: it has none */
  uint16_t home_offset;
  char keys[WEIR_PROBE_KEYS][WEIR_PROBE_KEY_BYTES]; /* with one home, which is of this server */
  bool answers;
  int64_t end_us;   /* when the time for what is being tried is over */
  weir_message why; /* of the last operation */
  /* A key that expires: */
  weir_operation read;
  int64_t made_us; /* just before it was made; 0: there is none */
  int64_t gone_us; /* when it was first not there; 0: not yet */
} weir_probe;

void weir_probe_report(const weir_probe *probe, weir_finding_level level, const char *topic,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* So much time from now on, for all that follows together. */
void weir_probe_give_time(weir_probe *probe, int64_t us);
bool weir_probe_is_over(const weir_probe *probe);

/* Whether the server is there at all; reports when not. */
bool weir_probe_connect(weir_probe *probe);

/* Whether every operation that is needed does what weir/backend.h says; reports it. */
bool weir_probe_operations(weir_probe *probe);
/* Deletes what the probe made. */
void weir_probe_clean(weir_probe *probe);

/* How long they take, and how many a deadline has room for. */
void weir_probe_round_trips(weir_probe *probe);
/* Whether operations of one write stay in order. */
void weir_probe_order(weir_probe *probe);
/* Whether a key with the longest TTL of all is there after it was made. */
void weir_probe_long_life(weir_probe *probe);
/* Makes a key that expires, looks for it, and says when it was gone. */
void weir_probe_expiry_begin(weir_probe *probe);
/* Whether something is still to be waited for. */
bool weir_probe_expiry_look(weir_probe *probe);
void weir_probe_expiry_report(const weir_probe *probe);

/* Whether this store, whose servers were all tried, allows the period of in-flight rule `number`;
 * NULL: which periods it allows. `all` is the store as a whole. */
void weir_inspect_report_held(const weir_probe *all, const weir_rule *rule, size_t number);

#endif
