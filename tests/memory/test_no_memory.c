/* Linked with --wrap=calloc: the store allocates with nothing else that can fail here. */
#include <stdlib.h>

#include "memory/counter.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static int callocs_left = -1; /* -1: as many as are asked for */

void *__wrap_calloc(size_t count, size_t size) {
  if (callocs_left == 0) return NULL;
  if (callocs_left > 0) callocs_left--;
  return __real_calloc(count, size);
}

static void opening_fails_whole_wherever_memory_ends(void **state) {
  (void)state;
  weir_store *store = NULL;
  weir_status status = WEIR_NO_MEMORY;
  int failures = 0;
  for (; status != WEIR_OK && failures < 100; failures++) {
    weir_message message = {""};
    callocs_left = failures;
    status = weir_store_open("memory:", &store, &message);
    callocs_left = -1;
    if (status == WEIR_OK) break;
    assert_int_equal(status, WEIR_NO_MEMORY);
    assert_null(store);
    assert_non_null(strstr(message.text, "memory"));
  }
  assert_int_equal(failures, 66); /* the store, the backend's handle, 64 shards */
  weir_store_close(store);
}

static void a_key_without_room_is_refused_and_the_others_stay(void **state) {
  (void)state;
  weir_store *store = open_memory("memory:?shards=1");
  char key[16];
  int kept = 0;
  weir_operation operation;
  callocs_left = 0;
  do {
    snprintf(key, sizeof key, "k%d", kept);
    operation = add(store, key, kept + 1, MINUTE_US);
    kept += operation.outcome == WEIR_DONE;
  } while (operation.outcome == WEIR_DONE && kept < 1000);
  callocs_left = -1;
  assert_int_equal(operation.outcome, WEIR_REFUSED);
  for (int i = 0; i < kept; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_holds(store, key, i + 1);
  }
  snprintf(key, sizeof key, "k%d", kept);
  assert_absent(store, key);
  assert_int_equal(add(store, key, 1, MINUTE_US).outcome, WEIR_DONE);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening_fails_whole_wherever_memory_ends),
      cmocka_unit_test(a_key_without_room_is_refused_and_the_others_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
