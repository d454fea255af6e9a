/* Operations on a real server: what the contract suite cannot see from outside. */
#include <stdio.h>
#include <stdlib.h>

#include "redis/plain.h"
#include "redis/seen.h"

static struct server *server;
static redisContext *plain;
static weir_store *store;

static int start(void **state) {
  (void)state;
  server = server_start_redis(SERVER_IPV4, NULL);
  plain = plain_connect(server);
  store = open_servers(&server, 1, "timeout=5s");
  return 0;
}

static int end(void **state) {
  (void)state;
  weir_store_close(store);
  redisFree(plain);
  return 0;
}

static int wipe(void **state) {
  (void)state;
  plain_do(plain, "FLUSHALL");
  return 0;
}

static void assert_ttl(const char *key, int64_t ttl_us) {
  char command[64];
  snprintf(command, sizeof command, "PTTL %s", key);
  long long left_ms = plain_do(plain, command);
  assert_in_range(left_ms, ttl_us / 1000 - 1000, ttl_us / 1000 + 1);
}

static void every_key_gets_the_ttl_that_was_asked_for(void **state) {
  (void)state;
  const int64_t ttl_us = 400 * INT64_C(86400) * 1000000;
  weir_operation batch[] = {add_to("weir:{a}", 1), sub_from("weir:{b}", 1),
                            raise_to("weir:{c}", 10, 1), put_to(WEIR_CREATE, "weir:{d}", 1),
                            put_to(WEIR_PUT, "weir:{e}", 1)};
  for (size_t i = 0; i < 5; i++)
    batch[i].ttl_us = ttl_us;
  weir_store_exec(store, batch, 5, deadline_in_ms(1000), NULL);
  for (size_t i = 0; i < 5; i++)
    assert_ttl(batch[i].key, ttl_us);
}

static void only_a_refresh_changes_the_ttl(void **state) {
  (void)state;
  const int64_t hour_us = INT64_C(3600) * 1000000;
  weir_operation add = lasting(add_to("weir:{a}", 1), hour_us);
  assert_done(execute(store, add, NULL), 1);
  assert_done(execute(store, lasting(add, 2 * hour_us), NULL), 2);
  assert_done(execute(store, lasting(sub_from("weir:{a}", 1), 2 * hour_us), NULL), 1);
  assert_ttl("weir:{a}", hour_us);
  add.refresh = true;
  assert_done(execute(store, lasting(add, 2 * hour_us), NULL), 2);
  assert_ttl("weir:{a}", 2 * hour_us);
}

static void a_sub_of_an_absent_key_leaves_a_mortal_nothing(void **state) {
  (void)state;
  assert_outcome(execute(store, sub_from("weir:{a}", 5), NULL), WEIR_ABSENT);
  assert_done(execute(store, get_of("weir:{a}"), NULL), 0);
  assert_ttl("weir:{a}", MINUTE_US);
}

static void the_next_use_gives_a_ttl_to_a_key_without_one(void **state) {
  (void)state;
  plain_do(plain, "INCRBY weir:{a} 7");
  plain_do(plain, "INCRBY weir:{b} 7");
  plain_do(plain, "ZADD weir:{c} 7 m");
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 8);
  assert_done(execute(store, sub_from("weir:{b}", 1), NULL), 6);
  assert_done(execute(store, raise_to("weir:{c}", 0, 1), NULL), 8);
  assert_ttl("weir:{a}", MINUTE_US);
  assert_ttl("weir:{b}", MINUTE_US);
  assert_ttl("weir:{c}", MINUTE_US);
}

/* A client that died in between: one that knows the key finds out in its turn, one that does not
 * with its next use. */
static void a_key_that_lost_its_ttl_gets_one_within_64_uses(void **state) {
  (void)state;
  int uses = 0;
  assert_done(execute(store, add_to("weir:{aging}", 1), NULL), 1);
  assert_int_equal(plain_do(plain, "PERSIST weir:{aging}"), 1);
  while (plain_do(plain, "PTTL weir:{aging}") == -1 && uses < WEIR_SEEN_USES) {
    uses++;
    assert_done(execute(store, add_to("weir:{aging}", 1), NULL), 1 + uses);
  }
  assert_int_equal(uses, WEIR_SEEN_USES);
  assert_ttl("weir:{aging}", MINUTE_US);
  assert_int_equal(plain_do(plain, "PERSIST weir:{aging}"), 1);
  weir_store *other = open_servers(&server, 1, "timeout=5s");
  assert_done(execute(other, add_to("weir:{aging}", 1), NULL), 2 + uses);
  assert_ttl("weir:{aging}", MINUTE_US);
  weir_store_close(other);
}

/* As though the key had gone between SET and INCRBY: the total is the delta. */
static void an_addition_that_made_a_key_it_knew_mends_it_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    assert_true(execute(store, add_to("weir:{a}", 5), NULL).value >= 5);
    plain_do(plain, "SET weir:{a} 0");
    assert_done(execute(store, add_to("weir:{a}", 5), NULL), 5);
    assert_ttl("weir:{a}", MINUTE_US);
    plain_do(plain, "DEL weir:{a}"); /* now SET makes it, and the total is the delta again */
    assert_done(execute(store, add_to("weir:{a}", 5), NULL), 5);
    assert_ttl("weir:{a}", MINUTE_US);
  }
}

/* The second round reads again what stood behind the key that had to be mended. */
static void a_get_behind_a_mended_key_reads_it_as_mended(void **state) {
  (void)state;
  plain_do(plain, "SET weir:{a} 0"); /* as though a sum had made it: no TTL, and no seed */
  weir_operation add = add_to("weir:{a}", 2);
  add.seed = 40;
  weir_operation batch[] = {get_of("weir:{a}"), add, get_of("weir:{a}"), add_to("weir:{b}", 1)};
  weir_store_exec(store, batch, 4, deadline_in_ms(1000), NULL);
  assert_done(batch[0], 0);
  assert_done(batch[1], 42);
  assert_done(batch[2], 42);
  assert_done(batch[3], 1);
}

/* 2 ms: many a key expires between SET and INCRBY. */
static void keys_that_die_in_the_middle_of_an_add_stay_mortal(void **state) {
  (void)state;
  enum { BATCH = 64 };
  weir_operation batch[BATCH];
  int64_t end_us = weir_monotonic_us() + 700000;
  size_t count;
  while (weir_monotonic_us() < end_us) {
    char keys[BATCH][16];
    for (size_t i = 0; i < BATCH; i++) {
      snprintf(keys[i], sizeof keys[i], "weir:{%zu}", i % 16);
      batch[i] = i % 3 == 0 ? sub_from(keys[i], 1) : add_to(keys[i], 1);
      batch[i].ttl_us = 1000;
    }
    weir_store_exec(store, batch, BATCH, deadline_in_ms(20000), NULL);
    for (size_t i = 0; i < BATCH; i++)
      assert_true(batch[i].outcome == WEIR_DONE || batch[i].outcome == WEIR_ABSENT);
  }
  assert_int_equal(plain_count_immortal(plain, &count), 0);
}

static void a_raised_key_holds_no_plain_integer(void **state) {
  (void)state;
  weir_message message = {""};
  assert_done(execute(store, raise_to("weir:{a}", 100, 5), NULL), 105);
  assert_done(execute(store, raise_to("weir:{a}", 90, 5), NULL), 110);
  assert_outcome(execute(store, get_of("weir:{a}"), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "get of key \"weir:{a}\": it holds another type"));
  assert_outcome(execute(store, add_to("weir:{a}", 5), &message), WEIR_REFUSED);
  assert_outcome(execute(store, sub_from("weir:{a}", 5), &message), WEIR_REFUSED);
  assert_done(execute(store, raised(get_of("weir:{a}")), NULL), 110);
  assert_outcome(execute(store, operation_on(WEIR_DROP, "weir:{a}"), NULL), WEIR_DONE);
}

static void a_plain_integer_is_no_raised_key(void **state) {
  (void)state;
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:{a}", 5), NULL), 5);
  assert_outcome(execute(store, raised(get_of("weir:{a}")), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "zscore of key \"weir:{a}\": it holds another type"));
  assert_outcome(execute(store, raised(sub_from("weir:{a}", 5)), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "zadd of key \"weir:{a}\": it holds another type"));
  assert_outcome(execute(store, raise_to("weir:{a}", 0, 5), &message), WEIR_REFUSED);
  assert_done(execute(store, get_of("weir:{a}"), NULL), 5);
}

/* Beyond, 2^53 + 1 would be told as 2^53. */
static void a_raise_is_exact_below_2_to_the_53_and_never_wrong(void **state) {
  (void)state;
  weir_message message = {""};
  const int64_t floor = INT64_C(1) << 52;
  assert_done(execute(store, raise_to("weir:{a}", floor, 1), NULL), floor + 1);
  assert_done(execute(store, raise_to("weir:{a}", 0, floor - 2), NULL), 2 * floor - 1);
  assert_done(execute(store, raised(get_of("weir:{a}")), NULL), 2 * floor - 1);
  assert_outcome(execute(store, raise_to("weir:{a}", 0, 2), &message), WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "zadd of key \"weir:{a}\": it holds a score beyond"));
  assert_outcome(execute(store, raised(get_of("weir:{a}")), &message), WEIR_REFUSED);
}

static void a_sub_of_a_raised_key_keeps_its_ttl(void **state) {
  (void)state;
  const int64_t hour_us = INT64_C(3600) * 1000000;
  assert_done(execute(store, lasting(raise_to("weir:{a}", 100, 5), hour_us), NULL), 105);
  assert_done(execute(store, raised(sub_from("weir:{a}", 5)), NULL), 100);
  assert_ttl("weir:{a}", hour_us);
  assert_done(execute(store, raised(get_of("weir:{a}")), NULL), 100);
  assert_ttl("weir:{a}", hour_us);
}

static weir_operation unrenewed(weir_operation operation) {
  operation.refresh = false;
  return operation;
}

static void a_raise_without_refresh_is_two_commands_and_keeps_the_ttl(void **state) {
  (void)state;
  const int64_t hour_us = INT64_C(3600) * 1000000;
  assert_done(execute(store, lasting(raise_to("weir:{a}", 100, 5), hour_us), NULL), 105);
  long long zadds = plain_calls(plain, "zadd");
  long long pexpires = plain_calls(plain, "pexpire");
  assert_done(execute(store, unrenewed(raise_to("weir:{a}", 200, 5)), NULL), 205);
  assert_done(execute(store, unrenewed(raise_to("weir:{a}", 7, 5)), NULL), 210);
  assert_int_equal(plain_calls(plain, "zadd"), zadds + 4);
  assert_int_equal(plain_calls(plain, "pexpire"), pexpires);
  assert_ttl("weir:{a}", hour_us);
}

static void a_raise_without_refresh_creates_nothing(void **state) {
  (void)state;
  plain_do(plain, "ZADD weir:{other} 7 somebody");
  assert_outcome(execute(store, unrenewed(raise_to("weir:{a}", 100, 5)), NULL), WEIR_ABSENT);
  assert_outcome(execute(store, unrenewed(raise_to("weir:{other}", 100, 5)), NULL), WEIR_ABSENT);
  assert_int_equal(plain_do(plain, "DBSIZE"), 1);
  assert_int_equal(plain_do(plain, "ZCARD weir:{other}"), 1);
}

static void a_sub_of_an_absent_raised_key_creates_nothing(void **state) {
  (void)state;
  plain_do(plain, "ZADD weir:{other} 7 somebody");
  assert_outcome(execute(store, raised(sub_from("weir:{a}", 5)), NULL), WEIR_ABSENT);
  assert_outcome(execute(store, raised(sub_from("weir:{other}", 5)), NULL), WEIR_ABSENT);
  assert_outcome(execute(store, raised(get_of("weir:{other}")), NULL), WEIR_ABSENT);
  assert_int_equal(plain_do(plain, "DBSIZE"), 1);
  assert_int_equal(plain_do(plain, "ZCARD weir:{other}"), 1);
}

/* Scores that no RAISE leaves: refused, and told why; never a number that may be wrong. */
static void a_foreign_score_is_refused(void **state) {
  (void)state;
  static const char *const scores[] = {"1.5",  "-0.25", "inf", "-inf", "9007199254740994",
                                       "1e17", "-1e300"};
  for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
    char command[64];
    weir_message message = {""};
    snprintf(command, sizeof command, "ZADD weir:{a} %s m", scores[i]);
    plain_do(plain, command);
    assert_outcome(execute(store, raised(get_of("weir:{a}")), &message), WEIR_REFUSED);
    assert_non_null(strstr(message.text, "zscore of key \"weir:{a}\": it holds "));
    assert_outcome(execute(store, raised(sub_from("weir:{a}", 1)), &message), WEIR_REFUSED);
    assert_non_null(strstr(message.text, "zadd of key \"weir:{a}\": it holds "));
    plain_do(plain, "DEL weir:{a}");
  }
}

static long long new_connection_id(void) {
  redisContext *made = plain_connect(server);
  long long id = plain_do(made, "CLIENT ID");
  redisFree(made);
  return id;
}

/* Wrong items of any size harm neither neighbours nor the connection. */
static void what_others_stored_is_refused_and_the_connection_kept(void **state) {
  (void)state;
  plain_do(plain, "SET weir:{a}:text hello");
  plain_do(plain, "SETRANGE weir:{a}:huge 3000000 x");
  plain_do(plain, "LPUSH weir:{a}:list 1");
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:{a}:good", 1), NULL), 1);
  weir_operation batch[] = {get_of("weir:{a}:text"),      get_of("weir:{a}:huge"),
                            get_of("weir:{a}:list"),      add_to("weir:{a}:text", 1),
                            sub_from("weir:{a}:list", 1), raise_to("weir:{a}:text", 1, 1),
                            add_to("weir:{a}:good", 1),   get_of("weir:{a}:good")};
  const size_t count = sizeof batch / sizeof batch[0];
  long long before = new_connection_id();
  weir_store_exec(store, batch, count, deadline_in_ms(1000), &message);
  for (size_t i = 0; i < count - 2; i++)
    assert_outcome(batch[i], WEIR_REFUSED);
  assert_done(batch[count - 2], 2);
  assert_done(batch[count - 1], 2);
  assert_int_equal(new_connection_id(), before + 1); /* none was made in between */
}

static void a_sum_past_int64_is_refused(void **state) {
  (void)state;
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:{a}", WEIR_VALUE_MOST), NULL), WEIR_VALUE_MOST);
  assert_done(execute(store, add_to("weir:{a}", WEIR_VALUE_MOST - 1), NULL), INT64_MAX);
  assert_outcome(execute(store, add_to("weir:{a}", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "range of an int64"));
  assert_done(execute(store, get_of("weir:{a}"), NULL), INT64_MAX);
}

static weir_store *open_url(const char *format, unsigned port) {
  char url[128];
  weir_message message = {""};
  weir_store *opened = NULL;
  snprintf(url, sizeof url, format, port);
  if (weir_store_open(url, &opened, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return opened;
}

static void counts_in_the_database_that_the_url_names(void **state) {
  (void)state;
  static const char *const urls[] = {"redis://127.0.0.1:%u/3?timeout=5s",
                                     "redis://127.0.0.1:%u?db=3&timeout=5s",
                                     "redis://127.0.0.1:%u/0?timeout=5s"};
  for (int i = 0; i < 3; i++) {
    weir_store *other = open_url(urls[i], server_port(server));
    assert_done(execute(other, add_to("weir:{a}", 1), NULL), i < 2 ? i + 1 : 1);
    weir_store_close(other);
  }
  assert_int_equal(plain_do(plain, "DBSIZE"), 1);
}

static void a_batch_of_any_size_leaves_in_order(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  weir_operation *batch = calloc(COUNT, sizeof *batch);
  assert_non_null(batch);
  for (size_t i = 0; i < COUNT; i++)
    batch[i] = i % 2 == 0 ? add_to("weir:{a}", 1) : get_of("weir:{a}");
  weir_store_exec(store, batch, COUNT, deadline_in_ms(20000), NULL);
  for (size_t i = 0; i < COUNT; i++)
    assert_done(batch[i], (int64_t)i / 2 + 1);
  free(batch);
}

static void a_server_that_restarts_is_found_again(void **state) {
  (void)state;
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 1);
  server_restart(server);
  redisFree(plain);
  plain = plain_connect(server);
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 1);
}

static void a_silent_server_costs_one_deadline(void **state) {
  (void)state;
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 1);
  server_stop(server);
  weir_operation add = add_to("weir:{a}", 1);
  int64_t began_us = weir_monotonic_us();
  weir_store_exec(store, &add, 1, deadline_in_ms(100), NULL);
  int64_t took_us = weir_monotonic_us() - began_us;
  server_continue(server);
  assert_outcome(add, WEIR_UNKNOWN);
  assert_in_range(took_us, 90000, 3000000); /* not the timeout of 5 s, on a busy machine too */
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 3); /* executed once it went on */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_key_gets_the_ttl_that_was_asked_for, wipe),
      cmocka_unit_test_setup(only_a_refresh_changes_the_ttl, wipe),
      cmocka_unit_test_setup(a_sub_of_an_absent_key_leaves_a_mortal_nothing, wipe),
      cmocka_unit_test_setup(the_next_use_gives_a_ttl_to_a_key_without_one, wipe),
      cmocka_unit_test_setup(a_key_that_lost_its_ttl_gets_one_within_64_uses, wipe),
      cmocka_unit_test_setup(an_addition_that_made_a_key_it_knew_mends_it_at_once, wipe),
      cmocka_unit_test_setup(a_get_behind_a_mended_key_reads_it_as_mended, wipe),
      cmocka_unit_test_setup(keys_that_die_in_the_middle_of_an_add_stay_mortal, wipe),
      cmocka_unit_test_setup(a_raised_key_holds_no_plain_integer, wipe),
      cmocka_unit_test_setup(a_plain_integer_is_no_raised_key, wipe),
      cmocka_unit_test_setup(a_raise_is_exact_below_2_to_the_53_and_never_wrong, wipe),
      cmocka_unit_test_setup(a_sub_of_a_raised_key_keeps_its_ttl, wipe),
      cmocka_unit_test_setup(a_raise_without_refresh_is_two_commands_and_keeps_the_ttl, wipe),
      cmocka_unit_test_setup(a_raise_without_refresh_creates_nothing, wipe),
      cmocka_unit_test_setup(a_sub_of_an_absent_raised_key_creates_nothing, wipe),
      cmocka_unit_test_setup(a_foreign_score_is_refused, wipe),
      cmocka_unit_test_setup(what_others_stored_is_refused_and_the_connection_kept, wipe),
      cmocka_unit_test_setup(a_sum_past_int64_is_refused, wipe),
      cmocka_unit_test_setup(counts_in_the_database_that_the_url_names, wipe),
      cmocka_unit_test_setup(a_batch_of_any_size_leaves_in_order, wipe),
      cmocka_unit_test_setup(a_server_that_restarts_is_found_again, wipe),
      cmocka_unit_test_setup(a_silent_server_costs_one_deadline, wipe),
  };
  return cmocka_run_group_tests(tests, start, end);
}
