/* The TLS options of a store's URL, and the context that they make. */
#include "wire/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/tls_internal.h"

static const char *const option_names[] = {WEIR_TLS_OPTIONS, NULL};

typedef struct tls_files {
  const char *ca;
  const char *certificate;
  const char *key;
} tls_files;

const char *weir_tls_reason(void) {
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
  char text[128] = "";
  if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
  weir_message_set(message, "%s=%.200s: the file cannot be read: %s", option, path, text);
  return WEIR_BAD_URL;
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
  weir_status status = WEIR_OK;
  if (files->ca != NULL) status = check_file("tls-ca", files->ca, message);
  if (status == WEIR_OK && files->key != NULL) {
    status = check_file("tls-cert", files->certificate, message);
    if (status == WEIR_OK) status = check_file("tls-key", files->key, message);
  }
  return status;
}

bool weir_tls_is_address(const char *name) {
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
  if (length > WEIR_TLS_NAME_MOST || !(plain || weir_tls_is_address(name))) {
    weir_message_set(message,
                     "tls-name=%.80s: accepted are a host name of at most %d bytes and an "
                     "address, without brackets and port",
                     name, WEIR_TLS_NAME_MOST);
    return WEIR_BAD_URL;
  }
  memcpy(tls->name, name, length + 1);
  return WEIR_OK;
}

static weir_status read_verify(const weir_url *url, weir_tls *tls, weir_message *message) {
  static const char *const words[] = {"full", "none", NULL};
  size_t index;
  weir_status status = weir_url_word(url, "tls-verify", words, 0, &index, message);
  tls->verifies = index == 0;
  return status;
}

/* In place of OpenSSL's own, which asks at the terminal. */
static int no_passphrase(char *text, int room, int writing, void *context) {
  (void)text;
  (void)room;
  (void)writing;
  (void)context;
  return -1;
}

/* OpenSSL itself cannot work, for want of memory or by its own configuration. */
static weir_status give_up(weir_message *message) {
  unsigned long error = ERR_peek_last_error();
  bool memory = error == 0 || ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
  const char *reason = weir_tls_reason();
  if (memory) return WEIR_NO_MEMORY;
  weir_message_set(message, "OpenSSL cannot be set up: %s", reason);
  return WEIR_BAD_URL;
}

static weir_status reject(const char *option, const char *path, const char *what,
                          weir_message *message) {
  unsigned long error = ERR_peek_last_error();
  bool memory = ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
  const char *reason = weir_tls_reason();
  if (memory) return WEIR_NO_MEMORY;
  weir_message_set(message, "%s=%.200s: %s (%s)", option, path, what, reason);
  return WEIR_BAD_URL;
}

/* Whoever names a certificate to trust trusts it, also when another one signed it. */
static weir_status trust(SSL_CTX *context, const char *path, weir_message *message) {
  ERR_clear_error();
  if (path == NULL)
    return SSL_CTX_set_default_verify_paths(context) == 1 ? WEIR_OK : give_up(message);
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  if (SSL_CTX_load_verify_file(context, path) == 1) return WEIR_OK;
  return reject("tls-ca", path, "not certificates in PEM form", message);
}

static weir_status show(SSL_CTX *context, const tls_files *files, weir_message *message) {
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

/* What stays the same whatever the URL says. A record may go out in part, and again from where the
 * output buffer has been moved to. Nothing is resumed, so no session is kept; what has come is read
 * with one call, and a server that ends without a farewell has hung up like any other. */
static void set_up(SSL_CTX *context, bool verifies) {
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_verify(context, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
}

static weir_status make_context(weir_tls *tls, const tls_files *files, weir_message *message) {
  ERR_clear_error();
  tls->context = SSL_CTX_new(TLS_client_method());
  if (tls->context == NULL) return give_up(message);
  tls->socket = weir_tls_socket_create();
  if (tls->socket == NULL || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1)
    return give_up(message);
  set_up(tls->context, tls->verifies);
  weir_status status = tls->verifies ? trust(tls->context, files->ca, message) : WEIR_OK;
  return status == WEIR_OK ? show(tls->context, files, message) : status;
}

weir_status weir_tls_open(const weir_url *url, bool secure, weir_tls **tls, weir_message *message) {
  tls_files files;
  *tls = NULL;
  if (!secure) return refuse_options(url, message);
  weir_tls *made = calloc(1, sizeof *made);
  if (made == NULL) return WEIR_NO_MEMORY;
  weir_status status = read_verify(url, made, message);
  if (status == WEIR_OK) status = read_name(url, made, message);
  if (status == WEIR_OK) status = read_files(url, made->verifies, &files, message);
  if (status == WEIR_OK) status = make_context(made, &files, message);
  if (status != WEIR_OK) {
    weir_tls_close(made);
    return status;
  }
  *tls = made;
  return WEIR_OK;
}

bool weir_tls_verifies(const weir_tls *tls) {
  return tls->verifies;
}

void weir_tls_close(weir_tls *tls) {
  if (tls == NULL) return;
  SSL_CTX_free(tls->context);
  BIO_meth_free(tls->socket);
  free(tls);
}
