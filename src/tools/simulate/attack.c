/* Searches the traffic that a rule admits most of: random traffics, improved step by step. The
 * admissions of any period are held against the bound that is proved. */
#include "simulate/attack.h"

#include <stdlib.h>

#include <weir/backend.h>

#include "random.h"
#include "simulate/driver.h"
#include "simulate/measure.h"
#include "wide.h"

#define BEGIN_US (INT64_C(1577836800) * 1000000)

enum {
  SPAN_PERIODS = 4, /* that a traffic may take */
  TRAIN_REQUESTS_MOST = 4096,
  CLIMB_TRAFFICS = 1500,      /* before the next climb begins at random */
  SINGLE_REQUESTS_MOST = 2048 /* of a train under a rule that takes one at a time */
};

struct search {
  weir_driver driver;
  const weir_rule *rule;
  int64_t begin_us;
  uint64_t random;
  weir_attack_result *result;
};

typedef struct traffic {
  int64_t most;
  size_t count;
  weir_attack_train trains[WEIR_ATTACK_TRAINS_MOST];
} traffic;

/* --- the bound ---------------------------------------------------------------------------------
 */

/* A period may hold the rest of one window and all of another. Where a window begins with a
 * request, the first one lies before the period. A bucket adds to its burst what fills up from the
 * first to the last microsecond of a period; W * 2^k is below 2^65. */
static int64_t proved_bound(const weir_rule *rule) {
  if (weir_rule_moves_in_time(rule)) {
    return rule->burst + (int64_t)(((weir_wide)(rule->period_us - 1) << rule->unit_bits) /
                                   (weir_wide)rule->token_units);
  }
  if (weir_rule_slides(rule)) return weir_rule_bound(rule);
  return 2 * rule->limit - weir_rule_opens_windows(rule);
}

/* --- one traffic -------------------------------------------------------------------------------
 */

/* Sends the traffic for a key that no request has used, and counts the most that is admitted in any
 * period. */
static weir_status try_traffic(struct search *search, traffic *tried, weir_message *message) {
  weir_driven_key key;
  weir_stamps stamps = {0}; /* what was admitted, and when */
  int64_t done[WEIR_ATTACK_TRAINS_MOST] = {0};
  weir_status status = WEIR_OK;
  if (!weir_driver_add_key(&search->driver, &key)) return WEIR_NO_MEMORY;
  search->result->traffics++;
  tried->most = 0;
  for (size_t i = 0; i < tried->count; i++)
    tried->trains[i].admitted = 0;

  while (status == WEIR_OK) {
    /* The next request of all trains, as long as there are any. */
    size_t next = tried->count;
    int64_t next_us = 0;
    for (size_t i = 0; i < tried->count; i++) {
      int64_t at_us = tried->trains[i].at_us + done[i] * tried->trains[i].gap_us;
      if (done[i] == tried->trains[i].requests || (next < tried->count && at_us >= next_us))
        continue;
      next = i;
      next_us = at_us;
    }
    if (next == tried->count) break;

    weir_attack_train *train = &tried->trains[next];
    int64_t now_us = search->begin_us + next_us;
    weir_claim request = {.ask = {.kind = WEIR_TAKE, .up_to = true, .cost = train->cost}};
    done[next]++;
    search->result->requests++;
    status = weir_driver_decide(&search->driver, &key, now_us, &request, message);
    if (status != WEIR_OK || !request.verdict.decision.allowed) continue;

    train->admitted += request.verdict.decision.cost;
    weir_stamps_slide(&stamps, now_us, search->rule->period_us);
    if (!weir_stamps_add(&stamps, now_us, 0, request.verdict.decision.cost))
      status = WEIR_NO_MEMORY;
    if (stamps.admitted > tried->most) tried->most = stamps.admitted;
  }
  weir_stamps_clean_up(&stamps);
  weir_driver_remove_key(&search->driver, &key);
  return status;
}

/* --- climbing ----------------------------------------------------------------------------------
 */

static int64_t below(struct search *search, int64_t number) {
  return weir_random_below(&search->random, number);
}

/* From 1 to `most`, small numbers as likely as large ones. */
static int64_t any_size(struct search *search, int64_t most) {
  int bits = 0;
  while (bits < 62 && most >> bits != 0)
    bits++;
  int64_t size = 1 + below(search, INT64_C(1) << below(search, bits + 1));
  return size < most ? size : most;
}

/* A moment of the span: any, or one at the edge of a part of the period. */
static int64_t any_moment(struct search *search) {
  int64_t span_us = SPAN_PERIODS * search->rule->period_us;
  if (below(search, 2) == 0) return below(search, span_us);
  int64_t parts = INT64_C(1) << below(search, 7);
  int64_t part_us = (search->rule->period_us + parts - 1) / parts;
  int64_t moment_us = below(search, SPAN_PERIODS * parts) * part_us - below(search, 2);
  return moment_us < 0 ? 0 : moment_us;
}

static void set_length(struct search *search, weir_attack_train *train) {
  const weir_rule *rule = search->rule;
  int64_t most = 2 * rule->limit < TRAIN_REQUESTS_MOST ? 2 * rule->limit : TRAIN_REQUESTS_MOST;
  if (weir_rule_takes_one(rule)) {
    train->requests = any_size(search, most < SINGLE_REQUESTS_MOST ? most : SINGLE_REQUESTS_MOST);
    return;
  }
  /* One request can take all that fits, unless the rule takes less than its limit at once. */
  int64_t one_in = weir_rule_capacity(rule) < rule->limit ? 4 : 32;
  train->requests = below(search, one_in) != 0 ? 1 : any_size(search, most);
}

/* At once, at the pace of the limit, or any other. */
static void set_pace(struct search *search, weir_attack_train *train) {
  const weir_rule *rule = search->rule;
  switch (below(search, 3)) {
    case 0:
      train->gap_us = 0;
      break;
    case 1:
      train->gap_us = (rule->period_us + rule->limit - 1) / rule->limit;
      break;
    default:
      train->gap_us = any_size(search, rule->period_us);
      break;
  }
  int64_t most_us = SPAN_PERIODS * rule->period_us / train->requests;
  if (train->gap_us > most_us) train->gap_us = most_us;
}

static void set_cost(struct search *search, weir_attack_train *train) {
  int64_t capacity = weir_rule_capacity(search->rule);
  train->cost = below(search, 2) == 0 ? capacity : any_size(search, capacity);
}

/* Changes one thing: a train more or less, or where, how fast or how much one asks. */
static void change(struct search *search, traffic *tried) {
  if (tried->count == 0 || (tried->count < WEIR_ATTACK_TRAINS_MOST && below(search, 8) == 0)) {
    weir_attack_train *added = &tried->trains[tried->count++];
    *added = (weir_attack_train){.at_us = any_moment(search)};
    set_length(search, added);
    set_pace(search, added);
    set_cost(search, added);
    return;
  }
  weir_attack_train *train = &tried->trains[below(search, (int64_t)tried->count)];
  switch (below(search, 8)) {
    case 0:
      *train = tried->trains[--tried->count];
      break;
    case 1:
      train->at_us = any_moment(search);
      break;
    case 2:
      set_cost(search, train);
      break;
    case 3:
      set_length(search, train);
      set_pace(search, train);
      break;
    default: { /* moves it, within the span */
      int64_t span_us = SPAN_PERIODS * search->rule->period_us;
      int64_t by_us = any_size(search, search->rule->period_us);
      train->at_us += below(search, 2) == 0 ? by_us : -by_us;
      if (train->at_us < 0) train->at_us = 0;
      if (train->at_us > span_us) train->at_us = span_us;
      break;
    }
  }
}

/* From nothing on: keeps each change that admits no less. */
static weir_status climb(struct search *search, traffic *best, uint64_t requests,
                         weir_message *message) {
  traffic reached = {0};
  for (int i = 0; i < CLIMB_TRAFFICS && search->result->requests < requests; i++) {
    traffic tried = reached;
    change(search, &tried);
    if (below(search, 3) == 0) change(search, &tried);
    weir_status status = try_traffic(search, &tried, message);
    if (status != WEIR_OK) return status;
    if (tried.most >= reached.most) reached = tried;
    if (reached.most > best->most) *best = reached;
  }
  return WEIR_OK;
}

static int by_time(const void *a, const void *b) {
  const weir_attack_train *left = a, *right = b;
  return (left->at_us > right->at_us) - (left->at_us < right->at_us);
}

weir_status weir_attack_search(const char *rule, const weir_limiter_options *options,
                               uint64_t requests, weir_attack_result *result,
                               weir_message *message) {
  struct search search = {.random = 1, .result = result};
  traffic best = {0};
  weir_status status = weir_driver_init(&search.driver, rule, options, message);
  if (status != WEIR_OK) return status;
  if (search.driver.stack.count > 1) {
    weir_message_set(message,
                     "rule \"%.80s\" holds %zu rules: an attack is on one; give each its "
                     "own --rule",
                     rule, search.driver.stack.count);
    weir_driver_clean_up(&search.driver);
    return WEIR_BAD_RULE;
  }
  search.rule = &search.driver.stack.rules[0];
  search.begin_us = (BEGIN_US / search.rule->period_us + 1) * search.rule->period_us;
  *result = (weir_attack_result){.limit = search.rule->limit,
                                 .period_us = search.rule->period_us,
                                 .bound = proved_bound(search.rule)};
  while (status == WEIR_OK && result->requests < requests)
    status = climb(&search, &best, requests, message);
  result->most = best.most;
  for (size_t i = 0; i < best.count; i++)
    if (best.trains[i].admitted > 0) result->trains[result->train_count++] = best.trains[i];
  qsort(result->trains, result->train_count, sizeof *result->trains, by_time);
  weir_driver_clean_up(&search.driver);
  return status;
}
