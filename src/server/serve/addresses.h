/* Clients by their addresses: how many connections each has, and which have shown wrong passwords or
 * tokens. Any thread; asked when a connection begins and ends, and when a credential is shown. */
#ifndef WEIR_SERVE_ADDRESSES_H
#define WEIR_SERVE_ADDRESSES_H

#include <pthread.h>
#include <sys/socket.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address without its port; IPv4 as IPv6 has it. The clients of a unix socket have none. */
typedef struct weir_client_address {
  bool is_known;
  unsigned char bytes[16];
} weir_client_address;

weir_client_address weir_client_address_of(const struct sockaddr *address);

enum { WEIR_CLIENT_ADDRESS_TEXT_BYTES = 64 };
/* "192.0.2.7", "2001:db8::1"; "127.0.0.1" of a unix socket, whose clients are on this host. */
void weir_client_address_write(const weir_client_address *client,
                               char text[WEIR_CLIENT_ADDRESS_TEXT_BYTES]);

/* --- connections ------------------------------------------------------------------------------ */

/* How many there are, in all and from each address. */
typedef struct weir_clients weir_clients;

/* NULL: no memory. */
weir_clients *weir_clients_create(size_t most);
void weir_clients_destroy(weir_clients *clients);

/* Another most, also below how many there are: they stay. False: no memory, and all as it was. */
bool weir_clients_resize(weir_clients *clients, size_t most);

/* False: there are too many, in all or from this address. */
bool weir_clients_enter(weir_clients *clients, const weir_client_address *client,
                        size_t most_of_one);
void weir_clients_leave(weir_clients *clients, const weir_client_address *client);

/* --- guesses ------------------------------------------------------------------------------------
 *
 * After each wrong credential of an address the next one waits longer before it is looked at. Right
 * ones wait as well: a guess that is answered at once would be known to be wrong. A connection that
 * has shown a good one does not wait. */

enum { WEIR_GUESSERS_MOST = 512 }; /* of more of them, those whose pause is over first go */

typedef struct weir_guesser {
  unsigned char network[16]; /* of IPv6 its /64; all zero: those of unix sockets */
  uint32_t count;            /* 0: free */
  int64_t until_us;
} weir_guesser;

typedef struct weir_guesses {
  pthread_mutex_t lock;
  weir_guesser guessers[WEIR_GUESSERS_MOST];
} weir_guesses;

void weir_guesses_init(weir_guesses *guesses);
void weir_guesses_free(weir_guesses *guesses);

/* Until when nothing that this address shows is looked at; what is over: nothing waits. */
int64_t weir_guesses_until(weir_guesses *guesses, const weir_client_address *client,
                           int64_t now_us);

/* It has shown a wrong one. */
void weir_guesses_note(weir_guesses *guesses, const weir_client_address *client, int64_t now_us);

#endif
