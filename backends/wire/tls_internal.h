/* What the files of TLS share. */
#ifndef WEIR_WIRE_TLS_INTERNAL_H
#define WEIR_WIRE_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "wire/tls.h"

enum { WEIR_TLS_NAME_MOST = 253 }; /* RFC 1035 */

struct weir_tls {
  SSL_CTX *context;
  BIO_METHOD *socket;                /* bytes come and go by the calls of socket.h */
  bool verifies;                     /* chain and name */
  char name[WEIR_TLS_NAME_MOST + 1]; /* in place of the host; empty: none given */
};

/* tls.c */
bool weir_tls_is_address(const char *name);
/* OpenSSL's newest reason, for people; empties the thread's queue of them. */
const char *weir_tls_reason(void);

/* tls_session.c */
BIO_METHOD *weir_tls_socket_create(void);

#endif
