/* Sockets, plain or behind OpenSSL: what a listener shows and accepts, whether a configuration's
 * certificates can be used at all, and the bytes of one connection. */
#include "serve/transport.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    /* What cannot be read at all is a fault of the file already. */
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

/* What a call of OpenSSL has come to, as a system call would say it. */
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
