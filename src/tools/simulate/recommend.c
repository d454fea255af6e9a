/* Finds the smallest limit that denies no more than a share, by halving.
 *
 * A limit is tried by a run of the rule over the record, key by key, as no key's decisions depend on
 * another's: over the requests of every key that it may deny, and no further than to see that it
 * denies too much. */
#include "simulate/recommend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

#include "wide.h"

/* A rule and its denials on a record. */
struct trial {
  weir_record *record;
  const weir_record_key *only; /* the one key that matters; NULL: all do */
  weir_denied_count most;      /* from above one of them on, no more is counted */
  weir_denied_count denied;
  uint64_t top_requests; /* of `denied`, those of ... */
  uint32_t top;          /* ... the key that was denied most */
  uint64_t decided;      /* requests, of all runs */
};

/* A trial under way. */
struct run {
  struct trial *trial;
  weir_driver driver;
  weir_driven_key key;
  weir_status status;
  weir_message *message;
};

struct search {
  const char *rule;
  const weir_limiter_options *options;
  const weir_goal *goal;
  struct trial trial;
  weir_denied_count allowed; /* to be denied, by the goal */
  int64_t least, most;       /* limits that are a rule with its options */
  weir_recommendation *found;
};

void weir_recommend_write(const char *rule, int64_t limit, char text[WEIR_RECOMMENDED_TEXT_BYTES]) {
  size_t before = strcspn(rule, ":");
  const char *behind = rule + before + strcspn(rule + before, "/");
  snprintf(text, WEIR_RECOMMENDED_TEXT_BYTES, "%.*s:%" PRId64 "%s", (int)before, rule, limit,
           behind);
}

weir_status weir_goal_find_key(const weir_goal *goal, const weir_record *record,
                               const weir_record_key **only, weir_message *message) {
  *only = goal->key != NULL ? weir_record_find(record, goal->key, strlen(goal->key)) : NULL;
  if (*only != NULL || goal->key == NULL) return WEIR_OK;
  weir_message_set(message, "key \"%.80s\" never asks", goal->key);
  return WEIR_BAD_ARGUMENT;
}

weir_denied_count weir_goal_allows(const weir_goal *goal, const weir_record *record) {
  weir_wide share = goal->key != NULL ? 0 : (weir_wide)goal->share;
  weir_denied_count allowed = {UINT64_MAX, UINT64_MAX};
  if (goal->of_keys)
    allowed.keys = (uint64_t)(share * record->key_count / WEIR_RULE_SHARE_WHOLE);
  else
    allowed.requests = (uint64_t)(share * record->count / WEIR_RULE_SHARE_WHOLE);
  return allowed;
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

/* How far back a request can count: cells do until the whole of them has left the window. */
static int64_t reach_us(const weir_rule *rule) {
  return rule->period_us + (weir_rule_has_cells(rule) ? rule->cell_us : 0);
}

/* The highest peak, in any reach_us(), of which the rule denies nothing. A window or a log: no more
 * than L asks. A bucket that is asked for P at most in any period has P * T to drain in each, which
 * it does where that is no more than the period: then P is also the most that it ever holds. Both
 * products are below 2^50 (rule/bucket.c). */
static int64_t harmless(const weir_rule *rule) {
  if (!weir_rule_moves_in_time(rule)) return rule->limit;
  int64_t drains = (rule->period_us << rule->unit_bits) / rule->token_units;
  return drains < rule->capacity ? drains : rule->capacity;
}

/* One key's requests through the rule, as far as they are needed. */
static bool run_key(void *context, uint32_t number, const weir_record_reader *requests) {
  struct run *run = context;
  struct trial *trial = run->trial;
  weir_record_reader reader = *requests;
  weir_record_request asked;
  uint64_t denied = 0, room = trial->most.requests - trial->denied.requests;
  weir_driver_clear_key(&run->driver, &run->key);
  while (denied <= room && weir_record_read(&reader, &asked)) {
    weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = asked.cost}};
    trial->decided++;
    run->status =
        weir_driver_decide(&run->driver, &run->key, asked.time_us, &request, run->message);
    if (run->status != WEIR_OK) return false;
    denied += !request.verdict.decision.allowed;
  }
  trial->denied.requests += denied;
  trial->denied.keys += denied > 0;
  if (denied > trial->top_requests) {
    trial->top_requests = denied;
    trial->top = number;
  }
  return denied <= room && trial->denied.keys <= trial->most.keys;
}

/* Counts no further than to see that it is not enough, unless all is wanted. */
static weir_status try_rule(struct search *search, int64_t limit, bool wholly,
                            weir_message *message) {
  static const weir_denied_count any = {UINT64_MAX, UINT64_MAX};
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  struct trial *trial = &search->trial;
  struct run run = {.trial = trial, .message = message};
  weir_recommend_write(search->rule, limit, text);
  trial->most = wholly ? any : search->allowed;
  trial->denied = (weir_denied_count){0};
  trial->top_requests = 0;
  weir_status status = weir_driver_init(&run.driver, text, search->options, message);
  if (status != WEIR_OK) {
    weir_driver_clean_up(&run.driver);
    return status;
  }

  const weir_rule *parsed = &run.driver.stack.rules[0];
  bool enough = weir_driver_add_key(&run.driver, &run.key);
  if (enough && trial->only != NULL) {
    weir_record_reader reader = {.key = (uint32_t)(trial->only - trial->record->keys)};
    weir_record_begin(trial->record, &reader.cursor);
    (void)run_key(&run, reader.key, &reader);
  } else if (enough) {
    enough = weir_record_find_peaks(trial->record, reach_us(parsed)) &&
             weir_record_visit(trial->record, harmless(parsed), run_key, &run);
  }
  if (!enough) run.status = WEIR_NO_MEMORY;
  weir_driver_remove_key(&run.driver, &run.key);
  weir_driver_clean_up(&run.driver);
  return run.status;
}

static weir_status try_limit(struct search *search, int64_t limit, bool *enough,
                             weir_message *message) {
  weir_status status = try_rule(search, limit, false, message);
  const weir_denied_count *denied = &search->trial.denied, *allowed = &search->allowed;
  *enough =
      status == WEIR_OK && denied->requests <= allowed->requests && denied->keys <= allowed->keys;
  if (*enough) {
    search->found->limit = limit;
    search->found->denied = *denied;
  }
  return status;
}

/* --- the search ------------------------------------------------------------------------------- */

/* Up from the highest peak, of which a window denies nothing, where a bucket still denies some; then
 * down by halves, each of which has to be run for more keys; then half of what lies between with
 * each run. `*reached`: some limit is enough. */
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
  const weir_recommendation *found = search->found;
  while (status == WEIR_OK && found->limit - below > 1) {
    limit = below + (found->limit - below) / 2;
    status = try_limit(search, limit, &enough, message);
    if (!enough) below = limit;
  }
  return status;
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

/* A larger limit denies no more keys, and no more single requests, than a smaller one. Where
 * requests have costs it may, so that the smallest which is enough can lie below one that is
 * not. */
static weir_status look_below(struct search *search, weir_message *message) {
  weir_recommendation *found = search->found;
  const weir_record *record = search->trial.record;
  const weir_goal *goal = search->goal;
  found->smallest = goal->of_keys || goal->key != NULL || record->cost_most <= 1;
  if (found->smallest) return WEIR_OK;

  /* Below `least` no limit is enough: too many requests cost more, and are denied whatever else
   * happens. */
  int64_t below = search->least - 1, least = found->limit, end = found->limit;
  while (least - below > 1) {
    int64_t limit = below + (least - below) / 2;
    bool possible = count_above(record, limit) <= search->allowed.requests;
    *(possible ? &least : &below) = limit;
  }

  uint64_t work = 0; /* a run looks at all requests, and decides some */
  for (int64_t limit = least; limit < end; limit++) {
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

/* Counts what a limit that is one less denies, and whether that is one key's doing. */
static weir_status run_below(struct search *search, weir_message *message) {
  weir_recommendation *found = search->found;
  const struct trial *trial = &search->trial;
  found->least = search->least;
  if (found->limit == search->least) {
    found->denied_below = (weir_denied_count){trial->record->count, trial->record->key_count};
    if (trial->only != NULL) found->denied_below = (weir_denied_count){trial->only->requests, 1};
    return WEIR_OK;
  }
  weir_status status = try_rule(search, found->limit - 1, true, message);
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
  weir_status status = try_rule(search, search->most, true, message);
  if (status != WEIR_OK) return status;
  weir_denied_count denied = search->trial.denied;
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
  status = weir_goal_find_key(goal, record, &search->trial.only, message);
  if (status != WEIR_OK) return status;
  if (weir_rule_is_held(&stack.rules[0])) {
    weir_message_set(message,
                     "%s: the requests do not say how long each holds its place; --duration FIELD "
                     "names what does in a log",
                     weir_rule_kind_name(stack.rules[0].kind));
    return WEIR_BAD_RULE;
  }
  if (weir_rule_takes_one(&stack.rules[0]) && record->cost_most > 1) {
    weir_message_set(message, "cost %" PRId64 " for a %s: accepted is 1", record->cost_most,
                     weir_rule_kind_name(stack.rules[0].kind));
    return WEIR_BAD_COST;
  }
  find_limits(search, &stack.rules[0]);

  search->allowed = weir_goal_allows(goal, record);
  bool enough = weir_record_find_peaks(record, reach_us(&stack.rules[0]));
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
