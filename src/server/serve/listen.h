/* Sockets: those that listen, of this server's making or handed over by systemd, and their connections. */
#ifndef WEIR_SERVE_LISTEN_H
#define WEIR_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <weir/weir.h>

#include "config/config.h"
#include "registry/registry.h"

/* --- connections --------------------------------------------------------------------------------
 *
 * Bytes to and from one socket that never waits, with TLS or without; and what TLS needs of a
 * configuration. */

typedef struct weir_serve_tls weir_serve_tls;

/* Reads certificate, key and CA of a listener. NULL: `message` says what is wrong with which. */
weir_serve_tls *weir_serve_tls_create(const weir_config_listener *listener, weir_message *message);
/* They are counted: it goes with the last. NULL is fine for both. */
/* When its certificate ends, in seconds since 1970; 0: nobody can tell. */
int64_t weir_serve_tls_certificate_end_s(weir_serve_tls *tls);

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

/* --- sockets that listen ------------------------------------------------------------------------
 */

enum { WEIR_SOCKET_NAME_BYTES = 160 };

typedef struct weir_socket {
  int fd;
  weir_config_protocol protocol;
  char *listener;                    /* the address that the configuration gives it */
  bool is_shared;                    /* one for all loops; else each opens its own */
  int sign;                          /* says that no other server may join; -1: none */
  char name[WEIR_SOCKET_NAME_BYTES]; /* where it is, for people */
  struct sockaddr_storage address;   /* that it is bound to */
  socklen_t address_length;
  char *path; /* of a unix socket that was made here; else NULL */
  dev_t device;
  ino_t inode;
} weir_socket;

/* One that is not open yet, and may be closed. False: no memory. */
bool weir_socket_init(const weir_config_listener *listener, weir_socket *made);

/* The configuration of this socket's listener; NULL: it has it no longer. */
const weir_config_listener *weir_socket_listener(const weir_socket *socket,
                                                 const weir_config *config);

/* Opens the first socket of a listener. False: `message` says why not; close it all the same. */
bool weir_socket_open(const weir_config_listener *listener, weir_socket *opened,
                      weir_message *message);

/* Whether a listener's credentials, or what it says of them, let it listen at this socket. False:
 * `message` says what is wanted. The configuration's own listeners are looked at when it is read;
 * systemd's sockets are not known before. */
bool weir_socket_may_serve(const weir_socket *opened, const weir_config_listener *listener,
                           weir_message *message);

/* Connections that the kernel makes before they are accepted, at one socket: its backlog, and one. */
enum { WEIR_SOCKET_WAITING_MOST = 1025 };

/* Another socket at the same TCP address; the kernel spreads connections over them. -1: errno. */
int weir_socket_again(const weir_socket *first);

/* Lets this process have so many open files, if its hard limit does; how many it may have. */
size_t weir_sockets_make_room(size_t wanted);

/* How many it may have at present. */
int weir_sockets_most(void);

/* From here on no client of a TCP listener begins a connection: its kernel tries again a second later, at whoever
 * listens then. Those that have begun are made. */
void weir_socket_turn_deaf(int fd);

/* Clients that come now are refused, and do not wait in vain to be accepted. At a socket of systemd's
 * the next server will accept them. */
void weir_socket_stop(weir_socket *opened);

/* Closes it; the file goes, if it is still the one that was made. */
void weir_socket_close(weir_socket *opened);

#endif
