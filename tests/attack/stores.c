#include "attack/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *attack_url(const char *name, char url[ATTACK_URL_BYTES]) {
  static unsigned namespaces;
  char variable[64];
  snprintf(variable, sizeof variable, "WEIR_TEST_%s", name);
  const char *value = getenv(variable);
  if (value == NULL) {
    fprintf(stderr, "%s is not set: run this with with_servers\n", variable);
    exit(1);
  }
  snprintf(url, ATTACK_URL_BYTES, "%s%cnamespace=n%u&timeout=30s", value,
           strchr(value, '?') ? '&' : '?', ++namespaces);
  return url;
}

weir_store *attack_open(const char *url) {
  weir_store *store = NULL;
  weir_message message = {""};
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  return store;
}

weir_limiter_options attack_options(hand_clock *clock) {
  weir_limiter_options options = {
      .size = sizeof options, .deadline_us = PATIENCE_US, .fallback = WEIR_FALLBACK_NONE};
  if (clock != NULL) options.clock = hand_clock_as_clock(clock);
  return options;
}

weir_limiter *attack_limiter(weir_store *store, const char *rules,
                             const weir_limiter_options *options) {
  weir_limiter *limiter = NULL;
  weir_message message = {""};
  if (weir_limiter_create(store, rules, options, &limiter, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return limiter;
}
