/* From descriptors to requests of the tick, and from decisions to codes. */
#include "serve/envoy.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "registry/descriptors.h"
#include "serve/loop.h"

/* A descriptor of the request, kept in the tick's bytes until the answer. */
typedef struct part {
  bool is_limited; /* else nothing is found for it */
  bool shadow, quota;
  bool gives_back; /* its hits go back once the tick is decided; in the tick it is a peek */
  weir_config_rate rate;
  weir_limiter *limiter;  /* NULL: no store is asked */
  weir_detail *detail;    /* what counts it besides; NULL: nothing */
  uint32_t limit;         /* of the descriptor file; WEIR_TALLY_NO_LIMIT: the request brought it */
  size_t request;         /* of the tick; NO_REQUEST: none */
  size_t key, key_length; /* in the tick's bytes */
  int64_t hits;           /* 0: a peek */
  int64_t left_us;        /* until its date is over; 0: it has none */
} part;

enum { PARTS_MOST = WEIR_ENVOY_DESCRIPTORS_MOST };
static const size_t NO_REQUEST = SIZE_MAX;

/* --- asking -------------------------------------------------------------------------------------
 */

static bool refuse(weir_envoy_refusal *refusal, weir_envoy_failure failure, const char *why) {
  refusal->failure = failure;
  snprintf(refusal->why.text, sizeof refusal->why.text, "%s", why);
  return false;
}

static bool no_memory(weir_envoy_refusal *refusal) {
  return refuse(refusal, WEIR_ENVOY_UNAVAILABLE, "the server is short of memory");
}

static size_t measure(const weir_envoy_descriptor *descriptor) {
  size_t length = 0;
  for (size_t i = 0; i < descriptor->count; i++)
    length += descriptor->entries[i].key_length + descriptor->entries[i].value_length;
  return length;
}

static bool find_override(weir_tick *tick, const weir_domain *domain,
                          const weir_envoy_descriptor *descriptor, part *found,
                          weir_envoy_refusal *refusal) {
  found->is_limited = true;
  found->rate = (weir_config_rate){.requests = descriptor->requests, .unit = descriptor->unit};
  if (descriptor->requests == 0) return true;
  tick->uses_overrides = true;
  weir_status status = weir_throttle_find(
      weir_domain_throttle(domain, descriptor->unit), tick->loop, 0, descriptor->requests,
      weir_config_unit_s(weir_domain_config(domain), descriptor->unit), tick->now_us,
      &found->limiter, &refusal->why);
  refusal->failure = weir_status_classify(status) == WEIR_CLASS_CALLER ? WEIR_ENVOY_BAD_REQUEST
                                                                       : WEIR_ENVOY_UNAVAILABLE;
  return status == WEIR_OK;
}

static void find_node(weir_tick *tick, const weir_descriptor *node, part *found) {
  if (node == NULL) {
    weir_serve_count(&tick->counts->unmatched, 1);
    return;
  }
  found->is_limited = true;
  found->rate = *node->config->rate;
  found->limit = node->limit;
  found->limiter = node->limiter;
  found->shadow = node->config->shadow;
  found->quota = node->config->quota;
}

/* The date stands in the key where the domain says so. False: there is no room for it. */
static bool add_date(weir_tick *tick, const weir_domain *domain, size_t most, part *found) {
  struct timespec now;
  if (found->limiter == NULL || !weir_config_is_dated(weir_domain_config(domain), found->rate.unit))
    return true;
  clock_gettime(CLOCK_REALTIME, &now);
  weir_calendar date = weir_calendar_at(found->rate.unit, now.tv_sec);
  if (date.length > most - found->key_length) return false;
  weir_bytes_add(&tick->bytes, date.text, date.length);
  found->key_length += date.length;
  found->left_us = (date.end_s - now.tv_sec) * 1000000 - now.tv_nsec / 1000;
  return true;
}

/* What limits a descriptor, and under which key. One whose key is too long is refused whatever it
 * means, so that nobody gets past a limit by it. */
static bool find(weir_tick *tick, const weir_domain *domain,
                 const weir_envoy_descriptor *descriptor, part *found,
                 weir_envoy_refusal *refusal) {
  size_t most = (size_t)weir_registry_config(tick->registry)->limits.key_bytes;
  const weir_descriptor *node = NULL;
  *found = (part){.limit = WEIR_TALLY_NO_LIMIT,
                  .request = NO_REQUEST,
                  .key = tick->bytes.length,
                  .hits = descriptor->hits,
                  .gives_back = descriptor->gives_back && descriptor->hits > 0};
  char *room = weir_bytes_room(&tick->bytes, most);
  if (room == NULL) return no_memory(refusal);
  bool overrides = descriptor->has_limit && domain != NULL;
  bool fits = measure(descriptor) <= most;
  if (fits && overrides)
    found->key_length =
        weir_domain_write_key(domain, descriptor->entries, descriptor->count, room, most);
  else if (fits && domain != NULL)
    node = weir_domain_find(domain, descriptor->entries, descriptor->count, room, most,
                            &found->key_length);
  if (!fits || found->key_length > most)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST, "a descriptor's key is too long");
  tick->bytes.length += found->key_length;
  if (overrides && !find_override(tick, domain, descriptor, found, refusal)) return false;
  if (!overrides) find_node(tick, node, found);
  if (node != NULL)
    found->detail = weir_domain_detail(domain, node, descriptor->entries, descriptor->count);
  return add_date(tick, domain, most, found) ||
         refuse(refusal, WEIR_ENVOY_BAD_REQUEST, "a descriptor's key is too long");
}

static bool is_replaced(const part *parts, size_t count, const char *name) {
  for (size_t i = 0; name != NULL && i < count; i++) {
    const weir_config_rate *rate = &parts[i].rate;
    for (size_t j = 0; j < rate->replace_count; j++)
      if (strcmp(rate->replaces[j], name) == 0) return true;
  }
  return false;
}

/* Unlimited ones stay, and one that is replaced still replaces. */
static void leave_out_replaced(part *parts, size_t count) {
  bool goes[PARTS_MOST] = {false};
  for (size_t i = 0; i < count; i++)
    goes[i] = !parts[i].rate.is_unlimited && is_replaced(parts, count, parts[i].rate.name);
  for (size_t i = 0; i < count; i++)
    parts[i].is_limited &= !goes[i];
}

static bool add(weir_tick *tick, const weir_domain *domain, int64_t until_us, part *added) {
  bool peeks = added->hits == 0 || added->gives_back;
  const weir_request request = {.key_length = added->key_length,
                                .cost = peeks ? 1 : added->hits,
                                .flags = peeks ? WEIR_REQUEST_PEEK : 0U};
  if (!added->is_limited || added->limiter == NULL) return true;
  unsigned fallback = weir_domain_config(domain)->store->options.fallback;
  added->request = weir_tick_add_request(tick, &request, added->key, added->limiter, fallback);
  if (added->request == NO_REQUEST) return false;
  weir_tick_set_end(tick, added->request, until_us);
  return true;
}

/* Why hits cannot go back to a limit; NULL: they can. The time of their charge is not known here. A
 * fixed window or a quota has one count at a time, so the time of now does; others need that of the
 * charge. */
static const char *why_kept(const weir_domain *domain, const part *asked) {
  const weir_config_domain *config = weir_domain_config(domain);
  if (config->counts_all) return "negative hits: count: all of the domain keeps what is charged";
  if (asked->limiter == NULL) return "negative hits: nothing is ever charged to a limit of 0";
  if (config->algorithm != WEIR_CONFIG_FIXED && config->algorithm != WEIR_CONFIG_QUOTA)
    return "negative hits: a fixed-window and a quota accept them";
  return NULL;
}

static bool check_returns(const weir_domain *domain, const part *parts, size_t count,
                          weir_envoy_refusal *refusal) {
  size_t returns = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_counted = parts[i].is_limited && !parts[i].rate.is_unlimited;
    if (!parts[i].gives_back || !is_counted) continue;
    const char *why = why_kept(domain, &parts[i]);
    if (why != NULL) return refuse(refusal, WEIR_ENVOY_BAD_REQUEST, why);
    returns++;
  }
  return returns <= WEIR_ENVOY_RETURNS_MOST ||
         refuse(refusal, WEIR_ENVOY_BAD_REQUEST, "negative hits: at most 8 descriptors have them");
}

/* One that gives back is the last of its connection in this tick: it holds up the others. */
static bool gives_back(const part *parts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (parts[i].gives_back && parts[i].request != NO_REQUEST) return true;
  return false;
}

/* Each part is a request of what the connection may bring into a tick; one is counted by itself. */
static void take_share(weir_connection *connection, size_t parts) {
  size_t more = parts - 1;
  size_t rest = connection->share - 1;
  connection->share -= (uint32_t)(more < rest ? more : rest);
}

bool weir_serve_ask_envoy(weir_connection *connection, const weir_envoy_request *request,
                          unsigned manner, int64_t until_us, weir_envoy_refusal *refusal) {
  part parts[PARTS_MOST];
  weir_tick *tick = &connection->loop->tick;
  const weir_descriptors *descriptors = weir_registry_descriptors(tick->registry);
  const weir_domain *domain =
      weir_descriptors_find(descriptors, request->domain, request->domain_length);
  if (weir_descriptors_count(descriptors) == 0)
    return refuse(refusal, WEIR_ENVOY_NO_FILES,
                  "there are no descriptor files: envoy.files names them");
  for (size_t i = 0; i < request->count; i++)
    if (!find(tick, domain, &request->descriptors[i], &parts[i], refusal)) return false;
  leave_out_replaced(parts, request->count);
  if (!check_returns(domain, parts, request->count, refusal)) return false;
  for (size_t i = 0; i < request->count; i++)
    if (!add(tick, domain, until_us, &parts[i])) return no_memory(refusal);
  uint32_t index = weir_tick_add_text(tick, (const char *)parts, request->count * sizeof parts[0]);
  if (index == WEIR_NO_SLOT) return no_memory(refusal);
  weir_slot *slot = &tick->slots[index];
  slot->is_text = false;
  slot->part_count = request->count;
  slot->domain = domain;
  slot->manner = manner;
  take_share(connection, request->count);
  if (gives_back(parts, request->count)) connection->share = 1;
  weir_connection_queue(connection, index);
  return true;
}

void weir_serve_cancel_envoy(weir_tick *tick, uint32_t slot) {
  const weir_slot *asked = &tick->slots[slot];
  for (size_t i = 0; i < asked->part_count; i++) {
    part one;
    memcpy(&one, tick->bytes.data + asked->text + i * sizeof one, sizeof one);
    if (one.request != NO_REQUEST) weir_tick_cancel(tick, one.request);
  }
}

/* --- answering ----------------------------------------------------------------------------------
 */

/* How a request of one tick came out. */
typedef struct outcome {
  const weir_slot *slot;
  const weir_domain *domain;
  weir_tally_protocol protocol;
  part parts[PARTS_MOST];
  weir_decision decisions[PARTS_MOST];
  weir_envoy_answer *answer;
  weir_status status; /* of the first part that has no decision, */
  weir_message why;   /* or of what could not go back; else empty */
  size_t over, quotas, quotas_over;
} outcome;

/* As the store says it; where requests_per_unit is 0, as if it said so. */
static weir_status decide(const weir_tick *tick, const part *asked, weir_decision *decision) {
  *decision = (weir_decision){.source = WEIR_SOURCE_LOCAL,
                              .cost = asked->hits,
                              .retry_after_us = WEIR_NEVER,
                              .reset_after_us = WEIR_NOT_KNOWN};
  if (asked->request == NO_REQUEST) return WEIR_OK;
  *decision = tick->requests[asked->request].decision;
  if (asked->left_us > 0 && decision->reset_after_us > asked->left_us)
    decision->reset_after_us = asked->left_us;
  if (asked->left_us > 0 && decision->retry_after_us > asked->left_us)
    decision->retry_after_us = asked->left_us;
  return tick->requests[asked->request].status;
}

/* As the other service has it: more than four fifths of the limit are used up. */
static bool is_near(const part *asked, const weir_decision *decision) {
  return decision->allowed && asked->hits > 0 && decision->remaining >= 0 &&
         decision->remaining < asked->rate.requests - asked->rate.requests * 4 / 5;
}

static void count(weir_connection *connection, const outcome *made, size_t index,
                  weir_status status, bool is_shadowed) {
  char name[WEIR_CONFIG_NAME_MOST + 1];
  weir_loop *loop = connection->loop;
  weir_serve_counts *counts = &loop->counts;
  const part *asked = &made->parts[index];
  weir_decision answered = made->decisions[index];
  weir_tally_name_domain(made->domain, name);
  const weir_reply reply = {.status = status,
                            .why = weir_status_text(status),
                            .decision = status == WEIR_OK ? &answered : NULL,
                            .limiter = asked->limiter,
                            .name = name,
                            .key = loop->tick.bytes.data + asked->key,
                            .key_length = asked->key_length,
                            .id = loop->tick.bytes.data + made->slot->id,
                            .id_length = made->slot->id_length,
                            .is_shadowed = is_shadowed,
                            .retry_after_us = answered.retry_after_us};
  if (is_shadowed) answered.allowed = true;
  weir_serve_count(status != WEIR_OK  ? &counts->none
                   : answered.allowed ? &counts->allowed
                                      : &counts->denied,
                   1);
  if (is_shadowed) weir_serve_count(&counts->shadow_denied, 1);
  weir_tally_note_domain(loop, made->domain, asked->limit, &reply, asked->hits == 0,
                         is_near(asked, &answered), made->protocol);
  if (asked->detail != NULL)
    weir_tally_note_detail(asked->detail, &reply, is_near(asked, &answered));
}

static void describe(const part *asked, const weir_decision *decision, weir_envoy_status *status) {
  status->has_limit = true;
  status->requests = asked->rate.requests;
  status->unit = asked->rate.unit;
  status->name = asked->rate.name;
  status->remaining = decision->remaining;
  status->reset_after_us = decision->reset_after_us;
}

/* Before any is counted: all parts have one end. */
static bool is_over(const weir_tick *tick, const outcome *made) {
  for (size_t i = 0; i < made->answer->count; i++)
    if (made->parts[i].request != NO_REQUEST && weir_tick_is_over(tick, made->parts[i].request))
      return true;
  return false;
}

/* Gives back at most what counts, so that no count falls below 0. Where others give back at the same
 * time there is less than was seen: a second look says how much. */
static weir_status return_hits(weir_tick *tick, const part *asked, weir_decision *seen,
                               weir_message *why) {
  const char *key = tick->bytes.data + asked->key;
  for (int tries = 2;; tries--) {
    int64_t counted = asked->rate.requests - (seen->remaining > 0 ? seen->remaining : 0);
    int64_t hits = asked->hits < counted ? asked->hits : counted;
    weir_decision taken = {.allowed = true, .cost = hits, .at_us = seen->at_us};
    if (hits == 0) return WEIR_OK;
    weir_status status =
        weir_limiter_refund(asked->limiter, key, asked->key_length, hits, &taken, why);
    if (status == WEIR_OK && seen->remaining >= 0) seen->remaining += hits;
    if (status != WEIR_BAD_COST) return status;
    if (tries == 0) return WEIR_OK; /* each time others were faster: what they gave back is back */
    weir_decision look;
    status = weir_limiter_peek(asked->limiter, key, asked->key_length, 1, &look, why);
    if (status == WEIR_OK && look.source >= WEIR_SOURCE_FALLBACK) status = look.store_status;
    if (status != WEIR_OK) return status;
    seen->remaining = look.remaining;
    seen->at_us = look.at_us;
  }
}

/* What these hits were charged for is not known, so they go off what counts now. It is no decision,
 * and not counted as one. */
static void settle_return(weir_tick *tick, outcome *made, size_t index) {
  const part *asked = &made->parts[index];
  weir_decision *seen = &made->decisions[index];
  weir_message why = {""};
  weir_status given = decide(tick, asked, seen);
  if (given == WEIR_OK && seen->source >= WEIR_SOURCE_FALLBACK) given = seen->store_status;
  if (given == WEIR_OK) given = return_hits(tick, asked, seen, &why);
  if (given != WEIR_OK && made->status == WEIR_OK) {
    made->status = given;
    made->why = why;
  }
  describe(asked, seen, &made->answer->statuses[index]);
}

static void settle(weir_connection *connection, outcome *made, size_t index) {
  const part *asked = &made->parts[index];
  weir_decision *decision = &made->decisions[index];
  weir_envoy_status *status = &made->answer->statuses[index];
  *status = (weir_envoy_status){.remaining = WEIR_NOT_KNOWN, .reset_after_us = WEIR_NOT_KNOWN};
  if (!asked->is_limited) return;
  if (asked->rate.is_unlimited) {
    status->remaining = UINT32_MAX;
    return;
  }
  if (asked->gives_back) {
    settle_return(&connection->loop->tick, made, index);
    return;
  }
  weir_status found = decide(&connection->loop->tick, asked, decision);
  bool shadow = asked->shadow || weir_registry_config(connection->loop->tick.registry)->shadow;
  bool denied = found == WEIR_OK && !decision->allowed;
  count(connection, made, index, found, denied && shadow);
  if (found != WEIR_OK && made->status == WEIR_OK) made->status = found;
  if (found != WEIR_OK) return;
  describe(asked, decision, status);
  status->is_over = denied && !shadow;
  made->quotas += asked->quota;
  made->quotas_over += asked->quota && status->is_over;
  made->over += !asked->quota && status->is_over;
}

/* together: what others' denial made useless goes back, in a round trip each. What cannot go back
 * stays charged. */
static void give_back(weir_tick *tick, outcome *made) {
  for (size_t i = 0; i < made->answer->count; i++) {
    const part *asked = &made->parts[i];
    weir_decision *taken = &made->decisions[i];
    if (asked->request == NO_REQUEST || asked->hits == 0 || asked->gives_back || !taken->allowed)
      continue;
    int64_t cost = taken->cost;
    weir_status status = weir_limiter_refund(asked->limiter, tick->bytes.data + asked->key,
                                             asked->key_length, cost, taken, NULL);
    int64_t *remaining = &made->answer->statuses[i].remaining;
    if (status == WEIR_OK && *remaining >= 0) *remaining += cost;
  }
}

/* The part that the fields tell of: one that is over, else that with the least left. */
static size_t find_told(const outcome *made) {
  size_t told = NO_REQUEST;
  for (size_t i = 0; i < made->answer->count; i++) {
    const weir_envoy_status *status = &made->answer->statuses[i];
    if (made->parts[i].request == NO_REQUEST || made->parts[i].gives_back || status->remaining < 0)
      continue;
    if (told == NO_REQUEST || (status->is_over && !made->answer->statuses[told].is_over) ||
        (status->is_over == made->answer->statuses[told].is_over &&
         status->remaining < made->answer->statuses[told].remaining))
      told = i;
  }
  return told;
}

/* What fields call it: a name of theirs has fewer characters than one of a descriptor file. */
static void write_name(const outcome *made, const part *asked, char name[WEIR_HTTP_NAME_MOST + 1]) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const char *text =
      asked->rate.name != NULL ? asked->rate.name : weir_domain_config(made->domain)->name;
  snprintf(name, WEIR_HTTP_NAME_MOST + 1, "%s", text[0] != '\0' ? text : "_");
  for (char *at = name; *at != '\0'; at++)
    if (strchr(accepted, *at) == NULL) *at = '_';
}

static void add_fields(const outcome *made) {
  char name[WEIR_HTTP_NAME_MOST + 1];
  weir_envoy_answer *answer = made->answer;
  size_t index = find_told(made);
  answer->field_count = 0;
  if (index == NO_REQUEST) return;
  weir_config_headers headers = weir_domain_config(made->domain)->headers;
  if (headers == WEIR_CONFIG_HEADERS_OFF) return;
  const part *told = &made->parts[index];
  weir_decision decision = made->decisions[index];
  unsigned style =
      headers == WEIR_CONFIG_HEADERS_DRAFT_03 ? WEIR_HTTP_X_RATELIMIT : WEIR_HTTP_DRAFT_10;
  if (!answer->is_over) decision.allowed = true;
  write_name(made, told, name);
  if (weir_http_write_fields(told->limiter, name, &decision, style, answer->fields,
                             &answer->field_count, NULL) != WEIR_OK)
    answer->field_count = 0;
}

bool weir_serve_settle_envoy(weir_connection *connection, const weir_slot *slot,
                             weir_tally_protocol protocol, weir_envoy_answer *answer,
                             weir_envoy_refusal *refusal) {
  outcome made = {.slot = slot, .domain = slot->domain, .protocol = protocol, .answer = answer};
  answer->count = slot->part_count;
  memcpy(made.parts, connection->loop->tick.bytes.data + slot->text,
         answer->count * sizeof made.parts[0]);
  if (is_over(&connection->loop->tick, &made)) {
    weir_serve_count(&connection->loop->counts.expired, 1);
    return refuse(refusal, WEIR_ENVOY_EXPIRED, "the time for it was over before it was decided");
  }
  for (size_t i = 0; i < answer->count; i++)
    settle(connection, &made, i);
  answer->is_over = made.over > 0 || (made.quotas > 0 && made.quotas == made.quotas_over);
  bool is_denied = answer->is_over || made.status != WEIR_OK;
  if (is_denied && made.domain != NULL && weir_domain_config(made.domain)->together)
    give_back(&connection->loop->tick, &made);
  add_fields(&made);
  if (made.status == WEIR_OK) return true;
  bool keeps = weir_status_classify(made.status) == WEIR_CLASS_CALLER && made.why.text[0] != '\0';
  refusal->failure = keeps ? WEIR_ENVOY_BAD_REQUEST : WEIR_ENVOY_UNAVAILABLE;
  snprintf(refusal->why.text, sizeof refusal->why.text, "%s: %.200s", weir_status_name(made.status),
           keeps ? made.why.text : weir_status_text(made.status));
  return false;
}
