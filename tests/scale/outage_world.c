#include "scale/outage_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scale/outage_chance.h"

enum { PAUSE_FIRST_MS = 40, PAUSE_MOST_MS = 500, STARVED_APART_MS = 200 };

int outage_window(double at_ms) {
  return (int)(at_ms / OUTAGE_WINDOW_MS);
}

/* --- decisions -----------------------------------------------------------------------------------
 */

static void note(struct outage_world *world, const struct outage_request *request, int window,
                 bool is_admitted) {
  if (is_admitted)
    world->admitted[request->key][window]++;
  else if (request->is_due)
    world->denied++;
}

static struct account_terms terms_of(struct outage_world *world,
                                     const struct outage_request *request, int window) {
  struct outage_process *process = &world->processes[request->process];
  return (struct account_terms){
      .policy = world->policy,
      .limit = world->scene->limit,
      .processes = world->scene->processes,
      .process = &process->share,
      .window = window,
      .lot = chance_hashed(process->secret, (uint64_t)request->key, (uint64_t)window)};
}

static void decide_by_store(struct outage_world *world, const struct outage_request *request,
                            double now_ms) {
  int window = outage_window(now_ms);
  const struct outage_process *process = &world->processes[request->process];
  struct account_terms terms = terms_of(world, request, window);
  bool is_holding = process->back_ms > 0 && now_ms < process->back_ms + process->hold_ms;
  note(world, request, window,
       account_store_admits(&world->accounts[request->process][request->key], &terms,
                            &world->stored[request->key][window], is_holding, now_ms));
}

static void decide_by_policy(struct outage_world *world, const struct outage_request *request,
                             double now_ms, bool is_sent) {
  int window = outage_window(now_ms);
  struct account_terms terms = terms_of(world, request, window);
  if (world->first_ms < 0) world->first_ms = now_ms - world->begin_ms;
  note(world, request, window,
       account_admits(&world->accounts[request->process][request->key], &terms, is_sent));
}

/* --- breakers ------------------------------------------------------------------------------------
 */

static void open_breaker(struct outage_world *world, struct outage_process *process, double now_ms,
                         bool is_again) {
  process->pause_ms = is_again ? fmin(PAUSE_MOST_MS, process->pause_ms * 2) : PAUSE_FIRST_MS;
  process->is_open = true;
  process->is_probing = false;
  process->probe_ms =
      now_ms + process->pause_ms / 2 + chance_part(&world->random) * process->pause_ms / 2;
}

static void close_breaker(struct outage_process *process, double now_ms) {
  process->is_open = process->is_probing = false;
  process->back_ms = now_ms;
  process->hold_ms = fmin(PAUSE_MOST_MS, now_ms - process->away_since_ms) + 2 * OUTAGE_DEADLINE_MS;
}

/* Away after two misses that are a deadline apart, without an answer between. The policies that
 * begin anew take the first one for an outage. */
static void miss(struct outage_world *world, struct outage_process *process, double now_ms) {
  if (process->is_open) {
    if (process->is_probing) open_breaker(world, process, now_ms, true);
    return;
  }
  double proof_ms = world->policy == OUTAGE_CONTINUES ? OUTAGE_DEADLINE_MS : 0;
  if (process->missed_ms < 0) process->missed_ms = now_ms;
  if (now_ms - process->missed_ms < proof_ms) return;
  process->away_since_ms = now_ms - 2 * OUTAGE_DEADLINE_MS;
  open_breaker(world, process, now_ms, false);
}

/* --- requests ------------------------------------------------------------------------------------
 */

static bool send_request(struct outage_world *world, const struct outage_request *request) {
  if (world->sent_count == world->sent_room) {
    size_t room = world->sent_room > 0 ? 2 * world->sent_room : 4096;
    struct outage_request *more = realloc(world->sent, room * sizeof *more);
    if (more == NULL) return false;
    world->sent = more;
    world->sent_room = room;
  }
  world->sent[world->sent_count++] = *request;
  return true;
}

/* Its request is sent at the begin of that, counts, and is looked after too late. */
static bool is_held_up(struct outage_world *world, const struct outage_request *request) {
  struct outage_process *process = &world->processes[request->process];
  if (!world->scene->is_starved) return false;
  while (request->at_ms >= process->starved_to_ms) {
    process->starved_from_ms =
        process->starved_to_ms + chance_part(&world->random) * STARVED_APART_MS;
    process->starved_to_ms = process->starved_from_ms + 25 + chance_part(&world->random) * 55;
  }
  return request->at_ms >= process->starved_from_ms &&
         request->at_ms < process->starved_to_ms - OUTAGE_DEADLINE_MS;
}

bool outage_arrive(struct outage_world *world, struct outage_request request) {
  struct outage_process *process = &world->processes[request.process];
  double now_ms = request.at_ms;
  bool is_away = now_ms >= world->begin_ms && now_ms < world->end_ms;
  if (is_held_up(world, &request)) {
    process->missed_ms = now_ms;
    world->stored[request.key][outage_window(now_ms)]++;
    decide_by_policy(world, &request, now_ms, true);
    return true;
  }
  if (process->is_open && (process->is_probing || now_ms < process->probe_ms)) {
    decide_by_policy(world, &request, now_ms, false);
    return true;
  }
  if (process->is_open && is_away) process->is_probing = true;
  if (process->is_open && !is_away) close_breaker(process, now_ms);
  if (is_away) return send_request(world, &request);
  process->missed_ms = -1;
  decide_by_store(world, &request, now_ms);
  return true;
}

void outage_expire(struct outage_world *world, double now_ms) {
  for (; world->overdue < world->sent_count; world->overdue++) {
    struct outage_request *request = &world->sent[world->overdue];
    double due_ms = request->at_ms + OUTAGE_DEADLINE_MS;
    if (due_ms > now_ms) return;
    if (request->is_answered) continue;
    if (world->scene->fault == OUTAGE_STOPPED && due_ms > world->end_ms) continue;
    request->is_answered = true;
    miss(world, &world->processes[request->process], due_ms);
    decide_by_policy(world, request, due_ms, true);
  }
}

/* A server that goes on executes what it was sent, in time or for no caller any more. */
static void execute(struct outage_world *world, struct outage_request *request) {
  struct outage_process *process = &world->processes[request->process];
  if (request->is_answered) {
    world->stored[request->key][outage_window(request->at_ms)]++;
    return;
  }
  if (process->is_open && process->is_probing) close_breaker(process, world->end_ms);
  process->missed_ms = -1;
  decide_by_store(world, request, world->end_ms);
}

void outage_return(struct outage_world *world) {
  bool goes_on = world->scene->fault == OUTAGE_STOPPED;
  outage_expire(world, world->end_ms);
  if (world->scene->fault == OUTAGE_KILLED) memset(world->stored, 0, sizeof world->stored);
  for (size_t i = 0; i < world->sent_count; i++) {
    struct outage_request *request = &world->sent[i];
    if (goes_on) {
      execute(world, request);
    } else if (!request->is_answered) {
      double due_ms = request->at_ms + OUTAGE_DEADLINE_MS;
      miss(world, &world->processes[request->process], due_ms);
      decide_by_policy(world, request, due_ms, true);
    }
  }
  world->sent_count = world->overdue = 0;
  for (int i = 0; i < world->scene->processes; i++) {
    struct outage_process *process = &world->processes[i];
    if (!process->is_probing) continue;
    if (goes_on)
      close_breaker(process, world->end_ms);
    else
      open_breaker(world, process, world->end_ms, true);
  }
}
