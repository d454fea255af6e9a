/* Makes a scope ready: its rules, its requests, and the memory of its world. */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "mutants.h"

enum { EDGE_CELL = 40 }; /* the first of a counter, whatever the number of lanes */

/* --- making a world ----------------------------------------------------------------------------
 */

static size_t rounded(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* "1+2 1 / 3": costs, groups joined by '+', clients parted by '/'. Written here, so known to fit.
 */
static void read_requests(struct model *model) {
  int client = 0;
  int request = 0;
  int ask = 0;
  for (const char *at = model->scope->requests; *at != '\0'; at++) {
    int64_t *cost = &model->requests[client][request].costs[ask];
    if (*at >= '0' && *at <= '9') {
      *cost = *cost * 10 + (*at - '0');
    } else if (*at == '+') {
      ask++;
    } else if (*at == '/') {
      client++;
      request = ask = 0;
    } else if (at[1] != '/' && at[-1] != '/') {
      request++;
      ask = 0;
    }
  }
}

static bool configure(struct model *model) {
  const struct scope *scope = model->scope;
  weir_message message;
  if (weir_stack_parse(scope->rules, scope->processes, &model->stack, &message) != WEIR_OK) {
    fprintf(stderr, "%s: %s\n", scope->name, message.text);
    return false;
  }
  if (scope->flags & UNEVEN) {
    model->stack.rules[0].period_us -= 2;
    if (weir_stack_lay_out(&model->stack, scope->processes, &message) != WEIR_OK) return false;
  }
  model->terms = (weir_terms){
      .clock_error_us = SKEW_US,
      .margin_us = MARGIN_US,
      .memo_age_us = 1000000,
      .local_denial_us = REPEAT_US,
      .cached_cells = scope->flags & CACHED_CELLS,
      .local_denial = scope->flags & LOCAL_DENIAL,
  };
  if (model->mutant->misconfigure != NULL)
    model->mutant->misconfigure(&model->stack, &model->terms);
  int64_t edge_cell = scope->edge_cell != 0 ? scope->edge_cell : EDGE_CELL;
  model->edge_us = edge_cell * model->stack.rules[0].cell_us;
  for (int i = 0; i < (int)model->stack.count; i++) /* a multiple of all lanes */
    model->first_cell[i] = store_cell_of(model, i, model->edge_us) / 4 * 4 - CELLS_MOST / 2;
  return true;
}

bool model_open(struct model *model, const struct scope *scope, const struct mutant *mutant) {
  *model = (struct model){.scope = scope, .mutant = mutant};
  if (!configure(model)) return false;
  read_requests(model);
  size_t memo = rounded(weir_memo_bytes(&model->stack));
  size_t machine = rounded(weir_machine_bytes(&model->stack));
  model->world_bytes = rounded(sizeof *model->world) + CLIENTS_MOST * (memo + machine);
  model->world = malloc(model->world_bytes);
  if (model->world == NULL) return false;
  world_reset(model);
  return true;
}

void model_close(struct model *model) {
  free(model->world);
}

void world_reset(struct model *model) {
  struct world *world = model->world;
  memset(world, 0, model->world_bytes);
  model->failed = CHECK_NONE;
  model->decisions = 0;
  char *room = (char *)world + rounded(sizeof *world);
  for (int i = 0; i < CLIENTS_MOST; i++) {
    world->clients[i].memo = (weir_memo *)room;
    room += rounded(weir_memo_bytes(&model->stack));
    world->clients[i].machine = (weir_machine *)room;
    room += rounded(weir_machine_bytes(&model->stack));
  }
  for (size_t i = 0; i < sizeof model->scope->before / sizeof model->scope->before[0]; i++) {
    struct charge charge = model->scope->before[i];
    if (charge.cost == 0) break;
    charge.stamp_us += model->edge_us;
    store_prefill(model, &charge);
    world->admitted[world->admitted_count++] = charge;
  }
}
