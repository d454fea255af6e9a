#include "outage/tally.h"

#include <stdlib.h>
#include <weir/backend.h>

int lane_keys(const struct lane *lane) {
  return lane->keys > 0 ? lane->keys : 1;
}

struct cell *tally_cell(struct tally *tally, const struct lane *lane, size_t number, int key,
                        int64_t stamp_us) {
  int64_t window = lane->is_day ? 0 : (stamp_us - tally->origin_us) / WINDOW_US;
  if (window < 0 || window >= WINDOWS_MOST) return NULL;
  return &tally->cells[number][key][window];
}

static bool is_by_policy(const weir_decision *decision) {
  return decision->source == WEIR_SOURCE_FALLBACK || decision->source == WEIR_SOURCE_LATE;
}

static void note_answer(struct tally *tally, size_t number, const weir_decision *decision) {
  struct answers *answers = &tally->answers[number];
  if (!is_by_policy(decision))
    atomic_fetch_add(&answers->by_store, 1);
  else if (decision->source == WEIR_SOURCE_LATE)
    atomic_fetch_add(decision->allowed ? &answers->late_allowed : &answers->late_denied, 1);
  else
    atomic_fetch_add(decision->allowed ? &answers->by_policy_allowed : &answers->by_policy_denied,
                     1);
}

void tally_note(struct tally *tally, const struct lane *lane, size_t number, int key,
                const weir_decision *decision, int64_t kept) {
  struct cell *cell = tally_cell(tally, lane, number, key, decision->at_us);
  if (cell != NULL)
    atomic_fetch_add(is_by_policy(decision) ? &cell->by_policy : &cell->by_store, kept);
  if (atomic_load(&tally->fault_us) == 0) return;
  note_answer(tally, number, decision);
  bool is_policys = decision->source == WEIR_SOURCE_FALLBACK ||
                    (decision->source == WEIR_SOURCE_LATE && decision->allowed);
  int64_t none = 0;
  if (is_policys)
    atomic_compare_exchange_strong(&tally->first_policy_us, &none, weir_monotonic_us());
}

void tally_note_wait(struct tally *tally, size_t process, int64_t begin_us, int64_t end_us) {
  size_t place = atomic_fetch_add(&tally->waited[process], 1);
  if (place < WAITS_MOST) tally->waits[process][place] = (struct wait_span){begin_us, end_us};
}

void tally_note_held(struct tally *tally, const struct holding *holding) {
  size_t place = atomic_fetch_add(&tally->held, 1);
  if (place < HELD_MOST) tally->holdings[place] = *holding;
}

/* Somebody enters, or leaves. */
struct edge {
  int64_t at_us;
  int change, by_policy;
};

/* At the same moment one leaves before the next enters. */
static int by_time(const void *left, const void *right) {
  const struct edge *a = left;
  const struct edge *b = right;
  if (a->at_us != b->at_us) return a->at_us < b->at_us ? -1 : 1;
  return a->change - b->change;
}

struct most_held tally_most_held(const struct tally *tally, size_t number, int64_t after_us) {
  static struct edge edges[2 * HELD_MOST];
  struct most_held most = {0};
  int64_t held = 0;
  int64_t by_policy = 0;
  size_t count = 0;
  for (size_t i = 0; i < tally->held && i < HELD_MOST; i++) {
    const struct holding *one = &tally->holdings[i];
    if (one->lane != number || one->until_us <= one->from_us || one->until_us < after_us) continue;
    edges[count++] = (struct edge){one->from_us, 1, one->is_by_policy};
    edges[count++] = (struct edge){one->until_us, -1, -one->is_by_policy};
  }
  qsort(edges, count, sizeof edges[0], by_time);
  for (size_t i = 0; i < count; i++) {
    held += edges[i].change;
    by_policy += edges[i].by_policy;
    if (held > most.all && edges[i].at_us >= after_us)
      most = (struct most_held){held, by_policy, edges[i].at_us};
  }
  return most;
}

int64_t tally_of_day(struct tally *tally, size_t number, bool by_store) {
  struct cell *cell = &tally->cells[number][0][0];
  return cell->by_store + (by_store ? 0 : cell->by_policy);
}

static int by_begin(const void *left, const void *right) {
  const struct wait_span *a = left;
  const struct wait_span *b = right;
  return (a->begin_us > b->begin_us) - (a->begin_us < b->begin_us);
}

struct waiting tally_waiting(struct tally *tally, int64_t within_us) {
  int64_t fault_us = tally->fault_us;
  struct waiting found = {0};
  for (size_t process = 0; process < PROCESSES; process++) {
    struct wait_span *waits = tally->waits[process];
    size_t count = tally->waited[process] < WAITS_MOST ? tally->waited[process] : WAITS_MOST;
    qsort(waits, count, sizeof waits[0], by_begin);
    int64_t busy_until_us = 0;
    for (size_t i = 0; i < count && waits[i].begin_us < fault_us + within_us; i++) {
      int64_t both_us = waits[i].end_us < busy_until_us ? waits[i].end_us : busy_until_us;
      bool is_second = waits[i].begin_us < busy_until_us;
      if (is_second && both_us - fault_us > found.end_us) found.end_us = both_us - fault_us;
      found.late += is_second && waits[i].begin_us > fault_us + WAITS_END_US;
      if (waits[i].end_us > busy_until_us) busy_until_us = waits[i].end_us;
    }
  }
  return found;
}
