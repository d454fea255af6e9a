#include "table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { ROOM_LEAST = 8 };

static uint32_t *marks_of(const weir_hash_table *table) {
  return (uint32_t *)(void *)(table->items + table->room * table->item_bytes);
}

static unsigned char *item_at(const weir_hash_table *table, size_t place) {
  return table->items + place * table->item_bytes;
}

/* The place where the walk for a mark begins: in the order of marks, so any number of places will
 * do. */
static size_t home_of(const weir_hash_table *table, uint32_t mark) {
  return (size_t)((uint64_t)mark * table->room >> 32);
}

static size_t behind(const weir_hash_table *table, size_t place) {
  return place + 1 < table->room ? place + 1 : 0;
}

void weir_hash_table_init(weir_hash_table *table, size_t item_bytes, weir_hash_table_same *same,
                          const void *context) {
  assert(item_bytes > 0 && item_bytes % sizeof(uint32_t) == 0);
  *table = (weir_hash_table){.same = same, .context = context, .item_bytes = item_bytes};
  weir_random_secret(table->secret);
}

void weir_hash_table_clean_up(weir_hash_table *table) {
  free(table->items);
  table->items = NULL;
  table->room = table->count = 0;
}

uint32_t weir_hash_table_mark(const weir_hash_table *table, const void *bytes, size_t length) {
  return (uint32_t)weir_hash_64(table->secret, bytes, length);
}

/* As it stands in the table, where 0 is a free place. */
static uint32_t kept(uint32_t mark) {
  return mark != 0 ? mark : 1;
}

void *weir_hash_table_find(const weir_hash_table *table, uint32_t mark, const void *key) {
  if (table->count == 0) return NULL;
  mark = kept(mark);
  const uint32_t *marks = marks_of(table);
  for (size_t at = home_of(table, mark); marks[at] != 0; at = behind(table, at))
    if (marks[at] == mark && table->same(table->context, item_at(table, at), key))
      return item_at(table, at);
  return NULL;
}

/* The free place behind a mark's home takes the mark. */
static unsigned char *enter(weir_hash_table *table, uint32_t mark) {
  uint32_t *marks = marks_of(table);
  size_t at = home_of(table, mark);
  while (marks[at] != 0)
    at = behind(table, at);
  marks[at] = mark;
  return item_at(table, at);
}

/* Moves all to so many places, of which at least one stays free. */
static bool resize(weir_hash_table *table, size_t room) {
  const size_t place_bytes = table->item_bytes + sizeof(uint32_t);
  weir_hash_table old = *table;
  if (room > UINT32_MAX || room > SIZE_MAX / place_bytes) return false;
  unsigned char *items = calloc(room, place_bytes);
  if (items == NULL) return false;
  table->items = items;
  table->room = room;
  for (size_t at = 0; at < old.room; at++)
    if (marks_of(&old)[at] != 0)
      memcpy(enter(table, marks_of(&old)[at]), item_at(&old, at), table->item_bytes);
  free(old.items);
  return true;
}

bool weir_hash_table_fit(weir_hash_table *table, size_t items) {
  if (items < table->count) items = table->count;
  if (items > UINT32_MAX / 2) return false;
  size_t room = items + items / 3 + 1; /* three places of four */
  if (room < ROOM_LEAST) room = ROOM_LEAST;
  return room == table->room || resize(table, room);
}

void *weir_hash_table_add(weir_hash_table *table, uint32_t mark) {
  if (table->count >= table->room - table->room / 4) {
    size_t room = table->room > 0 ? 2 * table->room : ROOM_LEAST;
    if (!resize(table, room)) return NULL;
  }
  table->count++;
  return enter(table, kept(mark));
}

/* Items behind the gap move up into it, unless that would put them before their home. */
void weir_hash_table_remove(weir_hash_table *table, void *item) {
  uint32_t *marks = marks_of(table);
  size_t gap = (size_t)((unsigned char *)item - table->items) / table->item_bytes;
  for (size_t at = behind(table, gap); marks[at] != 0; at = behind(table, at)) {
    size_t home = home_of(table, marks[at]);
    bool stays = gap < at ? gap < home && home <= at : gap < home || home <= at;
    if (stays) continue;
    marks[gap] = marks[at];
    memcpy(item_at(table, gap), item_at(table, at), table->item_bytes);
    gap = at;
  }
  marks[gap] = 0;
  memset(item_at(table, gap), 0, table->item_bytes);
  table->count--;
}

void *weir_hash_table_next(const weir_hash_table *table, const void *item) {
  size_t at = 0;
  if (item != NULL)
    at = (size_t)((const unsigned char *)item - table->items) / table->item_bytes + 1;
  for (; at < table->room; at++)
    if (marks_of(table)[at] != 0) return item_at(table, at);
  return NULL;
}
