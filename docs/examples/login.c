/* May this login be tried? Ten a minute from an address, five in ten minutes for an account; a login that
 * one of them denies counts for neither.
 *
 *     cc login.c $(pkg-config --cflags --libs weir) -o login
 *     ./login memcached://localhost 192.0.2.7 alice     exits with 0, 1 (wait) or 2 (no answer)
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

int main(int count, char **words) {
  static const char *const rules[] = {"sliding-window:10/1m,name=address",
                                      "sliding-window:5/10m,name=account"};
  weir_message message = {"usage: login STORE ADDRESS ACCOUNT"};
  weir_store *store = NULL;
  weir_limiter *limiters[2] = {NULL, NULL};
  weir_request requests[2] = {{.cost = 1}, {.cost = 1}};
  size_t denied_by = 2;
  weir_status status = count == 4 ? weir_store_open(words[1], &store, &message) : WEIR_BAD_ARGUMENT;
  for (int i = 0; i < 2 && status == WEIR_OK; i++) {
    requests[i].key = words[2 + i];
    requests[i].key_length = strlen(words[2 + i]);
    status = weir_limiter_create(store, rules[i], NULL, &limiters[i], &message);
  }
  if (status == WEIR_OK) status = weir_decide_all(limiters, requests, 2, &denied_by, &message);
  if (status != WEIR_OK)
    fprintf(stderr, "%s\n", message.text);
  else if (denied_by == 2)
    printf("go ahead\n");
  else
    printf("too many for %s: wait %lld s\n", words[2 + denied_by],
           (long long)(requests[denied_by].decision.retry_after_us / 1000000 + 1));
  for (int i = 0; i < 2; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
  return status != WEIR_OK ? 2 : denied_by < 2;
}
