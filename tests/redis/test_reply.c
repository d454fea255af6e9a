#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redis/reply.h"

static weir_redis_parser *parser;

static int make_parser(void **state) {
  (void)state;
  parser = weir_redis_parser_create(NULL);
  return parser == NULL;
}

static int free_parser(void **state) {
  (void)state;
  weir_redis_parser_destroy(parser);
  return 0;
}

/* Every front of the bytes wants more and leaves nothing behind; then comes the reply. */
static const weir_redis_reply *read_whole(const char *bytes) {
  const weir_redis_reply *reply = NULL;
  size_t length = strlen(bytes);
  size_t taken = 0;
  for (size_t part = 1; part < length; part++) {
    weir_reading reading = weir_redis_parser_read(parser, bytes, part, &taken, &reply);
    if (reading != WEIR_READING_MORE) fail_msg("%zu of \"%s\": %d", part, bytes, (int)reading);
  }
  assert_int_equal(weir_redis_parser_read(parser, bytes, length, &taken, &reply),
                   WEIR_READING_REPLY);
  assert_int_equal(taken, length);
  return reply;
}

static void reads_every_kind_in_pieces(void **state) {
  (void)state;
  assert_true(weir_redis_reply_is_ok(read_whole("+OK\r\n")));
  assert_int_equal(read_whole("$-1\r\n")->kind, WEIR_REPLY_NIL);
  const weir_redis_reply *reply = read_whole(":-9223372036854775808\r\n");
  assert_int_equal(reply->kind, WEIR_REPLY_INTEGER);
  assert_true(reply->integer == INT64_MIN);
  assert_true(read_whole(":9223372036854775807\r\n")->integer == INT64_MAX);
  reply = read_whole("-WRONGTYPE Operation against a key\r\n");
  assert_int_equal(reply->kind, WEIR_REPLY_ERROR);
  assert_true(weir_redis_reply_starts(reply, "WRONGTYPE"));
  reply = read_whole("$4\r\n1\r\n2\r\n");
  assert_int_equal(reply->kind, WEIR_REPLY_STRING);
  assert_memory_equal(reply->text, "1\r\n2", 5);
  assert_int_equal(read_whole("$0\r\n\r\n")->length, 0);
}

/* What INCREX answers, in the form that is read at once and in the one that is not. */
static void reads_two_integers_in_pieces(void **state) {
  static const struct {
    const char *bytes;
    int64_t total, applied;
  } cases[] = {{"*2\r\n:5\r\n:3\r\n", 5, 3},
               {"*2\r\n:0\r\n:0\r\n", 0, 0},
               {"*2\r\n:-12\r\n:-20\r\n", -12, -20},
               {"*2\r\n:9223372036854775807\r\n:-1\r\n", INT64_MAX, -1},
               {"*2\r\n:1\r\n:-9223372036854775807\r\n", 1, -INT64_MAX}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weir_redis_reply *reply = read_whole(cases[i].bytes);
    assert_int_equal(reply->kind, WEIR_REPLY_ARRAY);
    assert_int_equal(reply->length, 2);
    assert_true(reply->array[0] == cases[i].total && reply->array[1] == cases[i].applied);
  }
}

static void takes_one_reply_of_many(void **state) {
  (void)state;
  const char bytes[] = ":1\r\n$2\r\n22\r\n+OK\r\n";
  const weir_redis_reply *reply;
  size_t taken = 0;
  assert_int_equal(weir_redis_parser_read(parser, bytes, strlen(bytes), &taken, &reply),
                   WEIR_READING_REPLY);
  assert_int_equal(taken, 4);
  assert_int_equal(reply->integer, 1);
  assert_int_equal(weir_redis_parser_read(parser, bytes + 4, strlen(bytes + 4), &taken, &reply),
                   WEIR_READING_REPLY);
  assert_int_equal(taken, 8);
  assert_string_equal(reply->text, "22");
}

static void breaks_on_what_no_redis_sends(void **state) {
  (void)state;
  static const char *const texts[] = {":\r\n",
                                      ":12x\r\n",
                                      ": 1\r\n",
                                      ":9223372036854775808\r\n",
                                      ":1\n",
                                      "\r\n",
                                      "\n",
                                      "$\r\n",
                                      "$x\r\n",
                                      "$1x\r\nab\r\n",
                                      "$-2\r\n",
                                      "$99999999999999999999\r\n",
                                      "$1\r\nabc\r\n",
                                      "*0\r\n",
                                      "*1\r\n:1\r\n",
                                      "*-5\r\n",
                                      "%1\r\n",
                                      "_\r\n",
                                      "#t\r\n",
                                      ",1\r\n",
                                      "VERSION 1.6\r\n",
                                      "ERROR\r\n",
                                      "HTTP/1.1 400 Bad Request\r\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const weir_redis_reply *reply;
    size_t taken = 0;
    weir_redis_parser *own = weir_redis_parser_create(NULL);
    weir_reading reading = weir_redis_parser_read(own, texts[i], strlen(texts[i]), &taken, &reply);
    if (reading != WEIR_READING_BROKEN) fail_msg("\"%s\": %d", texts[i], (int)reading);
    weir_redis_parser_destroy(own);
  }
}

static void skips_a_long_string_unread(void **state) {
  (void)state;
  const char bytes[] = "$100000000\r\nabc";
  const weir_redis_reply *reply;
  size_t taken = 0;
  assert_int_equal(weir_redis_parser_read(parser, bytes, strlen(bytes), &taken, &reply),
                   WEIR_READING_REPLY);
  assert_int_equal(reply->kind, WEIR_REPLY_LONG);
  assert_int_equal(taken, 12 + 100000000 + 2);
}

static void cuts_a_long_error(void **state) {
  (void)state;
  char bytes[1000];
  memset(bytes, 'x', sizeof bytes);
  memcpy(bytes, "-ERR ", 5);
  memcpy(bytes + sizeof bytes - 3, "\r\n", 3);
  const weir_redis_reply *reply = read_whole(bytes);
  assert_int_equal(reply->length, WEIR_REPLY_TEXT_MOST);
  assert_int_equal(strlen(reply->text), WEIR_REPLY_TEXT_MOST);
}

static void accepts_integers_as_incrby_does(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool accepted;
    int64_t number;
  } cases[] = {{"0", true, 0},
               {"-7", true, -7},
               {"9223372036854775807", true, INT64_MAX},
               {"-9223372036854775808", true, INT64_MIN},
               {"9223372036854775808", false, 0},
               {"-9223372036854775809", false, 0},
               {"99999999999999999999", false, 0},
               {"-0", false, 0},
               {"01", false, 0},
               {"+1", false, 0},
               {" 1", false, 0},
               {"1 ", false, 0},
               {"1.5", false, 0},
               {"4.6116860184273879e+18", false, 0},
               {"", false, 0},
               {"-", false, 0},
               {"hello", false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char bytes[64];
    int64_t number = 0;
    snprintf(bytes, sizeof bytes, "$%zu\r\n%s\r\n", strlen(cases[i].text), cases[i].text);
    if (weir_redis_reply_number(read_whole(bytes), &number) != cases[i].accepted)
      fail_msg("\"%s\"", cases[i].text);
    assert_true(number == cases[i].number);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_kind_in_pieces),
      cmocka_unit_test(reads_two_integers_in_pieces),
      cmocka_unit_test(takes_one_reply_of_many),
      cmocka_unit_test(breaks_on_what_no_redis_sends),
      cmocka_unit_test(skips_a_long_string_unread),
      cmocka_unit_test(cuts_a_long_error),
      cmocka_unit_test(accepts_integers_as_incrby_does),
  };
  return cmocka_run_group_tests(tests, make_parser, free_parser);
}
