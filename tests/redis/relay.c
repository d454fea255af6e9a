#include "redis/relay.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* So few bytes at a time, and so slowly, that others act between any two commands of a write. */
enum { CHUNK_BYTES = 48, PAUSE_NS = 20000 };

struct relay {
  const struct server *server;
  struct address address;
  int listener;
  unsigned state; /* of the pseudo-random choice */
  unsigned most;
  unsigned cuts;
  atomic_bool stopping;
  pthread_t thread;
};

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "relay: %s\n", what);
  exit(1);
}

static unsigned choose(struct relay *relay) {
  relay->state = relay->state * 1664525U + 1013904223U;
  return 1 + (relay->state >> 8) % relay->most;
}

/* Carries what has come, at most `most` bytes. False: the end of the connection. */
static bool carry(int from, int to, size_t most, size_t *carried) {
  char bytes[4096];
  ssize_t got = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, 0);
  if (got <= 0) return false;
  *carried = (size_t)got;
  return send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

/* Until `allowed` bytes went to the server or somebody hung up. What the server still answers is
 * lost. */
static void serve(struct relay *relay, int client, int server, size_t allowed) {
  struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
  size_t carried;
  while (!atomic_load(&relay->stopping)) {
    if (poll(ends, 2, 20) <= 0) continue;
    if (ends[1].revents != 0 && !carry(server, client, SIZE_MAX, &carried)) return;
    if (ends[0].revents == 0) continue;
    if (!carry(client, server, allowed < CHUNK_BYTES ? allowed : CHUNK_BYTES, &carried)) return;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    allowed -= carried;
    if (allowed == 0) {
      relay->cuts++;
      return;
    }
  }
}

static void *run(void *argument) {
  struct relay *relay = argument;
  struct pollfd listener = {.fd = relay->listener, .events = POLLIN};
  while (!atomic_load(&relay->stopping)) {
    if (poll(&listener, 1, 20) <= 0) continue;
    int client = accept(relay->listener, NULL, NULL);
    int server = server_connect(relay->server);
    int yes = 1; /* else the kernel puts the pieces together again */
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (client >= 0 && server >= 0) serve(relay, client, server, choose(relay));
    close(client);
    close(server);
  }
  return NULL;
}

struct relay *relay_start(const struct server *server, unsigned seed, unsigned most) {
  struct relay *relay = calloc(1, sizeof *relay);
  if (relay == NULL) fail("out of memory");
  relay->server = server;
  relay->state = seed;
  relay->most = most;
  atomic_init(&relay->stopping, false);
  if (address_take_port(&relay->address, SERVER_IPV4) != 0) fail("no free port");
  relay->listener = relay->address.reservation;
  if (listen(relay->listener, 16) != 0) fail("cannot listen");
  if (pthread_create(&relay->thread, NULL, run, relay) != 0) fail("no thread");
  return relay;
}

uint16_t relay_port(const struct relay *relay) {
  return address_port(&relay->address);
}

unsigned relay_stop(struct relay *relay) {
  atomic_store(&relay->stopping, true);
  pthread_join(relay->thread, NULL);
  unsigned cuts = relay->cuts;
  address_release(&relay->address);
  free(relay);
  return cuts;
}
