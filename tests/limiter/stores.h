/* The stores that the limiter's tests run on: inside this process, and private real servers. */
#ifndef TESTS_LIMITER_STORES_H
#define TESTS_LIMITER_STORES_H

#include <stdbool.h>

enum { STORES = 4, STORE_URL_BYTES = 1280 };

typedef struct store_kind {
  const char *name;
  bool swaps; /* compare-and-swap; else it raises */
} store_kind;

extern const store_kind stores[STORES];

/* Starts the servers, once; they end with the process. */
void stores_start(void);

/* The URL of one of them, with a namespace that nobody has used before. */
const char *stores_url(int store, char url[STORE_URL_BYTES]);

#endif
