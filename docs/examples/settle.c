/* Takes what work is expected to cost, and settles what it really cost.
 *
 *     cc -std=c11 settle.c $(pkg-config --cflags --libs weir) -o settle
 *     printf 'alice 400 380\nalice 400 900\nalice 100 100\n' |
 *       ./settle memory: sliding-window:1000/1m,debt=300
 *
 * Every line of standard input is a key, an estimate, and what the work then costs: the last would
 * come from the work itself. A cost that was cut is charged nowhere: a service that sees much of it
 * estimates too low, or has too small a debt.
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static void serve(weir_limiter *limiter, const char *key, int64_t estimate, int64_t real) {
  weir_message why = {""};
  weir_decision taken;
  weir_status status = weir_limiter_take(limiter, key, strlen(key), estimate, &taken, &why);
  if (status == WEIR_OK && !taken.allowed) {
    printf("%s: denied, %lld left\n", key, (long long)taken.remaining);
    return;
  }
  /* Here the work is done. Its real cost is known now, however it ended. */
  if (status == WEIR_OK)
    status = weir_limiter_settle(limiter, key, strlen(key), real, &taken, &why);
  if (status != WEIR_OK)
    printf("%s: not settled: %s\n", key, why.text);
  else
    printf("%s: charged %lld, cut %lld\n", key, (long long)taken.cost,
           (long long)(real - taken.cost));
}

int main(int argc, char **argv) {
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_message why = {""};
  char line[512], key[256];
  long long estimate, real;

  if (argc != 3) {
    fprintf(stderr, "usage: %s URL RULE\n", argv[0]);
    return 2;
  }
  weir_status status = weir_store_open(argv[1], &store, &why);
  if (status == WEIR_OK) status = weir_limiter_create(store, argv[2], NULL, &limiter, &why);
  if (status != WEIR_OK) {
    fprintf(stderr, "%s\n", why.text);
    weir_store_close(store);
    return 1;
  }
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "%255s %lld %lld", key, &estimate, &real) == 3)
      serve(limiter, key, estimate, real);
    else
      fputs("accepted are lines of a key and two costs\n", stdout);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return 0;
}
