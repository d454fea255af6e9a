/* Clients by their addresses.
 *
 * Connections are counted in a hash table that has room for as many addresses as there may be
 * connections. Guessers stand in a short array that is looked through: for wrong credentials, and for
 * right ones that a connection shows first. */
#include "keep/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "table.h"

#define FIRST_PAUSE_US INT64_C(10000)
#define LONGEST_PAUSE_US INT64_C(10000000)
#define FORGOTTEN_AFTER_US INT64_C(600000000) /* without another one */
/* Different ones of an address: so many at once, and one more in each of so many microseconds. */
enum { GUESSES_AT_ONCE = 1000 };
#define GUESS_US INT64_C(10000000)

/* An address of IPv4 begins with these bytes where it stands as one of IPv6. */
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
  uint64_t count;
} entry;

struct weir_clients {
  pthread_mutex_t lock;
  size_t count, most;
  weir_hash_table entries; /* by address; has room for `most` */
};

static bool is_of(const void *nothing, const void *item, const void *address) {
  const entry *one = item;
  (void)nothing;
  return memcmp(one->address, address, sizeof one->address) == 0;
}

weir_clients *weir_clients_create(size_t most) {
  weir_clients *clients = calloc(1, sizeof *clients);
  if (clients == NULL) return NULL;
  weir_hash_table_init(&clients->entries, sizeof(entry), is_of, NULL);
  if (!weir_hash_table_fit(&clients->entries, most)) {
    free(clients);
    return NULL;
  }
  clients->most = most;
  pthread_mutex_init(&clients->lock, NULL);
  return clients;
}

void weir_clients_destroy(weir_clients *clients) {
  if (clients == NULL) return;
  pthread_mutex_destroy(&clients->lock);
  weir_hash_table_clean_up(&clients->entries);
  free(clients);
}

bool weir_clients_resize(weir_clients *clients, size_t most) {
  pthread_mutex_lock(&clients->lock);
  bool resized =
      most == clients->most ||
      weir_hash_table_fit(&clients->entries, most > clients->count ? most : clients->count);
  if (resized) clients->most = most;
  pthread_mutex_unlock(&clients->lock);
  return resized;
}

static bool is_counted(const weir_client_address *client) {
  return client->is_known && !client->is_proxy;
}

bool weir_clients_enter(weir_clients *clients, const weir_client_address *client,
                        size_t most_of_one) {
  pthread_mutex_lock(&clients->lock);
  bool entered = clients->count < clients->most;
  if (entered && is_counted(client)) {
    uint32_t mark = weir_hash_table_mark(&clients->entries, client->bytes, sizeof client->bytes);
    entry *one = weir_hash_table_find(&clients->entries, mark, client->bytes);
    if (one == NULL && most_of_one > 0) {
      one = weir_hash_table_add(&clients->entries, mark);
      if (one != NULL) memcpy(one->address, client->bytes, sizeof one->address);
    }
    entered = one != NULL && one->count < most_of_one;
    if (entered) one->count++;
  }
  if (entered) clients->count++;
  pthread_mutex_unlock(&clients->lock);
  return entered;
}

void weir_clients_leave(weir_clients *clients, const weir_client_address *client) {
  pthread_mutex_lock(&clients->lock);
  clients->count--;
  if (is_counted(client)) {
    uint32_t mark = weir_hash_table_mark(&clients->entries, client->bytes, sizeof client->bytes);
    entry *one = weir_hash_table_find(&clients->entries, mark, client->bytes);
    if (--one->count == 0) weir_hash_table_remove(&clients->entries, one);
  }
  pthread_mutex_unlock(&clients->lock);
}

/* --- guesses ---------------------------------------------------------------------------------- */

void weir_guesses_init(weir_guesses *guesses) {
  memset(guesses, 0, sizeof *guesses);
  pthread_mutex_init(&guesses->lock, NULL);
  weir_random_secret(guesses->secret);
  guesses->remembered = calloc(WEIR_GUESSERS_MOST, sizeof *guesses->remembered);
}

void weir_guesses_free(weir_guesses *guesses) {
  pthread_mutex_destroy(&guesses->lock);
  free(guesses->remembered);
}

uint64_t weir_guesses_mark(const weir_guesses *guesses, uint64_t before, const char *bytes,
                           size_t length) {
  const uint64_t parts[2] = {before, weir_hash_64(guesses->secret, bytes, length)};
  return weir_hash_64(guesses->secret, parts, sizeof parts);
}

/* The client's own entry. Where it has none: NULL, or with `makes` one that counts nothing yet, in place of
 * a free one or of the one that has spent least. A client that has one address of IPv6 has all of its /64. */
static weir_guesser *find_guesser(weir_guesses *guesses, const weir_client_address *client,
                                  int64_t now_us, bool makes) {
  weir_guesser wanted = {.count = 0};
  weir_guesser *least = &guesses->guessers[0];
  bool is_v4 = memcmp(client->bytes, mapped, sizeof mapped) == 0;
  if (client->is_known) memcpy(wanted.network, client->bytes, is_v4 ? 16 : 8);
  for (size_t i = 0; i < WEIR_GUESSERS_MOST; i++) {
    weir_guesser *one = &guesses->guessers[i];
    if (one->count > 0 && now_us - one->last_us > FORGOTTEN_AFTER_US &&
        now_us > one->spent_until_us)
      *one = (weir_guesser){.count = 0};
    if (one->count > 0 && memcmp(one->network, wanted.network, sizeof wanted.network) == 0)
      return one;
    if (one->spent_until_us < least->spent_until_us) least = one;
  }
  if (!makes) return NULL;
  *least = wanted;
  return least;
}

static uint64_t *remembered_of(const weir_guesses *guesses, const weir_guesser *one) {
  return guesses->remembered[one - guesses->guessers];
}

/* Whether it is one of the last wrong ones of this client. */
static bool is_remembered(const weir_guesses *guesses, const weir_guesser *one, uint64_t mark) {
  uint32_t count =
      one->different < WEIR_GUESSES_REMEMBERED ? one->different : WEIR_GUESSES_REMEMBERED;
  for (uint32_t i = 0; guesses->remembered != NULL && i < count; i++)
    if (remembered_of(guesses, one)[i] == mark) return true;
  return false;
}

int64_t weir_guesses_until(weir_guesses *guesses, const weir_client_address *client, uint64_t mark,
                           int64_t now_us) {
  pthread_mutex_lock(&guesses->lock);
  const weir_guesser *one = find_guesser(guesses, client, now_us, false);
  int64_t until_us = one != NULL && !is_remembered(guesses, one, mark)
                         ? one->spent_until_us - (GUESSES_AT_ONCE - 1) * GUESS_US
                         : 0;
  pthread_mutex_unlock(&guesses->lock);
  return until_us;
}

int64_t weir_guesses_note(weir_guesses *guesses, const weir_client_address *client, uint64_t mark,
                          int64_t now_us) {
  int64_t pause_us = FIRST_PAUSE_US;
  pthread_mutex_lock(&guesses->lock);
  weir_guesser *one = find_guesser(guesses, client, now_us, true);
  for (uint32_t i = 0; i < one->count && pause_us < LONGEST_PAUSE_US; i++)
    pause_us *= 2;
  one->count++;
  one->last_us = now_us;
  if (!is_remembered(guesses, one, mark)) {
    if (guesses->remembered != NULL)
      remembered_of(guesses, one)[one->different % WEIR_GUESSES_REMEMBERED] = mark;
    one->different++;
    if (one->spent_until_us < now_us) one->spent_until_us = now_us;
    one->spent_until_us += GUESS_US;
  }
  pthread_mutex_unlock(&guesses->lock);
  return pause_us < LONGEST_PAUSE_US ? pause_us : LONGEST_PAUSE_US;
}
