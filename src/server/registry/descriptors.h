/* Which limit does a descriptor of a request mean? The domains of the descriptor files, immutable
 * once they are built.
 *
 * Keys are led by "/", which no name of a limiter has: "/DOMAIN/KEY=VALUE/KEY=VALUE", with '%', '/'
 * and '=' as %25, %2F and %3D. So no two descriptors share a count, save where share_threshold says
 * so: then the wildcard stands in the value's place. */
#ifndef WEIR_REGISTRY_DESCRIPTORS_H
#define WEIR_REGISTRY_DESCRIPTORS_H

#include <stdatomic.h>

#include <weir/weir.h>

#include "config/config.h"
#include "registry/throttle.h"
#include "table.h"

/* A node of a domain's tree. */
typedef struct weir_descriptor {
  const weir_config_descriptor *config; /* NULL of the root */
  weir_limiter *limiter;                /* NULL: no store is asked */
  uint32_t limit;                       /* with a rate: which of weir_descriptors.limits */
  bool shows_value;                     /* this one, or one above it */
  uint32_t parent;
  uint32_t first_wildcard, next_wildcard; /* of its children; of its parent's: 0: no more */
} weir_descriptor;

/* Read these; only descriptors.c writes. */
typedef struct weir_domain {
  const weir_config_domain *config;
  size_t index;
  weir_descriptor *nodes; /* the root is the first; their own parent stands before each */
  uint32_t node_count;
  weir_hash_table by_match;          /* of indices of nodes */
  weir_throttle *throttle, *dated;   /* of limits that requests bring: weir_domain_throttle() */
  struct weir_detail_table *details; /* NULL: no file asks for them */
} weir_domain;

typedef struct weir_descriptors { /* all domains of a snapshot */
  size_t count;
  uint32_t limits; /* descriptors that have a rate, of all domains */
  weir_domain domains[];
} weir_descriptors;

/* What the stores and limiters of a snapshot are got by. */
typedef struct weir_descriptors_source {
  void *self;
  /* The limiter for a rule; NULL after a fault. */
  weir_limiter *(*find)(void *self, const weir_config_store *store, const char *rule,
                        weir_config_place place, const char *path);
  weir_store *(*store)(void *self, const weir_config_store *store);
} weir_descriptors_source;

/* NULL: no memory. What is wrong becomes faults. */
weir_descriptors *weir_descriptors_create(const weir_config_envoy *config,
                                          const weir_descriptors_source *source,
                                          weir_config_faults *faults);
void weir_descriptors_destroy(weir_descriptors *descriptors); /* NULL is fine */

/* NULL: there is no such domain. */
const weir_domain *weir_descriptors_find(const weir_descriptors *descriptors, const char *name,
                                         size_t length);

/* Entries of at most WEIR_CONFIG_KEY_MOST bytes each, keys and values together.
 *
 * The descriptor that has a rate_limit and is as deep as the request's; NULL: none, so nothing is
 * limited. At each level KEY_VALUE comes first, then wildcards in the order of the file, then KEY.
 * Its key is written with up to `room` bytes; *key_length is how long it is, which may be more. */
const weir_descriptor *weir_domain_find(const weir_domain *domain, const weir_entry *entries,
                                        size_t count, char *key, size_t room, size_t *key_length);

/* Counts by the values of requests, for descriptors whose file asks so (detailed_metric,
 * value_to_metric). All loops share them; they are those of one snapshot. Any thread. */
enum {
  WEIR_DETAILS_MOST = 1000, /* paths of one domain; what comes then is "other" */
  WEIR_DETAIL_BYTES = 512   /* of one path; a longer one is "other", too */
};

typedef struct weir_detail {
  _Atomic uint64_t within, over, shadow, none;
  _Atomic uint64_t near; /* of those within: more than four fifths are used up */
  size_t length;
  char path[]; /* ends with a NUL */
} weir_detail;

/* What counts the node by the values of a request that has found it; NULL: its file asks for
 * none. Its path is KEY=VALUE/KEY/KEY=VALUE: with the request's own value where that is asked
 * for, else with the file's, if there is one. '%', '/', '=', '"', '\' and all that is no
 * printable ASCII are as %22. */
weir_detail *weir_domain_detail(const weir_domain *domain, const weir_descriptor *node,
                                const weir_entry *entries, size_t count);
/* Those of a domain; the first is "other". NULL: there are no more, or none at all. */
const weir_detail *weir_domain_detail_at(const weir_domain *domain, size_t index);

/* For requests that bring their own limit: the key of a descriptor, written likewise. */
size_t weir_domain_write_key(const weir_domain *domain, const weir_entry *entries, size_t count,
                             char *key, size_t room);

/* And the limiters of such limits; every tick that used them ends with weir_descriptors_end_tick(),
 * as weir_throttle_end_tick(). */
weir_throttle *weir_domain_throttle(const weir_domain *domain, weir_config_unit unit);
void weir_descriptors_end_tick(const weir_descriptors *descriptors, unsigned loop);

/* Months and years of the calendar, in UTC: where a domain says `calendar: true`, the date stands
 * in a limit's key, so that its count begins anew with it. */
enum { WEIR_CALENDAR_BYTES = 24 };

typedef struct weir_calendar {
  char text[WEIR_CALENDAR_BYTES]; /* "/2026-03" or "/2026", as no entry is written */
  size_t length;
  int64_t end_s; /* when the next one begins: seconds since 1970 */
} weir_calendar;

/* The month or year that a time is in. `unit`: WEIR_CONFIG_MONTH or WEIR_CONFIG_YEAR. */
weir_calendar weir_calendar_at(weir_config_unit unit, int64_t now_s);

#endif
