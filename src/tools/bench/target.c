/* Which servers a URL names: those behind a store, or one of weir, which decides itself; and a blocking
 * socket to one of them. */
#include "bench/raw.h"

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

#include "store/store.h"
#include "store/url.h"

enum { MEMCACHED_PORT = 11211, REDIS_PORT = 6379, HTTP_PORT = 80, GRPC_PORT = 8081 };

/* At most WEIR_BENCH_HOST_BYTES with their end; NULL is "". */
static void copy(char *to, const char *from) {
  snprintf(to, WEIR_BENCH_HOST_BYTES, "%s", from != NULL ? from : "");
}

weir_status weir_bench_target_read(const char *url, weir_bench_target *target,
                                   weir_message *message) {
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(url, weir_builtin_backends, &parsed, message);
  if (status != WEIR_OK) return status;
  const char *scheme = parsed.url.scheme;
  *target = (weir_bench_target){.redis = strncmp(scheme, "redis", 5) == 0};
  target->raw = (target->redis || strncmp(scheme, "memcached", 9) == 0) &&
                strncmp(scheme, "rediss", 6) != 0 && strncmp(scheme, "memcacheds", 10) != 0;
  const weir_url *named = &parsed.url;
  uint16_t port = target->redis ? REDIS_PORT : MEMCACHED_PORT;
  if (named->host_count == 0 && named->path != NULL) {
    copy(target->hosts[0].name, named->path);
    target->host_count = 1;
  }
  for (size_t i = 0; i < named->host_count && i < WEIR_BENCH_HOSTS_MOST; i++) {
    copy(target->hosts[i].name, named->hosts[i].name);
    target->hosts[i].port = named->hosts[i].port != 0 ? named->hosts[i].port : port;
    target->host_count++;
  }
  copy(target->user, named->user);
  copy(target->password, named->password);
  weir_url_clear(&parsed);
  return WEIR_OK;
}

/* A limiter's name, or of gRPC DOMAIN/KEY. */
static weir_status check_path(const char *path, bool grpc, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const char *name = path != NULL ? path + 1 : "";
  size_t length = strlen(name), domain = strcspn(name, "/");
  bool has_both = domain > 0 && domain + 1 < length && strchr(name + domain + 1, '/') == NULL;
  bool is_word = length > 0 && strspn(name, accepted) == length;
  if ((grpc ? has_both : is_word) && length < WEIR_BENCH_LIMITER_BYTES) return WEIR_OK;
  weir_message_set(message,
                   grpc
                       ? "the path must be a domain and a key of its descriptors, such as "
                         "/edge/user: at most %d bytes"
                       : "the path must be the name of a limiter of the server, such as /api: 1 to "
                         "%d of A-Z a-z 0-9 _ . - are accepted",
                   WEIR_BENCH_LIMITER_BYTES - 1);
  return WEIR_BAD_URL;
}

weir_status weir_bench_target_read_via(const char *url, weir_bench_target *target,
                                       weir_message *message) {
  static const weir_scheme schemes[] = {{"redis", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                        {"http", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
#ifdef WEIR_HAS_SERVE
                                        {"grpc", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
#endif
                                        {NULL, 0}};
  static const char *const options[] = {NULL};
  static const weir_backend server = {
      .size = sizeof server, .name = "weir", .schemes = schemes, .options = options};
  static const weir_backend *const servers[] = {&server, NULL};
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(url, servers, &parsed, message);
  if (status != WEIR_OK) return status;
  bool http = strcmp(parsed.url.scheme, "http") == 0;
  bool grpc = strcmp(parsed.url.scheme, "grpc") == 0;
  status = check_path(parsed.url.path, grpc, message);
  if (status == WEIR_OK) {
    uint16_t port = grpc ? GRPC_PORT : http ? HTTP_PORT : REDIS_PORT;
    *target = (weir_bench_target){.via = grpc   ? WEIR_BENCH_GRPC
                                         : http ? WEIR_BENCH_HTTP
                                                : WEIR_BENCH_RESP,
                                  .redis = !http && !grpc,
                                  .raw = !http && !grpc};
    snprintf(target->limiter, sizeof target->limiter, "%s", parsed.url.path + 1);
    copy(target->hosts[0].name, parsed.url.hosts[0].name);
    target->hosts[0].port = parsed.url.hosts[0].port != 0 ? parsed.url.hosts[0].port : port;
    target->host_count = 1;
    copy(target->user, parsed.url.user);
    copy(target->password, parsed.url.password);
  }
  weir_url_clear(&parsed);
  return status;
}

/* --- a blocking socket --------------------------------------------------------------------------
 *
 * It has room for what leaves together and what comes. */

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
