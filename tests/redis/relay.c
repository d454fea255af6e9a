#include "redis/relay.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture/server.h"

static void say(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
    if (sent <= 0) return; /* it has hung up */
    text += sent;
    length -= (size_t)sent;
  }
}

static void say_text(int fd, const char *text) {
  say(fd, text, strlen(text));
}

static void say_reply(int fd, const redisReply *reply) {
  char head[64];
  switch (reply->type) {
    case REDIS_REPLY_INTEGER:
      snprintf(head, sizeof head, ":%lld\r\n", reply->integer);
      say_text(fd, head);
      return;
    case REDIS_REPLY_NIL:
      say_text(fd, "$-1\r\n");
      return;
    case REDIS_REPLY_ARRAY:
      snprintf(head, sizeof head, "*%zu\r\n", reply->elements);
      say_text(fd, head);
      for (size_t i = 0; i < reply->elements; i++)
        say_reply(fd, reply->element[i]);
      return;
    case REDIS_REPLY_STRING:
      snprintf(head, sizeof head, "$%zu\r\n", (size_t)reply->len);
      say_text(fd, head);
      break;
    default:
      say_text(fd, reply->type == REDIS_REPLY_ERROR ? "-" : "+");
  }
  say(fd, reply->str, (size_t)reply->len);
  say_text(fd, "\r\n");
}

static void pass(relay *self, int fd, const char *bytes, size_t length) {
  void *reply = NULL;
  redisAppendFormattedCommand(self->behind, bytes, length);
  if (redisGetReply(self->behind, &reply) != REDIS_OK) fixture_fail("relay: the server is gone");
  say_reply(fd, reply);
  freeReplyObject(reply);
}

static void answer(relay *self, relay_client *client, const redisReply *words, size_t length) {
  char text[RELAY_TEXT * 4] = "";
  char error[RELAY_TEXT] = "";
  size_t used = 0;
  for (size_t i = 0; i < words->elements && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s ", words->element[i]->str);
  const relay_command command = {.words = text, .asking = client->asking};
  client->asking = strncmp(text, "ASKING", 6) == 0;
  relay_judge *judge = atomic_load(&self->judge);
  if (client->asking) {
    atomic_fetch_add(&self->asked, 1);
    say_text(client->fd, "+OK\r\n");
  } else if (strncmp(text, "CLUSTER", 7) == 0) {
    const char *map = atomic_load(&self->map);
    atomic_fetch_add(&self->maps, 1);
    say_text(client->fd,
             map != NULL
                 ? map
                 : "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n");
  } else if (strncmp(text, "auth", 4) == 0) {
    atomic_fetch_add(&self->logins, 1);
    say_text(client->fd, "+OK\r\n");
  } else if (strncmp(text, "ping", 4) == 0) {
    say_text(client->fd, "+PONG\r\n");
  } else if (judge != NULL && judge(self, &command, error)) {
    atomic_fetch_add(&self->seen, 1);
    say_text(client->fd, "-");
    say_text(client->fd, error);
    say_text(client->fd, "\r\n");
  } else {
    atomic_fetch_add(&self->seen, 1);
    atomic_fetch_add(&self->passed, 1);
    pass(self, client->fd, client->bytes, length);
  }
}

/* How long the command at the front is; 0: not whole yet. */
static size_t whole(const relay_client *client) {
  const char *at = client->bytes;
  const char *end = client->bytes + client->length;
  const char *line = memchr(at, '\n', client->length);
  if (line == NULL) return 0;
  long words = strtol(at + 1, NULL, 10);
  at = line + 1;
  for (; words > 0; words--) {
    line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line == NULL) return 0;
    at = line + 1 + strtol(at + 1, NULL, 10) + 2;
  }
  return at <= end ? (size_t)(at - client->bytes) : 0;
}

/* False: it has hung up. */
static bool serve(relay *self, relay_client *client) {
  ssize_t got =
      recv(client->fd, client->bytes + client->length, sizeof client->bytes - client->length, 0);
  if (got <= 0) return false;
  client->length += (size_t)got;
  for (size_t length = 0; client->length > 0 && (length = whole(client)) > 0;) {
    redisReader *reader = redisReaderCreate();
    void *words = NULL;
    redisReaderFeed(reader, client->bytes, length);
    if (redisReaderGetReply(reader, &words) != REDIS_OK || words == NULL)
      fixture_fail("relay: not a command");
    answer(self, client, words, length);
    freeReplyObject(words);
    redisReaderFree(reader);
    client->length -= length;
    memmove(client->bytes, client->bytes + length, client->length);
  }
  return true;
}

static void take_client(relay *self) {
  int fd = accept(self->listener, NULL, NULL);
  if (fd < 0 || self->count == RELAY_CLIENTS) fixture_fail("relay: too many clients");
  int on = 1; /* a reply goes out in pieces */
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  atomic_fetch_add(&self->visits, 1);
  self->clients[self->count].fd = fd;
  self->clients[self->count].length = 0;
  self->clients[self->count++].asking = false;
}

static void *run(void *context) {
  relay *self = context;
  for (;;) {
    struct pollfd sockets[RELAY_CLIENTS + 2] = {{.fd = self->wake[0], .events = POLLIN},
                                                {.fd = self->listener, .events = POLLIN}};
    for (size_t i = 0; i < self->count; i++)
      sockets[i + 2] = (struct pollfd){.fd = self->clients[i].fd, .events = POLLIN};
    poll(sockets, (nfds_t)self->count + 2, -1);
    if (sockets[0].revents != 0) return NULL;
    for (size_t i = self->count; i-- > 0;) {
      if (sockets[i + 2].revents == 0 || serve(self, &self->clients[i])) continue;
      close(self->clients[i].fd);
      self->clients[i] = self->clients[--self->count];
    }
    if (sockets[1].revents != 0) take_client(self);
  }
}

void relay_set(relay *self, relay_judge *judge) {
  atomic_store(&self->judge, judge);
  atomic_store(&self->seen, 0);
  atomic_store(&self->passed, 0);
  atomic_store(&self->asked, 0);
  atomic_store(&self->maps, 0);
  atomic_store(&self->logins, 0);
  atomic_store(&self->visits, 0);
}

void relay_start(relay *made, const struct server *behind, relay_judge *judge) {
  int on = 1;
  relay_set(made, judge);
  made->count = 0;
  made->gone = false;
  atomic_store(&made->map, NULL);
  made->behind = plain_connect(behind);
  made->listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(made->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address_take_port(&made->address, SERVER_IPV4) != 0 ||
      bind(made->listener, &made->address.socket.any, made->address.socket_bytes) != 0 ||
      listen(made->listener, RELAY_CLIENTS) != 0 || pipe(made->wake) != 0 ||
      pthread_create(&made->thread, NULL, run, made) != 0)
    fixture_fail("relay: it cannot be started");
}

void relay_hang_up(relay *self) {
  if (self->gone) return;
  self->gone = true;
  if (write(self->wake[1], "", 1) != 1) fixture_fail("relay: it cannot be stopped");
  pthread_join(self->thread, NULL);
  for (size_t i = 0; i < self->count; i++)
    close(self->clients[i].fd);
  close(self->listener);
}

void relay_stop(relay *done) {
  relay_hang_up(done);
  close(done->wake[0]);
  close(done->wake[1]);
  address_release(&done->address);
  redisFree(done->behind);
}
