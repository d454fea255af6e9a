/* weight_take URL BATCH COUNT [denied]: decisions for weight.py to count the instructions of.
 *
 * Takes COUNT times from keys in turn, BATCH requests at once, inside weighed(); before that as often
 * outside, so that nothing is met for the first time. The clock stands still. With `denied` it is
 * one key that is over its limit, and what is known of it answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { BATCH_MOST = 64, KEYS = 64, KEY_BYTES = 16 };

static char keys[KEYS][KEY_BYTES];
static bool denied;

static bool take(weir_limiter *limiter, size_t batch, int count) {
  weir_request requests[BATCH_MOST];
  weir_decision decision;
  for (int done = 0; done < count; done += (int)batch) {
    if (batch == 1) {
      const char *key = keys[denied ? 0 : done % KEYS];
      if (weir_limiter_take(limiter, key, KEY_BYTES - 1, 1, &decision, NULL) != WEIR_OK ||
          decision.allowed == denied)
        return false;
      continue;
    }
    for (size_t i = 0; i < batch; i++)
      requests[i] = (weir_request){.key = keys[i], .key_length = KEY_BYTES - 1, .cost = 1};
    if (weir_limiter_decide(limiter, requests, batch, NULL) != WEIR_OK) return false;
    for (size_t i = 0; i < batch; i++)
      if (requests[i].status != WEIR_OK || requests[i].decision.allowed == denied) return false;
  }
  return true;
}

/* Each key to its limit. */
static bool fill(weir_limiter *limiter) {
  weir_decision decision;
  for (int i = 0; i < KEYS; i++)
    if (weir_limiter_take(limiter, keys[i], KEY_BYTES - 1, 1, &decision, NULL) != WEIR_OK)
      return false;
  return true;
}

bool weighed(weir_limiter *limiter, size_t batch, int count);

/* Not inlined, and found by its name. */
__attribute__((noinline)) bool weighed(weir_limiter *limiter, size_t batch, int count) {
  return take(limiter, batch, count);
}

/* In the middle of a cell, where it stays: at the end of one a decision reads more. */
static int64_t read_clock(void *context) {
  (void)context;
  return INT64_C(1700000220000000);
}

int main(int count, char **arguments) {
  weir_message why = {""};
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = {read_clock, NULL},
                                  .deadline_us = 30000000,
                                  .fallback = WEIR_FALLBACK_NONE};
  denied = count == 5 && strcmp(arguments[4], "denied") == 0;
  int batch = count == 4 || denied ? atoi(arguments[2]) : 0;
  if (batch < 1 || batch > BATCH_MOST) {
    fputs("usage: weight_take URL BATCH COUNT [denied]\n", stderr);
    return 2;
  }
  for (int i = 0; i < KEYS; i++)
    snprintf(keys[i], KEY_BYTES, "visitor-%07d", i);
  bool good = weir_store_open(arguments[1], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, denied ? "fixed-window:1/1h" : "sliding-window:1000000/1h",
                                  &options, &limiter, &why) == WEIR_OK &&
              (!denied || fill(limiter)) && take(limiter, (size_t)batch, atoi(arguments[3])) &&
              weighed(limiter, (size_t)batch, atoi(arguments[3]));
  if (!good) fprintf(stderr, "weight_take: no decision; %s\n", why.text);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return good ? 0 : 1;
}
