/* A hash table that only grows: it is read without a lock, and one thread at a time adds to it. */
#include "registry/details.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "registry/keymap.h"

enum { SLOTS = 2048 };
_Static_assert(SLOTS > 2 * WEIR_DETAILS_MOST, "one in two is empty");

struct weir_details {
  pthread_mutex_t lock;
  _Atomic size_t count;                       /* of those listed, */
  weir_detail *listed[WEIR_DETAILS_MOST + 1]; /* of which the first is "other" */
  _Atomic(weir_detail *) slots[SLOTS];
};

static weir_detail *make(const char *path, size_t length) {
  weir_detail *made = calloc(1, sizeof *made + length + 1);
  if (made == NULL) return NULL;
  made->length = length;
  memcpy(made->path, path, length);
  return made;
}

weir_details *weir_details_create(void) {
  static const char other[] = "other"; /* no path, as these have a '=' */
  weir_details *details = calloc(1, sizeof *details);
  if (details == NULL) return NULL;
  details->listed[0] = make(other, sizeof other - 1);
  atomic_init(&details->count, 1);
  if (details->listed[0] != NULL && pthread_mutex_init(&details->lock, NULL) == 0) return details;
  free(details->listed[0]);
  free(details);
  return NULL;
}

void weir_details_destroy(weir_details *details) {
  if (details == NULL) return;
  for (size_t i = 0; i < atomic_load(&details->count); i++)
    free(details->listed[i]);
  pthread_mutex_destroy(&details->lock);
  free(details);
}

/* Where it stands, or would. */
static _Atomic(weir_detail *) *find_slot(weir_details *details, const char *path, size_t length) {
  for (size_t at = weir_registry_hash(path, length) % SLOTS;; at = (at + 1) % SLOTS) {
    const weir_detail *there = atomic_load_explicit(&details->slots[at], memory_order_acquire);
    if (there == NULL || (there->length == length && memcmp(there->path, path, length) == 0))
      return &details->slots[at];
  }
}

/* With the lock: another thread may have been first. */
static weir_detail *add(weir_details *details, const char *path, size_t length) {
  size_t count = atomic_load_explicit(&details->count, memory_order_relaxed);
  _Atomic(weir_detail *) *slot = find_slot(details, path, length);
  weir_detail *there = atomic_load_explicit(slot, memory_order_relaxed);
  if (there != NULL || count > WEIR_DETAILS_MOST) return there;
  there = make(path, length);
  if (there == NULL) return NULL;
  details->listed[count] = there;
  atomic_store_explicit(&details->count, count + 1, memory_order_release);
  atomic_store_explicit(slot, there, memory_order_release);
  return there;
}

weir_detail *weir_details_find(weir_details *details, const char *path, size_t length) {
  if (length > WEIR_DETAIL_BYTES) return details->listed[0];
  weir_detail *found = atomic_load_explicit(find_slot(details, path, length), memory_order_acquire);
  if (found != NULL) return found;
  if (atomic_load_explicit(&details->count, memory_order_relaxed) <= WEIR_DETAILS_MOST) {
    pthread_mutex_lock(&details->lock);
    found = add(details, path, length);
    pthread_mutex_unlock(&details->lock);
  }
  return found != NULL ? found : details->listed[0];
}

const weir_detail *weir_details_at(const weir_details *details, size_t index) {
  size_t count = atomic_load_explicit(&details->count, memory_order_acquire);
  return index < count ? details->listed[index] : NULL;
}
