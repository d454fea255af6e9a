/* Tells a run, one numbered line a step. Times are microseconds from the edge E. */
#include <inttypes.h>
#include <stdarg.h>

#include "algorithm/cells.h"
#include "mutants.h"
#include "truth.h"

static const char *const kinds[] = {"ADD", "SUB", "GET", "CREATE", "SWAP", "RAISE", "PUT", "DROP"};

void story_begin(const struct model *model, int number) {
  if (model->story != NULL)
    fprintf(model->story, "%5d. E%-+5" PRId64, number, model->world->real_us - model->edge_us);
}

void story_tell(const struct model *model, const char *format, ...) {
  if (model->story == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(model->story, format, arguments);
  va_end(arguments);
}

/* --- requests ----------------------------------------------------------------------------------
 */

static void tell_wanted(const struct model *model, const struct wanted *wanted) {
  static const char *const wishes[] = {"", " a look at", " a refund", " its place back"};
  story_tell(model, "%s", wishes[wanted->wish]);
  if (wanted->cost > 0)
    story_tell(model, "%s %" PRId64, wanted->up_to ? " up to" : "", wanted->cost);
  for (int i = 1; i < (int)model->stack.count && wanted->own_costs; i++)
    story_tell(model, "|%" PRId64, wanted->costs[i]);
  if (wanted->waits) story_tell(model, " within %" PRId64 " us", wanted->wait_us);
}

void story_start(const struct model *model, const struct client *client,
                 const struct request *request) {
  int64_t clock = world_clock_us(model, client);
  story_tell(model, "client %d asks for", world_client_number(model, client));
  for (int i = 0; i < GROUP_MOST && request->asks[i].given; i++) {
    if (i > 0) story_tell(model, " and");
    tell_wanted(model, &request->asks[i]);
  }
  story_tell(model, ", its clock reads E%+" PRId64, clock - model->edge_us);
  if (truth_of(model, 0) == &truth_window)
    story_tell(model, ", cell %" PRId64, window_cell_of(model, 0, clock));
}

/* --- operations --------------------------------------------------------------------------------
 */

static void tell_place(const struct model *model, int rule, weir_place place, int64_t index,
                       int64_t entry) {
  const weir_rule *layout = &model->stack.rules[rule];
  bool window = truth_of(model, rule) == &truth_window;
  if (model->stack.count > 1) story_tell(model, "rule %d ", rule);
  if (place == WEIR_PLACE_OPEN)
    story_tell(model, "open %" PRId64, index);
  else if (place == WEIR_PLACE_ENTRY)
    story_tell(model, "entry %" PRId64 ".%" PRId64, index, entry);
  else if (layout->kind == WEIR_QUOTA)
    story_tell(model, "count from E%+" PRId64, index - model->edge_us);
  else
    story_tell(model, "%s %" PRId64, weir_rule_is_bucket(layout) ? "bucket" : "counter", index);
  if (window && layout->lanes > 1)
    story_tell(model, " (cells %" PRId64 " to %" PRId64 ")", index * layout->lanes,
               (index + 1) * layout->lanes - 1);
}

/* A time of a bucket, from the edge; in whole microseconds where there are any. */
static void tell_time(const struct model *model, const weir_action *action, int64_t value) {
  const weir_rule *rule = &model->stack.rules[action->rule];
  int64_t unit = bucket_units(rule, 1);
  int64_t far = INT64_C(1) << 52;
  if (model->terms.traits & WEIR_TRAIT_RAISE) value += action->index * far;
  int64_t units = value - bucket_units(rule, model->edge_us);
  story_tell(model, "E%+" PRId64, units / unit);
  if (units % unit != 0) story_tell(model, "%+" PRId64 "/%" PRId64, units % unit, unit);
}

static void tell_cells(const struct model *model, const weir_rule *rule, int64_t counter) {
  int64_t counts[WEIR_LANES_MOST];
  weir_cells_decode(rule, counter, counts);
  for (int lane = 0; lane < rule->lanes; lane++)
    story_tell(model, "%s%" PRId64, lane > 0 ? " " : "", counts[lane]);
}

static void tell_value(const struct model *model, const weir_action *action, int64_t value) {
  const weir_rule *rule = &model->stack.rules[action->rule];
  if (weir_rule_is_bucket(rule))
    tell_time(model, action, value);
  else if (action->place == WEIR_PLACE_OPEN && value == 0)
    story_tell(model, "closed");
  else if (action->place != WEIR_PLACE_COUNT)
    story_tell(model, "E%+" PRId64,
               value - model->edge_us - (action->place == WEIR_PLACE_OPEN ? 1 : 0));
  else if (truth_of(model, (int)action->rule) != &truth_window)
    story_tell(model, "%" PRId64, value);
  else
    tell_cells(model, rule, value);
}

static void tell_amount(const struct model *model, const weir_action *action) {
  bool window = truth_of(model, (int)action->rule) == &truth_window;
  int64_t amount = action->delta;
  int64_t cell = window ? window_cell_meant(model, action, &amount) : 0;
  int lanes = model->stack.rules[action->rule].lanes;
  story_tell(model, " by %" PRId64, amount);
  if (window && lanes > 1) story_tell(model, " in lane %d", (int)(cell % lanes));
}

void story_operation(const struct model *model, const struct sent *sent) {
  const weir_action *action = &sent->action;
  weir_operation_kind kind = action->kind;
  bool gives = kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_GET || kind == WEIR_RAISE;
  if (model->story == NULL) return;
  story_tell(model, "%s%s%s ", kinds[kind],
             kind == WEIR_RAISE && !action->refresh ? " without refresh" : "",
             sent->half ? " (first half)" : "");
  tell_place(model, (int)action->rule, action->place, action->index, action->entry);
  if (kind == WEIR_RAISE) {
    story_tell(model, " to ");
    tell_time(model, action, action->floor);
  }
  if (kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_RAISE) tell_amount(model, action);
  if (kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT) {
    story_tell(model, " as ");
    tell_value(model, action, action->value);
  }
  if (action->outcome == WEIR_ABSENT) story_tell(model, ": absent");
  if (action->outcome == WEIR_CONFLICT) story_tell(model, ": conflict");
  if (action->outcome != WEIR_DONE || !gives) return;
  story_tell(model, ": ");
  tell_value(model, action, action->value);
}

void story_key(const struct model *model, const struct key *key) {
  tell_place(model, key->rule, (weir_place)key->place, key->index, key->entry);
}

/* --- answers -----------------------------------------------------------------------------------
 */

void story_decision(const struct model *model, const struct client *client, const weir_ask *ask) {
  if (model->story == NULL) return;
  const char *told = ask->decision.allowed ? "ADMITTED" : "denied";
  if (ask->kind == WEIR_ASK_REFUND) told = "given back";
  if (ask->status != WEIR_OK) told = weir_status_name(ask->status);
  story_tell(model, "; client %d: %" PRId64 " %s", world_client_number(model, client), ask->cost,
             told);
  if (ask->status != WEIR_OK || ask->kind == WEIR_ASK_REFUND) return;
  story_tell(model, " at E%+" PRId64, ask->decision.at_us - model->edge_us);
  if (ask->decision.allowed && ask->decision.delay_us > 0)
    story_tell(model, " after %" PRId64 " us", ask->decision.delay_us);
}

void story_end(const struct model *model) {
  story_tell(model, "\n");
}
