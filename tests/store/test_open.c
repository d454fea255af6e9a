#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "store/store.h"

static int reset_script(void **state) {
  (void)state;
  the_fake = (fake){.scripted = true};
  return 0;
}

static weir_store *open_url(const char *url) {
  static weir_backend backend; /* a store keeps it */
  backend = fake_backend_with(0);
  weir_store *store;
  weir_message message = {""};
  if (weir_store_open_backend(&backend, url, &store, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return store;
}

static void assert_not_opened(const weir_backend *backend, const char *url, weir_status status,
                              const char *part) {
  weir_store *store = (weir_store *)&the_fake;
  weir_message message = {""};
  assert_int_equal(weir_store_open_backend(backend, url, &store, &message), status);
  assert_null(store);
  if (strstr(message.text, part) == NULL) fail_msg("\"%s\" lacks \"%s\"", message.text, part);
}

static void namespace_and_timeout_have_defaults(void **state) {
  (void)state;
  weir_store *store = open_url("fake:");
  assert_string_equal(store->namespace_text, "");
  assert_int_equal(store->timeout_us, 20000);
  assert_int_equal(the_fake.timeout_us, 20000);
  weir_store_close(store);
  assert_int_equal(the_fake.closes, 1);
}

static void namespace_and_timeout_are_read(void **state) {
  (void)state;
  weir_store *store = open_url("fake:?timeout=1m&namespace=ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.z09");
  assert_string_equal(store->namespace_text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.z09");
  assert_int_equal(store->timeout_us, 60000000);
  weir_store_close(store);
}

static void bad_values_are_named_and_nothing_is_opened(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"fake:?timeout=0ms", "store URL: timeout=0ms: accepted is a duration from 1ms to 1m"},
      {"fake:?timeout=61s", "timeout=61s"},
      {"fake:?timeout=s", "timeout=s"},
      {"fake:?timeout=20", "timeout=20"},
      {"fake:?namespace=a:b",
       "store URL: namespace=a:b: accepted are 1 to 32 of A-Z a-z 0-9 _ . -"},
      {"fake:?namespace=a%7Bb", "namespace=a{b"},
      {"fake:?namespace=ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456", "1 to 32"},
      {"fake:?namespace=", "option namespace has no value"},
      {"fake:?size=1", "unknown option \"size\": fake accepts namespace, timeout, depth"},
      {"memory:", "unknown scheme \"memory\": accepted are fake, fake+host"},
  };
  weir_backend backend = fake_backend_with(0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_not_opened(&backend, cases[i][0], WEIR_BAD_URL, cases[i][1]);
  assert_int_equal(the_fake.opens, 0);
}

static void what_the_backend_says_of_the_url_is_passed_on(void **state) {
  (void)state;
  weir_backend backend = fake_backend_with(0);
  the_fake.open_status = WEIR_BAD_URL;
  the_fake.open_message = "host \"h\" is not known";
  assert_not_opened(&backend, "fake+host://h", WEIR_BAD_URL, "store URL: host \"h\" is not known");
  the_fake.open_status = WEIR_NO_MEMORY;
  assert_not_opened(&backend, "fake:", WEIR_NO_MEMORY, "not enough memory");
  assert_int_equal(the_fake.closes, 0);
}

static void a_status_that_open_must_not_give_is_a_broken_backend(void **state) {
  (void)state;
  weir_backend backend = fake_backend_with(0);
  the_fake.open_status = WEIR_TIMEOUT;
  assert_not_opened(&backend, "fake:", WEIR_BROKEN_BACKEND,
                    "backend fake broke its contract: open answered TIMEOUT");
}

static void a_backend_must_be_whole(void **state) {
  (void)state;
  static const weir_scheme none[] = {{NULL, 0}};
  weir_backend whole = fake_backend_with(0);
  assert_not_opened(NULL, "fake:", WEIR_BAD_ARGUMENT, "backend is NULL");

#define WITHOUT(member, wrong, part)                                 \
  do {                                                               \
    weir_backend backend = whole;                                    \
    backend.member = wrong;                                          \
    assert_not_opened(&backend, "fake:", WEIR_BROKEN_BACKEND, part); \
  } while (0)
  WITHOUT(size, 0, "size");
  WITHOUT(size, offsetof(weir_backend, close), "size");
  WITHOUT(name, NULL, "name");
  WITHOUT(schemes, NULL, "schemes");
  WITHOUT(schemes, none, "schemes");
  WITHOUT(options, NULL, "options");
  WITHOUT(open, NULL, "open");
  WITHOUT(exec, NULL, "exec");
  WITHOUT(close, NULL, "close");
#undef WITHOUT
  assert_int_equal(the_fake.opens, 0);
}

static void a_larger_newer_backend_is_welcome(void **state) {
  (void)state;
  struct {
    weir_backend backend;
    void (*newer)(void);
  } larger = {fake_backend_with(0), NULL};
  larger.backend.size = sizeof larger;
  weir_store *store;
  assert_int_equal(weir_store_open_backend(&larger.backend, "fake:", &store, NULL), WEIR_OK);
  weir_store_close(store);
}

static void built_in_schemes_are_listed(void **state) {
  (void)state;
  weir_store *store;
  weir_message message;
  assert_int_equal(weir_store_open("nope:", &store, &message), WEIR_BAD_URL);
  assert_null(store);
  assert_non_null(strstr(message.text, "unknown scheme \"nope\": accepted are memory, memcached"));
  assert_int_equal(weir_store_open(NULL, &store, NULL), WEIR_BAD_URL);
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  weir_store_close(store);
}

static void closing_nothing_is_fine(void **state) {
  (void)state;
  weir_store_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, reset_script)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(namespace_and_timeout_have_defaults),
      TEST(namespace_and_timeout_are_read),
      TEST(bad_values_are_named_and_nothing_is_opened),
      TEST(what_the_backend_says_of_the_url_is_passed_on),
      TEST(a_status_that_open_must_not_give_is_a_broken_backend),
      TEST(a_backend_must_be_whole),
      TEST(a_larger_newer_backend_is_welcome),
      TEST(built_in_schemes_are_listed),
      TEST(closing_nothing_is_fine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
