#include "outage/rows.h"

#include <string.h>

#include "faults/ground.h"

/* The demand of most lanes is many times the limit: what may be admitted is admitted. In a short pause
 * most answers are only late, and hold nothing: the median may be a little more. */

#define DAY "fixed-window:100/1d"
#define SECOND "fixed-window:100/1s"

static const struct lane pause_lanes[] = {{.name = "paused",
                                           .rule = DAY,
                                           .limit = 100,
                                           .demand = 12,
                                           .is_day = true,
                                           .threads = 4,
                                           .worst = 1.3,
                                           .median = 1.1}};

static const struct lane kill_lanes[] = {
    {.name = "killed", .rule = SECOND, .limit = 100, .demand = 12, .worst = 1.25, .median = 1.05},
    {.name = "killed-day", .rule = DAY, .limit = 100, .demand = 12, .is_day = true, .worst = 1.25}};

static const struct lane traffic_lanes[] = {{.name = "uneven",
                                             .rule = SECOND,
                                             .limit = 100,
                                             .demand = 2,
                                             .keys = 20,
                                             .is_uneven = true,
                                             .worst = 1.3,
                                             .denied_percent = 10}};

/* Net of what is given back they want three and six times the limit. */
static const struct lane settle_lanes[] = {{.name = "settle",
                                            .rule = "fixed-window:300/1s",
                                            .limit = 300,
                                            .demand = 3,
                                            .callers = CALLERS_SETTLE,
                                            .worst = 1.25,
                                            .median = 1.05},
                                           {.name = "reserve",
                                            .rule = SECOND,
                                            .limit = 100,
                                            .demand = 24,
                                            .callers = CALLERS_RESERVE,
                                            .worst = 1.25,
                                            .median = 1.05}};

/* The store itself admits a bucket's burst beside its rate. */
static const struct lane busy_lanes[] = {
    {.name = "busy",
     .rule = "fixed-window:1000/1s",
     .limit = 1000,
     .demand = 1.5,
     .keys = 2,
     .worst = 1.05,
     .denied_percent = .5},
    {.name = "busy-log", .rule = "sliding-log:200/1s", .limit = 200, .demand = 1.5, .worst = 1.05},
    {.name = "busy-bucket",
     .rule = "token-bucket:200/1s,burst=20",
     .limit = 200,
     .demand = 1.5,
     .worst = 1.1}};

/* 2,000 requests a second, which the limit has room for. */
static const struct lane stop_lanes[] = {{.name = "stopped",
                                          .rule = "fixed-window:1000000/1d",
                                          .limit = 1000000,
                                          .demand = .00025,
                                          .keys = 8,
                                          .threads = 4}};

#define SECOND_BY(policy) .rule = SECOND, .limit = 100, .demand = 3, .fallback = (policy)
#define DAY_BY(policy) .rule = DAY, .limit = 100, .demand = 12, .is_day = true, .fallback = (policy)

static const struct lane policy_lanes[] = {
    {.name = "deny", SECOND_BY(WEIR_FALLBACK_DENY), .worst = 1},
    {.name = "none", SECOND_BY(WEIR_FALLBACK_NONE), .worst = 1},
    {.name = "allow", SECOND_BY(WEIR_FALLBACK_ALLOW)}};

static const struct lane policy_pause_lanes[] = {
    {.name = "deny-day", DAY_BY(WEIR_FALLBACK_DENY), .worst = 1},
    {.name = "none-day", DAY_BY(WEIR_FALLBACK_NONE), .worst = 1},
    {.name = "allow-day", DAY_BY(WEIR_FALLBACK_ALLOW)}};

/* A window of these need not begin with the second, so a second may hold more than the limit; it is
 * compared with the seconds before the outage. */
#define ANY .demand = 6, .is_beside_before = true, .worst = 1.25

static const struct lane algorithm_lanes[] = {
    {.name = "sliding", .rule = "sliding-window:100/1s", .limit = 100, ANY},
    {.name = "quota", .rule = "quota:100/1s", .limit = 100, ANY},
    {.name = "bucket", .rule = "token-bucket:100/1s,burst=20", .limit = 100, ANY},
    {.name = "leaky", .rule = "leaky-bucket:100/1s,queue=20", .limit = 100, ANY},
    /* Its account knows its entries only roughly, and is not paid: docs/guarantees.md, "Outages". */
    {.name = "log",
     .rule = "sliding-log:100/1s",
     .limit = 100,
     .demand = 6,
     .is_beside_before = true,
     .worst = 2},
    {.name = "stack", .rule = "fixed-window:100/1s;token-bucket:80/1s,burst=40", .limit = 100, ANY},
    {.name = "leased", .rule = "fixed-window:400/1s,lease=50ms", .limit = 400, ANY}};

/* Below 20 places the goal is N + processes - 1 on average. */
static const struct lane held_lanes[] = {{.name = "held",
                                          .rule = "in-flight:20/1s",
                                          .limit = 20,
                                          .callers = CALLERS_HOLD,
                                          .threads = 8,
                                          .work_us = 100 * MS_US,
                                          .worst = 1.3},
                                         {.name = "held-long",
                                          .rule = "in-flight:20/2s",
                                          .limit = 20,
                                          .callers = CALLERS_HOLD,
                                          .threads = 8,
                                          .work_us = 2 * SECOND_US,
                                          .worst = 1.3},
                                         {.name = "held-many",
                                          .rule = "in-flight:100/1s",
                                          .limit = 100,
                                          .callers = CALLERS_HOLD,
                                          .threads = 16,
                                          .work_us = 300 * MS_US,
                                          .worst = 1.3},
                                         {.name = "held-few",
                                          .rule = "in-flight:3/1s",
                                          .limit = 3,
                                          .callers = CALLERS_HOLD,
                                          .threads = 2,
                                          .work_us = 100 * MS_US,
                                          .median = (3 + PROCESSES - 1) / 3.0}};

/* Told of its peers, a process takes of a key that moved to it the part of one, and all of its own. */
static const struct lane moved_lanes[] = {
    {.name = "moved",
     .rule = SECOND,
     .limit = 100,
     .demand = 4,
     .keys = PROCESSES,
     .kept = KEYS_MOVE,
     .peers = PROCESSES,
     .worst = 2 + PROCESSES / 100.0},
    {.name = "stays",
     .rule = SECOND,
     .limit = 100,
     .demand = 4,
     .keys = PROCESSES,
     .kept = KEYS_STAY,
     .peers = PROCESSES,
     .worst = 2, /* a payment without an answer counts as paid */
     .unused_percent = 10},
    {.name = "moved-untold",
     .rule = SECOND,
     .limit = 100,
     .demand = 4,
     .keys = PROCESSES,
     .kept = KEYS_MOVE,
     .worst = PROCESSES}};

#define LANES(lanes) lanes, sizeof lanes / sizeof lanes[0]
#define PAUSE(ms) \
  { FAULT_PAUSE, SECOND_US, (ms)*MS_US, SECOND_US }
#define KILL \
  { FAULT_KILL, 5 * SECOND_US, 3 * SECOND_US, 3 * SECOND_US / 2 }

const struct row rows[] = {
    {"pause-30", "stopped for 30 ms, a day's limit partly used", PAUSE(30), LANES(pause_lanes)},
    {"pause-60", "the same, 60 ms", PAUSE(60), LANES(pause_lanes)},
    {"pause-200", "the same, 200 ms", PAUSE(200), LANES(pause_lanes)},
    {"kill", "killed for 3 s after five windows; a day's limit half used", KILL, LANES(kill_lanes)},
    {"traffic", "the same, traffic 50/20/10/.. and half of the keys at one process", KILL,
     LANES(traffic_lanes)},
    {"settle", "the same, callers that give most back", KILL, LANES(settle_lanes)},
    {"policies", "the same, policies other than local", KILL, LANES(policy_lanes)},
    {"policies-pause", "they, stopped for 60 ms", PAUSE(60), LANES(policy_pause_lanes)},
    {"algorithms", "killed, other rules than fixed windows", KILL, LANES(algorithm_lanes)},
    {"held",
     "the same after eight, places that are held",
     {FAULT_KILL, 8 * SECOND_US, 3 * SECOND_US, 3 * SECOND_US / 2},
     LANES(held_lanes)},
    {"held-stop",
     "they, stopped for 3 s",
     {FAULT_PAUSE, 8 * SECOND_US, 3 * SECOND_US, 3 * SECOND_US / 2},
     LANES(held_lanes)},
    {"moved", "killed, keys of one process each, of which one comes to all meanwhile", KILL,
     LANES(moved_lanes)},
    {"moved-stop",
     "they, stopped for 3 s",
     {FAULT_PAUSE, 5 * SECOND_US, 3 * SECOND_US, 3 * SECOND_US / 2},
     LANES(moved_lanes)},
    {"stop",
     "stopped for 1 s, no limit near",
     {FAULT_STOP, 3 * SECOND_US / 2, SECOND_US, SECOND_US},
     LANES(stop_lanes)},
    {"busy",
     "20 busy loops, no fault",
     {FAULT_BUSY, SECOND_US, 60 * SECOND_US, 0},
     LANES(busy_lanes)},
};
const size_t rows_count = sizeof rows / sizeof rows[0];

const struct row *row_find(const char *name, size_t length) {
  for (size_t i = 0; i < rows_count; i++)
    if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0) return &rows[i];
  return NULL;
}
