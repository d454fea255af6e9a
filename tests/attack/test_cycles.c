/* Stores and limiters come and go for as long as a process lives: neither memory nor descriptors
 * are lost.
 *
 *     with_servers test_attack_cycles [CYCLES]      of every store; 100 unless said otherwise
 */
#include "attack/stores.h"

#include <stdio.h>
#include <stdlib.h>

#include "attack/heap.h"
#include "fixture/process.h"

enum { WARM_UP = 5, CYCLES_DEFAULT = 100 };

static long cycles = CYCLES_DEFAULT;

/* A life with all that a connection, a key and a thread's call make. */
static void live(const char *url) {
  weir_limiter_options options = attack_options(NULL);
  weir_store *store = attack_open(url);
  weir_limiter *limiter = attack_limiter(store, "token-bucket:5/1h;sliding-window:5/1h", &options);
  weir_reservation *reservation = NULL;
  weir_message message = {""};
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  if (weir_limiter_reserve(limiter, &request, &reservation, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  if (reservation != NULL) assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
  weir_reservation_destroy(reservation);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* `slack`: blocks that a library below may keep for later, however many cycles there are. */
static void cycle(const char *store, long slack) {
  char url[ATTACK_URL_BYTES];
  attack_url(store, url);
  for (int i = 0; i < WARM_UP; i++)
    live(url);
  long blocks = heap_blocks();
  long bytes = heap_bytes();
  int descriptors = process_descriptors();
  for (long i = 0; i < cycles; i++)
    live(url);
  print_message("%s: %ld cycles, %ld blocks and %ld bytes more\n", store, cycles,
                heap_blocks() - blocks, heap_bytes() - bytes);
  assert_int_equal(process_descriptors(), descriptors);
  assert_in_range(heap_blocks() - blocks + slack, 0, 2 * slack);
}

static void every_store_comes_and_goes(void **state) {
  static const char *const stores[] = {"MEMORY",    "MEMCACHED_META",  "MEMCACHED_CLASSIC",
                                       "TWEMPROXY", "MEMCACHED_THREE", "REDIS"};
  (void)state;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
    cycle(stores[i], 0);
}

static void connections_with_tls_come_and_go(void **state) {
  (void)state;
  cycle("MEMCACHED_TLS", 50);
  cycle("REDIS_TLS", 50);
}

/* A store that never reaches its server leaves nothing behind either. */
static void stores_that_cannot_be_opened_leave_nothing(void **state) {
  static const char *const urls[] = {"memory:?keys=0",
                                     "memcached://127.0.0.1:1,127.0.0.1:2?distribution=other",
                                     "memcached://127.0.0.1,b:0",
                                     "redis://127.0.0.1/x",
                                     "rediss://127.0.0.1?tls-ca=/nowhere/ca.pem",
                                     "rediss://127.0.0.1?tls-cert=/nowhere/cert.pem"};
  weir_message message;
  weir_store *store;
  (void)state;
  long blocks = 0;
  int descriptors = process_descriptors();
  for (long i = -WARM_UP; i < cycles; i++) {
    if (i == 0) blocks = heap_blocks();
    for (size_t j = 0; j < sizeof urls / sizeof urls[0]; j++)
      assert_int_equal(weir_store_open(urls[j], &store, &message), WEIR_BAD_URL);
  }
  assert_int_equal(heap_blocks(), blocks);
  assert_int_equal(process_descriptors(), descriptors);
}

int main(int count, char **arguments) {
  if (count > 1) cycles = strtol(arguments[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_store_comes_and_goes),
      cmocka_unit_test(connections_with_tls_come_and_go),
      cmocka_unit_test(stores_that_cannot_be_opened_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
