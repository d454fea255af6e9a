#include "wire/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "condition.h"
#include "wire/socket.h"

/* How long an answer is good for, a resolver's and a name's, and the least time between two
 * questions where a server is in doubt: what has moved is followed within a second. */
enum { RENEW_TOLD_US = 1000000, RENEW_US = 30000000, RETRY_US = 500000 };

/* Until there may be room among those who look up names that servers told. */
enum { ROOM_US = 10000 };

/* How long those in line wait for a resolver, within their own time. */
enum { RESOLVER_PATIENCE_US = 100000 };

/* --- addresses ------------------------------------------------------------------------------- */

/* By what an address is sorted, as bytes that memcmp puts into the order of the header. */
static int compare(const void *one, const void *other) {
  const weir_address *addresses[2] = {one, other};
  unsigned char keys[2][32] = {{0}, {0}};
  for (int i = 0; i < 2; i++) {
    const void *bytes = &addresses[i]->bytes;
    if (addresses[i]->bytes.ss_family == AF_INET) {
      const struct sockaddr_in *v4 = bytes;
      memcpy(keys[i] + 1, &v4->sin_addr, sizeof v4->sin_addr);
      memcpy(keys[i] + 17, &v4->sin_port, sizeof v4->sin_port);
    } else if (addresses[i]->bytes.ss_family == AF_INET6) {
      const struct sockaddr_in6 *v6 = bytes;
      keys[i][0] = 1;
      memcpy(keys[i] + 1, &v6->sin6_addr, sizeof v6->sin6_addr);
      memcpy(keys[i] + 17, &v6->sin6_port, sizeof v6->sin6_port);
      memcpy(keys[i] + 19, &v6->sin6_scope_id, sizeof v6->sin6_scope_id);
    }
  }
  return memcmp(keys[0], keys[1], sizeof keys[0]);
}

bool weir_addresses_sort(const struct addrinfo *found, weir_addresses *addresses) {
  size_t count = 0;
  *addresses = (weir_addresses){0};
  for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
    count++;
  addresses->list = calloc(count + 1, sizeof *addresses->list);
  if (addresses->list == NULL) return false;
  weir_address *list = addresses->list;
  for (size_t i = 0; i < count; i++, found = found->ai_next) {
    memcpy(&list[i].bytes, found->ai_addr, found->ai_addrlen);
    list[i].length = found->ai_addrlen;
  }
  qsort(list, count, sizeof *list, compare);
  for (size_t i = 0; i < count; i++) {
    size_t kept = addresses->count;
    if (kept == 0 || compare(&list[kept - 1], &list[i]) != 0) list[addresses->count++] = list[i];
  }
  return true;
}

bool weir_addresses_equal(const weir_addresses *one, const weir_addresses *other) {
  bool equal = one->count == other->count;
  for (size_t i = 0; equal && i < one->count; i++)
    equal = compare(&one->list[i], &other->list[i]) == 0;
  return equal;
}

size_t weir_addresses_find(const weir_addresses *addresses, const weir_address *address) {
  size_t at = 0;
  while (at < addresses->count && compare(&addresses->list[at], address) != 0)
    at++;
  return at;
}

size_t weir_addresses_alike(const weir_addresses *addresses) {
  size_t v6 = 0;
  for (size_t i = 0; i < addresses->count; i++)
    v6 += addresses->list[i].bytes.ss_family == AF_INET6;
  return v6 > addresses->count - v6 ? v6 : addresses->count - v6;
}

void weir_addresses_free(weir_addresses *addresses) {
  free(addresses->list);
  *addresses = (weir_addresses){0};
}

/* --- look-ups -------------------------------------------------------------------------------- */

struct weir_lookup {
  pthread_mutex_t lock; /* for those who wait; all else is told by `done` and `holders` */
  pthread_cond_t ended;
  atomic_bool done;
  atomic_int holders;      /* the thread, and the one that began it: the last to let go frees */
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

/* Threads that look up names that servers told, in all of this process. */
static atomic_int told_count;

void weir_resolver_leave(weir_resolver *resolver) {
  if (resolver != NULL && atomic_fetch_sub(&resolver->holders, 1) == 1) resolver->destroy(resolver);
}

void weir_lookup_leave(weir_lookup *lookup) {
  if (lookup == NULL || atomic_fetch_sub(&lookup->holders, 1) != 1) return;
  pthread_mutex_destroy(&lookup->lock);
  pthread_cond_destroy(&lookup->ended);
  weir_addresses_free(&lookup->addresses);
  weir_resolver_leave(lookup->resolver);
  free(lookup);
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
  switch (error) {
    case 0:
      return WEIR_LOOKUP_FOUND;
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
      return WEIR_LOOKUP_NO_SUCH_NAME;
    case EAI_MEMORY:
      return WEIR_LOOKUP_NO_MEMORY;
    default: /* may be otherwise in a moment: EAI_AGAIN, and what a resolver out of order says */
      return WEIR_LOOKUP_FAILED;
  }
}

static void *look_up(void *context) {
  weir_lookup *self = context;
  weir_resolver *resolver = self->resolver;
  weir_lookup_result result = WEIR_LOOKUP_FOUND;
  if (resolver != NULL) result = resolver->ask(resolver, self->in_doubt, &self->asked, &self->why);
  if (result == WEIR_LOOKUP_FOUND) {
    result = resolve(&self->asked, &self->addresses, &self->why);
    /* That there is no such host says nothing for certain of what a resolver knows by now. */
    if (resolver != NULL && result == WEIR_LOOKUP_NO_SUCH_NAME) result = WEIR_LOOKUP_FAILED;
  }
  self->result = result;
  pthread_mutex_lock(&self->lock);
  if (self->told) atomic_fetch_sub(&told_count, 1);
  atomic_store_explicit(&self->done, true, memory_order_release);
  pthread_cond_signal(&self->ended);
  pthread_mutex_unlock(&self->lock);
  weir_lookup_leave(self);
  return NULL;
}

bool weir_wire_detach(void *(*run)(void *), void *context) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all;
  sigset_t before;
  int error = pthread_attr_init(&detached);
  if (error == 0) {
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &detached, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
  }
  errno = error;
  return error == 0;
}

/* Of `asked`, or of a resolver if it is not NULL. */
static weir_lookup *start(const weir_endpoint *asked, bool told, weir_resolver *resolver,
                          bool in_doubt) {
  weir_lookup *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (!weir_condition_init(&made->ended)) goto no_condition;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto no_lock;
  atomic_init(&made->done, false);
  atomic_init(&made->holders, 2);
  made->told = told;
  made->in_doubt = in_doubt;
  made->resolver = resolver;
  if (resolver != NULL) atomic_fetch_add(&resolver->holders, 1);
  if (asked != NULL) made->asked = *asked;
  if (weir_wire_detach(look_up, made)) return made;
  int error = errno;
  atomic_store(&made->holders, 1);
  weir_lookup_leave(made);
  errno = error;
  return NULL;

no_lock:
  pthread_cond_destroy(&made->ended);
no_condition:
  free(made);
  errno = ENOMEM;
  return NULL;
}

weir_lookup *weir_lookup_start(const weir_endpoint *asked, bool told) {
  weir_lookup *made = NULL;
  errno = EBUSY;
  if (!told || atomic_fetch_add(&told_count, 1) < WEIR_LOOKUP_TOLD_MOST)
    made = start(asked, told, NULL, false);
  if (made == NULL && told) atomic_fetch_sub(&told_count, 1);
  return made;
}

weir_lookup *weir_lookup_start_resolver(weir_resolver *resolver, bool in_doubt) {
  return start(NULL, false, resolver, in_doubt);
}

bool weir_lookup_is_done(const weir_lookup *lookup) {
  return atomic_load_explicit(&lookup->done, memory_order_acquire);
}

bool weir_lookup_await(weir_lookup *lookup, int64_t end_us) {
  pthread_mutex_lock(&lookup->lock);
  while (!weir_lookup_is_done(lookup) && weir_monotonic_us() < end_us)
    weir_condition_wait_until(&lookup->ended, &lookup->lock, end_us);
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

/* --- destinations ---------------------------------------------------------------------------- */

static int64_t renew_us(const weir_destination *destination) {
  return destination->resolver != NULL ? RENEW_TOLD_US : RENEW_US;
}

/* Begins a look-up. False, with errno, and `why` says so: that is tried again. */
static bool begin(weir_destination *destination, int64_t now_us) {
  bool in_doubt = destination->answered_us < destination->lost_us;
  weir_message *why = &destination->why;
  destination->lookup = destination->resolver != NULL
                            ? weir_lookup_start_resolver(destination->resolver, in_doubt)
                            : weir_lookup_start(&destination->asked, destination->named_by_others);
  int error = errno;
  int64_t retry_us = error == EBUSY ? ROOM_US : RETRY_US;
  destination->looked_up_us = now_us;
  destination->lookup_at_us =
      now_us + (destination->lookup != NULL ? renew_us(destination) : retry_us);
  if (destination->lookup != NULL) return true;

  /* Threads that may be started are bounded as memory is, and another will do in a moment. */
  char text[WEIR_ERROR_BYTES];
  if (error == ENOMEM) {
    weir_message_set(why, "%s: no memory to look it up", destination->name);
  } else if (error == EBUSY) {
    weir_message_set(why, "host \"%s\": as many names that servers told are being looked up as may",
                     destination->asked.host);
  } else {
    weir_message_set(why, "a thread to find %s by could not be started: %s", destination->name,
                     weir_error_text(error, text));
  }
  errno = error;
  return false;
}

/* Puts what was found in the place of the known addresses. */
static weir_destination_news adopt(weir_destination *destination, weir_addresses *found,
                                   bool in_use) {
  weir_addresses *known = &destination->addresses;
  if (weir_addresses_equal(known, found)) {
    weir_addresses_free(found);
    return WEIR_DESTINATION_SAME;
  }
  size_t used = in_use ? destination->trying : destination->address;
  size_t at = known->count > 0 ? weir_addresses_find(found, &known->list[used]) : found->count;
  bool named = at < found->count;
  weir_addresses_free(known);
  *known = *found;
  destination->address = destination->trying = named ? at : 0;
  destination->tried = 0;
  return named ? WEIR_DESTINATION_RENEWED : WEIR_DESTINATION_ELSEWHERE;
}

/* Takes the answer of a look-up that is done. Without one the known addresses stay. */
static weir_lookup_result take(weir_destination *destination, bool in_use, int64_t now_us,
                               weir_destination_news *news) {
  weir_addresses found;
  weir_endpoint asked;
  weir_lookup_result result =
      weir_lookup_take(destination->lookup, &asked, &found, &destination->why);
  destination->lookup = NULL;
  if (result == WEIR_LOOKUP_FOUND) {
    bool stale = weir_destination_is_stale(destination, now_us);
    destination->answered_us = destination->looked_up_us;
    destination->answer_end_us = now_us + RENEW_TOLD_US;
    destination->asked = asked;
    weir_message_set(&destination->why, "who has its part is being asked for");
    *news = adopt(destination, &found, in_use);
    if (stale && *news == WEIR_DESTINATION_SAME) *news = WEIR_DESTINATION_RENEWED;
  }
  /* A resolver is asked again soon after an answer that came too early to be used. */
  bool known = destination->addresses.count > 0 && !weir_destination_is_stale(destination, now_us);
  destination->looked_up_us = now_us;
  destination->lookup_at_us = now_us + (known ? renew_us(destination) : RETRY_US);
  return result;
}

static weir_status open_path(weir_destination *destination, const char *path,
                             weir_message *message) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  weir_addresses *addresses = &destination->addresses;
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) {
    weir_message_set(message, "socket path \"%s\" is longer than %zu bytes", path,
                     sizeof address.sun_path - 1);
    return WEIR_BAD_URL;
  }
  addresses->list = calloc(1, sizeof *addresses->list);
  if (addresses->list == NULL) return WEIR_NO_MEMORY;
  memcpy(address.sun_path, path, length + 1);
  memcpy(&addresses->list[0].bytes, &address, sizeof address);
  addresses->list[0].length = sizeof address;
  addresses->count = 1;
  return WEIR_OK;
}

weir_status weir_destination_open(weir_destination *destination, const char *name,
                                  const weir_wire_place *place, const weir_wire_options *options,
                                  weir_message *message) {
  weir_destination_news news;
  *destination = (weir_destination){.name = name,
                                    .named_by_others = options->named_by_others,
                                    .any_address = options->any_address,
                                    .lookup_at_us = INT64_MAX};
  if (place->path != NULL) return open_path(destination, place->path, message);
  if (place->resolver != NULL) {
    atomic_fetch_add(&place->resolver->holders, 1);
    destination->resolver = place->resolver;
    weir_message_set(&destination->why, "who has its part is being asked for");
  } else {
    snprintf(destination->asked.host, sizeof destination->asked.host, "%s", place->host);
    destination->asked.port = place->port;
    weir_status status = weir_lookup_digits(place->host, place->port, &destination->addresses);
    if (status != WEIR_BAD_URL) return status;
    weir_message_set(&destination->why, "host \"%s\": the name is not resolved yet", place->host);
  }
  if (!begin(destination, weir_monotonic_us())) return errno == ENOMEM ? WEIR_NO_MEMORY : WEIR_OK;
  if (!weir_lookup_await(destination->lookup, options->lookup_end_us)) return WEIR_OK;
  weir_lookup_result result = take(destination, false, weir_monotonic_us(), &news);
  if (result == WEIR_LOOKUP_NO_MEMORY) return WEIR_NO_MEMORY;
  /* The system's resolver may know the name in a moment. Who answers in its place is sure. */
  if (result != WEIR_LOOKUP_NO_SUCH_NAME || place->resolver == NULL) return WEIR_OK;
  weir_message_set(message, "%s", destination->why.text);
  return WEIR_BAD_URL;
}

bool weir_destination_copy(const weir_destination *from, weir_destination *to) {
  weir_address *list = calloc(from->addresses.count + 1, sizeof *list);
  if (list == NULL) return false;
  if (from->addresses.count > 0)
    memcpy(list, from->addresses.list, from->addresses.count * sizeof *list);
  to->addresses = (weir_addresses){list, from->addresses.count};
  to->address = from->address;
  to->asked = from->asked;
  to->why = from->why;
  return true;
}

void weir_destination_close(weir_destination *destination) {
  weir_lookup_leave(destination->lookup);
  weir_resolver_leave(destination->resolver);
  weir_addresses_free(&destination->addresses);
}

weir_destination_news weir_destination_follow(weir_destination *destination, bool in_use,
                                              int64_t now_us) {
  weir_destination_news news = WEIR_DESTINATION_SAME;
  if (destination->lookup != NULL && weir_lookup_is_done(destination->lookup))
    take(destination, in_use, now_us, &news);
  if (destination->lookup == NULL && now_us >= destination->lookup_at_us)
    begin(destination, now_us);
  return news;
}

void weir_destination_doubt(weir_destination *destination) {
  int64_t soonest_us = destination->looked_up_us + RETRY_US;
  bool named = destination->lookup_at_us != INT64_MAX;
  if (named && destination->lookup_at_us > soonest_us) destination->lookup_at_us = soonest_us;
}

bool weir_destination_is_stale(const weir_destination *destination, int64_t now_us) {
  return destination->resolver != NULL &&
         (destination->answered_us < destination->lost_us || now_us > destination->answer_end_us);
}

int64_t weir_destination_due_us(const weir_destination *destination) {
  return destination->resolver != NULL && destination->lookup != NULL
             ? destination->looked_up_us + RESOLVER_PATIENCE_US
             : 0;
}

/* That in use; then, as it refuses, the others in their order. Where any will do, one after the
 * other. */
void weir_destination_try(weir_destination *destination) {
  size_t tried = destination->tried;
  size_t next = destination->address;
  if (destination->any_address) {
    next = (next + tried) % destination->addresses.count;
  } else if (tried > 0) {
    next = tried - 1 < next ? tried - 1 : tried;
  }
  destination->trying = next;
}

/* The next try begins with the address in use, unless that refused: then with the first. */
void weir_destination_end_round(weir_destination *destination) {
  if (destination->any_address && destination->addresses.count > 0) {
    destination->address = (destination->trying + 1) % destination->addresses.count;
  } else if (destination->trying != destination->address) {
    destination->address = 0;
  }
  destination->tried = 0;
}
