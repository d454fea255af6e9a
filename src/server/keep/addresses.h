/* Clients by their addresses: how many connections each has, and which have shown wrong passwords or
 * tokens. Any thread; asked when a connection begins and ends, and when a credential is shown. */
#ifndef WEIR_KEEP_ADDRESSES_H
#define WEIR_KEEP_ADDRESSES_H

#include <pthread.h>
#include <sys/socket.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"

/* An address without its port; IPv4 as IPv6 has it. The clients of a unix socket have none. */
typedef struct weir_client_address {
  bool is_known;
  bool is_proxy; /* it speaks for many clients: its connections are not counted as those of one */
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
 * A credential is looked at when it is shown, and a right one is answered at once. The refusal of a
 * wrong one is paused, longer after each of its address: that slows the client that shows it and no
 * other. The bound on those who guess is how many different wrong ones an address may show: some at
 * once, and one more in each of so many seconds. Beyond that nothing is looked at that has not been
 * seen, right or not: an answer at once would be one more guess. A wrong one that is shown again
 * tells nobody anything, so one client that cannot know better never holds up the others of its
 * address. */

enum { WEIR_GUESSERS_MOST = 512 };     /* of more of them, those that have spent least go first */
enum { WEIR_GUESSES_REMEMBERED = 64 }; /* of each, the last */

typedef struct weir_guesser {
  unsigned char network[16]; /* of IPv6 its /64; all zero: those of unix sockets */
  uint32_t count;            /* 0: free */
  uint32_t different;        /* of them */
  int64_t last_us;
  int64_t spent_until_us; /* as GCRA's theoretical time of arrival */
} weir_guesser;

typedef struct weir_guesses {
  pthread_mutex_t lock;
  unsigned char secret[WEIR_HASH_SECRET_BYTES];
  weir_guesser guessers[WEIR_GUESSERS_MOST];
  uint64_t (*remembered)[WEIR_GUESSES_REMEMBERED]; /* marks of each; NULL: no memory */
} weir_guesses;

void weir_guesses_init(weir_guesses *guesses);
void weir_guesses_free(weir_guesses *guesses);

/* A mark that stands for a credential: made of its parts, one after another; 0 before the first. */
uint64_t weir_guesses_mark(const weir_guesses *guesses, uint64_t before, const char *bytes,
                           size_t length);

/* Until when this one of this address is not looked at; what is over: it may be. */
int64_t weir_guesses_until(weir_guesses *guesses, const weir_client_address *client, uint64_t mark,
                           int64_t now_us);

/* It was wrong. How long its refusal is paused. */
int64_t weir_guesses_note(weir_guesses *guesses, const weir_client_address *client, uint64_t mark,
                          int64_t now_us);

#endif
