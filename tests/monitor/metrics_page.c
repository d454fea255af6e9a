/* metrics_page URL URL: takes a little on two stores, with names that need care, and prints the
 * page. */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

enum { STORES = 2 };

static int write_to(void *file, const char *text, size_t length) {
  return fwrite(text, 1, length, file) == length ? 0 : 1;
}

static bool use(const char *url, weir_store **store, weir_limiter **limiter, weir_message *why) {
  weir_decision decision;
  if (weir_store_open(url, store, why) != WEIR_OK) return false;
  if (weir_limiter_create(*store, "sliding-window:3/1h", NULL, limiter, why) != WEIR_OK)
    return false;
  for (int i = 0; i < 5; i++)
    if (weir_limiter_take(*limiter, "secret-key", 10, 1, &decision, why) != WEIR_OK) return false;
  return true;
}

int main(int argc, char **argv) {
  static const char *const names[STORES] = {"counts", "a \"b\" \\ c\n\xc3\xa9"};
  weir_store *stores[STORES] = {NULL};
  weir_limiter *limiters[STORES] = {NULL};
  weir_monitor_source sources[STORES];
  weir_message why = {""};
  bool right = argc == 1 + STORES;
  for (int i = 0; i < STORES && right; i++) {
    right = use(argv[1 + i], &stores[i], &limiters[i], &why);
    sources[i] = (weir_monitor_source){names[i], limiters[i], stores[i]};
  }
  right = right && weir_monitor_prometheus(sources, STORES, write_to, stdout, &why) == WEIR_OK;
  for (int i = 0; i < STORES; i++) {
    weir_limiter_destroy(limiters[i]);
    weir_store_close(stores[i]);
  }
  if (!right) fprintf(stderr, "metrics_page: %s\n", why.text);
  return right ? 0 : 1;
}
