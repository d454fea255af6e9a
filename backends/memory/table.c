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

/* The entries in use, of so many places: four fifths, and one place is always free. */
static size_t filled(size_t capacity) {
  return capacity - capacity / 5 - 1;
}

static size_t next(const weir_memory_table *table, size_t at) {
  return at + 1 < table->capacity ? at + 1 : 0;
}

/* How far `at` stands behind `from`, around the end of the table. */
static size_t distance(const weir_memory_table *table, size_t from, size_t at) {
  return at >= from ? at - from : at + table->capacity - from;
}

/* A part of the range of 32 bits for each place: no overflow, as both factors are below 2^32. */
size_t weir_memory_table_place(const weir_memory_table *table,
                               weir_memory_fingerprint fingerprint) {
  return (size_t)(((fingerprint.low >> 32) * table->capacity) >> 32);
}

void weir_memory_table_prefetch(const weir_memory_table *table,
                                weir_memory_fingerprint fingerprint) {
  __builtin_prefetch(&table->entries[weir_memory_table_place(table, fingerprint)], 1);
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
  if (!is_used(entry)) return NULL;
  if (entry->expiry_us > now_us) {
    entry->used = table->inserted;
    return entry;
  }
  weir_memory_table_erase(table, entry);
  return NULL;
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

/* Looks at the next few places. An erased entry may be followed into its place by another, so the
 * hand stays. */
static void sweep(weir_memory_table *table, int64_t now_us) {
  for (int step = 0; step < SWEEP_STEPS; step++) {
    weir_memory_entry *entry = &table->entries[table->hand];
    if (is_used(entry) && entry->expiry_us <= now_us)
      weir_memory_table_erase(table, entry);
    else
      table->hand = next(table, table->hand);
  }
}

/* Insertions since it was used. */
static uint32_t age_of(const weir_memory_table *table, const weir_memory_entry *entry) {
  return table->inserted - entry->used;
}

static bool is_recent(const weir_memory_table *table, const weir_memory_entry *entry) {
  return age_of(table, entry) <= table->limit / RECENT_DIVISOR;
}

/* In 1024ths of a limit, rounded, as the sum of many shares is not exact: equals must look equal.
 */
static uint32_t weight_of(const weir_memory_entry *entry) {
  const uint32_t step = WEIR_STAKE_WHOLE / 1024;
  return entry->stake / step + (entry->stake % step >= step / 2);
}

/* Whether `entry` is to go rather than `other`. */
static bool goes_before(const weir_memory_table *table, const weir_memory_entry *entry,
                        const weir_memory_entry *other) {
  bool both_old = !is_recent(table, entry) && !is_recent(table, other);
  if (both_old && weight_of(entry) != weight_of(other)) return weight_of(entry) < weight_of(other);
  return age_of(table, entry) > age_of(table, other);
}

static bool is_cheap(const weir_memory_table *table, const weir_memory_entry *entry) {
  return entry->stake <= WEIR_STAKE_WHOLE / 2 && !is_recent(table, entry);
}

static weir_memory_entry *next_used(weir_memory_table *table) {
  weir_memory_entry *entry;
  do {
    entry = &table->entries[table->hand];
    table->hand = next(table, table->hand);
  } while (!is_used(entry));
  return entry;
}

/* Places are random, so neighbours are a random sample. */
static void evict(weir_memory_table *table, int64_t now_us) {
  weir_memory_entry *first = next_used(table);
  for (size_t met = 1; met < table->used && first->expiry_us > now_us; met++) {
    if (met >= EVICT_SAMPLE && (met >= EVICT_MOST || is_cheap(table, first))) break;
    weir_memory_entry *entry = next_used(table);
    if (entry->expiry_us <= now_us || goes_before(table, entry, first)) first = entry;
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
  sweep(table, now_us);
  if (table->used == table->limit) evict(table, now_us);
  if (table->used >= filled(table->capacity) && !grow(table)) return NULL;
  weir_memory_entry *entry = locate(table, fingerprint);
  entry->fingerprint = fingerprint;
  entry->used = ++table->inserted;
  table->used++;
  return entry;
}
