/* Which reservations are open.
 *
 * A reservation's request holds a decision too. What is refunded by it is no longer there to cancel,
 * and one that is settled by it is over. It is known by its place in the caller's memory, which is compared and never read: the
 * caller may have done anything with it since. So key and stamp must fit as well, and of several
 * made in one place the last has it. A copy of the decision is not known.
 */
#include "limiter/reserved.h"

#include <string.h>

#include "limiter/limiter.h"

/* Decisions stand in requests, which are larger than 128 bytes. */
static weir_reservation **bucket_of(weir_limiter *limiter, const weir_decision *taken) {
  return &limiter->reserved[((uintptr_t)taken / 128) % WEIR_RESERVED_BUCKETS];
}

/* Takes out the reservation in this place; NULL: there is none. The table is locked. */
static weir_reservation *unlink_taken(weir_limiter *limiter, const weir_decision *taken) {
  weir_reservation **at = bucket_of(limiter, taken);
  while (*at != NULL && (*at)->taken != taken)
    at = &(*at)->next;
  weir_reservation *found = *at;
  if (found == NULL) return NULL;
  *at = found->next;
  found->taken = NULL;
  return found;
}

/* One that was made in the same place before is not open any more: its request is gone. */
void weir_reserved_open(weir_reservation *reservation, const weir_decision *taken) {
  weir_limiter *limiter = reservation->limiter;
  pthread_mutex_lock(&limiter->reserved_mutex);
  unlink_taken(limiter, taken);
  weir_reservation **bucket = bucket_of(limiter, taken);
  reservation->taken = taken;
  reservation->next = *bucket;
  *bucket = reservation;
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

void weir_reserved_close(weir_reservation *reservation) {
  weir_limiter *limiter = reservation->limiter;
  pthread_mutex_lock(&limiter->reserved_mutex);
  if (reservation->taken != NULL) unlink_taken(limiter, reservation->taken);
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

/* The open one that this is the decision of, or NULL. The table is locked. */
static weir_reservation *find_taken(weir_limiter *limiter, const weir_decision *taken,
                                    const void *key, size_t key_length) {
  weir_reservation *found = *bucket_of(limiter, taken);
  while (found != NULL && found->taken != taken)
    found = found->next;
  bool fits = found != NULL && found->at_us == taken->at_us && found->key_length == key_length &&
              memcmp(found->key, key, key_length) == 0;
  return fits ? found : NULL;
}

/* Where requests have places, a refund gives none back: the reservation, which knows its place, can
 * still be cancelled. */
void weir_reserved_take_off(weir_limiter *limiter, const weir_decision *taken, const void *key,
                            size_t key_length, int64_t cost) {
  pthread_mutex_lock(&limiter->reserved_mutex);
  weir_reservation *found = find_taken(limiter, taken, key, key_length);
  for (size_t i = 0; found != NULL && i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    bool stays = taken->delay_us > 0 && weir_rule_moves_in_time(rule);
    if (!stays && !weir_rule_gives_places(rule)) found->costs[i] -= cost;
  }
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

void weir_reserved_end(weir_limiter *limiter, const weir_decision *taken, const void *key,
                       size_t key_length) {
  pthread_mutex_lock(&limiter->reserved_mutex);
  weir_reservation *found = find_taken(limiter, taken, key, key_length);
  if (found != NULL) {
    found->state = WEIR_RESERVATION_SETTLED;
    unlink_taken(limiter, taken);
  }
  pthread_mutex_unlock(&limiter->reserved_mutex);
}
