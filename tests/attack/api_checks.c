/* api_hunt draws by chance from these, and checks each answer by them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack/api_hunt.h"
#include "fixture/chance.h"

/* --- chance ------------------------------------------------------------------------------------
 */

uint32_t api_chance(api_thread *thread, uint32_t of) {
  return chance(&thread->seed, of);
}

int64_t api_edge(api_thread *thread) {
  static const int64_t edges[] = {0,
                                  -1,
                                  1,
                                  2,
                                  1000,
                                  1000000,
                                  60000000,
                                  60000001,
                                  1000000000,
                                  INT64_C(2147483647),
                                  INT64_C(2147483648),
                                  INT64_C(2147483649),
                                  INT64_C(253402300799999999),
                                  INT64_C(1) << 62,
                                  INT64_MAX,
                                  INT64_MAX - 1,
                                  INT64_MIN,
                                  INT64_MIN + 1};
  return edges[api_chance(thread, sizeof edges / sizeof edges[0])];
}

int64_t api_small_or_edge(api_thread *thread, uint32_t most) {
  return api_chance(thread, 12) == 0 ? api_edge(thread) : 1 + (int64_t)api_chance(thread, most);
}

int64_t api_patience(api_thread *thread, int64_t least_us) {
  enum { SHORT_US = 100000, MOST_US = 60000000 };
  int64_t wait_us = api_small_or_edge(thread, 20000);
  if (wait_us > SHORT_US && wait_us <= MOST_US) wait_us = SHORT_US;
  if (wait_us >= least_us && wait_us <= SHORT_US) thread->waits_us = wait_us;
  return wait_us;
}

weir_limiter *api_limiter(api_thread *thread) {
  return thread->world->limiters[api_chance(thread, API_LIMITERS)];
}

static size_t index_of(const api_thread *thread, const weir_limiter *limiter) {
  size_t i = 0;
  while (thread->world->limiters[i] != limiter)
    i++;
  return i;
}

bool api_is_shared(const api_thread *thread, const weir_limiter *limiter) {
  return thread->world->is_shared[index_of(thread, limiter)];
}

weir_limiter *api_shared_limiter(api_thread *thread) {
  weir_limiter *drawn;
  do
    drawn = api_limiter(thread);
  while (!api_is_shared(thread, drawn));
  return drawn;
}

weir_store *api_store(api_thread *thread) {
  return thread->world->stores[api_chance(thread, API_STORES)];
}

weir_message *api_message(api_thread *thread) {
  memset(thread->message.text, 'x', 4);
  thread->message.text[4] = '\0';
  return api_chance(thread, 3) == 0 ? NULL : &thread->message;
}

/* A few keys are asked for by all, so that what is kept of others must make room for them; of shared windows
 * fewer, as there tenants are many. */
static void draw_key(api_thread *thread, const weir_limiter *limiter, api_kept *kept) {
  uint32_t keys = api_is_shared(thread, limiter) ? 4 : 48;
  static const char huge[5000] = "a key as long as a page \xff";
  kept->request.key = kept->key;
  kept->request.key_length =
      (size_t)snprintf(kept->key, sizeof kept->key, "k%u", api_chance(thread, keys));
  uint32_t kind = api_chance(thread, 64);
  if (kind > 3) return;
  if (kind == 0 || kind == 3) kept->request.key = kind == 0 ? NULL : huge;
  if (kind == 1) kept->request.key_length = 0;
  if (kind == 3) kept->request.key_length = 1 + api_chance(thread, sizeof huge);
}

void api_request(api_thread *thread, const weir_limiter *limiter, api_kept *kept) {
  weir_request *request = &kept->request;
  *request = (weir_request){.cost = api_small_or_edge(thread, 3)};
  draw_key(thread, limiter, kept);
  if (api_chance(thread, 24) == 0) request->cost = 1 + api_chance(thread, 2000);
  if (api_chance(thread, 5) == 0) {
    for (size_t i = 0; i < sizeof kept->costs / sizeof kept->costs[0]; i++)
      kept->costs[i] = api_chance(thread, 30) == 0 ? api_edge(thread) : api_chance(thread, 3);
    request->costs = kept->costs;
    request->cost = api_edge(thread);
  }
  if (api_chance(thread, 6) == 0) request->flags = api_chance(thread, 8);
  if (api_chance(thread, 40) == 0) request->flags = (unsigned)api_edge(thread);
  if (api_chance(thread, 6) == 0) request->longest_wait_us = api_edge(thread);
  if (request->flags & WEIR_REQUEST_SETTLE) {
    const api_kept *other = api_find(thread, API_DECISION);
    if (other != NULL && other->limiter == limiter) request->decision = other->request.decision;
    request->decision.allowed = true;
    if (api_chance(thread, 2) == 0) request->decision.at_us = api_edge(thread);
    if (api_chance(thread, 2) == 0) request->decision.cost = api_edge(thread);
  }
}

/* --- what is kept ------------------------------------------------------------------------------
 */

void api_let_go(api_kept *kept) {
  weir_reservation_destroy(kept->reservation);
  kept->reservation = NULL;
  kept->limiter = NULL;
}

api_kept *api_place(api_thread *thread) {
  for (size_t i = 0; i < API_KEPT; i++)
    if (thread->kept[i].limiter == NULL) return &thread->kept[i];
  api_kept *kept = &thread->kept[api_chance(thread, API_KEPT)];
  api_let_go(kept);
  return kept;
}

api_kept *api_find(api_thread *thread, api_wanted wanted) {
  size_t from = api_chance(thread, API_KEPT);
  for (size_t i = 0; i < API_KEPT; i++) {
    api_kept *kept = &thread->kept[(from + i) % API_KEPT];
    if (kept->limiter == NULL) continue;
    if (wanted == API_ANY || (kept->reservation != NULL) == (wanted == API_RESERVATION))
      return kept;
  }
  return NULL;
}

/* --- what must hold ----------------------------------------------------------------------------
 */

void api_fail(const api_thread *thread, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "api_hunt: thread %u, step %llu, %s: ", thread->number,
          (unsigned long long)thread->steps, atomic_load(&thread->calling));
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

static void check_message(api_thread *thread, const weir_message *message) {
  size_t length = strnlen(message->text, sizeof message->text);
  if (length == sizeof message->text) api_fail(thread, "the message does not end");
  if (length == 0 || strcmp(message->text, "xxxx") == 0) api_fail(thread, "nothing was explained");
  for (size_t i = 0; i < length; i++)
    if (message->text[i] < ' ' || message->text[i] > '~')
      api_fail(thread, "byte %zu of the message is 0x%x", i, (unsigned)message->text[i]);
}

void api_check_status(api_thread *thread, weir_status status, unsigned accepted,
                      const weir_message *message) {
  if ((unsigned)status >= WEIR_STATUS_COUNT || !(accepted & 1U << status))
    api_fail(thread, "answers %s: %s", weir_status_name(status),
             message != NULL ? message->text : "(no message)");
  if (status != WEIR_OK && message != NULL) check_message(thread, message);
}

void api_check_decision(api_thread *thread, const weir_limiter *limiter, const weir_decision *d) {
  weir_rule_info rule = WEIR_RULE_INFO_INIT;
  const char *wrong = NULL;
  if (weir_limiter_read_rule(limiter, d->rule, &rule) != WEIR_OK)
    wrong = "rule";
  else if (d->limit > rule.capacity ||
           (d->limit < rule.capacity && !api_is_shared(thread, limiter)))
    wrong = "limit";
  else if (d->remaining != WEIR_NOT_KNOWN && (d->remaining < 0 || d->remaining > d->limit))
    wrong = "remaining";
  else if (d->retry_after_us < WEIR_NEVER || (d->allowed && d->retry_after_us != 0))
    wrong = "retry_after_us";
  else if (d->reset_after_us < WEIR_NOT_KNOWN)
    wrong = "reset_after_us";
  else if (d->delay_us < 0)
    wrong = "delay_us";
  else if (d->at_us < 0)
    wrong = "at_us";
  else if ((unsigned)d->source > WEIR_SOURCE_SETTLED)
    wrong = "source";
  else if ((unsigned)d->store_status >= WEIR_STATUS_COUNT)
    wrong = "store_status";
  else if (d->store_status != WEIR_OK && d->source != WEIR_SOURCE_FALLBACK &&
           d->source != WEIR_SOURCE_LATE && d->source != WEIR_SOURCE_SETTLED)
    wrong = "store_status beside source";
  if (wrong == NULL) return;
  api_fail(thread,
           "%s of a decision of %s: allowed %d, source %d, rule %u, limit %lld, remaining %lld, "
           "retry %lld, reset %lld, delay %lld, cost %lld, at %lld, store %d",
           wrong, rule.text, d->allowed, (int)d->source, d->rule, (long long)d->limit,
           (long long)d->remaining, (long long)d->retry_after_us, (long long)d->reset_after_us,
           (long long)d->delay_us, (long long)d->cost, (long long)d->at_us, (int)d->store_status);
}

/* Then there is a decision whatever becomes of the store. */
void api_check_request(api_thread *thread, const weir_limiter *limiter,
                       const weir_request *request) {
  bool takes = !(request->flags & (WEIR_REQUEST_PEEK | WEIR_REQUEST_SETTLE));
  bool decided = takes && thread->world->has_policy[index_of(thread, limiter)];
  api_check_status(thread, request->status, decided ? API_ASKED & ~API_STORE_AWAY : API_ASKED,
                   NULL);
  if (request->status != WEIR_OK) return;
  if (request->key == NULL || request->key_length == 0)
    api_fail(thread, "an empty key was accepted");
  if (!(request->flags & WEIR_REQUEST_SETTLE))
    api_check_decision(thread, limiter, &request->decision);
  const weir_decision *decision = &request->decision;
  bool whole = request->costs == NULL && !(request->flags & ~(unsigned)WEIR_REQUEST_PEEK);
  if (whole && decision->cost != request->cost)
    api_fail(thread, "decides a cost of %lld as one of %lld", (long long)request->cost,
             (long long)decision->cost);
  if (request->costs != NULL && decision->cost != WEIR_OWN_COSTS)
    api_fail(thread, "a cost of %lld of a request with its own", (long long)decision->cost);
}

/* The third and those behind it are of the others. */
static const weir_extra *draw_tenant(api_thread *thread) {
  static const weir_extra tenants[] = {
      {.size = sizeof(weir_extra), .tenant = "a", .tenant_length = 1},
      {.size = sizeof(weir_extra), .tenant = "b", .tenant_length = 1},
      {.size = sizeof(weir_extra), .tenant = "c", .tenant_length = 1},
      {.size = sizeof(weir_extra), .tenant = "\0d", .tenant_length = 2},
  };
  return &tenants[api_chance(thread, sizeof tenants / sizeof tenants[0])];
}

const weir_extra *const *api_extras(api_thread *thread, weir_limiter *const *limiters,
                                    const weir_extra *extras[], size_t count) {
  static const weir_extra said[] = {
      WEIR_EXTRA_INIT,
      {.size = sizeof(weir_extra), .class_name = "batch"},
      {.size = sizeof(weir_extra), .class_name = ""},
      {.size = sizeof(weir_extra), .limit = 3},
      {.size = sizeof(weir_extra), .limit = INT64_MIN},
      {.size = sizeof(weir_extra), .tenant = "north", .tenant_length = 5},
      {.size = sizeof(weir_extra), .tenant_length = 5},
      {.size = 3},
  };
  for (size_t i = 0; i < count; i++) {
    bool shared = api_is_shared(thread, limiters[i]);
    bool wrong = api_chance(thread, shared ? 24 : 4) == 0;
    extras[i] = wrong    ? &said[api_chance(thread, sizeof said / sizeof said[0])]
                : shared ? draw_tenant(thread)
                         : NULL;
  }
  return api_chance(thread, 12) == 0 ? NULL : extras;
}
