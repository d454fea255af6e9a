/* Sockets that listen: of this server's making, or handed over by systemd. */
#ifndef WEIR_SERVE_LISTEN_H
#define WEIR_SERVE_LISTEN_H

#include <sys/stat.h>

#include "config/config.h"

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

/* What a configuration says of this socket's listener; NULL: it has it no longer. */
const weir_config_listener *weir_socket_listener(const weir_socket *socket,
                                                 const weir_config *config);

/* Opens the first socket of a listener. False: `message` says why not; close it all the same. */
bool weir_socket_open(const weir_config_listener *listener, weir_socket *opened,
                      weir_message *message);

/* Whether a listener's credentials, or what it says of them, let it listen at this socket. False:
 * `message` says what is wanted. What the configuration names is looked at when it is read; what
 * systemd hands over is not known before. */
bool weir_socket_may_serve(const weir_socket *opened, const weir_config_listener *listener,
                           weir_message *message);

/* Another socket at the same TCP address; the kernel spreads connections over them. -1: errno. */
int weir_socket_again(const weir_socket *first);

/* Lets this process have so many open files, if its hard limit does; how many it may have. */
size_t weir_sockets_make_room(size_t wanted);

/* Clients that come now are refused, and do not wait in vain to be accepted. At a socket of systemd's
 * the next server will accept them. */
void weir_socket_stop(weir_socket *opened);

/* Closes it; the file goes, if it is still the one that was made. */
void weir_socket_close(weir_socket *opened);

#endif
