/* A table of addresses with open addressing, with room for twice as many as may be. */
#include "serve/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

typedef struct entry {
  unsigned char address[16];
  size_t count; /* 0: free */
} entry;

struct weir_peers {
  pthread_mutex_t lock;
  size_t count, most;
  size_t mask;
  uint64_t seed; /* so that nobody can choose addresses that meet */
  entry *entries;
};

weir_peer weir_peer_of(const struct sockaddr *address) {
  weir_peer peer = {.has_address = true};
  if (address->sa_family == AF_INET6) {
    memcpy(peer.address, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
  } else if (address->sa_family == AF_INET) {
    memset(peer.address + 10, 0xff, 2);
    memcpy(peer.address + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
  } else {
    peer.has_address = false;
  }
  return peer;
}

void weir_peer_text(const weir_peer *peer, char text[WEIR_PEER_TEXT_BYTES]) {
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!peer->has_address)
    memcpy(text, "127.0.0.1", sizeof "127.0.0.1");
  else if (memcmp(peer->address, mapped, sizeof mapped) == 0)
    inet_ntop(AF_INET, peer->address + 12, text, WEIR_PEER_TEXT_BYTES);
  else
    inet_ntop(AF_INET6, peer->address, text, WEIR_PEER_TEXT_BYTES);
}

static size_t place_of(const weir_peers *peers, const unsigned char address[16]) {
  uint64_t halves[2];
  memcpy(halves, address, sizeof halves);
  uint64_t hash = (halves[0] ^ peers->seed) * UINT64_C(0x9e3779b97f4a7c15);
  hash = (hash ^ (hash >> 29) ^ halves[1]) * UINT64_C(0xbf58476d1ce4e5b9);
  return (size_t)(hash >> 32 ^ hash) & peers->mask;
}

/* The entry of an address, or the free one where it belongs. */
static size_t find(const weir_peers *peers, const unsigned char address[16]) {
  size_t i = place_of(peers, address);
  while (peers->entries[i].count > 0 && memcmp(peers->entries[i].address, address, 16) != 0)
    i = (i + 1) & peers->mask;
  return i;
}

/* Makes the table anew for so many. False: no memory. */
static bool make_room(weir_peers *peers, size_t most) {
  size_t room = 16;
  while (room < 2 * most)
    room *= 2;
  entry *old = peers->entries;
  size_t old_room = old != NULL ? peers->mask + 1 : 0;
  entry *entries = calloc(room, sizeof *entries);
  if (entries == NULL) return false;
  peers->entries = entries;
  peers->mask = room - 1;
  for (size_t i = 0; i < old_room; i++)
    if (old[i].count > 0) peers->entries[find(peers, old[i].address)] = old[i];
  free(old);
  return true;
}

weir_peers *weir_peers_create(size_t most) {
  weir_peers *peers = calloc(1, sizeof *peers);
  if (peers == NULL || !make_room(peers, most)) {
    free(peers);
    return NULL;
  }
  peers->most = most;
  if (getrandom(&peers->seed, sizeof peers->seed, GRND_NONBLOCK) != (ssize_t)sizeof peers->seed)
    peers->seed = (uintptr_t)peers;
  pthread_mutex_init(&peers->lock, NULL);
  return peers;
}

bool weir_peers_resize(weir_peers *peers, size_t most) {
  pthread_mutex_lock(&peers->lock);
  bool resized = most == peers->most || make_room(peers, most > peers->count ? most : peers->count);
  if (resized) peers->most = most;
  pthread_mutex_unlock(&peers->lock);
  return resized;
}

void weir_peers_destroy(weir_peers *peers) {
  if (peers == NULL) return;
  pthread_mutex_destroy(&peers->lock);
  free(peers->entries);
  free(peers);
}

/* Those behind a freed entry that would no longer be found move up. */
static void close_gap(weir_peers *peers, size_t gap) {
  for (size_t i = (gap + 1) & peers->mask; peers->entries[i].count > 0; i = (i + 1) & peers->mask) {
    size_t home = place_of(peers, peers->entries[i].address);
    if (((i - home) & peers->mask) < ((i - gap) & peers->mask)) continue;
    peers->entries[gap] = peers->entries[i];
    peers->entries[i].count = 0;
    gap = i;
  }
}

bool weir_peers_enter(weir_peers *peers, const weir_peer *peer, size_t most_of_one) {
  pthread_mutex_lock(&peers->lock);
  bool entered = peers->count < peers->most;
  if (entered && peer->has_address) {
    entry *one = &peers->entries[find(peers, peer->address)];
    entered = one->count < most_of_one;
    if (entered && one->count++ == 0) memcpy(one->address, peer->address, 16);
  }
  if (entered) peers->count++;
  pthread_mutex_unlock(&peers->lock);
  return entered;
}

void weir_peers_leave(weir_peers *peers, const weir_peer *peer) {
  pthread_mutex_lock(&peers->lock);
  peers->count--;
  if (peer->has_address) {
    size_t i = find(peers, peer->address);
    if (--peers->entries[i].count == 0) close_gap(peers, i);
  }
  pthread_mutex_unlock(&peers->lock);
}
