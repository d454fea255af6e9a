/* What a loop has answered, limiter by limiter. Its thread alone adds; the main thread reads. */
#ifndef WEIR_SERVE_TALLY_H
#define WEIR_SERVE_TALLY_H

#include <pthread.h>

#include "registry/registry.h"
#include "serve/denials.h"
#include "serve/tick.h"

typedef struct weir_loop weir_loop;
typedef struct weir_server weir_server;

/* What the limiters on demand are called together; no name of a configuration holds a ':'. */
#define WEIR_TALLY_THROTTLE ":throttle"

typedef enum weir_tally_protocol {
  WEIR_TALLY_RESP,
  WEIR_TALLY_HTTP,
  WEIR_TALLY_GRPC,
  WEIR_TALLY_PROTOCOLS
} weir_tally_protocol;

enum {
  WEIR_TALLY_SOURCES = WEIR_SOURCE_LATE + 1,
  WEIR_TALLY_BATCHES = 12, /* 1, 2, 4, ... 1024 requests, and more */
  WEIR_TALLY_WINDOW_S = 300
};
#define WEIR_TALLY_NO_LIMIT UINT32_MAX

/* Of one limiter. */
typedef struct weir_tally_row {
  char name[WEIR_CONFIG_NAME_MOST + 1];
  struct {
    _Atomic uint64_t allowed[WEIR_TALLY_SOURCES], denied[WEIR_TALLY_SOURCES], none;
  } by[WEIR_TALLY_PROTOCOLS];
  _Atomic uint64_t shadow_denied;
} weir_tally_row;

/* Of a snapshot: its limiters in their order, its domains, then those on demand. */
typedef struct weir_tally_table {
  size_t count;
  weir_tally_row rows[];
} weir_tally_table;

/* Of one limit of a descriptor file; what a request brings is not among them. */
typedef struct weir_tally_limit {
  _Atomic uint64_t within, over, shadow, none;
  _Atomic uint64_t near; /* of those within: more than four fifths are used up */
} weir_tally_limit;

/* Of one snapshot: they begin anew with each. */
typedef struct weir_tally_limits {
  const weir_registry *registry; /* whose */
  weir_tally_limit rows[];       /* by weir_descriptor.limit */
} weir_tally_limits;

typedef struct weir_tally {
  pthread_mutex_t
      lock; /* for what the main thread reads: the sketches, and which tables these are */
  weir_tally_table *table;   /* NULL: there was no memory for it */
  weir_tally_limits *limits; /* the same */
  int64_t window;            /* since when the second sketch is: a number of windows */
  weir_sketch denied[2];     /* keys, of the window before and of this one */
  _Atomic uint64_t batches[WEIR_TALLY_BATCHES], batched;
  _Atomic uint64_t waits[WEIR_WAIT_BUCKETS];
} weir_tally;

void weir_tally_init(weir_tally *tally, const weir_registry *registry);
void weir_tally_free(weir_tally *tally);

/* The loop has another snapshot: counts of the same names go on. */
void weir_tally_follow(weir_tally *tally, const weir_registry *registry);

/* A slot has been answered. */
void weir_tally_note(weir_loop *loop, const weir_slot *slot, const weir_reply *reply,
                     weir_tally_protocol protocol);

/* The same of a part of one, by its domain: reply->name is what weir_tally_name_domain() says.
 * `limit`: its weir_descriptor.limit, or WEIR_TALLY_NO_LIMIT. */
void weir_tally_note_domain(weir_loop *loop, const weir_domain *domain, uint32_t limit,
                            const weir_reply *reply, bool is_peek, bool is_near,
                            weir_tally_protocol protocol);

/* And once more, by the values of the request. */
void weir_tally_note_detail(weir_detail *detail, const weir_reply *reply, bool is_near);

/* What a domain is called among limiters, which have no '/' in their names: "/DOMAIN". */
void weir_tally_name_domain(const weir_domain *domain, char name[WEIR_CONFIG_NAME_MOST + 1]);

/* A tick has decided so many requests. */
void weir_tally_tick(weir_tally *tally, size_t requests, int64_t us);

/* --- reading, by the main thread ------------------------------------------------------------- */

/* Of all loops, for the main thread's snapshot. NULL: no memory; free() it. */
weir_tally_table *weir_tally_sum(const weir_server *server);

/* Of all loops that have the main thread's snapshot, by weir_descriptor.limit. The same. */
weir_tally_limit *weir_tally_sum_limits(const weir_server *server);

/* The keys that all loops denied most, of the last one to two windows. Sorted. */
void weir_tally_denied(const weir_server *server, weir_sketch *merged);

#endif
