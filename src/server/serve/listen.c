/* Binding, with care for what others have put there. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, FIRST_HANDED = 3, HANDED_MOST = 1024 };

static bool fail(weir_message *message, const weir_config_listener *listener, const char *what) {
  snprintf(message->text, sizeof message->text, "cannot listen at %s: %s: %s", listener->address,
           what, strerror(errno));
  return false;
}

static bool prepare(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* --- TCP -------------------------------------------------------------------------------------- */

static bool set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* One that does not share listens before it says that the sockets of other loops may join it: so
 * the kernel refuses it where another server listens, whatever that one says. */
static int open_tcp(const struct sockaddr_storage *address, socklen_t length, bool shares) {
  int fd = socket(address->ss_family, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  bool v6 = address->ss_family == AF_INET6;
  if (prepare(fd) && set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
      set(fd, SOL_SOCKET, SO_REUSEPORT, shares) && (!v6 || set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
      bind(fd, (const struct sockaddr *)(const void *)address, length) == 0 &&
      listen(fd, BACKLOG) == 0 && set(fd, SOL_SOCKET, SO_REUSEPORT, 1))
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

/* From then on the kernel lets every server of this user join. So one that shares asks first whether
 * a server has hung out that it does not: an abstract unix socket of the address's name, which goes
 * with its process. -1: errno. */
static int hang_out(const weir_socket *opened) {
  struct sockaddr_un sign = {.sun_family = AF_UNIX};
  int length =
      snprintf(sign.sun_path + 1, sizeof sign.sun_path - 1, "weir-serve %.64s", opened->name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  if (fd < 0 || bind(fd, (const struct sockaddr *)(const void *)&sign, size) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static void take_in(weir_socket *opened) {
  if (opened->sign >= 0) close(opened->sign);
  opened->sign = -1;
}

static bool refuse_second(const weir_config_listener *listener, weir_message *message) {
  snprintf(
      message->text, sizeof message->text,
      "cannot listen at %s: another program listens there (servers share an address where each "
      "of them says reuse_port: true)",
      listener->address);
  return false;
}

static bool listen_tcp(const weir_config_listener *listener, weir_socket *opened,
                       weir_message *message) {
  opened->fd = open_tcp(&listener->socket, listener->socket_length, listener->reuse_port);
  opened->address_length = sizeof opened->address;
  if (opened->fd < 0 && errno == EADDRINUSE) return refuse_second(listener, message);
  if (opened->fd < 0) return fail(message, listener, "bind");
  if (getsockname(opened->fd, (struct sockaddr *)(void *)&opened->address,
                  &opened->address_length) != 0)
    return fail(message, listener, "getsockname");
  char text[INET6_ADDRSTRLEN];
  const struct sockaddr_in *v4 = (const void *)&opened->address;
  const struct sockaddr_in6 *v6 = (const void *)&opened->address;
  if (opened->address.ss_family == AF_INET)
    snprintf(opened->name, sizeof opened->name, "%s:%u",
             inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text), ntohs(v4->sin_port));
  else
    snprintf(opened->name, sizeof opened->name, "[%s]:%u",
             inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text), ntohs(v6->sin6_port));
  opened->sign = hang_out(opened);
  if (!listener->reuse_port) return true;
  if (opened->sign < 0 && errno == EADDRINUSE) return refuse_second(listener, message);
  take_in(opened);
  return true;
}

int weir_socket_again(const weir_socket *first) {
  return open_tcp(&first->address, first->address_length, true);
}

/* --- unix sockets ------------------------------------------------------------------------------
 */

/* Whether a server accepts there. */
static bool is_served(const weir_config_listener *listener) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return true;
  bool served = connect(fd, (const struct sockaddr *)(const void *)&listener->socket,
                        listener->socket_length) == 0 ||
                errno != ECONNREFUSED;
  close(fd);
  return served;
}

/* Takes away what a server of this user left behind, and nothing else. */
static bool clear_path(const weir_config_listener *listener, weir_message *message) {
  struct stat found;
  if (lstat(listener->name, &found) != 0)
    return errno == ENOENT || fail(message, listener, "lstat");
  const char *why = NULL;
  if (!S_ISSOCK(found.st_mode))
    why = "there is a file that is no socket";
  else if (found.st_uid != geteuid())
    why = "the socket that is there belongs to another user";
  else if (is_served(listener))
    why = "another server listens there";
  if (why == NULL) return unlink(listener->name) == 0 || fail(message, listener, "unlink");
  snprintf(message->text, sizeof message->text, "cannot listen at %s: %s", listener->address, why);
  return false;
}

static bool listen_unix(const weir_config_listener *listener, weir_socket *opened,
                        weir_message *message) {
  struct stat made;
  if (!clear_path(listener, message)) return false;
  opened->fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (opened->fd < 0 || !prepare(opened->fd)) return fail(message, listener, "socket");
  mode_t before = umask(0177); /* no other user may come in before it is as it should be */
  bool is_bound = bind(opened->fd, (const struct sockaddr *)(const void *)&listener->socket,
                       listener->socket_length) == 0;
  umask(before);
  if (!is_bound) return fail(message, listener, "bind");
  if (lstat(listener->name, &made) != 0) return fail(message, listener, "lstat");
  opened->path = strdup(listener->name);
  if (opened->path == NULL) return fail(message, listener, "strdup");
  opened->device = made.st_dev;
  opened->inode = made.st_ino;
  if (listener->group != NULL) {
    errno = 0;
    const struct group *group = getgrnam(listener->group);
    if (group == NULL) {
      snprintf(message->text, sizeof message->text, "cannot listen at %s: there is no group \"%s\"",
               listener->address, listener->group);
      return false;
    }
    if (chown(listener->name, (uid_t)-1, group->gr_gid) != 0)
      return fail(message, listener, "chown");
  }
  if (chmod(listener->name, listener->mode) != 0) return fail(message, listener, "chmod");
  if (listen(opened->fd, BACKLOG) != 0) return fail(message, listener, "listen");
  opened->is_shared = true;
  snprintf(opened->name, sizeof opened->name, "unix:%s", listener->name);
  return true;
}

/* --- systemd ---------------------------------------------------------------------------------- */

/* LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, as sd_listen_fds(3) has them. */
static int find_handed(const char *name) {
  const char *pid = getenv("LISTEN_PID");
  const char *count = getenv("LISTEN_FDS");
  const char *names = getenv("LISTEN_FDNAMES");
  if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != (long)getpid()) return -1;
  long handed = strtol(count, NULL, 10);
  for (long i = 0; i < handed && i < HANDED_MOST; i++) {
    size_t length = names != NULL ? strcspn(names, ":") : 0;
    bool fits = names != NULL && strlen(name) == length && strncmp(names, name, length) == 0;
    if (fits) return FIRST_HANDED + (int)i;
    if (names != NULL) names += length + (names[length] == ':');
  }
  return -1;
}

static bool adopt(const weir_config_listener *listener, weir_socket *opened,
                  weir_message *message) {
  int listens = 0;
  socklen_t length = sizeof listens;
  opened->fd = find_handed(listener->name);
  opened->is_shared = true;
  if (opened->fd < 0) {
    snprintf(message->text, sizeof message->text,
             "cannot listen at %s: systemd has handed over no socket of this FileDescriptorName",
             listener->address);
    return false;
  }
  if (getsockopt(opened->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens ||
      !prepare(opened->fd)) {
    errno = EINVAL;
    return fail(message, listener, "it is no socket that listens");
  }
  opened->address_length = sizeof opened->address;
  if (getsockname(opened->fd, (struct sockaddr *)(void *)&opened->address,
                  &opened->address_length) != 0)
    return fail(message, listener, "getsockname");
  snprintf(opened->name, sizeof opened->name, "systemd:%s", listener->name);
  return weir_socket_may_serve(opened, listener, message);
}

bool weir_socket_may_serve(const weir_socket *opened, const weir_config_listener *listener,
                           weir_message *message) {
  if (weir_config_is_local((const struct sockaddr *)(const void *)&opened->address) ||
      weir_config_is_guarded(listener))
    return true;
  snprintf(message->text, sizeof message->text,
           "%s is open to other hosts: give it auth or tls, or say insecure: true",
           listener->address);
  return false;
}

/* --- all ----------------------------------------------------------------------------------------
 */

bool weir_socket_init(const weir_config_listener *listener, weir_socket *made) {
  *made = (weir_socket){.fd = -1, .sign = -1, .protocol = listener->protocol};
  made->listener = strdup(listener->address);
  return made->listener != NULL;
}

const weir_config_listener *weir_socket_listener(const weir_socket *socket,
                                                 const weir_config *config) {
  for (size_t i = 0; i < config->listener_count; i++)
    if (config->listeners[i].protocol == socket->protocol &&
        strcmp(config->listeners[i].address, socket->listener) == 0)
      return &config->listeners[i];
  return NULL;
}

bool weir_socket_open(const weir_config_listener *listener, weir_socket *opened,
                      weir_message *message) {
  switch (listener->kind) {
    case WEIR_CONFIG_TCP:
      return listen_tcp(listener, opened, message);
    case WEIR_CONFIG_UNIX:
      return listen_unix(listener, opened, message);
    case WEIR_CONFIG_SYSTEMD:
      return adopt(listener, opened, message);
  }
  return false;
}

/* Where nothing can be found out (a sandbox may forbid it), the connections that come will tell. */
size_t weir_sockets_make_room(size_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return wanted;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

void weir_socket_stop(weir_socket *opened) {
  bool is_handed = opened->is_shared && opened->path == NULL;
  if (!is_handed) shutdown(opened->fd, SHUT_RDWR);
  take_in(opened); /* the next server may begin while this one ends */
}

void weir_socket_close(weir_socket *opened) {
  struct stat found;
  if (opened->path != NULL && lstat(opened->path, &found) == 0 && found.st_dev == opened->device &&
      found.st_ino == opened->inode)
    unlink(opened->path);
  free(opened->path);
  free(opened->listener);
  if (opened->fd >= 0) close(opened->fd);
  take_in(opened);
  *opened = (weir_socket){.fd = -1, .sign = -1};
}
