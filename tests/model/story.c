/* Prints a run, one numbered line a step. Times are microseconds from the edge E. */
#include <inttypes.h>
#include <stdarg.h>

#include "algorithm/window.h"
#include "mutants.h"
#include "truth.h"

static const char *const kinds[] = {"ADD", "SUB", "GET", "CREATE", "SWAP", "RAISE", "PUT", "DROP"};

void story_begin(const struct model *model, int number) {
  if (model->story != NULL)
    fprintf(model->story, "%5d. E%-+5" PRId64, number, model->world->real_us - model->edge_us);
}

void story_print(const struct model *model, const char *format, ...) {
  if (model->story == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(model->story, format, arguments);
  va_end(arguments);
}

/* --- requests ----------------------------------------------------------------------------------
 */

static void print_wanted(const struct model *model, const struct wanted *wanted) {
  static const char *const wishes[] = {[TAKES] = "",
                                       [PEEKS] = " a look at",
                                       [REFUNDS] = " a refund",
                                       [CANCELS] = " its place back",
                                       [RETURNS] = " no lease",
                                       [SETTLES] = " the real cost",
                                       [RENEWS] = " its places once more",
                                       [REFILLS] = " a refill",
                                       [NEXTS] = " some of the next window"};
  story_print(model, "%s", wishes[wanted->wish]);
  if (wanted->cost > 0)
    story_print(model, "%s %" PRId64, wanted->up_to ? " up to" : "", wanted->cost);
  for (int i = 1; i < (int)model->stack.count && wanted->own_costs; i++)
    story_print(model, "|%" PRId64, wanted->costs[i]);
  if (wanted->waits) story_print(model, " within %" PRId64 " us", wanted->wait_us);
}

void story_start(const struct model *model, const struct client *client,
                 const struct request *request) {
  int64_t clock = world_clock_us(model, client);
  story_print(model, "client %d asks for", world_client_number(model, client));
  for (int i = 0; i < GROUP_MOST && request->wanted[i].given; i++) {
    if (i > 0) story_print(model, " and");
    print_wanted(model, &request->wanted[i]);
  }
  story_print(model, ", its clock reads E%+" PRId64, clock - model->edge_us);
  if (truth_of(model, 0) == &truth_window)
    story_print(model, ", cell %" PRId64, window_cell_of(model, 0, clock));
}

/* --- operations --------------------------------------------------------------------------------
 */

static void print_place(const struct model *model, int rule, weir_place place, int64_t index,
                        int64_t entry) {
  const weir_rule *layout = &model->stack.rules[rule];
  bool window = truth_of(model, rule) == &truth_window;
  if (model->stack.count > 1) story_print(model, "rule %d ", rule);
  if (place == WEIR_PLACE_OPEN)
    story_print(model, "open %" PRId64, index);
  else if (truth_of(model, rule) == &truth_shared)
    shared_print_place(model, place, index, entry);
  else if (place == WEIR_PLACE_ENTRY)
    story_print(model, "entry %" PRId64 ".%" PRId64, index, entry);
  else if (layout->kind == WEIR_QUOTA)
    story_print(model, "count from E%+" PRId64, index - model->edge_us);
  else
    story_print(model, "%s %" PRId64, weir_rule_moves_in_time(layout) ? "bucket" : "counter",
                index);
  if (window && layout->lanes > 1)
    story_print(model, " (cells %" PRId64 " to %" PRId64 ")", index * layout->lanes,
                (index + 1) * layout->lanes - 1);
}

/* A time of a bucket, from the edge; in whole microseconds where there are any. */
static void print_time(const struct model *model, const weir_operation *operation, int64_t value) {
  const weir_rule *rule = &model->stack.rules[operation->counter.rule];
  int64_t unit = bucket_units(rule, 1);
  int64_t far = INT64_C(1) << 52;
  if (model->settings.traits & WEIR_TRAIT_RAISE) value += operation->counter.index * far;
  int64_t units = value - bucket_units(rule, model->edge_us);
  story_print(model, "E%+" PRId64, units / unit);
  if (units % unit != 0) story_print(model, "%+" PRId64 "/%" PRId64, units % unit, unit);
}

static void print_cells(const struct model *model, const weir_rule *rule, int64_t counter) {
  int64_t counts[WEIR_LANES_MOST];
  weir_cells_decode(rule, counter, counts);
  for (int lane = 0; lane < rule->lanes; lane++)
    story_print(model, "%s%" PRId64, lane > 0 ? " " : "", counts[lane]);
}

static void print_value(const struct model *model, const weir_operation *operation, int64_t value) {
  const weir_rule *rule = &model->stack.rules[operation->counter.rule];
  if (weir_rule_moves_in_time(rule))
    print_time(model, operation, value);
  else if (operation->counter.place == WEIR_PLACE_OPEN && value == 0)
    story_print(model, "closed");
  else if (operation->counter.place != WEIR_PLACE_COUNT &&
           truth_of(model, (int)operation->counter.rule) != &truth_shared)
    story_print(model, "E%+" PRId64,
                value - model->edge_us - (operation->counter.place == WEIR_PLACE_OPEN ? 1 : 0));
  else if (truth_of(model, (int)operation->counter.rule) != &truth_window)
    story_print(model, "%" PRId64, value);
  else
    print_cells(model, rule, value);
}

static void print_amount(const struct model *model, const weir_operation *operation) {
  bool window = truth_of(model, (int)operation->counter.rule) == &truth_window;
  int64_t amount = operation->delta;
  int64_t cell = window ? window_cell_meant(model, operation, &amount) : 0;
  int lanes = model->stack.rules[operation->counter.rule].lanes;
  story_print(model, " by %" PRId64, amount);
  if (window && lanes > 1) story_print(model, " in lane %d", (int)(cell % lanes));
}

void story_operation(const struct model *model, const struct sent *sent) {
  const weir_operation *operation = &sent->operation;
  weir_operation_kind kind = operation->kind;
  bool gives = kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_GET || kind == WEIR_RAISE;
  if (model->story == NULL) return;
  story_print(model, "%s%s%s ", kinds[kind],
              kind == WEIR_RAISE && !operation->refresh ? " without refresh" : "",
              sent->half ? " (first half)" : "");
  print_place(model, (int)operation->counter.rule, operation->counter.place,
              operation->counter.index, operation->counter.entry);
  if (kind == WEIR_RAISE) {
    story_print(model, " to ");
    print_time(model, operation, operation->floor);
  }
  if (kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_RAISE) print_amount(model, operation);
  if (kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT) {
    story_print(model, " as ");
    print_value(model, operation, operation->value);
  }
  if (operation->outcome == WEIR_ABSENT) story_print(model, ": absent");
  if (operation->outcome == WEIR_CONFLICT) story_print(model, ": conflict");
  if (operation->outcome == WEIR_FULL) story_print(model, ": refused");
  if (operation->outcome != WEIR_DONE || !gives) return;
  story_print(model, ": ");
  print_value(model, operation, operation->value);
}

void story_key(const struct model *model, const struct key *key) {
  print_place(model, key->rule, (weir_place)key->place, key->index, key->entry);
}

/* --- answers -----------------------------------------------------------------------------------
 */

void story_decision(const struct model *model, const struct client *client,
                    const weir_claim *request) {
  if (model->story == NULL) return;
  const char *reported = request->verdict.decision.allowed ? "ADMITTED" : "denied";
  if (request->ask.kind == WEIR_REFUND) reported = "given back";
  if (request->ask.kind == WEIR_SETTLE) reported = "settled";
  if (request->ask.kind == WEIR_RENEW) reported = "renewed";
  if (request->verdict.status != WEIR_OK) reported = weir_status_name(request->verdict.status);
  story_print(model, "; client %d: %" PRId64 " %s", world_client_number(model, client),
              request->verdict.charge, reported);
  if (request->verdict.status != WEIR_OK || request->ask.kind == WEIR_REFUND ||
      request->ask.kind == WEIR_RENEW)
    return;
  story_print(model, " at E%+" PRId64, request->verdict.decision.at_us - model->edge_us);
  if (request->verdict.decision.allowed && request->verdict.decision.delay_us > 0)
    story_print(model, " after %" PRId64 " us", request->verdict.decision.delay_us);
}

void story_end(const struct model *model) {
  story_print(model, "\n");
}
