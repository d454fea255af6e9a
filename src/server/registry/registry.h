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
#include "registry/descriptors.h"
#include "registry/keymap.h"
#include "registry/throttle.h"
#include "table.h"

enum { WEIR_NAMED_PREFIX_MOST = WEIR_CONFIG_NAME_MOST + 1 };

/* A limiter of the configuration. Read it; only registry.c writes. */
typedef struct weir_named {
  const weir_config_limiter *config;       /* its name, cost, shadow, headers, log_keys, key */
  size_t index;                            /* in the order of the file; of this snapshot alone */
  char prefix[WEIR_NAMED_PREFIX_MOST + 1]; /* "NAME:", which leads every key of this limiter */
  size_t prefix_length;
  weir_limiter *own;    /* of its own rule */
  weir_limiter **tiers; /* in the order of the configuration; NULL: unlimited or blocked */
  bool holds;           /* one of these does: weir_registry_holds() */
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
  weir_named_group *groups; /* in the order of the file */
  size_t group_count;
  weir_descriptors *descriptors; /* the domains of the descriptor files; there may be none */
  /* Of throttle.enabled; else NULL. Lives as long as the snapshot, and in later ones that mean the
   * same. */
  weir_throttle *throttle;

  atomic_size_t holders;
  weir_hash_table by_name;       /* of pointers to weir_named */
  weir_hash_table by_group_name; /* of pointers to weir_named_group */

  /* What other snapshots may share: for registry.c alone. */
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

/* Looks at a configuration for the caller of weir_registry_load(), and adds faults of its own to
 * the others. */
typedef void weir_registry_look(const weir_config *config, weir_config_faults *faults);

/* Reads `file` and builds it. `look` may be NULL. `watch` may be NULL; else *watch (NULL at first)
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

/* What a loop is handed a newer snapshot by. Zero it before use. */
typedef struct weir_registry_mailbox {
  _Atomic(weir_registry *) next;
} weir_registry_mailbox;

/* Any thread: the mailbox gets a reference of its own; one that was not fetched is released. */
void weir_registry_post(weir_registry_mailbox *mailbox, weir_registry *registry);
/* The owner, once a tick: the newer one, if there is one, after releasing `current`; else
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

/* Whether what one of its rules admits is held until it is released: no take, but places. NULL: no. */
bool weir_registry_holds(const weir_limiter *limiter);

/* --- for metrics ---------------------------------------------------------------------------- */

/* Each weir_limiter once, limiter_count of them, with the name of its store in the configuration
 * (of the first that it serves). */
weir_limiter *weir_registry_limiter_at(const weir_registry *registry, size_t index,
                                       const char **store);

/* The stores in the order of the file; names with the same URL share one. */
weir_store *weir_registry_store_at(const weir_registry *registry, size_t index);

#endif
