#include "faults/run.h"

#include <stdio.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/ground.h"

enum { RETURN_US = 30 * 1000 * 1000, REPORTED_US = 30 * 1000 * 1000, LONG_US = 60 * 1000 * 1000 };

bool run_applies(const fault *row, site_kind kind) {
  return kind != SITE_MEMORY || row->in_memory;
}

/* --- keys --------------------------------------------------------------------------------------
 */

enum { CANDIDATES = 96 };

static void name_key(char name[32], int number) {
  static unsigned runs;
  if (number == 0) runs++;
  snprintf(name, 32, "k%u.%d.", runs, number);
}

static void touch_candidates(void *context) {
  const char(*names)[32] = ((void **)context)[1];
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = 10 * SECOND_US, .fallback = WEIR_FALLBACK_NONE};
  if (weir_store_open(((void **)context)[0], &store, NULL) != WEIR_OK ||
      weir_limiter_create(store, "fixed-window:9/1m", &options, &limiter, NULL) != WEIR_OK)
    give_up("keys cannot be tried");
  for (int i = 0; i < CANDIDATES; i++)
    if (weir_limiter_take(limiter, names[i], strlen(names[i]), 1, &decision, NULL) != WEIR_OK)
      give_up("keys cannot be tried");
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* Where there are several servers: as many keys on the one that fails as on the others. */
static void choose_keys(cell *c) {
  static plain_key there[CELL_SPOILED_MOST];
  static char names[CANDIDATES][32];
  void *context[] = {c->calls->url, names};
  int chosen[2] = {0, 0};
  for (int i = 0; i < CANDIDATES; i++)
    name_key(names[i], i);
  if (!await_process(start_process(touch_candidates, context), LONG_US)) give_up("no keys");
  size_t count = plain_list(c->place->servers[0], there, CELL_SPOILED_MOST);
  for (int i = 0; i < CANDIDATES; i++) {
    bool is_hit = false;
    for (size_t j = 0; j < count; j++)
      is_hit = is_hit || strstr(there[j], names[i]) != NULL;
    if (chosen[is_hit] == LOAD_KEYS / 2) continue;
    int place = chosen[is_hit]++ * 2 + is_hit;
    memcpy(c->calls->keys[place], names[i], sizeof names[i]);
    c->hit[place] = is_hit;
  }
  if (chosen[0] + chosen[1] != LOAD_KEYS) give_up("all keys are on one server");
}

static void set_keys(cell *c) {
  if (c->place->count > 1) {
    choose_keys(c);
    return;
  }
  for (int i = 0; i < LOAD_KEYS; i++) {
    name_key(c->calls->keys[i], i);
    c->hit[i] = true;
  }
}

/* --- the course of a cell ----------------------------------------------------------------------
 */

static void name_host(char url[SERVER_URL_BYTES]) {
  static const char digits[] = "127.0.0.1";
  static const char name[] = "slow.test"; /* as long */
  memcpy(strstr(url, digits), name, sizeof name - 1);
}

static void prepare(cell *c, const fault *row, const site *place, const settings *how) {
  *c = (cell){.row = row, .place = place, .how = how, .ended = true, .began_us = real_time_us()};
  c->calls = share_memory(sizeof *c->calls);
  c->calls->processes = place->kind == SITE_MEMORY ? 1 : how->processes;
  c->calls->threads = how->threads;
  c->calls->deadline_us = how->deadline_us;
  c->calls->pause_us = how->pause_us;
  site_url(place, row->by_way, (int)(how->deadline_us / MS_US), c->calls->url);
  if (row->slow_name) name_host(c->calls->url); /* the spelling of a host decides about keys */
  set_keys(c);
}

static void begin(cell *c) {
  c->on_begin_us = weir_monotonic_us();
  if (c->row->begin != NULL) c->row->begin(c);
  c->on_us = weir_monotonic_us();
}

static void end(cell *c) {
  c->off_begin_us = weir_monotonic_us();
  if (c->row->end != NULL) c->row->end(c);
  if (c->off_us == 0) c->off_us = weir_monotonic_us();
}

/* Until the store decides again and every key has been admitted once more. */
static void await_return(cell *c) {
  for (int64_t end_us = weir_monotonic_us() + RETURN_US; weir_monotonic_us() < end_us;) {
    c->is_back = cell_is_back(c);
    if (c->is_back) return;
    sleep_us(20 * MS_US);
  }
}

/* All evictions until the load ended must be known. */
static void finish_watch(cell *c) {
  int64_t last_us = real_time_us();
  for (int64_t end_us = weir_monotonic_us() + REPORTED_US; c->watch->reported_us <= last_us;) {
    if (weir_monotonic_us() > end_us) give_up("a server does not tell what it evicts");
    sleep_us(5 * MS_US);
  }
  c->weight->stopped = true;
  c->ended = await_process(c->presser, LONG_US) && c->ended;
  end_process(c->watcher);
}

static void finish(cell *c) {
  c->ended = load_stop(c->calls) && c->ended;
  if (c->watch != NULL) finish_watch(c);
  cell_check(c);
  unshare_memory(c->calls, sizeof *c->calls);
  c->calls = NULL;
  if (c->watch == NULL) return;
  unshare_memory(c->watch, sizeof *c->watch);
  unshare_memory(c->weight, sizeof *c->weight);
}

void run_fault(const fault *row, const site *const *sites, size_t count, const settings *how,
               cell *cells) {
  for (size_t i = 0; i < count; i++)
    prepare(&cells[i], row, sites[i], how);
  for (size_t i = 0; i < count; i++)
    load_start(cells[i].calls);
  sleep_us(how->warm_us);
  for (size_t i = 0; i < count; i++)
    begin(&cells[i]);
  for (int step = 0; step < STEPS; step++) {
    for (size_t i = 0; i < count && row->step != NULL; i++)
      row->step(&cells[i], step);
    sleep_us(how->hold_us / STEPS);
  }
  for (size_t i = 0; i < count; i++)
    end(&cells[i]);
  sleep_us(how->after_us);
  for (size_t i = 0; i < count; i++)
    await_return(&cells[i]);
  for (size_t i = 0; i < count; i++)
    finish(&cells[i]);
}
