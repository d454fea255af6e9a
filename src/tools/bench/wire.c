/* A blocking socket with room for what leaves together and what comes. */
#include "bench/wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <weir/backend.h>

enum { PATIENCE_S = 5 };

static bool fail(weir_message *message, const char *what) {
  weir_message_set(message, "%s: %s", what, strerror(errno));
  return false;
}

bool weir_bench_wire_flush(weir_bench_wire *wire, weir_message *message) {
  for (size_t sent = 0; sent < wire->out_length;) {
    ssize_t more = send(wire->fd, wire->out + sent, wire->out_length - sent, MSG_NOSIGNAL);
    if (more < 0) return fail(message, "send");
    sent += (size_t)more;
  }
  wire->out_length = 0;
  return true;
}

/* More of what comes, behind what is there. */
static bool fill(weir_bench_wire *wire, weir_message *message) {
  memmove(wire->in, wire->in + wire->in_start, wire->in_end - wire->in_start);
  wire->in_end -= wire->in_start;
  wire->in_start = 0;
  ssize_t more = recv(wire->fd, wire->in + wire->in_end, sizeof wire->in - wire->in_end, 0);
  if (more == 0) errno = ECONNRESET;
  if (more <= 0) return fail(message, "recv");
  wire->in_end += (size_t)more;
  return true;
}

const char *weir_bench_wire_line(weir_bench_wire *wire, weir_message *message) {
  for (;;) {
    char *start = wire->in + wire->in_start;
    char *end = memchr(start, '\n', wire->in_end - wire->in_start);
    if (end == NULL) {
      if (!fill(wire, message)) return NULL;
      continue;
    }
    wire->in_start = (size_t)(end - wire->in) + 1;
    if (end > start && end[-1] == '\r') end--;
    *end = '\0';
    return start;
  }
}

bool weir_bench_wire_read(weir_bench_wire *wire, size_t length, char *text, size_t room,
                          weir_message *message) {
  size_t copied = 0;
  for (;;) {
    size_t there = wire->in_end - wire->in_start;
    size_t part = length < there ? length : there;
    size_t copy = part < room - 1 - copied ? part : room - 1 - copied;
    memcpy(text + copied, wire->in + wire->in_start, copy);
    copied += copy;
    wire->in_start += part;
    length -= part;
    if (length == 0) break;
    if (!fill(wire, message)) return false;
  }
  text[copied] = '\0';
  return true;
}

void weir_bench_wire_say(weir_bench_wire *wire, const char *text, size_t length) {
  memcpy(wire->out + wire->out_length, text, length);
  wire->out_length += length;
}

void weir_bench_wire_say_text(weir_bench_wire *wire, const char *text) {
  weir_bench_wire_say(wire, text, strlen(text));
}

void weir_bench_wire_say_word(weir_bench_wire *wire, const char *word, size_t length) {
  char header[32];
  weir_bench_wire_say(wire, header, (size_t)snprintf(header, sizeof header, "$%zu\r\n", length));
  weir_bench_wire_say(wire, word, length);
  weir_bench_wire_say(wire, "\r\n", 2);
}

/* The socket, or -1. */
static int connect_to(const struct sockaddr *address, socklen_t length) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, address, length) == 0) return fd;
  close(fd);
  return -1;
}

static int connect_host(const char *name, uint16_t port) {
  char service[8];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *list;
  snprintf(service, sizeof service, "%u", port);
  errno = EHOSTUNREACH;
  if (getaddrinfo(name, service, &hints, &list) != 0) return -1;
  int fd = -1;
  for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next)
    fd = connect_to(at->ai_addr, at->ai_addrlen);
  freeaddrinfo(list);
  int yes = 1;
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

bool weir_bench_wire_open(weir_bench_wire *wire, const char *name, uint16_t port,
                          weir_message *message) {
  const struct timeval patience = {.tv_sec = PATIENCE_S};
  if (port == 0) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    wire->fd = connect_to((const struct sockaddr *)&address, sizeof address);
  } else {
    wire->fd = connect_host(name, port);
  }
  if (wire->fd < 0) return fail(message, "connect");
  setsockopt(wire->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(wire->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return true;
}

void weir_bench_wire_close(weir_bench_wire *wire) {
  if (wire->fd >= 0) close(wire->fd);
}
