/* Mistakes about cells that are firm. */
#include "algorithm/window.h"
#include "mutants.h"

/* Cells that were read `from_us` or more after their end, and not memo_age after they were final, pass
 * for firm. */
static void make_firm(const struct model *model, weir_memo *memo, int64_t from_us) {
  weir_window_memory *window = (weir_window_memory *)(memo->expected + model->stack.count);
  for (int64_t i = 0; i < window->count; i++) {
    int64_t end_us = (window->first + i + 1) * model->stack.rules[0].cell_us;
    int64_t firm_us = end_us + FINAL_US + model->settings.memo_age_us;
    int64_t *read_us = &window->cells[i].read_us;
    if (*read_us >= end_us + from_us && *read_us < firm_us) *read_us = firm_us;
  }
}

static void firm_at_once(const struct model *model, weir_memo *memo) {
  make_firm(model, memo, FINAL_US);
}

static void firm_before_final(const struct model *model, weir_memo *memo) {
  make_firm(model, memo, 0);
}

/* What is denied is not looked at once more. */
static weir_turn deny_unseen(weir_machine *machine, int64_t now_us, bool late,
                             weir_operation *operations) {
  machine->in_order = true;
  return weir_machine_resume(machine, now_us, late, operations);
}

/* The look along with the take-back stands in for the reads behind the charge that follows. */
static weir_turn look_before_charge(weir_machine *machine, int64_t now_us, bool late,
                                    weir_operation *operations) {
  weir_turn turn = weir_machine_resume(machine, now_us, late, operations);
  if (turn == WEIR_TURN_EXECUTE && machine->in_order && machine->frame.phase == WEIR_PHASE_CHARGE)
    machine->frame.operation_count = 1;
  return turn;
}

/* What fits by that look is admitted, and charged nowhere. */
static bool charge_nothing_again(const struct model *model, const struct client *client,
                                 weir_operation *operation) {
  (void)model;
  if (operation->kind != WEIR_ADD || !client->machine->in_order) return false;
  operation->outcome = WEIR_DONE;
  operation->value = operation->delta;
  return true;
}

const struct mutant cells_mutants[] = {
    {.name = "takes a cell for firm before a late charge can be seen",
     .scope = "N=4, strict, firm cells, a charge that is late",
     .killed_by = CHECK_BOUND,
     .misremember = firm_at_once},
    {.name = "takes a cell for firm that was read before its end + x",
     .scope = "N=4, strict, firm cells, a cell that has just ended",
     .killed_by = CHECK_BOUND,
     .misremember = firm_before_final},
    {.name = "denies by a firm cell without a look",
     .scope = "N=4, strict, firm cells",
     .killed_by = CHECK_DENIAL,
     .resume = deny_unseen},
    {.name = "looks before the charge that it admits by",
     .scope = "N=4, strict, firm cells",
     .killed_by = CHECK_BOUND,
     .resume = look_before_charge},
    {.name = "admits by a look, and charges nothing",
     .scope = "N=4, strict, firm cells",
     .killed_by = CHECK_FORGOTTEN,
     .replace = charge_nothing_again},
    {.name = "keeps firm cells over a step of the clock",
     .scope = "N=4, strict, firm cells, a clock is set back",
     .killed_by = CHECK_BOUND,
     .keeps_memo = true},
};
const size_t cells_mutant_count = sizeof cells_mutants / sizeof cells_mutants[0];
