/* Requests of one tick: what is asked, and what is said once they are decided. */
#include "serve/tick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/duration.h>

#include "array.h"
#include "clock.h"

const char weir_several_stores = 0;

enum { SHED_RETRY_US = 50000, BYTES_KEPT = 1 << 20 };

void weir_tick_init(weir_tick *tick, unsigned loop, weir_serve_counts *counts,
                    weir_keeper *keeper) {
  *tick =
      (weir_tick){.keeper = keeper, .loop = loop, .counts = counts, .judged_us = WEIR_TICK_NO_END};
}

void weir_tick_free(weir_tick *tick) {
  weir_bytes_free(&tick->bytes);
  free(tick->answers);
  free(tick->asked);
  free(tick->sets);
  free(tick->members);
  free(tick->parts);
  free(tick->costs);
  free(tick->places);
}

void weir_tick_clear(weir_tick *tick) {
  weir_throttle *throttle = tick->registry->throttle;
  if (tick->uses_throttle) weir_throttle_end_tick(throttle, tick->loop);
  if (tick->uses_overrides) weir_descriptors_end_tick(tick->registry->descriptors, tick->loop);
  tick->uses_throttle = tick->uses_overrides = tick->has_resets = tick->has_ends = false;
  tick->judged_us = WEIR_TICK_NO_END;
  tick->answer_count = tick->asked_count = tick->part_count = 0;
  tick->cost_count = tick->place_count = 0;
  tick->set_count = tick->member_count = 0;
  tick->bytes.length = 0;
  if (tick->bytes.failed || tick->bytes.capacity > BYTES_KEPT) weir_bytes_free(&tick->bytes);
}

/* --- collecting ------------------------------------------------------------------------------- */

weir_answer *weir_tick_add_answer(weir_tick *tick, weir_answer_kind kind, unsigned note) {
  if (!weir_array_grow(&tick->answers, &tick->answer_room, tick->answer_count + 1,
                       sizeof *tick->answers))
    return NULL;
  weir_answer *added = &tick->answers[tick->answer_count++];
  added->next = WEIR_NO_ANSWER;
  added->kind = kind;
  added->note = note;
  added->asked = added->asked_count = 0;
  added->id = added->id_length = 0;
  return added;
}

uint32_t weir_tick_add_text(weir_tick *tick, const char *text, size_t length) {
  if (weir_bytes_room(&tick->bytes, length) == NULL) return WEIR_NO_ANSWER;
  weir_answer *added = weir_tick_add_answer(tick, WEIR_ANSWER_TEXT, 0);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.text.begin = tick->bytes.length;
  added->is.text.length = length;
  weir_bytes_add(&tick->bytes, text, length);
  return (uint32_t)(added - tick->answers);
}

weir_part *weir_tick_part_room(weir_tick *tick, size_t count) {
  if (!weir_array_grow(&tick->parts, &tick->part_room, tick->part_count + count,
                       sizeof *tick->parts))
    return NULL;
  return tick->parts + tick->part_count;
}

/* NULL: there is none. */
static const weir_store *store_of(const weir_tick *tick, const weir_config_store *store) {
  if (store == NULL) return NULL;
  return weir_registry_store_at(tick->registry, (size_t)(store - tick->registry->config->stores));
}

uint32_t weir_tick_add_parts(weir_tick *tick, size_t count, const weir_domain *domain,
                             unsigned note) {
  weir_answer *added = weir_tick_add_answer(tick, WEIR_ANSWER_PARTS, note);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.parts.first = tick->part_count;
  added->is.parts.count = count;
  added->is.parts.domain = domain;
  added->is.parts.set = WEIR_NO_SET;
  added->is.parts.store = domain != NULL ? store_of(tick, domain->config->store) : NULL;
  added->is.parts.is_cancelled = added->is.parts.is_returned = false;
  added->is.parts.not_given = WEIR_OK;
  added->is.parts.why = added->is.parts.why_length = 0;
  tick->part_count += count;
  return (uint32_t)(added - tick->answers);
}

void weir_tick_answer_alone(weir_request *request, bool allowed, weir_decision figures) {
  request->status = WEIR_OK;
  request->decision = figures;
  request->decision.allowed = allowed;
  request->decision.cost = request->cost;
}

/* One that settles, or resets, has no policy. */
void weir_tick_shed(weir_tick *tick, weir_asked *asked) {
  bool allowed = !asked->denies_shed;
  asked->limiter = NULL;
  weir_serve_count(&tick->counts->shed, 1);
  weir_tick_answer_alone(&asked->request, allowed,
                         (weir_decision){.source = WEIR_SOURCE_LATE,
                                         .limit = WEIR_NOT_KNOWN,
                                         .remaining = WEIR_NOT_KNOWN,
                                         .retry_after_us = allowed ? 0 : SHED_RETRY_US,
                                         .reset_after_us = WEIR_NOT_KNOWN,
                                         .store_status = WEIR_TIMEOUT});
  if (asked->refuses_shed || asked->request.flags & WEIR_REQUEST_SETTLE || asked->resets)
    asked->request.status = WEIR_TIMEOUT;
}

size_t weir_tick_add_request(weir_tick *tick, weir_tick_key key, int64_t cost, unsigned flags,
                             weir_limiter *limiter, const weir_config_store *store) {
  if (!weir_array_grow(&tick->asked, &tick->asked_room, tick->asked_count + 1, sizeof *tick->asked))
    return WEIR_NO_REQUEST;
  size_t index = tick->asked_count++;
  weir_asked *added = &tick->asked[index];
  const weir_store *asks = store_of(tick, store);
  /* Member by member: all of it at once would be made elsewhere and copied. */
  added->request.key = NULL;
  added->request.key_length = key.length;
  added->request.cost = cost;
  added->request.costs = NULL;
  added->request.longest_wait_us = 0;
  added->request.flags = flags;
  added->request.status = WEIR_OK;
  added->request.decision = (weir_decision){.allowed = false};
  added->limiter = limiter;
  added->store = asks;
  added->resets = added->denies_shed = added->refuses_shed = added->is_of_set = false;
  added->key = key.begin;
  added->costs = WEIR_NO_COSTS;
  added->until_us = WEIR_TICK_NO_END;
  added->place = WEIR_NO_PLACE;
  added->cost_count = added->releases = added->release_count = 0;
  if (limiter == NULL) return index;
  added->denies_shed = store->options.fallback != WEIR_FALLBACK_ALLOW;
  added->refuses_shed = store->options.fallback == WEIR_FALLBACK_NONE;
  if (index >= (size_t)tick->registry->config->limits.waiting) weir_tick_shed(tick, added);
  return index;
}

bool weir_tick_has_room(const weir_tick *tick, size_t count) {
  return tick->asked_count + count <= (size_t)tick->registry->config->limits.waiting;
}

void weir_tick_set_id(weir_tick *tick, uint32_t answer, const char *id, size_t length) {
  if (!weir_ask_is_id(id, length) || weir_bytes_room(&tick->bytes, length) == NULL) return;
  tick->answers[answer].id = tick->bytes.length;
  tick->answers[answer].id_length = length;
  weir_bytes_add(&tick->bytes, id, length);
}

void weir_tick_set_end(weir_tick *tick, size_t request, int64_t until_us) {
  tick->asked[request].until_us = until_us;
  tick->has_ends |= until_us != WEIR_TICK_NO_END;
}

bool weir_tick_judge(weir_tick *tick, weir_asked *one, int64_t now_us) {
  if (one->until_us != tick->judged_us) tick->judged_over = one->until_us <= now_us;
  tick->judged_us = one->until_us;
  if (!tick->judged_over) return true;
  one->limiter = NULL;
  one->until_us = WEIR_TICK_OVER;
  return false;
}

bool weir_tick_is_over(const weir_tick *tick, size_t request) {
  return tick->asked[request].until_us == WEIR_TICK_OVER;
}

void weir_tick_cancel(weir_tick *tick, uint32_t answer) {
  weir_answer *asked = &tick->answers[answer];
  asked->is.parts.is_cancelled = true;
  for (size_t i = 0; i < asked->is.parts.count; i++) {
    size_t request = tick->parts[asked->is.parts.first + i].request;
    if (request != WEIR_NO_REQUEST) tick->asked[request].limiter = NULL;
  }
}

/* --- asking one limiter -------------------------------------------------------------------------
 */

/* What a request means: the limiter that answers it, or the list that it stands in. */
typedef struct meaning {
  weir_target target;
  const weir_named *named; /* NULL: the request brought its rule */
  const char *prefix;      /* the bytes that lead the key */
  size_t prefix_length;
  const weir_config_store *store; /* of the limiter */
} meaning;

/* The limiter of a request that brings its rule: it lives as long as the tick, and the last one longer. */
static weir_status find_throttle(weir_tick *tick, const weir_ask *ask, weir_message *why) {
  weir_throttle *throttle = tick->registry->throttle;
  if (throttle == NULL) {
    *why = (weir_message){"throttle.enabled is off"};
    return WEIR_BAD_ARGUMENT;
  }
  if (tick->last_limiter != NULL && tick->last_burst == ask->burst &&
      tick->last_count == ask->count && tick->last_period_s == ask->period_s)
    return WEIR_OK;
  tick->uses_throttle = true;
  weir_status status = weir_throttle_find(throttle, tick->loop, ask->burst, ask->count,
                                          ask->period_s, tick->now_us, &tick->last_limiter, why);
  tick->last_burst = ask->burst;
  tick->last_count = ask->count;
  tick->last_period_s = ask->period_s;
  return status;
}

static weir_status refuse_unknown(const weir_ask *ask, weir_message *why) {
  /* A name of the configuration is printable ASCII; what is asked for may be anything. */
  char name[WEIR_CONFIG_NAME_MOST + 1] = "";
  for (size_t i = 0; i < ask->limiter_length && i + 1 < sizeof name; i++) {
    char c = ask->limiter[i];
    name[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  }
  snprintf(why->text, sizeof why->text,
           "there is no limiter of this name in the configuration: %s%s", name,
           ask->limiter_length >= sizeof name ? "..." : "");
  return WEIR_BAD_ARGUMENT;
}

static weir_status find_named(const weir_tick *tick, const weir_ask *ask, meaning *found,
                              weir_message *why) {
  found->named = weir_registry_find(tick->registry, ask->limiter, ask->limiter_length);
  if (found->named != NULL) {
    found->target = weir_named_target(found->named, ask->key, ask->key_length);
    found->prefix = found->named->prefix;
    found->prefix_length = found->named->prefix_length;
    found->store = found->named->config->store;
    return WEIR_OK;
  }
  if (weir_registry_find_group(tick->registry, ask->limiter, ask->limiter_length) != NULL) {
    bool decides = ask->verb == WEIR_ASK_TAKE || ask->verb == WEIR_ASK_PEEK;
    *why = decides ? (weir_message){"this is a group: a key for each of its members is accepted"}
                   : (weir_message){
                         "this is a group: take and peek are accepted, and all else of its "
                         "members, each by its own name"};
    return WEIR_BAD_ARGUMENT;
  }
  return refuse_unknown(ask, why);
}

/* What no bucket holds is never admitted; its answer says how the bucket stands all the same. */
static bool never_fits(const weir_ask *ask) {
  return ask->brings_rule && ask->cost > ask->burst;
}

/* Whether the limiter's rules can be settled: a log and a queue keep what is charged, and what goes
 * back to a sliding window must go to its cell. */
static weir_status check_rules(const weir_ask *ask, const weir_limiter *limiter,
                               weir_message *why) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    if (weir_limiter_read_rule(limiter, i, &rule) != WEIR_OK) continue;
    bool keeps =
        strcmp(rule.algorithm, "sliding-log") == 0 || strcmp(rule.algorithm, "leaky-bucket") == 0;
    bool has_cells = strcmp(rule.algorithm, "sliding-window") == 0;
    if (!keeps && (!has_cells || ask->has_stamp)) continue;
    snprintf(why->text, sizeof why->text,
             keeps ? "a %s cannot be settled: what is charged stays"
                   : "stamp: a %s needs the one that the answer had when it was taken",
             rule.algorithm);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* The key as it is counted, in room behind the tick's bytes: it is only looked at, and nothing is added
 * yet. NULL: no memory. */
static const char *look_at_key(weir_tick *tick, const weir_ask *ask, const char *prefix,
                               size_t prefix_length) {
  char *counted = weir_bytes_room(&tick->bytes, prefix_length + ask->key_length);
  if (counted == NULL) return NULL;
  memcpy(counted, prefix, prefix_length);
  memcpy(counted + prefix_length, ask->key, ask->key_length);
  return counted;
}

static weir_status no_memory(weir_message *why) {
  *why = (weir_message){"the server is short of memory"};
  return WEIR_NO_MEMORY;
}

/* Room for them has been made. Of a settlement: what it cost in truth, what was taken, which becomes
 * what is charged, and again what was taken. */
enum { COST_LISTS_MOST = 3 };
static void add_costs(weir_tick *tick, const weir_ask *ask, weir_asked *asked) {
  const weir_ask_amount *lists[COST_LISTS_MOST] = {ask->costs, ask->takens, ask->takens};
  asked->costs = tick->cost_count;
  for (size_t i = 0; i < COST_LISTS_MOST && lists[i] != NULL; i++) {
    memcpy(tick->costs + tick->cost_count, lists[i]->each, lists[i]->count * sizeof *tick->costs);
    tick->cost_count += lists[i]->count;
  }
  asked->cost_count = tick->cost_count - asked->costs;
}

/* What is settled: what the answer to its take has said, as far as it is known. */
static void set_taken(weir_request *request, const weir_ask *ask) {
  request->decision =
      (weir_decision){.allowed = true,
                      .source = ask->has_stamp ? ask->stamp.source : WEIR_SOURCE_STORE,
                      .limit = WEIR_NOT_KNOWN,
                      .remaining = WEIR_NOT_KNOWN,
                      .reset_after_us = WEIR_NOT_KNOWN,
                      .cost = ask->takens != NULL ? WEIR_OWN_COSTS : ask->taken,
                      .at_us = ask->has_stamp ? ask->stamp.at_us : weir_clock_us(CLOCK_REALTIME)};
}

/* Without a limiter, or where nothing was taken, nothing is counted. */
static void settle_alone(weir_tick *tick, weir_asked *asked, const weir_ask *ask) {
  asked->limiter = NULL;
  weir_tick_answer_alone(&asked->request, true, asked->request.decision);
  asked->request.decision.source = WEIR_SOURCE_LOCAL;
  for (size_t i = 0; ask->costs != NULL && i < ask->costs->count; i++)
    tick->costs[asked->costs + ask->costs->count + i] = ask->costs->each[i];
}

/* Room for it has been made. */
static void set_place(weir_tick *tick, size_t index, weir_kept *kept) {
  weir_asked *asked = &tick->asked[index];
  asked->place = tick->place_count++;
  tick->places[asked->place] = (weir_asked_place){
      .request = index, .name.is_none = true, .kept = kept, .store = asked->store};
  if (kept == NULL || asked->limiter != NULL) return;
  weir_keeper_drop(tick->keeper, kept); /* it has its answer */
  tick->places[asked->place].kept = NULL;
}

bool weir_tick_acquire(weir_tick *tick, size_t request, int64_t for_us, weir_message *why) {
  const weir_asked *asked = &tick->asked[request];
  weir_status status;
  if (asked->limiter == NULL) return true; /* it has its answer */
  if (!weir_array_grow(&tick->places, &tick->place_room, tick->place_count + 1,
                       sizeof *tick->places)) {
    no_memory(why);
    return false;
  }
  const weir_kept_wish wish = {.registry = tick->registry,
                               .limiter = asked->limiter,
                               .store = asked->store,
                               .counted = tick->bytes.data + asked->key,
                               .length = asked->request.key_length,
                               .cost = asked->request.cost,
                               .client = "",
                               .for_us = for_us};
  weir_kept *kept = weir_keeper_make(tick->keeper, &wish, &status, why);
  if (kept != NULL) set_place(tick, request, kept);
  return kept != NULL;
}

bool weir_tick_release(weir_tick *tick, size_t request, int64_t cost) {
  weir_kept *some[WEIR_KEPT_SOME];
  weir_asked *asked = &tick->asked[request];
  size_t count = WEIR_KEPT_SOME;
  if (asked->limiter == NULL) return true;
  asked->releases = tick->place_count;
  while (count == WEIR_KEPT_SOME) { /* there may be more */
    if (!weir_array_grow(&tick->places, &tick->place_room, tick->place_count + WEIR_KEPT_SOME,
                         sizeof *tick->places))
      return false;
    const weir_hash_text counted = {tick->bytes.data + asked->key, asked->request.key_length};
    count = weir_keeper_take_some(tick->keeper, asked->limiter, &counted, &cost, some);
    asked->release_count += count;
    for (size_t i = 0; i < count; i++)
      tick->places[tick->place_count++] = (weir_asked_place){
          .request = request, .kept = some[i], .store = some[i]->store, .releases = true};
  }
  return true;
}

void weir_tick_give_back(weir_tick *tick, size_t request) {
  const weir_asked *asked = &tick->asked[request];
  if (asked->place == WEIR_NO_PLACE || tick->places[asked->place].name.is_none) return;
  const weir_hash_text counted = {tick->bytes.data + asked->key, asked->request.key_length};
  weir_kept_state state;
  weir_message why;
  weir_kept *kept = weir_keeper_take(tick->keeper, &tick->places[asked->place].name, &counted,
                                     WEIR_KEPT_RELEASED, &state, &why);
  if (kept != NULL) weir_keeper_release_soon(tick->keeper, kept);
}

/* Whether this limiter's requests are of this kind: a place is acquired, all else is taken. */
static weir_status check_verb(const weir_ask *ask, const meaning *found, weir_message *why) {
  bool acquires = ask->verb == WEIR_ASK_ACQUIRE;
  bool takes = ask->verb == WEIR_ASK_TAKE || ask->verb == WEIR_ASK_SETTLE;
  const weir_limiter *limiter = found->target.limiter;
  if (limiter == NULL || (!acquires && (!takes || !found->named->holds)) ||
      weir_registry_holds(limiter) != takes)
    return WEIR_OK;
  *why = acquires
             ? (weir_message){"no rule of this limiter is held: it is taken from, not acquired"}
             : (weir_message){
                   "a place of this limiter is acquired and released: nothing can be "
                   "taken or settled"};
  return WEIR_BAD_ARGUMENT;
}

/* Memory for the place that is asked for. */
static weir_status make_place(weir_tick *tick, const weir_ask *ask, const meaning *found,
                              int64_t cost, weir_kept **kept, weir_message *why) {
  const weir_config_places *places = &tick->registry->config->places;
  weir_status status;
  if (ask->for_us > places->for_most_us) {
    char most[WEIR_DURATION_BYTES];
    weir_duration_format(places->for_most_us, most, sizeof most);
    snprintf(why->text, sizeof why->text, "for: up to %s is accepted", most);
    return WEIR_BAD_ARGUMENT;
  }
  if (found->target.limiter == NULL) return WEIR_OK;
  weir_kept_wish wish = {.registry = tick->registry,
                         .limiter = found->target.limiter,
                         .store = store_of(tick, found->store),
                         .counted = look_at_key(tick, ask, found->prefix, found->prefix_length),
                         .length = found->prefix_length + ask->key_length,
                         .prefix_length = found->prefix_length,
                         .cost = cost,
                         .for_us = ask->for_us != WEIR_ASK_OWN_TIME ? ask->for_us : places->for_us,
                         .client = ask->client != NULL ? ask->client : "",
                         .holder = ask->holder};
  if (wish.counted == NULL) return no_memory(why);
  *kept = weir_keeper_make(tick->keeper, &wish, &status, why);
  return *kept != NULL ? WEIR_OK : status;
}

/* What its wording needs. */
static void keep_ask(weir_answer *answer, const weir_ask *ask, const meaning *found) {
  memcpy(&answer->is.request.ask, ask, offsetof(weir_ask, limiter));
  answer->is.request.tier = found->target.tier;
  answer->is.request.cost_count = ask->costs != NULL ? ask->costs->count : 0;
  answer->is.request.limiter = found->target.limiter;
  answer->is.request.named = found->named;
}

/* To release a place and to ask about it needs no limiter: it may have left the configuration. */
static uint32_t add_place_question(weir_tick *tick, const weir_ask *ask, unsigned note,
                                   weir_status *status, weir_message *why) {
  size_t length = ask->limiter_length + 1 + ask->key_length;
  meaning found = {.named = NULL};
  weir_asked_place place = {.releases = ask->verb == WEIR_ASK_RELEASE, .name = ask->place};
  weir_answer *answer = NULL;
  bool is_named = find_named(tick, ask, &found, why) == WEIR_OK;
  if (weir_array_grow(&tick->asked, &tick->asked_room, tick->asked_count + 1,
                      sizeof *tick->asked) &&
      weir_bytes_room(&tick->bytes, length) != NULL &&
      weir_array_grow(&tick->places, &tick->place_room, tick->place_count + 1,
                      sizeof *tick->places))
    answer = weir_tick_add_answer(tick, WEIR_ANSWER_REQUEST, note);
  if (answer == NULL) {
    *status = no_memory(why);
    return WEIR_NO_ANSWER;
  }
  size_t key = tick->bytes.length;
  weir_bytes_add(&tick->bytes, ask->limiter, ask->limiter_length);
  weir_bytes_text(&tick->bytes, ":");
  weir_bytes_add(&tick->bytes, ask->key, ask->key_length);
  const weir_hash_text counted = {tick->bytes.data + key, length};
  weir_message lost = {""};
  bool is_known;
  if (ask->place.is_none) {
    place.state.is_held = is_known = is_named;
  } else if (place.releases) {
    place.kept = weir_keeper_take(tick->keeper, &ask->place, &counted, WEIR_KEPT_RELEASED,
                                  &place.state, &lost);
    is_known = place.kept != NULL;
    if (is_known) place.store = place.kept->store;
  } else {
    is_known = weir_keeper_look(tick->keeper, &ask->place, &counted, &place.state, &lost);
  }
  if (!is_known) {
    tick->answer_count--; /* what stands in the tick's bytes is in no one's way */
    if (is_named) *why = lost;
    *status = WEIR_BAD_ARGUMENT;
    return WEIR_NO_ANSWER;
  }
  found.target = (weir_target){.tier = ""}; /* no limiter is asked */
  keep_ask(answer, ask, &found);
  answer->is.request.index =
      weir_tick_add_request(tick, (weir_tick_key){key, length}, 0, 0, NULL, NULL);
  place.request = answer->asked = answer->is.request.index;
  answer->asked_count = 1;
  tick->asked[place.request].request.status = WEIR_OK;
  tick->asked[place.request].place = tick->place_count;
  tick->places[tick->place_count++] = place;
  *status = WEIR_OK;
  return (uint32_t)(answer - tick->answers);
}

/* Which limiter a request means, and whether it may be asked so: for this, with these costs, and by the
 * stamp of what was taken from it. */
static weir_status find_and_check(weir_tick *tick, const weir_ask *ask, meaning *found,
                                  weir_message *why) {
  weir_status status = find_named(tick, ask, found, why);
  const weir_limiter *limiter = found->target.limiter;
  if (status == WEIR_OK) status = check_verb(ask, found, why);
  if (status != WEIR_OK) return status;
  size_t rules = limiter != NULL ? weir_limiter_rules(limiter) : 0;
  if (ask->costs != NULL && limiter != NULL && ask->costs->count != rules) {
    snprintf(why->text, sizeof why->text,
             rules == 1 ? "there are %zu costs: one is accepted"
                        : "there are %zu costs: one, or one for each of the %zu rules, is accepted",
             ask->costs->count, rules);
    return WEIR_BAD_COST;
  }
  if (ask->verb == WEIR_ASK_SETTLE && limiter != NULL) status = check_rules(ask, limiter, why);
  if (status != WEIR_OK || !ask->has_stamp) return status;
  const char *counted = look_at_key(tick, ask, found->prefix, found->prefix_length);
  if (counted == NULL) return no_memory(why);
  size_t length = found->prefix_length + ask->key_length;
  if (weir_stamp_mark(counted, length, found->target.tier) == ask->stamp.mark) return WEIR_OK;
  *why = (weir_message){"stamp: it is one of another limiter, key or tier"};
  return WEIR_BAD_ARGUMENT;
}

/* An answer, and room for the request that it is to, whose key stands behind the tick's bytes. NULL: no
 * memory. */
static weir_answer *add_asking_answer(weir_tick *tick, const weir_ask *ask, const meaning *found,
                                      unsigned note) {
  bool acquires = ask->verb == WEIR_ASK_ACQUIRE;
  size_t costs = ask->costs != NULL ? COST_LISTS_MOST * ask->costs->count : 0;
  bool has_room = weir_array_grow(&tick->asked, &tick->asked_room, tick->asked_count + 1,
                                  sizeof *tick->asked) &&
                  look_at_key(tick, ask, found->prefix, found->prefix_length) != NULL &&
                  (!acquires || weir_array_grow(&tick->places, &tick->place_room,
                                                tick->place_count + 1, sizeof *tick->places)) &&
                  (costs == 0 || weir_array_grow(&tick->costs, &tick->cost_room,
                                                 tick->cost_count + costs, sizeof *tick->costs));
  return has_room ? weir_tick_add_answer(tick, WEIR_ANSWER_REQUEST, note) : NULL;
}

/* A request that brings its rule is a take or a peek of one cost, and has no tier, stamp or place. */
static uint32_t add_with_rule(weir_tick *tick, const weir_ask *ask, unsigned note,
                              weir_status *status, weir_message *why) {
  *status = find_throttle(tick, ask, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;
  const meaning found = {.target = {.kind = WEIR_TARGET_LIMITER, .limiter = tick->last_limiter},
                         .prefix = WEIR_THROTTLE_PREFIX,
                         .prefix_length = sizeof WEIR_THROTTLE_PREFIX - 1};
  weir_answer *answer = add_asking_answer(tick, ask, &found, note);
  if (answer == NULL) {
    *status = no_memory(why);
    return WEIR_NO_ANSWER;
  }
  keep_ask(answer, ask, &found);
  bool peeks = ask->verb == WEIR_ASK_PEEK || never_fits(ask);
  const weir_tick_key key = {tick->bytes.length, found.prefix_length + ask->key_length};
  tick->bytes.length += key.length;
  answer->is.request.index = answer->asked =
      weir_tick_add_request(tick, key, peeks ? 1 : ask->cost, peeks ? WEIR_REQUEST_PEEK : 0U,
                            tick->last_limiter, tick->registry->config->throttle.store);
  answer->asked_count = 1;
  return (uint32_t)(answer - tick->answers);
}

uint32_t weir_tick_add_ask(weir_tick *tick, const weir_ask *ask, unsigned note, weir_status *status,
                           weir_message *why) {
  meaning found = {.named = NULL};
  if (ask->brings_rule) return add_with_rule(tick, ask, note, status, why);
  if (weir_ask_is_of_place(ask)) return add_place_question(tick, ask, note, status, why);
  *status = find_and_check(tick, ask, &found, why);
  weir_limiter *limiter = found.target.limiter;
  bool settles = ask->verb == WEIR_ASK_SETTLE;
  int64_t own = found.named != NULL ? found.named->config->cost : 1;
  int64_t cost = settles || ask->cost != WEIR_ASK_OWN_COST ? ask->cost : own;
  weir_kept *kept = NULL;
  if (*status == WEIR_OK && ask->verb == WEIR_ASK_ACQUIRE)
    *status = make_place(tick, ask, &found, cost, &kept, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;

  /* Its answer comes first, so that nothing is asked without one. */
  weir_answer *answer = add_asking_answer(tick, ask, &found, note);
  if (answer == NULL) {
    if (kept != NULL) weir_keeper_drop(tick->keeper, kept);
    *status = no_memory(why);
    return WEIR_NO_ANSWER;
  }
  keep_ask(answer, ask, &found);

  const weir_tick_key key = {tick->bytes.length, found.prefix_length + ask->key_length};
  unsigned flags = settles ? WEIR_REQUEST_SETTLE
                           : (ask->verb == WEIR_ASK_PEEK ? WEIR_REQUEST_PEEK : 0U) |
                                 (ask->up_to ? WEIR_REQUEST_UP_TO : 0U);
  tick->bytes.length += key.length;
  size_t index = weir_tick_add_request(tick, key, cost, flags, limiter, found.store);
  weir_asked *asked = &tick->asked[index];
  if (settles) set_taken(&asked->request, ask);
  asked->resets = ask->verb == WEIR_ASK_RESET;
  tick->has_resets = tick->has_resets || asked->resets;
  if (asked->resets && limiter != NULL && asked->limiter == NULL)
    asked->request.status = WEIR_TIMEOUT; /* too many wait */
  answer->is.request.index = answer->asked = index;
  answer->asked_count = 1;
  if (ask->costs != NULL) add_costs(tick, ask, asked);

  /* A key of a list is answered by its tier; a reset counts what came before it before it. */
  if (settles) {
    if (limiter == NULL || (ask->has_stamp && ask->stamp.is_idle)) settle_alone(tick, asked, ask);
  } else if (found.target.kind != WEIR_TARGET_LIMITER) {
    bool allowed = found.target.kind == WEIR_TARGET_UNLIMITED;
    weir_tick_answer_alone(&asked->request, allowed,
                           (weir_decision){.source = WEIR_SOURCE_LOCAL,
                                           .limit = allowed ? WEIR_NOT_KNOWN : 0,
                                           .remaining = allowed ? WEIR_NOT_KNOWN : 0,
                                           .retry_after_us = allowed ? 0 : WEIR_NEVER});
  }
  if (ask->verb == WEIR_ASK_ACQUIRE) set_place(tick, index, kept);
  return (uint32_t)(answer - tick->answers);
}

/* --- answering --------------------------------------------------------------------------------
 */

/* How a settlement came out: what is charged now, and how that differs from what was taken. */
static void tell_settled(const weir_tick *tick, const weir_asked *asked, const weir_answer *answer,
                         weir_reply *reply) {
  const weir_ask *ask = &answer->is.request.ask;
  size_t count = answer->is.request.cost_count;
  const int64_t *real = &ask->cost;
  const int64_t *charged = &asked->request.decision.cost;
  const int64_t *taken = &ask->taken;
  if (reply->costs != NULL) {
    real = reply->costs;
    reply->costs = charged = real + count;
    taken = charged + count;
  }
  if (reply->status == WEIR_BAD_ARGUMENT)
    reply->why = "the stamp is of the future, or longer ago than a day and the longest period";
  if (reply->status == WEIR_BAD_COST)
    reply->why = "less is charged than should go back, or no rule ever admits the estimate";
  if (reply->status == WEIR_OK && asked->request.decision.source != WEIR_SOURCE_LOCAL)
    for (size_t i = 0; i == 0 || i < count; i++) {
      int64_t more = charged[i] - taken[i];
      reply->up += more > 0 ? more : 0;
      reply->down += more < 0 ? -more : 0;
      reply->cut += real[i] > charged[i] ? real[i] - charged[i] : 0;
    }
  weir_serve_count(reply->status == WEIR_OK ? &tick->counts->settled : &tick->counts->unsettled, 1);
}

weir_take_stamp weir_tick_stamp(const weir_tick *tick, const weir_asked *asked, const char *tier,
                                bool is_idle) {
  return (weir_take_stamp){
      .at_us = asked->request.decision.at_us,
      .source = asked->request.decision.source,
      .is_idle = is_idle,
      .mark = weir_stamp_mark(tick->bytes.data + asked->key, asked->request.key_length, tier)};
}

/* What is held; where no place is needed, that is so for ever. */
static void add_place(const weir_asked_place *place, weir_reply *reply) {
  reply->has_place = true;
  reply->place = place->name;
  reply->is_held = place->state.is_held;
  reply->token = place->state.token;
  reply->held_until_us = place->state.held_until_us;
  reply->store = place->released;
}

void weir_tick_reply(const weir_tick *tick, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  const weir_ask *ask = &answer->is.request.ask;
  const weir_named *named = answer->is.request.named;
  const weir_config_limiter *config = named != NULL ? named->config : NULL;
  const weir_asked *asked = &tick->asked[answer->is.request.index];
  weir_serve_counts *counts = tick->counts;
  *decision = asked->request.decision;
  *reply = (weir_reply){
      .status = asked->request.status,
      .why = weir_status_text(asked->request.status),
      .name = config != NULL ? config->name : NULL,
      .headers = config != NULL ? config->headers : WEIR_CONFIG_HEADERS_DRAFT_10,
      .key = tick->bytes.data + asked->key + asked->request.key_length - ask->key_length,
      .key_length = ask->key_length,
      .id = tick->bytes.data + answer->id,
      .id_length = answer->id_length,
      .costs = asked->costs != WEIR_NO_COSTS ? tick->costs + asked->costs : NULL,
      .cost_count = answer->is.request.cost_count,
  };
  if (ask->verb == WEIR_ASK_RESET) return;
  if (asked->place != WEIR_NO_PLACE) add_place(&tick->places[asked->place], reply);
  if (weir_ask_is_of_place(ask)) return;
  reply->limiter = answer->is.request.limiter;
  if (reply->status == WEIR_OK) reply->decision = decision;
  if (never_fits(ask)) {
    decision->allowed = false;
    decision->retry_after_us = WEIR_NEVER;
    decision->cost = ask->cost;
  }
  reply->retry_after_us = decision->retry_after_us;
  if (ask->verb == WEIR_ASK_SETTLE) {
    tell_settled(tick, asked, answer, reply);
    return;
  }
  weir_serve_count(reply->decision == NULL ? &counts->none
                   : decision->allowed     ? &counts->allowed
                                           : &counts->denied,
                   1);

  /* In shadow mode a denial is counted, and answered as allowed. */
  bool shadow = config != NULL && (config->shadow || tick->registry->config->shadow);
  if (shadow && reply->status == WEIR_OK && !decision->allowed) {
    weir_serve_count(&counts->shadow_denied, 1);
    reply->is_shadowed = true;
    decision->allowed = true;
    decision->retry_after_us = decision->delay_us = 0;
  }
  if (ask->verb == WEIR_ASK_ACQUIRE) {
    reply->has_place = decision->allowed;
    reply->is_held |= reply->place.is_none;
  }
  /* What was denied in shadow mode has charged nothing; what brought its rule is not settled. */
  reply->has_stamp = ask->verb == WEIR_ASK_TAKE && reply->status == WEIR_OK &&
                     reply->name != NULL && decision->allowed;
  if (reply->has_stamp)
    reply->stamp = weir_tick_stamp(tick, asked, answer->is.request.tier,
                                   reply->is_shadowed || reply->limiter == NULL);
}
