/* A name with two addresses: which one a process uses is told, as processes with different ones count
 * apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "fixture/servers.h"
#include "wire/resolver.h"

#define PATIENCE_US INT64_C(30000000)

static struct server *servers[2];

static weir_server_state state_of(const weir_store *store, size_t server) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  assert_int_equal(weir_store_read_server(store, server, &state), WEIR_OK);
  return state;
}

static weir_store *open_store(const char *url) {
  weir_store *store = NULL;
  weir_message message = {""};
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

typedef struct told {
  size_t count;
  char text[WEIR_MESSAGE_BYTES];
} told;

static void keep_address(void *context, const weir_event *event) {
  told *to = context;
  if (event->kind != WEIR_EVENT_ADDRESS) return;
  assert_string_equal(event->kind_name, "address");
  assert_string_equal(event->server, "cache.test:11211");
  snprintf(to->text, sizeof to->text, "%s", event->text);
  to->count++;
}

/* Whoever connects while the first address refuses counts apart from the others. */
static void another_address_of_a_name_is_told(void **state) {
  (void)state;
  size_t low = server_port(servers[0]) < server_port(servers[1]) ? 0 : 1;
  const uint16_t ports[] = {server_port(servers[0]), server_port(servers[1])};
  char page[1 << 16];
  size_t length;
  told seen = {0};
  weir_watch *watch;
  weir_message message = {""};
  resolver_lead_to_ports(ports, 2);
  server_kill(servers[low]);
  weir_store *store = open_store("memcached://cache.test?timeout=10s");
  const weir_monitor_source source = {"api", NULL, store};
  assert_int_equal(weir_watch_create(&source, 1, 0, &watch, NULL), WEIR_OK);
  weir_watch_look(watch, keep_address, &seen);
  assert_int_equal(seen.count, 0);
  if (weir_store_connect(store, PATIENCE_US, &message) != WEIR_OK) fail_msg("%s", message.text);
  assert_int_equal(state_of(store, 0).addresses, 2);
  assert_int_equal(state_of(store, 0).address, 1);
  for (int i = 0; i < 2; i++) /* once */
    weir_watch_look(watch, keep_address, &seen);
  assert_int_equal(seen.count, 1);
  assert_non_null(strstr(seen.text, "address 2 of its name is in use"));
  weir_monitor_print_prometheus(&source, 1, page, sizeof page, &length, NULL);
  assert_non_null(
      strstr(page, "weir_server_addresses{store=\"api\",server=\"cache.test:11211\"} 2"));
  assert_non_null(strstr(page, "weir_server_address{store=\"api\",server=\"cache.test:11211\"} 1"));
  weir_watch_destroy(watch);
  weir_store_close(store);

  store = open_store("memcached://cache.test?timeout=10s&addresses=any"); /* each is right */
  if (weir_store_connect(store, PATIENCE_US, &message) != WEIR_OK) fail_msg("%s", message.text);
  assert_int_equal(state_of(store, 0).addresses, 1);
  assert_int_equal(state_of(store, 0).address, 0);
  weir_store_close(store);
}

int main(void) {
  for (size_t i = 0; i < 2; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(another_address_of_a_name_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
