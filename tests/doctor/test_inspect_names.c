/* An inspection speaks of a name with several addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "fixture/servers.h"
#include "store/store.h"
#include "wire/resolver.h"

enum { TEXT_BYTES = 16384 };

/* All findings about names, a line each. */
static char reported[TEXT_BYTES];

static void note(void *context, const weir_finding *finding) {
  size_t used = strlen(reported);
  (void)context;
  if (strcmp(finding->topic, "name") != 0) return;
  snprintf(reported + used, sizeof reported - used, "%d %s\n", (int)finding->level, finding->text);
}

/* The backend's own part of an inspection, which waits for no key to expire. */
static void inspect(const char *url) {
  int64_t clock_off_us = 0;
  const weir_inspection inspection = {.name = "cache.test",
                                      .answers = true,
                                      .needs = WEIR_NEED_ADD,
                                      .key = "weir:doctor:{name}:1",
                                      .pattern = "weir:*",
                                      .timeout_us = 30000000,
                                      .tell = note,
                                      .clock_off_us = &clock_off_us};
  weir_message message = {""};
  weir_store *store;
  reported[0] = '\0';
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  store->backend->inspect(store->handle, &inspection);
  weir_store_close(store);
}

static void expect_reported(weir_finding_level level, const char *part) {
  char begin[8];
  snprintf(begin, sizeof begin, "%d ", (int)level);
  if (strncmp(reported, begin, strlen(begin)) != 0 || strstr(reported, part) == NULL)
    fail_msg("level %d, \"%s\" is not in:\n%s", (int)level, part, reported);
}

static struct server *memcached[2];

static void a_memcached_name_with_several_addresses_is_warned_of(void **state) {
  (void)state;
  const uint16_t ports[] = {server_port(memcached[0]), server_port(memcached[1])};
  resolver_lead_to_ports(ports, 2);
  inspect("memcached://cache.test");
  expect_reported(WEIR_FINDING_WARNING, "it has 2 addresses");
  expect_reported(WEIR_FINDING_WARNING, "memcached://HOST,HOST");
  resolver_lead_to_ports(ports, 1);
  inspect("memcached://cache.test");
  assert_string_equal(reported, "");
}

/* As where a machine has IPv6, and its memcached listens at 127.0.0.1 alone. */
static void localhost_with_both_families_is_no_warning(void **state) {
  (void)state;
  const uint16_t port = server_port(memcached[0]);
  const resolver_address both[] = {{"::1", port}, {"127.0.0.1", port}};
  resolver_lead(both, 2);
  inspect("memcached://cache.test");
  assert_string_equal(reported, "");
}

static void any_address_of_servers_is_a_fault(void **state) {
  (void)state;
  const uint16_t ports[] = {server_port(memcached[0]), server_port(memcached[1])};
  struct server *redis = server_start_redis(SERVER_IPV4, NULL);
  struct server *proxy = server_start_nutcracker(memcached, 1);
  struct server *other = server_start_nutcracker(memcached, 1);
  const uint16_t redis_ports[] = {server_port(redis), server_port(redis) + 1};
  const uint16_t proxy_ports[] = {server_port(proxy), server_port(other)};
  resolver_lead_to_ports(ports, 2);
  inspect("memcached://cache.test?addresses=any");
  expect_reported(WEIR_FINDING_FAULT, "addresses=any is for proxies");
  resolver_lead_to_ports(redis_ports, 2);
  inspect("redis://cache.test?addresses=any");
  expect_reported(WEIR_FINDING_FAULT, "each of its 2 addresses counts for itself");
  resolver_lead_to_ports(proxy_ports, 2);
  inspect("memcached://cache.test?addresses=any");
  assert_string_equal(reported, "");
}

int main(void) {
  for (size_t i = 0; i < 2; i++)
    memcached[i] = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_memcached_name_with_several_addresses_is_warned_of),
      cmocka_unit_test(localhost_with_both_families_is_no_warning),
      cmocka_unit_test(any_address_of_servers_is_a_fault),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
