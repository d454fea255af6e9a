#include "contract/plain_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const char tcp[] = "memcached://";
static const char local[] = "memcached+unix://";

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

bool plain_speaks(const subject *on) {
  return starts_with(on->url, tcp) || starts_with(on->url, local);
}

bool plain_sees_servers(const subject *on) {
  return plain_speaks(on) && strstr(on->name, "TWEMPROXY") == NULL;
}

static int connected(int fd, const struct sockaddr *address, socklen_t size) {
  const struct timeval patience = {.tv_sec = 5};
  assert_true(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  assert_int_equal(connect(fd, address, size), 0);
  return fd;
}

static int connect_path(const char *path, size_t length) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(length < sizeof address.sun_path);
  memcpy(address.sun_path, path, length);
  return connected(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

/* "127.0.0.1:1234" or "[::1]:1234": all that the fixture makes. */
static int connect_host(const char *host, size_t length) {
  char name[64];
  assert_true(length < sizeof name);
  memcpy(name, host, length);
  name[length] = '\0';
  char *port = strrchr(name, ':');
  assert_non_null(port);
  *port++ = '\0';
  if (name[0] == '[') {
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_port = htons((uint16_t)strtol(port, NULL, 10)),
                                   .sin6_addr = in6addr_loopback};
    return connected(socket(AF_INET6, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
  }
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtol(port, NULL, 10))};
  assert_int_equal(inet_pton(AF_INET, name, &address.sin_addr), 1);
  return connected(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

static size_t connect_all(const subject *on, int fds[PLAIN_PLACES_MOST]) {
  if (starts_with(on->url, local)) {
    const char *path = on->url + strlen(local);
    fds[0] = connect_path(path, strcspn(path, "?"));
    return 1;
  }
  size_t count = 0;
  const char *host = on->url + strlen(tcp);
  for (size_t length; (length = strcspn(host, ",?")) > 0; host += length) {
    assert_true(count < PLAIN_PLACES_MOST);
    fds[count++] = connect_host(host, length);
    if (host[length] != ',') break;
    length++;
  }
  return count;
}

/* Sends a request and reads one line of reply. */
static void ask(int fd, const char *request, char reply[PLAIN_REPLY_BYTES]) {
  size_t used = 0;
  size_t length = strlen(request);
  assert_int_equal(send(fd, request, length, MSG_NOSIGNAL), length);
  do {
    assert_true(used < PLAIN_REPLY_BYTES - 1);
    assert_int_equal(recv(fd, reply + used, 1, 0), 1);
  } while (reply[used++] != '\n');
  reply[used] = '\0';
}

void plain_set_everywhere(const subject *on, const key *at, const char *text) {
  char request[PLAIN_REPLY_BYTES];
  char reply[PLAIN_REPLY_BYTES];
  int fds[PLAIN_PLACES_MOST];
  size_t count = connect_all(on, fds);
  snprintf(request, sizeof request, "set %.*s 0 60 %zu\r\n%s\r\n", (int)at->length, at->text,
           strlen(text), text);
  for (size_t i = 0; i < count; i++) {
    ask(fds[i], request, reply);
    assert_string_equal(reply, "STORED\r\n");
    close(fds[i]);
  }
}

int64_t plain_ttl_s(const subject *on, const key *at) {
  char request[PLAIN_REPLY_BYTES];
  char reply[PLAIN_REPLY_BYTES];
  int fds[PLAIN_PLACES_MOST];
  int64_t ttl_s = -2;
  size_t count = connect_all(on, fds);
  snprintf(request, sizeof request, "mg %.*s t\r\n", (int)at->length, at->text);
  for (size_t i = 0; i < count; i++) {
    ask(fds[i], request, reply);
    if (starts_with(reply, "HD t")) ttl_s = strtoll(reply + strlen("HD t"), NULL, 10);
    close(fds[i]);
  }
  return ttl_s;
}
