/* A hash table: items of one size in open addressing, found by a hash under the table's own secret
 * and by the caller's comparison.
 *
 *     marks   [    ][ 9 ][    ][ 31 ][ 38 ][    ]     32 bits of the hash each; 0: nothing is here
 *     items   [    ][ .. ][    ][ .. ][ .. ][    ]     the caller's, in the same places
 *
 * The place of an item is where its mark falls among all marks, or the next free one behind that. A
 * search walks the marks, which lie close together, and looks at an item only where the mark is the
 * one that it wants. At least a quarter of the places is free.
 *
 * Not for tables that forget what does not fit, nor for several threads at once without a lock. */
#ifndef WEIR_COMMON_TABLE_H
#define WEIR_COMMON_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hash.h"

/* Items that have a text for a name are found by this. */
typedef struct weir_hash_text {
  const void *bytes;
  size_t length;
} weir_hash_text;

static inline bool weir_hash_text_is(const weir_hash_text *text, const void *bytes, size_t length) {
  return text->length == length && memcmp(text->bytes, bytes, length) == 0;
}

/* Whether `item` is what `key` asks for: both in the caller's form, `context` as given to init. */
typedef bool weir_hash_table_same(const void *context, const void *item, const void *key);

typedef struct weir_hash_table {
  unsigned char secret[WEIR_HASH_SECRET_BYTES];
  weir_hash_table_same *same;
  const void *context;
  size_t item_bytes;
  unsigned char *items; /* NULL until the first is added; the marks stand behind them */
  size_t room;          /* places */
  size_t count;         /* of items */
} weir_hash_table;

/* An empty one, under a new secret; takes no memory. `item_bytes` is a multiple of 4. */
void weir_hash_table_init(weir_hash_table *table, size_t item_bytes, weir_hash_table_same *same,
                          const void *context);
/* Frees the places; what items point to is the caller's. A table of zeroes may be cleaned up,
 * too. */
void weir_hash_table_clean_up(weir_hash_table *table);

/* The mark of these bytes. For items that are found by several things: the mark of the
 * marks of each. */
uint32_t weir_hash_table_mark(const weir_hash_table *table, const void *bytes, size_t length);

/* The item, or NULL. */
void *weir_hash_table_find(const weir_hash_table *table, uint32_t mark, const void *key);

/* Adds an item that is not there, all zeroes for the caller to fill. Other items may move. NULL:
 * not enough memory, and all is as it was. */
void *weir_hash_table_add(weir_hash_table *table, uint32_t mark);

/* Removes one of the table's items. Others may move. */
void weir_hash_table_remove(weir_hash_table *table, void *item);

/* Room for so many items, and no more than that, or than there are. False: not enough memory, and
 * all is as it was. */
bool weir_hash_table_fit(weir_hash_table *table, size_t items);

/* The items one after the other, in no order: the first after NULL; NULL after the last. */
void *weir_hash_table_next(const weir_hash_table *table, const void *item);

#endif
