/* Both dialects as pure functions: what is sent, and what every reply means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memcached/codec.h"

enum { SERIAL = 42 };

static const int64_t now_s = 1700000000;

typedef struct codec_case {
  const weir_wire_codec *codec;
  weir_operation_kind kind;
  unsigned flags;
  const char *sent;
  const char *reply;
  weir_outcome outcome;
  int64_t value;
  uint64_t version;
} codec_case;

enum { REFRESH = 1, SECOND = 2, CLOSES = 4, BROKEN = 8, DATE = 16 };

/* key "k", delta 3, seed 5, value 12, version 77, 60 s to live; with DATE 40 days. */
static const codec_case cases[] = {
    {&weir_meta_codec, WEIR_ADD, 0, "ma k N62 J8 D3 v O42\r\n", "VA 1 O42\r\n8\r\n", WEIR_DONE, 8,
     0},
    {&weir_meta_codec, WEIR_ADD, REFRESH, "ma k N62 J8 D3 v O42\r\nmg k T62\r\n",
     "VA 2 O42\r\n9 \r\nHD\r\n", WEIR_DONE, 9, 0},
    {&weir_meta_codec, WEIR_ADD, REFRESH, NULL, "VA 1 O42\r\n9\r\nEN\r\n", WEIR_DONE, 9, 0},
    {&weir_meta_codec, WEIR_ADD, REFRESH, NULL,
     "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nHD\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, REFRESH, NULL, "VA 1 O42\r\n9\r\nSERVER_ERROR out of memory\r\n",
     WEIR_UNKNOWN, 9, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "VA 20 O42\r\n18446744073709551615\r\n", WEIR_DONE, -1,
     0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "NS O42\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "NF O42\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "HD O42\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "EN\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1 O41\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1 O42\r\n8xx", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1 c3 O42\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA -1 O42\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 2147483648 O42\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1  O42\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 1 O42 \r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "MN\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL,
     "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "SERVER_ERROR out of memory\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "SERVER_ERROR Out of memory allocating new item\r\n",
     WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "SERVER_ERROR backend failure\r\n", WEIR_UNKNOWN, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "VA 8 O42\r\n90817263\r\n", WEIR_DONE, 90817263, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "VA 18 O42\r\n347892350976908172\r\n", WEIR_DONE,
     INT64_C(347892350976908172), 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "VA 19 O42\r\n9223372036854775807\r\n", WEIR_DONE,
     INT64_MAX, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 9 O42\r\n90817263\r\n\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, BROKEN, NULL, "VA 7 O42\r\n90817263\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_ADD, 0, NULL, "VA 8 O42\r\n9081726x\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_SUB, 0, "ma k D18446744073709551613 v O42\r\n", "VA 1 O42\r\n5\r\n",
     WEIR_DONE, 5, 0},
    {&weir_meta_codec, WEIR_SUB, 0, NULL, "NF O42\r\n", WEIR_ABSENT, 0, 0},
    {&weir_meta_codec, WEIR_SUB, BROKEN, NULL, "NF O43\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_GET, 0, "mg k v c O42\r\n", "VA 2 c7 O42\r\n12\r\n", WEIR_DONE, 12, 7},
    {&weir_meta_codec, WEIR_GET, 0, NULL, "EN\r\n", WEIR_ABSENT, 0, 0},
    {&weir_meta_codec, WEIR_GET, BROKEN, NULL, "VA 2 O42\r\n12\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_GET, 0, NULL, "VA 3 c7 O42\r\nabc\r\n", WEIR_REFUSED, 0, 7},
    {&weir_meta_codec, WEIR_GET, 0, NULL, "VA 0 c7 O42\r\n\r\n", WEIR_REFUSED, 0, 7},
    {&weir_meta_codec, WEIR_GET, 0, NULL, "VA 1 c0 O42\r\n1\r\n", WEIR_REFUSED, 1, 0},
    {&weir_meta_codec, WEIR_GET, 0, NULL, "SERVER_ERROR backend failure\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_CREATE, 0, "ms k 2 ME c T62 O42\r\n12\r\n", "HD c9 O42\r\n", WEIR_DONE,
     12, 9},
    {&weir_meta_codec, WEIR_CREATE, 0, NULL, "NS O42\r\n", WEIR_CONFLICT, 12, 0},
    {&weir_meta_codec, WEIR_CREATE, BROKEN, NULL, "HD O42\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_CREATE, CLOSES, NULL, "ERROR\r\n", WEIR_REFUSED, 12, 0},
    {&weir_meta_codec, WEIR_SWAP, 0, "ms k 2 C77 c T62 O42\r\n12\r\n", "HD c78 O42\r\n", WEIR_DONE,
     12, 78},
    {&weir_meta_codec, WEIR_SWAP, 0, NULL, "EX O42\r\n", WEIR_CONFLICT, 12, 0},
    {&weir_meta_codec, WEIR_SWAP, 0, NULL, "NF O42\r\n", WEIR_ABSENT, 12, 0},
    {&weir_meta_codec, WEIR_PUT, 0, "ms k 2 T62 O42\r\n12\r\n", "HD O42\r\n", WEIR_DONE, 12, 0},
    {&weir_meta_codec, WEIR_PUT, CLOSES, NULL, "CLIENT_ERROR bad data chunk\r\n", WEIR_REFUSED, 12,
     0},
    {&weir_meta_codec, WEIR_DROP, 0, "md k O42\r\n", "HD O42\r\n", WEIR_DONE, 12, 0},
    {&weir_meta_codec, WEIR_DROP, 0, NULL, "NF O42\r\n", WEIR_ABSENT, 12, 0},
    {&weir_meta_codec, WEIR_ADD, DATE, "ma k N1703542402 J8 D3 v O42\r\nmg k\r\n",
     "VA 1 O42\r\n8\r\nHD\r\n", WEIR_DONE, 8, 0},
    {&weir_meta_codec, WEIR_ADD, DATE, NULL, "VA 1 O42\r\n8\r\nEN\r\n", WEIR_REFUSED, 8, 0},
    {&weir_meta_codec, WEIR_ADD, DATE, NULL, "NS O42\r\nEN\r\n", WEIR_REFUSED, 0, 0},
    {&weir_meta_codec, WEIR_ADD, DATE | REFRESH,
     "ma k N1703542402 J8 D3 v O42\r\nmg k T1703542402\r\nmg k\r\n",
     "VA 1 O42\r\n9\r\nHD\r\nEN\r\n", WEIR_REFUSED, 9, 0},
    {&weir_meta_codec, WEIR_ADD, DATE | BROKEN, NULL, "VA 1 O42\r\n8\r\nVA 1\r\n8\r\n", 0, 0, 0},
    {&weir_meta_codec, WEIR_CREATE, DATE, "ms k 2 ME c T1703542402 O42\r\n12\r\nmg k\r\n",
     "HD c9 O42\r\nHD\r\n", WEIR_DONE, 12, 9},
    {&weir_meta_codec, WEIR_CREATE, DATE, NULL, "NS O42\r\nHD\r\n", WEIR_CONFLICT, 12, 0},
    {&weir_meta_codec, WEIR_SWAP, DATE, NULL, "HD c78 O42\r\nEN\r\n", WEIR_REFUSED, 12, 78},
    {&weir_meta_codec, WEIR_GET, DATE, "mg k v c O42\r\n", "EN\r\n", WEIR_ABSENT, 0, 0},

    {&weir_classic_codec, WEIR_ADD, 0, "incr k 3\r\n", "8\r\n", WEIR_DONE, 8, 0},
    {&weir_classic_codec, WEIR_ADD, 0, NULL, "18446744073709551615\r\n", WEIR_DONE, -1, 0},
    {&weir_classic_codec, WEIR_ADD, 0, NULL, "NOT_FOUND\r\n", WEIR_PENDING, 0, 0},
    {&weir_classic_codec, WEIR_ADD, BROKEN, NULL, "STORED\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_ADD, BROKEN, NULL, "8x\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_ADD, BROKEN, NULL, "\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_ADD, REFRESH, "incr k 3\r\ntouch k 62\r\n", "8\r\nTOUCHED\r\n",
     WEIR_DONE, 8, 0},
    {&weir_classic_codec, WEIR_ADD, REFRESH, NULL, "8\r\nNOT_FOUND\r\n", WEIR_DONE, 8, 0},
    {&weir_classic_codec, WEIR_ADD, REFRESH, NULL, "NOT_FOUND\r\nNOT_FOUND\r\n", WEIR_PENDING, 0,
     0},
    {&weir_classic_codec, WEIR_ADD, REFRESH, NULL, "8\r\nSERVER_ERROR Connection refused\r\n",
     WEIR_UNKNOWN, 8, 0},
    {&weir_classic_codec, WEIR_ADD, REFRESH, NULL,
     "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nTOUCHED\r\n", WEIR_REFUSED, 0,
     0},
    {&weir_classic_codec, WEIR_ADD, SECOND, "add k 0 62 1\r\n8\r\n", "STORED\r\n", WEIR_DONE, 8, 0},
    {&weir_classic_codec, WEIR_ADD, SECOND | REFRESH, "add k 0 62 1\r\n8\r\n", "NOT_STORED\r\n",
     WEIR_PENDING, 0, 0},
    {&weir_classic_codec, WEIR_SUB, 0, "incr k 18446744073709551613\r\n", "5\r\n", WEIR_DONE, 5, 0},
    {&weir_classic_codec, WEIR_SUB, 0, NULL, "NOT_FOUND\r\n", WEIR_ABSENT, 0, 0},
    {&weir_classic_codec, WEIR_SUB, 0, NULL, "SERVER_ERROR Connection refused\r\n", WEIR_REFUSED, 0,
     0},
    {&weir_classic_codec, WEIR_SUB, 0, NULL, "SERVER_ERROR Connection timed out\r\n", WEIR_UNKNOWN,
     0, 0},
    {&weir_classic_codec, WEIR_GET, 0, "gets k\r\n", "VALUE k 0 2 7\r\n12\r\nEND\r\n", WEIR_DONE,
     12, 7},
    {&weir_classic_codec, WEIR_GET, 0, NULL, "END\r\n", WEIR_ABSENT, 0, 0},
    {&weir_classic_codec, WEIR_GET, BROKEN, NULL, "VALUE j 0 2 7\r\n12\r\nEND\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_GET, BROKEN, NULL, "VALUE k 0 2\r\n12\r\nEND\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_GET, BROKEN, NULL, "VALUE k 0 2 7\r\n12\r\nVALUE k 0 2 7\r\n", 0, 0,
     0},
    {&weir_classic_codec, WEIR_GET, 0, NULL, "VALUE k 0 3 7\r\nabc\r\nEND\r\n", WEIR_REFUSED, 0, 7},
    {&weir_classic_codec, WEIR_GET, BROKEN, NULL, "STORED\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_CREATE, 0, "add k 0 62 2\r\n12\r\n", "STORED\r\n", WEIR_DONE, 12, 0},
    {&weir_classic_codec, WEIR_CREATE, 0, NULL, "NOT_STORED\r\n", WEIR_CONFLICT, 12, 0},
    {&weir_classic_codec, WEIR_CREATE, CLOSES, NULL, "ERROR\r\n", WEIR_REFUSED, 12, 0},
    {&weir_classic_codec, WEIR_SWAP, 0, "cas k 0 62 2 77\r\n12\r\n", "STORED\r\n", WEIR_DONE, 12,
     0},
    {&weir_classic_codec, WEIR_SWAP, 0, NULL, "EXISTS\r\n", WEIR_CONFLICT, 12, 0},
    {&weir_classic_codec, WEIR_SWAP, 0, NULL, "NOT_FOUND\r\n", WEIR_ABSENT, 12, 0},
    {&weir_classic_codec, WEIR_SWAP, BROKEN, NULL, "NOT_STORED\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_PUT, 0, "set k 0 62 2\r\n12\r\n", "STORED\r\n", WEIR_DONE, 12, 0},
    {&weir_classic_codec, WEIR_PUT, BROKEN, NULL, "NOT_STORED\r\n", 0, 0, 0},
    {&weir_classic_codec, WEIR_DROP, 0, "delete k\r\n", "DELETED\r\n", WEIR_DONE, 12, 0},
    {&weir_classic_codec, WEIR_DROP, 0, NULL, "NOT_FOUND\r\n", WEIR_ABSENT, 12, 0},
    {&weir_classic_codec, WEIR_ADD, DATE, "incr k 3\r\n", "8\r\n", WEIR_DONE, 8, 0},
    {&weir_classic_codec, WEIR_ADD, SECOND | DATE,
     "add k 0 1703542402 1\r\n8\r\ntouch k 1703542402\r\n", "STORED\r\nTOUCHED\r\n", WEIR_DONE, 8,
     0},
    {&weir_classic_codec, WEIR_ADD, SECOND | DATE, NULL, "STORED\r\nNOT_FOUND\r\n", WEIR_REFUSED, 8,
     0},
    {&weir_classic_codec, WEIR_ADD, SECOND | DATE, NULL, "NOT_STORED\r\nTOUCHED\r\n", WEIR_PENDING,
     0, 0},
    {&weir_classic_codec, WEIR_ADD, DATE | REFRESH, NULL, "8\r\nTOUCHED\r\nNOT_FOUND\r\n",
     WEIR_REFUSED, 8, 0},
    {&weir_classic_codec, WEIR_PUT, DATE, NULL, "STORED\r\nERROR\r\n", WEIR_DONE, 12, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static weir_wire_command command_of(const codec_case *test) {
  bool counts = test->kind == WEIR_ADD || test->kind == WEIR_SUB || test->kind == WEIR_GET;
  weir_wire_command command = {.serial = SERIAL, .attempt = (test->flags & SECOND) != 0};
  command.operation = (weir_operation){
      .kind = test->kind,
      .refresh = (test->flags & REFRESH) != 0,
      .key = "k",
      .key_length = 1,
      .home_length = 1,
      .delta = 3,
      .seed = 5,
      .value = counts ? 0 : 12,
      .version = 77,
      .ttl_us = (test->flags & DATE) != 0 ? INT64_C(40) * 24 * 3600 * 1000000 : 60000000};
  return command;
}

static void commands_are_encoded_to_the_byte(void **state) {
  (void)state;
  for (size_t i = 0; i < CASES; i++) {
    char out[WEIR_WIRE_COMMAND_MOST];
    weir_wire_command command = command_of(&cases[i]);
    if (cases[i].sent == NULL) continue;
    size_t length = cases[i].codec->encode(&command, now_s, out);
    assert_int_equal(length, strlen(cases[i].sent));
    assert_memory_equal(out, cases[i].sent, length);
  }
}

/* Feeds a reply as it would arrive in two parts, cut at `cut`; the bytes stand at the very end of
 * their memory, so that a sanitizer sees a read beyond them. */
static weir_reading feed(const codec_case *test, size_t cut, weir_wire_command *command,
                         size_t *used) {
  size_t length = strlen(test->reply);
  weir_message message = {""};
  weir_reading reading = WEIR_READING_MORE;
  *used = 0;
  for (size_t have = cut; have <= length; have = length) {
    char *bytes = test_malloc(have - *used + 1);
    size_t taken = 0;
    memcpy(bytes + 1, test->reply + *used, have - *used);
    reading = test->codec->decode(command, bytes + 1, have - *used, &taken, &message);
    test_free(bytes);
    if (reading == WEIR_READING_REPLY || reading == WEIR_READING_DONE ||
        reading == WEIR_READING_LAST) {
      *used += taken;
      command->replies++;
    }
    if (reading == WEIR_READING_REPLY && *used < have) continue;
    if (reading == WEIR_READING_DONE || reading == WEIR_READING_LAST ||
        reading == WEIR_READING_BROKEN || have == length) {
      break;
    }
  }
  if (command->operation.outcome >= WEIR_NOT_SENT) assert_string_not_equal(message.text, "");
  return reading;
}

static void check_reply(const codec_case *test, size_t cut) {
  weir_wire_command command = command_of(test);
  size_t used;
  weir_reading reading = feed(test, cut, &command, &used);
  weir_reading expected = (test->flags & BROKEN) != 0   ? WEIR_READING_BROKEN
                          : (test->flags & CLOSES) != 0 ? WEIR_READING_LAST
                                                        : WEIR_READING_DONE;
  if (reading != expected) fail_msg("%s cut at %zu: reading %d", test->reply, cut, (int)reading);
  if (reading == WEIR_READING_BROKEN) return;
  assert_int_equal(used, strlen(test->reply));
  if (command.operation.outcome != test->outcome) {
    fail_msg("%s: outcome %d", test->reply, (int)command.operation.outcome);
  }
  assert_int_equal(command.operation.value, test->value);
  assert_int_equal(command.operation.version_out, test->version);
}

static void every_reply_means_one_thing_wherever_it_is_cut(void **state) {
  (void)state;
  for (size_t i = 0; i < CASES; i++) {
    for (size_t cut = 0; cut <= strlen(cases[i].reply); cut++)
      check_reply(&cases[i], cut);
  }
}

static void the_longest_command_fits(void **state) {
  (void)state;
  char key[WEIR_STORE_KEY_MOST];
  char out[WEIR_WIRE_COMMAND_MOST];
  const weir_wire_codec *const codecs[] = {&weir_meta_codec, &weir_classic_codec};
  memset(key, 'k', sizeof key);
  for (size_t i = 0; i < CASES; i++) {
    weir_wire_command command = command_of(&cases[i]);
    command.serial = UINT32_MAX;
    command.operation.key = key;
    command.operation.key_length = sizeof key;
    command.operation.delta = WEIR_VALUE_MOST;
    command.operation.seed = WEIR_VALUE_MOST;
    command.operation.value = WEIR_VALUE_MOST;
    command.operation.version = UINT64_MAX;
    command.operation.ttl_us = WEIR_TTL_MOST_US;
    for (size_t j = 0; j < 2; j++) {
      size_t length = codecs[j]->encode(&command, now_s, out);
      assert_in_range(length, sizeof key, WEIR_WIRE_COMMAND_MOST);
      assert_memory_equal(out + length - 2, "\r\n", 2);
    }
  }
}

static void a_long_value_is_taken_before_it_has_come(void **state) {
  (void)state;
  weir_message message = {""};
  size_t taken = 0;
  weir_wire_command get = command_of(&(codec_case){.kind = WEIR_GET});
  static const char head[] = "VA 1000000 c7 O42\r\n123";
  assert_int_equal(weir_meta_codec.decode(&get, head, sizeof head - 1, &taken, &message),
                   WEIR_READING_DONE);
  assert_int_equal(get.operation.outcome, WEIR_REFUSED);
  assert_int_equal(taken, strlen("VA 1000000 c7 O42\r\n") + 1000002);
}

static weir_greeting_answer hear(weir_greeting *greeting, const char *bytes, bool closed,
                                 weir_message *message) {
  return weir_memcached_protocol.greet(greeting, bytes, strlen(bytes), closed, message);
}

static void a_greeting_finds_the_dialect(void **state) {
  (void)state;
  weir_message message = {""};
  const weir_memcached_login login = {.wanted = WEIR_DIALECT_AUTO};
  weir_greeting greeting = {.settings = &login};
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_int_equal(greeting.say_length, strlen("mn    \r\n"));
  assert_memory_equal(greeting.say, "mn    \r\n", greeting.say_length);
  assert_int_equal(hear(&greeting, "M", false, &message), WEIR_GREETING_MORE);
  assert_int_equal(hear(&greeting, "MN\r\n", false, &message), WEIR_GREETING_READY);
  assert_int_equal(greeting.dialect, WEIR_DIALECT_META);
  assert_int_equal(greeting.taken, 4);
}

static void a_greeting_falls_back_once(void **state) {
  (void)state;
  weir_message message = {""};
  const weir_memcached_login login = {.wanted = WEIR_DIALECT_AUTO};
  weir_greeting greeting = {.settings = &login};
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_int_equal(hear(&greeting, "", true, &message), WEIR_GREETING_RECONNECT);
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_memory_equal(greeting.say, "version\r\n", 9);
  weir_greeting other = greeting;
  assert_int_equal(hear(&greeting, "VERSION 1.6\r\n", false, &message), WEIR_GREETING_READY);
  assert_int_equal(greeting.dialect, WEIR_DIALECT_CLASSIC);
  assert_int_equal(hear(&other, "ERROR\r\n", false, &message), WEIR_GREETING_FAILED);
  assert_string_not_equal(message.text, "");
}

static void a_login_comes_first_and_is_never_repeated_to_anyone(void **state) {
  static const char *const lies[] = {"ERROR s3cret\r\n", "SERVER_ERROR s3cret\r\n",
                                     "CLIENT_ERROR ann s3cret\r\n", "s3cret\r\n"};
  static const char login[] = "set weir:auth 0 -1 10\r\nann s3cret\r\n";
  (void)state;
  weir_message message = {""};
  weir_memcached_login own_login;
  assert_true(weir_memcached_login_write(&own_login, WEIR_DIALECT_AUTO, "ann", "s3cret"));
  weir_greeting greeting = {.settings = &own_login};
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_int_equal(greeting.say_length, sizeof login - 1);
  assert_memory_equal(greeting.say, login, sizeof login - 1);
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    weir_greeting lied_to = greeting;
    assert_int_equal(hear(&lied_to, lies[i], false, &message), WEIR_GREETING_FAILED);
    assert_null(strstr(message.text, "s3cret"));
  }
  assert_int_equal(hear(&greeting, "STORED\r\n", false, &message), WEIR_GREETING_SAY);
  assert_int_equal(greeting.say_length, strlen("mn    \r\n"));
  assert_memory_equal(greeting.say, "mn    \r\n", greeting.say_length);
  assert_int_equal(hear(&greeting, "", true, &message), WEIR_GREETING_RECONNECT);
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_memory_equal(greeting.say, login, sizeof login - 1);
  assert_int_equal(hear(&greeting, "STORED\r\n", false, &message), WEIR_GREETING_SAY);
  assert_memory_equal(greeting.say, "version\r\n", 9);
}

static void a_server_that_speaks_tls_is_named(void **state) {
  static const char alert[] = "\x15\x03\x01\x00\x02\x02\x46";
  (void)state;
  weir_message message = {""};
  const weir_memcached_login login = {.wanted = WEIR_DIALECT_AUTO};
  weir_greeting greeting = {.settings = &login};
  assert_int_equal(hear(&greeting, "", false, &message), WEIR_GREETING_SAY);
  assert_int_equal(
      weir_memcached_protocol.greet(&greeting, alert, sizeof alert - 1, true, &message),
      WEIR_GREETING_FAILED);
  assert_non_null(strstr(message.text, "memcacheds://"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(commands_are_encoded_to_the_byte),
      cmocka_unit_test(every_reply_means_one_thing_wherever_it_is_cut),
      cmocka_unit_test(the_longest_command_fits),
      cmocka_unit_test(a_long_value_is_taken_before_it_has_come),
      cmocka_unit_test(a_greeting_finds_the_dialect),
      cmocka_unit_test(a_greeting_falls_back_once),
      cmocka_unit_test(a_login_comes_first_and_is_never_repeated_to_anyone),
      cmocka_unit_test(a_server_that_speaks_tls_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
