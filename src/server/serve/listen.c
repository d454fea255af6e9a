/* Binding, with care for what others have put there; and the bytes of connections, plain or behind OpenSSL. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "certificate.h"

enum { BACKLOG = WEIR_SOCKET_WAITING_MOST - 1, FIRST_HANDED = 3, HANDED_MOST = 1024 };

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

int weir_sockets_most(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX ? INT_MAX
                                                                           : (int)limit.rlim_cur;
}

/* Packets with SYN and without ACK are dropped before the kernel answers them; the rest of a handshake that has
 * begun passes. Where the kernel refuses the filter, connections that come until the end are reset, as before. */
void weir_socket_turn_deaf(int fd) {
  enum { FLAGS = 13, SYN = 0x02, ACK = 0x10 };
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
  const struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
  (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
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

/* --- connections --------------------------------------------------------------------------------
 *
 * Sockets, plain or behind OpenSSL: what a listener shows and accepts, whether a configuration's
 * certificates can be used at all, and the bytes of one connection. */

/* --- what a listener shows and accepts ----------------------------------------------------------
 */

/* False: `message` says which file cannot be used. */
static bool load_files(SSL_CTX *context, const weir_config_tls *config, weir_message *message) {
  const char *what = NULL;
  if (SSL_CTX_use_certificate_chain_file(context, config->certificate) != 1)
    what = config->certificate;
  else if (SSL_CTX_use_PrivateKey_file(context, config->key, SSL_FILETYPE_PEM) != 1 ||
           SSL_CTX_check_private_key(context) != 1)
    what = config->key;
  else if (config->client_ca != NULL &&
           SSL_CTX_load_verify_locations(context, config->client_ca, NULL) != 1)
    what = config->client_ca;
  if (what == NULL) return true;
  unsigned long error = ERR_peek_error(); /* the first is nearest to the cause */
  const char *reason =
      ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : ERR_reason_error_string(error);
  snprintf(message->text, sizeof message->text,
           "file \"%.200s\" cannot be used: %s; accepted are PEM files, of keys those without a "
           "passphrase",
           what, reason != NULL ? reason : "it does not fit the certificate");
  return false;
}

/* A server runs without a person to ask for the passphrase of a key. */
static int refuse_passphrase(char *text, int size, int is_written, void *context) {
  (void)text, (void)size, (void)is_written, (void)context;
  return -1;
}

/* gRPC is HTTP/2: a client that names protocols must name this one. */
static int choose_protocol(SSL *session, const unsigned char **chosen, unsigned char *chosen_length,
                           const unsigned char *named, unsigned length, void *self) {
  static const unsigned char h2[] = {2, 'h', '2'};
  unsigned char *found;
  (void)session;
  (void)self;
  if (SSL_select_next_proto(&found, chosen_length, h2, sizeof h2, named, length) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

weir_serve_tls *weir_serve_tls_create(const weir_config_listener *listener, weir_message *message) {
  const weir_config_tls *config = &listener->tls;
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  ERR_clear_error();
  if (context == NULL) {
    *message = (weir_message){"no memory"};
    return NULL;
  }
  SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!load_files(context, config, message)) {
    ERR_clear_error();
    SSL_CTX_free(context);
    return NULL;
  }
  if (listener->protocol == WEIR_CONFIG_GRPC)
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
  if (config->client_ca != NULL) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"weir", 4);
  }
  return (weir_serve_tls *)context;
}

int64_t weir_serve_tls_certificate_end_s(weir_serve_tls *tls) {
  return weir_certificate_end_s((SSL_CTX *)tls);
}

weir_serve_tls *weir_serve_tls_retain(weir_serve_tls *tls) {
  if (tls != NULL) SSL_CTX_up_ref((SSL_CTX *)tls);
  return tls;
}

void weir_serve_tls_destroy(weir_serve_tls *tls) {
  SSL_CTX_free((SSL_CTX *)tls);
}

void weir_certificates_look(const weir_config *config, weir_config_faults *faults) {
  for (size_t i = 0; i < config->listener_count; i++) {
    const weir_config_listener *listener = &config->listeners[i];
    const weir_config_tls *tls = &listener->tls;
    weir_message why = {""};
    char path[64];
    /* A file that cannot be read at all is a fault of the configuration already. */
    if (tls->certificate == NULL || access(tls->certificate, R_OK) != 0) continue;
    if (tls->key == NULL || access(tls->key, R_OK) != 0) continue;
    if (tls->client_ca != NULL && access(tls->client_ca, R_OK) != 0) continue;
    weir_serve_tls *usable = weir_serve_tls_create(listener, &why);
    snprintf(path, sizeof path, "%s.tls", weir_config_listen_path(listener->protocol));
    if (usable == NULL) weir_config_fault(faults, tls->place, path, "%s", why.text);
    weir_serve_tls_destroy(usable);
  }
}

/* --- one connection -----------------------------------------------------------------------------
 */

bool weir_transport_open(weir_transport *transport, int fd, weir_serve_tls *tls) {
  *transport = (weir_transport){.fd = fd};
  if (tls == NULL) return true;
  SSL *session = SSL_new((SSL_CTX *)tls);
  if (session == NULL || SSL_set_fd(session, fd) != 1) {
    SSL_free(session);
    ERR_clear_error();
    return false;
  }
  SSL_set_accept_state(session);
  transport->session = session;
  return true;
}

void weir_transport_close(weir_transport *transport) {
  SSL_free(transport->session);
  close(transport->fd);
  *transport = (weir_transport){.fd = -1};
}

/* The outcome of a call of OpenSSL, as a system call would say it. */
static ssize_t outcome(weir_transport *transport, int result, bool *other_way) {
  if (result > 0) return result;
  int error = SSL_get_error(transport->session, result);
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  bool reads = error == SSL_ERROR_WANT_READ;
  bool waits = reads || error == SSL_ERROR_WANT_WRITE;
  *other_way = waits && reads == (other_way == &transport->reads_to_send);
  errno = waits ? EAGAIN : ECONNRESET;
  return -1;
}

ssize_t weir_transport_receive(weir_transport *transport, char *bytes, size_t room) {
  if (transport->session == NULL) return recv(transport->fd, bytes, room, 0);
  ERR_clear_error();
  transport->sends_to_read = false;
  int result = SSL_read(transport->session, bytes, room < INT_MAX ? (int)room : INT_MAX);
  return outcome(transport, result, &transport->sends_to_read);
}

ssize_t weir_transport_send(weir_transport *transport, const char *bytes, size_t length) {
  if (transport->session == NULL) return send(transport->fd, bytes, length, MSG_NOSIGNAL);
  ERR_clear_error();
  transport->reads_to_send = false;
  int result = SSL_write(transport->session, bytes, length < INT_MAX ? (int)length : INT_MAX);
  return outcome(transport, result, &transport->reads_to_send);
}

void weir_transport_finish(weir_transport *transport) {
  ERR_clear_error();
  if (transport->session != NULL) SSL_shutdown(transport->session);
  shutdown(transport->fd, SHUT_WR);
}
