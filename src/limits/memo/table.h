/* The table: what a process keeps of its keys. One entry holds a key's memo and the requests that
 * wait while a group of the same key is under way, so that caching, local denial and combining are
 * one structure.
 *
 * Bounded: an entry that no call uses is given up when its shard is full, one that was not used
 * lately first. Entries in use stay, however many calls are under way. Keys are found by a hash under
 * a secret, which clients do not know: so none can choose keys that fall into one bucket. Their
 * fingerprints, which name counters, are computed once for an entry. Memory follows the keys: a shard
 * is made with the first of its keys, and its buckets double.
 *
 * Threads: an entry and its memo may be touched only while its shard is locked; who works on a memo
 * for longer copies it. What was denied a moment ago can be read without the lock (denials.h).
 */
#ifndef WEIR_MEMO_TABLE_H
#define WEIR_MEMO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm/algorithm.h"
#include "key/key.h"
#include "lock.h"
#include "memo/account.h"
#include "memo/denials.h"

typedef struct weir_table weir_table;
typedef struct weir_shard weir_shard;

typedef struct weir_memo_entry {
  struct weir_memo_entry *chain; /* next in its bucket */
  weir_key key;
  uint64_t fingerprint[2]; /* of the key: weir_key_hash() */
  weir_shard *shard;
  struct weir_memo_entry *ring; /* next of all in its shard */
  bool used;                    /* since the hand of the clock came by */
  bool busy;                    /* some call leads a group of this key */
  bool shown;                   /* perhaps: what is denied of the key */
  bool doubted : 1;             /* meanwhile something was given back beside that group */
  unsigned stand_ins : 2;       /* that have something to say of the key: see below */
  unsigned clock_steps;         /* of its limiter, when the memo was begun */
  weir_claim *first_waiting;    /* in the order they came */
  weir_claim *last_waiting;
  weir_memo *memo;
  weir_account *account;      /* what was admitted without the store; NULL: nothing */
  struct weir_leased *leased; /* lease.h; NULL: the rules have no lease */
} weir_memo_entry;

/* Bits of `stand_ins` (limiter/stand_in.h): the one that knows (a denial, or lots), and the one that diverts
 * (an account). */
enum { WEIR_KNOWS = 1, WEIR_DIVERTS = 2, WEIR_STAND_INS = 3 };

static inline void weir_memo_entry_mark(weir_memo_entry *entry, unsigned bit, bool has) {
  unsigned others = entry->stand_ins & ~bit;
  if (((entry->stand_ins & bit) != 0) == has) return;
  entry->stand_ins = (has ? others | bit : others) & WEIR_STAND_INS;
}

/* Takes that were counted under this lock: one addition, and no line that other threads add to. With
 * leases they needed no store; without, each needed one round trip. */
typedef struct weir_decided {
  uint64_t denied, allowed;
  uint64_t lease_used; /* cost */
} weir_decided;

/* A part of a table, with a lock of its own. It lives as long as the table; an entry that is neither
 * busy nor waited for may be gone as soon as its shard is unlocked. */
enum { WEIR_SHARD_ALIGNMENT = 64, WEIR_OWN_BUCKETS = 4 };
struct weir_shard {
  _Alignas(WEIR_SHARD_ALIGNMENT) weir_lock lock; /* guards what follows, table.c's alone */
  weir_memo_entry **buckets;                     /* `own`, until they double */
  size_t bucket_mask;
  size_t count;
  size_t most;
  weir_memo_entry *hand; /* on the ring of all entries: those behind it are looked at next */
  weir_decided decided;  /* under this lock */
  weir_memo_entry *own[WEIR_OWN_BUCKETS];
  int64_t halves_us; /* when the pools are next */
  void *of_owner;    /* its shard_bytes, which were zeroed */
  weir_pool pools[]; /* by rule */
};

static inline void weir_shard_count(weir_shard *shard, bool allowed) {
  *(allowed ? &shard->decided.allowed : &shard->decided.denied) += 1;
}

/* What becomes of an entry that the table would give up. */
typedef enum weir_parting {
  WEIR_STAYS, /* it is not given up now */
  WEIR_GOES,  /* the table frees it */
  WEIR_KEPT   /* who keeps it frees it; no key finds it any more */
} weir_parting;

/* Whose entries they are. */
typedef struct weir_table_owner {
  void *limiter;
  size_t bytes;       /* behind each memo */
  size_t shard_bytes; /* with each shard */

  /* A thread that refills has a shard's lock now and then: who waits for it does not sleep. */
  bool awake;
  void (*begin)(weir_memo_entry *entry, void *behind); /* NULL: nothing is to be done */

  /* An entry that no thread needs. `last`: others do not make room either. Its shard is locked. */
  weir_parting (*let_go)(void *limiter, weir_memo_entry *entry, bool last);
} weir_table_owner;

/* NULL when there is no memory. `keys` is the bound, 1 or more; of `rules` shares are pooled. Without an
 * owner (NULL) there is only the memo. `secret` is that of the keys, and stays where it is. */
weir_table *weir_table_create(size_t keys, size_t memo_bytes, size_t rules,
                              const weir_table_owner *owner,
                              const unsigned char secret[WEIR_KEY_SECRET_BYTES]);

/* Waits for no lock. */
void weir_table_destroy(weir_table *table);

/* The entry of a key, new if need be, its shard locked. NULL, and nothing locked, when there is no
 * memory. */
weir_memo_entry *weir_table_lock(weir_table *table, const weir_key *key);

/* Has weir_denials_read() find what the memo denies, or find nothing where it denies nothing:
 * to be called whenever a memo may have changed, before its shard is unlocked. `told`: as
 * weir_denials_write() has it. */
void weir_table_show_denial(weir_table *table, weir_memo_entry *entry, const weir_decision *told);

/* Has it find nothing more, where it may have found what the memo denies. */
void weir_table_hide_denial(weir_table *table, weir_memo_entry *entry);

/* Where denials can be read without a lock; they stay as long as the table. */
const weir_denials_place *weir_table_denials(const weir_table *table);

/* Takes over what groups have taught of each rule. The shard is locked. */
void weir_shard_learn(weir_shard *shard, weir_lesson *lessons, size_t rules, int64_t now_us);

/* What all groups have taught: one pool a rule. Locks all shards, one after another. */
void weir_table_read_pools(weir_table *table, weir_pool pools[WEIR_RULES_MOST]);

/* What was decided under the shards' locks. Locks them as well. */
weir_decided weir_table_decided(weir_table *table);

void weir_memo_entry_append(weir_memo_entry *entry, weir_claim *request);

/* Puts a list of requests before all who wait. */
void weir_memo_entry_put_first(weir_memo_entry *entry, weir_claim *first);

/* Takes `request` out of those waiting; it must be among them. */
void weir_memo_entry_withdraw(weir_memo_entry *entry, weir_claim *request);

/* Takes the first waiting requests that together cost at most `most`, always at least one. What is
 * marked `alone` comes alone, and so do resets and refunds. All of a group have one limit. */
weir_claim *weir_memo_entry_take_group(weir_memo_entry *entry, int64_t most);

#endif
