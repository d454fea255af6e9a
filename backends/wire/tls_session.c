/* The TLS of one connection. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/socket.h"
#include "wire/tls_internal.h"

struct weir_tls_session {
  SSL *ssl;
  int fd;
  int error;            /* of the socket, in the call under way; 0: none */
  bool closed;          /* the peer hung up */
  short receive_events; /* a read may have to write first, and the other way round */
  short send_events;
  char name[WEIR_TLS_NAME_MOST + 1]; /* that is verified and sent */
  weir_message fault;
};

static int socket_write(BIO *bio, const char *bytes, int length) {
  weir_tls_session *session = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ssize_t sent = weir_socket_send(session->fd, bytes, (size_t)length);
  if (sent >= 0) return (int)sent;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_retry_write(bio);
  } else {
    session->error = errno;
  }
  return -1;
}

static int socket_read(BIO *bio, char *bytes, int room) {
  weir_tls_session *session = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ssize_t got = weir_socket_receive(session->fd, bytes, (size_t)room, false);
  if (got > 0) return (int)got;
  if (got == 0) {
    session->closed = true;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    BIO_set_retry_read(bio);
  } else {
    session->error = errno;
  }
  return got == 0 ? 0 : -1;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
  (void)number;
  (void)pointer;
  const weir_tls_session *session = BIO_get_data(bio);
  if (command == BIO_CTRL_EOF) return session->closed;
  return command == BIO_CTRL_FLUSH;
}

/* OpenSSL has few of them to give: one is enough for all stores of a process. */
static int socket_type;

static void get_socket_type(void) {
  socket_type = BIO_get_new_index() | BIO_TYPE_SOURCE_SINK;
}

BIO_METHOD *weir_tls_socket_create(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, get_socket_type); /* with a function and a flag it cannot fail */
  BIO_METHOD *made = BIO_meth_new(socket_type, "weir");
  if (made == NULL) return NULL;
  if (BIO_meth_set_write(made, socket_write) == 1 && BIO_meth_set_read(made, socket_read) == 1 &&
      BIO_meth_set_ctrl(made, socket_control) == 1)
    return made;
  BIO_meth_free(made);
  return NULL;
}

/* A name as certificates spell it: no zone of an address, no final dot of a host. */
static void set_name(weir_tls_session *session, const char *name) {
  size_t length = strcspn(name, "%");
  if (length > WEIR_TLS_NAME_MOST) length = WEIR_TLS_NAME_MOST;
  if (length > 1 && name[length - 1] == '.') length--;
  memcpy(session->name, name, length);
  session->name[length] = '\0';
}

/* An address stands in certificates as one, and is never sent as a name (RFC 6066). */
static bool expect_name(weir_tls_session *session, bool verifies) {
  X509_VERIFY_PARAM *wanted = SSL_get0_param(session->ssl);
  if (weir_tls_is_address(session->name))
    return !verifies || X509_VERIFY_PARAM_set1_ip_asc(wanted, session->name) == 1;
  if (SSL_set_tlsext_host_name(session->ssl, session->name) != 1) return false;
  X509_VERIFY_PARAM_set_hostflags(
      wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return !verifies || X509_VERIFY_PARAM_set1_host(wanted, session->name, 0) == 1;
}

static bool attach(weir_tls_session *session, BIO_METHOD *method) {
  BIO *bio = BIO_new(method);
  if (bio == NULL) return false;
  BIO_set_data(bio, session);
  BIO_set_init(bio, 1);
  SSL_set_bio(session->ssl, bio, bio);
  SSL_set_connect_state(session->ssl);
  return true;
}

weir_tls_session *weir_tls_session_start(const weir_tls *tls, const char *host, int fd) {
  weir_tls_session *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->fd = fd;
  made->receive_events = POLLIN;
  made->send_events = POLLOUT;
  set_name(made, tls->name[0] != '\0' ? tls->name : host);
  made->ssl = SSL_new(tls->context);
  if (made->ssl != NULL && attach(made, tls->socket) && expect_name(made, tls->verifies))
    return made;
  ERR_clear_error();
  weir_tls_session_end(made);
  return NULL;
}

void weir_tls_session_end(weir_tls_session *session) {
  if (session == NULL) return;
  SSL_free(session->ssl);
  ERR_clear_error();
  free(session);
}

/* Whether an alert of the peer is about the certificate that it was or was not shown: RFC 8446, 6,
 * handshake_failure to unknown_ca and certificate_required. */
static bool asks_for_certificate(int reason) {
  int alert = reason - SSL_AD_REASON_OFFSET;
  return (alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_CERTIFICATE_REQUIRED;
}

static void explain_protocol(weir_tls_session *session) {
  unsigned long error = ERR_peek_last_error();
  int number = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  const char *reason = weir_tls_reason();
  const char *hint = "";
  if (asks_for_certificate(number)) {
    hint = " (the server wants a client certificate of its choice: tls-cert, tls-key)";
  } else if (number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_HTTP_REQUEST) {
    hint = " (the server does not speak TLS here)";
  }
  weir_message_set(&session->fault, "TLS: %s%s", reason, hint);
}

static void explain(weir_tls_session *session) {
  long verdict = SSL_get_verify_result(session->ssl);
  if (SSL_get_verify_mode(session->ssl) != SSL_VERIFY_NONE && verdict != X509_V_OK) {
    weir_message_set(&session->fault,
                     "TLS: the certificate is not accepted for \"%s\": %s (tls-ca and tls-name say "
                     "what is)",
                     session->name, X509_verify_cert_error_string(verdict));
    ERR_clear_error();
    return;
  }
  explain_protocol(session);
}

static void begin(weir_tls_session *session) {
  ERR_clear_error(); /* SSL_get_error() looks at what others left there, too */
  session->error = 0;
  session->fault.text[0] = '\0';
}

/* What a call of OpenSSL came to that got nothing done, as recv says it. *events: what to wait for
 * when that is EAGAIN. */
static ssize_t classify(weir_tls_session *session, int result, short *events) {
  int error = SSL_get_error(session->ssl, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    *events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    errno = EAGAIN;
    return -1;
  }
  if (session->error != 0) {
    ERR_clear_error();
    errno = session->error;
    return -1;
  }
  if (error == SSL_ERROR_ZERO_RETURN || session->closed) {
    ERR_clear_error();
    return 0;
  }
  explain(session);
  errno = EPROTO;
  return -1;
}

weir_tls_hands weir_tls_session_shake(weir_tls_session *session, weir_message *message) {
  begin(session);
  int result = SSL_do_handshake(session->ssl);
  if (result == 1) return WEIR_TLS_SHAKEN;
  ssize_t classified = classify(session, result, &session->receive_events);
  int error = errno;
  if (classified < 0 && error == EAGAIN) return WEIR_TLS_SHAKING;
  char text[128] = "";
  if (session->fault.text[0] != '\0') {
    weir_message_set(message, "%s", session->fault.text);
  } else if (classified == 0) {
    weir_message_set(message,
                     "the server hung up during the TLS handshake; one that does not "
                     "speak TLS here may do so");
  } else {
    if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
    weir_message_set(message, "the TLS handshake failed: %s", text);
  }
  return WEIR_TLS_REFUSED;
}

ssize_t weir_tls_session_send(weir_tls_session *session, const char *bytes, size_t length) {
  size_t sent = 0;
  begin(session);
  session->send_events = POLLOUT;
  int result = SSL_write_ex(session->ssl, bytes, length, &sent);
  if (result == 1) return (ssize_t)sent;
  if (classify(session, result, &session->send_events) == 0) errno = EPIPE;
  return -1;
}

ssize_t weir_tls_session_receive(weir_tls_session *session, char *bytes, size_t room) {
  size_t got = 0;
  begin(session);
  session->receive_events = POLLIN;
  int result = SSL_read_ex(session->ssl, bytes, room, &got);
  return result == 1 ? (ssize_t)got : classify(session, result, &session->receive_events);
}

const char *weir_tls_session_fault(const weir_tls_session *session) {
  return session->fault.text;
}

bool weir_tls_session_holds(const weir_tls_session *session) {
  return SSL_has_pending(session->ssl) == 1;
}

short weir_tls_session_events(const weir_tls_session *session, bool sends) {
  return (short)(session->receive_events | (sends ? session->send_events : 0));
}

/* A record of type 21, version 3.x (RFC 8446, 5.1). */
bool weir_tls_is_alert(const char *bytes, size_t length) {
  return length >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03;
}
