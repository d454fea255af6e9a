/* What must hold in every run. The arithmetic here is written from the definition of the rules, not
 * from src/algorithm. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "algorithm/cells.h"
#include "model.h"

static const char *const names[CHECK_COUNT] = {
    [CHECK_NONE] = "holds",  [CHECK_BOUND] = "bound",         [CHECK_DENIAL] = "denial",
    [CHECK_LANES] = "lanes", [CHECK_FORGOTTEN] = "forgotten", [CHECK_LEAK] = "leak",
    [CHECK_TTL] = "ttl",     [CHECK_REPEAT] = "repeat",       [CHECK_STATUS] = "status",
};

const char *check_name(enum check check) {
  return names[check];
}

/* The first failure of a run is the one that is told. */
void check_fails(struct model *model, enum check check, const char *format, ...) {
  if (model->failed != CHECK_NONE) return;
  model->failed = check;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(model->failure, sizeof model->failure, format, arguments);
  va_end(arguments);
}

/* --- operations --------------------------------------------------------------------------------
 */

/* A counter is needed until its last cell has left the window of the latest clock. */
void check_operation(struct model *model, const weir_action *action) {
  const weir_rule *rule = &model->stack.rules[action->rule];
  int64_t least = rule->lanes * rule->cell_us + rule->period_us + MARGIN_US;
  if (action->kind == WEIR_ADD && action->ttl_us < least)
    check_fails(model, CHECK_TTL, "a counter lives %" PRId64 " us, needed are %" PRId64,
                action->ttl_us, least);
}

/* Every lane holds what its cell holds, and no admitted cost is gone. */
void check_counter(struct model *model, int rule, int counter) {
  const struct world *world = model->world;
  int lanes = model->stack.rules[rule].lanes;
  for (int lane = 0; lane < lanes; lane++) {
    int64_t slot = counter * lanes + lane;
    if (slot >= CELLS_MOST) return;
    int64_t shadow = world->shadow[rule][slot] > 0 ? world->shadow[rule][slot] : 0;
    int64_t stored =
        weir_cells_decode(&model->stack.rules[rule], world->value[rule][counter], lane);
    int64_t cell = model->first_cell[rule] + slot;
    if (stored != shadow)
      check_fails(model, CHECK_LANES,
                  "cell %" PRId64 " was charged %" PRId64 ", its lane reads %" PRId64, cell, shadow,
                  stored);
    if (!world->evicted && world->shadow[rule][slot] < world->owed[rule][slot])
      check_fails(model, CHECK_FORGOTTEN, "cell %" PRId64 " holds %d of the %d it must hold", cell,
                  (int)world->shadow[rule][slot], (int)world->owed[rule][slot]);
  }
}

/* --- the bound ---------------------------------------------------------------------------------
 */

/* The most that any interval W of decision stamps may hold. */
static int64_t bound_of(const weir_rule *rule) {
  if (rule->kind == WEIR_FIXED_WINDOW || rule->strict) return rule->limit;
  if (rule->cells <= 2) return 2 * rule->limit;
  return rule->limit + (2 * rule->limit + rule->cells - 1) / rule->cells;
}

/* Whether an admission at `stamp` lies in the interval that begins with one at `first`. */
static bool same_interval(const weir_rule *rule, int64_t first, int64_t stamp) {
  if (rule->kind == WEIR_FIXED_WINDOW) return first / rule->period_us == stamp / rule->period_us;
  return stamp >= first && stamp < first + rule->period_us;
}

static void check_bound(struct model *model, int i) {
  const struct world *world = model->world;
  const weir_rule *rule = &model->stack.rules[i];
  int64_t bound = bound_of(rule) + world->slack[i];
  for (int first = 0; first < world->admitted_count; first++) {
    int64_t sum = 0;
    int64_t begin = world->admitted[first].stamp_us;
    for (int n = 0; n < world->admitted_count; n++)
      if (same_interval(rule, begin, world->admitted[n].stamp_us)) sum += world->admitted[n].cost;
    if (sum > bound)
      check_fails(model, CHECK_BOUND,
                  "rule %d: %" PRId64 " admitted from E%+" PRId64
                  " us on within one period, %" PRId64 " allowed",
                  i, sum, begin - model->edge_us, bound);
  }
}

/* --- decisions ---------------------------------------------------------------------------------
 */

static int64_t seen_in(const struct model *model, const struct client *client, int i,
                       int64_t cell) {
  int64_t slot = cell - model->first_cell[i];
  return slot >= 0 && slot < CELLS_MOST ? client->seen[i][slot] : 0;
}

/* Whether rule i denies `cost` at `stamp` with all that the client may have seen, and `group` more
 * of its own in the current cell. */
static bool denies(const struct model *model, const struct client *client, int i, int64_t stamp_us,
                   int64_t cost, int64_t group) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t width = rule->cell_us;
  int64_t current = stamp_us / width;
  int64_t inside = cost + group;
  if (rule->kind == WEIR_FIXED_WINDOW)
    return inside + seen_in(model, client, i, current) > rule->limit;
  int64_t edge = (stamp_us - rule->period_us) / width; /* stamps are far above one period */
  int64_t left = (edge + 1) * width - 1 - (stamp_us - rule->period_us);
  int64_t ahead = (stamp_us + MARGIN_US) / width > current ? current + 1 : current;
  for (int64_t cell = edge + 1; cell <= ahead; cell++)
    inside += seen_in(model, client, i, cell);
  int64_t old = seen_in(model, client, i, edge);
  int64_t upper = inside + (left > 0 ? old : 0);
  if (rule->strict) return upper > rule->limit;
  int64_t estimate = inside + (2 * old * left + width) / (2 * width);
  return estimate > rule->limit ||
         upper > rule->limit + (2 * rule->limit + rule->cells - 1) / rule->cells;
}

/* A denial must hold against what was in the store during the request, every charge in flight
 * included, and the asks before it in its group that were not denied themselves. */
static void check_denial(struct model *model, const struct client *client, const weir_ask *ask,
                         int64_t stamp_us) {
  int64_t group = 0;
  for (const weir_ask *other = client->asks; other != ask; other++)
    if (!other->settled || other->decision.allowed) group += other->cost;
  for (int i = 0; i < (int)model->stack.count; i++)
    if (denies(model, client, i, stamp_us, ask->cost, group)) return;
  check_fails(model, CHECK_DENIAL, "client %d was denied %" PRId64 " that fitted at E%+" PRId64,
              world_client_number(model, client), ask->cost, stamp_us - model->edge_us);
}

/* Keeps the admissions sorted, so that their order of arrival makes no different state. */
static void note_admission(struct world *world, struct charge charge) {
  int64_t at = world->admitted_count++;
  for (; at > 0; at--) {
    struct charge before = world->admitted[at - 1];
    if (before.stamp_us < charge.stamp_us ||
        (before.stamp_us == charge.stamp_us && before.cost <= charge.cost))
      break;
    world->admitted[at] = before;
  }
  world->admitted[at] = charge;
}

static void owe(struct model *model, int rule, int64_t stamp_us, int64_t cost) {
  int64_t slot = store_cell_of(model, rule, stamp_us) - model->first_cell[rule];
  if (slot < 0 || slot >= CELLS_MOST) return;
  model->world->owed[rule][slot] += (int32_t)cost;
  check_counter(model, rule, (int)slot / model->stack.rules[rule].lanes);
}

void check_decision(struct model *model, struct client *client, const weir_ask *ask,
                    int64_t stamp_us, bool charged) {
  model->decisions++;
  if (ask->status != WEIR_OK) {
    if (!client->late && !client->lost)
      check_fails(model, CHECK_STATUS, "client %d was told %s for nothing",
                  world_client_number(model, client), weir_status_name(ask->status));
    return;
  }
  bool allowed = ask->decision.allowed;
  if (allowed)
    note_admission(model->world, (struct charge){stamp_us, ask->cost});
  else
    check_denial(model, client, ask, stamp_us);
  for (int i = 0; i < (int)model->stack.count; i++) {
    if (allowed || (charged && model->stack.rules[i].count_all)) owe(model, i, stamp_us, ask->cost);
    if (allowed) check_bound(model, i);
  }
  if (!allowed && model->terms.local_denial) client->denied_us = stamp_us;
}

/* Denied out of the memo: as above with what was seen then, and not for long. */
void check_repeated(struct model *model, struct client *client, const weir_ask *ask,
                    int64_t stamp_us) {
  model->decisions++;
  if (ask->decision.allowed || stamp_us - client->denied_us >= REPEAT_US)
    check_fails(model, CHECK_REPEAT, "client %d repeats a denial of E%+" PRId64 " at E%+" PRId64,
                world_client_number(model, client), client->denied_us - model->edge_us,
                stamp_us - model->edge_us);
  check_denial(model, client, ask, stamp_us);
}

/* Nobody does anything any more: what is charged is what must be, but for what faults left behind.
 */
void check_end(struct model *model) {
  const struct world *world = model->world;
  for (int i = 0; i < (int)model->stack.count && !world->evicted; i++) {
    int64_t left = 0;
    for (int slot = 0; slot < CELLS_MOST; slot++)
      left += world->shadow[i][slot] - world->owed[i][slot];
    if (left > world->leak[i])
      check_fails(model, CHECK_LEAK,
                  "rule %d: %" PRId64 " stay charged that nobody used, %" PRId64
                  " explained by faults",
                  i, left, world->leak[i]);
  }
}
