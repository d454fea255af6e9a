/* limiter_weight: the memory of a limiter that nobody has used, and of one that 100 keys have used.
 *
 * Prints malloc's own count of bytes (mallinfo2) for 100 limiters on one embedded store and one
 * more, divided by 100. The store's counters are not among it: they are read apart. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

enum { LIMITERS = 100, KEYS = 100 };

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

static void use(weir_limiter *limiter) {
  weir_decision decision;
  char key[16];
  for (int i = 0; i < KEYS; i++) {
    int length = snprintf(key, sizeof key, "visitor-%d", i);
    if (weir_limiter_take(limiter, key, (size_t)length, 1, &decision, NULL) != WEIR_OK)
      give_up("no decision");
  }
}

static void measure(weir_store *store, unsigned fallback, const char *title) {
  size_t before = handed_out();
  create(store, fallback);
  size_t created = handed_out();
  use(limiters[0]); /* makes what the store keeps: the same counters for all */
  size_t with_store = handed_out();
  for (int i = 1; i < LIMITERS; i++)
    use(limiters[i]);
  size_t used = handed_out();
  printf("%s: unused %.1f KB, used by %d keys %.1f KB\n", title,
         (double)(created - before) / LIMITERS / 1024, KEYS,
         (double)(created - before) / LIMITERS / 1024 +
             (double)(used - with_store) / (LIMITERS - 1) / 1024);
  for (int i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(limiters[i]);
}

int main(void) {
  weir_message why = {""};
  weir_store *store = NULL;
  if (weir_store_open("memory:", &store, &why) != WEIR_OK) give_up(why.text);
  measure(store, WEIR_FALLBACK_NONE, "fallback none ");
  measure(store, WEIR_FALLBACK_LOCAL, "fallback local");
  weir_store_close(store);
  return 0;
}
