/* A blocking socket, and RESP, HTTP/1.1 and gRPC as a client of a server of weir speaks them over it. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <weir/backend.h>

#include "bench/raw.h"

/* --- a blocking socket --------------------------------------------------------------------------
 *
 * A blocking socket with room for what leaves together and what comes. */

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

/* --- protocols ----------------------------------------------------------------------------------
 */

/* Words, fields and their ends around the parts whose length a URL decides. */
enum {
  FRAME_MOST = 160,
  REQUEST_MOST =
      WEIR_BENCH_LIMITER_BYTES + WEIR_BENCH_KEY_BYTES + WEIR_BENCH_HOST_BYTES + FRAME_MOST
};
_Static_assert(WEIR_BATCH_MOST *REQUEST_MOST <= WEIR_BENCH_OUT_BYTES,
               "a batch leaves in one write");

bool weir_bench_via_begin(const weir_bench_target *target, weir_bench_wire *wire,
                          weir_message *message) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) return weir_bench_grpc_begin(wire, message);
#endif
  (void)target, (void)wire, (void)message;
  return true;
}

void weir_bench_via_end(weir_bench_wire *wire) {
#ifdef WEIR_HAS_SERVE
  weir_bench_grpc_end(wire);
#endif
  (void)wire;
}

/* --- asking ------------------------------------------------------------------------------------
 */

void weir_bench_via_say(const weir_bench_target *target, const weir_bench_key *key,
                        weir_bench_wire *wire) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) {
    weir_bench_grpc_say(target, key, wire);
    return;
  }
#endif
  if (target->via == WEIR_BENCH_RESP) {
    weir_bench_wire_say_text(wire, "*3\r\n$9\r\nWEIR.TAKE\r\n");
    weir_bench_wire_say_word(wire, target->limiter, strlen(target->limiter));
    weir_bench_wire_say_word(wire, key->text, key->length);
    return;
  }
  weir_bench_wire_say_text(wire, "GET /check/");
  weir_bench_wire_say_text(wire, target->limiter);
  weir_bench_wire_say_text(wire, "?key=");
  weir_bench_wire_say(wire, key->text, key->length);
  weir_bench_wire_say_text(wire, " HTTP/1.1\r\nHost: weir\r\n");
  if (target->password[0] != '\0') {
    weir_bench_wire_say_text(wire, "Authorization: Bearer ");
    weir_bench_wire_say_text(wire, target->password);
    weir_bench_wire_say_text(wire, "\r\n");
  }
  weir_bench_wire_say_text(wire, "\r\n");
}

/* --- what is answered --------------------------------------------------------------------------
 */

static weir_status refuse(const char *line, weir_message *message) {
  weir_message_set(message, "the server answers \"%.100s\"", line);
  return WEIR_UNAVAILABLE;
}

/* Whether an error is that of a decision which the store did not make. */
static bool is_late(const char *line) {
  if (strncmp(line, "-ERR ", 5) != 0) return false;
  for (int status = WEIR_OK + 1; status < WEIR_STATUSES_MOST; status++) {
    const char *name = weir_status_name((weir_status)status);
    weir_status_class class = weir_status_classify((weir_status)status);
    if (class != WEIR_CLASS_TRANSIENT && class != WEIR_CLASS_STORE) continue;
    if (strncmp(line + 5, name, strlen(name)) == 0) return true;
  }
  return false;
}

/* Names and values: "allowed" is the first. */
static weir_status read_resp(weir_bench_wire *wire, weir_bench_answers *answers,
                             weir_message *message) {
  const char *line = weir_bench_wire_line(wire, message);
  if (line == NULL) return WEIR_UNAVAILABLE;
  if (is_late(line)) {
    answers->late++;
    return WEIR_OK;
  }
  if (line[0] != '*') return refuse(line, message);
  long items = strtol(line + 1, NULL, 10);
  for (long i = 0; i < items; i++) {
    line = weir_bench_wire_line(wire, message);
    if (line != NULL && line[0] == '$') line = weir_bench_wire_line(wire, message);
    if (line == NULL) return WEIR_UNAVAILABLE;
    if (i == 1) answers->allowed += strcmp(line, ":1") == 0;
  }
  return WEIR_OK;
}

/* 200 is allowed, 503 no decision; with any other status the body tells a denial from an error. */
static weir_status read_http(weir_bench_wire *wire, weir_bench_answers *answers,
                             weir_message *message) {
  static const char version[] = "HTTP/1.1 ", length_name[] = "Content-Length:";
  const char *line = weir_bench_wire_line(wire, message);
  if (line == NULL) return WEIR_UNAVAILABLE;
  if (strncmp(line, version, sizeof version - 1) != 0) return refuse(line, message);
  char first[64], body[256];
  snprintf(first, sizeof first, "%s", line);
  long status = strtol(line + sizeof version - 1, NULL, 10);
  size_t length = 0;
  while ((line = weir_bench_wire_line(wire, message)) != NULL && line[0] != '\0')
    if (strncasecmp(line, length_name, sizeof length_name - 1) == 0)
      length = strtoul(line + sizeof length_name - 1, NULL, 10);
  if (line == NULL || !weir_bench_wire_read(wire, length, body, sizeof body, message))
    return WEIR_UNAVAILABLE;
  bool denied = strstr(body, "quota-exceeded") != NULL;
  if (status != 200 && status != 503 && !denied) return refuse(first, message);
  answers->allowed += status == 200;
  answers->late += status == 503 && !denied;
  return WEIR_OK;
}

weir_status weir_bench_via_read(const weir_bench_target *target, weir_bench_wire *wire,
                                weir_bench_answers *answers, weir_message *message) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) return weir_bench_grpc_read(wire, answers, message);
#endif
  return (target->via == WEIR_BENCH_HTTP ? read_http : read_resp)(wire, answers, message);
}
