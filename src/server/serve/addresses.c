/* Clients by their addresses.
 *
 * Connections are counted in a table with open addressing, which has room for twice as many addresses
 * as there may be connections: a place is found in a step or two, and none is ever missing. Guessers
 * stand in a short array that is looked through: only wrong credentials ask, and first ones while
 * there are such. */
#include "serve/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_PAUSE_US INT64_C(10000)
#define LONGEST_PAUSE_US INT64_C(10000000)
#define FORGOTTEN_AFTER_US INT64_C(600000000) /* without another one */

/* What an address of IPv4 begins with where it stands as one of IPv6. */
static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

weir_client_address weir_client_address_of(const struct sockaddr *address) {
  weir_client_address client = {.is_known = true};
  if (address->sa_family == AF_INET6) {
    memcpy(client.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
  } else if (address->sa_family == AF_INET) {
    memcpy(client.bytes, mapped, sizeof mapped);
    memcpy(client.bytes + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
  } else {
    client.is_known = false;
  }
  return client;
}

void weir_client_address_write(const weir_client_address *client,
                               char text[WEIR_CLIENT_ADDRESS_TEXT_BYTES]) {
  if (!client->is_known)
    memcpy(text, "127.0.0.1", sizeof "127.0.0.1");
  else if (memcmp(client->bytes, mapped, sizeof mapped) == 0)
    inet_ntop(AF_INET, client->bytes + 12, text, WEIR_CLIENT_ADDRESS_TEXT_BYTES);
  else
    inet_ntop(AF_INET6, client->bytes, text, WEIR_CLIENT_ADDRESS_TEXT_BYTES);
}

/* --- connections ------------------------------------------------------------------------------ */

typedef struct entry {
  unsigned char address[16];
  size_t count; /* 0: free */
} entry;

struct weir_clients {
  pthread_mutex_t lock;
  size_t count, most;
  size_t mask;
  uint64_t seed; /* clients cannot choose addresses that meet */
  entry *entries;
};

static size_t place_of(const weir_clients *clients, const unsigned char address[16]) {
  uint64_t halves[2];
  memcpy(halves, address, sizeof halves);
  uint64_t hash = (halves[0] ^ clients->seed) * UINT64_C(0x9e3779b97f4a7c15);
  hash = (hash ^ (hash >> 29) ^ halves[1]) * UINT64_C(0xbf58476d1ce4e5b9);
  return (size_t)(hash >> 32 ^ hash) & clients->mask;
}

/* The entry of an address, or the free one where it belongs. */
static entry *find(const weir_clients *clients, const unsigned char address[16]) {
  size_t i = place_of(clients, address);
  while (clients->entries[i].count > 0 && memcmp(clients->entries[i].address, address, 16) != 0)
    i = (i + 1) & clients->mask;
  return &clients->entries[i];
}

/* Makes the table anew for so many. False: no memory. */
static bool make_room(weir_clients *clients, size_t most) {
  size_t room = 16;
  while (room < 2 * most)
    room *= 2;
  entry *old = clients->entries;
  size_t old_room = old != NULL ? clients->mask + 1 : 0;
  entry *entries = calloc(room, sizeof *entries);
  if (entries == NULL) return false;
  clients->entries = entries;
  clients->mask = room - 1;
  for (size_t i = 0; i < old_room; i++)
    if (old[i].count > 0) *find(clients, old[i].address) = old[i];
  free(old);
  return true;
}

weir_clients *weir_clients_create(size_t most) {
  weir_clients *clients = calloc(1, sizeof *clients);
  if (clients == NULL || !make_room(clients, most)) {
    free(clients);
    return NULL;
  }
  clients->most = most;
  ssize_t random = getrandom(&clients->seed, sizeof clients->seed, GRND_NONBLOCK);
  if (random != (ssize_t)sizeof clients->seed) clients->seed = (uintptr_t)clients;
  pthread_mutex_init(&clients->lock, NULL);
  return clients;
}

void weir_clients_destroy(weir_clients *clients) {
  if (clients == NULL) return;
  pthread_mutex_destroy(&clients->lock);
  free(clients->entries);
  free(clients);
}

bool weir_clients_resize(weir_clients *clients, size_t most) {
  pthread_mutex_lock(&clients->lock);
  bool resized =
      most == clients->most || make_room(clients, most > clients->count ? most : clients->count);
  if (resized) clients->most = most;
  pthread_mutex_unlock(&clients->lock);
  return resized;
}

bool weir_clients_enter(weir_clients *clients, const weir_client_address *client,
                        size_t most_of_one) {
  pthread_mutex_lock(&clients->lock);
  bool entered = clients->count < clients->most;
  if (entered && client->is_known) {
    entry *one = find(clients, client->bytes);
    entered = one->count < most_of_one;
    if (entered && one->count++ == 0) memcpy(one->address, client->bytes, 16);
  }
  if (entered) clients->count++;
  pthread_mutex_unlock(&clients->lock);
  return entered;
}

void weir_clients_leave(weir_clients *clients, const weir_client_address *client) {
  pthread_mutex_lock(&clients->lock);
  clients->count--;
  entry *one = client->is_known ? find(clients, client->bytes) : NULL;
  if (one != NULL && --one->count == 0) {
    /* Those behind the gap that would no longer be found move up. */
    entry *entries = clients->entries;
    size_t gap = (size_t)(one - entries);
    for (size_t i = (gap + 1) & clients->mask; entries[i].count > 0; i = (i + 1) & clients->mask) {
      size_t home = place_of(clients, entries[i].address);
      if (((i - home) & clients->mask) < ((i - gap) & clients->mask)) continue;
      entries[gap] = entries[i];
      entries[i].count = 0;
      gap = i;
    }
  }
  pthread_mutex_unlock(&clients->lock);
}

/* --- guesses ---------------------------------------------------------------------------------- */

void weir_guesses_init(weir_guesses *guesses) {
  memset(guesses, 0, sizeof *guesses);
  pthread_mutex_init(&guesses->lock, NULL);
}

void weir_guesses_free(weir_guesses *guesses) {
  pthread_mutex_destroy(&guesses->lock);
}

/* The client's own entry. Where it has none: NULL, or with `makes` one that counts nothing yet, in place of
 * a free one or of the one whose pause is over first. A client that has one address of IPv6 has all of
 * its /64. */
static weir_guesser *find_guesser(weir_guesses *guesses, const weir_client_address *client,
                                  int64_t now_us, bool makes) {
  weir_guesser wanted = {.count = 0};
  weir_guesser *oldest = &guesses->guessers[0];
  bool is_v4 = memcmp(client->bytes, mapped, sizeof mapped) == 0;
  if (client->is_known) memcpy(wanted.network, client->bytes, is_v4 ? 16 : 8);
  for (size_t i = 0; i < WEIR_GUESSERS_MOST; i++) {
    weir_guesser *one = &guesses->guessers[i];
    if (one->count > 0 && now_us - one->until_us > FORGOTTEN_AFTER_US)
      *one = (weir_guesser){.count = 0};
    if (one->count > 0 && memcmp(one->network, wanted.network, sizeof wanted.network) == 0)
      return one;
    if (one->until_us < oldest->until_us) oldest = one;
  }
  if (!makes) return NULL;
  *oldest = wanted;
  return oldest;
}

int64_t weir_guesses_until(weir_guesses *guesses, const weir_client_address *client,
                           int64_t now_us) {
  pthread_mutex_lock(&guesses->lock);
  const weir_guesser *one = find_guesser(guesses, client, now_us, false);
  int64_t until_us = one != NULL ? one->until_us : 0;
  pthread_mutex_unlock(&guesses->lock);
  return until_us;
}

void weir_guesses_note(weir_guesses *guesses, const weir_client_address *client, int64_t now_us) {
  int64_t pause_us = FIRST_PAUSE_US;
  pthread_mutex_lock(&guesses->lock);
  weir_guesser *one = find_guesser(guesses, client, now_us, true);
  for (uint32_t i = 0; i < one->count && pause_us < LONGEST_PAUSE_US; i++)
    pause_us *= 2;
  one->count++;
  one->until_us = now_us + (pause_us < LONGEST_PAUSE_US ? pause_us : LONGEST_PAUSE_US);
  pthread_mutex_unlock(&guesses->lock);
}
