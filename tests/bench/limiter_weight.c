/* limiter_weight: the memory of a limiter that nobody has used, and of one that 100 keys have used; and
 * what a key takes of it, with a limit of its own and without, by 100,000 keys. Fails where such a limit takes
 * more than docs/changing-rules.md says.
 *
 * Prints malloc's own count of bytes (mallinfo2) for 100 limiters on one embedded store and one
 * more, divided by 100. The store's counters are not among it: they are read apart. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

enum { LIMITERS = 100, KEYS = 100, MANY_KEYS = 100000, RECORD_BYTES = 16 };

static _Noreturn void give_up(const char *what) {
  fprintf(stderr, "limiter_weight: %s\n", what);
  exit(1);
}

static size_t handed_out(void) {
  struct mallinfo2 books = mallinfo2();
  return books.uordblks + books.hblkhd;
}

static weir_limiter *limiters[LIMITERS];

static void create(weir_store *store, unsigned fallback) {
  weir_message why = {""};
  /* Whatever else the machine does, every key gets its entry. */
  weir_limiter_options options = {
      .size = sizeof options, .fallback = fallback, .deadline_us = 2000000};
  for (int i = 0; i < LIMITERS; i++)
    if (weir_limiter_create(store, "sliding-window:1000/1h", &options, &limiters[i], &why) !=
        WEIR_OK)
      give_up(why.text);
}

static void use(weir_limiter *limiter, int keys) {
  weir_decision decision;
  char key[24];
  for (int i = 0; i < keys; i++) {
    int length = snprintf(key, sizeof key, "visitor-%d", i);
    if (weir_limiter_take(limiter, key, (size_t)length, 1, &decision, NULL) != WEIR_OK)
      give_up("no decision");
  }
}

static void measure(weir_store *store, unsigned fallback, const char *title) {
  size_t before = handed_out();
  create(store, fallback);
  size_t created = handed_out();
  use(limiters[0], KEYS); /* makes what the store keeps: the same counters for all */
  size_t with_store = handed_out();
  for (int i = 1; i < LIMITERS; i++)
    use(limiters[i], KEYS);
  size_t used = handed_out();
  printf("%s: unused %.1f KB, used by %d keys %.1f KB\n", title,
         (double)(created - before) / LIMITERS / 1024, KEYS,
         (double)(created - before) / LIMITERS / 1024 +
             (double)(used - with_store) / (LIMITERS - 1) / 1024);
  for (int i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(limiters[i]);
}

/* Bytes. */
static double weigh_key(weir_store *store, const char *rule, int64_t limits_us) {
  weir_message why = {""};
  weir_limiter *limiter[2];
  size_t before = 0;
  weir_limiter_options options = {.size = sizeof options,
                                  .fallback = WEIR_FALLBACK_NONE,
                                  .deadline_us = 2000000,
                                  .memo_keys = 4 * MANY_KEYS, /* of its 64 parts none is full */
                                  .limits_us = limits_us};
  for (int i = 0; i < 2; i++) { /* the first makes what the store keeps */
    if (weir_limiter_create(store, rule, &options, &limiter[i], &why) != WEIR_OK) give_up(why.text);
    before = handed_out();
    use(limiter[i], MANY_KEYS);
  }
  double bytes = (double)(handed_out() - before) / MANY_KEYS;
  for (int i = 0; i < 2; i++)
    weir_limiter_destroy(limiter[i]);
  return bytes;
}

static void measure_keys(weir_store *store) {
  double plain = weigh_key(store, "sliding-window:1000/1h,name=plain", 0);
  double most = weigh_key(store, "sliding-window:1000/1h,name=most,most=1000", 0);
  double limits = weigh_key(store, "sliding-window:1000/1h,name=limits,most=1000", 1000000);
  printf("a key: %.1f bytes, with most= %.1f, and with limits of keys %.1f\n", plain, most, limits);
  if (limits > most + RECORD_BYTES + 1) give_up("a key with a limit takes more than it may");
}

int main(void) {
  weir_message why = {""};
  weir_store *store = NULL;
  if (weir_store_open("memory:", &store, &why) != WEIR_OK) give_up(why.text);
  measure_keys(store);
  measure(store, WEIR_FALLBACK_NONE, "fallback none ");
  measure(store, WEIR_FALLBACK_LOCAL, "fallback local");
  weir_store_close(store);
  return 0;
}
