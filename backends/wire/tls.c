/* The TLS options of a store's URL, the context that they make, and the sessions of connections.
 *
 * OpenSSL reads and writes by the calls of wire/socket.h, so that a session waits and fails as a
 * plain socket does. What OpenSSL reports becomes an errno, and a text where it says more. */
#include "wire/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certificate.h"
#include "wire/socket.h"

enum { TLS_NAME_MOST = 253 /* RFC 1035 */, TLS_FILES = 3 };

typedef struct tls_files {
  const char *ca;
  const char *certificate;
  const char *key;
} tls_files;

struct weir_tls {
  pthread_mutex_t lock; /* guards the next, which a renewal changes */
  SSL_CTX *context;
  SSL_CTX *next;                /* that the next renewal uses; NULL: none is prepared */
  int64_t ends_s;               /* when the certificate ends that is shown; 0: none is */
  tls_files files;              /* as the URL names them, ... */
  char *names[TLS_FILES];       /* ... in memory of its own */
  BIO_METHOD *socket;           /* bytes come and go by the calls of socket.h */
  bool verifies;                /* chain and name */
  char name[TLS_NAME_MOST + 1]; /* in place of the host; empty: none given */
};

struct weir_tls_session {
  SSL *ssl;
  int fd;
  int error;            /* of the socket, in the call under way; 0: none */
  bool closed;          /* the server hung up */
  short receive_events; /* a read may have to write first, and the other way round */
  short send_events;
  char name[TLS_NAME_MOST + 1]; /* that is verified and sent */
  weir_message fault;
};

static const char *const option_names[] = {WEIR_TLS_OPTIONS, NULL};

/* OpenSSL's newest reason, for people; empties the thread's queue of them. */
static const char *take_reason(void) {
  unsigned long error = ERR_peek_last_error();
  const char *reason = ERR_SYSTEM_ERROR(error) ? NULL : ERR_reason_error_string(error);
  ERR_clear_error();
  return reason != NULL ? reason : "an error without a reason";
}

static weir_status refuse_options(const weir_url *url, weir_message *message) {
  for (size_t i = 0; option_names[i] != NULL; i++) {
    if (weir_url_find(url, option_names[i]) == NULL) continue;
    weir_message_set(message, "%s is an option of rediss:// and memcacheds://, which speak TLS",
                     option_names[i]);
    return WEIR_BAD_URL;
  }
  return WEIR_OK;
}

/* OpenSSL reports a file that cannot be opened as a chain of errors; one is enough. */
static weir_status check_file(const char *option, const char *path, weir_message *message) {
  FILE *file = fopen(path, "rb");
  int error = file == NULL ? errno : 0;
  if (file != NULL && getc(file) == EOF && ferror(file)) error = errno;
  if (file != NULL) fclose(file);
  if (error == 0) return WEIR_OK;
  char text[WEIR_ERROR_BYTES];
  weir_message_set(message, "%s=%.200s: the file cannot be read: %s", option, path,
                   weir_error_text(error, text));
  return WEIR_BAD_URL;
}

static weir_status check_files(const tls_files *files, weir_message *message) {
  weir_status status = WEIR_OK;
  if (files->ca != NULL) status = check_file("tls-ca", files->ca, message);
  if (status == WEIR_OK && files->key != NULL) {
    status = check_file("tls-cert", files->certificate, message);
    if (status == WEIR_OK) status = check_file("tls-key", files->key, message);
  }
  return status;
}

static weir_status read_files(const weir_url *url, bool verifies, tls_files *files,
                              weir_message *message) {
  *files = (tls_files){.ca = weir_url_find(url, "tls-ca"),
                       .certificate = weir_url_find(url, "tls-cert"),
                       .key = weir_url_find(url, "tls-key")};
  if ((files->certificate == NULL) != (files->key == NULL)) {
    weir_message_set(message, "%s without %s: a client certificate needs both",
                     files->key == NULL ? "tls-cert" : "tls-key",
                     files->key == NULL ? "tls-key" : "tls-cert");
    return WEIR_BAD_URL;
  }
  if (files->ca != NULL && !verifies) {
    weir_message_set(message, "tls-ca with tls-verify=none: nothing is verified, leave one out");
    return WEIR_BAD_URL;
  }
  return check_files(files, message);
}

static bool is_address(const char *name) {
  unsigned char bytes[sizeof(struct in6_addr)];
  return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static weir_status read_name(const weir_url *url, weir_tls *tls, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  const char *name = weir_url_find(url, "tls-name");
  if (name == NULL) return WEIR_OK;
  size_t length = strlen(name);
  bool plain = strspn(name, accepted) == length && name[0] != '.';
  if (length > TLS_NAME_MOST || !(plain || is_address(name))) {
    weir_message_set(message,
                     "tls-name=%.80s: accepted are a host name of at most %d bytes and an "
                     "address, without brackets and port",
                     name, TLS_NAME_MOST);
    return WEIR_BAD_URL;
  }
  memcpy(tls->name, name, length + 1);
  return WEIR_OK;
}

/* In place of OpenSSL's own, which asks at the terminal. */
static int no_passphrase(char *text, int room, int writing, void *context) {
  (void)text;
  (void)room;
  (void)writing;
  (void)context;
  return -1;
}

/* What OpenSSL failed for: want of memory, or a file, which is named with its option. NULL as the
 * option: OpenSSL itself cannot work, by its own configuration. */
static weir_status reject(const char *option, const char *path, const char *what,
                          weir_message *message) {
  unsigned long error = ERR_peek_last_error();
  bool memory = ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE || (error == 0 && option == NULL);
  const char *reason = take_reason();
  if (memory) return WEIR_NO_MEMORY;
  if (option == NULL)
    weir_message_set(message, "OpenSSL cannot be set up: %s", reason);
  else
    weir_message_set(message, "%s=%.200s: %s (%s)", option, path, what, reason);
  return WEIR_BAD_URL;
}

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

static BIO_METHOD *create_socket_method(void) {
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

/* *made is freed by the caller, also where it is not of use. */
static weir_status make_context(const weir_tls *tls, SSL_CTX **made, weir_message *message) {
  const tls_files *files = &tls->files;
  ERR_clear_error();
  SSL_CTX *context = *made = SSL_CTX_new(TLS_client_method());
  if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
    return reject(NULL, NULL, NULL, message);

  /* What stays the same whatever the URL says. A record may go out in part, and again from where
   * the output buffer has been moved to. Nothing is resumed, so no session is kept; what has come is
   * read with one call, and a server that ends without a farewell has hung up like any other. */
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_verify(context, tls->verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);

  /* A certificate that the URL names is trusted, also when another one signed it. */
  ERR_clear_error();
  if (tls->verifies && files->ca == NULL) {
    if (SSL_CTX_set_default_verify_paths(context) != 1) return reject(NULL, NULL, NULL, message);
  } else if (tls->verifies) {
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    if (SSL_CTX_load_verify_file(context, files->ca) != 1)
      return reject("tls-ca", files->ca, "not certificates in PEM form", message);
  }

  /* What the server is shown. */
  ERR_clear_error();
  if (files->key == NULL) return WEIR_OK;
  if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1)
    return reject("tls-cert", files->certificate, "not a certificate in PEM form", message);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context) == 1)
    return WEIR_OK;
  return reject("tls-key", files->key,
                "not the private key of tls-cert in PEM form without a passphrase", message);
}

/* False: no memory. */
static bool keep_files(const tls_files *files, weir_tls *tls) {
  const char *const named[] = {files->ca, files->certificate, files->key};
  for (size_t i = 0; i < TLS_FILES; i++) {
    if (named[i] == NULL) continue;
    size_t size = strlen(named[i]) + 1;
    if ((tls->names[i] = malloc(size)) == NULL) return false;
    memcpy(tls->names[i], named[i], size);
  }
  tls->files = (tls_files){tls->names[0], tls->names[1], tls->names[2]};
  return true;
}

weir_status weir_tls_open(const weir_url *url, bool secure, weir_tls **tls, weir_message *message) {
  static const char *const verifications[] = {"full", "none", NULL};
  tls_files files;
  size_t verification;
  *tls = NULL;
  if (!secure) return refuse_options(url, message);
  weir_tls *made = calloc(1, sizeof *made);
  if (made == NULL) return WEIR_NO_MEMORY;
  pthread_mutex_init(&made->lock, NULL); /* allocates nothing, and cannot fail so */
  weir_status status = weir_url_word(url, "tls-verify", verifications, 0, &verification, message);
  made->verifies = verification == 0;
  if (status == WEIR_OK) status = read_name(url, made, message);
  if (status == WEIR_OK) status = read_files(url, made->verifies, &files, message);
  if (status == WEIR_OK && !keep_files(&files, made)) status = WEIR_NO_MEMORY;
  if (status == WEIR_OK && (made->socket = create_socket_method()) == NULL)
    status = reject(NULL, NULL, NULL, message);
  if (status == WEIR_OK) status = make_context(made, &made->context, message);
  if (status == WEIR_OK) made->ends_s = weir_certificate_end_s(made->context);
  if (status != WEIR_OK) {
    weir_tls_close(made);
    return status;
  }
  *tls = made;
  return WEIR_OK;
}

weir_status weir_tls_prepare(weir_tls *tls, weir_message *message) {
  SSL_CTX *made = NULL;
  if (tls == NULL) return WEIR_OK;
  weir_status status = check_files(&tls->files, message);
  if (status == WEIR_OK) status = make_context(tls, &made, message);
  if (status != WEIR_OK) {
    SSL_CTX_free(made);
    made = NULL;
  }
  pthread_mutex_lock(&tls->lock);
  SSL_CTX *old = tls->next;
  tls->next = made;
  pthread_mutex_unlock(&tls->lock);
  SSL_CTX_free(old);
  return status;
}

/* Sessions that stand keep theirs. */
static bool use_prepared(weir_tls *tls) {
  SSL_CTX *old = NULL;
  pthread_mutex_lock(&tls->lock);
  bool is_there = tls->next != NULL;
  if (is_there) {
    old = tls->context;
    tls->context = tls->next;
    tls->next = NULL;
    tls->ends_s = weir_certificate_end_s(tls->context);
  }
  pthread_mutex_unlock(&tls->lock);
  SSL_CTX_free(old);
  return is_there;
}

weir_status weir_tls_renew(weir_tls *tls, weir_message *message) {
  if (tls == NULL || use_prepared(tls)) return WEIR_OK;
  weir_status status = weir_tls_prepare(tls, message);
  if (status == WEIR_OK) use_prepared(tls);
  return status;
}

int64_t weir_tls_certificate_end_s(weir_tls *tls) {
  if (tls == NULL) return 0;
  pthread_mutex_lock(&tls->lock);
  int64_t ends_s = tls->ends_s;
  pthread_mutex_unlock(&tls->lock);
  return ends_s;
}

bool weir_tls_verifies(const weir_tls *tls) {
  return tls->verifies;
}

void weir_tls_close(weir_tls *tls) {
  if (tls == NULL) return;
  SSL_CTX_free(tls->context);
  SSL_CTX_free(tls->next);
  BIO_meth_free(tls->socket);
  for (size_t i = 0; i < TLS_FILES; i++)
    free(tls->names[i]);
  pthread_mutex_destroy(&tls->lock);
  free(tls);
}

weir_tls_session *weir_tls_session_start(weir_tls *tls, const char *host, int fd) {
  weir_tls_session *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->fd = fd;
  made->receive_events = POLLIN;
  made->send_events = POLLOUT;

  /* A name as certificates spell it: no zone of an address, no final dot of a host. */
  const char *name = tls->name[0] != '\0' ? tls->name : host;
  size_t length = strcspn(name, "%");
  if (length > TLS_NAME_MOST) length = TLS_NAME_MOST;
  if (length > 1 && name[length - 1] == '.') length--;
  memcpy(made->name, name, length);

  pthread_mutex_lock(&tls->lock);
  made->ssl = SSL_new(tls->context);
  pthread_mutex_unlock(&tls->lock);
  BIO *bio = made->ssl != NULL ? BIO_new(tls->socket) : NULL;
  if (bio == NULL) goto no_memory;
  BIO_set_data(bio, made);
  BIO_set_init(bio, 1);
  SSL_set_bio(made->ssl, bio, bio);
  SSL_set_connect_state(made->ssl);

  /* An address stands in certificates as one, and is never sent as a name (RFC 6066). */
  X509_VERIFY_PARAM *wanted = SSL_get0_param(made->ssl);
  if (is_address(made->name)) {
    if (tls->verifies && X509_VERIFY_PARAM_set1_ip_asc(wanted, made->name) != 1) goto no_memory;
    return made;
  }
  if (SSL_set_tlsext_host_name(made->ssl, made->name) != 1) goto no_memory;
  X509_VERIFY_PARAM_set_hostflags(
      wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (!tls->verifies || X509_VERIFY_PARAM_set1_host(wanted, made->name, 0) == 1) return made;

no_memory:
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

/* Says why the session failed: the certificate, or what the protocol met. */
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
  unsigned long error = ERR_peek_last_error();
  int number = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  int alert = number - SSL_AD_REASON_OFFSET;
  const char *hint = "";
  if ((alert >= SSL_AD_HANDSHAKE_FAILURE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
      alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_CERTIFICATE_REQUIRED) {
    /* an alert about the certificate that the server was or was not shown (RFC 8446, 6) */
    hint = " (the server wants a client certificate of its choice: tls-cert, tls-key)";
  } else if (number == SSL_R_WRONG_VERSION_NUMBER || number == SSL_R_HTTP_REQUEST) {
    hint = " (the server does not speak TLS here)";
  }
  weir_message_set(&session->fault, "TLS: %s%s", take_reason(), hint);
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
  char text[WEIR_ERROR_BYTES];
  if (session->fault.text[0] != '\0') {
    weir_message_set(message, "%s", session->fault.text);
  } else if (classified == 0) {
    weir_message_set(message,
                     "the server hung up during the TLS handshake; one that does not "
                     "speak TLS here may do so");
  } else {
    weir_message_set(message, "the TLS handshake failed: %s", weir_error_text(error, text));
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
