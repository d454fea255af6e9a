#include "wire/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_US = 1000, TICK_MOST_US = 10000 };

/* A connection may not be used for hours, and a network in between forget it meanwhile without a
 * word: the kernel asks for a sign of life after 15 s, and gives it up 15 s later. */
static bool keep_alive(int fd) {
  static const int on = 1, idle_s = 15, every_s = 5, most = 3;
  return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) == 0 &&
         setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s) == 0 &&
         setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s) == 0 &&
         setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof most) == 0;
}

static bool prepare(int fd, int family) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return false;
  int on = 1;
  if (family == AF_UNIX) return true;
  return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && keep_alive(fd);
}

int weir_socket_connect(const weir_address *address, int *fd) {
  int family = address->bytes.ss_family;
  int made = socket(family, SOCK_STREAM, 0);
  *fd = -1;
  if (made < 0) return errno;
  int error = 0;
  if (!prepare(made, family) ||
      connect(made, (const struct sockaddr *)&address->bytes, address->length) < 0) {
    error = errno;
  }
  /* A connect that a signal interrupts goes on by itself. */
  if (error == EINTR) error = EINPROGRESS;
  if (error == 0 || error == EINPROGRESS) {
    *fd = made;
  } else {
    close(made);
  }
  return error;
}

int weir_socket_finish(int fd) {
  const struct timeval slice = {.tv_usec = SLICE_US};
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) return errno;
  if (error != 0) return error;
  /* From here on every call says for itself whether it may wait. */
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) < 0) {
    return errno;
  }
  return 0;
}

ssize_t weir_socket_send(int fd, const char *bytes, size_t length) {
  ssize_t sent;
  do {
    sent = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t weir_socket_receive(int fd, char *bytes, size_t room, bool wait) {
  ssize_t got;
  do {
    got = recv(fd, bytes, room, wait ? 0 : MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR && !wait);
  return got;
}

ssize_t weir_socket_try(int fd, char *bytes, size_t room, int64_t most_us, int64_t *longest_us) {
  int64_t since_us = weir_monotonic_us();
  int64_t now_us = since_us;
  ssize_t got;
  *longest_us = -1;
  while ((got = weir_socket_receive(fd, bytes, room, false)) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK) && now_us - since_us < most_us) {
    int64_t before_us = now_us;
    sched_yield();
    now_us = weir_monotonic_us();
    if (now_us - before_us > *longest_us) *longest_us = now_us - before_us;
  }
  return got;
}

const char *weir_error_text(int error, char text[WEIR_ERROR_BYTES]) {
  if (strerror_r(error, text, WEIR_ERROR_BYTES) != 0) text[0] = '\0';
  return text;
}

/* Linux counts such waits in ticks, and tells how long those are by what its coarse clock can tell
 * apart. */
int64_t weir_socket_patience_us(void) {
  struct timespec tick;
  int64_t tick_us = TICK_MOST_US;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0)
    tick_us = (tick.tv_nsec + 999) / 1000;
  return (SLICE_US + tick_us - 1) / tick_us * tick_us + tick_us;
}
