/* Every operation on real servers, in both dialects, through a proxy, on every kind of address. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "wire/operations.h"

static struct server *memcached;
static struct server *memcached_ipv6;
static struct server *memcached_unix;
static struct server *proxy;

/* A key no other test has used. */
static const char *fresh_key(void) {
  static char keys[64][32];
  static unsigned count;
  char *key = keys[count % 64];
  snprintf(key, sizeof keys[0], "weir:t:{k%u}:1", count++);
  return key;
}

static weir_operation run(void **state, weir_operation operation) {
  weir_message message = {""};
  weir_operation result = execute(*state, operation, &message);
  if (result.outcome >= WEIR_NOT_SENT) print_message("%s\n", message.text);
  return result;
}

static void add_creates_with_its_seed_and_then_adds(void **state) {
  const char *key = fresh_key();
  weir_operation add = add_to(key, 5);
  add.seed = 100;
  assert_done(run(state, add), 105);
  assert_done(run(state, add), 110);
  add.refresh = true;
  assert_done(run(state, add), 115);
  assert_done(run(state, get_of(key)), 115);
}

static void add_with_refresh_creates_as_well(void **state) {
  const char *key = fresh_key();
  weir_operation add = add_to(key, 7);
  add.refresh = true;
  assert_done(run(state, add), 7);
}

static void sub_goes_below_zero_and_never_creates(void **state) {
  const char *key = fresh_key();
  assert_outcome(run(state, sub_from(key, 1)), WEIR_ABSENT);
  assert_outcome(run(state, get_of(key)), WEIR_ABSENT);
  assert_done(run(state, add_to(key, 3)), 3);
  assert_done(run(state, sub_from(key, 5)), -2);
  assert_done(run(state, get_of(key)), -2);
  assert_done(run(state, add_to(key, 12)), 10);
  assert_done(run(state, sub_from(key, 1)), 9); /* which the server pads to "9 " */
  assert_done(run(state, get_of(key)), 9);
}

static void large_values_are_exact(void **state) {
  const char *key = fresh_key();
  weir_operation add = add_to(key, WEIR_VALUE_MOST);
  add.seed = WEIR_VALUE_MOST - 1;
  assert_done(run(state, add), INT64_MAX);
  assert_done(run(state, sub_from(key, WEIR_VALUE_MOST)), WEIR_VALUE_MOST - 1);
  assert_done(run(state, get_of(key)), WEIR_VALUE_MOST - 1);
}

static void create_stores_only_what_is_absent(void **state) {
  const char *key = fresh_key();
  assert_outcome(run(state, put_to(WEIR_CREATE, key, 1)), WEIR_DONE);
  assert_outcome(run(state, put_to(WEIR_CREATE, key, 2)), WEIR_CONFLICT);
  assert_done(run(state, get_of(key)), 1);
}

static void swap_stores_only_what_is_unchanged(void **state) {
  const char *key = fresh_key();
  assert_outcome(run(state, swap_to(key, 1, 1)), WEIR_ABSENT);
  assert_outcome(run(state, put_to(WEIR_PUT, key, 1)), WEIR_DONE);
  weir_operation read = run(state, get_of(key));
  assert_int_not_equal(read.version_out, 0);
  weir_operation swapped = run(state, swap_to(key, read.version_out, 2));
  assert_outcome(swapped, WEIR_DONE);
  assert_outcome(run(state, swap_to(key, read.version_out, 3)), WEIR_CONFLICT);
  read = run(state, get_of(key));
  assert_done(read, 2);
  if (swapped.version_out != 0) assert_int_equal(swapped.version_out, read.version_out);
}

static void put_overwrites_and_drop_deletes(void **state) {
  const char *key = fresh_key();
  assert_outcome(run(state, put_to(WEIR_PUT, key, 1)), WEIR_DONE);
  assert_outcome(run(state, put_to(WEIR_PUT, key, 22)), WEIR_DONE);
  assert_done(run(state, get_of(key)), 22);
  assert_outcome(run(state, operation_on(WEIR_DROP, key)), WEIR_DONE);
  assert_outcome(run(state, operation_on(WEIR_DROP, key)), WEIR_ABSENT);
}

static void a_short_life_lasts_as_long_as_promised(void **state) {
  const char *key = fresh_key();
  weir_operation add = add_to(key, 1);
  add.ttl_us = 1000000;
  assert_done(run(state, add), 1);
  int64_t end_us = weir_monotonic_us() + 950000;
  while (weir_monotonic_us() < end_us) {
    assert_done(run(state, get_of(key)), 1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  }
}

static void a_life_of_400_days_begins_alive(void **state) {
  const char *key = fresh_key();
  weir_operation add = add_to(key, 1);
  add.ttl_us = INT64_C(401) * 24 * 3600 * 1000000;
  assert_done(run(state, add), 1);
  assert_done(run(state, get_of(key)), 1);
  add.refresh = true;
  add.ttl_us = WEIR_TTL_MOST_US;
  assert_done(run(state, add), 2);
  assert_done(run(state, get_of(key)), 2);
}

static void a_key_without_an_integer_is_refused(void **state) {
  static const char text[] = "set weir:t:{text}:1 0 60 3\r\nabc\r\n";
  char answer[64];
  weir_message message = {""};
  int fd = server_connect(memcached);
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  assert_int_equal(read(fd, answer, sizeof answer), 8);
  close(fd);
  weir_operation add = add_to("weir:t:{text}:1", 1);
  assert_outcome(execute(*state, add, &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "non-numeric"));
  add.refresh = true;
  assert_outcome(execute(*state, add, &message), WEIR_REFUSED);
  assert_outcome(execute(*state, sub_from("weir:t:{text}:1", 1), &message), WEIR_REFUSED);
  assert_outcome(execute(*state, get_of("weir:t:{text}:1"), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "weir:t:{text}:1"));
  assert_done(execute(*state, add_to(fresh_key(), 1), &message), 1);
}

static void a_huge_value_is_skipped_and_refused(void **state) {
  static char text[300000];
  int head = snprintf(text, sizeof text, "set weir:t:{huge}:1 0 60 200000\r\n");
  char answer[64];
  weir_message message = {""};
  int fd = server_connect(memcached);
  memset(text + head, '1', 200000);
  memcpy(text + head + 200000, "\r\n", 2);
  for (size_t sent = 0, all = (size_t)head + 200002; sent < all;) {
    ssize_t more = write(fd, text + sent, all - sent);
    assert_true(more > 0);
    sent += (size_t)more;
  }
  assert_int_equal(read(fd, answer, sizeof answer), 8);
  close(fd);
  const char *key = fresh_key();
  weir_operation operations[] = {get_of("weir:t:{huge}:1"), add_to(key, 4), get_of(key)};
  weir_store_exec(*state, operations, 3, deadline_in_ms(1000), &message);
  assert_outcome(operations[0], WEIR_REFUSED);
  assert_done(operations[1], 4);
  assert_done(operations[2], 4);
}

static void operations_on_one_key_run_in_order(void **state) {
  const char *key = fresh_key();
  weir_message message = {""};
  weir_operation operations[] = {sub_from(key, 1),
                                 add_to(key, 10),
                                 get_of(key),
                                 sub_from(key, 3),
                                 get_of(key),
                                 add_to(key, 1),
                                 put_to(WEIR_CREATE, key, 5),
                                 operation_on(WEIR_DROP, key),
                                 get_of(key),
                                 add_to(key, 2),
                                 get_of(key)};
  weir_store_exec(*state, operations, 11, deadline_in_ms(1000), &message);
  assert_outcome(operations[0], WEIR_ABSENT);
  assert_done(operations[1], 10);
  assert_done(operations[2], 10);
  assert_done(operations[3], 7);
  assert_done(operations[4], 7);
  assert_done(operations[5], 8);
  assert_outcome(operations[6], WEIR_CONFLICT);
  assert_outcome(operations[7], WEIR_DONE);
  assert_outcome(operations[8], WEIR_ABSENT);
  assert_done(operations[9], 2);
  assert_done(operations[10], 2);
  assert_string_equal(message.text, "");
}

static void a_get_sees_every_add_of_its_home_before_it(void **state) {
  weir_message message = {""};
  for (int i = 0; i < 50; i++) {
    char keys[3][40];
    for (int j = 0; j < 3; j++)
      snprintf(keys[j], sizeof keys[j], "%s:%d", fresh_key(), j);
    weir_operation operations[] = {add_to(keys[0], 1), get_of(keys[0]), add_to(keys[1], 2),
                                   get_of(keys[1]),    get_of(keys[0]), get_of(keys[2])};
    weir_store_exec(*state, operations, 6, deadline_in_ms(1000), &message);
    assert_done(operations[1], 1);
    assert_done(operations[3], 2);
    assert_done(operations[4], 1);
    assert_outcome(operations[5], WEIR_ABSENT);
  }
}

static void a_batch_of_thousands_gets_all_its_answers(void **state) {
  enum { COUNT = 4096 };
  static char keys[COUNT][40];
  static weir_operation operations[COUNT];
  static unsigned round;
  weir_message message = {""};
  round++;
  for (int i = 0; i < COUNT; i++) {
    snprintf(keys[i], sizeof keys[i], "weir:b%u:{%d}:1", round, i / 2);
    operations[i] = i % 2 == 0 ? add_to(keys[i], i + 1) : get_of(keys[i]);
  }
  weir_store_exec(*state, operations, COUNT, deadline_in_ms(20000), &message);
  assert_string_equal(message.text, "");
  for (int i = 0; i < COUNT; i++)
    assert_done(operations[i], i / 2 * 2 + 1);
}

static void a_deadline_in_the_past_sends_nothing(void **state) {
  const char *key = fresh_key();
  weir_message message = {""};
  weir_operation add = add_to(key, 1);
  weir_store_exec(*state, &add, 1, deadline_in_ms(-1), &message);
  assert_outcome(add, WEIR_NOT_SENT);
  assert_string_not_equal(message.text, "");
  assert_outcome(run(state, get_of(key)), WEIR_ABSENT);
}

static int open_with(void **state, struct server *server, const char *query) {
  *state = open_servers(&server, 1, query);
  return 0;
}

static int open_meta(void **state) {
  return open_with(state, memcached, "timeout=1s&protocol=meta");
}

static int open_auto(void **state) {
  return open_with(state, memcached, "timeout=1s");
}

static int open_classic(void **state) {
  return open_with(state, memcached, "timeout=1s&protocol=classic");
}

static int open_proxy(void **state) {
  return open_with(state, proxy, "timeout=1s");
}

static int open_ipv6(void **state) {
  return open_with(state, memcached_ipv6, "timeout=1s");
}

static int open_unix(void **state) {
  return open_with(state, memcached_unix, "timeout=1s");
}

static int shut(void **state) {
  weir_store_close(*state);
  return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(add_creates_with_its_seed_and_then_adds),
    cmocka_unit_test(add_with_refresh_creates_as_well),
    cmocka_unit_test(sub_goes_below_zero_and_never_creates),
    cmocka_unit_test(large_values_are_exact),
    cmocka_unit_test(create_stores_only_what_is_absent),
    cmocka_unit_test(swap_stores_only_what_is_unchanged),
    cmocka_unit_test(put_overwrites_and_drop_deletes),
    cmocka_unit_test(a_life_of_400_days_begins_alive),
    cmocka_unit_test(operations_on_one_key_run_in_order),
    cmocka_unit_test(a_get_sees_every_add_of_its_home_before_it),
    cmocka_unit_test(a_deadline_in_the_past_sends_nothing),
    cmocka_unit_test(a_batch_of_thousands_gets_all_its_answers),
};

/* Once in each dialect is enough. */
static const struct CMUnitTest tests_of_dialects[] = {
    cmocka_unit_test(a_short_life_lasts_as_long_as_promised),
    cmocka_unit_test(a_key_without_an_integer_is_refused),
    cmocka_unit_test(a_huge_value_is_skipped_and_refused),
};

int main(void) {
  memcached = server_start_memcached(SERVER_IPV4, NULL);
  memcached_unix = server_start_memcached(SERVER_UNIX, NULL);
  struct server *behind = server_start_memcached(SERVER_IPV4, NULL);
  proxy = server_start_nutcracker(&behind, 1);
  int failed = 0;
  failed += cmocka_run_group_tests_name("meta", tests, open_meta, shut);
  failed += cmocka_run_group_tests_name("meta, longer", tests_of_dialects, open_meta, shut);
  failed += cmocka_run_group_tests_name("probed", tests, open_auto, shut);
  failed += cmocka_run_group_tests_name("classic", tests, open_classic, shut);
  failed += cmocka_run_group_tests_name("classic, longer", tests_of_dialects, open_classic, shut);
  failed += cmocka_run_group_tests_name("proxy", tests, open_proxy, shut);
  failed += cmocka_run_group_tests_name("unix socket", tests, open_unix, shut);
  if (server_place_has_ipv6()) {
    memcached_ipv6 = server_start_memcached(SERVER_IPV6, NULL);
    failed += cmocka_run_group_tests_name("ipv6", tests, open_ipv6, shut);
  }
  return failed;
}
