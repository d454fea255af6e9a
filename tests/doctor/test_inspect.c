/* Inspection as a library call: what backends of other people get, and what bad arguments do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "store/store.h"

extern const weir_backend weir_memory_backend;

enum { TEXT_BYTES = 8192 };

/* Everything that was told, a line each: "level server topic: text". */
static char reported[TEXT_BYTES];

static void note(void *context, const weir_finding *finding) {
  size_t used = strlen(reported);
  assert_ptr_equal(context, reported);
  snprintf(reported + used, sizeof reported - used, "%d %s %s: %s\n", (int)finding->level,
           finding->server != NULL ? finding->server : "-", finding->topic, finding->text);
}

static void assert_reported(const char *part) {
  if (strstr(reported, part) == NULL) fail_msg("\"%s\" is not in:\n%s", part, reported);
}

static void assert_not_reported(const char *part) {
  if (strstr(reported, part) != NULL) fail_msg("\"%s\" is in:\n%s", part, reported);
}

static weir_store *open_store(const weir_backend *backend, const char *url) {
  weir_store *store;
  weir_message message = {""};
  reported[0] = '\0';
  if (weir_store_open_backend(backend, url, &store, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return store;
}

static void inspect(const weir_backend *backend) {
  weir_message message = {""};
  weir_store *store = open_store(backend, "memory:?timeout=10s");
  if (weir_store_inspect(store, 0, note, reported, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  weir_store_close(store);
}

static void a_backend_without_traits_is_warned_of(void **state) {
  (void)state;
  weir_backend plain = weir_memory_backend;
  plain.traits = 0;
  plain.name = "plain";
  inspect(&plain);
  assert_reported("1 - buckets: none: backend plain has neither SWAP nor RAISE");
  assert_reported("0 - operations: do what they must: ADD SUB GET CREATE PUT DROP\n");
  assert_not_reported("\n2 ");
}

static size_t located;
static size_t inspected;

static size_t locate(void *handle, const char *home, size_t home_length, size_t *count,
                     const char **name) {
  assert_non_null(handle);
  assert_int_equal(home_length, 32);
  *count = 2;
  *name = home[0] < '8' ? "one" : "t\nwo";
  located++;
  return home[0] < '8' ? 0 : 1;
}

static void look(void *handle, const weir_inspection *inspection) {
  assert_non_null(handle);
  assert_true(inspection->answers);
  assert_string_equal(inspection->pattern, "weir:shop:*");
  assert_memory_equal(inspection->key, "weir:shop:doctor:{", strlen("weir:shop:doctor:{"));
  assert_int_equal(inspection->key[strlen("weir:shop:doctor:{")] < '8' ? 0 : 1, inspection->server);
  inspected |= (size_t)1 << inspection->server;
}

static void a_backend_may_have_servers_and_ask_them(void **state) {
  (void)state;
  weir_backend several = weir_memory_backend;
  weir_message message = {""};
  several.locate = locate;
  several.inspect = look;
  inspected = 0;
  weir_store *store = open_store(&several, "memory:?timeout=10s&namespace=shop");
  assert_int_equal(weir_store_inspect(store, 0, note, reported, &message), WEIR_OK);
  weir_store_close(store);
  assert_int_equal(inspected, 3);
  assert_reported("0 one operations: ");
  assert_reported("0 t\nwo operations: ");
}

/* One that was built before these members were there ends before them: what follows is not its own.
 */
static void a_backend_of_an_older_header_is_inspected_as_well(void **state) {
  (void)state;
  weir_backend old = weir_memory_backend;
  old.size = offsetof(weir_backend, locate);
  old.locate = locate;
  old.inspect = look;
  located = inspected = 0;
  inspect(&old);
  assert_int_equal(located, 0);
  assert_int_equal(inspected, 0);
  assert_reported("0 - operations: ");
}

static size_t locate_wrongly(void *handle, const char *home, size_t home_length, size_t *count,
                             const char **name) {
  (void)handle;
  (void)home;
  (void)home_length;
  *count = SIZE_MAX;
  *name = "everywhere";
  return 0;
}

static void a_backend_that_counts_its_servers_wrongly_is_not_believed(void **state) {
  (void)state;
  weir_backend wrong = weir_memory_backend;
  weir_message message = {""};
  wrong.locate = locate_wrongly;
  weir_store *store = open_store(&wrong, "memory:");
  assert_int_equal(weir_store_inspect(store, 0, note, reported, &message), WEIR_BROKEN_BACKEND);
  assert_non_null(strstr(message.text, "locate"));
  assert_string_equal(reported, "");
  weir_store_close(store);
}

static void bad_arguments_are_named(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_store(&weir_memory_backend, "memory:");
  assert_int_equal(weir_store_inspect(NULL, 0, note, reported, &message), WEIR_BAD_ARGUMENT);
  assert_string_equal(message.text, "the store is NULL");
  assert_int_equal(weir_store_inspect(store, 0, NULL, reported, &message), WEIR_BAD_ARGUMENT);
  assert_string_equal(message.text, "tell is NULL");
  static const int64_t bad_us[] = {-1, 999, 60000001, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof bad_us / sizeof bad_us[0]; i++) {
    assert_int_equal(weir_store_inspect(store, bad_us[i], note, reported, &message),
                     WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "accepted are 1000 to 60000000"));
  }
  assert_int_equal(weir_limiter_inspect(NULL, 0, note, reported, &message), WEIR_BAD_ARGUMENT);
  assert_string_equal(message.text, "the limiter is NULL");
  assert_string_equal(reported, "");
  weir_store_close(store);
}

static void a_child_inspects_nothing_of_its_parent(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_store(&weir_memory_backend, "memory:");
  pid_t child = fork();
  if (child == 0) {
    bool refused = weir_store_inspect(store, 0, note, reported, &message) == WEIR_BAD_ARGUMENT &&
                   strstr(message.text, "open it after fork()") != NULL && reported[0] == '\0';
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  weir_store_close(store);
}

static void a_limiter_is_told_of_what_it_needs_alone(void **state) {
  (void)state;
  weir_message message = {""};
  weir_limiter *limiter;
  weir_store *store = open_store(&weir_memory_backend, "memory:?timeout=10s");
  assert_int_equal(weir_limiter_create(store, "token-bucket:5/1s", NULL, &limiter, &message),
                   WEIR_OK);
  assert_int_equal(weir_limiter_inspect(limiter, 0, note, reported, &message), WEIR_OK);
  assert_reported("0 - operations: do what they must: GET CREATE SWAP\n");
  assert_reported("0 - rule: 1, token-bucket: at most 5 at once and 5 in 1s");
  assert_not_reported("order:");
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_backend_without_traits_is_warned_of),
      cmocka_unit_test(a_backend_may_have_servers_and_ask_them),
      cmocka_unit_test(a_backend_of_an_older_header_is_inspected_as_well),
      cmocka_unit_test(a_backend_that_counts_its_servers_wrongly_is_not_believed),
      cmocka_unit_test(bad_arguments_are_named),
      cmocka_unit_test(a_child_inspects_nothing_of_its_parent),
      cmocka_unit_test(a_limiter_is_told_of_what_it_needs_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
