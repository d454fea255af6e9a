/* Bytes to and from one socket that never waits, with TLS or without; and what TLS needs of a
 * configuration. */
#ifndef WEIR_SERVE_TRANSPORT_H
#define WEIR_SERVE_TRANSPORT_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "registry/registry.h"

typedef struct weir_serve_tls weir_serve_tls;

/* Reads certificate, key and CA of a listener. NULL: `message` says what is wrong with which. */
weir_serve_tls *weir_serve_tls_create(const weir_config_listener *listener, weir_message *message);
/* They are counted: it goes with the last. NULL is fine for both. */
weir_serve_tls *weir_serve_tls_retain(weir_serve_tls *tls);
void weir_serve_tls_destroy(weir_serve_tls *tls);

/* A fault for each listener whose certificate, key or CA cannot be used. */
weir_registry_look weir_certificates_look;

typedef struct weir_transport {
  int fd;
  void *session;      /* of TLS; NULL: none */
  bool reads_to_send; /* TLS must receive before it can send more */
  bool sends_to_read; /* and the other way round */
} weir_transport;

/* Takes the socket over. False: no memory; it is still the caller's. */
bool weir_transport_open(weir_transport *transport, int fd, weir_serve_tls *tls);
void weir_transport_close(weir_transport *transport);

/* As recv() and send() on a socket that does not wait: 0 of receive is the end, -1 with EAGAIN is
 * "not now", -1 otherwise is the end as well. */
ssize_t weir_transport_receive(weir_transport *transport, char *bytes, size_t room);
ssize_t weir_transport_send(weir_transport *transport, const char *bytes, size_t length);

/* Nothing more will be sent. */
void weir_transport_finish(weir_transport *transport);

#endif
