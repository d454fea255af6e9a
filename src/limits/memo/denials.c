#include "memo/denials.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES_LEAST = 8, CACHE_LINE_BYTES = 64, KEY_WORDS = sizeof(weir_key) / sizeof(uint64_t) };

/* What stands in a place, in words of 64 bits: all of them atomic, so that reading while somebody
 * writes is no race. */
enum { SEQUENCE, KEY, STEPS = KEY + KEY_WORDS, USED, TOLD_UNTIL, TOLD };
enum { TOLD_WORDS = sizeof(weir_decision) / sizeof(uint64_t), MEMO = TOLD + TOLD_WORDS };
_Static_assert(sizeof(weir_decision) % sizeof(uint64_t) == 0, "a decision is whole words");
_Static_assert(sizeof(weir_key) == (1 + WEIR_KEY_WORDS) * sizeof(uint64_t), "so is a key");

enum {
  AT = MEMO + offsetof(weir_memo, denied_at_us) / sizeof(uint64_t),
  UNTIL = MEMO + offsetof(weir_memo, denied_until_us) / sizeof(uint64_t)
};
_Static_assert(offsetof(weir_memo, denied_at_us) % sizeof(uint64_t) == 0 &&
                   offsetof(weir_memo, denied_until_us) % sizeof(uint64_t) == 0,
               "the times of a denial are words of the memo");

typedef _Atomic uint64_t word;

struct weir_denials {
  weir_denials *before; /* with fewer places; may still be read */
  size_t mask;          /* places, a power of two, less one */
  size_t memo_words;
  size_t place_words; /* whole cache lines */
  _Alignas(CACHE_LINE_BYTES) word words[];
};

/* A word that is read acquires, and one that is written releases, which costs nothing on most processors:
 * so the words stand between the two readings, and the two writings, of the sequence. */
static void set(word *to, uint64_t value) {
  atomic_store_explicit(to, value, memory_order_release);
}

/* Words are copied one by one, each at once. */
static void put_words(word *to, const void *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t value;
    memcpy(&value, (const char *)from + i * sizeof value, sizeof value);
    set(&to[i], value);
  }
}

/* Two in a step, as a denial that is told is little more than this. */
static void get_words(const word *from, void *to, size_t count) {
  size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    const uint64_t values[] = {from[i], from[i + 1]};
    memcpy((char *)to + i * sizeof *values, values, sizeof values);
  }
  if (i == count) return;
  uint64_t value = from[i];
  memcpy((char *)to + i * sizeof value, &value, sizeof value);
}

/* By other bits than those that pick a bucket. */
static word *place_of(weir_denials *denials, const weir_key *key) {
  return denials->words + (key->hash >> 40 & denials->mask) * denials->place_words;
}

static bool is_of(const word *place, const weir_key *key) {
  uint64_t differ = place[KEY] ^ key->hash;
  for (int i = 0; i < WEIR_KEY_WORDS; i++)
    differ |= place[KEY + 1 + i] ^ key->words[i];
  return differ == 0;
}

/* Makes so many places instead of `before`. Those of before are written again as their keys are
 * decided: denials last for a fraction of a second. Of threads that do so at once one has its own
 * kept. */
static void add_places(weir_denials_place *at, weir_denials *before, size_t places,
                       size_t memo_words) {
  size_t lines = ((MEMO + memo_words) * sizeof(word) + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES;
  size_t bytes = sizeof(weir_denials) + places * lines * CACHE_LINE_BYTES;
  weir_denials *made = aligned_alloc(CACHE_LINE_BYTES, bytes);
  if (made == NULL) return;
  memset(made, 0, bytes); /* no other thread has it yet */
  made->before = before;
  made->mask = places - 1;
  made->memo_words = memo_words;
  made->place_words = lines * CACHE_LINE_BYTES / sizeof(word);
  if (!atomic_compare_exchange_strong(at, &before, made)) free(made);
}

void weir_denials_destroy(weir_denials_place *place) {
  for (weir_denials *denials = *place, *before; denials != NULL; denials = before) {
    before = denials->before;
    free(denials);
  }
  *place = NULL;
}

void weir_denials_begin(weir_denials_place *at, size_t memo_bytes) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_relaxed);
  if (denials != NULL || memo_bytes > sizeof(weir_denial)) return;
  add_places(at, denials, PLACES_LEAST, memo_bytes / sizeof(word));
}

/* The place of a key that is denied; where another key holds it, in twice as many if there may be
 * so many. */
static word *find_place(weir_denials_place *at, weir_denials *denials, const weir_key *key,
                        const weir_memo *memo, size_t most) {
  word *place = place_of(denials, key);
  size_t places = 2 * (denials->mask + 1);
  if (is_of(place, key) || (int64_t)place[UNTIL] <= memo->denied_at_us || places > most)
    return place;
  add_places(at, denials, places, denials->memo_words);
  return place_of(atomic_load_explicit(at, memory_order_acquire), key);
}

/* That of another key, if it just took the place, is lost as well. */
void weir_denials_forget(weir_denials_place *at, const weir_key *key) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_acquire);
  if (denials == NULL) return;
  word *place = place_of(denials, key);
  if (!is_of(place, key)) return;
  set(&place[UNTIL], 0);
  set(&place[TOLD_UNTIL], 0);
}

void weir_denials_write(weir_denials_place *at, const weir_key *key, unsigned clock_steps,
                        const weir_memo *memo, const weir_decision *told, size_t most) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_acquire);
  if (denials == NULL) return;
  if (memo->denied_cost == 0) {
    weir_denials_forget(at, key);
    return;
  }
  word *place = find_place(at, denials, key, memo, most);
  uint64_t sequence = place[SEQUENCE];
  if (sequence % 2 != 0 ||
      !atomic_compare_exchange_strong(&place[SEQUENCE], &sequence, sequence + 1))
    return; /* another key is being written here */
  put_words(&place[KEY], key, KEY_WORDS);
  set(&place[STEPS], clock_steps);
  int64_t until_us = told != NULL ? told->at_us + told->retry_after_us : 0;
  if (until_us > memo->denied_until_us) until_us = memo->denied_until_us;
  set(&place[TOLD_UNTIL], (uint64_t)until_us);
  if (told != NULL) put_words(&place[TOLD], told, TOLD_WORDS);
  put_words(&place[MEMO], memo, denials->memo_words);
  set(&place[SEQUENCE], sequence + 2);
}

bool weir_denials_has(const weir_denials_place *at, const weir_key *key) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_acquire);
  return denials != NULL && place_of(denials, key)[KEY] == key->hash;
}

weir_denial_answer weir_denials_read(const weir_denials_place *at, const weir_key *key,
                                     unsigned clock_steps, int64_t now_us, weir_denial *copy,
                                     weir_decision *told) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_acquire);
  if (denials == NULL) return WEIR_DENIAL_NONE;
  word *place = place_of(denials, key);
  uint64_t sequence = place[SEQUENCE] & ~UINT64_C(1); /* odd: equals no later reading */
  if (!is_of(place, key) || place[STEPS] != clock_steps || now_us < (int64_t)place[AT])
    return WEIR_DENIAL_NONE;
  bool tells = told != NULL && now_us < (int64_t)place[TOLD_UNTIL];
  if (!tells && (copy == NULL || now_us >= (int64_t)place[UNTIL])) return WEIR_DENIAL_NONE;
  weir_decision read; /* `told` is the caller's: written once this is known to be whole */
  if (tells)
    get_words(&place[TOLD], &read, TOLD_WORDS);
  else
    get_words(&place[MEMO], copy->bytes, denials->memo_words);
  if (place[SEQUENCE] != sequence) return WEIR_DENIAL_NONE;
  if (place[USED] == 0) set(&place[USED], 1);
  if (!tells) return WEIR_DENIAL_MEMO;
  int64_t passed_us = now_us - read.at_us;
  read.retry_after_us -= passed_us;
  read.reset_after_us -= passed_us; /* what denies counts for longer than it denies */
  read.at_us = now_us;
  *told = read;
  return WEIR_DENIAL_TOLD;
}

bool weir_denials_used(const weir_denials_place *at, const weir_key *key) {
  weir_denials *denials = atomic_load_explicit(at, memory_order_acquire);
  if (denials == NULL) return false;
  word *place = place_of(denials, key);
  if (!is_of(place, key) || place[USED] == 0) return false;
  set(&place[USED], 0);
  return true;
}
