/* Leased keys: what a table keeps of a key besides its memo, where rules have a lease: its stock (lease.h), and the
 * key's text, as its owner may have to give back when no request for that key comes any more.
 *
 * Entries that hold something stand in one line for the whole table. A thread that leads a key looks
 * at the line now and then, and takes what others owe along. An entry that the table gives up stays
 * in the line, and comes first, until what it owes has gone back: then the line frees it.
 *
 * Locks: a shard's may be held when the line's is taken. With the line's, a shard's is only tried.
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
  struct weir_leased *next, *before; /* in line; the line's lock guards these and the next two */
  bool in_line;
  bool due;               /* it is to be refilled */
  bool given_up;          /* by its table: the line has it alone */
  weir_memo_entry *entry; /* whose it is, set once; as is ... */
  size_t key_length;
  char key[WEIR_ENCODED_MOST]; /* as weir_key_encode() wrote it */
  weir_stock *stock;           /* behind it */
} weir_leased;

typedef struct weir_leased_list {
  weir_leased *first, *last;
  _Atomic size_t count;
} weir_leased_list;

typedef struct weir_leased_line {
  pthread_mutex_t lock;
  weir_leased_list known;       /* to the table */
  weir_leased_list due;         /* of these, those that are to be refilled */
  weir_leased_list given_up;    /* by it */
  _Atomic int64_t next_look_us; /* no look is due before, unless some were given up */
  _Atomic int64_t lost;         /* cost that was found lost with no group of its key under way */
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

/* Its table gives the entry up, and no thread can find it there any more. What it owes then goes back
 * first of all; what cannot go back is lost. False: the line has no use for it. Its shard is locked.
 */
bool weir_leased_give_up(weir_leased_line *line, weir_leased *leased);

/* A refill is due from now on; false: it was already. Its shard is locked. */
bool weir_leased_mark_due(weir_leased_line *line, weir_leased *leased);

/* Takes one of those that are due, its shard locked. NULL: there is none. No shard is locked before. */
weir_memo_entry *weir_leased_take_due(weir_leased_line *line);

/* Something of the entry went back. One that was given up and owes nothing more is freed: its shard
 * is locked, and stays so. */
void weir_leased_let_go(weir_leased_line *line, weir_leased *leased);

/* The clock was set back since: what the entry has is lost. Its shard is locked, and stays so. */
void weir_leased_forget(weir_leased_line *line, weir_leased *leased);

/* Whether it is time to look at all of the line: for one caller in a while. */
bool weir_leased_is_due(weir_leased_line *line, int64_t now_us);

/* How far to look: at those that were given up; at some others as well; at all, and what they hold
 * is owed hereby. */
typedef enum weir_leased_look {
  WEIR_LOOK_GIVEN_UP,
  WEIR_LOOK_SOME,
  WEIR_LOOK_END
} weir_leased_look;

/* An entry that owes a return at now_us and that no call leads, its shard locked. NULL: there is
 * none. */
weir_memo_entry *weir_leased_find_owing(weir_leased_line *line, int64_t now_us,
                                        weir_leased_look look);

#endif
