/* Finds the smallest limit that denies no more than a share, by halving. */
#include "simulate/recommend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

struct search {
  const char *rule;
  const weir_limiter_options *options;
  const weir_goal *goal;
  weir_trial trial;
  weir_denials allowed; /* to be denied, by the goal */
  int64_t least, most;  /* limits that are a rule with its options */
  weir_recommendation *found;
};

void weir_recommend_write(const char *rule, int64_t limit, char text[WEIR_RECOMMENDED_TEXT_BYTES]) {
  size_t before = strcspn(rule, ":");
  const char *behind = rule + before + strcspn(rule + before, "/");
  snprintf(text, WEIR_RECOMMENDED_TEXT_BYTES, "%.*s:%" PRId64 "%s", (int)before, rule, limit,
           behind);
}

/* --- which limits there are ------------------------------------------------------------------- */

static bool is_rule(const struct search *search, int64_t limit, weir_message *message) {
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_stack stack;
  weir_recommend_write(search->rule, limit, text);
  return weir_stack_parse(text, 1, &stack, message) == WEIR_OK;
}

/* With a burst, a queue or a lease not every limit is a rule: too small a rate takes too long to
 * fill the burst, too large a one fills it too fast, and so on. Each of these conditions holds
 * below some limit or above some limit: what is a rule lies around the one that was given. */
static void find_limits(struct search *search, const weir_rule *given) {
  weir_message unused;
  int64_t below = 0, above = weir_rule_takes_one(given) ? WEIR_LOG_LIMIT_MOST : WEIR_LIMIT_MOST;
  above++;
  search->least = search->most = given->limit;
  while (search->least - below > 1) {
    int64_t limit = below + (search->least - below) / 2;
    *(is_rule(search, limit, &unused) ? &search->least : &below) = limit;
  }
  while (above - search->most > 1) {
    int64_t limit = search->most + (above - search->most) / 2;
    *(is_rule(search, limit, &unused) ? &search->most : &above) = limit;
  }
}

/* --- one limit -------------------------------------------------------------------------------- */

/* Counts no further than to see that it is not enough, unless all is wanted. */
static weir_status run(struct search *search, int64_t limit, bool wholly, weir_message *message) {
  static const weir_denials any = {UINT64_MAX, UINT64_MAX};
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_recommend_write(search->rule, limit, text);
  search->trial.most = wholly ? any : search->allowed;
  return weir_trial_run(&search->trial, text, search->options, message);
}

static bool is_enough(const struct search *search) {
  const weir_denials *denied = &search->trial.denied;
  return denied->requests <= search->allowed.requests && denied->keys <= search->allowed.keys;
}

static weir_status try_limit(struct search *search, int64_t limit, bool *enough,
                             weir_message *message) {
  weir_status status = run(search, limit, false, message);
  *enough = status == WEIR_OK && is_enough(search);
  if (*enough) {
    search->found->limit = limit;
    search->found->denied = search->trial.denied;
  }
  return status;
}

static void set_allowed(struct search *search) {
  const weir_goal *goal = search->goal;
  const weir_record *record = search->trial.record;
  weir_denials *allowed = &search->allowed;
  *allowed = (weir_denials){UINT64_MAX, UINT64_MAX};
  __extension__ typedef unsigned __int128 wide;
  wide share = goal->key != NULL ? 0 : (wide)goal->share;
  if (goal->of_keys)
    allowed->keys = (uint64_t)(share * record->key_count / WEIR_RULE_SHARE_WHOLE);
  else
    allowed->requests = (uint64_t)(share * record->count / WEIR_RULE_SHARE_WHOLE);
}

/* --- the search ------------------------------------------------------------------------------- */

/* From `below`, which is not enough, up to the limit that was found, which is: half of what lies
 * between goes with each run. */
static weir_status halve(struct search *search, int64_t below, weir_message *message) {
  const weir_recommendation *found = search->found;
  while (found->limit - below > 1) {
    int64_t limit = below + (found->limit - below) / 2;
    bool enough;
    weir_status status = try_limit(search, limit, &enough, message);
    if (status != WEIR_OK) return status;
    if (!enough) below = limit;
  }
  return WEIR_OK;
}

/* Up from the highest peak, of which a window denies nothing, where a bucket still denies some; then
 * down by halves, each of which has to be run for more keys. `*reached`: some limit is enough. */
static weir_status climb(struct search *search, bool *reached, weir_message *message) {
  int64_t limit = weir_record_percentile(search->trial.record, 1000), below = search->least - 1;
  weir_status status;
  if (limit < search->least) limit = search->least;
  if (limit > search->most) limit = search->most;
  while ((status = try_limit(search, limit, reached, message)) == WEIR_OK && !*reached) {
    below = limit;
    if (limit == search->most) return WEIR_OK;
    limit = limit > search->most / 2 ? search->most : limit * 2;
  }
  bool enough = true;
  while (status == WEIR_OK && enough && below < search->least && limit > search->least) {
    limit = limit / 2 > search->least ? limit / 2 : search->least;
    status = try_limit(search, limit, &enough, message);
    if (!enough) below = limit;
  }
  return status == WEIR_OK ? halve(search, below, message) : status;
}

static uint64_t count_above(const weir_record *record, int64_t cost) {
  weir_record_cursor cursor;
  weir_recorded request;
  uint64_t count = 0;
  if (record->cost_most <= cost) return 0;
  weir_record_begin(record, &cursor);
  while (weir_record_next(&cursor, &request))
    count += request.cost > cost;
  return count;
}

/* Below it no limit is enough: too many requests cost more, and are denied whatever else happens. */
static int64_t least_possible(const struct search *search) {
  int64_t below = search->least - 1, least = search->found->limit;
  while (least - below > 1) {
    int64_t limit = below + (least - below) / 2;
    bool possible = count_above(search->trial.record, limit) <= search->allowed.requests;
    *(possible ? &least : &below) = limit;
  }
  return least;
}

/* Of keys and of single requests a larger limit denies no more than a smaller one. Of requests with
 * costs it may, so that the smallest which is enough can lie below one that is not. */
static weir_status look_below(struct search *search, weir_message *message) {
  weir_recommendation *found = search->found;
  const weir_record *record = search->trial.record;
  const weir_goal *goal = search->goal;
  uint64_t work = 0; /* a run looks at all requests, and decides some */
  found->smallest = goal->of_keys || goal->key != NULL || record->cost_most <= 1;
  if (found->smallest) return WEIR_OK;
  for (int64_t limit = least_possible(search), end = found->limit; limit < end; limit++) {
    bool enough;
    uint64_t before = search->trial.decided;
    if (work > WEIR_RECOMMEND_REQUESTS_MOST) return WEIR_OK;
    weir_status status = try_limit(search, limit, &enough, message);
    if (status != WEIR_OK) return status;
    if (enough) break;
    work += search->trial.decided - before + record->count / 8;
  }
  found->smallest = true;
  return WEIR_OK;
}

/* What one less denies, and whether that is one key's doing. */
static weir_status run_below(struct search *search, weir_message *message) {
  weir_recommendation *found = search->found;
  const weir_trial *trial = &search->trial;
  found->least = search->least;
  if (found->limit == search->least) {
    found->denied_below = (weir_denials){trial->record->count, trial->record->key_count};
    if (trial->only != NULL) found->denied_below = (weir_denials){trial->only->requests, 1};
    return WEIR_OK;
  }
  weir_status status = run(search, found->limit - 1, true, message);
  found->denied_below = trial->denied;
  if (trial->top_requests <= trial->denied.requests / 2) return status;
  found->rests_on = &trial->record->keys[trial->top];
  found->rests_on_requests = trial->top_requests;
  return status;
}

/* --- no limit --------------------------------------------------------------------------------- */

static weir_status refuse(struct search *search, weir_message *message) {
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_stack stack;
  weir_message why = {""};
  weir_status status = run(search, search->most, true, message);
  if (status != WEIR_OK) return status;
  weir_denials denied = search->trial.denied;
  weir_recommend_write(search->rule, search->most, text);
  status = weir_stack_parse(text, 1, &stack, message);
  if (status != WEIR_OK) return status;
  int64_t capacity = stack.rules[0].capacity;
  if (capacity < search->most)
    weir_message_set(&why,
                     ": however high its limit, it admits %" PRId64 " at once; %" PRIu64
                     " requests cost more",
                     capacity, count_above(search->trial.record, capacity));
  weir_message_set(message,
                   "no limit is enough for rule \"%.60s\": with %" PRId64
                   " it still denies %" PRIu64 " requests of %" PRIu64 " keys%s",
                   search->rule, search->most, denied.requests, denied.keys, why.text);
  return WEIR_BAD_RULE;
}

/* --- the whole -------------------------------------------------------------------------------- */

static weir_status prepare(struct search *search, weir_message *message) {
  weir_record *record = search->trial.record;
  const weir_goal *goal = search->goal;
  weir_stack stack;
  weir_status status = weir_stack_parse(search->rule, 1, &stack, message);
  if (status != WEIR_OK) return status;
  if (stack.count > 1 || strlen(search->rule) > WEIR_RECOMMENDED_TEXT_BYTES / 2) {
    weir_message_set(message, "a limit is recommended for one rule; give each its own --rule");
    return WEIR_BAD_RULE;
  }
  if (goal->key != NULL) {
    search->trial.only = weir_record_find(record, goal->key, strlen(goal->key));
    if (search->trial.only == NULL) {
      weir_message_set(message, "key \"%.80s\" never asks", goal->key);
      return WEIR_BAD_ARGUMENT;
    }
  }
  if (weir_rule_takes_one(&stack.rules[0]) && record->cost_most > 1) {
    weir_message_set(message, "cost %" PRId64 " for a %s: accepted is 1", record->cost_most,
                     weir_rule_kind_name(stack.rules[0].kind));
    return WEIR_BAD_COST;
  }
  find_limits(search, &stack.rules[0]);
  set_allowed(search);
  bool enough = weir_record_find_peaks(record, weir_trial_reach_us(&stack.rules[0]));
  return enough ? WEIR_OK : WEIR_NO_MEMORY;
}

weir_status weir_recommend(const char *rule, const weir_limiter_options *options,
                           weir_record *record, const weir_goal *goal, weir_recommendation *found,
                           weir_message *message) {
  struct search search = {
      .rule = rule, .options = options, .goal = goal, .trial = {.record = record}, .found = found};
  bool reached = false;
  *found = (weir_recommendation){0};
  weir_status status = prepare(&search, message);
  if (status == WEIR_OK) status = climb(&search, &reached, message);
  if (status != WEIR_OK) return status;
  if (!reached) found->limit = search.most + 1;
  status = look_below(&search, message);
  if (status != WEIR_OK) return status;
  if (found->limit > search.most) return refuse(&search, message);
  return run_below(&search, message);
}
