#include "explore.h"

#include <stdlib.h>
#include <string.h>

#include "mutants.h"
#include "truth.h"

enum { DEPTH_MOST = 250, EXPLORED = 255 };

/* A state that was seen: 120 bits of its hash, and low in `b` the depth at which it was met, or
 * EXPLORED once all that follows it has been. */
struct seen {
  uint64_t a, b;
};

struct search {
  struct model model;
  struct seen *seen; /* open addressing, never more than half full */
  size_t mask;
  size_t count;
  int limit; /* steps in a run */
  int deepest;
  int length; /* of the failing run */
  struct step path[DEPTH_MOST];
  char *saved; /* a world for every depth */
  bool out_of_memory;
};

/* --- states that were seen ---------------------------------------------------------------------
 */

__extension__ typedef unsigned __int128 wide;

static uint64_t folded(uint64_t x, uint64_t y) {
  wide product = (wide)x * y;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two independent 64-bit hashes, sums over every word that is not zero, mixed with where it stands.
 * The constants are digits of pi. */
static struct seen hash_of(const struct model *model) {
  struct seen hash = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707345)};
  for (size_t i = 0; i < model->range_count; i++) {
    size_t end = model->ranges[i].offset + model->ranges[i].bytes;
    for (size_t at = model->ranges[i].offset; at < end; at += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, (const char *)model->world + at, sizeof word);
      if (word == 0) continue;
      hash.a += folded(word ^ UINT64_C(0x243f6a8885a308d3),
                       at * UINT64_C(0xa4093822299f31d1) + UINT64_C(0x452821e638d01377));
      hash.b += folded(word + UINT64_C(0x13198a2e03707345),
                       at * UINT64_C(0x082efa98ec4e6c89) ^ UINT64_C(0xbe5466cf34e90c6c));
    }
  }
  hash.b = folded(hash.b, UINT64_C(0xc0ac29b7c97c50dd)) << 8;
  return hash;
}

static struct seen *place_of(struct seen *table, size_t mask, const struct seen *hash) {
  size_t at = (size_t)hash->a & mask;
  while ((table[at].a != 0 || table[at].b != 0) &&
         (table[at].a != hash->a || (table[at].b ^ hash->b) >> 8 != 0))
    at = (at + 1) & mask;
  return &table[at];
}

static bool make_table(struct search *search, size_t size) {
  struct seen *larger = calloc(size, sizeof *larger);
  if (larger == NULL) return false;
  for (size_t i = 0; search->seen != NULL && i <= search->mask; i++)
    if (search->seen[i].a != 0 || search->seen[i].b != 0)
      *place_of(larger, size - 1, &search->seen[i]) = search->seen[i];
  free(search->seen);
  search->seen = larger;
  search->mask = size - 1;
  return true;
}

/* Whether all that follows this state has been explored, at least as far as from here. Without a
 * limit on the depth one visit is enough, and a state that comes again before all that follows it
 * has been explored follows itself: a run that never ends. */
static bool visited(struct search *search, int depth, const struct seen *hash) {
  struct seen *place = place_of(search->seen, search->mask, hash);
  bool known = place->a != 0 || place->b != 0;
  bool whole = search->limit == DEPTH_MOST;
  if (known && whole && (place->b & 255) != EXPLORED)
    check_fails(&search->model, CHECK_ENDLESS, "the same again, for ever");
  if (known && (whole || (int)(place->b & 255) <= depth)) return true;
  *place = (struct seen){hash->a, hash->b | (uint64_t)depth};
  if (known || ++search->count * 2 <= search->mask) return false;
  search->out_of_memory = !make_table(search, (search->mask + 1) * 2);
  return search->out_of_memory;
}

static void mark_explored(struct search *search, const struct seen *hash) {
  if (search->limit == DEPTH_MOST) place_of(search->seen, search->mask, hash)->b |= EXPLORED;
}

/* --- the search --------------------------------------------------------------------------------
 */

static bool fails(struct search *search, int depth) {
  if (depth == DEPTH_MOST)
    check_fails(&search->model, CHECK_ENDLESS, "%d steps, and no end", depth);
  search->length = depth;
  return search->model.failed != CHECK_NONE;
}

/* Explores all that can follow. True when a check failed: the path leads there. */
static bool descend(struct search *search, int depth) {
  struct model *model = &search->model;
  struct step steps[STEPS_MOST];
  if (depth > search->deepest) search->deepest = depth;
  size_t count = world_steps(model, steps);
  if (count == 0) check_end(model);
  if (fails(search, depth)) return true;
  struct seen hash = hash_of(model);
  if (depth == search->limit || visited(search, depth, &hash)) return fails(search, depth);
  char *saved = search->saved + (size_t)depth * model->live_bytes;
  ranges_save(model, saved);
  for (size_t i = 0; i < count; i++) {
    search->path[depth] = steps[i];
    world_apply(model, steps[i]);
    if (descend(search, depth + 1)) return true;
    ranges_restore(model, saved);
  }
  mark_explored(search, &hash);
  return false;
}

static bool search_to(struct search *search, int limit) {
  search->limit = limit;
  search->count = 0;
  search->deepest = 0;
  memset(search->seen, 0, (search->mask + 1) * sizeof *search->seen);
  world_reset(&search->model);
  return descend(search, 0);
}

static void tell(struct search *search, FILE *story) {
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

/* A run that fails within some steps is found within more: the least is between `holds`, within
 * which none does, and the length of the last that was found. */
static void find_shortest(struct search *search) {
  int holds = 0;
  int fails_in = search->length < DEPTH_MOST ? search->length : DEPTH_MOST - 1;
  while (fails_in - holds > 1) {
    int limit = (holds + fails_in) / 2;
    if (search_to(search, limit))
      fails_in = search->length;
    else
      holds = limit;
  }
  search_to(search, fails_in);
}

static void run(struct search *search, FILE *story, struct verdict *verdict) {
  bool failed = search_to(search, DEPTH_MOST);
  verdict->states = search->count;
  verdict->decisions = search->model.decisions;
  verdict->deepest = search->deepest;
  verdict->excess = search->model.excess;
  if (!failed) return;
  if (search->model.failed != CHECK_ENDLESS) find_shortest(search);
  verdict->failed = search->model.failed;
  verdict->length = search->length;
  snprintf(verdict->failure, sizeof verdict->failure, "%s", search->model.failure);
  if (story != NULL) tell(search, story);
}

bool explore(const struct scope *scope, const struct mutant *mutant, FILE *story,
             struct verdict *verdict) {
  struct search *search = calloc(1, sizeof *search);
  *verdict = (struct verdict){0};
  if (search == NULL) return false;
  bool ready = model_open(&search->model, scope, mutant) && make_table(search, 1 << 16);
  if (ready) search->saved = malloc(DEPTH_MOST * search->model.live_bytes);
  ready = ready && search->saved != NULL;
  if (ready) run(search, story, verdict);
  ready = ready && !search->out_of_memory;
  model_close(&search->model);
  free(search->saved);
  free(search->seen);
  free(search);
  return ready;
}
