/* Finds the smallest limit that denies no more than a share, by halving. */
#include "simulate/recommend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "simulate/simulation.h"

struct search {
  const char *rule;
  const weir_limiter_options *options;
  const weir_record *record;
  const weir_goal *goal;
  const weir_record_key *key; /* of the goal */
  weir_recommendation *found;
};

void weir_recommend_write(const char *rule, int64_t limit, char text[WEIR_RECOMMENDED_TEXT_BYTES]) {
  size_t before = strcspn(rule, ":");
  const char *behind = rule + before + strcspn(rule + before, "/");
  snprintf(text, WEIR_RECOMMENDED_TEXT_BYTES, "%.*s:%" PRId64 "%s", (int)before, rule, limit,
           behind);
}

static bool matters(const struct search *search, const weir_recorded *request) {
  return search->key == NULL || &search->record->keys[request->key] == search->key;
}

static weir_status run(const struct search *search, int64_t limit, weir_denials *denied,
                       weir_message *message) {
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  const char *const rules[] = {text};
  weir_simulation *simulation = malloc(sizeof *simulation); /* large */
  if (simulation == NULL) return WEIR_NO_MEMORY;
  weir_recommend_write(search->rule, limit, text);
  weir_status status = weir_simulation_init(simulation, rules, 1, search->options, message);
  bool begun = status == WEIR_OK;
  for (size_t i = 0; status == WEIR_OK && i < search->record->count; i++) {
    const weir_recorded *request = &search->record->requests[i];
    const weir_record_key *key = &search->record->keys[request->key];
    if (matters(search, request))
      status = weir_simulation_request(simulation, request->time_us, key->text, key->length,
                                       request->cost, message);
  }
  if (status == WEIR_OK)
    *denied = (weir_denials){simulation->measures[0].requests - simulation->measures[0].allowed,
                             simulation->denied[0].used};
  if (begun) weir_simulation_clean_up(simulation);
  free(simulation);
  search->found->runs++;
  return status;
}

/* What a limit of 0 denies. */
static weir_denials denied_by_none(const struct search *search) {
  if (search->key != NULL) return (weir_denials){search->key->requests, 1};
  return (weir_denials){search->record->count, search->record->key_count};
}

static bool is_enough(const struct search *search, const weir_denials *denied) {
  const weir_goal *goal = search->goal;
  if (goal->key != NULL) return denied->requests == 0;
  double part = (double)(goal->of_keys ? denied->keys : denied->requests);
  double whole = (double)(goal->of_keys ? search->record->key_count : search->record->count);
  return part * WEIR_RULE_SHARE_WHOLE <= (double)goal->share * whole;
}

/* From `below`, which is not enough, up to `limit`, which is: half of what lies between goes with
 * each run. */
static weir_status halve(struct search *search, int64_t below, weir_message *message) {
  weir_recommendation *found = search->found;
  while (found->limit - below > 1) {
    int64_t limit = below + (found->limit - below) / 2;
    weir_denials denied;
    weir_status status = run(search, limit, &denied, message);
    if (status != WEIR_OK) return status;
    if (is_enough(search, &denied)) {
      found->limit = limit;
      found->denied = denied;
    } else {
      below = limit;
      found->denied_below = denied;
    }
  }
  return WEIR_OK;
}

static bool all_cost_one(const weir_record *record) {
  for (size_t i = 0; i < record->count; i++)
    if (record->requests[i].cost > 1) return false;
  return true;
}

/* Below it no limit is enough: too many requests cost more, and are denied whatever else happens. */
static int64_t least_possible(const struct search *search) {
  int64_t below = 0, least = search->found->limit;
  while (least - below > 1) {
    int64_t limit = below + (least - below) / 2;
    weir_denials denied = {0};
    for (size_t i = 0; i < search->record->count; i++)
      denied.requests += search->record->requests[i].cost > limit;
    *(is_enough(search, &denied) ? &least : &below) = limit;
  }
  return least;
}

/* Of keys and of single requests a larger limit denies no more than a smaller one. Of requests with
 * costs it may, so that the smallest which is enough can lie below one that is not. */
static weir_status look_below(struct search *search, weir_message *message) {
  weir_recommendation *found = search->found;
  const weir_goal *goal = search->goal;
  int64_t tries = WEIR_RECOMMEND_REQUESTS_MOST / (int64_t)search->record->count;
  weir_denials below = denied_by_none(search), denied;
  found->smallest = goal->of_keys || goal->key != NULL || all_cost_one(search->record);
  if (found->smallest) return WEIR_OK;
  int64_t limit = least_possible(search);
  if (limit > 1) limit--; /* for what it denies */
  for (; limit < found->limit; limit++) {
    if (tries-- == 0) return WEIR_OK;
    weir_status status = run(search, limit, &denied, message);
    if (status != WEIR_OK) return status;
    if (is_enough(search, &denied)) {
      found->limit = limit;
      found->denied = denied;
      found->denied_below = below;
    }
    below = denied;
  }
  found->smallest = true;
  return WEIR_OK;
}

/* Doubles a limit until it is enough, and halves from there. */
static weir_status climb(struct search *search, int64_t most, weir_message *message) {
  weir_recommendation *found = search->found;
  int64_t below = 0;
  found->denied_below = denied_by_none(search);
  for (found->limit = 1;; found->limit = found->limit > most / 2 ? most : found->limit * 2) {
    weir_status status = run(search, found->limit, &found->denied, message);
    if (status != WEIR_OK) return status;
    if (is_enough(search, &found->denied)) return halve(search, below, message);
    below = found->limit;
    found->denied_below = found->denied;
    if (found->limit == most) break;
  }
  weir_message_set(message, "no limit up to %" PRId64 " is enough for rule \"%.80s\"", most,
                   search->rule);
  return WEIR_BAD_RULE;
}

weir_status weir_recommend(const char *rule, const weir_limiter_options *options,
                           const weir_record *record, const weir_goal *goal,
                           weir_recommendation *found, weir_message *message) {
  struct search search = {
      .rule = rule, .options = options, .record = record, .goal = goal, .found = found};
  weir_stack stack;
  *found = (weir_recommendation){0};
  weir_status status = weir_stack_parse(rule, 1, &stack, message);
  if (status != WEIR_OK) return status;
  if (stack.count > 1 || strlen(rule) > WEIR_RECOMMENDED_TEXT_BYTES / 2) {
    weir_message_set(message, "a limit is recommended for one rule; give each its own --rule");
    return WEIR_BAD_RULE;
  }
  if (goal->key != NULL) {
    search.key = weir_record_find(record, goal->key, strlen(goal->key));
    if (search.key == NULL) {
      weir_message_set(message, "key \"%.80s\" never asks", goal->key);
      return WEIR_BAD_ARGUMENT;
    }
  }
  status =
      climb(&search, weir_rule_takes_one(&stack.rules[0]) ? WEIR_LOG_LIMIT_MOST : WEIR_LIMIT_MOST,
            message);
  return status == WEIR_OK ? look_below(&search, message) : status;
}
