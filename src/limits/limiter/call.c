/* A call's own life, and what other threads do to it: they explain, finish and wake its requests.
 *
 * Calls that are ready for reuse keep the memory that requests need. A thread takes a call from a
 * place of its own and gives it back there: threads do not wait for each other, and a call stays in
 * one processor's caches.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/backoff.h>

#include "limiter/end.h"
#include "limiter/limiter.h"
#include "limiter/record.h"

/* The part of a deadline that is kept for giving back. */
enum { RESERVE_DIVISOR = 4 };

/* Idle calls, by the threads that had them last. Whole lists are taken off, which no other thread can
 * disturb; most have one call. */
typedef struct weir_idle_place {
  _Alignas(WEIR_CACHE_LINE_BYTES) weir_call *_Atomic first;
} weir_idle_place;

struct weir_idle {
  weir_idle_place places[WEIR_THREAD_PLACES];
};

/* Made with the first call, without a lock, which a child could find taken: of threads that come first at once one
 * has its own kept. NULL: no memory. */
__attribute__((cold, noinline)) static weir_idle *create_idle(weir_limiter *limiter) {
  weir_idle *idle = NULL;
  weir_idle *made = aligned_alloc(WEIR_CACHE_LINE_BYTES, sizeof *made);
  if (made == NULL) return NULL;
  memset(made, 0, sizeof *made);
  if (atomic_compare_exchange_strong(&limiter->idle, &idle, made)) return made;
  free(made);
  return idle;
}

static void put_back(weir_idle_place *place, weir_call *first, weir_call *last) {
  last->next_idle = atomic_load_explicit(&place->first, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&place->first, &last->next_idle, first,
                                                memory_order_release, memory_order_relaxed)) {
  }
}

static void free_room(weir_call *call) {
  for (size_t i = 0; call->groups != NULL && i < call->room; i++)
    free(call->groups[i].machine);
  free(call->batch);
  free(call->settlements);
  free(call->groups);
  free(call->own);
  free(call->round.planned);
  free(call->round.answered);
  free(call->round.key_texts);
  call->batch = NULL;
  call->settlements = NULL;
  call->groups = NULL;
  call->own = NULL;
  call->round.planned = NULL;
  call->round.answered = NULL;
  call->round.key_texts = NULL;
  call->room = 0;
}

void weir_idle_destroy(weir_idle *idle) {
  for (size_t i = 0; idle != NULL && i < WEIR_THREAD_PLACES; i++) {
    for (weir_call *call = idle->places[i].first, *next; call != NULL; call = next) {
      next = call->next_idle;
      weir_store_keep_waiter(call->limiter->store, call->own_waiter);
      free_room(call);
      free(call->round.joint);
      free(call);
    }
  }
  free(idle);
}

/* The thread's first call: the one moment at which a decision allocates, so that the thread's own
 * place among the counts is made here too. */
static weir_call *create_call(weir_limiter *limiter) {
  weir_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  weir_counts_part(limiter->counts);
  call->limiter = limiter;
  call->own_waiter = weir_store_take_waiter(limiter->store);
  if (call->own_waiter != NULL) return call;
  free(call);
  return NULL;
}

/* Memory for as many groups as requests: each may have a key of its own. Room only grows, so that a
 * thread which sends batches of one size allocates once. */
static bool make_room(weir_call *call, size_t count) {
  const weir_limiter *limiter = call->limiter;
  size_t reads = limiter->limits_us > 0; /* of each key its record */
  size_t operations = count * (weir_machine_operations_most(&limiter->stack) + reads);
  size_t own = 0;
  if (limiter->known->room != NULL) own = limiter->known->room(limiter, count, &operations);
  free_room(call);
  call->batch = calloc(count, sizeof *call->batch);
  call->groups = calloc(count, sizeof *call->groups);
  call->round.planned = calloc(operations, sizeof *call->round.planned);
  call->round.answered = calloc(operations, sizeof *call->round.answered);
  call->round.key_texts = calloc(operations, sizeof *call->round.key_texts);
  if (!call->batch || !call->groups || !call->round.planned || !call->round.answered ||
      !call->round.key_texts)
    return false;
  if (own > 0 && (call->own = calloc(1, own)) == NULL) return false;
  for (; call->room < count; call->room++) {
    void *memory = malloc(weir_machine_bytes(&limiter->stack));
    if (memory == NULL) return false;
    call->groups[call->room].machine =
        weir_machine_init(memory, &limiter->stack, &limiter->settings);
  }
  return true;
}

/* Most batches settle nothing: the first that does makes the room. */
weir_settlement *weir_call_settlement(weir_call *call, const weir_waiting *request) {
  if (call->settlements == NULL) call->settlements = calloc(call->room, sizeof *call->settlements);
  return call->settlements != NULL ? &call->settlements[request - call->batch] : NULL;
}

weir_call *weir_call_acquire(weir_limiter *limiter, size_t count) {
  weir_idle *idle = atomic_load_explicit(&limiter->idle, memory_order_acquire);
  if (idle == NULL) idle = create_idle(limiter);
  if (idle == NULL) return NULL;
  weir_idle_place *place = &idle->places[weir_thread_place()];
  weir_call *call = atomic_exchange_explicit(&place->first, NULL, memory_order_acquire);
  if (call != NULL && call->next_idle != NULL) {
    weir_call *last = call->next_idle;
    while (last->next_idle != NULL)
      last = last->next_idle;
    put_back(place, call->next_idle, last);
  }
  if (call == NULL) call = create_call(limiter);
  if (call == NULL) return NULL;
  call->idle_place = place;
  call->work = (weir_work){0};
  call->explained = NULL;
  call->behind_round = NULL;
  call->looks_last = false;
  call->waiter = call->own_waiter;
  call->head = call;
  call->also = NULL;
  if (call->room >= count || make_room(call, count)) return call;
  free_room(call);
  weir_call_release(call);
  return NULL;
}

void weir_call_release(weir_call *call) {
  if (call->work.round_trips > 0) weir_counts_add_work(call->limiter->counts, &call->work);
  put_back(call->idle_place, call, call);
}

/* --- time --------------------------------------------------------------------------------------
 */

/* Others rely on it that a charge arrives within the deadline of its stamp, whatever held this
 * thread up in between: so the clock is read after the deadline began. */
void weir_call_begin_deadline(weir_call *call) {
  weir_call *head = call->head;
  int64_t longest_us = head->limiter->deadline_us;
  head->monotonic_us = weir_monotonic_us();
  head->deadline_us = head->monotonic_us + longest_us; /* a minute at most: no overflow */
  head->charge_end_us = head->deadline_us - longest_us / RESERVE_DIVISOR;
  for (call = head; call != NULL; call = call->also)
    call->at = weir_limiter_moment(call->limiter);
}

/* At first about as long as a round trip on a local network, in which the others are done if there
 * are few of them; then longer, as there are many, up to a tenth of the default deadline. */
int64_t weir_call_pause_end_us(unsigned pauses) {
  enum { PAUSE_BASE_US = 50, PAUSE_MOST_US = 2000 };
  return weir_monotonic_us() + weir_backoff_us(pauses, PAUSE_BASE_US, PAUSE_MOST_US);
}

/* --- its requests ------------------------------------------------------------------------------
 */

size_t weir_call_encode(const weir_waiting *request, char encoded[WEIR_ENCODED_MOST]) {
  if (request->claim.ask.kind != WEIR_REFILL)
    return weir_key_encode(request->claim.ask.key, request->claim.ask.key_length, encoded);
  memcpy(encoded, request->claim.ask.key, request->claim.ask.key_length);
  return request->claim.ask.key_length;
}

/* The first request speaks for a batch, but one that has no answer at all speaks before one for
 * which a policy answers. Leaders of other calls come here, too. */
void weir_call_explain(weir_waiting *request, weir_status status, const char *why) {
  weir_call *call = request->call;
  bool has_answer = weir_limiter_has_answer(call->limiter, request, status);
  pthread_mutex_lock(&call->waiter->mutex);
  bool goes_first = call->explained == NULL || request < call->explained;
  if (call->explained != NULL && call->explained_has_answer != has_answer) goes_first = !has_answer;
  if (goes_first) {
    weir_message_set(&call->explanation, "%s", why[0] != '\0' ? why : weir_status_text(status));
    call->explained = request;
    call->explained_has_answer = has_answer;
  }
  pthread_mutex_unlock(&call->waiter->mutex);
}

/* A clock that was set back makes read times of before mean something else. */
void weir_call_forget(weir_limiter *limiter, weir_memo_entry *entry) {
  uint8_t must_peek = entry->memo->must_peek;
  bool unsure = entry->memo->unsure;
  entry->clock_steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  memset(entry->memo, 0, weir_memo_bytes(&limiter->stack));
  if (limiter->limits_us > 0) weir_record_of(limiter, entry)->read_us = 0;
  entry->memo->must_peek = must_peek;
  entry->memo->unsure = unsure;
  if (limiter->known->forget != NULL) limiter->known->forget(limiter, entry);
  if (entry->stand_ins & WEIR_DIVERTS) limiter->other->forget(limiter, entry);
}

/* Wakes the thread that waits there, whose requests have moved on. */
static void notify(weir_waiter *waiter) {
  pthread_mutex_lock(&waiter->mutex);
  waiter->events++;
  pthread_cond_signal(&waiter->changed);
  pthread_mutex_unlock(&waiter->mutex);
}

/* After the step its own thread may go on: so its waiter is looked up before. */
void weir_call_pass_lead(const weir_call *call, weir_memo_entry *entry) {
  weir_waiting *next = weir_waiting_of(entry->first_waiting);
  entry->busy = next != NULL;
  if (next == NULL) return;
  const weir_call *owner = next->call;
  weir_waiter *waiter = owner->waiter;
  atomic_store_explicit(&next->standing, WEIR_STANDING_LEADS, memory_order_release);
  if (owner != call) notify(waiter);
}

/* A request has its answer, or the reason why not: what the store said, unless the store did all
 * that it was asked to. After the step to done its own thread may go on, and its memory be gone:
 * nothing of it is touched but its waiter, which stays as long as the store. */
void weir_call_finish(const weir_call *call, weir_waiting *request) {
  const weir_call *owner = request->call;
  weir_waiter *waiter = owner->waiter;
  request->end_us = call->head->monotonic_us;
  if (request->claim.verdict.status != WEIR_OK) {
    bool store_did_all = request->claim.verdict.status == WEIR_CONTENDED ||
                         request->claim.verdict.status == WEIR_BAD_COST;
    weir_call_explain(request, request->claim.verdict.status,
                      store_did_all ? "" : call->failure.text);
  }
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_release);
  if (owner != call) notify(waiter);
}
