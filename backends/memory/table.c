#include "memory/table.h"

#include <stdlib.h>
#include <weir/backend.h>

enum {
  CAPACITY_LEAST = 4,
  SWEEP_STEPS =
      4, /* places looked at per insert: a whole round while a quarter of the table is filled */
  EVICT_SAMPLE = 16, /* entries compared when the table is full */
  EVICT_MOST = 64,   /* and while none of them is cheap */
  RECENT_DIVISOR = 4 /* the part of a table of insertions within which a use is recent */
};

static size_t next(const weir_memory_table *table, size_t at) {
  return at + 1 < table->capacity ? at + 1 : 0;
}

static void move_hand(weir_memory_table *table) {
  table->hand = (uint32_t)next(table, table->hand);
}

static bool is_used(const weir_memory_entry *entry) {
  return entry->expiry_us != 0;
}

bool weir_memory_table_init(weir_memory_table *table, size_t limit) {
  *table = (weir_memory_table){.capacity = CAPACITY_LEAST, .limit = limit};
  table->entries = calloc(table->capacity, sizeof *table->entries);
  return table->entries != NULL;
}

void weir_memory_table_clean_up(weir_memory_table *table) {
  free(table->entries);
  *table = (weir_memory_table){0};
}

/* The entry with this fingerprint, else the free place where it belongs. A part of the table is
 * always free, so the walk ends. */
static weir_memory_entry *locate(const weir_memory_table *table,
                                 weir_memory_fingerprint fingerprint) {
  for (size_t at = weir_memory_table_place(table, fingerprint);; at = next(table, at)) {
    weir_memory_entry *entry = &table->entries[at];
    if (!is_used(entry)) return entry;
    if (entry->fingerprint.low == fingerprint.low && entry->fingerprint.high == fingerprint.high)
      return entry;
  }
}

weir_memory_entry *weir_memory_table_find(weir_memory_table *table,
                                          weir_memory_fingerprint fingerprint, int64_t now_us) {
  weir_memory_entry *entry = locate(table, fingerprint);
  if (entry->expiry_us > now_us) {
    entry->used = table->inserted;
    return entry;
  }
  if (is_used(entry)) weir_memory_table_erase(table, entry);
  return NULL;
}

/* How far `at` stands behind `from`, around the end of the table. */
static size_t distance(const weir_memory_table *table, size_t from, size_t at) {
  return at >= from ? at - from : at + table->capacity - from;
}

/* Closes the gap: entries after it move back unless that puts them before the place where their
 * walk begins. */
void weir_memory_table_erase(weir_memory_table *table, weir_memory_entry *entry) {
  size_t gap = (size_t)(entry - table->entries);
  for (size_t at = next(table, gap); is_used(&table->entries[at]); at = next(table, at)) {
    size_t begin = weir_memory_table_place(table, table->entries[at].fingerprint);
    if (distance(table, begin, at) < distance(table, gap, at)) continue;
    table->entries[gap] = table->entries[at];
    gap = at;
  }
  table->entries[gap] = (weir_memory_entry){0};
  table->used--;
}

/* Insertions since it was used: a use is recent while they are few. */
static uint32_t age_of(const weir_memory_table *table, const weir_memory_entry *entry) {
  return table->inserted - entry->used;
}

/* In 1024ths of a limit, rounded, as the sum of many shares is not exact: equals must look equal.
 */
static uint32_t weight_of(const weir_memory_entry *entry) {
  const uint32_t step = WEIR_STAKE_WHOLE / 1024;
  return entry->stake / step + (entry->stake % step >= step / 2);
}

static weir_memory_entry *next_used(weir_memory_table *table) {
  weir_memory_entry *entry;
  do {
    entry = &table->entries[table->hand];
    move_hand(table);
  } while (!is_used(entry));
  return entry;
}

/* Places are random, so neighbours are a random sample. One that has expired goes at once. Else,
 * among the first 16 and as long as none of them is cheap, the lightest of those not used lately;
 * of equals, and where one was used lately, that which was used longest ago. */
static void evict(weir_memory_table *table, int64_t now_us) {
  const size_t recent = table->limit / RECENT_DIVISOR;
  weir_memory_entry *first = next_used(table);
  for (size_t met = 1; met < table->used && first->expiry_us > now_us; met++) {
    bool old = age_of(table, first) > recent;
    bool cheap = old && first->stake <= WEIR_STAKE_WHOLE / 2;
    if (met >= EVICT_SAMPLE && (met >= EVICT_MOST || cheap)) break;
    weir_memory_entry *entry = next_used(table);
    bool both_old = old && age_of(table, entry) > recent;
    bool goes = both_old && weight_of(entry) != weight_of(first)
                    ? weight_of(entry) < weight_of(first)
                    : age_of(table, entry) > age_of(table, first);
    if (entry->expiry_us <= now_us || goes) first = entry;
  }
  weir_memory_table_erase(table, first);
}

/* By a quarter, but not beyond what `limit` entries need. Entries stay in the order of their
 * places, so this reads and writes memory from one end to the other. */
static bool grow(weir_memory_table *table) {
  weir_memory_table larger = *table;
  size_t most = table->limit + table->limit / 4 + CAPACITY_LEAST;
  larger.capacity += table->capacity / 4 + CAPACITY_LEAST / 4;
  if (larger.capacity > most) larger.capacity = most;
  larger.entries = calloc(larger.capacity, sizeof *larger.entries);
  if (larger.entries == NULL) return false;
  for (size_t at = 0; at < table->capacity; at++) {
    const weir_memory_entry *entry = &table->entries[at];
    if (is_used(entry)) *locate(&larger, entry->fingerprint) = *entry;
  }
  free(table->entries);
  *table = larger;
  return true;
}

weir_memory_entry *weir_memory_table_insert(weir_memory_table *table,
                                            weir_memory_fingerprint fingerprint, int64_t now_us) {
  /* Looks at the next few places for what has expired. An erased entry may be followed into its
   * place by another, so the hand stays. */
  for (int step = 0; step < SWEEP_STEPS; step++) {
    weir_memory_entry *met = &table->entries[table->hand];
    if (is_used(met) && met->expiry_us <= now_us)
      weir_memory_table_erase(table, met);
    else
      move_hand(table);
  }
  if (table->used == table->limit) evict(table, now_us);
  /* Four fifths of the places are used at the most, and one is always free. */
  if (table->used >= table->capacity - table->capacity / 5 - 1 && !grow(table)) return NULL;
  weir_memory_entry *entry = locate(table, fingerprint);
  entry->fingerprint = fingerprint;
  entry->used = ++table->inserted;
  table->used++;
  return entry;
}
