#include "wire/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESSES_MOST = 8 };

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
/* NOLINTEND(bugprone-reserved-identifier) */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool hangs;
  int error;
  resolver_address addresses[ADDRESSES_MOST];
  size_t count;
  unsigned asked;
} resolver = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .error = EAI_NONAME};

static bool is_own(const char *host, const struct addrinfo *hints) {
  static const char end[] = ".test";
  size_t length = strlen(host);
  bool numeric = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
  return !numeric && length >= strlen(end) && strcmp(host + length - strlen(end), end) == 0;
}

/* Each is found by itself; together they are one list, which freeaddrinfo() takes as it is. */
static void find_all(const resolver_address *addresses, size_t count, const struct addrinfo *hints,
                     struct addrinfo **found) {
  for (size_t i = 0; i < count; i++) {
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)addresses[i].port);
    if (__real_getaddrinfo(addresses[i].digits, port, hints, found) != 0) {
      fprintf(stderr, "resolver: %s is no address\n", addresses[i].digits);
      exit(1);
    }
    while (*found != NULL)
      found = &(*found)->ai_next;
  }
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found) {
  if (!is_own(host, hints)) return __real_getaddrinfo(host, port, hints, found);
  pthread_mutex_lock(&resolver.lock);
  resolver.asked++;
  while (resolver.hangs)
    pthread_cond_wait(&resolver.changed, &resolver.lock);
  int error = resolver.error;
  if (error == 0) find_all(resolver.addresses, resolver.count, hints, found);
  pthread_mutex_unlock(&resolver.lock);
  return error;
}

static void set(bool hangs, int error, const resolver_address *addresses, size_t count) {
  pthread_mutex_lock(&resolver.lock);
  resolver.hangs = hangs;
  resolver.error = error;
  resolver.count = count;
  for (size_t i = 0; i < count && i < ADDRESSES_MOST; i++)
    resolver.addresses[i] = addresses[i];
  pthread_cond_broadcast(&resolver.changed);
  pthread_mutex_unlock(&resolver.lock);
}

void resolver_lead(const resolver_address *addresses, size_t count) {
  set(false, 0, addresses, count);
}

void resolver_lead_to_ports(const uint16_t *ports, size_t count) {
  resolver_address addresses[ADDRESSES_MOST];
  for (size_t i = 0; i < count && i < ADDRESSES_MOST; i++)
    addresses[i] = (resolver_address){"127.0.0.1", ports[i]};
  resolver_lead(addresses, count);
}

void resolver_fail(int error) {
  set(false, error, NULL, 0);
}

void resolver_hang(void) {
  set(true, 0, NULL, 0);
}

unsigned resolver_asked(void) {
  pthread_mutex_lock(&resolver.lock);
  unsigned asked = resolver.asked;
  pthread_mutex_unlock(&resolver.lock);
  return asked;
}
