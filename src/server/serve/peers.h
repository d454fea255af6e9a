/* How many connections there are, in all and from each address. Any thread; asked when a connection
 * begins and ends, at no other time. */
#ifndef WEIR_SERVE_PEERS_H
#define WEIR_SERVE_PEERS_H

#include <sys/socket.h>

#include <stdbool.h>
#include <stddef.h>

/* An address without its port; IPv4 as IPv6 has it. A unix socket's peers have none. */
typedef struct weir_peer {
  bool has_address;
  unsigned char address[16];
} weir_peer;

weir_peer weir_peer_of(const struct sockaddr *address);

enum { WEIR_PEER_TEXT_BYTES = 64 };
/* "192.0.2.7", "2001:db8::1"; "127.0.0.1" of a unix socket, whose peers are on this host. */
void weir_peer_text(const weir_peer *peer, char text[WEIR_PEER_TEXT_BYTES]);

typedef struct weir_peers weir_peers;

/* NULL: no memory. */
weir_peers *weir_peers_create(size_t most);
void weir_peers_destroy(weir_peers *peers);

/* Another most, also below how many there are: they stay. False: no memory, and all as it was. */
bool weir_peers_resize(weir_peers *peers, size_t most);

/* False: there are too many, in all or from this address. */
bool weir_peers_enter(weir_peers *peers, const weir_peer *peer, size_t most_of_one);
void weir_peers_leave(weir_peers *peers, const weir_peer *peer);

#endif
