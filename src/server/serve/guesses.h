/* Who has shown wrong passwords or tokens, by address: each time the next one waits longer before it
 * is looked at. Right ones wait as well, as nobody could tell who guesses otherwise; a connection that
 * is in already does not. Any thread. */
#ifndef WEIR_SERVE_GUESSES_H
#define WEIR_SERVE_GUESSES_H

#include <pthread.h>
#include <stdint.h>

#include "serve/peers.h"

enum { WEIR_GUESSERS_MOST = 512 }; /* of more of them, those whose pause is over first go */

typedef struct weir_guesser {
  unsigned char address[16]; /* of IPv6 its /64; all zero: those of unix sockets */
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
int64_t weir_guesses_until(weir_guesses *guesses, const weir_peer *peer, int64_t now_us);

/* It has shown a wrong one. */
void weir_guesses_note(weir_guesses *guesses, const weir_peer *peer, int64_t now_us);

#endif
