#include "faults/cell.h"

#include <stdlib.h>
#include <string.h>

#include "faults/ground.h"

void cell_lose(cell *c, int64_t from_us, int64_t to_us) {
  if (c->loss_count == CELL_LOSSES_MOST) give_up("more losses than there is room to note");
  /* A late count has a stamp of up to a deadline before. */
  c->losses[c->loss_count++] = (loss){from_us - c->how->deadline_us, to_us};
}

/* --- time --------------------------------------------------------------------------------------
 */

/* How long after the server's return every process has had an answer from it; -1: not yet. */
static int64_t find_return(const cell *c) {
  int64_t first_us[LOAD_PROCESSES_MOST];
  int64_t latest_us = 0;
  size_t count = load_calls(c->calls);
  for (int i = 0; i < c->calls->processes; i++)
    first_us[i] = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    const load_call *call = &c->calls->calls[i];
    bool by_store = call->status == WEIR_OK && call->source == WEIR_SOURCE_STORE;
    if (!by_store || !c->hit[call->key] || call->begin_us < c->off_us) continue;
    int64_t after_us = call->end_us - c->off_us;
    if (after_us < first_us[call->process]) first_us[call->process] = after_us;
  }
  for (int i = 0; i < c->calls->processes; i++)
    if (first_us[i] > latest_us) latest_us = first_us[i];
  return latest_us == INT64_MAX ? -1 : latest_us;
}

static bool is_by_policy(const load_call *call) {
  return call->source == WEIR_SOURCE_FALLBACK || call->source == WEIR_SOURCE_LATE;
}

static bool admits_again(const cell *c) {
  bool admitted[LOAD_RULES][LOAD_KEYS] = {{false}};
  size_t count = load_calls(c->calls);
  for (size_t i = 0; i < count; i++) {
    const load_call *call = &c->calls->calls[i];
    bool by_store = call->allowed && !is_by_policy(call);
    if (by_store && call->begin_us >= c->off_us) admitted[call->rule][call->key] = true;
  }
  for (int rule = 0; rule < LOAD_RULES; rule++)
    for (int key = 0; key < LOAD_KEYS; key++)
      if (!admitted[rule][key]) return false;
  return true;
}

static size_t count_evicted(const cell *c) {
  size_t count = 0;
  for (size_t i = 0; c->watch != NULL && i < c->watch->count; i++)
    for (int key = 0; key < LOAD_KEYS; key++)
      count += strstr(c->watch->seen[i].key, c->calls->keys[key]) != NULL;
  return count;
}

bool cell_is_back(const cell *c) {
  bool was_hit = c->watch == NULL || count_evicted(c) > 0;
  return was_hit && find_return(c) >= 0 && admits_again(c);
}

static int by_number(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static int64_t sort_and_pick(int64_t *times_us, size_t count, int64_t *longest_us) {
  if (count == 0) return 0;
  qsort(times_us, count, sizeof *times_us, by_number);
  *longest_us = times_us[count - 1];
  return times_us[(count - 1) * 999 / 1000];
}

/* From the moment the fault began. */
static void measure_times(cell *c) {
  int64_t *took_us = calloc(c->call_count + 1, sizeof *took_us);
  int64_t *late_us = calloc(c->call_count + 1, sizeof *late_us);
  size_t count = 0;
  if (took_us == NULL || late_us == NULL) give_up("no memory");
  for (size_t i = 0; i < c->call_count; i++) {
    const load_call *call = &c->calls->calls[i];
    if (call->end_us < c->on_begin_us) continue;
    took_us[count] = call->end_us - call->begin_us;
    late_us[count++] = call->late_us;
  }
  c->p999_us = sort_and_pick(took_us, count, &c->longest_us);
  c->late_p999_us = sort_and_pick(late_us, count, &c->late_us);
  free(took_us);
  free(late_us);
  c->back_us = find_return(c);
}

/* --- sources -----------------------------------------------------------------------------------
 */

static void count_sources(cell *c) {
  for (size_t i = 0; i < c->call_count; i++) {
    const load_call *call = &c->calls->calls[i];
    c->late += call->status == WEIR_OK && call->source == WEIR_SOURCE_LATE;
    c->odd += call->status != WEIR_OK;
    bool during = call->begin_us >= c->on_us && call->end_us <= c->off_begin_us;
    if (call->status != WEIR_OK || !during) continue;
    (c->hit[call->key] ? c->by_source : c->spared_by_source)[call->source]++;
  }
}

/* --- bounds ------------------------------------------------------------------------------------
 */

/* Gathers what was admitted for one key by one rule, by the policy or not. */
static size_t gather(const cell *c, int rule, int key, bool by_fallback, admission *into) {
  size_t count = 0;
  for (size_t i = 0; i < c->call_count; i++) {
    const load_call *call = &c->calls->calls[i];
    if (call->allowed && call->rule == rule && call->key == key &&
        is_by_policy(call) == by_fallback)
      into[count++] = (admission){call->at_us, 1};
  }
  return count;
}

/* "weir:<tag>+r<rule>:{<key>}:<index>" */
static bool is_of(const char *name, const load *calls, int rule, int key) {
  char mark[64] = "+r?:{";
  mark[2] = (char)('0' + rule);
  strcat(mark, calls->keys[key]);
  strcat(mark, "}");
  return strstr(name, mark) != NULL;
}

/* Time that was already spent is spent again: a bucket's with every step back, a window's where
 * wrong clocks and right ones were at the same times. Each pass keeps to the bound. */
static size_t gather_steps(const cell *c, int rule, loss *into) {
  size_t count = 0;
  if (weir_rule_moves_in_time(load_rule(c->calls, rule))) {
    for (int i = 0; i < c->steps_back; i++)
      into[count++] = (loss){INT64_MIN, INT64_MAX};
    return count;
  }
  for (size_t i = 0; i < c->stray_count; i++)
    if (c->strays[i].to_us > c->began_us && c->strays[i].from_us < real_time_us())
      into[count++] = c->strays[i];
  return count;
}

static size_t gather_losses(const cell *c, int rule, int key, loss *into) {
  size_t count = gather_steps(c, rule, into);
  for (size_t i = 0; i < c->loss_count && c->hit[key]; i++)
    into[count++] = c->losses[i];
  for (size_t i = 0; c->watch != NULL && i < c->watch->count; i++) {
    const eviction *each = &c->watch->seen[i];
    if (is_of(each->key, c->calls, rule, key))
      into[count++] = (loss){each->when.from_us - c->how->deadline_us, each->when.to_us};
  }
  return count;
}

static void keep_worse(worst *kept, worst found, int64_t unit) {
  int64_t excess = found.excess / unit + (found.excess % unit > 0);
  if (found.admitted == 0) return;
  if (kept->admitted == 0 || excess > kept->excess)
    *kept = (worst){found.admitted, found.bound, excess};
}

static void check_key(cell *c, int rule, int key, admission *admissions, loss *losses) {
  const load *calls = c->calls;
  const weir_rule *of = load_rule(calls, rule);
  int64_t others = calls->processes - 1;
  int64_t group = calls->threads < of->burst ? calls->threads : of->burst;
  bool raises = c->place->count > 0 && plain_is_redis(c->place->servers[0]);
  int64_t unit = weir_rule_moves_in_time(of) ? of->period_us : 1;
  /* The charges that denied requests were just taking back fall on the new counter. */
  promise whole =
      promise_of(of, 1, raises ? others * group : 0, (int64_t)calls->processes * calls->threads);
  size_t count = gather(c, rule, key, false, admissions);
  size_t loss_count = gather_losses(c, rule, key, losses);
  keep_worse(&c->store, find_worst(&whole, admissions, count, losses, loss_count), unit);
  count = gather(c, rule, key, true, admissions);
  promise accounts = promise_of_accounts(of, calls->processes, 1);
  keep_worse(&c->fallback, find_worst(&accounts, admissions, count, losses, loss_count), unit);
}

static void check_bounds(cell *c) {
  size_t evictions = c->watch != NULL ? c->watch->count : 0;
  admission *admissions = calloc(c->call_count + 1, sizeof *admissions);
  loss *losses = calloc(CELL_LOSSES_MOST + STEPS + evictions, sizeof *losses);
  if (admissions == NULL || losses == NULL) give_up("no memory");
  for (int rule = 0; rule < LOAD_RULES; rule++)
    for (int key = 0; key < LOAD_KEYS; key++)
      check_key(c, rule, key, admissions, losses);
  c->evicted = count_evicted(c);
  free(admissions);
  free(losses);
}

/* --- the verdict -------------------------------------------------------------------------------
 */

static const char *find_broken_promise(const cell *c) {
  const settings *how = c->how;
  int64_t measured_us = how->is_strict ? c->p999_us : c->longest_us;
  bool is_spared = false;
  for (int i = 0; i < LOAD_KEYS; i++)
    is_spared = is_spared || !c->hit[i];
  if (!c->ended) return "a process did not end, or not well";
  if (c->odd > 0) return "a status that no caller should see";
  if (c->store.excess > 0 || c->fallback.excess > 0) return "over the bound";
  if (measured_us > how->deadline_us + how->grace_us) return "too long after the deadline";
  if (c->watch != NULL && c->watch->missed) return "a server did not tell all evictions";
  if (c->watch != NULL && c->evicted == 0) return "no counter was evicted";
  if (c->row->is_silence && c->by_source[WEIR_SOURCE_STORE] > 0) return "an answer from nowhere";
  bool by_policy = c->by_source[WEIR_SOURCE_FALLBACK] + c->by_source[WEIR_SOURCE_LATE] > 0;
  if (c->row->is_silence && !by_policy) return "no policy answered";
  if (!c->row->is_silence && c->by_source[WEIR_SOURCE_STORE] == 0) return "the store never decided";
  if (is_spared && c->spared_by_source[WEIR_SOURCE_STORE] == 0) return "other servers suffered";
  if (c->back_us < 0) return "the store was never used again";
  if (how->is_strict && c->back_us > SECOND_US) return "it took too long to come back";
  /* A bucket that is set right after a wrong clock is lower than who still has that clock left it.
   */
  bool loses = c->loss_count > 0 || c->watch != NULL || c->stray_count > 0;
  if (!loses && c->keys_lost > 0) return "a loss that was none";
  if (!c->is_back) return "a key is denied for long";
  return NULL;
}

void cell_check(cell *c) {
  c->call_count = load_calls(c->calls);
  c->keys_lost = c->calls->keys_lost;
  measure_times(c);
  count_sources(c);
  check_bounds(c);
  c->bad = find_broken_promise(c);
}
