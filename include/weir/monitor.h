/* All that has happened: for Prometheus as text, for a log as rare events.
 *
 * All of it reads counts that limiters and stores keep anyway, when it is called: no decision is
 * slower for it. docs/monitoring.md says what to watch and when to be woken.
 */
#ifndef WEIR_MONITOR_H
#define WEIR_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/limiter.h>
#include <weir/status.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A limiter, a store, or both, under one name. Several limiters on one store: name the store with
 * one of them, or by itself. Whatever is named here must outlive its use. */
typedef struct weir_monitor_source {
  const char *name; /* 1 to WEIR_MONITOR_NAME_MOST bytes; of no two limiters or stores the same */
  const weir_limiter *limiter; /* NULL: none */
  const weir_store *store;     /* NULL: none */
} weir_monitor_source;

enum { WEIR_MONITOR_NAME_MOST = 64, WEIR_MONITOR_SOURCES_MOST = 1024 };

/* Takes a piece of text, at most 1024 bytes; 0: go on. Anything else stops the writing. */
typedef int weir_monitor_write(void *context, const char *text, size_t length);

/* Writes all counts of the sources in the text format of Prometheus, version 0.0.4: one family
 * after the other, each with the samples of all sources.
 *
 * Labels are the sources' names ("limiter", "store") and the servers' ("server"). Bytes in them
 * that are no printable ASCII are spelled out, as "\xc3"; keys never stand in one. So there are as
 * many lines as limiters and servers account for: about 45 for a limiter, 5 for a server.
 *
 * WEIR_BAD_ARGUMENT: a source that is not accepted, more of them than WEIR_MONITOR_SOURCES_MOST, or
 * `write` stopped. Any thread; allocates nothing, and waits for `write` alone. */
WEIR_EXPORT weir_status weir_monitor_prometheus(const weir_monitor_source *sources, size_t count,
                                                weir_monitor_write *write, void *context,
                                                weir_message *message);

/* The same into a buffer, with a NUL behind. *length is how long the text is, without it. Where
 * that does not fit into `size` it is WEIR_BAD_ARGUMENT; *length then says what is needed, less the
 * NUL, and `buffer`, which may be NULL for a size of 0, is empty text. */
WEIR_EXPORT weir_status weir_monitor_print_prometheus(const weir_monitor_source *sources,
                                                      size_t count, char *buffer, size_t size,
                                                      size_t *length, weir_message *message);

/* Rare things that somebody should know. Append only. */
typedef enum weir_event_kind {
  WEIR_EVENT_SERVER_LOST, /* a server counts as away; count: how often since the last such event */
  WEIR_EVENT_SERVER_BACK, /* it answers again */
  WEIR_EVENT_CLOCK_STEP,  /* the clock was set back */
  WEIR_EVENT_KEYS_LOST,   /* the store has forgotten counts: eviction, a restart, a flush */
  WEIR_EVENT_REFUSED,   /* the store refused an operation, or holds something else under a key: of a
                             limiter, and of a server, which then says why */
  WEIR_EVENT_UNKNOWN,   /* no answer came: what was sent may or may not count */
  WEIR_EVENT_FALLBACK,  /* the limiter's policy decided in the store's stead */
  WEIR_EVENT_LATE,      /* requests ran out of their time */
  WEIR_EVENT_CONTENDED, /* others wrote the key faster until the deadline */
  WEIR_EVENT_LEASE_LOST, /* what was charged ahead, in cost, can neither be used nor given back */
  WEIR_EVENT_BROKEN,     /* weir or a backend broke its own contract: a bug */
  WEIR_EVENT_CUT,     /* settlements found no room for all that the work cost; that is forgiven */
  WEIR_EVENT_ADDRESS, /* another address of a server's name is in use: who uses another counts apart */
  WEIR_EVENT_SERVER_CLOCK /* a server's clock is more than a day ahead, where that matters */
} weir_event_kind;

/* All of it lives until the hook returns. */
typedef struct weir_event {
  weir_event_kind kind;
  const char *kind_name; /* "server-lost" */
  const char *source;    /* the name of its weir_monitor_source */
  const char *server; /* "host:port"; NULL: the event is a limiter's, or the server has no name */
  uint64_t count;     /* so many since the last event of this kind, source and server */
  const char *text;   /* one line of printable ASCII; shows no key and no credentials */
} weir_event;

typedef void weir_event_hook(void *context, const weir_event *event);

/* Compares counts with what they were. Nothing runs by itself: the program calls
 * weir_watch_look(), once a second or so, from a timer or a thread of its own. */
typedef struct weir_watch weir_watch;

/* quiet_us: after an event, the shortest time until the next of the same kind, source and server,
 * lost and back being one kind; what happens meanwhile is in the next one's count. 0 to 86400000000
 * (a day); 0: every look may tell. Events from before the creation are not told, but a server that
 * is away is. WEIR_BAD_ARGUMENT, WEIR_NO_MEMORY: then *watch is NULL. The names are copied, the
 * limiters and stores must outlive the watch. */
WEIR_EXPORT weir_status weir_watch_create(const weir_monitor_source *sources, size_t count,
                                          int64_t quiet_us, weir_watch **watch,
                                          weir_message *message);

/* Tells `hook` what is new, in this thread, at most one event of each kind for each source and
 * server, and returns how many. The hook may do anything but use this watch. One thread at a time.
 */
WEIR_EXPORT size_t weir_watch_look(weir_watch *watch, weir_event_hook *hook, void *context);

/* NULL is fine. */
WEIR_EXPORT void weir_watch_destroy(weir_watch *watch);

#ifdef __cplusplus
}
#endif

#endif
