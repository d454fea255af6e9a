/* The sights and answers of a loop: in all, limiter by limiter, and by the keys that are denied
 * most or cost most beyond what was taken. Its thread alone adds; any thread may read the counts,
 * and the main thread the rest. */
#ifndef WEIR_TELL_COUNTS_H
#define WEIR_TELL_COUNTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "protocol/verb.h"
#include "registry/registry.h"
#include "tell/denials.h"
#include "tell/top.h"

/* --- in all -------------------------------------------------------------------------------------
 */

/* X(member, series, labels, help): what /metrics says of it. */
#define WEIR_SERVE_COUNTERS(X)                                                                 \
  X(accepted, "weir_serve_connections_total", "", "Connections that were accepted")            \
  X(refused, "weir_serve_connections_refused_total", "", "Connections above a limit, closed")  \
  X(accept_pauses, "weir_serve_accept_pauses_total", "",                                       \
    "Times that nothing was accepted for a second, for want of descriptors or memory")         \
  X(timeouts, "weir_serve_timeouts_total", "", "Connections closed as too slow, or idle")      \
  X(received_bytes, "weir_serve_received_bytes_total", "", "Bytes received")                   \
  X(sent_bytes, "weir_serve_sent_bytes_total", "", "Bytes sent")                               \
  X(resp, "weir_serve_requests_total", "{protocol=\"resp\"}", "Requests that were read")       \
  X(http, "weir_serve_requests_total", "{protocol=\"http\"}", NULL)                            \
  X(grpc, "weir_serve_requests_total", "{protocol=\"grpc\"}", NULL)                            \
  X(admin, "weir_serve_requests_total", "{protocol=\"admin\"}", NULL)                          \
  X(broken, "weir_serve_broken_total", "", "Input that could not be read as a request")        \
  X(unauthorized, "weir_serve_unauthorized_total", "",                                         \
    "HTTP requests without a good token, and wrong passwords")                                 \
  X(held, "weir_serve_guesses_held_total", "",                                                 \
    "Passwords and tokens that had to wait, after wrong ones of their address")                \
  X(foreign, "weir_serve_foreign_total", "",                                                   \
    "HTTP requests that a page of another origin may have sent, refused")                      \
  X(allowed, "weir_serve_answers_total", "{decision=\"allowed\"}", "Decisions, as answered")   \
  X(denied, "weir_serve_answers_total", "{decision=\"denied\"}", NULL)                         \
  X(none, "weir_serve_answers_total", "{decision=\"none\"}", NULL)                             \
  X(shadow_denied, "weir_serve_shadow_denied_total", "",                                       \
    "Denials that were answered as allowed, as a limiter is in shadow mode")                   \
  X(settled, "weir_serve_settlements_total", "{result=\"done\"}",                              \
    "Settlements of what was taken, and refunds")                                              \
  X(unsettled, "weir_serve_settlements_total", "{result=\"failed\"}", NULL)                    \
  X(limits_set, "weir_serve_limits_set_total", "",                                             \
    "Limits of keys that clients have set or unset")                                           \
  X(unmatched, "weir_serve_unmatched_total", "",                                               \
    "Descriptors of requests that no descriptor file limits")                                  \
  X(expired, "weir_serve_expired_total", "",                                                   \
    "Requests whose own time was over before they were decided, not charged")                  \
  X(cancelled, "weir_serve_cancelled_total", "",                                               \
    "Requests that their client took back before they were decided, not charged")              \
  X(too_long, "weir_serve_too_long_total", "",                                                 \
    "Calls of gRPC above limits.grpc_message or http_headers, answered as over their limit")   \
  X(shed, "weir_serve_shed_total", "", "Requests answered without the store: too many waited") \
  X(ticks, "weir_serve_ticks_total", "", "Turns of the loops that decided something")          \
  X(exchanges, "weir_serve_exchanges_total", "",                                               \
    "Times that a thread beside a loop has asked a store")

typedef struct weir_serve_counts {
#define WEIR_SERVE_COUNTER(member, series, labels, help) _Atomic uint64_t member;
  WEIR_SERVE_COUNTERS(WEIR_SERVE_COUNTER)
#undef WEIR_SERVE_COUNTER
  _Atomic uint64_t tick_us;   /* spent deciding */
  _Atomic int64_t open;       /* connections now */
  _Atomic int64_t exchanging; /* threads that ask a store now; they count this, and exchanges */
  _Atomic int64_t waiting;    /* requests that wait for one of them */
} weir_serve_counts;

/* One writer, so no locked instruction. */
static inline void weir_serve_count(_Atomic uint64_t *count, uint64_t more) {
  uint64_t now = atomic_load_explicit(count, memory_order_relaxed);
  atomic_store_explicit(count, now + more, memory_order_relaxed);
}

/* --- by limiter -----------------------------------------------------------------------------------
 */

/* The limiters on demand go by this name together; no name of a configuration holds a ':'. */
#define WEIR_SERVED_THROTTLE ":throttle"

typedef enum weir_served_protocol {
  WEIR_SERVED_RESP,
  WEIR_SERVED_HTTP,
  WEIR_SERVED_GRPC,
  WEIR_SERVED_PROTOCOLS
} weir_served_protocol;

enum {
  WEIR_SERVED_SOURCES = WEIR_SOURCE_UNLIMITED + 1, /* nothing is counted as settled */
  WEIR_SERVED_BATCHES = 12,                        /* 1, 2, 4, ... 1024 requests, and more */
  WEIR_SERVED_WINDOW_S = 300
};
#define WEIR_SERVED_NO_LIMIT UINT32_MAX

/* The counts of one limiter. */
typedef struct weir_served_row {
  char name[WEIR_CONFIG_NAME_MOST + 1];
  struct {
    _Atomic uint64_t allowed[WEIR_SERVED_SOURCES], denied[WEIR_SERVED_SOURCES], none;
  } by[WEIR_SERVED_PROTOCOLS];
  _Atomic uint64_t shadow_denied;
  /* In cost, every rule counted: what settlements charged besides, gave back, and charged nowhere. */
  _Atomic uint64_t settled_up, settled_down, settled_cut;
} weir_served_row;

/* Which keys there is most of. */
typedef enum weir_served_keys {
  WEIR_SERVED_DENIED,  /* in denials */
  WEIR_SERVED_OVERRUN, /* in cost beyond what was taken, charged or cut */
  WEIR_SERVED_TENANTS, /* tenants in place of keys: in cost that was admitted */
  WEIR_SERVED_STOPPED, /* the same, in denials */
  WEIR_SERVED_KEYS
} weir_served_keys;

/* The rows of a snapshot: its limiters in their order, its groups, its domains, then those on
 * demand. */
typedef struct weir_served_table {
  size_t count;
  weir_served_row rows[];
} weir_served_table;

/* The counts of the limits of descriptor files; limits that a request brings are not among them.
 * They are of one snapshot: they begin anew with each. */
typedef struct weir_served_limits {
  const weir_registry *registry; /* whose */
  weir_limit_counts rows[];      /* by weir_descriptor.limit */
} weir_served_limits;

/* The same of classes of limiters, by their place in registry->classes. */
typedef struct weir_class_counts {
  _Atomic uint64_t allowed, denied;
} weir_class_counts;

typedef struct weir_served_classes {
  const weir_registry *registry;
  weir_class_counts rows[];
} weir_served_classes;

typedef struct weir_served {
  weir_serve_counts counts;
  _Atomic uint64_t batches[WEIR_SERVED_BATCHES], batched;
  _Atomic uint64_t waits[WEIR_WAIT_BUCKETS];
  const weir_registry *registry;         /* the loop's snapshot */
  weir_denial_log *log;                  /* of all loops */
  pthread_mutex_t lock;                  /* of what follows, where the main thread reads it: */
  weir_served_table *table;              /* NULL: there was no memory for it */
  weir_served_limits *limits;            /* the same */
  weir_served_classes *classes;          /* the same */
  int64_t window;                        /* since when the second sketch is: a number of windows */
  weir_sketch keys[WEIR_SERVED_KEYS][2]; /* of the window before and of this one */
} weir_served;

void weir_served_init(weir_served *served, const weir_registry *registry, weir_denial_log *log);
void weir_served_free(weir_served *served);

/* The loop has another snapshot: counts of the same names go on. */
void weir_served_follow(weir_served *served, const weir_registry *registry);

/* A request has its answer. `named`: NULL where it brought its rule. */
void weir_served_note(weir_served *served, const weir_named *named, const weir_verb_row *verb,
                      const weir_reply *reply, weir_served_protocol protocol, int64_t now_us);

/* The same of a group: a row of its own, and one of each member that has decided something. */
void weir_served_note_group(weir_served *served, const weir_named_group *group,
                            const weir_verb_row *verb, const weir_group_reply *told,
                            weir_served_protocol protocol, int64_t now_us);

/* The same of a descriptor. */
typedef struct weir_served_part {
  const weir_domain *domain;
  uint32_t limit;      /* its weir_descriptor.limit, or WEIR_SERVED_NO_LIMIT */
  weir_detail *detail; /* what counts it by the values of the request; NULL: nothing */
  int64_t hits;        /* 0: a peek */
  bool is_near;
} weir_served_part;
/* reply->name is what weir_served_name_domain() says. */
void weir_served_note_part(weir_served *served, const weir_served_part *part,
                           const weir_reply *reply, weir_served_protocol protocol, int64_t now_us);

/* A domain's name among limiters, which have no '/' in theirs: "/DOMAIN". */
void weir_served_name_domain(const weir_domain *domain, char name[WEIR_CONFIG_NAME_MOST + 1]);

/* A turn has decided so many requests. */
void weir_served_turn(weir_served *served, size_t requests, int64_t us);

/* --- of all loops, by the main thread ----------------------------------------------------------
 */

typedef struct weir_served_all {
  weir_served **loops;
  unsigned count;
  weir_served *front; /* the main thread's own, which decides nothing */
} weir_served_all;

/* One count, at its offset in weir_served; the main thread's own included. */
uint64_t weir_served_total(const weir_served_all *all, size_t offset);

/* By limiter, for the main thread's snapshot. NULL: no memory; free() it. */
weir_served_table *weir_served_sum(const weir_served_all *all);

/* Sums the counts of all loops that have the main thread's snapshot, by weir_descriptor.limit. The
 * same. */
weir_limit_counts *weir_served_sum_limits(const weir_served_all *all);

/* The same of classes, by their place in registry->classes. */
weir_class_counts *weir_served_sum_classes(const weir_served_all *all);

/* The keys of which all loops have seen most, of the last one to two windows. Sorted. */
void weir_served_merge(const weir_served_all *all, weir_served_keys kind, int64_t now_us,
                       weir_sketch *merged);

#endif
