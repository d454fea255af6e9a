#include "wire/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire/lookup.h"

enum { SLICE_US = 1000, TICK_MOST_US = 10000 };

static weir_status find_path(const char *path, weir_addresses *addresses, weir_message *message) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) {
    weir_message_set(message, "socket path \"%s\" is longer than %zu bytes", path,
                     sizeof address.sun_path - 1);
    return WEIR_BAD_URL;
  }
  addresses->list = calloc(1, sizeof *addresses->list);
  if (addresses->list == NULL) return WEIR_NO_MEMORY;
  memcpy(address.sun_path, path, length + 1);
  memcpy(&addresses->list[0].bytes, &address, sizeof address);
  addresses->list[0].length = sizeof address;
  addresses->count = 1;
  return WEIR_OK;
}

/* There is at least one. */
static weir_status copy_list(const struct addrinfo *found, weir_addresses *addresses) {
  size_t count = 1;
  for (const struct addrinfo *each = found; each->ai_next != NULL; each = each->ai_next)
    count++;
  addresses->list = calloc(count, sizeof *addresses->list);
  if (addresses->list == NULL) return WEIR_NO_MEMORY;
  for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
    weir_address *address = &addresses->list[addresses->count++];
    memcpy(&address->bytes, each->ai_addr, each->ai_addrlen);
    address->length = each->ai_addrlen;
  }
  return WEIR_OK;
}

static weir_status find_host(const weir_wire_place *place, const weir_wire_options *options,
                             weir_addresses *addresses, weir_message *message) {
  struct addrinfo *found = NULL;
  weir_status status = weir_lookup_host(place->host, place->port, options, &found, message);
  if (status != WEIR_OK) return status;
  status = copy_list(found, addresses);
  freeaddrinfo(found);
  return status;
}

weir_status weir_addresses_find(const weir_wire_place *place, const weir_wire_options *options,
                                weir_addresses *addresses, weir_message *message) {
  *addresses = (weir_addresses){0};
  if (place->path != NULL) return find_path(place->path, addresses, message);
  return find_host(place, options, addresses, message);
}

void weir_addresses_free(weir_addresses *addresses) {
  free(addresses->list);
  *addresses = (weir_addresses){0};
}

static bool prepare(int fd, int family) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return false;
  int on = 1;
  return family == AF_UNIX || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
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

/* Linux counts such waits in ticks, and tells how long those are by what its coarse clock can tell
 * apart. */
int64_t weir_socket_patience_us(void) {
  struct timespec tick;
  int64_t tick_us = TICK_MOST_US;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0)
    tick_us = (tick.tv_nsec + 999) / 1000;
  return (SLICE_US + tick_us - 1) / tick_us * tick_us + tick_us;
}
