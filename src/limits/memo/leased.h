/* What a table keeps of a key besides its memo where rules have a lease: the purse, and the key's
 * text, as its owner may have to give back when nobody asks for that key any more.
 *
 * Entries that hold something stand in one line for the whole table. Whoever leads a key looks at
 * the line now and then, and takes what others owe along.
 *
 * Locks: a shard's may be held when the line's is taken. Whoever has the line only tries a shard.
 */
#ifndef WEIR_MEMO_LEASED_H
#define WEIR_MEMO_LEASED_H

#include <pthread.h>
#include <stdatomic.h>

#include "key/key.h"
#include "memo/lease.h"
#include "memo/table.h"

/* Stands behind the memo of an entry, zeroed when that is made. */
typedef struct weir_leased {
  struct weir_leased *next, *before; /* in line; the line's lock guards these and the next */
  bool in_line;
  weir_memo_entry *entry; /* whose it is, set once; as is ... */
  size_t key_length;
  char key[WEIR_ENCODED_MOST]; /* as weir_key_encode() wrote it */
  weir_purse *purse;           /* behind it */
} weir_leased;

typedef struct weir_leased_line {
  pthread_mutex_t lock;
  weir_leased *first, *last;
  size_t count;
  _Atomic int64_t next_look_us; /* nobody need look before */
  _Atomic int64_t lost;         /* cost that was held by entries which were given up */
  const weir_lease *lease;
} weir_leased_line;

/* Bytes of a weir_leased for these rules. */
size_t weir_leased_bytes(const weir_stack *stack);

bool weir_leased_line_init(weir_leased_line *line, const weir_lease *lease);
void weir_leased_line_clean_up(weir_leased_line *line);

/* Whether anything of the entry is usable, held or owed. Its shard is locked. */
bool weir_leased_has_some(const weir_leased *leased);

/* The entry got a lot: from now on it stands in line. Its shard is locked. */
void weir_leased_enter(weir_leased_line *line, weir_memo_entry *entry);

/* The entry is about to go: what it held is lost. Its shard is locked. */
void weir_leased_leave(weir_leased_line *line, weir_leased *leased);

/* Whether it is time to look at the line: for one caller in a while. */
bool weir_leased_is_due(weir_leased_line *line, int64_t now_us);

/* An entry that owes a return at now_us and that nobody leads, its shard locked. NULL: there is
 * none among the first few. With `end` all are looked at, and what they hold is owed hereby. */
weir_memo_entry *weir_leased_find_owing(weir_leased_line *line, int64_t now_us, bool end);

#endif
