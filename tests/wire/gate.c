#include "wire/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { GREETING_BYTES = 4 }; /* "MN" and the end of its line */

static void delay(int ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void drop_pair(gate *self, size_t i) {
  close(self->pairs[i].client);
  close(self->pairs[i].server);
  self->pairs[i] = self->pairs[--self->count];
}

static void take_client(gate *self) {
  int client = accept(self->listener, NULL, NULL);
  if (client < 0) return;
  atomic_fetch_add(&self->connections, 1);
  const struct server *behind = atomic_load(&self->behind);
  int server = self->secure ? server_connect_secure(behind) : server_connect(behind);
  if (server < 0 || self->count == GATE_PAIRS_MOST) {
    close(client);
    if (server >= 0) close(server);
    return;
  }
  self->pairs[self->count++] = (gate_pair){client, server, false};
}

/* False: one side has gone. */
static bool pass(int from, int to, bool *loses, int byte_ms) {
  char bytes[65536];
  ssize_t got = recv(from, bytes, sizeof bytes, 0);
  if (loses != NULL && got >= 2 && memcmp(bytes, "mn", 2) != 0) return *loses = true;
  bool trickles = byte_ms > 0 && got > GREETING_BYTES;
  for (ssize_t sent = 0, now = 0; sent < got; sent += now) {
    if (trickles) delay(byte_ms);
    now = send(to, bytes + sent, trickles ? 1 : (size_t)(got - sent), MSG_NOSIGNAL);
    if (now < 0) return false;
  }
  return got > 0;
}

static void serve_pairs(gate *self, const struct pollfd *sockets) {
  for (size_t i = self->count; i-- > 0;) {
    const gate_pair pair = self->pairs[i];
    bool greets = atomic_load(&self->mode) == GATE_GREETS;
    bool *loses = greets ? &self->pairs[i].has_lost : NULL;
    bool stays = sockets[2 * i].revents == 0 || pass(pair.client, pair.server, loses, 0);
    if (pair.has_lost && !greets) stays = false;
    if (stays && sockets[2 * i + 1].revents != 0) {
      delay(atomic_load(&self->delay_ms));
      stays = pass(pair.server, pair.client, NULL, atomic_load(&self->byte_ms));
    }
    if (!stays) drop_pair(self, i);
  }
}

static void *serve(void *context) {
  gate *self = context;
  static struct pollfd sockets[2 * GATE_PAIRS_MOST + 2];
  for (;;) {
    gate_mode mode = atomic_load(&self->mode);
    size_t pairs = self->count;
    for (size_t i = 0; i < pairs; i++) {
      short events = mode == GATE_SILENT ? 0 : POLLIN;
      sockets[2 * i] = (struct pollfd){.fd = self->pairs[i].client, .events = events};
      sockets[2 * i + 1] = (struct pollfd){.fd = self->pairs[i].server, .events = events};
    }
    sockets[2 * pairs] = (struct pollfd){.fd = self->wake[0], .events = POLLIN};
    sockets[2 * pairs + 1] =
        (struct pollfd){.fd = mode == GATE_AWAY ? -1 : self->listener, .events = POLLIN};
    if (poll(sockets, 2 * pairs + 2, -1) < 0 && errno != EINTR) return NULL;
    char byte;
    if (sockets[2 * pairs].revents != 0 && read(self->wake[0], &byte, 1) <= 0) return NULL;
    serve_pairs(self, sockets);
    if (sockets[2 * pairs + 1].revents != 0) take_client(self);
  }
}

/* One connection that nobody accepts fills the queue; the others are dropped as later ones are. */
static void fill_queue(gate *self) {
  for (size_t i = 0; i < GATE_FILLERS; i++) {
    self->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(self->fillers[i] >= 0);
    int error =
        connect(self->fillers[i], &self->address.socket.any, self->address.socket_bytes) == 0
            ? 0
            : errno;
    assert_true(error == 0 || error == EINPROGRESS);
    delay(2);
  }
}

static void empty_queue(gate *self) {
  for (size_t i = 0; i < GATE_FILLERS; i++) {
    if (self->fillers[i] >= 0) close(self->fillers[i]);
    self->fillers[i] = -1;
  }
}

void gate_start(gate *made, const struct server *behind, gate_mode mode) {
  int on = 1;
  memset(made, 0, sizeof *made);
  atomic_store(&made->behind, behind);
  for (size_t i = 0; i < GATE_FILLERS; i++)
    made->fillers[i] = -1;
  assert_int_equal(address_take_port(&made->address, SERVER_IPV4), 0);
  made->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(made->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(made->listener, &made->address.socket.any, made->address.socket_bytes), 0);
  assert_int_equal(listen(made->listener, mode == GATE_AWAY ? 0 : 128), 0);
  assert_int_equal(pipe(made->wake), 0);
  atomic_store(&made->mode, mode);
  if (mode == GATE_AWAY) fill_queue(made);
  assert_int_equal(pthread_create(&made->thread, NULL, serve, made), 0);
}

void gate_set(gate *self, gate_mode mode) {
  atomic_store(&self->mode, mode);
  assert_int_equal(write(self->wake[1], "", 1), 1);
  if (mode != GATE_AWAY) empty_queue(self);
}

void gate_stop(gate *done) {
  close(done->wake[1]);
  pthread_join(done->thread, NULL);
  close(done->wake[0]);
  empty_queue(done);
  while (done->count > 0)
    drop_pair(done, 0);
  close(done->listener);
  address_release(&done->address);
}
