#include "limiter/idle.h"

#include <pthread.h>
#include <stdlib.h>

#include "metrics/thread.h"

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

/* In a child of the process that made it, nobody will ever unlock what a thread of the parent held
 * at the fork, and what that thread was changing must not be walked: it stays. */
static void destroy_place(struct place *place) {
  if (pthread_mutex_trylock(&place->mutex) != 0) return;
  for (weir_call *call = place->first; call != NULL;) {
    weir_call *next = call->next_idle;
    weir_call_destroy(call);
    call = next;
  }
  pthread_mutex_unlock(&place->mutex);
  pthread_mutex_destroy(&place->mutex);
}

void weir_idle_destroy(weir_idle *idle) {
  if (idle == NULL) return;
  for (size_t i = 0; i < idle->count; i++)
    destroy_place(&idle->places[i]);
  free(idle);
}

weir_call *weir_idle_take(weir_idle *idle) {
  struct place *place = &idle->places[weir_thread_place()];
  pthread_mutex_lock(&place->mutex);
  weir_call *call = place->first;
  if (call != NULL) place->first = call->next_idle;
  pthread_mutex_unlock(&place->mutex);
  return call;
}

void weir_idle_give(weir_idle *idle, weir_call *call) {
  struct place *place = &idle->places[weir_thread_place()];
  pthread_mutex_lock(&place->mutex);
  call->next_idle = place->first;
  place->first = call;
  pthread_mutex_unlock(&place->mutex);
}
