/* Tells a run, one numbered line a step. Times are microseconds from the edge E. */
#include <inttypes.h>
#include <stdarg.h>

#include "algorithm/cells.h"
#include "model.h"

static const char *const kinds[] = {"ADD", "SUB", "GET", "CREATE", "SWAP", "RAISE", "PUT", "DROP"};

void story_begin(const struct model *model, int number) {
  if (model->story != NULL)
    fprintf(model->story, "%5d. E%-+5" PRId64, number, world_real_us(model) - model->edge_us);
}

void story_tell(const struct model *model, const char *format, ...) {
  if (model->story == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(model->story, format, arguments);
  va_end(arguments);
}

void story_start(const struct model *model, const struct client *client) {
  int64_t clock = world_clock_us(model, client);
  story_tell(model, "client %d asks for", world_client_number(model, client));
  for (int i = 0; i < GROUP_MOST && client->asks[i].cost != 0; i++)
    story_tell(model, "%s %" PRId64, i > 0 ? " and" : "", client->asks[i].cost);
  story_tell(model, ", its clock reads E%+" PRId64 ", cell %" PRId64, clock - model->edge_us,
             store_cell_of(model, 0, clock));
}

void story_operation(const struct model *model, const struct sent *sent) {
  const weir_action *action = &sent->action;
  const weir_rule *rule = &model->stack.rules[action->rule];
  story_tell(model, "%s", kinds[action->kind]);
  if (model->stack.count > 1) story_tell(model, " rule %d", (int)action->rule);
  story_tell(model, " counter %" PRId64, action->index);
  if (rule->lanes > 1)
    story_tell(model, " (cells %" PRId64 " to %" PRId64 ")", action->index * rule->lanes,
               (action->index + 1) * rule->lanes - 1);
  if (action->kind == WEIR_ADD || action->kind == WEIR_SUB) {
    int lane = (int)(sent->cell % rule->lanes);
    story_tell(model, " by %" PRId64, action->delta >> (rule->lane_bits * lane));
    if (rule->lanes > 1) story_tell(model, " in lane %d", lane);
  }
  if (action->outcome == WEIR_ABSENT) story_tell(model, ": absent");
  if (action->outcome != WEIR_DONE) return;
  story_tell(model, ":");
  for (int lane = 0; lane < rule->lanes; lane++)
    story_tell(model, " %" PRId64, weir_cells_decode(rule, action->value, lane));
}

void story_decision(const struct model *model, const struct client *client, const weir_ask *ask,
                    int64_t stamp_us) {
  if (model->story == NULL) return;
  const char *told = ask->decision.allowed ? "ADMITTED" : "denied";
  if (ask->status != WEIR_OK) told = weir_status_name(ask->status);
  story_tell(model, "; client %d: %" PRId64 " %s at E%+" PRId64, world_client_number(model, client),
             ask->cost, told, stamp_us - model->edge_us);
}

void story_end(const struct model *model) {
  story_tell(model, "\n");
}
