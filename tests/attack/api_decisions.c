/* The calls of api_hunt that decide, and that give back and settle what was decided. */
#include <string.h>

#include "attack/api_hunt.h"

/* How a take of one cost is called. */
typedef weir_status take_function(weir_limiter *limiter, const void *key, size_t key_length,
                                  int64_t cost, weir_decision *decision, weir_message *message);

/* Admissions are kept, so that they can be given back. */
static void take_by(api_thread *thread, take_function *take, unsigned flags) {
  weir_limiter *limiter = api_limiter(thread);
  api_kept *kept = api_place(thread);
  weir_message *message = api_message(thread);
  weir_request *request = &kept->request;
  api_request(thread, limiter, kept);
  request->costs = NULL;
  request->flags = flags;
  request->status =
      take(limiter, request->key, request->key_length, request->cost, &request->decision, message);
  api_check_status(thread, request->status, API_ASKED, message);
  api_check_request(thread, limiter, request);
  bool keeps = flags != WEIR_REQUEST_PEEK && request->status == WEIR_OK;
  if (keeps && request->decision.allowed) kept->limiter = limiter;
}

static void call_take(api_thread *thread) {
  take_by(thread, weir_limiter_take, 0);
}

static void call_take_up_to(api_thread *thread) {
  take_by(thread, weir_limiter_take_up_to, WEIR_REQUEST_UP_TO);
}

static void call_peek(api_thread *thread) {
  take_by(thread, weir_limiter_peek, WEIR_REQUEST_PEEK);
}

static void call_wait(api_thread *thread) {
  weir_limiter *limiter = api_limiter(thread);
  api_kept *kept = api_place(thread);
  weir_message *message = api_message(thread);
  weir_request *request = &kept->request;
  api_request(thread, limiter, kept);
  request->status = weir_limiter_wait(limiter, request->key, request->key_length, request->cost,
                                      api_patience(thread, 1), &request->decision, message);
  api_check_status(thread, request->status, API_ASKED, message);
  if (request->status == WEIR_OK) api_check_decision(thread, limiter, &request->decision);
}

/* --- batches -----------------------------------------------------------------------------------
 */

/* Requests of a batch, and what they point to. */
typedef struct batch {
  size_t count;
  weir_limiter *limiters[API_BATCH_MOST];
  api_kept drawn[API_BATCH_MOST];
  weir_request requests[API_BATCH_MOST];
} batch;

typedef weir_limiter *draw_limiter(api_thread *thread);

static void draw_batch_of(api_thread *thread, batch *b, bool one_limiter, draw_limiter *draw) {
  b->count = 1 + api_chance(thread, API_BATCH_MOST);
  for (size_t i = 0; i < b->count; i++) {
    b->limiters[i] = one_limiter && i > 0 ? b->limiters[0] : draw(thread);
    b->drawn[i] = (api_kept){0};
    api_request(thread, b->limiters[i], &b->drawn[i]);
    b->requests[i] = b->drawn[i].request;
  }
}

static void draw_batch(api_thread *thread, batch *b, bool one_limiter) {
  draw_batch_of(thread, b, one_limiter, api_limiter);
}

/* What says more is half of the time about tenants. */
static void draw_batch_that_says(api_thread *thread, batch *b, bool one_limiter) {
  draw_batch_of(thread, b, one_limiter,
                api_chance(thread, 2) == 0 ? api_shared_limiter : api_limiter);
}

/* In the place of the first: what was admitted before is settled, by whatever tenant. */
static void settle_first(api_thread *thread, batch *b) {
  const api_kept *kept = api_find(thread, API_DECISION);
  if (kept == NULL || !api_is_shared(thread, kept->limiter)) return;
  b->limiters[0] = kept->limiter;
  b->drawn[0] = *kept;
  b->requests[0] = kept->request;
  b->requests[0].key = b->drawn[0].key;
  b->requests[0].cost = api_small_or_edge(thread, 200);
  b->requests[0].flags = WEIR_REQUEST_SETTLE;
}

/* What was admitted can be settled: by a request that says no more, and by one of a batch that does. */
static void keep_admitted(api_thread *thread, const batch *b) {
  size_t n = api_chance(thread, (uint32_t)b->count);
  const weir_request *request = &b->requests[n];
  if (request->status != WEIR_OK || request->flags != 0 || !request->decision.allowed ||
      request->costs != NULL || b->drawn[n].request.key != b->drawn[n].key)
    return;
  api_kept *kept = api_place(thread);
  *kept = b->drawn[n];
  kept->request = *request;
  kept->request.key = kept->key;
  kept->limiter = b->limiters[n];
}

/* The first status that is not WEIR_OK is that of all. */
static void check_batch(api_thread *thread, const batch *b, weir_status status,
                        const weir_message *message) {
  weir_status first = WEIR_OK;
  api_check_status(thread, status, API_ASKED, message);
  for (size_t i = b->count; i-- > 0;) {
    api_check_request(thread, b->limiters[i], &b->requests[i]);
    if (b->requests[i].status != WEIR_OK) first = b->requests[i].status;
  }
  if (status != first)
    api_fail(thread, "answers %s for a batch whose first fault is %s", weir_status_name(status),
             weir_status_name(first));
}

static void call_limiter_decide(api_thread *thread) {
  batch b;
  weir_message *message = api_message(thread);
  draw_batch(thread, &b, true);
  if (api_chance(thread, 40) == 0) {
    size_t none = api_chance(thread, 2) * (WEIR_BATCH_MOST + 1);
    if (weir_limiter_decide(b.limiters[0], b.requests, none, message) != WEIR_BAD_ARGUMENT)
      api_fail(thread, "accepts %zu requests", none);
    return;
  }
  weir_status status = weir_limiter_decide(b.limiters[0], b.requests, b.count, message);
  check_batch(thread, &b, status, message);
}

static void call_decide_together(api_thread *thread) {
  batch b;
  weir_message *message = api_message(thread);
  draw_batch(thread, &b, false);
  if (api_chance(thread, 40) == 0) {
    b.limiters[api_chance(thread, (uint32_t)b.count)] = NULL;
    if (weir_decide_together(b.limiters, b.requests, b.count, message) != WEIR_BAD_ARGUMENT)
      api_fail(thread, "accepts a limiter that is NULL");
    return;
  }
  weir_status status = weir_decide_together(b.limiters, b.requests, b.count, message);
  check_batch(thread, &b, status, message);
}

static void call_decide_extra(api_thread *thread) {
  batch b;
  const weir_extra *said[API_BATCH_MOST];
  weir_message *message = api_message(thread);
  draw_batch_that_says(thread, &b, false);
  settle_first(thread, &b);
  const weir_extra *const *extras = api_extras(thread, b.limiters, said, b.count);
  check_batch(thread, &b, weir_decide_extra(b.limiters, b.requests, extras, b.count, message),
              message);
  keep_admitted(thread, &b);
}

static void call_decide_known_extra(api_thread *thread) {
  batch b;
  bool known[API_BATCH_MOST];
  const weir_extra *said[API_BATCH_MOST];
  weir_message *message = api_message(thread);
  draw_batch_that_says(thread, &b, api_chance(thread, 2) == 0);
  const weir_extra *const *extras = api_extras(thread, b.limiters, said, b.count);
  weir_status status =
      weir_decide_known_extra(b.limiters, b.requests, extras, b.count, known, message);
  api_check_status(thread, status, API_STATUS(OK), message);
  for (size_t i = 0; i < b.count; i++)
    if (known[i]) api_check_request(thread, b.limiters[i], &b.requests[i]);
}

static void call_decide_known(api_thread *thread) {
  batch b;
  bool known[API_BATCH_MOST];
  weir_message *message = api_message(thread);
  draw_batch(thread, &b, api_chance(thread, 2) == 0);
  weir_status status = weir_decide_known(b.limiters, b.requests, b.count, known, message);
  api_check_status(thread, status, API_STATUS(OK), message);
  for (size_t i = 0; i < b.count; i++)
    if (known[i]) api_check_request(thread, b.limiters[i], &b.requests[i]);
}

/* Where they are denied, some request says so; where they are admitted, all do. */
static void decide_all(api_thread *thread, bool says_more) {
  batch b;
  size_t denied_by = SIZE_MAX;
  const weir_extra *said[API_BATCH_MOST];
  weir_message *message = api_message(thread);
  (says_more ? draw_batch_that_says : draw_batch)(thread, &b, false);
  if (b.count > 4) b.count = 4;
  for (size_t i = 0; i < b.count && api_chance(thread, 8) != 0; i++)
    b.requests[i].flags = 0;
  weir_status status = says_more
                           ? weir_decide_all_extra(b.limiters, b.requests,
                                                   api_extras(thread, b.limiters, said, b.count),
                                                   b.count, &denied_by, message)
                           : weir_decide_all(b.limiters, b.requests, b.count, &denied_by, message);
  api_check_status(thread, status, API_ASKED, message);
  if (status != WEIR_OK) return;
  if (denied_by > b.count) api_fail(thread, "denied by %zu of %zu", denied_by, b.count);
  for (size_t i = 0; i < b.count; i++) {
    const weir_decision *decision = &b.requests[i].decision;
    api_check_decision(thread, b.limiters[i], decision);
    if (decision->allowed != (denied_by == b.count))
      api_fail(thread, "request %zu of %zu is %s, denied by %zu", i, b.count,
               decision->allowed ? "allowed" : "denied", denied_by);
  }
}

static void call_decide_all(api_thread *thread) {
  decide_all(thread, false);
}

static void call_decide_all_extra(api_thread *thread) {
  decide_all(thread, true);
}

static void call_check_all(api_thread *thread) {
  weir_limiter *limiters[WEIR_ALL_MOST + 2];
  size_t count = api_chance(thread, 16) == 0 ? WEIR_ALL_MOST + 1 : api_chance(thread, 5);
  weir_message *message = api_message(thread);
  for (size_t i = 0; i < count; i++)
    limiters[i] = api_chance(thread, 32) == 0 ? NULL : api_limiter(thread);
  weir_status status = weir_check_all(limiters, count, message);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), message);
}

/* --- afterwards --------------------------------------------------------------------------------
 */

/* A decision that is kept, sometimes spoiled: it is a caller's memory. */
static api_kept *draw_taken(api_thread *thread) {
  api_kept *kept = api_find(thread, API_ANY);
  if (kept == NULL) return NULL;
  weir_decision *decision = &kept->request.decision;
  switch (api_chance(thread, 24)) {
    case 0:
      decision->cost = api_edge(thread);
      break;
    case 1:
      decision->at_us = api_edge(thread);
      break;
    case 2:
      decision->allowed = !decision->allowed;
      break;
    case 3:
      decision->source = (weir_source)api_chance(thread, WEIR_SOURCE_SETTLED + 1);
      break;
    default:
      break;
  }
  return kept;
}

/* By another limiter or under another key than it was taken with, where chance has it so. */
static weir_limiter *draw_settler(api_thread *thread, const api_kept *kept) {
  return api_chance(thread, 16) == 0 ? api_limiter(thread) : kept->limiter;
}

static void call_refund(api_thread *thread) {
  api_kept *kept = draw_taken(thread);
  if (kept == NULL) return;
  const weir_request *request = &kept->request;
  weir_message *message = api_message(thread);
  int64_t cost = api_small_or_edge(thread, 2);
  weir_status status =
      weir_limiter_refund(draw_settler(thread, kept), request->key, request->key_length, cost,
                          &kept->request.decision, message);
  api_check_status(thread, status, API_ASKED, message);
  if (status == WEIR_OK && cost < 1) api_fail(thread, "gives back %lld", (long long)cost);
}

/* A bucket keeps what it was charged with a delay, also where less was used. */
static void call_settle(api_thread *thread) {
  api_kept *kept = draw_taken(thread);
  if (kept == NULL) return;
  weir_request *request = &kept->request;
  weir_message *message = api_message(thread);
  int64_t real = api_chance(thread, 4) == 0 ? 0 : api_small_or_edge(thread, 6);
  weir_limiter *limiter = draw_settler(thread, kept);
  const weir_decision *decision = &request->decision;
  int64_t most = decision->delay_us > 0 && decision->cost > real ? decision->cost : real;
  weir_status status = weir_limiter_settle(limiter, request->key, request->key_length, real,
                                           &request->decision, message);
  api_check_status(thread, status, API_ASKED, message);
  if (status != WEIR_OK) return;
  if (decision->source != WEIR_SOURCE_SETTLED || decision->cost < 0 || decision->cost > most)
    api_fail(thread, "settles %lld as %lld", (long long)real, (long long)decision->cost);
  if (weir_limiter_settle(limiter, request->key, request->key_length, real, &request->decision,
                          NULL) != WEIR_BAD_ARGUMENT)
    api_fail(thread, "settles a decision twice");
}

static void call_reset(api_thread *thread) {
  api_kept drawn = {0};
  weir_limiter *limiter = api_limiter(thread);
  weir_message *message = api_message(thread);
  api_request(thread, limiter, &drawn);
  weir_status status =
      weir_limiter_reset(limiter, drawn.request.key, drawn.request.key_length, message);
  api_check_status(thread, status, API_ASKED, message);
}

static void call_return_leases(api_thread *thread) {
  weir_message *message = api_message(thread);
  weir_status status = weir_limiter_return_leases(api_limiter(thread), message);
  api_check_status(thread, status, API_STATUS(OK) | API_STORE_AWAY, message);
}

/* Of a key of a request's, good or bad. */
static weir_limit draw_limit(api_thread *thread, weir_limiter *limiter) {
  api_kept drawn = {0};
  api_request(thread, limiter, &drawn);
  return (weir_limit){.key = drawn.request.key,
                      .key_length = drawn.request.key_length,
                      .kind = api_chance(thread, 7),
                      .limit = (int64_t)api_chance(thread, 4),
                      .for_us = (int64_t)api_chance(thread, 2) * 2000000};
}

static void call_set_limits(api_thread *thread) {
  weir_limit limits[3];
  weir_limiter *limiter = api_limiter(thread);
  weir_message *message = api_message(thread);
  for (size_t i = 0; i < 3; i++)
    limits[i] = draw_limit(thread, limiter);
  api_check_status(thread, weir_limiter_set_limits(limiter, limits, 3, message), API_ASKED,
                   message);
}

static void call_read_limit(api_thread *thread) {
  weir_limiter *limiter = api_limiter(thread);
  weir_message *message = api_message(thread);
  weir_limit limit = draw_limit(thread, limiter);
  api_check_status(thread, weir_limiter_read_limit(limiter, &limit, message), API_ASKED, message);
}

static void call_parse_limit(api_thread *thread) {
  static const char *const texts[] = {"500", "500/1m", "0",  "blocked",   "none",
                                      "",    "9/",     "-1", "unlimited", "gold"};
  weir_limiter *limiter = api_limiter(thread);
  weir_message *message = api_message(thread);
  const char *text = texts[api_chance(thread, sizeof texts / sizeof *texts)];
  weir_limit limit = draw_limit(thread, limiter);
  api_check_status(thread, weir_limiter_parse_limit(limiter, text, strlen(text), &limit, message),
                   API_ASKED, message);
}

static void call_format_limit(api_thread *thread) {
  char text[WEIR_LIMIT_TEXT_BYTES];
  weir_limit limit = draw_limit(thread, api_limiter(thread));
  weir_limit_format(&limit, text);
}

static void call_name_limit(api_thread *thread) {
  char text[WEIR_LIMIT_NAME_BYTES];
  weir_limiter *limiter = api_limiter(thread);
  weir_limit limit = draw_limit(thread, limiter);
  weir_limiter_format_limit(limiter, &limit, text);
}

const api_call api_decisions[] = {
    {"weir_limiter_take", 200, call_take},
    {"weir_limiter_take_up_to", 20, call_take_up_to},
    {"weir_limiter_peek", 20, call_peek},
    {"weir_limiter_wait", 8, call_wait},
    {"weir_limiter_decide", 40, call_limiter_decide},
    {"weir_decide_together", 40, call_decide_together},
    {"weir_decide_known", 20, call_decide_known},
    {"weir_decide_all", 30, call_decide_all},
    {"weir_decide_extra", 60, call_decide_extra},
    {"weir_decide_known_extra", 10, call_decide_known_extra},
    {"weir_decide_all_extra", 10, call_decide_all_extra},
    {"weir_check_all", 4, call_check_all},
    {"weir_limiter_refund", 30, call_refund},
    {"weir_limiter_settle", 30, call_settle},
    {"weir_limiter_reset", 6, call_reset},
    {"weir_limiter_set_limits", 6, call_set_limits},
    {"weir_limiter_read_limit", 6, call_read_limit},
    {"weir_limiter_parse_limit", 6, call_parse_limit},
    {"weir_limit_format", 6, call_format_limit},
    {"weir_limiter_format_limit", 6, call_name_limit},
    {"weir_limiter_return_leases", 6, call_return_leases},
    {NULL, 0, NULL},
};
