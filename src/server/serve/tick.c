/* Requests of one tick, from what is asked to what is said. */
#include "serve/tick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OVER = -1 }; /* an end that had come */
enum { FIRST_ROOM = 64, SHED_RETRY_US = 50000, BYTES_KEPT = 1 << 20 };

int64_t weir_serve_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool weir_tick_init(weir_tick *tick, unsigned loop, size_t waiting_most,
                    weir_serve_counts *counts) {
  *tick = (weir_tick){.loop = loop, .waiting_most = waiting_most, .counts = counts};
  tick->batch = calloc(WEIR_BATCH_MOST, sizeof *tick->batch);
  tick->batch_limiters = calloc(WEIR_BATCH_MOST, sizeof *tick->batch_limiters);
  tick->batch_places = calloc(WEIR_BATCH_MOST, sizeof *tick->batch_places);
  return tick->batch != NULL && tick->batch_limiters != NULL && tick->batch_places != NULL;
}

void weir_tick_free(weir_tick *tick) {
  weir_bytes_free(&tick->bytes);
  free(tick->slots);
  free(tick->requests);
  free(tick->limiters);
  free(tick->keys);
  free(tick->until_us);
  free(tick->batch);
  free(tick->batch_limiters);
  free(tick->batch_places);
}

/* --- collecting ------------------------------------------------------------------------------- */

static uint32_t add_slot(weir_tick *tick) {
  if (tick->slot_count == tick->slot_room) {
    size_t room = tick->slot_room > 0 ? 2 * tick->slot_room : FIRST_ROOM;
    weir_slot *slots = realloc(tick->slots, room * sizeof *slots);
    if (slots == NULL) return WEIR_NO_SLOT;
    tick->slots = slots;
    tick->slot_room = room;
  }
  tick->slots[tick->slot_count] = (weir_slot){.next = WEIR_NO_SLOT};
  return (uint32_t)tick->slot_count++;
}

uint32_t weir_tick_add_text(weir_tick *tick, const char *text, size_t length) {
  size_t begin = tick->bytes.length;
  if (weir_bytes_room(&tick->bytes, length) == NULL) return WEIR_NO_SLOT;
  uint32_t index = add_slot(tick);
  if (index == WEIR_NO_SLOT) return WEIR_NO_SLOT;
  weir_bytes_add(&tick->bytes, text, length);
  weir_slot *slot = &tick->slots[index];
  slot->is_text = true;
  slot->text = begin;
  slot->text_length = length;
  return index;
}

static bool grow_requests(weir_tick *tick) {
  if (tick->request_count < tick->request_room) return true;
  size_t room = tick->request_room > 0 ? 2 * tick->request_room : FIRST_ROOM;
  weir_request *requests = realloc(tick->requests, room * sizeof *requests);
  if (requests != NULL) tick->requests = requests;
  weir_limiter **limiters = realloc(tick->limiters, room * sizeof *limiters);
  if (limiters != NULL) tick->limiters = limiters;
  size_t *keys = realloc(tick->keys, room * sizeof *keys);
  if (keys != NULL) tick->keys = keys;
  int64_t *until_us = realloc(tick->until_us, room * sizeof *until_us);
  if (until_us != NULL) tick->until_us = until_us;
  if (requests == NULL || limiters == NULL || keys == NULL || until_us == NULL) return false;
  tick->request_room = room;
  return true;
}

/* Who is asked, and which bytes lead the key. */
typedef struct whom {
  weir_target target;
  const weir_named *named;
  const char *prefix;
  size_t prefix_length;
  unsigned fallback; /* what a request is answered when too many wait */
} whom;

static weir_status find_throttle(weir_tick *tick, const weir_ask *ask, whom *found,
                                 weir_message *why) {
  weir_throttle *throttle = weir_registry_throttle(tick->registry);
  if (throttle == NULL) {
    *why = (weir_message){"throttle.enabled is off"};
    return WEIR_BAD_ARGUMENT;
  }
  const weir_config *config = weir_registry_config(tick->registry);
  tick->uses_throttle = true;
  *found = (whom){.target = {.kind = WEIR_TARGET_LIMITER},
                  .prefix = WEIR_THROTTLE_PREFIX,
                  .prefix_length = sizeof WEIR_THROTTLE_PREFIX - 1,
                  .fallback = config->throttle.store->options.fallback};
  return weir_throttle_find(throttle, tick->loop, ask->burst, ask->count, ask->period_s,
                            tick->now_us, &found->target.limiter, why);
}

/* A name of the configuration is printable ASCII; what is asked for may be anything. */
static weir_status refuse_name(const weir_ask *ask, weir_message *why) {
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

static weir_status find_named(const weir_tick *tick, const weir_ask *ask, whom *found,
                              weir_message *why) {
  found->named = weir_registry_find(tick->registry, ask->limiter, ask->limiter_length);
  if (found->named == NULL) return refuse_name(ask, why);
  found->target = weir_named_target(found->named, ask->key, ask->key_length);
  found->prefix = weir_named_prefix(found->named, &found->prefix_length);
  found->fallback = weir_named_config(found->named)->store->options.fallback;
  return WEIR_OK;
}

/* An answer without a limiter. */
static void settle(weir_request *request, bool allowed, weir_decision figures) {
  request->status = WEIR_OK;
  request->decision = figures;
  request->decision.allowed = allowed;
  request->decision.cost = request->cost;
}

/* Too many wait: the policy answers as for a request that ran out of its own time. */
static void shed(weir_tick *tick, weir_request *request, unsigned fallback) {
  bool allowed = fallback == WEIR_FALLBACK_ALLOW;
  weir_serve_count(&tick->counts->shed, 1);
  settle(request, allowed,
         (weir_decision){.source = WEIR_SOURCE_LATE,
                         .limit = WEIR_NOT_KNOWN,
                         .remaining = WEIR_NOT_KNOWN,
                         .retry_after_us = allowed ? 0 : SHED_RETRY_US,
                         .reset_after_us = WEIR_NOT_KNOWN,
                         .store_status = WEIR_TIMEOUT});
  if (fallback == WEIR_FALLBACK_NONE) request->status = WEIR_TIMEOUT;
}

static void settle_listed(weir_request *request, weir_target_kind kind) {
  bool allowed = kind == WEIR_TARGET_UNLIMITED;
  settle(request, allowed,
         (weir_decision){.source = WEIR_SOURCE_LOCAL,
                         .limit = allowed ? WEIR_NOT_KNOWN : 0,
                         .remaining = allowed ? WEIR_NOT_KNOWN : 0,
                         .retry_after_us = allowed ? 0 : WEIR_NEVER});
}

static void reset(weir_tick *tick, size_t index) {
  weir_request *request = &tick->requests[index];
  weir_limiter *limiter = tick->limiters[index];
  tick->limiters[index] = NULL;
  weir_tick_decide(tick); /* what came before it counts before it */
  if (limiter != NULL)
    request->status = weir_limiter_reset(limiter, tick->bytes.data + tick->keys[index],
                                         request->key_length, NULL);
}

size_t weir_tick_add_request(weir_tick *tick, const weir_request *asked, size_t key,
                             weir_limiter *limiter, unsigned fallback) {
  if (!grow_requests(tick)) return SIZE_MAX;
  size_t index = tick->request_count++;
  tick->requests[index] = *asked;
  tick->limiters[index] = limiter;
  tick->keys[index] = key;
  tick->until_us[index] = WEIR_TICK_NO_END;
  if (limiter != NULL && index - tick->decided >= tick->waiting_most) {
    tick->limiters[index] = NULL;
    shed(tick, &tick->requests[index], fallback);
  }
  return index;
}

void weir_tick_set_end(weir_tick *tick, size_t request, int64_t until_us) {
  tick->until_us[request] = until_us;
  tick->has_ends |= until_us != WEIR_TICK_NO_END;
}

bool weir_tick_is_over(const weir_tick *tick, size_t request) {
  return tick->until_us[request] == OVER;
}

void weir_tick_cancel(weir_tick *tick, size_t request) {
  tick->limiters[request] = NULL;
}

/* What no bucket holds is never admitted; its answer says how the bucket stands all the same. */
static bool never_fits(const weir_ask *ask) {
  return ask->brings_rule && ask->cost > ask->burst;
}

static void add_request(weir_tick *tick, const weir_ask *ask, const whom *asked) {
  int64_t own = asked->named != NULL ? weir_named_config(asked->named)->cost : 1;
  weir_request request = {
      .key_length = asked->prefix_length + ask->key_length,
      .cost = ask->cost != WEIR_ASK_OWN_COST ? ask->cost : own,
      .flags = (ask->verb == WEIR_ASK_PEEK ? WEIR_REQUEST_PEEK : 0U) |
               (ask->up_to ? WEIR_REQUEST_UP_TO : 0U),
  };
  if (never_fits(ask)) {
    request.cost = 1;
    request.flags |= WEIR_REQUEST_PEEK;
  }
  size_t key = tick->bytes.length;
  weir_bytes_add(&tick->bytes, asked->prefix, asked->prefix_length);
  weir_bytes_add(&tick->bytes, ask->key, ask->key_length);
  size_t index = weir_tick_add_request(tick, &request, key, asked->target.limiter, asked->fallback);
  if (asked->target.kind != WEIR_TARGET_LIMITER)
    settle_listed(&tick->requests[index], asked->target.kind);
  if (ask->verb == WEIR_ASK_RESET) reset(tick, index);
}

uint32_t weir_tick_add_ask(weir_tick *tick, const weir_ask *ask, unsigned manner,
                           weir_status *status, weir_message *why) {
  whom asked = {.named = NULL};
  *status =
      ask->brings_rule ? find_throttle(tick, ask, &asked, why) : find_named(tick, ask, &asked, why);
  if (*status != WEIR_OK) return WEIR_NO_SLOT;
  size_t key_bytes = asked.prefix_length + ask->key_length;
  uint32_t index = WEIR_NO_SLOT;
  if (grow_requests(tick) && weir_bytes_room(&tick->bytes, key_bytes) != NULL)
    index = add_slot(tick);
  if (index == WEIR_NO_SLOT) {
    *why = (weir_message){"the server is short of memory"};
    *status = WEIR_NO_MEMORY;
    return WEIR_NO_SLOT;
  }
  weir_slot *slot = &tick->slots[index];
  slot->request = tick->request_count;
  slot->ask = *ask;
  slot->ask.key = slot->ask.limiter = NULL;
  slot->limiter = asked.target.limiter;
  slot->named = asked.named;
  slot->manner = manner;
  add_request(tick, ask, &asked);
  return index;
}

void weir_tick_set_id(weir_tick *tick, uint32_t slot, const char *id, size_t length) {
  if (!weir_ask_is_id(id, length) || weir_bytes_room(&tick->bytes, length) == NULL) return;
  tick->slots[slot].id = tick->bytes.length;
  tick->slots[slot].id_length = length;
  weir_bytes_add(&tick->bytes, id, length);
}

/* --- deciding --------------------------------------------------------------------------------- */

/* Whoever shares an end with one that was looked at is told the same, however late it is by now. */
static bool comes_too_late(weir_tick *tick, size_t index, int64_t now_us) {
  int64_t until_us = tick->until_us[index];
  if (until_us == WEIR_TICK_NO_END) return false;
  if (until_us != tick->judged_us) tick->judged_over = until_us <= now_us;
  tick->judged_us = until_us;
  if (!tick->judged_over) return false;
  tick->limiters[index] = NULL;
  tick->until_us[index] = OVER;
  return true;
}

/* Takes requests that have no answer yet into the batch, from *from on; how many. */
static size_t gather(weir_tick *tick, size_t *from) {
  size_t count = 0, i = *from;
  int64_t now_us = tick->has_ends ? weir_serve_now_us() : 0;
  for (; i < tick->request_count && count < WEIR_BATCH_MOST; i++) {
    if (tick->limiters[i] == NULL || comes_too_late(tick, i, now_us)) continue;
    tick->batch[count] = tick->requests[i];
    tick->batch[count].key = tick->bytes.data + tick->keys[i];
    tick->batch_limiters[count] = tick->limiters[i];
    tick->batch_places[count++] = i;
  }
  *from = i;
  return count;
}

void weir_tick_decide(weir_tick *tick) {
  size_t count;
  while ((count = gather(tick, &tick->decided)) > 0) {
    /* Every request has a status of its own, which is what is answered. */
    (void)weir_decide_together(tick->batch_limiters, tick->batch, count, NULL);
    for (size_t i = 0; i < count; i++)
      tick->requests[tick->batch_places[i]] = tick->batch[i];
  }
}

/* --- answering -------------------------------------------------------------------------------- */

static void count_answer(weir_tick *tick, const weir_decision *decision) {
  if (decision == NULL)
    weir_serve_count(&tick->counts->none, 1);
  else
    weir_serve_count(decision->allowed ? &tick->counts->allowed : &tick->counts->denied, 1);
}

void weir_tick_reply(weir_tick *tick, const weir_slot *slot, weir_decision *decision,
                     weir_reply *reply) {
  const weir_request *request = &tick->requests[slot->request];
  size_t prefix_length = request->key_length - slot->ask.key_length;
  const weir_config_limiter *config = slot->named != NULL ? weir_named_config(slot->named) : NULL;
  *decision = request->decision;
  *reply = (weir_reply){
      .status = request->status,
      .why = weir_status_text(request->status),
      .name = config != NULL ? config->name : NULL,
      .key = tick->bytes.data + tick->keys[slot->request] + prefix_length,
      .key_length = slot->ask.key_length,
      .id = tick->bytes.data + slot->id,
      .id_length = slot->id_length,
  };
  if (slot->ask.verb == WEIR_ASK_RESET) return;
  reply->limiter = slot->limiter;
  if (reply->status == WEIR_OK) reply->decision = decision;
  if (never_fits(&slot->ask)) {
    decision->allowed = false;
    decision->retry_after_us = WEIR_NEVER;
    decision->cost = slot->ask.cost;
  }
  reply->retry_after_us = decision->retry_after_us;
  count_answer(tick, reply->decision);
  bool shadow = config != NULL && (config->shadow || weir_registry_config(tick->registry)->shadow);
  if (!shadow || reply->status != WEIR_OK || decision->allowed) return;
  weir_serve_count(&tick->counts->shadow_denied, 1);
  reply->is_shadowed = true;
  decision->allowed = true;
  decision->retry_after_us = decision->delay_us = 0;
}

void weir_tick_clear(weir_tick *tick) {
  weir_throttle *throttle = weir_registry_throttle(tick->registry);
  if (tick->uses_throttle) weir_throttle_end_tick(throttle, tick->loop);
  if (tick->uses_overrides)
    weir_descriptors_end_tick(weir_registry_descriptors(tick->registry), tick->loop);
  tick->uses_throttle = tick->uses_overrides = tick->has_ends = false;
  tick->judged_us = WEIR_TICK_NO_END;
  tick->slot_count = tick->request_count = tick->decided = 0;
  tick->bytes.length = 0;
  if (tick->bytes.failed || tick->bytes.capacity > BYTES_KEPT) weir_bytes_free(&tick->bytes);
}
