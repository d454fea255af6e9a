/* The bytes that are sent, and what the replies prove, without a server. */
#include "redis/answer.h"

static weir_operation seeded_add(int64_t seed, int64_t delta) {
  weir_operation add = add_to("k", delta);
  add.seed = seed;
  return add;
}

static weir_operation seen_add(int64_t delta) {
  weir_operation add = add_to("k", delta);
  set_attempt(&add, (weir_redis_attempt){.facts = WEIR_FACT_SEEN});
  return add;
}

static void sends_each_operation_in_plain_commands(void **state) {
  (void)state;
  weir_operation add = seeded_add(40, 2);
  assert_string_equal(words(&add, 0), "SET k 40 PX 60001 NX INCRBY k 2 PTTL k");
  add.refresh = true;
  assert_string_equal(words(&add, 0), "SET k 40 PX 60001 NX INCRBY k 2 PTTL k PEXPIRE k 60001");
  weir_operation sub = sub_from("k", 3);
  assert_string_equal(words(&sub, 0), "SET k 3 PX 60001 NX DECRBY k 3 PTTL k");
  weir_operation raise = raise_to(100, 5);
  assert_string_equal(words(&raise, 0), "ZADD k GT 100 m ZADD k XX INCR 5 m PEXPIRE k 60001");
  weir_operation create = put_to(WEIR_CREATE, "k", 7);
  assert_string_equal(words(&create, 0), "SET k 7 PX 60001 NX");
  weir_operation put = put_to(WEIR_PUT, "k", 0);
  assert_string_equal(words(&put, 0), "SET k 0 PX 60001");
}

static void rounds_a_ttl_up_and_adds_what_the_server_cuts(void **state) {
  (void)state;
  weir_operation put = put_to(WEIR_PUT, "k", 0);
  put.ttl_us = 1000;
  assert_string_equal(words(&put, 0), "SET k 0 PX 2");
  put.ttl_us = 1001;
  assert_string_equal(words(&put, 0), "SET k 0 PX 3");
  put.ttl_us = WEIR_TTL_MOST_US;
  assert_string_equal(words(&put, 0), "SET k 0 PX 181440000001");
}

static void the_longest_command_fits(void **state) {
  (void)state;
  char key[WEIR_STORE_KEY_MOST + 1];
  char bytes[2 * WEIR_WIRE_COMMAND_MOST];
  memset(key, 'k', WEIR_STORE_KEY_MOST);
  key[WEIR_STORE_KEY_MOST] = '\0';
  for (unsigned form = 0; form < 4 * (WEIR_DROP + 1); form++) {
    weir_operation operation = operation_on((weir_operation_kind)(form / 4), key);
    operation.delta = operation.seed = operation.value = operation.floor = WEIR_VALUE_MOST;
    operation.refresh = form % 2 != 0;
    operation.raised = form % 4 > 1;
    operation.ttl_us = WEIR_TTL_MOST_US;
    for (unsigned attempt = 0; attempt < 2; attempt++) {
      set_attempt(&operation,
                  (weir_redis_attempt){.stage = attempt == 0 ? WEIR_STAGE_FIRST : WEIR_STAGE_MEND,
                                       .facts = WEIR_FACT_OWED | WEIR_FACT_BARE});
      const weir_wire_command command = command_of(&operation, attempt);
      assert_true(weir_redis_codec.encode(&command, 0, bytes) <= WEIR_WIRE_COMMAND_MOST);
    }
  }
}

static void an_add_is_done_with_the_total_that_its_own_sum_gave(void **state) {
  (void)state;
  assert_done(answer(seeded_add(40, 2), 0, "+OK\r\n:42\r\n:60001\r\n"), 42);
  assert_done(answer(seeded_add(40, 2), 0, "$-1\r\n:9\r\n:123\r\n"), 9);
  assert_done(answer(add_to("k", 2), 0, "$-1\r\n:2\r\n:1\r\n"), 2);       /* it stood at 0 */
  assert_done(answer(seeded_add(40, 2), 0, "+OK\r\n:42\r\n:-2\r\n"), 42); /* evicted since */
}

/* The key expired, or was evicted, between SET and INCRBY. */
static void an_add_that_created_the_key_itself_adds_the_seed_and_a_ttl(void **state) {
  (void)state;
  static const char *const replies[] = {"$-1\r\n:2\r\n:-1\r\n", "+OK\r\n:2\r\n:-1\r\n"};
  for (size_t i = 0; i < 2; i++) {
    weir_operation add = answer(seeded_add(40, 2), 0, replies[i]);
    assert_outcome(add, WEIR_PENDING);
    assert_string_equal(words(&add, 1), "INCRBY k 40 PEXPIRE k 60001");
    assert_done(answer(add, 1, ":42\r\n:1\r\n"), 42);
  }
}

static void an_add_without_a_seed_that_created_the_key_gives_it_a_ttl(void **state) {
  (void)state;
  weir_operation add = answer(add_to("k", 2), 0, "+OK\r\n:2\r\n:-1\r\n");
  assert_outcome(add, WEIR_PENDING);
  assert_string_equal(words(&add, 1), "PEXPIRE k 60001");
  assert_done(answer(add, 1, ":1\r\n"), 2);
  assert_done(answer(add, 1, ":0\r\n"), 2); /* gone meanwhile */
}

static void an_add_to_a_key_that_was_seen_with_a_ttl_does_not_ask(void **state) {
  (void)state;
  weir_operation add = seen_add(2);
  assert_string_equal(words(&add, 0), "SET k 0 PX 60001 NX INCRBY k 2");
  assert_done(answer(add, 0, "$-1\r\n:9\r\n"), 9);
  assert_done(answer(add, 0, "$-1\r\n:-7\r\n"), -7);
  assert_done(answer(add, 0, "$-1\r\n:0\r\n"), 0);
  assert_done(answer(add, 0, "+OK\r\n:3\r\n"), 3); /* another was faster */
}

/* The total is the delta: the key stood at 0, or was gone and this sum has created it. */
static void an_add_that_may_have_created_a_key_that_was_seen_asks_then(void **state) {
  (void)state;
  static const char *const replies[] = {"$-1\r\n:2\r\n", "+OK\r\n:2\r\n",
                                        "-OOM command not allowed\r\n:2\r\n"};
  for (size_t i = 0; i < 3; i++) {
    weir_operation add = answer(seen_add(2), 0, replies[i]);
    assert_outcome(add, WEIR_PENDING);
    assert_string_equal(words(&add, 1), "PTTL k");
    assert_done(answer(add, 1, ":123\r\n"), 2);
    assert_done(answer(add, 1, ":0\r\n"), 2);
    assert_done(answer(add, 1, ":-2\r\n"), 2); /* gone meanwhile */
    add = answer(add, 1, ":-1\r\n");
    assert_outcome(add, WEIR_PENDING);
    assert_string_equal(words(&add, 2), "PEXPIRE k 60001");
    assert_outcome(answer(add, 2, ":1\r\n"), i < 2 ? WEIR_DONE : WEIR_UNKNOWN);
  }
}

/* A seed is added too, where the sum has made the key. */
static void a_seeded_add_that_created_a_key_that_was_seen_adds_its_seed(void **state) {
  (void)state;
  weir_operation add = seen_add(2);
  add.seed = 40;
  assert_string_equal(words(&add, 0), "SET k 40 PX 60001 NX INCRBY k 2");
  add = answer(add, 0, "$-1\r\n:2\r\n");
  assert_string_equal(words(&add, 1), "PTTL k");
  add = answer(add, 1, ":-1\r\n");
  assert_string_equal(words(&add, 2), "INCRBY k 40 PEXPIRE k 60001");
}

/* A TTL is renewed anyway. */
static void an_add_with_a_refresh_always_asks(void **state) {
  (void)state;
  weir_operation operations[] = {add_to("k", 1), seeded_add(1, 1), add_to("k", 1),
                                 sub_from("k", 1)};
  operations[2].refresh = true;
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(weir_redis_may_be_seen(&operations[i]), i < 2);
}

/* A client died between its sum and its repair. */
static void the_next_use_gives_a_ttl_to_a_key_that_others_left_without(void **state) {
  (void)state;
  weir_operation add = answer(seeded_add(40, 2), 0, "$-1\r\n:7\r\n:-1\r\n");
  assert_outcome(add, WEIR_PENDING);
  assert_string_equal(words(&add, 1), "PEXPIRE k 60001");
  assert_done(answer(add, 1, ":1\r\n"), 7);
  weir_operation sub = answer(sub_from("k", 3), 0, "$-1\r\n:4\r\n:-1\r\n");
  assert_string_equal(words(&sub, 1), "PEXPIRE k 60001");
  assert_done(answer(sub, 1, ":1\r\n"), 4);
}

static void a_sub_takes_from_what_is_there(void **state) {
  (void)state;
  assert_done(answer(sub_from("k", 3), 0, "$-1\r\n:4\r\n:99\r\n"), 4);
  assert_done(answer(sub_from("k", 3), 0, "$-1\r\n:-3\r\n:99\r\n"), -3); /* from 0 */
}

static void a_sub_of_an_absent_key_ends_at_nothing(void **state) {
  (void)state;
  assert_outcome(answer(sub_from("k", 3), 0, "+OK\r\n:0\r\n:60001\r\n"), WEIR_ABSENT);
}

static void a_sub_that_created_the_key_itself_gives_all_back(void **state) {
  (void)state;
  static const char *const replies[] = {"$-1\r\n:-3\r\n:-1\r\n", "+OK\r\n:-3\r\n:-1\r\n"};
  for (size_t i = 0; i < 2; i++) {
    weir_operation sub = answer(sub_from("k", 3), 0, replies[i]);
    assert_outcome(sub, WEIR_PENDING);
    assert_string_equal(words(&sub, 1), "INCRBY k 3 PEXPIRE k 60001");
    assert_outcome(answer(sub, 1, ":0\r\n:1\r\n"), WEIR_ABSENT);
  }
}

static void plain_operations_say_what_was_there(void **state) {
  (void)state;
  assert_done(answer(get_of("k"), 0, "$2\r\n-7\r\n"), -7);
  assert_outcome(answer(get_of("k"), 0, "$-1\r\n"), WEIR_ABSENT);
  assert_outcome(answer(get_of("k"), 0, "$5\r\nhello\r\n"), WEIR_REFUSED);
  assert_outcome(answer(put_to(WEIR_CREATE, "k", 1), 0, "+OK\r\n"), WEIR_DONE);
  assert_outcome(answer(put_to(WEIR_CREATE, "k", 1), 0, "$-1\r\n"), WEIR_CONFLICT);
  assert_outcome(answer(put_to(WEIR_PUT, "k", 1), 0, "+OK\r\n"), WEIR_DONE);
  assert_outcome(answer(operation_on(WEIR_DROP, "k"), 0, ":1\r\n"), WEIR_DONE);
  assert_outcome(answer(operation_on(WEIR_DROP, "k"), 0, ":0\r\n"), WEIR_ABSENT);
}

#define OOM "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
#define NOPERM(name) "-NOPERM this user has no permissions to run the '" name "' command\r\n"

static void what_is_refused_as_a_whole_is_refused(void **state) {
  (void)state;
  assert_outcome(answer(add_to("k", 2), 0, OOM OOM ":-2\r\n"), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "out of memory"));
  assert_non_null(strstr(message.text, "set of key \"k\""));
  assert_outcome(answer(put_to(WEIR_PUT, "k", 1), 0, OOM), WEIR_REFUSED);
  assert_outcome(answer(raise_to(1, 1), 0, OOM OOM ":0\r\n"), WEIR_REFUSED);
}

static void a_refused_set_does_not_matter_where_the_key_is_there(void **state) {
  (void)state;
  assert_done(answer(add_to("k", 2), 0, OOM ":9\r\n:500\r\n"), 9);
}

static void a_sum_without_its_set_is_mended_and_in_doubt(void **state) {
  (void)state;
  weir_operation add = answer(seeded_add(40, 2), 0, NOPERM("set") ":2\r\n:-1\r\n");
  assert_outcome(add, WEIR_PENDING);
  assert_string_equal(words(&add, 1), "INCRBY k 40 PEXPIRE k 60001");
  assert_outcome(answer(add, 1, ":42\r\n:1\r\n"), WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "+set"));
}

static void a_sum_whose_ttl_cannot_be_told_is_in_doubt(void **state) {
  (void)state;
  assert_outcome(answer(add_to("k", 2), 0, "+OK\r\n:2\r\n" NOPERM("pttl")), WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "+pttl"));
  weir_operation add = answer(add_to("k", 2), 0, "$-1\r\n:2\r\n:-1\r\n");
  assert_outcome(answer(add, 1, NOPERM("pexpire")), WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "+pexpire"));
}

static void a_set_without_its_sum_is_refused(void **state) {
  (void)state;
  assert_outcome(answer(add_to("k", 2), 0, "+OK\r\n" NOPERM("incrby") ":60001\r\n"), WEIR_REFUSED);
  assert_outcome(
      answer(add_to("k", 2), 0, "$-1\r\n-ERR increment or decrement would overflow\r\n:60001\r\n"),
      WEIR_REFUSED);
}

/* A proxy reports what it lost in words of its own; only a refused connection is sure. */
static void an_error_of_a_proxy_leaves_doubt(void **state) {
  (void)state;
  static const char *const texts[] = {"-ERR Connection timed out\r\n",
                                      "-ERR Connection reset by peer\r\n", "-ERR unknown\r\n",
                                      "-upstream failure\r\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char replies[256];
    snprintf(replies, sizeof replies, "%s%s%s", texts[i], texts[i], texts[i]);
    assert_outcome(answer(add_to("k", 2), 0, replies), WEIR_UNKNOWN);
    assert_outcome(answer(get_of("k"), 0, texts[i]), WEIR_REFUSED);
  }
  assert_outcome(answer(put_to(WEIR_PUT, "k", 2), 0, "-ERR Connection refused\r\n"), WEIR_REFUSED);
}

static void a_reply_that_the_command_cannot_have_breaks_the_connection(void **state) {
  (void)state;
  static const struct {
    weir_operation_kind kind;
    const char *reply;
  } cases[] = {{WEIR_ADD, ":1\r\n"},   {WEIR_ADD, "+QUEUED\r\n"}, {WEIR_GET, ":1\r\n"},
               {WEIR_GET, "+OK\r\n"},  {WEIR_PUT, "$-1\r\n"},     {WEIR_CREATE, "$2\r\nOK\r\n"},
               {WEIR_DROP, "+OK\r\n"}, {WEIR_RAISE, "$-1\r\n"},   {WEIR_GET, "*1\r\n$1\r\n7\r\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_redis_parser *own = weir_redis_parser_create(NULL);
    const weir_operation operation = operation_on(cases[i].kind, "k");
    weir_wire_command command = command_of(&operation, 0);
    size_t taken = 0;
    command.parser = own;
    assert_int_equal(
        weir_redis_codec.decode(&command, cases[i].reply, strlen(cases[i].reply), &taken, &message),
        WEIR_READING_BROKEN);
    weir_redis_parser_destroy(own);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sends_each_operation_in_plain_commands),
      cmocka_unit_test(rounds_a_ttl_up_and_adds_what_the_server_cuts),
      cmocka_unit_test(the_longest_command_fits),
      cmocka_unit_test(an_add_is_done_with_the_total_that_its_own_sum_gave),
      cmocka_unit_test(an_add_that_created_the_key_itself_adds_the_seed_and_a_ttl),
      cmocka_unit_test(an_add_without_a_seed_that_created_the_key_gives_it_a_ttl),
      cmocka_unit_test(an_add_to_a_key_that_was_seen_with_a_ttl_does_not_ask),
      cmocka_unit_test(an_add_that_may_have_created_a_key_that_was_seen_asks_then),
      cmocka_unit_test(a_seeded_add_that_created_a_key_that_was_seen_adds_its_seed),
      cmocka_unit_test(an_add_with_a_refresh_always_asks),
      cmocka_unit_test(the_next_use_gives_a_ttl_to_a_key_that_others_left_without),
      cmocka_unit_test(a_sub_takes_from_what_is_there),
      cmocka_unit_test(a_sub_of_an_absent_key_ends_at_nothing),
      cmocka_unit_test(a_sub_that_created_the_key_itself_gives_all_back),
      cmocka_unit_test(plain_operations_say_what_was_there),
      cmocka_unit_test(what_is_refused_as_a_whole_is_refused),
      cmocka_unit_test(a_refused_set_does_not_matter_where_the_key_is_there),
      cmocka_unit_test(a_sum_without_its_set_is_mended_and_in_doubt),
      cmocka_unit_test(a_sum_whose_ttl_cannot_be_told_is_in_doubt),
      cmocka_unit_test(a_set_without_its_sum_is_refused),
      cmocka_unit_test(an_error_of_a_proxy_leaves_doubt),
      cmocka_unit_test(a_reply_that_the_command_cannot_have_breaks_the_connection),
  };
  return cmocka_run_group_tests(tests, make_parser, free_parser);
}
