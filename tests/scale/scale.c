#include "scale/scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/column.h"
#include "scale/fiber.h"
#include "scale/server.h"
#include "scale/virtual.h"
#include "simulate/driver.h"

/* A day like any other, at the begin of a window. */
#define EPOCH_US (INT64_C(1600000000) * 1000000)

#define KEY "key"

struct process {
  struct scale *scale;
  struct line line;
  weir_store *store;
  weir_limiter *limiter;
  size_t client;
  int64_t ahead_us; /* its clock */
  size_t busy;      /* threads */
};

struct client {
  struct process *process;
  int64_t asked;
  int64_t admitted;
};

struct scale {
  const scale_plan *plan;
  scale_figures *figures;
  struct server server;
  weir_driver exact; /* what one process would be answered at once */
  weir_driven_key exact_key;
  struct client *clients;
  struct column waits;
  struct column uses; /* stamps of what was admitted */
  int64_t counted_from_us;
  int64_t until_us;
  uint64_t commands_before;
  weir_status status; /* the first that is no outcome of a decision */
  weir_message *message;
};

struct asked {
  struct process *process;
  int64_t at_us;
};

static void fail(struct scale *scale, weir_status status) {
  if (scale->status != WEIR_OK) return;
  scale->status = status;
  if (status == WEIR_NO_MEMORY) weir_message_set(scale->message, "%s", weir_status_text(status));
}

/* --- processes ---------------------------------------------------------------------------------
 */

static int64_t clock_of(const struct process *process) {
  return EPOCH_US + virtual_now_us() + process->ahead_us;
}

static int64_t read_clock(void *context) {
  return clock_of(context);
}

static void end_process(struct process *ended) {
  if (ended == NULL) return;
  weir_limiter_destroy(ended->limiter);
  weir_store_close(ended->store);
  free(ended);
}

static weir_limiter_options options_of(const scale_plan *plan, struct process *process) {
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.clock = (weir_clock){read_clock, process};
  options.processes = (uint32_t)plan->clients;
  options.fallback = WEIR_FALLBACK_NONE;
  options.memo_keys = 1;
  options.deadline_us = plan->deadline_us;
  if (plan->no_leases) options.flags = WEIR_NO_LEASES;
  return options;
}

static struct process *begin_process(struct scale *scale, size_t client) {
  struct process *begun = calloc(1, sizeof *begun);
  if (begun == NULL) {
    fail(scale, WEIR_NO_MEMORY);
    return NULL;
  }
  *begun = (struct process){.scale = scale, .line.server = &scale->server, .client = client};
  begun->ahead_us = virtual_below(2 * scale->plan->skew_us + 1) - scale->plan->skew_us;
  weir_limiter_options options = options_of(scale->plan, begun);
  weir_status status = line_open(&begun->line, &begun->store, scale->message);
  if (status == WEIR_OK)
    status = weir_limiter_create(begun->store, scale->plan->rule, &options, &begun->limiter,
                                 scale->message);
  if (status == WEIR_OK) return begun;
  fail(scale, status);
  end_process(begun);
  return NULL;
}

/* A limiter waits for its own thread. */
static void end_dead(void *ended) {
  end_process(ended);
}

/* Its clock stays where it is: that is the machine's. */
static void crash(void *subject) {
  struct client *client = subject;
  struct process *old = client->process;
  struct scale *scale = old->scale;
  if (virtual_now_us() >= scale->until_us) return;
  struct process *begun = begin_process(scale, old->client);
  if (begun == NULL) return;
  begun->ahead_us = old->ahead_us;
  client->process = begun;
  old->line.dead = true;
  if (old->busy == 0) fiber_start(end_dead, old);
  virtual_at(virtual_now_us() + scale->plan->crash_every_us, crash, client);
}

static void forget(void *subject) {
  struct scale *scale = subject;
  server_forget(&scale->server);
}

/* --- requests ----------------------------------------------------------------------------------
 */

/* The time that others hold against the bound: when it was used, by the clock of its user. */
static int64_t use_of(const struct process *process, const weir_decision *decision) {
  return decision->source == WEIR_SOURCE_LOCAL ? clock_of(process) : decision->at_us;
}

static void note(const struct asked *asked, weir_status status, const weir_decision *decision) {
  const struct process *process = asked->process;
  struct scale *scale = process->scale;
  scale_figures *figures = scale->figures;
  struct client *client = &scale->clients[process->client];
  bool admitted = status == WEIR_OK && decision->allowed && !process->line.dead;
  if (admitted && !column_add(&scale->uses, use_of(process, decision))) fail(scale, WEIR_NO_MEMORY);
  if (asked->at_us < scale->counted_from_us) return;
  if (process->line.dead) {
    figures->died++;
    return;
  }
  if (!column_add(&scale->waits, virtual_now_us() - asked->at_us)) fail(scale, WEIR_NO_MEMORY);
  figures->waited += virtual_now_us() > asked->at_us;
  figures->failed += status != WEIR_OK;
  figures->admitted += admitted;
  client->admitted += admitted;
}

/* A thread's way, as in any program. */
static void take(void *subject) {
  const struct asked asked = *(struct asked *)subject;
  struct process *process = asked.process;
  weir_decision decision;
  weir_message why;
  process->busy++;
  weir_status status = weir_limiter_take(process->limiter, KEY, sizeof KEY - 1, 1, &decision, &why);
  const scale_plan *plan = process->scale->plan;
  if (plan->told != NULL)
    plan->told(plan->told_context, process->client, clock_of(process), status, &decision);
  note(&asked, status, &decision);
  process->busy--;
  if (process->line.dead && process->busy == 0) end_process(process);
}

static void ask_exactly(struct scale *scale, bool counts) {
  weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = 1}};
  weir_status status = weir_driver_decide(&scale->exact, &scale->exact_key,
                                          EPOCH_US + virtual_now_us(), &request, scale->message);
  if (status != WEIR_OK) fail(scale, status);
  scale->figures->allowed += counts && request.verdict.decision.allowed;
}

/* Each asks `uneven` times as often as the next. */
static struct client *draw_client(struct scale *scale) {
  const scale_plan *plan = scale->plan;
  int64_t shares = 0, share = 1;
  if (plan->uneven <= 1) return &scale->clients[virtual_below(plan->clients)];
  for (int64_t i = 0; i < plan->clients; i++, share *= plan->uneven)
    shares += share;
  int64_t drawn = virtual_below(shares);
  int64_t client = plan->clients - 1;
  for (share = 1; drawn >= share; share *= plan->uneven, client--)
    drawn -= share;
  return &scale->clients[client];
}

static void arrive(void *subject) {
  struct scale *scale = subject;
  const scale_plan *plan = scale->plan;
  int64_t now_us = virtual_now_us();
  if (now_us >= scale->until_us || scale->status != WEIR_OK) return;
  bool counts = now_us >= scale->counted_from_us;
  struct client *client = draw_client(scale);
  for (int64_t i = 0; i < plan->burst; i++) {
    scale->figures->asked += counts;
    client->asked += counts;
    ask_exactly(scale, counts);
    struct asked asked = {client->process, now_us};
    fiber_start(take, &asked);
  }
  int64_t gap_us = plan->burst * 1000000 / plan->asked_per_s;
  virtual_at(now_us + virtual_below(2 * gap_us + 1), arrive, scale);
}

/* --- figures -----------------------------------------------------------------------------------
 */

/* (sum of shares)^2 / (number * sum of their squares) */
static int64_t fairness(const struct scale *scale) {
  int64_t count = 0, sum = 0, squares = 0;
  for (int64_t i = 0; i < scale->plan->clients; i++) {
    const struct client *client = &scale->clients[i];
    if (client->asked == 0) continue;
    int64_t share = client->admitted * 10000 / client->asked;
    count++;
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 0 : (int64_t)((double)sum * (double)sum * 1e6 / (double)(count * squares));
}

/* On a store that raises, each process may have one addition under way. A period may hold the rest
 * of one window and all of another. */
static int64_t bound_of(const struct scale *scale, const weir_rule *rule) {
  if (weir_rule_moves_in_time(rule))
    return rule->burst + (scale->plan->raises ? scale->plan->clients : 0);
  return weir_rule_slides(rule) ? weir_rule_bound(rule) : 2 * rule->limit;
}

static void finish(struct scale *scale) {
  scale_figures *figures = scale->figures;
  const weir_rule *rule = &scale->exact.stack.rules[0];
  column_sort(&scale->waits);
  column_sort(&scale->uses);
  figures->commands = (int64_t)(scale->server.commands - scale->commands_before);
  figures->p50_us = column_at_percent(&scale->waits, 50);
  figures->p99_us = column_at_percent(&scale->waits, 99);
  figures->fair_ppm = fairness(scale);
  figures->most = weir_rule_moves_in_time(rule)
                      ? column_most_of_bucket(&scale->uses, rule->limit, rule->period_us)
                      : column_most_of_window(&scale->uses, rule->period_us);
  figures->bound = bound_of(scale, rule);
}

/* --- a run -------------------------------------------------------------------------------------
 */

static void count_from_here(void *subject) {
  struct scale *scale = subject;
  scale->commands_before = scale->server.commands;
}

static void begin_clients(struct scale *scale) {
  const scale_plan *plan = scale->plan;
  for (int64_t i = 0; i < plan->clients && scale->status == WEIR_OK; i++) {
    struct client *client = &scale->clients[i];
    client->process = begin_process(scale, (size_t)i);
    if (plan->crash_every_us > 0)
      virtual_at(virtual_now_us() + virtual_below(plan->crash_every_us), crash, client);
  }
}

static void run(struct scale *scale) {
  const scale_plan *plan = scale->plan;
  virtual_begin(plan->seed);
  scale->counted_from_us = virtual_now_us() + plan->warm_up_us;
  scale->until_us = scale->counted_from_us + plan->span_us;
  virtual_at(scale->counted_from_us, count_from_here, scale);
  if (plan->forget_at_us > 0) virtual_at(virtual_now_us() + plan->forget_at_us, forget, scale);
  begin_clients(scale);
  if (scale->status == WEIR_OK) arrive(scale);
  virtual_run();
}

static void clean_up(struct scale *scale) {
  for (int64_t i = 0; scale->clients != NULL && i < scale->plan->clients; i++)
    end_process(scale->clients[i].process);
  free(scale->clients);
  free(scale->waits.numbers);
  free(scale->uses.numbers);
  weir_driver_remove_key(&scale->exact, &scale->exact_key);
  weir_driver_clean_up(&scale->exact);
  server_clean_up(&scale->server);
  virtual_clean_up();
  fiber_clean_up();
}

/* A bucket keeps some back for leases, which those who lease cannot have; without leases they
 * would. */
static void write_without_lease(const char *rule, char *text, size_t size) {
  const char *lease = strstr(rule, ",lease=");
  const char *rest = lease != NULL ? lease + strcspn(lease + 1, ",") + 1 : "";
  int length = lease != NULL ? (int)(lease - rule) : (int)strlen(rule);
  snprintf(text, size, "%.*s%s", length, rule, rest);
}

weir_status scale_run(const scale_plan *plan, scale_figures *figures, weir_message *message) {
  struct scale scale = {.plan = plan, .figures = figures, .message = message};
  weir_limiter_options options = options_of(plan, NULL);
  char exact[256];
  *figures = (scale_figures){0};
  scale.server = (struct server){.raises = plan->raises,
                                 .command_ns = plan->command_ns,
                                 .way_us = plan->round_trip_us / 2,
                                 .lost_ppm = plan->lost_ppm};
  write_without_lease(plan->rule, exact, sizeof exact);
  scale.status = weir_driver_init(&scale.exact, exact, &options, message);
  scale.clients = calloc((size_t)plan->clients, sizeof *scale.clients);
  if (scale.status == WEIR_OK &&
      (scale.clients == NULL || !weir_driver_add_key(&scale.exact, &scale.exact_key)))
    fail(&scale, WEIR_NO_MEMORY);
  if (scale.status == WEIR_OK) run(&scale);
  if (scale.status == WEIR_OK) finish(&scale);
  clean_up(&scale);
  return scale.status;
}
