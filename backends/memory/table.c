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

static size_t mask(const weir_memory_table *table) {
  return table->capacity - 1;
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

/* The entry with this fingerprint, else the free place where it belongs. A quarter of the table is
 * always free, so the walk ends. */
static weir_memory_entry *locate(const weir_memory_table *table,
                                 weir_memory_fingerprint fingerprint) {
  for (size_t at = fingerprint.low & mask(table);; at = (at + 1) & mask(table)) {
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
  for (size_t at = (gap + 1) & mask(table); is_used(&table->entries[at]);
       at = (at + 1) & mask(table)) {
    size_t from_home = (at - table->entries[at].fingerprint.low) & mask(table);
    size_t from_gap = (at - gap) & mask(table);
    if (from_home < from_gap) continue;
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
      table->hand = (table->hand + 1) & mask(table);
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
    table->hand = (table->hand + 1) & mask(table);
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

static bool grow(weir_memory_table *table) {
  weir_memory_table larger = *table;
  larger.capacity *= 2;
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
  if (table->used >= table->capacity / 4 * 3 && !grow(table)) return NULL;
  weir_memory_entry *entry = locate(table, fingerprint);
  entry->fingerprint = fingerprint;
  entry->used = ++table->inserted;
  table->used++;
  return entry;
}
