/* A resolver that takes its time: the linker puts the functions below in place of the system's. */
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "store/store.h"
#include "wire/lookup.h"

enum { SHORT_US = 50000, PATIENCE_US = 60000000 };

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
void __wrap_freeaddrinfo(struct addrinfo *found);

/* Names that begin with "slow" are answered, with 127.0.0.1, once it says so. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool answers;
  int asked; /* for such names */
  int freed; /* answers of any kind */
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found) {
  bool slow = strncmp(host, "slow", 4) == 0 && (hints->ai_flags & AI_NUMERICHOST) == 0;
  if (!slow) return __real_getaddrinfo(host, port, hints, found);
  pthread_mutex_lock(&resolver.lock);
  resolver.asked++;
  while (!resolver.answers)
    pthread_cond_wait(&resolver.changed, &resolver.lock);
  pthread_mutex_unlock(&resolver.lock);
  return __real_getaddrinfo("127.0.0.1", port, hints, found);
}

void __wrap_freeaddrinfo(struct addrinfo *found) {
  __real_freeaddrinfo(found);
  pthread_mutex_lock(&resolver.lock);
  resolver.freed++;
  pthread_cond_broadcast(&resolver.changed);
  pthread_mutex_unlock(&resolver.lock);
}

/* NOLINTEND(bugprone-reserved-identifier) */

static void set_answers(bool answers) {
  pthread_mutex_lock(&resolver.lock);
  resolver.answers = answers;
  pthread_cond_broadcast(&resolver.changed);
  pthread_mutex_unlock(&resolver.lock);
}

static int forget(void **state) {
  (void)state;
  set_answers(false);
  resolver.asked = resolver.freed = 0;
  return 0;
}

static weir_wire_options within(int64_t us) {
  return (weir_wire_options){.lookup_us = us, .lookup_end_us = weir_monotonic_us() + us};
}

/* Threads that were given up free what they found when they are through. */
static void await_freed(int count) {
  pthread_mutex_lock(&resolver.lock);
  while (resolver.freed < count)
    pthread_cond_wait(&resolver.changed, &resolver.lock);
  assert_int_equal(resolver.freed, count);
  pthread_mutex_unlock(&resolver.lock);
}

static void a_name_that_takes_too_long_is_given_up(void **state) {
  enum { NAMES = 8 };
  (void)state;
  weir_message message = {""};
  for (int i = 0; i < NAMES; i++) {
    struct addrinfo *found = NULL;
    weir_wire_options times = within(SHORT_US);
    assert_int_equal(weir_lookup_host("slow.test", 1, &times, &found, &message), WEIR_BAD_URL);
    assert_string_equal(message.text, "host \"slow.test\": the name was not resolved within 50 ms");
    assert_null(found);
    assert_true(weir_monotonic_us() >= times.lookup_end_us);
  }
  set_answers(true);
  await_freed(NAMES);
}

static void a_name_that_is_found_in_time_is_used(void **state) {
  (void)state;
  weir_message message = {""};
  struct addrinfo *found = NULL;
  weir_wire_options times = within(PATIENCE_US);
  set_answers(true);
  assert_int_equal(weir_lookup_host("slow.test", 80, &times, &found, &message), WEIR_OK);
  assert_int_equal(found->ai_family, AF_INET);
  assert_int_equal(found->ai_socktype, SOCK_STREAM);
  freeaddrinfo(found);
  assert_int_equal(resolver.asked, 1);
  assert_int_equal(weir_lookup_host("localhost", 80, &times, &found, &message), WEIR_OK);
  freeaddrinfo(found);
}

static void a_name_that_does_not_exist_is_named(void **state) {
  (void)state;
  weir_message message = {""};
  struct addrinfo *found = NULL;
  weir_wire_options times = within(PATIENCE_US);
  assert_int_equal(weir_lookup_host("no such host", 80, &times, &found, &message), WEIR_BAD_URL);
  assert_non_null(strstr(message.text, "host \"no such host\" cannot be found: "));
}

static void an_address_in_digits_needs_no_time(void **state) {
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "::1", "fe80::1"};
  weir_message message = {""};
  const weir_wire_options over = {.lookup_us = 1000, .lookup_end_us = 0};
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
    struct addrinfo *found = NULL;
    assert_int_equal(weir_lookup_host(hosts[i], 80, &over, &found, &message), WEIR_OK);
    assert_null(found->ai_next);
    freeaddrinfo(found);
  }
}

/* The timeout of a store is for decisions; names have five seconds at least, all together. */
static void a_store_whose_name_is_not_found_in_time_is_not_opened(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = NULL;
  int64_t begin_us = weir_monotonic_us();
  assert_int_equal(weir_store_open("memcached://127.0.0.1,slow.test", &store, &message),
                   WEIR_BAD_URL);
  assert_string_equal(message.text,
                      "store URL: host \"slow.test\": the name was not resolved within 5000 ms");
  assert_null(store);
  assert_true(weir_monotonic_us() - begin_us >= 5000000);
  set_answers(true);
  await_freed(2); /* that, and 127.0.0.1 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_name_that_takes_too_long_is_given_up, forget),
      cmocka_unit_test_setup(a_name_that_is_found_in_time_is_used, forget),
      cmocka_unit_test_setup(a_name_that_does_not_exist_is_named, forget),
      cmocka_unit_test_setup(an_address_in_digits_needs_no_time, forget),
      cmocka_unit_test_setup(a_store_whose_name_is_not_found_in_time_is_not_opened, forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
