#include "faults/passage.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/backend.h>

#include "faults/ground.h"
#include "fixture/server.h"

enum {
  PAIRS_MOST = 512,
  FILLERS = 4,
  QUEUE = 128,
  LOOK_MS = 5, /* how often the mode is looked at */
  BYTE_EVERY_MS = 80,
  SET_MS = 30000
};

/* What one connection still has to bring back, in PASSAGE_TRICKLE. */
typedef struct pair {
  int client, server;
  int64_t next_byte_us;
} pair;

struct passage {
  const struct server *behind;
  struct server *as_server;
  pid_t process;
  _Atomic passage_mode wanted; /* set by the program, read by the process */
  _Atomic passage_mode present;
  passage_mode mode; /* from here on the process's own */
  int listener;
  int fillers[FILLERS];
  size_t count;
  pair pairs[PAIRS_MOST];
};

static void drop_pair(passage *self, size_t i) {
  close(self->pairs[i].client);
  if (self->pairs[i].server >= 0) close(self->pairs[i].server);
  self->pairs[i] = self->pairs[--self->count];
}

static void hurry(int socket) {
  int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* While the server behind is away it hangs up on who comes, as nearly as it can. */
static void take_client(passage *self) {
  int client = accept(self->listener, NULL, NULL);
  if (client < 0) return;
  int server = self->mode == PASSAGE_MUTE ? -1 : server_connect(self->behind);
  bool useless = self->mode != PASSAGE_MUTE && server < 0;
  if (useless || self->count == PAIRS_MOST) {
    close(client);
    if (server >= 0) close(server);
    return;
  }
  hurry(client);
  if (server >= 0) hurry(server);
  self->pairs[self->count++] = (pair){.client = client, .server = server};
}

/* False: one side has gone. */
static bool carry(int from, int to, size_t most) {
  char bytes[16384];
  ssize_t got = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, 0);
  for (ssize_t sent = 0, now = 0; sent < got; sent += now) {
    now = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
    if (now < 0) return false;
  }
  return got > 0;
}

static bool carries_requests(passage_mode mode) {
  return mode == PASSAGE_OPEN || mode == PASSAGE_TRICKLE || mode == PASSAGE_DROPS_REPLIES;
}

static bool carries_replies(const passage *self, const pair *one) {
  if (self->mode == PASSAGE_TRICKLE) return weir_monotonic_us() >= one->next_byte_us;
  return self->mode == PASSAGE_OPEN || self->mode == PASSAGE_DROPS_REQUESTS;
}

static bool carry_back(const passage *self, pair *one) {
  bool trickles = self->mode == PASSAGE_TRICKLE;
  one->next_byte_us = weir_monotonic_us() + (trickles ? BYTE_EVERY_MS * MS_US : 0);
  return carry(one->server, one->client, trickles ? 1 : SIZE_MAX);
}

static void serve_pairs(passage *self, const struct pollfd *sockets) {
  for (size_t i = self->count; i-- > 0;) {
    pair *one = &self->pairs[i];
    bool stays = sockets[2 * i].revents == 0 || carry(one->client, one->server, SIZE_MAX);
    if (stays && sockets[2 * i + 1].revents != 0) stays = carry_back(self, one);
    if (!stays) drop_pair(self, i);
  }
}

static void fill_queue(passage *self) {
  listen(self->listener, 0);
  for (size_t i = 0; i < FILLERS; i++) {
    self->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(self->fillers[i], &self->as_server->address.socket.any,
            self->as_server->address.socket_bytes);
  }
}

static void empty_queue(passage *self) {
  for (size_t i = 0; i < FILLERS; i++)
    close(self->fillers[i]);
  listen(self->listener, QUEUE);
}

/* Connections that were never answered cannot be mended: they hang up with the fault. */
static void change(passage *self, passage_mode mode) {
  bool mute = self->mode == PASSAGE_MUTE || mode == PASSAGE_MUTE;
  if (self->mode == PASSAGE_FULL) empty_queue(self);
  while (self->count > 0 && (mute || mode == PASSAGE_FULL))
    drop_pair(self, 0);
  if (mode == PASSAGE_FULL) fill_queue(self);
  self->mode = mode;
  atomic_store(&self->present, mode);
}

/* Who is not listened to would make poll() return at once for ever if it hung up. */
static struct pollfd watch(int socket, bool listens) {
  return (struct pollfd){.fd = listens ? socket : -1, .events = POLLIN};
}

static void run(void *context) {
  static struct pollfd sockets[2 * PAIRS_MOST + 1];
  passage *self = context;
  for (;;) {
    size_t pairs = self->count;
    for (size_t i = 0; i < pairs; i++) {
      const pair *one = &self->pairs[i];
      sockets[2 * i] = watch(one->client, carries_requests(self->mode));
      sockets[2 * i + 1] = watch(one->server, carries_replies(self, one));
    }
    sockets[2 * pairs] = watch(self->listener, self->mode != PASSAGE_FULL);
    if (poll(sockets, 2 * pairs + 1, LOOK_MS) < 0 && errno != EINTR) exit(1);
    serve_pairs(self, sockets);
    if (sockets[2 * pairs].revents != 0) take_client(self);
    passage_mode wanted = atomic_load(&self->wanted);
    if (wanted != self->mode) change(self, wanted);
  }
}

passage *passage_start(const struct server *behind) {
  passage *self = share_memory(sizeof *self);
  self->behind = behind;
  self->as_server = fixture_make(SERVER_IPV4, behind->scheme, behind->probe);
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  int yes = 1;
  const struct address *address = &self->as_server->address;
  if (setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(self->listener, &address->socket.any, address->socket_bytes) != 0 ||
      listen(self->listener, QUEUE) != 0)
    give_up("cannot listen: %s", strerror(errno));
  self->process = start_process(run, self);
  close(self->listener);
  return self;
}

struct server *passage_server(const passage *self) {
  return self->as_server;
}

void passage_set(passage *self, passage_mode mode) {
  atomic_store(&self->wanted, mode);
  for (int64_t end_us = weir_monotonic_us() + SET_MS * MS_US;
       atomic_load(&self->present) != mode;) {
    if (weir_monotonic_us() > end_us) give_up("a passage does not do what it is told to");
    sleep_us(MS_US);
  }
}
