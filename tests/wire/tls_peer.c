#include "wire/tls_peer.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture/servers.h"

enum { ANSWER_BYTES = 256, NAME_BYTES = 256 };

struct tls_peer {
  tls_peer_script script;
  SSL_CTX *context;
  struct address address;
  int listener;
  pthread_t thread;
  pthread_mutex_t lock;
  char name[NAME_BYTES]; /* under the lock */
  char reported[NAME_BYTES];
};

static void require(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "tls_peer: %s\n", what);
  exit(1);
}

/* Sends the records that were written since the last time, all at once. */
static bool flush(SSL *ssl, int fd, bool corrupt) {
  char *records;
  long length = BIO_get_mem_data(SSL_get_wbio(ssl), &records);
  if (corrupt && length > 0) records[length - 1] ^= 1;
  bool sent = send(fd, records, (size_t)length, MSG_NOSIGNAL) == length;
  return BIO_reset(SSL_get_wbio(ssl)) == 1 && sent;
}

static void write_records(const struct tls_peer *peer, SSL *ssl, const char *text, size_t length) {
  size_t piece = peer->script.byte_by_byte ? 1 : length;
  for (size_t i = 0; i < length; i += piece) {
    if (peer->script.renews_keys && i == length / 2) {
      require(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1, "no new keys");
      require(SSL_do_handshake(ssl) == 1, "the new keys are not sent");
    }
    require(SSL_write(ssl, text + i, (int)piece) == (int)piece, "cannot write");
  }
}

/* False: the conversation is over. */
static bool answer(const struct tls_peer *peer, SSL *ssl, int fd, unsigned serial) {
  static const char plain[] = "HTTP/1.0 400 Bad Request\r\n\r\n";
  char text[ANSWER_BYTES];
  int length = snprintf(text, sizeof text, "VA %u O%u\r\n7%*s\r\n", 1 + peer->script.padding,
                        serial, (int)peer->script.padding, "");
  switch (peer->script.end) {
    case TLS_PEER_ANSWERS:
    case TLS_PEER_CORRUPTS:
      write_records(peer, ssl, text, (size_t)length);
      return flush(ssl, fd, peer->script.end == TLS_PEER_CORRUPTS);
    case TLS_PEER_HANGS_UP:
    case TLS_PEER_SAYS_FAREWELL:
      write_records(peer, ssl, text, (size_t)length / 2);
      if (peer->script.end == TLS_PEER_SAYS_FAREWELL) SSL_shutdown(ssl);
      flush(ssl, fd, false);
      return false;
    case TLS_PEER_TALKS_PLAINLY:
      return send(fd, plain, sizeof plain - 1, MSG_NOSIGNAL) > 0;
  }
  return false;
}

static void hear_name(struct tls_peer *peer, const SSL *ssl) {
  const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  pthread_mutex_lock(&peer->lock);
  snprintf(peer->name, sizeof peer->name, "%s", name != NULL ? name : "");
  pthread_mutex_unlock(&peer->lock);
}

static void converse(struct tls_peer *peer, SSL *ssl, int fd) {
  char heard[16384];
  SSL_set_fd(ssl, fd);
  if (SSL_accept(ssl) != 1) return;
  hear_name(peer, ssl);
  SSL_set0_wbio(ssl, BIO_new(BIO_s_mem()));
  if (SSL_read(ssl, heard, sizeof heard) <= 0) return;
  write_records(peer, ssl, "MN\r\n", 4);
  if (!flush(ssl, fd, false)) return;
  for (unsigned serial = 0; SSL_read(ssl, heard, sizeof heard) > 0; serial++)
    if (!answer(peer, ssl, fd, serial)) return;
}

static void *serve(void *context) {
  struct tls_peer *peer = context;
  sigset_t pipe; /* OpenSSL's own sockets raise it, and a client may leave at any time */
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, NULL);
  for (;;) {
    int fd = accept(peer->listener, NULL, NULL);
    if (fd < 0) return NULL;
    SSL *ssl = SSL_new(peer->context);
    require(ssl != NULL, "out of memory");
    converse(peer, ssl, fd);
    SSL_free(ssl);
    close(fd);
  }
}

static void make_context(struct tls_peer *peer) {
  peer->context = SSL_CTX_new(TLS_server_method());
  require(peer->context != NULL, "out of memory");
  int version = peer->script.version;
  SSL_CTX_set_security_level(peer->context, 0); /* else nothing older than TLS 1.2 */
  bool good = version == 0 || (SSL_CTX_set_min_proto_version(peer->context, version) == 1 &&
                               SSL_CTX_set_max_proto_version(peer->context, version) == 1);
  good = good &&
         SSL_CTX_use_certificate_file(peer->context, certificate_file(CERTIFICATE_SERVER),
                                      SSL_FILETYPE_PEM) == 1 &&
         SSL_CTX_use_PrivateKey_file(peer->context, certificate_key_file(CERTIFICATE_SERVER),
                                     SSL_FILETYPE_PEM) == 1;
  require(good, "no context");
}

struct tls_peer *tls_peer_start(tls_peer_script script) {
  struct tls_peer *peer = calloc(1, sizeof *peer);
  int yes = 1;
  require(peer != NULL, "out of memory");
  peer->script = script;
  make_context(peer);
  pthread_mutex_init(&peer->lock, NULL);
  require(address_take_port(&peer->address, SERVER_IPV4) == 0, "no free port");
  peer->listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(peer->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  require(bind(peer->listener, &peer->address.socket.any, peer->address.socket_bytes) == 0 &&
              listen(peer->listener, 8) == 0,
          "cannot listen");
  require(pthread_create(&peer->thread, NULL, serve, peer) == 0, "no thread");
  return peer;
}

uint16_t tls_peer_port(const struct tls_peer *peer) {
  return address_port(&peer->address);
}

const char *tls_peer_heard_name(struct tls_peer *peer) {
  pthread_mutex_lock(&peer->lock);
  memcpy(peer->reported, peer->name, sizeof peer->reported);
  pthread_mutex_unlock(&peer->lock);
  return peer->reported;
}

void tls_peer_stop(struct tls_peer *peer) {
  shutdown(peer->listener, SHUT_RDWR);
  pthread_join(peer->thread, NULL);
  close(peer->listener);
  address_release(&peer->address);
  pthread_mutex_destroy(&peer->lock);
  SSL_CTX_free(peer->context);
  free(peer);
}
