/* getaddrinfo cannot be given a deadline nor be called off, so it runs in a thread that is left to
 * itself when the time is over. */
#include "wire/lookup.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shared by the caller and the thread; freed by whoever is the last to let go of it. */
typedef struct lookup {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool done;
  bool abandoned;
  int error;
  struct addrinfo *found;
  char port[8];
  char host[];
} lookup;

static const struct addrinfo any_stream = {
    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static lookup *lookup_new(const char *host, uint16_t port) {
  size_t length = strlen(host);
  pthread_condattr_t monotonic;
  lookup *made = calloc(1, sizeof *made + length + 1);
  if (made == NULL) return NULL;
  memcpy(made->host, host, length + 1);
  snprintf(made->port, sizeof made->port, "%u", (unsigned)port);
  if (pthread_condattr_init(&monotonic) != 0) goto no_attributes;
  if (pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0) goto no_condition;
  if (pthread_cond_init(&made->ended, &monotonic) != 0) goto no_condition;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto no_lock;
  pthread_condattr_destroy(&monotonic);
  return made;

no_lock:
  pthread_cond_destroy(&made->ended);
no_condition:
  pthread_condattr_destroy(&monotonic);
no_attributes:
  free(made);
  return NULL;
}

static void lookup_free(lookup *done) {
  pthread_mutex_destroy(&done->lock);
  pthread_cond_destroy(&done->ended);
  free(done);
}

static void *look_up(void *context) {
  lookup *self = context;
  struct addrinfo *found = NULL;
  int error = getaddrinfo(self->host, self->port, &any_stream, &found);
  pthread_mutex_lock(&self->lock);
  bool abandoned = self->abandoned;
  self->error = error;
  self->found = found;
  self->done = true;
  pthread_cond_signal(&self->ended);
  pthread_mutex_unlock(&self->lock);
  if (abandoned) {
    if (error == 0) freeaddrinfo(found);
    lookup_free(self);
  }
  return NULL;
}

/* The thread is nobody's: it takes no signal that the program has handlers for. */
static bool start(lookup *made) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all;
  sigset_t before;
  if (pthread_attr_init(&detached) != 0) return false;
  sigfillset(&all);
  bool started = pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0 &&
                 pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  if (started) {
    started = pthread_create(&thread, &detached, look_up, made) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  pthread_attr_destroy(&detached);
  return started;
}

/* Whether the answer came in time; if not, the thread frees the lookup. */
static bool await(lookup *made, int64_t end_us) {
  struct timespec until = {.tv_sec = (time_t)(end_us / 1000000),
                           .tv_nsec = (long)(end_us % 1000000) * 1000};
  pthread_mutex_lock(&made->lock);
  while (!made->done && weir_monotonic_us() < end_us)
    pthread_cond_timedwait(&made->ended, &made->lock, &until);
  bool done = made->done;
  made->abandoned = !done;
  pthread_mutex_unlock(&made->lock);
  return done;
}

typedef enum ending { ENDED, TOO_LATE, NO_MEMORY } ending;

/* *error and *found are getaddrinfo's where it ended. */
static ending look_up_until(const char *host, uint16_t port, int64_t end_us, int *error,
                            struct addrinfo **found) {
  lookup *made = lookup_new(host, port);
  if (made == NULL) return NO_MEMORY;
  if (!start(made)) {
    lookup_free(made);
    return NO_MEMORY;
  }
  if (!await(made, end_us)) return TOO_LATE;
  *error = made->error;
  *found = made->found;
  lookup_free(made);
  return ENDED;
}

static bool is_in_digits(const char *host, uint16_t port, struct addrinfo **found) {
  char text[8];
  struct addrinfo hints = any_stream;
  hints.ai_flags |= AI_NUMERICHOST;
  snprintf(text, sizeof text, "%u", (unsigned)port);
  return getaddrinfo(host, text, &hints, found) == 0;
}

weir_status weir_lookup_host(const char *host, uint16_t port, const weir_wire_options *options,
                             struct addrinfo **found, weir_message *message) {
  int error = 0;
  *found = NULL;
  if (is_in_digits(host, port, found)) return WEIR_OK;
  ending ended = look_up_until(host, port, options->lookup_end_us, &error, found);
  if (ended == NO_MEMORY || error == EAI_MEMORY) return WEIR_NO_MEMORY;
  if (ended == TOO_LATE) {
    weir_message_set(message, "host \"%s\": the name was not resolved within %" PRId64 " ms", host,
                     options->lookup_us / 1000);
    return WEIR_BAD_URL;
  }
  if (error == 0) return WEIR_OK;
  weir_message_set(message, "host \"%s\" cannot be found: %s", host, gai_strerror(error));
  return WEIR_BAD_URL;
}
