/* A thread for each store, as connecting to one waits for its servers. */
#include "serve/ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "serve/log.h"

/* The longest that whoever gives up may have to wait. */
enum { STEP_US = 1000000, STEP_LEAST_US = 1000 };

typedef struct ahead_store {
  weir_ahead *ahead;
  weir_store *store;
  const char *name; /* the first of the configuration that means it */
  int64_t patience_us;
  pthread_t thread;
  bool has_thread;
  weir_status status;
  weir_message why;
} ahead_store;

struct weir_ahead {
  weir_loop *front;
  atomic_bool must_end;
  atomic_size_t under_way;
  size_t count;
  ahead_store stores[];
};

/* Stores inside this process have no name, and nobody to connect to. */
static bool has_servers(const weir_store *store) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  return weir_store_read_server(store, 0, &state) == WEIR_OK && state.name != NULL;
}

static bool has_store(const weir_registry *registry, size_t count, const weir_store *store) {
  for (size_t i = 0; i < count; i++)
    if (weir_registry_store_at(registry, i) == store) return true;
  return false;
}

static void *connect_one(void *self) {
  ahead_store *one = self;
  int64_t end_us = weir_serve_now_us() + one->patience_us;
  do {
    int64_t left_us = end_us - weir_serve_now_us();
    if (left_us > STEP_US) left_us = STEP_US;
    if (left_us < STEP_LEAST_US) left_us = STEP_LEAST_US;
    one->status = weir_store_connect(one->store, left_us, &one->why);
  } while (one->status == WEIR_UNAVAILABLE && weir_serve_now_us() < end_us &&
           !atomic_load(&one->ahead->must_end));
  weir_loop *front = one->ahead->front;
  if (atomic_fetch_sub(&one->ahead->under_way, 1) == 1) weir_loop_wake(front);
  return NULL;
}

static void add(weir_ahead *ahead, weir_store *store, const char *name) {
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  weir_store_read_times(store, &times);
  ahead->stores[ahead->count++] = (ahead_store){.ahead = ahead,
                                                .store = store,
                                                .name = name,
                                                .patience_us = times.connect_timeout_us,
                                                .status = WEIR_UNAVAILABLE,
                                                .why = {"there is no thread to connect by"}};
}

static void start(weir_ahead *ahead) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
  for (size_t i = 0; i < ahead->count; i++) {
    ahead_store *one = &ahead->stores[i];
    atomic_fetch_add(&ahead->under_way, 1);
    one->has_thread = pthread_create(&one->thread, NULL, connect_one, one) == 0;
    if (!one->has_thread) atomic_fetch_sub(&ahead->under_way, 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

weir_ahead *weir_ahead_begin(const weir_registry *fresh, const weir_registry *old,
                             weir_loop *front) {
  const weir_config *config = weir_registry_config(fresh);
  size_t old_count = old != NULL ? weir_registry_config(old)->store_count : 0;
  weir_ahead *ahead = calloc(1, sizeof *ahead + config->store_count * sizeof ahead->stores[0]);
  if (ahead == NULL) {
    weir_serve_log("there is not enough memory to connect ahead");
    return NULL;
  }
  ahead->front = front;
  for (size_t i = 0; i < config->store_count; i++) {
    weir_store *store = weir_registry_store_at(fresh, i);
    if (has_servers(store) && !has_store(fresh, i, store) && !has_store(old, old_count, store))
      add(ahead, store, config->stores[i].name);
  }
  if (ahead->count == 0) {
    free(ahead);
    return NULL;
  }
  start(ahead);
  return ahead;
}

bool weir_ahead_is_over(const weir_ahead *ahead) {
  return atomic_load(&ahead->under_way) == 0;
}

void weir_ahead_end(weir_ahead *ahead) {
  if (ahead == NULL) return;
  bool was_over = weir_ahead_is_over(ahead);
  atomic_store(&ahead->must_end, true);
  for (size_t i = 0; i < ahead->count; i++) {
    ahead_store *one = &ahead->stores[i];
    if (one->has_thread) pthread_join(one->thread, NULL);
    if (was_over && one->status != WEIR_OK)
      weir_serve_log("store %s is not reached: %s; its fallback decides until it is", one->name,
                     one->why.text);
  }
  free(ahead);
}
