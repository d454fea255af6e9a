/* Most of a world is zero in every run of a scope: rules, clients and requests that it has not.
 * Only the rest is saved, restored and hashed. All of it is made of 8-byte words. */
#include <string.h>

#include "cluster.h"
#include "ranges.h"
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

static bool has_windows(const struct model *model) {
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i) == &truth_window) return true;
  return false;
}

/* A lease has the last record of its group. */
static void add_records(struct model *model, int number) {
  struct record *records = &model->world->records[number * REQUESTS_MOST * GROUP_MOST];
  for (int i = 0; i < REQUESTS_MOST * GROUP_MOST; i++) {
    const struct request *request = &model->requests[number][i / GROUP_MOST];
    bool leases = (model->wallet_bytes > 0 || model->outage_bytes > 0) && request->wanted[0].given;
    if (leases || request->wanted[i % GROUP_MOST].given) add(model, &records[i], sizeof *records);
  }
}

/* Others touch what stands last in it. */
static void add_client(struct model *model, int number) {
  struct client *client = &model->world->clients[number];
  weir_machine *machine = client->machine;
  char *end = (char *)machine + model->machine_bytes;
  size_t rules = model->stack.count;
  if (!model->requests[number][0].wanted[0].given) return;
  add_own(model, number, client, offsetof(struct client, met));
  add(model, &client->met, sizeof client->met);
  if (model->has_classes) add(model, &client->above, sizeof client->above);
  if (has_windows(model)) add(model, client->seen, rules * sizeof client->seen[0]);
  add_own(model, number, client->memo, model->memo_bytes);
  add_own(model, number, machine,
          offsetof(weir_machine, rule_states) + rules * sizeof(weir_rule_state));
  add_own(model, number, machine + 1,
          (size_t)(end - (char *)(machine + 1)) + model->operations_bytes);
  add_own(model, number, client->wallet, model->wallet_bytes);
  add_own(model, number, client->outage, model->outage_bytes);
  add_records(model, number);
}

static size_t charges_before(const struct model *model) {
  size_t count = 0;
  while (count < BEFORE_MOST && model->scope->before[count].cost != 0)
    count++;
  return count;
}

void ranges_find(struct model *model) {
  struct world *world = model->world;
  size_t rules = model->stack.count;
  add(model, world, offsetof(struct world, clients));
  for (int i = 0; i < CLIENTS_MOST; i++)
    add_client(model, i);
  add(model, &world->records[WANTED_MOST], charges_before(model) * sizeof(struct record));
  if (model->scope->flags & (LOSS | OVERDUE)) add(model, world->orphans, sizeof world->orphans);
  if (model->keys != NULL) add(model, world->past, sizeof world->past);
  if (model->cluster != NULL) add(model, model->cluster, sizeof *model->cluster);
  if (has_windows(model)) {
    add(model, world->shadow, rules * sizeof world->shadow[0]);
    add(model, world->owed, rules * sizeof world->owed[0]);
  }
  add(model, world->keys, sizeof world->keys); /* the last: most are never used */
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

enum { BLOCK_WORDS = 16 };

/* Which words of a block differ, one bit each. */
static unsigned differing(const uint64_t *a, const uint64_t *b, size_t words) {
  unsigned bits = 0;
  for (size_t i = 0; i < words; i++)
    bits |= (unsigned)(a[i] != b[i]) << i;
  return bits;
}

/* Keys are used in order, and stay so. */
static size_t key_words(const struct model *model) {
  size_t count = 0;
  while (count < KEYS_MOST && model->world->keys[count].used)
    count++;
  return count * sizeof(struct key) / sizeof(uint64_t);
}

size_t ranges_compare(const struct model *model, const char *saved, int who,
                      struct change *changes) {
  const uint64_t *before = (const uint64_t *)saved;
  size_t count = 0;
  size_t done = 0; /* words of what is saved */
  for (size_t i = 0; i < model->range_count; i++) {
    size_t first = model->ranges[i].offset / sizeof(uint64_t);
    size_t words = model->ranges[i].bytes / sizeof(uint64_t);
    if (i + 1 == model->range_count) words = key_words(model);
    const uint64_t *now = (const uint64_t *)model->world + first;
    int owner = model->ranges[i].who;
    bool others = who != ANYBODY && owner != ANYBODY && owner != who;
    size_t unlike = others || memcmp(now, before + done, words * sizeof *now) == 0 ? 0 : words;
    for (size_t block = 0; block < unlike; block += BLOCK_WORDS) {
      size_t length = words - block < BLOCK_WORDS ? words - block : BLOCK_WORDS;
      const uint64_t *old = before + done + block;
      if (memcmp(now + block, old, length * sizeof *old) == 0) continue;
      for (unsigned bits = differing(now + block, old, length); bits != 0; bits &= bits - 1) {
        size_t at = (size_t)__builtin_ctz(bits);
        changes[count++] =
            (struct change){(uint16_t)(first + block + at), (uint16_t)(done + block + at), old[at]};
      }
    }
    done += words;
  }
  return count;
}

void ranges_keep(const struct model *model, char *saved, const struct change *changes,
                 size_t count) {
  for (size_t i = 0; i < count; i++)
    ((uint64_t *)saved)[changes[i].saved] = ((const uint64_t *)model->world)[changes[i].at];
}

void ranges_undo(struct model *model, char *saved, const struct change *changes, size_t count) {
  for (size_t i = 0; i < count; i++)
    ((uint64_t *)model->world)[changes[i].at] = ((uint64_t *)saved)[changes[i].saved] =
        changes[i].old;
}
