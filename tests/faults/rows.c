#include "faults/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/ground.h"
#include "faults/resolver.h"

enum { LONG_US = 120 * 1000 * 1000 };

static struct server *victim(const cell *c) {
  return c->place->servers[0];
}

/* The fault hits the server at once, while it can be used all the time. */
static void is_back(cell *c) {
  c->off_us = weir_monotonic_us();
}

/* --- the server itself -------------------------------------------------------------------------
 */

static void stop(cell *c) {
  server_stop(victim(c));
}

static void go_on(cell *c) {
  server_continue(victim(c));
}

static void kill_it(cell *c) {
  int64_t from_us = real_time_us();
  server_kill(victim(c));
  cell_lose(c, from_us, real_time_us());
}

static void start_again(cell *c) {
  server_restart(victim(c));
}

static void restart(cell *c) {
  kill_it(c);
  start_again(c);
  is_back(c);
}

static void flush_now_and_then(cell *c, int number) {
  if (number % 4 != 0) return;
  int64_t from_us = real_time_us();
  plain_flush(victim(c));
  cell_lose(c, from_us, real_time_us());
}

/* --- the way to it -----------------------------------------------------------------------------
 */

static void mute(cell *c) {
  proxy_set(c->place->way, PROXY_MUTE);
}

static void trickle(cell *c) {
  proxy_set(c->place->way, PROXY_TRICKLES);
}

static void drop_requests(cell *c) {
  proxy_set(c->place->way, PROXY_DROPS_REQUESTS);
}

static void drop_more(cell *c, int number) {
  if (number == STEPS / 3) proxy_set(c->place->way, PROXY_DROPS_REPLIES);
  if (number == STEPS * 2 / 3) proxy_set(c->place->way, PROXY_SILENT);
}

static void fill(cell *c) {
  proxy_set(c->place->way, PROXY_FULL);
}

static void open_way(cell *c) {
  proxy_set(c->place->way, PROXY_OPEN);
}

/* --- its name ----------------------------------------------------------------------------------
 */

/* A new program starts while the resolver hangs: its store opens all the same. */
static void open_by_name(void *context) {
  cell *c = context;
  weir_message message = {""};
  weir_store *store;
  int64_t begin_us = weir_monotonic_us();
  if (weir_store_open(c->calls->url, &store, &message) != WEIR_OK) give_up("%s", message.text);
  c->calls->opened_us = weir_monotonic_us() - begin_us;
  weir_store_close(store);
}

/* All connections are lost, so that every process must connect anew. */
static void forget_name(cell *c) {
  resolver_hang(true);
  c->opener = start_process(open_by_name, c);
  restart(c);
}

static void find_name(cell *c) {
  c->ended = await_process(c->opener, LONG_US) && c->ended;
  c->opened_us = c->calls->opened_us;
  resolver_hang(false);
}

/* --- its memory --------------------------------------------------------------------------------
 */

static void press(cell *c) {
  c->watch = share_memory(sizeof *c->watch);
  c->watch->server = victim(c);
  c->watcher = plain_watch(c->watch);
  c->weight = share_memory(sizeof *c->weight);
  c->weight->server = victim(c);
  c->presser = plain_press(c->weight);
  is_back(c);
}

static bool is_ours(const cell *c, const char *key) {
  for (int i = 0; i < LOAD_KEYS; i++)
    if (strstr(key, c->calls->keys[i]) != NULL) return true;
  return false;
}

static void begin_spoiling(cell *c) {
  c->spoiled = calloc(CELL_SPOILED_MOST, sizeof *c->spoiled);
  if (c->spoiled == NULL) give_up("no memory");
  cell_lose(c, real_time_us(), INT64_MAX);
}

static bool is_spoiled(const cell *c, const char *key) {
  for (size_t i = 0; i < c->spoiled_count; i++)
    if (strcmp(c->spoiled[i], key) == 0) return true;
  return false;
}

/* A list of keys that change may leave some out: what was spoiled once is remembered. */
static void spoil_all(cell *c, int number) {
  static plain_key there[CELL_SPOILED_MOST];
  (void)number;
  size_t count = plain_list(victim(c), there, CELL_SPOILED_MOST);
  size_t ours = 0;
  for (size_t i = 0; i < count; i++) {
    if (!is_ours(c, there[i])) continue;
    memmove(there[ours++], there[i], PLAIN_KEY_BYTES);
    if (is_spoiled(c, there[ours - 1])) continue;
    if (c->spoiled_count == CELL_SPOILED_MOST) give_up("more keys than there is room to note");
    memcpy(c->spoiled[c->spoiled_count++], there[ours - 1], PLAIN_KEY_BYTES);
  }
  plain_spoil(victim(c), there, ours);
}

/* Each counter was lost once: while something else is there nobody is admitted by the store. */
static void set_right(cell *c) {
  plain_drop(victim(c), c->spoiled, c->spoiled_count);
  c->losses[c->loss_count - 1].to_us = real_time_us();
  free(c->spoiled);
  c->spoiled = NULL;
}

/* --- clocks ------------------------------------------------------------------------------------
 */

#define HOUR_US (3600 * SECOND_US)
#define YEAR_US (365 * 24 * HOUR_US)

/* A thread may be interrupted between reading the time and reading the offset. */
enum { BETWEEN_US = 1000000 };

static void set_clocks(cell *c, int64_t offset_us) {
  int64_t before_us = c->calls->offsets_us[0];
  c->steps_back += offset_us < before_us - SECOND_US;
  if (offset_us != 0) c->strays[c->stray_count++].from_us = real_time_us() + offset_us - BETWEEN_US;
  for (int i = 0; i < c->calls->processes; i++)
    c->calls->offsets_us[i] = offset_us;
  if (before_us != 0)
    c->strays[c->stray_count - 1 - (offset_us != 0)].to_us =
        real_time_us() + before_us + BETWEEN_US;
}

static void step_clocks(cell *c, int number) {
  static const int64_t offsets_us[STEPS] = {5 * SECOND_US, 0,        -1500000, 0,
                                            HOUR_US,       0,        -HOUR_US, 0,
                                            3 * YEAR_US,   -YEAR_US, YEAR_US,  -5 * SECOND_US};
  set_clocks(c, offsets_us[number]);
}

static void set_clocks_right(cell *c) {
  set_clocks(c, 0);
}

static void skew_clocks(cell *c, int number) {
  static const int64_t errors_us[] = {-LOAD_CLOCK_ERROR_US, LOAD_CLOCK_ERROR_US, 0};
  for (int i = 0; i < c->calls->processes; i++)
    c->calls->offsets_us[i] = errors_us[(i + number) % 3];
}

/* --- all of them -------------------------------------------------------------------------------
 */

const fault rows[] = {
    {.name = "stopped, continued", .is_silence = true, .begin = stop, .end = go_on},
    {.name = "killed, started again", .is_silence = true, .begin = kill_it, .end = start_again},
    {.name = "restarted", .begin = restart},
    {.name = "accepts, never answers",
     .by_way = true,
     .is_silence = true,
     .begin = mute,
     .end = open_way},
    {.name = "one byte per 80 ms",
     .by_way = true,
     .is_silence = true,
     .begin = trickle,
     .end = open_way},
    {.name = "packets lost",
     .by_way = true,
     .is_silence = true,
     .begin = drop_requests,
     .step = drop_more,
     .end = open_way},
    {.name = "full backlog", .by_way = true, .is_silence = true, .begin = fill, .end = open_way},
    {.name = "name resolved slowly, then never; restarted",
     .slow_name = true,
     .begin = forget_name,
     .end = find_name},
    {.name = "evicts", .evicts = true, .begin = press},
    {.name = "flushed", .begin = is_back, .step = flush_now_and_then},
    {.name = "something else under its keys",
     .begin = begin_spoiling,
     .step = spoil_all,
     .end = set_right},
    {.name = "clocks set back and forth, 1.5 s to 4 years",
     .in_memory = true,
     .step = step_clocks,
     .end = set_clocks_right},
    {.name = "clocks apart by up to 2d", .step = skew_clocks},
};

const size_t row_count = sizeof rows / sizeof rows[0];
