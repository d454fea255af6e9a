/* getaddrinfo cannot be given a deadline nor be called off, so it runs in a thread that is left to
 * itself when nobody wants its answer any more. A resolver is asked there too: it may take its time.
 */
#include "wire/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/wire.h"

struct weir_lookup {
  pthread_mutex_t lock; /* for those who wait; all else is told by `done` and `holders` */
  pthread_cond_t ended;
  atomic_bool done;
  atomic_int holders;      /* the thread, and whoever began it: the last to let go frees */
  weir_resolver *resolver; /* NULL: none; held */
  bool in_doubt;           /* what the resolver said before */
  bool told;               /* by a server; counted */
  weir_lookup_result result;
  weir_message why; /* unless FOUND */
  weir_endpoint asked;
  weir_addresses addresses;
};

static const struct addrinfo any_stream = {
    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

/* Threads that look up such names, in all of this process: one that hangs outlives its store. */
static atomic_int told_count;

static weir_lookup *lookup_new(void) {
  pthread_condattr_t monotonic;
  weir_lookup *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  atomic_init(&made->done, false);
  atomic_init(&made->holders, 2);
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
  errno = ENOMEM;
  return NULL;
}

static void lookup_free(weir_lookup *done) {
  pthread_mutex_destroy(&done->lock);
  pthread_cond_destroy(&done->ended);
  weir_addresses_free(&done->addresses);
  weir_resolver_leave(done->resolver);
  free(done);
}

void weir_resolver_leave(weir_resolver *resolver) {
  if (resolver != NULL && atomic_fetch_sub(&resolver->holders, 1) == 1) resolver->destroy(resolver);
}

void weir_lookup_leave(weir_lookup *lookup) {
  if (lookup != NULL && atomic_fetch_sub(&lookup->holders, 1) == 1) lookup_free(lookup);
}

/* All else may be otherwise in a moment: EAI_AGAIN, and what a resolver out of order says. */
static weir_lookup_result classify(int error) {
  switch (error) {
    case 0:
      return WEIR_LOOKUP_FOUND;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
      return WEIR_LOOKUP_NO_SUCH_NAME;
    case EAI_MEMORY:
      return WEIR_LOOKUP_NO_MEMORY;
    default:
      return WEIR_LOOKUP_FAILED;
  }
}

static weir_lookup_result resolve(const weir_endpoint *asked, weir_addresses *addresses,
                                  weir_message *why) {
  char port[8];
  struct addrinfo *found = NULL;
  snprintf(port, sizeof port, "%u", (unsigned)asked->port);
  int error = getaddrinfo(asked->host, port, &any_stream, &found);
  if (error == 0) {
    if (!weir_addresses_sort(found, addresses)) error = EAI_MEMORY;
    freeaddrinfo(found);
  }
  if (error != 0)
    weir_message_set(why, "host \"%s\" cannot be found: %s", asked->host, gai_strerror(error));
  return classify(error);
}

/* That there is no such host says nothing for certain of what a resolver knows by now. */
static weir_lookup_result resolve_told(weir_lookup *self) {
  weir_lookup_result result =
      self->resolver->ask(self->resolver, self->in_doubt, &self->asked, &self->why);
  if (result != WEIR_LOOKUP_FOUND) return result;
  result = resolve(&self->asked, &self->addresses, &self->why);
  return result == WEIR_LOOKUP_NO_SUCH_NAME ? WEIR_LOOKUP_FAILED : result;
}

static void *look_up(void *context) {
  weir_lookup *self = context;
  self->result = self->resolver != NULL ? resolve_told(self)
                                        : resolve(&self->asked, &self->addresses, &self->why);
  pthread_mutex_lock(&self->lock);
  if (self->told) atomic_fetch_sub(&told_count, 1);
  atomic_store_explicit(&self->done, true, memory_order_release);
  pthread_cond_signal(&self->ended);
  pthread_mutex_unlock(&self->lock);
  weir_lookup_leave(self);
  return NULL;
}

static weir_lookup *run(weir_lookup *made) {
  if (weir_wire_detach(look_up, made)) return made;
  int error = errno;
  if (made->told) atomic_fetch_sub(&told_count, 1);
  lookup_free(made);
  errno = error;
  return NULL;
}

weir_lookup *weir_lookup_start(const weir_endpoint *asked) {
  weir_lookup *made = lookup_new();
  if (made == NULL) return NULL;
  made->asked = *asked;
  return run(made);
}

weir_lookup *weir_lookup_start_told(const weir_endpoint *asked) {
  weir_lookup *made = NULL;
  errno = EBUSY;
  if (atomic_fetch_add(&told_count, 1) < WEIR_LOOKUP_TOLD_MOST) made = lookup_new();
  if (made == NULL) {
    atomic_fetch_sub(&told_count, 1);
    return NULL;
  }
  made->asked = *asked;
  made->told = true;
  return run(made);
}

weir_lookup *weir_lookup_start_resolver(weir_resolver *resolver, bool in_doubt) {
  weir_lookup *made = lookup_new();
  if (made == NULL) return NULL;
  atomic_fetch_add(&resolver->holders, 1);
  made->resolver = resolver;
  made->in_doubt = in_doubt;
  return run(made);
}

bool weir_lookup_is_done(const weir_lookup *lookup) {
  return atomic_load_explicit(&lookup->done, memory_order_acquire);
}

bool weir_lookup_await(weir_lookup *lookup, int64_t end_us) {
  struct timespec until = {.tv_sec = (time_t)(end_us / 1000000),
                           .tv_nsec = (long)(end_us % 1000000) * 1000};
  pthread_mutex_lock(&lookup->lock);
  while (!weir_lookup_is_done(lookup) && weir_monotonic_us() < end_us)
    pthread_cond_timedwait(&lookup->ended, &lookup->lock, &until);
  pthread_mutex_unlock(&lookup->lock);
  return weir_lookup_is_done(lookup);
}

weir_lookup_result weir_lookup_take(weir_lookup *lookup, weir_endpoint *asked,
                                    weir_addresses *addresses, weir_message *why) {
  weir_lookup_result result = lookup->result;
  *asked = lookup->asked;
  *addresses = lookup->addresses;
  lookup->addresses = (weir_addresses){0};
  if (result != WEIR_LOOKUP_FOUND) *why = lookup->why;
  weir_lookup_leave(lookup);
  return result;
}

weir_status weir_lookup_digits(const char *host, uint16_t port, weir_addresses *addresses) {
  char text[8];
  struct addrinfo *found = NULL;
  struct addrinfo hints = any_stream;
  hints.ai_flags |= AI_NUMERICHOST;
  snprintf(text, sizeof text, "%u", (unsigned)port);
  int error = getaddrinfo(host, text, &hints, &found);
  if (error == EAI_MEMORY) return WEIR_NO_MEMORY;
  if (error != 0) return WEIR_BAD_URL;
  bool sorted = weir_addresses_sort(found, addresses);
  freeaddrinfo(found);
  return sorted ? WEIR_OK : WEIR_NO_MEMORY;
}
