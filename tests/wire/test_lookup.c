/* A resolver that takes its time: the linker puts the functions below in place of the system's. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/servers.h"
#include "store/store.h"
#include "wire/endpoint.h"

enum { SHORT_US = 50000, PATIENCE_US = 60000000 };

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
void __wrap_freeaddrinfo(struct addrinfo *found);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context);

/* Threads that are refused, as where too many run already. */
static atomic_int refused;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context) {
  if (atomic_fetch_sub(&refused, 1) > 0) return EAGAIN;
  atomic_store(&refused, 0);
  return __real_pthread_create(thread, attributes, run, context);
}

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
  if (strcmp(host, "again.test") == 0) return EAI_AGAIN;
  if (strcmp(host, "fails.test") == 0) return EAI_FAIL;
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

static int asked(void) {
  pthread_mutex_lock(&resolver.lock);
  int count = resolver.asked;
  pthread_mutex_unlock(&resolver.lock);
  return count;
}

static int forget(void **state) {
  (void)state;
  set_answers(false);
  resolver.asked = resolver.freed = 0;
  return 0;
}

/* Threads that were given up free what they found when they are through. */
static void await_freed(int count) {
  pthread_mutex_lock(&resolver.lock);
  while (resolver.freed < count)
    pthread_cond_wait(&resolver.changed, &resolver.lock);
  assert_int_equal(resolver.freed, count);
  pthread_mutex_unlock(&resolver.lock);
}

static void nobody_needs_to_wait_for_a_look_up(void **state) {
  enum { NAMES = 8 };
  (void)state;
  for (int i = 0; i < NAMES; i++) {
    weir_lookup *lookup =
        weir_lookup_start(&(weir_endpoint){.host = "slow.test", .port = 1}, false);
    assert_non_null(lookup);
    assert_false(weir_lookup_is_done(lookup));
    int64_t end_us = weir_monotonic_us() + SHORT_US;
    assert_false(weir_lookup_await(lookup, end_us));
    assert_true(weir_monotonic_us() >= end_us);
    weir_lookup_leave(lookup);
  }
  set_answers(true);
  await_freed(NAMES);
}

/* However many there are. */
static void few_names_that_servers_tell_are_looked_up_at_a_time(void **state) {
  (void)state;
  const weir_endpoint asked = {.host = "slow.test", .port = 1};
  weir_lookup *lookups[WEIR_LOOKUP_TOLD_MOST];
  for (int i = 0; i < WEIR_LOOKUP_TOLD_MOST; i++) {
    lookups[i] = weir_lookup_start(&asked, true);
    assert_non_null(lookups[i]);
  }
  for (int i = 0; i < 3; i++) {
    assert_null(weir_lookup_start(&asked, true));
    assert_int_equal(errno, EBUSY);
  }
  set_answers(true);
  for (int i = 0; i < WEIR_LOOKUP_TOLD_MOST; i++) {
    assert_true(weir_lookup_await(lookups[i], weir_monotonic_us() + PATIENCE_US));
    weir_lookup_leave(lookups[i]);
  }
  atomic_store(&refused, 1); /* one that could not be started is not counted either */
  assert_null(weir_lookup_start(&asked, true));
  for (int i = 0; i < WEIR_LOOKUP_TOLD_MOST; i++) {
    lookups[i] = weir_lookup_start(&asked, true);
    assert_non_null(lookups[i]);
  }
  for (int i = 0; i < WEIR_LOOKUP_TOLD_MOST; i++)
    weir_lookup_leave(lookups[i]);
  await_freed(2 * WEIR_LOOKUP_TOLD_MOST);
}

static void expect_result(const char *host, weir_lookup_result expected, size_t count) {
  weir_message why = {""};
  weir_addresses addresses;
  weir_endpoint asked = {.port = 80};
  weir_endpoint whose;
  snprintf(asked.host, sizeof asked.host, "%s", host);
  weir_lookup *lookup = weir_lookup_start(&asked, false);
  assert_non_null(lookup);
  assert_true(weir_lookup_await(lookup, weir_monotonic_us() + PATIENCE_US));
  assert_int_equal(weir_lookup_take(lookup, &whose, &addresses, &why), expected);
  assert_string_equal(whose.host, host);
  if (count > 0) assert_int_equal(addresses.count, count);
  if (expected != WEIR_LOOKUP_FOUND) {
    assert_non_null(strstr(why.text, " cannot be found: "));
    assert_non_null(strstr(why.text, host));
  }
  weir_addresses_free(&addresses);
}

static void a_name_that_is_found_has_addresses(void **state) {
  (void)state;
  set_answers(true);
  expect_result("slow.test", WEIR_LOOKUP_FOUND, 1);
  assert_int_equal(asked(), 1);
  expect_result("localhost", WEIR_LOOKUP_FOUND, 0);
}

static void a_name_that_does_not_exist_is_told_from_a_resolver_that_cannot_say(void **state) {
  (void)state;
  expect_result("no such host", WEIR_LOOKUP_NO_SUCH_NAME, 0);
  expect_result("again.test", WEIR_LOOKUP_FAILED, 0);
  expect_result("fails.test", WEIR_LOOKUP_FAILED, 0);
}

static void an_address_in_digits_needs_no_look_up(void **state) {
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "::1", "fe80::1"};
  weir_addresses addresses;
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
    assert_int_equal(weir_lookup_digits(hosts[i], 80, &addresses), WEIR_OK);
    assert_int_equal(addresses.count, 1);
    weir_addresses_free(&addresses);
  }
  assert_int_equal(weir_lookup_digits("localhost", 80, &addresses), WEIR_BAD_URL);
}

/* Every resolver has an order of its own. */
static void addresses_have_one_order(void **state) {
  enum { COUNT = 5 };
  (void)state;
  static const char *const digits[COUNT] = {"::2", "127.0.0.2", "::1", "127.0.0.2", "10.9.9.9"};
  static const char *const sorted[] = {"10.9.9.9", "127.0.0.2", "::1", "::2"};
  struct addrinfo *found[COUNT];
  weir_addresses all;
  weir_addresses one;
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(
        getaddrinfo(digits[i], "80", &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &found[i]), 0);
    if (i > 0) found[i - 1]->ai_next = found[i];
  }
  assert_true(weir_addresses_sort(found[0], &all));
  assert_int_equal(all.count, 4);
  assert_int_equal(weir_addresses_alike(&all), 2);
  for (size_t i = 0; i < all.count; i++) {
    assert_int_equal(weir_lookup_digits(sorted[i], 80, &one), WEIR_OK);
    assert_int_equal(weir_addresses_find(&all, &one.list[0]), i);
    assert_false(weir_addresses_equal(&all, &one));
    weir_addresses_free(&one);
  }
  freeaddrinfo(found[0]);
  weir_addresses_free(&all);
}

static weir_operation add_once(weir_store *store, weir_message *message) {
  weir_operation add = {.kind = WEIR_ADD,
                        .key = "weir:t:{k}:1",
                        .key_length = 12,
                        .home_length = 12,
                        .delta = 1,
                        .ttl_us = PATIENCE_US};
  weir_store_exec(store, &add, 1, weir_monotonic_us() + PATIENCE_US, message);
  return add;
}

/* The timeout of a store is for decisions; names have five seconds at least, all together. A name
 * that is not found by then is no mistake of the caller's: the store opens, and goes on looking. */
static void a_store_whose_name_is_not_found_in_time_goes_on_looking(void **state) {
  (void)state;
  char url[64];
  weir_message message = {""};
  weir_store *store = NULL;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  snprintf(url, sizeof url, "memcached://slow.test:%u", (unsigned)server_port(server));
  int64_t begin_us = weir_monotonic_us();
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_OK);
  assert_true(weir_monotonic_us() - begin_us >= 5000000);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(add_once(store, &message).outcome, WEIR_NOT_SENT);
    assert_non_null(strstr(message.text, "host \"slow.test\": the name is not resolved yet"));
  }
  assert_int_equal(asked(), 1); /* and the same one is waited for */
  set_answers(true);
  int64_t end_us = weir_monotonic_us() + PATIENCE_US;
  while (add_once(store, &message).outcome != WEIR_DONE && weir_monotonic_us() < end_us)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(add_once(store, &message).outcome, WEIR_DONE);
  assert_int_equal(asked(), 1);
  weir_store_close(store);
}

/* That is no want of memory, and passes. */
static void a_thread_that_is_refused_is_named_and_tried_again(void **state) {
  (void)state;
  static const char *const urls[] = {"memcached://slow.test:%u",
                                     "redis+sentinel://slow.test:%u/shop"};
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  set_answers(true);
  for (size_t i = 0; i < 2; i++) {
    char url[64];
    weir_message message = {""};
    weir_store *store = NULL;
    snprintf(url, sizeof url, urls[i], (unsigned)server_port(server));
    atomic_store(&refused, 2);
    weir_status status = weir_store_open(url, &store, &message);
    if (status != WEIR_OK) fail_msg("%s: %s", url, message.text);
    assert_int_equal(add_once(store, &message).outcome, WEIR_NOT_SENT);
    if (strstr(message.text, "could not be started: Resource temporarily unavailable") == NULL)
      fail_msg("%s", message.text);
    int64_t end_us = weir_monotonic_us() + PATIENCE_US;
    while (i == 0 && add_once(store, &message).outcome != WEIR_DONE && weir_monotonic_us() < end_us)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (i == 0) assert_int_equal(add_once(store, &message).outcome, WEIR_DONE);
    weir_store_close(store);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(nobody_needs_to_wait_for_a_look_up, forget),
      cmocka_unit_test_setup(few_names_that_servers_tell_are_looked_up_at_a_time, forget),
      cmocka_unit_test_setup(a_name_that_is_found_has_addresses, forget),
      cmocka_unit_test_setup(a_name_that_does_not_exist_is_told_from_a_resolver_that_cannot_say,
                             forget),
      cmocka_unit_test_setup(an_address_in_digits_needs_no_look_up, forget),
      cmocka_unit_test_setup(addresses_have_one_order, forget),
      cmocka_unit_test_setup(a_store_whose_name_is_not_found_in_time_goes_on_looking, forget),
      cmocka_unit_test_setup(a_thread_that_is_refused_is_named_and_tried_again, forget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
