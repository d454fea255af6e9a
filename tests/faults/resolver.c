#include "faults/resolver.h"

#include <netdb.h>
#include <stdatomic.h>
#include <string.h>

#include "faults/ground.h"

static struct resolver {
  atomic_int hangs; /* how many want it to */
  atomic_uint asked;
} * resolver;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found) {
  enum { SLOW_US = 300000, LOOK_US = 10000 };
  bool numeric = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (numeric || strncmp(host, "slow", 4) != 0) return __real_getaddrinfo(host, port, hints, found);
  atomic_fetch_add(&resolver->asked, 1);
  sleep_us(SLOW_US);
  while (atomic_load(&resolver->hangs) > 0)
    sleep_us(LOOK_US);
  return __real_getaddrinfo("127.0.0.1", port, hints, found);
}

void resolver_begin(void) {
  resolver = share_memory(sizeof *resolver);
}

void resolver_hang(bool hangs) {
  atomic_fetch_add(&resolver->hangs, hangs ? 1 : -1);
}

unsigned resolver_asked(void) {
  return atomic_load(&resolver->asked);
}
