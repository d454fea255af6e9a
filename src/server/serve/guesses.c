/* A table that is looked through: only wrong credentials, and first ones while there are such, ask. */
#include "serve/guesses.h"

#include <string.h>

#define FIRST_PAUSE_US INT64_C(10000)
#define LONGEST_PAUSE_US INT64_C(10000000)
#define FORGOTTEN_AFTER_US INT64_C(600000000) /* without another one */

void weir_guesses_init(weir_guesses *guesses) {
  memset(guesses, 0, sizeof *guesses);
  pthread_mutex_init(&guesses->lock, NULL);
}

void weir_guesses_free(weir_guesses *guesses) {
  pthread_mutex_destroy(&guesses->lock);
}

/* Who has one address of IPv6 has all of its /64. */
static void copy_network(const weir_peer *peer, unsigned char address[16]) {
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  bool is_v4 = memcmp(peer->address, mapped, sizeof mapped) == 0;
  memset(address, 0, 16);
  if (peer->has_address) memcpy(address, peer->address, is_v4 ? 16 : 8);
}

/* Its own entry; else the one to use for it: the free or the oldest one, which counts nothing then. */
static weir_guesser *find(weir_guesses *guesses, const unsigned char address[16], int64_t now_us) {
  weir_guesser *oldest = &guesses->guessers[0];
  for (size_t i = 0; i < WEIR_GUESSERS_MOST; i++) {
    weir_guesser *one = &guesses->guessers[i];
    if (one->count > 0 && now_us - one->until_us > FORGOTTEN_AFTER_US)
      *one = (weir_guesser){.count = 0};
    if (one->count > 0 && memcmp(one->address, address, 16) == 0) return one;
    if (one->until_us < oldest->until_us) oldest = one;
  }
  return oldest;
}

static bool is_of(const weir_guesser *one, const unsigned char address[16]) {
  return one->count > 0 && memcmp(one->address, address, 16) == 0;
}

int64_t weir_guesses_until(weir_guesses *guesses, const weir_peer *peer, int64_t now_us) {
  unsigned char address[16];
  copy_network(peer, address);
  pthread_mutex_lock(&guesses->lock);
  const weir_guesser *one = find(guesses, address, now_us);
  int64_t until_us = is_of(one, address) ? one->until_us : 0;
  pthread_mutex_unlock(&guesses->lock);
  return until_us;
}

void weir_guesses_note(weir_guesses *guesses, const weir_peer *peer, int64_t now_us) {
  unsigned char address[16];
  int64_t pause_us = FIRST_PAUSE_US;
  copy_network(peer, address);
  pthread_mutex_lock(&guesses->lock);
  weir_guesser *one = find(guesses, address, now_us);
  if (!is_of(one, address)) *one = (weir_guesser){.count = 0};
  memcpy(one->address, address, sizeof one->address);
  for (uint32_t i = 0; i < one->count && pause_us < LONGEST_PAUSE_US; i++)
    pause_us *= 2;
  one->count++;
  one->until_us = now_us + (pause_us < LONGEST_PAUSE_US ? pause_us : LONGEST_PAUSE_US);
  pthread_mutex_unlock(&guesses->lock);
}
