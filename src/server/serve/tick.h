/* One turn of a loop: requests are collected, decided together, and answered in the order in which
 * they came over each connection. */
#ifndef WEIR_SERVE_TICK_H
#define WEIR_SERVE_TICK_H

#include "protocol/ask.h"
#include "protocol/bytes.h"
#include "registry/registry.h"
#include "serve/counts.h"

#define WEIR_NO_SLOT UINT32_MAX
#define WEIR_TICK_NO_END INT64_MAX

/* A place in the order of one connection's answers. */
typedef struct weir_slot {
  uint32_t next; /* of the same connection, or WEIR_NO_SLOT */
  bool is_text;  /* the answer is known: */
  size_t text, text_length;
  size_t id, id_length;        /* what the caller names it by, in the tick's bytes; 0: by nothing */
  size_t request;              /* else the one that is decided */
  weir_ask ask;                /* limiter and key are no longer there */
  const weir_limiter *limiter; /* NULL: none is asked */
  const weir_named *named;     /* NULL: the request brought its rule */
  size_t part_count;           /* 0: one request; else its parts are where a text would be */
  const weir_domain *domain;   /* of the parts; NULL: none has this name */
  unsigned manner;             /* what the protocol must remember for its answer */
} weir_slot;

/* A clock that does not go back: CLOCK_MONOTONIC. */
int64_t weir_serve_now_us(void);

typedef struct weir_tick {
  weir_registry *registry;
  unsigned loop;
  int64_t now_us; /* of CLOCK_MONOTONIC, when it began */
  size_t waiting_most;
  bool uses_throttle;  /* has found limiters on demand, */
  bool uses_overrides; /* or some of a domain */
  weir_serve_counts *counts;
  weir_slot *slots;
  size_t slot_count, slot_room;
  weir_request *requests;
  weir_limiter **limiters; /* of each request; NULL: it has its answer */
  size_t *keys;            /* where in `bytes` its key stands */
  int64_t *until_us; /* of CLOCK_MONOTONIC, till when it is worth deciding, or WEIR_TICK_NO_END */
  size_t request_count, request_room, decided;
  bool has_ends;     /* some have one */
  int64_t judged_us; /* the end that was looked at last, */
  bool judged_over;  /* and whether it had come: the same for all who share it */
  weir_bytes bytes;
  weir_request *batch; /* WEIR_BATCH_MOST, as the two below */
  weir_limiter **batch_limiters;
  size_t *batch_places;
} weir_tick;

/* False: no memory. */
bool weir_tick_init(weir_tick *tick, unsigned loop, size_t waiting_most, weir_serve_counts *counts);
void weir_tick_free(weir_tick *tick);

/* Both give the new slot's index, or WEIR_NO_SLOT without memory. */
uint32_t weir_tick_add_text(weir_tick *tick, const char *text, size_t length);

/* A request that cannot be asked (no such limiter, a rule that is none) gets a status and `why`
 * instead of a slot: then the answer is WEIR_NO_SLOT, and *status is not WEIR_OK. */
uint32_t weir_tick_add_ask(weir_tick *tick, const weir_ask *ask, unsigned manner,
                           weir_status *status, weir_message *why);

/* What the caller names a slot by, which the log of denials tells. What is no such name is left out. */
void weir_tick_set_id(weir_tick *tick, uint32_t slot, const char *id, size_t length);

/* One request more, whose key stands in tick->bytes from `key` on. Its index in tick->requests, or
 * SIZE_MAX without memory. `limiter`: NULL where nobody is asked. `fallback`: who answers where too
 * many wait. */
size_t weir_tick_add_request(weir_tick *tick, const weir_request *asked, size_t key,
                             weir_limiter *limiter, unsigned fallback);

/* Until when the request is worth deciding: those of one caller have the same end, so that all are
 * decided or none. */
void weir_tick_set_end(weir_tick *tick, size_t request, int64_t until_us);

/* Whether that had come before it was decided. */
bool weir_tick_is_over(const weir_tick *tick, size_t request);

/* Its answer is wanted no more: unless it has been decided already, it will not be. */
void weir_tick_cancel(weir_tick *tick, size_t request);

/* Decides all that has been added and not yet decided. */
void weir_tick_decide(weir_tick *tick);

/* What is to be said for a slot that is no text. The decision is kept in `decision`. */
void weir_tick_reply(weir_tick *tick, const weir_slot *slot, weir_decision *decision,
                     weir_reply *reply);

/* All have been answered: the next one may begin. */
void weir_tick_clear(weir_tick *tick);

#endif
