#include "wire/meddler.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4096, LOOK_MS = 20 };

struct meddler {
  const struct server *server;
  struct address address;
  int listener;
  atomic_bool stopping;
  pthread_t thread;
  pthread_mutex_t lock;
  meddling plan; /* under the lock */
};

static void require(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "meddler: %s\n", what);
  exit(1);
}

/* False: the end of the connection. */
static bool carry(int from, int to, meddling plan, bool flips, size_t *carried) {
  char bytes[BUFFER_BYTES];
  size_t room = plan.piece == 0 || plan.piece > sizeof bytes ? sizeof bytes : plan.piece;
  ssize_t got = recv(from, bytes, room, 0);
  if (got <= 0) return false;
  size_t end = *carried + (size_t)got;
  if (flips && plan.flip_at > *carried && plan.flip_at <= end)
    bytes[plan.flip_at - 1 - *carried] ^= 0x10;
  *carried = end;
  return send(to, bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void serve(struct meddler *self, int client, int server) {
  struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
  size_t up = 0;
  size_t down = 0;
  pthread_mutex_lock(&self->lock);
  meddling plan = self->plan;
  pthread_mutex_unlock(&self->lock);
  while (!atomic_load(&self->stopping)) {
    if (poll(ends, 2, LOOK_MS) <= 0) continue;
    if (ends[0].revents != 0 && !carry(client, server, plan, !plan.down, &up)) return;
    if (ends[1].revents != 0 && !carry(server, client, plan, plan.down, &down)) return;
  }
}

static void *run(void *context) {
  struct meddler *self = context;
  struct pollfd listener = {.fd = self->listener, .events = POLLIN};
  while (!atomic_load(&self->stopping)) {
    if (poll(&listener, 1, LOOK_MS) <= 0) continue;
    int client = accept(self->listener, NULL, NULL);
    int server = server_connect_secure(self->server);
    int yes = 1; /* else the kernel puts the pieces together again */
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (client >= 0 && server >= 0) serve(self, client, server);
    close(client);
    close(server);
  }
  return NULL;
}

struct meddler *meddler_start(const struct server *server) {
  struct meddler *self = calloc(1, sizeof *self);
  require(self != NULL, "out of memory");
  self->server = server;
  atomic_init(&self->stopping, false);
  pthread_mutex_init(&self->lock, NULL);
  require(address_take_port(&self->address, SERVER_IPV4) == 0, "no free port");
  self->listener = self->address.reservation;
  require(listen(self->listener, 16) == 0, "cannot listen");
  require(pthread_create(&self->thread, NULL, run, self) == 0, "no thread");
  return self;
}

uint16_t meddler_port(const struct meddler *self) {
  return address_port(&self->address);
}

void meddler_set(struct meddler *self, meddling plan) {
  pthread_mutex_lock(&self->lock);
  self->plan = plan;
  pthread_mutex_unlock(&self->lock);
}

void meddler_stop(struct meddler *self) {
  atomic_store(&self->stopping, true);
  pthread_join(self->thread, NULL);
  address_release(&self->address);
  pthread_mutex_destroy(&self->lock);
  free(self);
}
