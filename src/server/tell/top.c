/* The sketch of the keys of which there is most. It holds heavy hitters as in Metwally, Agrawal, El Abbadi,
 * "Efficient computation of frequent and top-k elements in data streams" (2005); merging as in Agarwal et
 * al., "Mergeable summaries" (2012). */
#include "tell/top.h"

#include <stdlib.h>
#include <string.h>

static size_t find(const weir_sketch *sketch, uint64_t hash) {
  size_t i = 0;
  while (i < sketch->count && sketch->hashes[i] != hash)
    i++;
  return i;
}

static size_t find_lowest(const weir_sketch *sketch) {
  size_t lowest = 0;
  for (size_t i = 1; i < sketch->count; i++)
    if (sketch->entries[i].count < sketch->entries[lowest].count) lowest = i;
  return lowest;
}

weir_sketch_key *weir_sketch_add(weir_sketch *sketch, uint64_t hash, uint64_t amount) {
  size_t at = find(sketch, hash);
  sketch->total += amount;
  if (at < sketch->count) {
    sketch->entries[at].count += amount;
    return NULL;
  }
  uint64_t floor = 0;
  if (sketch->count < WEIR_SKETCH_ENTRIES) {
    sketch->count++;
  } else {
    at = find_lowest(sketch);
    floor = sketch->entries[at].count;
  }
  sketch->hashes[at] = hash;
  sketch->entries[at] = (weir_sketch_entry){floor + amount, floor, {.hash = hash}};
  return &sketch->entries[at].key;
}

/* A key that is not in a sketch may have been added this much at most. */
static uint64_t floor_of(const weir_sketch *sketch) {
  if (sketch->count < WEIR_SKETCH_ENTRIES) return 0;
  return sketch->entries[find_lowest(sketch)].count;
}

/* The highest count first; of equals always in the same order. */
static int compare(const void *left, const void *right) {
  const weir_sketch_entry *a = left;
  const weir_sketch_entry *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return a->key.hash < b->key.hash ? -1 : a->key.hash > b->key.hash;
}

/* Replaces the entries by the highest of these. */
static void keep_highest(weir_sketch *sketch, weir_sketch_entry *entries, size_t count) {
  qsort(entries, count, sizeof *entries, compare);
  sketch->count = count < WEIR_SKETCH_ENTRIES ? count : WEIR_SKETCH_ENTRIES;
  for (size_t i = 0; i < sketch->count; i++) {
    sketch->entries[i] = entries[i];
    sketch->hashes[i] = entries[i].key.hash;
  }
}

void weir_sketch_merge(weir_sketch *sketch, const weir_sketch *other) {
  weir_sketch_entry all[2 * WEIR_SKETCH_ENTRIES];
  size_t count = 0;
  uint64_t floor = floor_of(sketch);
  uint64_t other_floor = floor_of(other);
  for (size_t i = 0; i < sketch->count; i++) {
    size_t at = find(other, sketch->hashes[i]);
    bool both = at < other->count;
    all[count] = sketch->entries[i];
    all[count].count += both ? other->entries[at].count : other_floor;
    all[count++].error += both ? other->entries[at].error : other_floor;
  }
  for (size_t i = 0; i < other->count; i++) {
    if (find(sketch, other->hashes[i]) < sketch->count) continue;
    all[count] = other->entries[i];
    all[count].count += floor;
    all[count++].error += floor;
  }
  sketch->total += other->total;
  keep_highest(sketch, all, count);
}

void weir_sketch_sort(weir_sketch *sketch) {
  weir_sketch_entry all[WEIR_SKETCH_ENTRIES];
  memcpy(all, sketch->entries, sketch->count * sizeof *all);
  keep_highest(sketch, all, sketch->count);
}
