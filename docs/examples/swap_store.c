/* Swaps the store of a running program by changing one URL.
 *
 *     cc -std=c11 swap_store.c $(pkg-config --cflags --libs weir) -o swap_store
 *     printf 'alice\nalice\nstore memcached://localhost\nalice\n' |
 *       ./swap_store memory: sliding-window:2/1m
 *
 * Every line of standard input is a key to be limited, or "store URL". The new store and its
 * limiter are opened before the old ones go, so a bad URL changes nothing. Counts are not carried
 * over: after a swap a key is admitted once more what its rule allows.
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

struct place {
  weir_store *store;
  weir_limiter *limiter;
};

static void leave(struct place *place) {
  weir_limiter_destroy(place->limiter); /* first: it uses the store */
  weir_store_close(place->store);
  *place = (struct place){NULL, NULL};
}

static weir_status enter(struct place *place, const char *url, const char *rule,
                         weir_message *why) {
  struct place next = {NULL, NULL};
  weir_status status = weir_store_open(url, &next.store, why);
  if (status == WEIR_OK) status = weir_limiter_create(next.store, rule, NULL, &next.limiter, why);
  if (status != WEIR_OK) {
    leave(&next);
    return status;
  }
  leave(place);
  *place = next;
  return WEIR_OK;
}

static void ask(const struct place *place, const char *key) {
  weir_message why = {""};
  weir_decision decision;
  weir_status status = weir_limiter_take(place->limiter, key, strlen(key), 1, &decision, &why);
  if (status != WEIR_OK)
    printf("%s: no decision: %s\n", key, why.text);
  else
    printf("%s: %s, %lld left\n", key, decision.allowed ? "allowed" : "denied",
           (long long)decision.remaining);
}

int main(int argc, char **argv) {
  struct place place = {NULL, NULL};
  weir_message why = {""};
  char line[4096];

  if (argc != 3) {
    fprintf(stderr, "usage: %s URL RULE\n", argv[0]);
    return 2;
  }
  if (enter(&place, argv[1], argv[2], &why) != WEIR_OK) {
    fprintf(stderr, "%s\n", why.text);
    return 2;
  }
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "store ", 6) != 0) {
      ask(&place, line);
    } else if (enter(&place, line + 6, argv[2], &why) != WEIR_OK) {
      printf("store not changed: %s\n", why.text);
    } else {
      printf("store changed\n");
    }
  }
  leave(&place);
  return 0;
}
