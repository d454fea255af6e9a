/* weight_take URL BATCH COUNT [KIND]: decisions for weight.py to count the instructions of.
 *
 * Takes COUNT times from keys in turn, BATCH requests at once, inside weighed(); before that as often
 * outside, so that nothing is met for the first time. The clock stands still. With a kind of `kinds`
 * it is one key: over its limit, where what is known of it answers; or leased, where each request uses
 * of what is held, as so many came before that it lasts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { BATCH_MOST = 64, KEYS = 64, KEY_BYTES = 16, LEASED_BEFORE = 50000 };

typedef struct weight_kind {
  const char *name, *rule;
  int before; /* so many requests for its key come first */
  bool denied;
} weight_kind;

static const weight_kind plain = {.rule = "sliding-window:1000000/1h"};
static const weight_kind kinds[] = {
    {"denied", "fixed-window:1/1h", 1, true},
    {"leased_window", "sliding-window:1000000000/1h,lease=1s", LEASED_BEFORE, false},
    {"leased_bucket", "token-bucket:1000000000/1s,lease=250ms", LEASED_BEFORE, false},
    {"leased_denied", "sliding-window:1000/1h,lease=1s", LEASED_BEFORE, true},
};

static char keys[KEYS][KEY_BYTES];
static const weight_kind *kind = &plain;

static bool take(weir_limiter *limiter, size_t batch, int count) {
  weir_request requests[BATCH_MOST];
  weir_decision decision;
  for (int done = 0; done < count; done += (int)batch) {
    if (batch == 1) {
      const char *key = keys[kind != &plain ? 0 : done % KEYS];
      if (weir_limiter_take(limiter, key, KEY_BYTES - 1, 1, &decision, NULL) != WEIR_OK ||
          decision.allowed == kind->denied)
        return false;
      continue;
    }
    for (size_t i = 0; i < batch; i++)
      requests[i] = (weir_request){.key = keys[i], .key_length = KEY_BYTES - 1, .cost = 1};
    if (weir_limiter_decide(limiter, requests, batch, NULL) != WEIR_OK) return false;
    for (size_t i = 0; i < batch; i++)
      if (requests[i].status != WEIR_OK || requests[i].decision.allowed == kind->denied)
        return false;
  }
  return true;
}

static bool prepare(weir_limiter *limiter) {
  weir_decision decision;
  for (int i = 0; i < kind->before; i++)
    if (weir_limiter_take(limiter, keys[0], KEY_BYTES - 1, 1, &decision, NULL) != WEIR_OK)
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
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (count == 5 && strcmp(arguments[4], kinds[i].name) == 0) kind = &kinds[i];
  int batch = count == 4 || kind != &plain ? atoi(arguments[2]) : 0;
  if (batch < 1 || batch > BATCH_MOST) {
    fputs("usage: weight_take URL BATCH COUNT [KIND]\n", stderr);
    return 2;
  }
  for (int i = 0; i < KEYS; i++)
    snprintf(keys[i], KEY_BYTES, "visitor-%07d", i);
  bool good = weir_store_open(arguments[1], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, kind->rule, &options, &limiter, &why) == WEIR_OK &&
              prepare(limiter) && take(limiter, (size_t)batch, atoi(arguments[3])) &&
              weighed(limiter, (size_t)batch, atoi(arguments[3]));
  if (!good) fprintf(stderr, "weight_take: no decision; %s\n", why.text);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return good ? 0 : 1;
}
