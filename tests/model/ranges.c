/* Most of a world is zero in every run of a scope: rules, clients and requests that it has not.
 * Only the rest is saved, restored and hashed. All of it is made of 8-byte words. */
#include <string.h>

#include "cluster.h"
#include "truth.h"

static void add_own(struct model *model, int who, const void *from, size_t bytes) {
  size_t offset = (size_t)((const char *)from - (const char *)model->world);
  if (bytes == 0) return;
  model->ranges[model->range_count++] = (struct range){offset, bytes, who};
  model->live_bytes += bytes;
}

static void add(struct model *model, const void *from, size_t bytes) {
  add_own(model, ANYBODY, from, bytes);
}

static int request_count(const struct model *model, int client) {
  int count = 0;
  while (count < REQUESTS_MOST && model->requests[client][count].wanted[0].given)
    count++;
  return count;
}

static bool has_windows(const struct model *model) {
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i) == &truth_window) return true;
  return false;
}

static void add_client(struct model *model, int number) {
  struct world *world = model->world;
  struct client *client = &world->clients[number];
  weir_machine *machine = client->machine;
  char *end = (char *)machine + model->machine_bytes;
  size_t requests = (size_t)request_count(model, number);
  if (requests == 0) return;
  add(model, client, has_windows(model) ? sizeof *client : offsetof(struct client, seen));
  add_own(model, number, client->memo, model->memo_bytes);
  add_own(model, number, machine,
          offsetof(weir_machine, rule_states) + model->stack.count * sizeof(weir_rule_state));
  add_own(model, number, machine + 1,
          (size_t)(end - (char *)(machine + 1)) + model->operations_bytes);
  add_own(model, number, client->wallet, model->wallet_bytes);
  add(model, &world->records[number * REQUESTS_MOST * GROUP_MOST],
      requests * GROUP_MOST * sizeof(struct record));
}

void ranges_find(struct model *model) {
  struct world *world = model->world;
  add(model, world, offsetof(struct world, clients));
  for (int i = 0; i < CLIENTS_MOST; i++)
    add_client(model, i);
  add(model, world->keys, sizeof world->keys);
  add(model, &world->records[WANTED_MOST], BEFORE_MOST * sizeof(struct record));
  if (model->scope->flags & (LOSS | OVERDUE)) add(model, world->orphans, sizeof world->orphans);
  if (model->cluster != NULL) add(model, model->cluster, sizeof *model->cluster);
  if (has_windows(model)) add(model, world->shadow, 2 * sizeof world->shadow);
}

void ranges_save(const struct model *model, char *saved) {
  for (size_t i = 0; i < model->range_count; i++) {
    memcpy(saved, (const char *)model->world + model->ranges[i].offset, model->ranges[i].bytes);
    saved += model->ranges[i].bytes;
  }
}

void ranges_restore(struct model *model, const char *saved) {
  for (size_t i = 0; i < model->range_count; i++) {
    memcpy((char *)model->world + model->ranges[i].offset, saved, model->ranges[i].bytes);
    saved += model->ranges[i].bytes;
  }
}

enum { BLOCK_WORDS = 8 };

/* Whether a block is as it was; the compiler makes vectors of it. */
static bool same(const uint64_t *a, const uint64_t *b) {
  uint64_t differs = 0;
  for (size_t i = 0; i < BLOCK_WORDS; i++)
    differs |= a[i] ^ b[i];
  return differs == 0;
}

size_t ranges_compare(const struct model *model, const char *saved, int who,
                      struct change *changes) {
  const uint64_t *before = (const uint64_t *)saved;
  size_t count = 0;
  size_t done = 0; /* words of what is saved */
  for (size_t i = 0; i < model->range_count; i++) {
    size_t first = model->ranges[i].offset / sizeof(uint64_t);
    size_t words = model->ranges[i].bytes / sizeof(uint64_t);
    const uint64_t *now = (const uint64_t *)model->world + first;
    int owner = model->ranges[i].who;
    bool others = who != ANYBODY && owner != ANYBODY && owner != who;
    for (size_t block = 0; block < words && !others; block += BLOCK_WORDS) {
      size_t end = block + BLOCK_WORDS;
      if (end <= words && same(now + block, before + done + block)) continue;
      for (size_t at = block; at < end && at < words;
           at++) { /* no branch that is hard to foresee */
        changes[count] = (struct change){(uint16_t)(first + at), (uint16_t)(done + at)};
        count += now[at] != before[done + at];
      }
    }
    done += words;
  }
  return count;
}

void ranges_undo(struct model *model, const char *saved, const struct change *changes,
                 size_t count) {
  for (size_t i = 0; i < count; i++)
    ((uint64_t *)model->world)[changes[i].at] = ((const uint64_t *)saved)[changes[i].saved];
}
