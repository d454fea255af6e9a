/* The calls of api_hunt that reserve, and that end what was reserved. */
#include <string.h>

#include "attack/api_hunt.h"

/* Nothing is reserved but what is allowed, and that always is. */
static void check_made(api_thread *thread, const api_kept *kept, weir_limiter *limiter) {
  const weir_request *request = &kept->request;
  api_check_status(thread, request->status, API_ASKED, NULL);
  if (request->status == WEIR_OK) api_check_decision(thread, limiter, &request->decision);
  bool allowed = request->status == WEIR_OK && request->decision.allowed;
  if (allowed != (kept->reservation != NULL))
    api_fail(thread, "%s, %s: reservation %p", weir_status_name(request->status),
             allowed ? "allowed" : "not allowed", (const void *)kept->reservation);
}

static void call_reserve(api_thread *thread) {
  weir_limiter *limiter = api_limiter(thread);
  api_kept *kept = api_place(thread);
  weir_message *message = api_message(thread);
  api_request(thread, limiter, kept);
  weir_status status = weir_limiter_reserve(limiter, &kept->request, &kept->reservation, message);
  api_check_status(thread, status, API_ASKED, message);
  check_made(thread, kept, limiter);
  if (kept->reservation != NULL) kept->limiter = limiter;
}

static void call_reserve_wait(api_thread *thread) {
  weir_limiter *limiter = api_limiter(thread);
  api_kept *kept = api_place(thread);
  weir_message *message = api_message(thread);
  int64_t wait_us = api_patience(thread, 1);
  api_request(thread, limiter, kept);
  weir_status status =
      weir_limiter_reserve_wait(limiter, &kept->request, wait_us, &kept->reservation, message);
  api_check_status(thread, status, API_ASKED, message);
  if (kept->reservation != NULL) kept->limiter = limiter;
}

/* Some keep their request's memory, and some outlive it. */
static void reserve_together(api_thread *thread, bool says_more) {
  weir_limiter *limiters[API_BATCH_MOST];
  weir_request requests[API_BATCH_MOST];
  weir_reservation *made[API_BATCH_MOST];
  api_kept drawn[API_BATCH_MOST];
  const weir_extra *said[API_BATCH_MOST];
  size_t count = 1 + api_chance(thread, API_BATCH_MOST);
  weir_message *message = api_message(thread);
  bool one_limiter = api_chance(thread, 2) == 0;
  for (size_t i = 0; i < count; i++) {
    limiters[i] = one_limiter && i > 0 ? limiters[0] : api_limiter(thread);
    drawn[i] = (api_kept){0};
    api_request(thread, limiters[i], &drawn[i]);
    requests[i] = drawn[i].request;
  }
  weir_status status =
      says_more ? weir_reserve_extra(limiters, requests, api_extras(thread, limiters, said, count),
                                     count, made, message)
                : weir_reserve_together(limiters, requests, count, made, message);
  api_check_status(thread, status, API_ASKED, message);
  for (size_t i = 0; i < count; i++) {
    drawn[i].request = requests[i];
    drawn[i].reservation = made[i];
    check_made(thread, &drawn[i], limiters[i]);
    if (made[i] == NULL) continue;
    api_kept *kept = api_place(thread);
    *kept = drawn[i];
    kept->limiter = limiters[i];
    if (kept->request.key == drawn[i].key) kept->request.key = kept->key;
    kept->request.costs = NULL;
  }
}

static void call_reserve_together(api_thread *thread) {
  reserve_together(thread, false);
}

static void call_reserve_extra(api_thread *thread) {
  reserve_together(thread, true);
}

/* Whoever ends one twice is told. */
static void check_over(api_thread *thread, weir_reservation *reservation) {
  if (weir_reservation_held(reservation)) api_fail(thread, "it is held after its end");
  if (weir_reservation_commit(reservation, NULL) != WEIR_BAD_ARGUMENT)
    api_fail(thread, "it ends twice");
}

static void end_one(api_thread *thread, weir_status (*end)(weir_reservation *, weir_message *)) {
  api_kept *kept = api_find(thread, API_RESERVATION);
  weir_message *message = api_message(thread);
  weir_reservation *reservation = kept != NULL ? kept->reservation : NULL;
  weir_status status = end(reservation, message);
  api_check_status(thread, status, API_ENDED, message);
  if (kept == NULL) return;
  check_over(thread, reservation);
  if (api_chance(thread, 2) == 0) api_let_go(kept);
}

static void call_commit(api_thread *thread) {
  end_one(thread, weir_reservation_commit);
}

static void call_cancel(api_thread *thread) {
  end_one(thread, weir_reservation_cancel);
}

static void call_reservation_settle(api_thread *thread) {
  api_kept *kept = api_find(thread, API_RESERVATION);
  weir_message *message = api_message(thread);
  int64_t costs[16];
  if (kept == NULL) return;
  for (size_t i = 0; i < 16; i++)
    costs[i] = api_chance(thread, 40) == 0 ? api_edge(thread) : api_chance(thread, 4);
  weir_status status = weir_reservation_settle(kept->reservation, costs, message);
  api_check_status(thread, status, API_ENDED, message);
  if (status == WEIR_OK) check_over(thread, kept->reservation);
  for (size_t i = 0; status == WEIR_OK && i < weir_limiter_rules(kept->limiter); i++)
    if (costs[i] < 0 || costs[i] > INT64_C(2147483648))
      api_fail(thread, "settles rule %zu as %lld", i, (long long)costs[i]);
}

/* Releases those of several limiters and stores; some of them stand there twice, or are over. */
static void call_release_together(api_thread *thread) {
  weir_reservation *some[API_BATCH_MOST];
  weir_status statuses[API_BATCH_MOST];
  size_t count = 1 + api_chance(thread, API_BATCH_MOST);
  weir_message *message = api_message(thread);
  bool tells = api_chance(thread, 3) != 0;
  for (size_t i = 0; i < count; i++) {
    const api_kept *kept = api_find(thread, API_RESERVATION);
    some[i] = kept == NULL || api_chance(thread, 60) == 0 ? NULL : kept->reservation;
  }
  weir_status status = weir_release_together(some, count, tells ? statuses : NULL, message);
  api_check_status(thread, status, API_ENDED, message);
  for (size_t i = 0; i < count; i++)
    if (some[i] == NULL) {
      if (status != WEIR_BAD_ARGUMENT) api_fail(thread, "accepts a reservation that is NULL");
      return;
    }
  for (size_t i = 0; i < count; i++) {
    if (tells) api_check_status(thread, statuses[i], API_ENDED, NULL);
    check_over(thread, some[i]);
  }
}

static void call_held(api_thread *thread) {
  const api_kept *kept = api_find(thread, API_RESERVATION);
  weir_reservation_held(kept != NULL ? kept->reservation : NULL);
}

static void call_held_until(api_thread *thread) {
  const api_kept *kept = api_find(thread, API_RESERVATION);
  if (weir_reservation_held_until_us(kept != NULL ? kept->reservation : NULL) < 0)
    api_fail(thread, "is held until before 1970");
}

static void call_token(api_thread *thread) {
  const api_kept *kept = api_find(thread, API_RESERVATION);
  if (weir_reservation_token(kept != NULL ? kept->reservation : NULL) != 0 && kept == NULL)
    api_fail(thread, "none has a token");
}

static void call_destroy(api_thread *thread) {
  api_kept *kept = api_find(thread, API_RESERVATION);
  weir_reservation_destroy(NULL);
  if (kept != NULL) api_let_go(kept);
}

static void call_renew(api_thread *thread) {
  int64_t next_us = -2;
  weir_message *message = api_message(thread);
  weir_status status = weir_limiter_renew(api_limiter(thread), &next_us, message);
  api_check_status(thread, status, API_STATUS(OK) | API_STORE_AWAY, message);
  if (next_us < WEIR_NEVER) api_fail(thread, "is to come again in %lld", (long long)next_us);
}

const api_call api_reservations[] = {
    {"weir_limiter_reserve", 60, call_reserve},
    {"weir_limiter_reserve_wait", 8, call_reserve_wait},
    {"weir_reserve_together", 40, call_reserve_together},
    {"weir_reserve_extra", 10, call_reserve_extra},
    {"weir_reservation_commit", 20, call_commit},
    {"weir_reservation_cancel", 20, call_cancel},
    {"weir_reservation_settle", 30, call_reservation_settle},
    {"weir_release_together", 20, call_release_together},
    {"weir_reservation_held", 8, call_held},
    {"weir_reservation_held_until_us", 8, call_held_until},
    {"weir_reservation_token", 8, call_token},
    {"weir_reservation_destroy", 8, call_destroy},
    {"weir_limiter_renew", 8, call_renew},
    {NULL, 0, NULL},
};
