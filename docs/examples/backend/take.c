/* take URL RULE KEY...: one decision for each key, on the backend of mapped.c.
 *
 *     ./take mapped:///dev/shm/limits fixed-window:2/1h alice alice alice
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

#include "mapped.h"

static bool take_all(weir_limiter *limiter, char **keys, weir_message *why) {
  for (; *keys != NULL; keys++) {
    weir_decision decision;
    if (weir_limiter_take(limiter, *keys, strlen(*keys), 1, &decision, why) != WEIR_OK)
      return false;
    printf("%s: %s, %lld left\n", *keys, decision.allowed ? "allowed" : "denied",
           (long long)decision.remaining);
  }
  return true;
}

int main(int argc, char **argv) {
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_message why = {"usage: take URL RULE KEY..."};
  bool good = argc > 3 &&
              weir_store_open_backend(&mapped_backend, argv[1], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, argv[2], NULL, &limiter, &why) == WEIR_OK &&
              take_all(limiter, argv + 3, &why);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (!good) fprintf(stderr, "%s\n", why.text);
  return good ? 0 : 2;
}
