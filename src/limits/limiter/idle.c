/* Calls that are ready for reuse, with the memory that requests need.
 *
 * A thread takes a call from a place of its own and gives it back there: threads do not wait for
 * each other, and a call stays in one processor's caches.
 */
#include <stdlib.h>
#include <time.h>

#include "limiter/limiter.h"

struct place {
  _Alignas(WEIR_CACHE_LINE_BYTES) pthread_mutex_t mutex; /* guards `first` */
  weir_call *first;
};

struct weir_idle {
  size_t count; /* of places that are ready: all, but while they are made */
  struct place places[WEIR_THREAD_PLACES];
};

weir_idle *weir_idle_create(void) {
  weir_idle *idle = aligned_alloc(WEIR_CACHE_LINE_BYTES, sizeof *idle);
  if (idle == NULL) return NULL;
  for (idle->count = 0; idle->count < WEIR_THREAD_PLACES; idle->count++) {
    struct place *place = &idle->places[idle->count];
    place->first = NULL;
    if (pthread_mutex_init(&place->mutex, NULL) == 0) continue;
    weir_idle_destroy(idle);
    return NULL;
  }
  return idle;
}

static void free_room(weir_call *call) {
  for (size_t i = 0; call->groups != NULL && i < call->room; i++)
    free(call->groups[i].machine);
  free(call->batch);
  free(call->groups);
  free(call->returns);
  free(call->planned);
  free(call->answered);
  free(call->key_texts);
  call->batch = NULL;
  call->groups = NULL;
  call->returns = NULL;
  call->planned = NULL;
  call->answered = NULL;
  call->key_texts = NULL;
  call->room = 0;
}

/* In a child of the process that made it, nobody will ever unlock what a thread of the parent held
 * at the fork, and what that thread was changing must not be walked: it stays. */
void weir_idle_destroy(weir_idle *idle) {
  if (idle == NULL) return;
  for (size_t i = 0; i < idle->count; i++) {
    struct place *place = &idle->places[i];
    if (pthread_mutex_trylock(&place->mutex) != 0) continue;
    for (weir_call *call = place->first, *next; call != NULL; call = next) {
      next = call->next_idle;
      free_room(call);
      free(call->joint);
      pthread_cond_destroy(&call->changed);
      pthread_mutex_destroy(&call->mutex);
      free(call);
    }
    pthread_mutex_unlock(&place->mutex);
    pthread_mutex_destroy(&place->mutex);
  }
  free(idle);
}

/* The thread's first call: the one moment at which a decision allocates, so that the thread's own
 * place among the counts is made here too. */
static weir_call *create_call(weir_limiter *limiter) {
  pthread_condattr_t monotonic;
  weir_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  weir_counts_part(limiter->counts);
  call->limiter = limiter;
  if (pthread_condattr_init(&monotonic) != 0) goto no_attributes;
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* a clock there is: cannot fail */
  if (pthread_cond_init(&call->changed, &monotonic) != 0) goto no_condition;
  if (pthread_mutex_init(&call->mutex, NULL) != 0) goto no_mutex;
  pthread_condattr_destroy(&monotonic);
  return call;

no_mutex:
  pthread_cond_destroy(&call->changed);
no_condition:
  pthread_condattr_destroy(&monotonic);
no_attributes:
  free(call);
  return NULL;
}

/* Memory for as many groups as requests: each may have a key of its own. Room only grows, so that a
 * thread which sends batches of one size allocates once. */
static bool make_room(weir_call *call, size_t count) {
  const weir_limiter *limiter = call->limiter;
  size_t operations = count * weir_machine_operations_most(&limiter->stack);
  size_t returns = limiter->leases ? WEIR_RETURNS_OF_ONE * (count + WEIR_RETURNS_OF_OTHERS) : 0;
  operations += returns * limiter->stack.count;
  free_room(call);
  call->batch = calloc(count, sizeof *call->batch);
  call->groups = calloc(count, sizeof *call->groups);
  call->planned = calloc(operations, sizeof *call->planned);
  call->answered = calloc(operations, sizeof *call->answered);
  call->key_texts = calloc(operations, sizeof *call->key_texts);
  if (!call->batch || !call->groups || !call->planned || !call->answered || !call->key_texts)
    return false;
  if (returns > 0 && (call->returns = calloc(returns, sizeof *call->returns)) == NULL) return false;
  for (; call->room < count; call->room++) {
    void *memory = malloc(weir_machine_bytes(&limiter->stack));
    if (memory == NULL) return false;
    call->groups[call->room].machine =
        weir_machine_init(memory, &limiter->stack, &limiter->settings);
  }
  return true;
}

weir_call *weir_call_acquire(weir_limiter *limiter, size_t count) {
  struct place *place = &limiter->idle->places[weir_thread_place()];
  pthread_mutex_lock(&place->mutex);
  weir_call *call = place->first;
  if (call != NULL) place->first = call->next_idle;
  pthread_mutex_unlock(&place->mutex);
  if (call == NULL) call = create_call(limiter);
  if (call == NULL) return NULL;
  call->round_trips = call->keys_lost = 0;
  call->explained = NULL;
  call->head = call;
  call->also = NULL;
  if (call->room >= count || make_room(call, count)) return call;
  free_room(call);
  weir_call_release(call); /* not destroyed: another thread may be about to notify it */
  return NULL;
}

/* What the call did is counted here, once, and not at every round trip. Giving it back never fails
 * and frees nothing: somebody may still be about to notify it. */
void weir_call_release(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  struct place *place = &limiter->idle->places[weir_thread_place()];
  if (call->round_trips > 0)
    weir_counts_add_work(limiter->counts, call->round_trips, call->keys_lost);
  pthread_mutex_lock(&place->mutex);
  call->next_idle = place->first;
  place->first = call;
  pthread_mutex_unlock(&place->mutex);
}
