/* Mistakes of quotas, of logs, of several rules together, and of who answers for the store. */
#include "mutants.h"
#include "mutants_machines.h"
#include "truth.h"

/* --- quotas ------------------------------------------------------------------------------------
 */

/* What a process remembers of the window stays in use when the store has forgotten it. */
static void add_anyway(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  (void)model;
  (void)client;
  if (operation->kind == WEIR_ADD) operation->seed = 0;
}

/* The window that opened in the group before is not seen. */
static bool forget_window(const struct model *model, const struct client *client,
                          weir_operation *operation) {
  int64_t group = world_clock_us(model, client) / model->stack.rules[0].period_us;
  if (operation->kind != WEIR_GET || operation->counter.place != WEIR_PLACE_OPEN ||
      operation->counter.index >= group)
    return false;
  operation->outcome = WEIR_DONE;
  operation->value = 0;
  return true;
}

static bool take_back_nothing(const struct model *model, const struct client *client,
                              weir_operation *operation) {
  (void)model;
  (void)client;
  if (operation->kind != WEIR_SUB) return false;
  operation->outcome = WEIR_DONE;
  return true;
}

/* --- logs --------------------------------------------------------------------------------------
 */

static void no_look_ahead(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->ahead_us = 0;
}

/* Then the entries that a longer period still needs are in epochs that nobody reads. */
static void shortest_epochs(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  for (size_t i = 0; i < stack->count; i++)
    stack->rules[i].log_us = stack->rules[stack->count - 1].period_us;
}

/* Nothing lives longer than the shorter period needs. */
static void live_for_shortest(const struct model *model, const struct client *client,
                              weir_operation *operation) {
  const weir_stack *stack = &model->stack;
  (void)client;
  if (operation->kind == WEIR_PUT)
    operation->ttl_us = 3 * stack->rules[stack->count - 1].period_us + MARGIN_US;
}

/* As if the tag held the limit. */
static void start_anew(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  if (client_stack(model, client) == &model->another) operation->counter.index += 1000;
}

/* The last rule is held against an entry too far back, as if its limit were greater by one. */
static void read_too_few(const struct model *model, const struct client *client,
                         weir_operation *operation) {
  bool last = (size_t)client->landed + 1 == client->machine->frame.operation_count;
  (void)model;
  if (operation->kind == WEIR_GET && operation->counter.place == WEIR_PLACE_ENTRY && last &&
      operation->counter.entry > 1)
    operation->counter.entry--;
}

/* What will never be written denies as if it just had been. */
static void rewrite_nothing(weir_operation *operation) {
  if (operation->counter.place != WEIR_PLACE_ENTRY || operation->outcome != WEIR_ABSENT) return;
  operation->outcome = WEIR_DONE;
  operation->value = (operation->counter.index + 1) * 1000;
}

static void store_stamp(const struct model *model, const struct client *client,
                        weir_operation *operation) {
  (void)model;
  if (operation->counter.place == WEIR_PLACE_ENTRY && operation->kind == WEIR_PUT)
    operation->value = client->machine->frame.now_us;
}

/* --- several rules -----------------------------------------------------------------------------
 */

/* Only the last rule of the stack takes back. */
static bool keep_first(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  return operation->counter.rule == 0 && take_back_nothing(model, client, operation);
}

/* --- the policy --------------------------------------------------------------------------------
 */

/* A share is charged nowhere in the store. */
#define OUTSIDE (1U << CHECK_FORGOTTEN | 1U << CHECK_LEAK | 1U << CHECK_DENIAL)

const struct mutant other_mutants[] = {
    {.name = "late admits",
     .scope = "N=1, strict, late answers",
     .killed_by = CHECK_BOUND,
     .unchecked = OUTSIDE,
     .late_admits = true},
    {.name = "silence without a second look",
     .scope = "N=4, 4 lanes, answer lost",
     .killed_by = CHECK_BOUND,
     .unchecked = OUTSIDE,
     .looks_once = true},
    {.name = "a quota that forgets the window before",
     .scope = "quota, a window ends after the edge",
     .killed_by = CHECK_OVERLAP,
     .replace = forget_window},
    {.name = "a quota that goes on in a count that was lost",
     .scope = "quota, flush",
     .killed_by = CHECK_OVERLAP,
     .rewrite = add_anyway},
    {.name = "a quota that takes nothing back",
     .scope = "quota",
     .killed_by = CHECK_LEAK,
     .unchecked = 1U << CHECK_DENIAL,
     .replace = take_back_nothing},
    {.name = "a log without epochs, absent means allowed",
     .scope = "log",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_DENIAL | 1U << CHECK_LEAK,
     .start = naive_log_start,
     .resume = naive_log_resume},
    {.name = "a log that does not look ahead",
     .scope = "log",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_look_ahead},
    {.name = "a log that stores the clock read before the addition",
     .scope = "log, an entry written late",
     .killed_by = CHECK_BOUND,
     .rewrite = store_stamp},
    {.name = "a log whose holes deny for ever",
     .scope = "log, crash",
     .killed_by = CHECK_DENIAL,
     .distort = rewrite_nothing},
    {.name = "logs in one whose epochs are as wide as the shorter period",
     .scope = "two logs in one, the longer denies",
     .killed_by = CHECK_BOUND,
     .misconfigure = shortest_epochs},
    {.name = "logs in one that live as long as the shorter needs",
     .scope = "two logs in one, at the edge",
     .killed_by = CHECK_TTL,
     .rewrite = live_for_shortest},
    {.name = "logs in one of which the shorter sees an entry too few",
     .scope = "two logs in one, the shorter denies",
     .killed_by = CHECK_BOUND,
     .rewrite = read_too_few},
    {.name = "a log that forgets where its limit is another",
     .scope = "two logs in one, two texts",
     .killed_by = CHECK_BOUND,
     .rewrite = start_anew},
    {.name = "a stack of which one rule takes back",
     .scope = "two rules",
     .killed_by = CHECK_LEAK,
     .unchecked = 1U << CHECK_DENIAL,
     .replace = keep_first},
};
const size_t other_mutant_count = sizeof other_mutants / sizeof other_mutants[0];
