/* Which limiter, key and cost does the configuration mean? An immutable snapshot: any thread that
 * holds a reference may read it, without locks or allocations.
 *
 * Limiters with the same store, rule text and options are one weir_limiter, whichever names and
 * tiers they stand for: so every key is led by the name it is limited under, "NAME:KEY", and a
 * name holds no ':'. Tiers of one name count on the same keys. */
#ifndef WEIR_REGISTRY_REGISTRY_H
#define WEIR_REGISTRY_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/weir.h>

#include "config/config.h"
#include "table.h"

/* --- overrides ----------------------------------------------------------------------------------
 *
 * Which tier is a key put into? Exact keys in a hash table, then patterns. A million keys take 16
 * MiB beside their own bytes. */

enum {
  WEIR_KEYMAP_FILE_MOST = 64 * 1024 * 1024, /* bytes of a file of overrides */
  WEIR_KEYMAP_KEYS_MOST = 4 * 1024 * 1024
};

/* A key or a pattern, and the tier that it is put into. */
typedef struct weir_keymap_key {
  uint32_t offset; /* of its bytes in the map's */
  uint16_t length;
  uint16_t tier;
} weir_keymap_key;

/* Zeroed it holds nothing. It must stay where it was created. */
typedef struct weir_keymap {
  char *bytes;               /* of all keys; those of a file as they stand in it */
  size_t file_bytes;         /* of them */
  weir_hash_table keys;      /* of weir_keymap_key */
  weir_keymap_key *patterns; /* the longest first */
  size_t pattern_count;
} weir_keymap;

/* From a list, and from the limiter's file where `limiter` is given; a key of the list stands
 * before the same in the file. Mistakes in the file become faults. False: no memory. */
bool weir_keymap_create(weir_keymap *map, const weir_config_overrides *list,
                        const weir_config_limiter *limiter, weir_config_faults *faults);
void weir_keymap_clean_up(weir_keymap *map);

/* The key or the pattern that stands for it; NULL: none does. */
const weir_keymap_key *weir_keymap_find(const weir_keymap *map, const char *key, size_t length);

/* Whether the key is what the pattern says, whose '*' stand for any bytes. */
bool weir_pattern_fits(const char *pattern, size_t pattern_length, const char *key, size_t length);

/* --- limiters on demand -------------------------------------------------------------------------
 *
 * Limiters on demand, for commands that bring their rule with them (CL.THROTTLE). All loops share
 * them, so that a process knows each key once. Any thread.
 *
 * The keys of these are led by ":" alone, as no limiter of the configuration has an empty name. */

#define WEIR_THROTTLE_PREFIX ":"
enum {
  WEIR_THROTTLE_NEW_MOST = 1000, /* in any second */
  WEIR_THROTTLE_LOOPS_MOST = 64
};

typedef struct weir_throttle weir_throttle;

/* `store` and `options` as for weir_limiter_create; the store must outlive it. `most`: how many
 * limiters stay when no loop uses them. NULL: no memory. */
weir_throttle *weir_throttle_create(weir_store *store, const weir_limiter_options *options,
                                    uint32_t most);
/* The same for rules of another algorithm, which say no burst, with `suffix` behind them. Both
 * texts must outlive it. */
weir_throttle *weir_throttle_create_for(weir_store *store, const weir_limiter_options *options,
                                        const char *algorithm, const char *suffix, uint32_t most);
void weir_throttle_destroy(weir_throttle *throttle);

/* The limiter for token-bucket:count/{period_s}s,burst=burst. It is good until this loop (0 to
 * WEIR_THROTTLE_LOOPS_MOST - 1) ends its turn; the last that it found, until it finds another in one
 * that it ends. `now_us`: a clock that does not go back.
 *
 * WEIR_BAD_RULE: the figures are no rule, the message says what is accepted; WEIR_CONTENDED: more than
 * WEIR_THROTTLE_NEW_MOST new ones; WEIR_NO_MEMORY. */
weir_status weir_throttle_find(weir_throttle *throttle, unsigned loop, int64_t burst, int64_t count,
                               int64_t period_s, int64_t now_us, weir_limiter **limiter,
                               weir_message *message);

/* This loop uses none of those it found before, but for the last. Limiters above `most` that no
 * loop uses nor holds go, the least recently found first. */
void weir_throttle_end_turn(weir_throttle *throttle, unsigned loop);

/* The limiter of these figures, which a loop has found in the turn that it is in, stays until it is let go
 * as often as it was held. */
void weir_throttle_hold(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s);
void weir_throttle_let_go(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s);

/* How many there are. */
size_t weir_throttle_count(weir_throttle *throttle);

/* Adds up the counts of all there are and were, so far as counts->size has room. */
void weir_throttle_read_counts(weir_throttle *throttle, weir_limiter_counts *counts);

/* --- descriptors --------------------------------------------------------------------------------
 *
 * Which limit does a descriptor of a request mean? The domains of the descriptor files, immutable
 * once they are built.
 *
 * Keys are led by "/", which no name of a limiter has: "/DOMAIN/KEY=VALUE/KEY=VALUE", with '%', '/'
 * and '=' as %25, %2F and %3D. So no two descriptors share a count, save where share_threshold says
 * so: then the wildcard stands in the value's place. */

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

/* The way to the stores and limiters of a snapshot. */
typedef struct weir_descriptors_source {
  void *self;
  /* The limiter for a rule; NULL after a fault. */
  weir_limiter *(*find)(void *self, const weir_config_store *store, const char *rule,
                        weir_config_place place, const char *path);
  weir_store *(*store)(void *self, const weir_config_store *store);
} weir_descriptors_source;

/* NULL: no memory. Mistakes become faults. */
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

/* The node of `other` that the same requests have found as node `index` of `domain`, by its matches; NULL:
 * there is none. */
const weir_descriptor *weir_domain_counterpart(const weir_domain *domain, uint32_t index,
                                               const weir_domain *other);

/* Counts by the values of requests, for descriptors whose file asks so (detailed_metric,
 * value_to_metric). All loops share them; they are those of one snapshot. Any thread. */
enum {
  WEIR_DETAILS_MOST = 1000, /* paths of one domain; what comes then is "other" */
  WEIR_DETAIL_BYTES = 512   /* of one path; a longer one is "other", too */
};

/* How the requests of one limit came out. */
typedef enum weir_limit_outcome {
  WEIR_LIMIT_WITHIN,
  WEIR_LIMIT_OVER,
  WEIR_LIMIT_SHADOW, /* over, and answered as within */
  WEIR_LIMIT_NONE,   /* no decision */
  WEIR_LIMIT_OUTCOMES
} weir_limit_outcome;

typedef struct weir_limit_counts {
  _Atomic uint64_t requests[WEIR_LIMIT_OUTCOMES];
  _Atomic uint64_t hits[WEIR_LIMIT_OUTCOMES]; /* that they asked for */
  _Atomic uint64_t near; /* of the requests within: near_percent of the domain is used up */
} weir_limit_counts;

typedef struct weir_detail {
  weir_limit_counts counts;
  size_t length;
  char path[]; /* ends with a NUL */
} weir_detail;

/* Finds the counters of the node by the values of a request that has found it; NULL: its file asks
 * for none. Its path is KEY=VALUE/KEY/KEY=VALUE: with the request's own value where that is asked
 * for, else with the file's, if there is one. '%', '/', '=', '"', '\' and all that is no printable
 * ASCII are as %22. */
weir_detail *weir_domain_detail(const weir_domain *domain, const weir_descriptor *node,
                                const weir_entry *entries, size_t count);
/* Those of a domain; the first is "other". NULL: there are no more, or none at all. */
const weir_detail *weir_domain_detail_at(const weir_domain *domain, size_t index);

/* For requests that bring their own limit: the key of a descriptor, written likewise. */
size_t weir_domain_write_key(const weir_domain *domain, const weir_entry *entries, size_t count,
                             char *key, size_t room);

/* And the limiters of such limits; every turn that used them ends with weir_descriptors_end_turn(),
 * as weir_throttle_end_turn(). */
weir_throttle *weir_domain_throttle(const weir_domain *domain, weir_config_unit unit);
void weir_descriptors_end_turn(const weir_descriptors *descriptors, unsigned loop);

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

/* --- the registry -------------------------------------------------------------------------------
 */

enum { WEIR_NAMED_PREFIX_MOST = WEIR_CONFIG_NAME_MOST + 1 };

/* A class that requests of a limiter may be of: one of its rule, or of a tier's. */
typedef struct weir_named_class {
  char name[WEIR_CLASS_NAME_BYTES]; /* "": those of none */
} weir_named_class;

/* A limiter of the configuration. Read it; only registry.c writes. */
typedef struct weir_named {
  const weir_config_limiter *config;       /* its name, cost, enforced, headers, log_keys, key */
  size_t index;                            /* in the order of the file; of this snapshot alone */
  char prefix[WEIR_NAMED_PREFIX_MOST + 1]; /* "NAME:", which leads every key of this limiter */
  size_t prefix_length;
  weir_limiter *own;    /* of its own rule */
  weir_limiter **tiers; /* in the order of the configuration; NULL: unlimited or blocked */
  bool holds;           /* one of these does: weir_registry_holds() */
  bool needs_tenant;    /* one of these is asked with tenants */
  size_t first_class,
      class_count; /* in registry->classes, that of none the last; 0: no rule has any */
  weir_keymap overrides, allow, block;
} weir_named;

/* A group of the configuration. Read it; only registry.c writes. */
typedef struct weir_named_group {
  const char *name;
  size_t index; /* in the order of the file; of this snapshot alone */
  const weir_named *members[WEIR_CONFIG_MEMBERS_MOST];
  size_t member_count;
} weir_named_group;

/* A snapshot. Read it; only registry.c writes. */
typedef struct weir_registry {
  weir_config *config;
  weir_named *named; /* in the order of the file */
  size_t named_count;
  weir_named_class *classes; /* of all limiters */
  size_t class_count, class_room;
  weir_named_group *groups; /* in the order of the file */
  size_t group_count;
  weir_descriptors *descriptors; /* the domains of the descriptor files; there may be none */
  /* Made where throttle.enabled; else NULL. Lives as long as the snapshot, and in later ones that
   * mean the same. */
  weir_throttle *throttle;

  /* What may not be meant, as weir_registry_warn() was told and found, as far as there was room. */
  weir_message *warnings;
  size_t warning_count;

  atomic_size_t holders;
  weir_hash_table by_name;       /* of pointers to weir_named */
  weir_hash_table by_group_name; /* of pointers to weir_named_group */

  /* The parts that other snapshots may share: for registry.c alone. */
  struct weir_shared_store **stores; /* in the order of the configuration, some of them the same */
  size_t store_count;
  struct weir_shared_limiter **limiters; /* each once */
  size_t limiter_count, limiter_room;
  weir_hash_table by_meaning; /* of the same, as pointers */
  struct weir_shared_throttle *shared_throttle;
} weir_registry;

/* --- made, shared, let go ------------------------------------------------------------------- */

/* Builds what `config` means. It takes the configuration over, also when it fails. Stores and
 * limiters of `old` (NULL: none) that mean the same are carried over, with what they remember.
 *
 * NULL when there is any fault, those of reading the configuration included: each is in `faults`.
 * Opens stores, which may look names up for seconds: not from a loop. The caller has the first
 * reference. */
weir_registry *weir_registry_create(weir_config *config, const weir_registry *old,
                                    weir_config_faults *faults);

/* Warns where counts begin anew, of the library's rules (docs/changing-rules.md): of limiters and descriptors
 * that were in `old` (NULL: none), by their names; and of tiers of one limiter that do not share their
 * counts with one before, though they are one limit. What is not over by then stays in fresh->warnings. */
void weir_registry_warn(const weir_registry *old, weir_registry *fresh, weir_config_faults *faults);

/* Looks at a configuration for the caller of weir_registry_load(), and adds faults of its own to
 * the others. */
typedef void weir_registry_look(const weir_config *config, weir_config_faults *faults);

/* Reads `file`, builds it and warns. `look` may be NULL. `watch` may be NULL; else *watch (NULL at first)
 * is replaced by one of all files that were read for it, also when it fails, as the fault may be in
 * any of them. */
weir_registry *weir_registry_load(const char *file, const weir_registry *old,
                                  weir_registry_look *look, weir_config_watch **watch,
                                  weir_config_faults *faults);

weir_registry *weir_registry_retain(weir_registry *registry);
/* With the last reference everything goes that no other snapshot shares, and leases go back, which
 * may take a while: not in a loop. A thread that replaces a snapshot keeps its reference until
 * it is the last. NULL is fine. */
void weir_registry_release(weir_registry *registry);
/* Whether the caller's reference is the only one that is left. */
bool weir_registry_is_last(const weir_registry *registry);

/* A loop is handed a newer snapshot by this. Zero it before use. */
typedef struct weir_registry_mailbox {
  _Atomic(weir_registry *) next;
} weir_registry_mailbox;

/* Any thread: the mailbox gets a reference of its own; one that was not fetched is released. */
void weir_registry_post(weir_registry_mailbox *mailbox, weir_registry *registry);
/* The owner, once a turn: the newer one, if there is one, after releasing `current`; else
 * `current`. One atomic load where nothing was posted. */
weir_registry *weir_registry_fetch(weir_registry_mailbox *mailbox, weir_registry *current);
/* At the owner's end: releases what was not fetched. */
void weir_registry_mailbox_empty(weir_registry_mailbox *mailbox);

/* A limiter that stays, whatever becomes of the snapshot: what is held under it is paid for as before. Any
 * thread that holds the snapshot. */
typedef struct weir_shared_limiter weir_shared_limiter;
weir_shared_limiter *weir_registry_hold(const weir_registry *registry, const weir_limiter *limiter);
/* As weir_registry_release() does, with the last that holds it. */
void weir_registry_let_go(weir_shared_limiter *shared);

/* --- requests ------------------------------------------------------------------------------- */

/* NULL: no limiter has this name. */
const weir_named *weir_registry_find(const weir_registry *registry, const char *name,
                                     size_t length);

/* NULL: no group has this name. */
const weir_named_group *weir_registry_find_group(const weir_registry *registry, const char *name,
                                                 size_t length);

typedef enum weir_target_kind {
  WEIR_TARGET_LIMITER,
  WEIR_TARGET_UNLIMITED, /* allowed, no store asked: on the allow list, or its tier is unlimited */
  WEIR_TARGET_BLOCKED    /* denied, no store asked: on the block list, or its tier is blocked */
} weir_target_kind;

typedef struct weir_target {
  weir_target_kind kind;
  weir_limiter *limiter; /* NULL unless WEIR_TARGET_LIMITER */
  const char *tier;      /* its name; "" for the limiter's own rule and for the two lists */
} weir_target;

/* Block list, allow list, then overrides: in each the exact key before patterns, of these the
 * longest; else the limiter's own rule. */
weir_target weir_named_target(const weir_named *named, const void *key, size_t length);

/* Why it is that target: the list that the key stands in, and the key or pattern that stands for it there.
 * `list`: "block", "allow" or "overrides"; NULL: the key stands in none. */
typedef struct weir_named_entry {
  const char *list;
  const char *text; /* not terminated */
  size_t length;
} weir_named_entry;
weir_named_entry weir_named_find_entry(const weir_named *named, const void *key, size_t length);

/* Where requests of this class are counted, of registry->classes; SIZE_MAX: nowhere. NULL: of none. */
size_t weir_named_find_class(const weir_registry *registry, const weir_named *named,
                             const char *class_name);

/* Whether the limiter denies this key; else the key is in shadow mode. `enforced` keys of 10,000 are
 * denied: those of the limiter's name and key whose hash is least, so they are the same at each
 * server, and stay denied as the part grows. */
bool weir_named_enforces(const weir_named *named, const void *key, size_t length);

/* Whether what one of its rules admits is held until it is released: no take, but places. NULL: no. */
bool weir_registry_holds(const weir_limiter *limiter);

/* --- for metrics ---------------------------------------------------------------------------- */

/* Each weir_limiter once, limiter_count of them, with the name of its store in the configuration
 * (of the first that it serves). */
weir_limiter *weir_registry_limiter_at(const weir_registry *registry, size_t index,
                                       const char **store);

/* The stores in the order of the file; names with the same URL share one. */
weir_store *weir_registry_store_at(const weir_registry *registry, size_t index);

/* With which options a rule becomes a limiter: those of its store, and of whose rule it is; NULL: nobody's. */
weir_limiter_options weir_registry_options(const weir_config_store *store,
                                           const weir_config_limiter *config);

#endif
