/* Slots, and the text of a redirection: pure functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster.h"

static void hashes_as_the_servers_do(void **state) {
  (void)state;
  static const struct {
    const char *home;
    uint16_t slot;
  } known[] = {{"123456789", 12739}, {"foo", 12182}, {"bar", 5061}, {"", 0}, {"a", 15495}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    assert_int_equal(weir_redis_slot(known[i].home, strlen(known[i].home)), known[i].slot);
  assert_int_equal(weir_redis_slot("\xff\x80", 2), weir_redis_slot("\xff\x80rest", 2));
}

static void learns_who_owns_a_slot(void **state) {
  (void)state;
  weir_redis_slots *slots = calloc(1, sizeof *slots);
  assert_non_null(slots);
  assert_int_equal(weir_redis_slots_owner(slots, 7), -1);
  assert_int_equal(weir_redis_slots_learn(slots, 7, 0), -1);
  assert_int_equal(weir_redis_slots_learn(slots, 7, 255), 0);
  assert_int_equal(weir_redis_slots_owner(slots, 7), 255);
  weir_redis_slots_learn(slots, 16383, 1);
  weir_redis_slots_learn(slots, 0, 1);
  weir_redis_slots_inherit(slots, 1, 2);
  assert_int_equal(weir_redis_slots_owner(slots, 0), 2);
  assert_int_equal(weir_redis_slots_owner(slots, 16383), 2);
  assert_int_equal(weir_redis_slots_owner(slots, 7), 255);
  assert_int_equal(weir_redis_slots_count(slots, 2), 2);
  free(slots);
}

static weir_redirect read(const char *text) {
  weir_redirect redirect;
  if (!weir_redirect_read(text, strlen(text), &redirect)) fail_msg("\"%s\" is not read", text);
  return redirect;
}

static void expect(const char *text, weir_redirect_kind kind, uint16_t slot, const char *host,
                   uint16_t port) {
  weir_redirect redirect = read(text);
  assert_int_equal(redirect.kind, kind);
  assert_int_equal(redirect.slot, slot);
  assert_int_equal(redirect.port, port);
  assert_int_equal(redirect.length, strlen(host));
  assert_memory_equal(redirect.host, host, redirect.length);
  assert_false(redirect.unknown);
}

static void reads_where_to_go(void **state) {
  (void)state;
  expect("MOVED 3999 127.0.0.1:6381", WEIR_REDIRECT_MOVED, 3999, "127.0.0.1", 6381);
  expect("ERR MOVED 3999 10.0.0.1:1", WEIR_REDIRECT_MOVED, 3999, "10.0.0.1", 1);
  expect("ASK 16383 node-1.example.org:65535\r\n", WEIR_REDIRECT_ASK, 16383, "node-1.example.org",
         65535);
  expect("MOVED 0 :6379", WEIR_REDIRECT_MOVED, 0, "", 6379);
  expect("MOVED 1 ::1:7000", WEIR_REDIRECT_MOVED, 1, "::1", 7000);
  expect("MOVED 1 [2001:db8::1]:7000 ", WEIR_REDIRECT_MOVED, 1, "2001:db8::1", 7000);
  expect("MOVED 1 fe80::1%eth0:7000", WEIR_REDIRECT_MOVED, 1, "fe80::1%eth0", 7000);
  assert_int_equal(read("TRYAGAIN Multiple keys request during rehashing of slot").kind,
                   WEIR_REDIRECT_TRYAGAIN);
  assert_int_equal(read("CLUSTERDOWN Hash slot not served").kind, WEIR_REDIRECT_CLUSTERDOWN);
  assert_true(read("MOVED 7 ?:0").unknown);
  assert_true(read("MOVED 7 ?:6379").unknown);
}

static void reads_nothing_else(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "ERR",
                                      "MOVED",
                                      "MOVED 1",
                                      "MOVED 1 ",
                                      "MOVED 1 host",
                                      "MOVED 1 host:",
                                      "MOVED 1 host:0",
                                      "MOVED 1 host:65536",
                                      "MOVED 1 host:7000x",
                                      "MOVED 1 host:-1",
                                      "MOVED 16384 host:1",
                                      "MOVED -1 host:1",
                                      "MOVED x host:1",
                                      "MOVED 1 ho st:1",
                                      "MOVED 1 user@host:1",
                                      "MOVED 1 ho/st:1",
                                      "MOVED1 host:1",
                                      "MOVEDX 1 host:1",
                                      "ASKING 1 host:1",
                                      "READONLY You can't write against a read only replica.",
                                      "moved 1 host:1"};
  weir_redirect redirect;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (weir_redirect_read(texts[i], strlen(texts[i]), &redirect))
      fail_msg("\"%s\" is read", texts[i]);
}

static void a_host_has_an_end(void **state) {
  (void)state;
  char text[400] = "MOVED 1 ";
  weir_redirect redirect;
  memset(text + 8, 'h', 300);
  strcpy(text + 8 + WEIR_REDIS_HOST_MOST, ":1");
  assert_true(weir_redirect_read(text, strlen(text), &redirect));
  memset(text + 8, 'h', 300);
  strcpy(text + 8 + WEIR_REDIS_HOST_MOST + 1, ":1");
  assert_false(weir_redirect_read(text, strlen(text), &redirect));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hashes_as_the_servers_do), cmocka_unit_test(learns_who_owns_a_slot),
      cmocka_unit_test(reads_where_to_go),        cmocka_unit_test(reads_nothing_else),
      cmocka_unit_test(a_host_has_an_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
