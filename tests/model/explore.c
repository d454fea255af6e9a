#include "explore.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mutants.h"
#include "ranges.h"
#include "truth.h"

enum { DEPTH_MOST = 250, EXPLORED = 255 };

/* A state that was seen: 120 bits of its hash, and low in `b` whether all that follows it has been
 * explored. */
struct seen {
  uint64_t a, b;
};

/* How a state was first reached: by a step from another one. */
struct origin {
  uint32_t from;
  struct step step;
};

/* The states that are some number of steps away from the start, and the worlds there, packed. */
struct level {
  size_t first; /* the first one's number */
  size_t count, bytes, room;
  char *saved;
};

struct search {
  struct model model;
  struct seen *seen; /* open addressing, never more than half full */
  size_t mask;
  size_t count;
  int deepest;
  int length; /* of the failing run */
  struct step path[DEPTH_MOST];
  char *beginning;        /* the world in which every run begins */
  char *saved;            /* the one from which the next step is taken */
  struct change *changes; /* what the steps have changed, one behind the other */
  struct origin *origins; /* breadth first: one for every state */
  size_t origins_room;
  bool out_of_memory;
};

/* --- states that were seen ---------------------------------------------------------------------
 */

__extension__ typedef unsigned __int128 wide;

static uint64_t folded(uint64_t x, uint64_t y) {
  wide product = (wide)x * y;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two independent 64-bit hashes, sums over every word, mixed with where it stands, less the same of
 * the world in which all began: so what a step changed is all that has to be hashed. The constants
 * are digits of pi. */
struct sums {
  uint64_t a, b;
};

static struct sums sums_of(uint64_t word, uint64_t at) {
  if (word == 0) return (struct sums){0, 0};
  return (struct sums){folded(word ^ UINT64_C(0x243f6a8885a308d3),
                              at * UINT64_C(0xa4093822299f31d1) + UINT64_C(0x452821e638d01377)),
                       folded(word + UINT64_C(0x13198a2e03707345),
                              at * UINT64_C(0x082efa98ec4e6c89) ^ UINT64_C(0xbe5466cf34e90c6c))};
}

/* Of the world as it is, by what it was with these sums. */
static struct sums sums_now(const struct model *model, struct sums sums,
                            const struct change *changes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct sums old = sums_of(changes[i].old, changes[i].at);
    struct sums new = sums_of(((const uint64_t *)model->world)[changes[i].at], changes[i].at);
    sums.a += new.a - old.a;
    sums.b += new.b - old.b;
  }
  return sums;
}

static struct seen hash_of(struct sums sums) {
  return (struct seen){sums.a, folded(sums.b, UINT64_C(0xc0ac29b7c97c50dd)) << 8};
}

static struct seen *place_of(struct seen *table, size_t mask, const struct seen *hash) {
  size_t at = (size_t)hash->a & mask;
  while ((table[at].a != 0 || table[at].b != 0) &&
         (table[at].a != hash->a || (table[at].b ^ hash->b) >> 8 != 0))
    at = (at + 1) & mask;
  return &table[at];
}

static void drop_table(struct search *search) {
  if (search->seen != NULL) munmap(search->seen, (search->mask + 1) * sizeof *search->seen);
}

/* Each state falls somewhere else: on small pages it takes as long to find the page as the state. */
static bool make_table(struct search *search, size_t size) {
  size_t bytes = size * sizeof(struct seen);
  struct seen *larger =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (larger == MAP_FAILED) return false;
  madvise(larger, bytes, MADV_HUGEPAGE); /* a kernel may have none */
  for (size_t i = 0; search->seen != NULL && i <= search->mask; i++)
    if (search->seen[i].a != 0 || search->seen[i].b != 0)
      *place_of(larger, size - 1, &search->seen[i]) = search->seen[i];
  drop_table(search);
  search->seen = larger;
  search->mask = size - 1;
  return true;
}

/* Enters a state; NULL: it is known. */
static struct seen *enter(struct search *search, const struct seen *hash) {
  struct seen *place = place_of(search->seen, search->mask, hash);
  if (place->a != 0 || place->b != 0) return NULL;
  *place = *hash;
  if (++search->count * 2 <= search->mask) return place;
  if (make_table(search, (search->mask + 1) * 2)) return place;
  search->out_of_memory = true;
  return NULL;
}

static void forget_states(struct search *search) {
  search->count = 0;
  search->deepest = 0;
  memset(search->seen, 0, (search->mask + 1) * sizeof *search->seen);
  world_reset(&search->model);
}

/* --- every run, depth first --------------------------------------------------------------------
 */

static bool fails(struct search *search, int depth) {
  if (depth == DEPTH_MOST)
    check_fails(&search->model, CHECK_ENDLESS, "%d steps, and no end", depth);
  search->length = depth;
  return search->model.failed != CHECK_NONE;
}

/* Whether there is nothing new to explore from here. A state that comes again before all that
 * follows it has been explored follows itself: a run that never ends. */
static bool visited(struct search *search, const struct seen *hash) {
  if (enter(search, hash) != NULL) return false;
  if (search->out_of_memory) return true;
  if ((place_of(search->seen, search->mask, hash)->b & 255) != EXPLORED)
    check_fails(&search->model, CHECK_ENDLESS, "the same again, for ever");
  return true;
}

/* Explores all that can follow; what changes goes behind those changes. True when a check failed: the
 * path leads there. */
static bool descend(struct search *search, int depth, struct sums sums, struct change *changes) {
  struct model *model = &search->model;
  struct step steps[STEPS_MOST];
  if (depth > search->deepest) search->deepest = depth;
  struct seen hash = hash_of(sums);
  if (fails(search, depth)) return true;
  if (visited(search, &hash)) return fails(search, depth);
  size_t count = world_steps(model, steps);
  if (count == 0) check_end(model);
  if (fails(search, depth)) return true;
  for (size_t i = 0; i < count; i++) {
    search->path[depth] = steps[i];
    world_apply(model, steps[i]);
    size_t changed = ranges_compare(model, search->saved, steps[i].who, changes);
    ranges_keep(model, search->saved, changes, changed);
    struct sums then = sums_now(model, sums, changes, changed);
    if (descend(search, depth + 1, then, changes + changed)) return true;
    ranges_undo(model, search->saved, changes, changed);
  }
  place_of(search->seen, search->mask, &hash)->b |= EXPLORED;
  return false;
}

static bool explore_all(struct search *search) {
  forget_states(search);
  ranges_save(&search->model, search->saved);
  return descend(search, 0, (struct sums){0, 0}, search->changes);
}

/* --- the shortest run that fails, breadth first ------------------------------------------------
 */

/* Room for more than `count` pieces of `size` bytes. */
static bool make_room(void **pieces, size_t *room, size_t count, size_t size) {
  size_t larger = *room == 0 ? 1024 : *room;
  if (count < *room) return true;
  while (count >= larger)
    larger *= 2;
  void *moved = realloc(*pieces, larger * size);
  if (moved == NULL) return false;
  *pieces = moved;
  *room = larger;
  return true;
}

/* A world in a level: its sums, and the words in which it differs from the world in which all
 * began. */
struct packed {
  struct sums sums;
  size_t count;
};

/* Each word without the gap in a change. */
enum { PLACE_BYTES = 2 * sizeof(uint16_t), PACKED_BYTES = PLACE_BYTES + sizeof(uint64_t) };

static void pack(const struct model *model, struct packed head, const struct change *changes,
                 char *packed) {
  memcpy(packed, &head, sizeof head);
  packed += sizeof head;
  for (size_t i = 0; i < head.count; i++, packed += PACKED_BYTES) {
    memcpy(packed, &changes[i], PLACE_BYTES);
    memcpy(packed + PLACE_BYTES, (const uint64_t *)model->world + changes[i].at, sizeof(uint64_t));
  }
}

/* Makes the world, and what is saved, that one: `changes` lead back to the beginning. */
static const char *unpack(struct search *search, const char *packed, struct packed *head,
                          struct change *changes) {
  memcpy(head, packed, sizeof *head);
  packed += sizeof *head;
  for (size_t i = 0; i < head->count; i++, packed += PACKED_BYTES) {
    struct change *change = &changes[i];
    memcpy(change, packed, PLACE_BYTES);
    memcpy((uint64_t *)search->model.world + change->at, packed + PLACE_BYTES, sizeof(uint64_t));
    change->old = ((const uint64_t *)search->beginning)[change->saved];
  }
  ranges_keep(&search->model, search->saved, changes, head->count);
  return packed;
}

/* Adds the world as it is to the next level, unless it was met before. */
static void reach(struct search *search, struct level *next, struct sums sums, uint32_t from,
                  struct step step, struct change *changes) {
  struct model *model = &search->model;
  struct seen hash = hash_of(sums);
  void *origins = search->origins;
  void *saved = next->saved;
  if (enter(search, &hash) == NULL) return;
  struct packed head = {sums, ranges_compare(model, search->beginning, ANYBODY, changes)};
  size_t bytes = sizeof head + head.count * PACKED_BYTES;
  bool enough = make_room(&origins, &search->origins_room, search->count, sizeof(struct origin)) &&
                make_room(&saved, &next->room, next->bytes + bytes, 1);
  search->origins = origins;
  next->saved = saved;
  if (!enough) {
    search->out_of_memory = true;
    return;
  }
  search->origins[search->count - 1] = (struct origin){from, step};
  pack(model, head, changes, next->saved + next->bytes);
  next->bytes += bytes;
  next->count++;
}

/* The path to a state, found backwards. */
static void trace_back(struct search *search, size_t number, int length) {
  search->length = length;
  for (int at = length; at > 0; at--) {
    search->path[at - 1] = search->origins[number].step;
    number = search->origins[number].from;
  }
}

/* All steps from one state of a level, which is the world as it is. True when a check failed: the
 * path leads there. */
static bool expand(struct search *search, struct sums sums, size_t number, struct level *next,
                   struct change *changes) {
  struct model *model = &search->model;
  struct step steps[STEPS_MOST];
  size_t count = world_steps(model, steps);
  if (count == 0) check_end(model);
  if (model->failed != CHECK_NONE) trace_back(search, number, search->deepest);
  for (size_t j = 0; j < count && !search->out_of_memory; j++) {
    world_apply(model, steps[j]);
    if (model->failed != CHECK_NONE) {
      trace_back(search, number, search->deepest);
      search->path[search->length++] = steps[j];
      return true;
    }
    size_t changed = ranges_compare(model, search->saved, steps[j].who, changes);
    struct sums then = sums_now(model, sums, changes, changed);
    reach(search, next, then, (uint32_t)number, steps[j], changes + changed);
    ranges_undo(model, search->saved, changes, changed);
  }
  return model->failed != CHECK_NONE;
}

static bool advance(struct search *search, const struct level *level, struct level *next) {
  const char *packed = level->saved;
  struct packed head;
  next->first = level->first + level->count;
  next->count = next->bytes = 0;
  for (size_t i = 0; i < level->count && !search->out_of_memory; i++) {
    struct change *changes = search->changes;
    packed = unpack(search, packed, &head, changes);
    if (expand(search, head.sums, level->first + i, next, changes + head.count)) return true;
    ranges_undo(&search->model, search->saved, changes, head.count);
  }
  return false;
}

static bool find_shortest(struct search *search) {
  struct level levels[2] = {{.first = 0}, {.first = 0}};
  bool failed = false;
  forget_states(search);
  ranges_save(&search->model, search->saved);
  reach(search, &levels[0], (struct sums){0, 0}, 0, (struct step){0}, search->changes);
  for (int at = 0; levels[at].count > 0 && !failed && search->deepest < DEPTH_MOST - 1; at = !at) {
    failed = advance(search, &levels[at], &levels[!at]);
    if (!failed) search->deepest++;
  }
  free(levels[0].saved);
  free(levels[1].saved);
  return failed;
}

/* --- what was found ----------------------------------------------------------------------------
 */

static void report(struct search *search, FILE *story) {
  struct model *model = &search->model;
  world_reset(model);
  model->story = story;
  for (int i = 0; i < search->length; i++) {
    story_begin(model, i + 1);
    world_apply(model, search->path[i]);
    story_end(model);
  }
  if (model->failed == CHECK_NONE) check_end(model);
  fprintf(story, "      => %s: %s\n", check_name(model->failed), model->failure);
}

/* Depth first most mistakes show sooner, but some by another check than theirs. */
static bool find_mistake(struct search *search, const struct mutant *mutant, bool shortest) {
  bool endless = mutant->killed_by == CHECK_ENDLESS; /* which no search by breadth meets */
  if ((endless || !shortest) && explore_all(search) && search->model.failed == mutant->killed_by)
    return true;
  return find_shortest(search);
}

static void run(struct search *search, const struct mutant *mutant, bool shortest, FILE *story,
                struct verdict *verdict) {
  bool mistaken = mutant->killed_by != CHECK_NONE;
  bool failed = mistaken ? find_mistake(search, mutant, shortest) : explore_all(search);
  verdict->states = search->count;
  verdict->decisions = search->model.decisions;
  verdict->deepest = search->deepest;
  if (!failed || search->out_of_memory) return;
  if (!mistaken && search->model.failed != CHECK_ENDLESS) find_shortest(search);
  verdict->failed = search->model.failed;
  verdict->length = search->length;
  snprintf(verdict->failure, sizeof verdict->failure, "%s", search->model.failure);
  if (story != NULL) report(search, story);
}

/* Most of it is never touched. */
static bool make_worlds(struct search *search) {
  size_t bytes = search->model.live_bytes;
  search->beginning = malloc(bytes);
  search->saved = malloc(bytes);
  search->changes = malloc((DEPTH_MOST * bytes / sizeof(uint64_t) + 1) * sizeof(struct change));
  if (search->beginning == NULL || search->saved == NULL || search->changes == NULL) return false;
  ranges_save(&search->model, search->beginning);
  return true;
}

bool explore(const struct scope *scope, const struct mutant *mutant, bool shortest, FILE *story,
             struct verdict *verdict) {
  struct search *search = calloc(1, sizeof *search);
  *verdict = (struct verdict){0};
  if (search == NULL) return false;
  bool ready = model_open(&search->model, scope, mutant) && make_table(search, 1 << 16) &&
               make_worlds(search);
  if (ready) run(search, mutant, shortest, story, verdict);
  ready = ready && !search->out_of_memory;
  model_close(&search->model);
  free(search->origins);
  free(search->beginning);
  free(search->saved);
  free(search->changes);
  drop_table(search);
  free(search);
  return ready;
}
