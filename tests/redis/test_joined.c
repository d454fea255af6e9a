/* The reads of one decision as one MGET: what they come to is what GETs would, whatever the server
 * says. */
#include "redis/cluster.h"
#include "redis/relay.h"
#include "redis/reply.h"

enum { KEYS = 4 };

static const char *const keys[KEYS] = {"weir:{a}:1", "weir:{a}:2", "weir:{a}:3", "weir:{a}:4"};

typedef struct world {
  struct server *server;
  weir_store *store;
  redisContext *plain;
} world;

static void add_to_all(weir_store *store) {
  for (int i = 0; i < KEYS; i++)
    assert_done(execute(store, add_to(keys[i], 5 + i), NULL), 5 + i);
}

/* Keys with 5, 6, 7 and 8, to which the store has added. */
static world begin(const char *const *arguments, const char *login, bool proxied) {
  world made = {.server = server_start_redis(SERVER_IPV4, arguments)};
  if (login != NULL) server_log_in_as(made.server, login);
  struct server *asked = proxied ? server_start_nutcracker(&made.server, 1) : made.server;
  made.plain = plain_connect(made.server);
  made.store = open_servers(&asked, 1, "timeout=5s");
  add_to_all(made.store);
  return made;
}

static void end(world made) {
  weir_store_close(made.store);
  redisFree(made.plain);
  server_kill(made.server);
}

static void get_all(weir_store *store, weir_operation gets[KEYS], weir_message *message) {
  for (int i = 0; i < KEYS; i++)
    gets[i] = get_of(keys[i]);
  weir_store_exec(store, gets, KEYS, deadline_in_ms(PATIENCE_MS), message);
}

static void assert_all_are_there(weir_store *store) {
  weir_operation gets[KEYS];
  get_all(store, gets, NULL);
  for (int i = 0; i < KEYS; i++)
    assert_done(gets[i], 5 + i);
}

static void reads_of_one_exec_are_one_mget(void **state) {
  (void)state;
  world with = begin(NULL, NULL, false);
  assert_all_are_there(with.store);
  assert_int_equal(plain_calls(with.plain, "mget"), 1);
  assert_int_equal(plain_calls(with.plain, "get"), 0);
  assert_done(execute(with.store, get_of(keys[0]), NULL), 5); /* alone it is a GET */
  assert_int_equal(plain_calls(with.plain, "get"), 1);

  /* Those that an addition parts are no run, and each sees what was added before it. */
  weir_operation apart[] = {get_of(keys[0]), add_to(keys[0], 10), get_of(keys[0]), get_of(keys[1])};
  weir_store_exec(with.store, apart, 4, deadline_in_ms(PATIENCE_MS), NULL);
  assert_done(apart[0], 5);
  assert_done(apart[2], 15);
  assert_done(apart[3], 6);
  assert_int_equal(plain_calls(with.plain, "mget"), 2);
  assert_int_equal(plain_calls(with.plain, "get"), 2);
  end(with);
}

/* A process does not know the type of a key that it has not added to. */
static void others_keys_are_read_by_get(void **state) {
  (void)state;
  world with = begin(NULL, NULL, false);
  weir_store *other = open_servers(&with.server, 1, "timeout=5s");
  assert_all_are_there(other);
  assert_int_equal(plain_calls(with.plain, "mget"), 0);
  assert_int_equal(plain_calls(with.plain, "get"), KEYS);
  weir_store_close(other);
  end(with);
}

static void a_key_that_is_gone_is_asked_for_by_get(void **state) {
  (void)state;
  world with = begin(NULL, NULL, false);
  weir_operation gets[KEYS];
  plain_do(with.plain, "DEL weir:{a}:2");
  get_all(with.store, gets, NULL);
  assert_done(gets[0], 5);
  assert_outcome(gets[1], WEIR_ABSENT);
  assert_done(gets[2], 7);
  assert_done(gets[3], 8);
  assert_int_equal(plain_calls(with.plain, "get"), 1);
  get_all(with.store, gets, NULL); /* it is not lately seen any more */
  assert_outcome(gets[1], WEIR_ABSENT);
  assert_int_equal(plain_calls(with.plain, "mget"), 2); /* the last two are */
  assert_int_equal(plain_calls(with.plain, "get"), 3);
  end(with);
}

/* One that is asked for again by GET would see what is written behind it. */
static void a_read_does_not_see_what_is_written_behind_it(void **state) {
  (void)state;
  world with = begin(NULL, NULL, false);
  plain_do(with.plain, "DEL weir:{a}:1");
  weir_operation operations[] = {get_of(keys[0]), get_of(keys[1]), get_of(keys[2]),
                                 add_to(keys[0], 10), get_of(keys[0])};
  weir_store_exec(with.store, operations, 5, deadline_in_ms(PATIENCE_MS), NULL);
  assert_outcome(operations[0], WEIR_ABSENT);
  assert_done(operations[1], 6);
  assert_done(operations[2], 7);
  assert_done(operations[4], 10);
  assert_int_equal(plain_calls(with.plain, "mget"), 1); /* of the two that nothing is written to */
  end(with);
}

static void another_type_and_another_text_are_refused(void **state) {
  static const struct {
    const char *command, *why;
  } cases[] = {{"LPUSH weir:{a}:2 x", "get of key \"weir:{a}:2\": it holds another type"},
               {"SET weir:{a}:2 x", "it holds something that is not an integer"},
               {"SETRANGE weir:{a}:2 5000 x", "it holds something that is not an integer"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world with = begin(NULL, NULL, false);
    weir_operation gets[KEYS];
    weir_message message = {""};
    plain_do(with.plain, "DEL weir:{a}:2");
    plain_do(with.plain, cases[i].command);
    get_all(with.store, gets, &message);
    assert_done(gets[0], 5);
    assert_outcome(gets[1], WEIR_REFUSED);
    assert_done(gets[2], 7);
    assert_done(gets[3], 8);
    if (strstr(message.text, cases[i].why) == NULL) fail_msg("%s", message.text);
    assert_int_equal(plain_calls(with.plain, "mget"), 1);
    end(with);
  }
}

/* It is told so once. */
static void a_user_without_mget_sends_gets(void **state) {
  static const char *const without[] = {"--user",  "without", "on",    ">s3cret",
                                        "~weir:*", "+@all",   "-mget", NULL};
  (void)state;
  world with = begin(without, "without:s3cret", false);
  assert_all_are_there(with.store);
  assert_all_are_there(with.store);
  assert_int_equal(plain_calls(with.plain, "mget"), 0);
  assert_int_equal(plain_calls(with.plain, "get"), 2 * KEYS);
  end(with);
}

static void a_proxy_passes_it(void **state) {
  (void)state;
  world with = begin(NULL, NULL, true);
  assert_all_are_there(with.store);
  assert_int_equal(plain_calls(with.plain, "get"), 0);
  end(with);
}

/* --- nodes of a cluster ------------------------------------------------------------------------
 */

static relay left, right;

static unsigned slot_of(const relay_command *command) {
  const char *home = strchr(command->words, '{') + 1;
  return weir_redis_slot(home, strcspn(home, "}"));
}

static bool tries_again(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "TRYAGAIN Multiple keys request during rehashing of slot");
  return strncmp(command->words, "MGET", 4) == 0;
}

static bool moves_reads(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return strstr(command->words, "GET") != NULL;
}

static bool asks_reads(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "ASK %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return strstr(command->words, "GET") != NULL;
}

static bool imports(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&left.address));
  return !command->asking;
}

/* A node's error in place of a reading goes for all keys of the command. */
static void a_redirection_is_followed_by_each_read(void **state) {
  static const struct {
    relay_judge *left, *right;
    int asked;
  } nodes[] = {{tries_again, NULL, 0}, {moves_reads, NULL, 0}, {asks_reads, imports, KEYS}};
  (void)state;
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
    struct server *server = server_start_redis(SERVER_IPV4, NULL);
    char url[128];
    weir_store *store = NULL;
    relay_start(&left, server, NULL);
    relay_start(&right, server, nodes[i].right);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=5s",
             (unsigned)address_port(&left.address));
    assert_int_equal(weir_store_open(url, &store, NULL), WEIR_OK);
    add_to_all(store);
    relay_set(&left, nodes[i].left);
    assert_all_are_there(store);
    assert_int_equal(atomic_load(&right.asked), nodes[i].asked);
    weir_store_close(store);
    relay_stop(&left);
    relay_stop(&right);
    server_kill(server);
  }
}

/* --- bytes -------------------------------------------------------------------------------------
 */

enum { MEMBERS = 3 };

/* Decodes the replies to three GETs that are one MGET, all that comes at once up to `cut`. Returns
 * the last reading; *taken: how many bytes were used. */
static weir_reading feed(weir_wire_command commands[MEMBERS], const char *replies, size_t cut,
                         size_t *taken) {
  weir_redis_parser *parser = weir_redis_parser_create(NULL);
  weir_message message = {""};
  weir_reading reading = WEIR_READING_MORE;
  size_t length = strlen(replies), have = cut;
  *taken = 0;
  assert_non_null(parser);
  for (size_t i = 0; i < MEMBERS; i++) {
    weir_operation get = get_of(keys[i]);
    commands[i] = (weir_wire_command){.operation = get, .parser = parser, .follows = i > 0};
  }
  commands[0].followers = MEMBERS - 1;
  for (size_t at = 0; at < MEMBERS;) {
    size_t used = 0, rest = have - *taken;
    char *bytes = test_malloc(rest + 1); /* at the end of its memory */
    memcpy(bytes + 1, replies + *taken, rest);
    reading = rest == 0 ? WEIR_READING_MORE
                        : weir_redis_codec.decode(&commands[at], bytes + 1, rest, &used, &message);
    test_free(bytes);
    if (reading == WEIR_READING_BROKEN || (reading == WEIR_READING_MORE && have == length)) break;
    if (reading == WEIR_READING_MORE) {
      have = length;
      continue;
    }
    *taken += used;
    commands[at].replies++;
    if (reading == WEIR_READING_DONE) at += 1U + commands[at].shared;
  }
  weir_redis_parser_destroy(parser);
  return reading;
}

static void members_mean_the_same_wherever_they_are_cut(void **state) {
  static const char replies[] = "*3\r\n$2\r\n12\r\n$-1\r\n$20\r\n-9223372036854775808\r\n";
  static const char error[] = "-NOPERM this user has no permissions\r\n";
  weir_wire_command commands[MEMBERS];
  size_t taken;
  (void)state;
  for (size_t cut = 0; cut < sizeof replies; cut++) {
    assert_int_equal(feed(commands, replies, cut, &taken), WEIR_READING_DONE);
    assert_int_equal(taken, sizeof replies - 1);
    assert_done(commands[0].operation, 12);
    assert_outcome(commands[1].operation, WEIR_PENDING); /* GET is to ask */
    assert_done(commands[2].operation, INT64_MIN);
  }
  for (size_t cut = 0; cut < sizeof error; cut++) {
    assert_int_equal(feed(commands, error, cut, &taken), WEIR_READING_DONE);
    assert_int_equal(taken, sizeof error - 1);
    for (int i = 0; i < MEMBERS; i++)
      assert_outcome(commands[i].operation, WEIR_PENDING);
  }
}

static void what_is_no_answer_to_it_breaks_the_connection(void **state) {
  static const char *const replies[] = {"*2\r\n$1\r\n1\r\n$1\r\n2\r\n",
                                        "*33\r\n",
                                        "*3x\n",
                                        "$1\r\n1\r\n",
                                        ":1\r\n",
                                        "+OK\r\n",
                                        "*3\r\n:1\r\n"};
  weir_wire_command commands[MEMBERS];
  size_t taken;
  (void)state;
  for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++)
    for (size_t cut = 0; cut <= strlen(replies[i]); cut++)
      assert_int_equal(feed(commands, replies[i], cut, &taken), WEIR_READING_BROKEN);
}

static void the_commands_words_are_counted(void **state) {
  char bytes[WEIR_WIRE_COMMAND_MOST];
  weir_wire_command commands[12];
  static const char two[] = "*3\r\n$4\r\nMGET\r\n$10\r\nweir:{a}:1\r\n$10\r\nweir:{a}:2\r\n";
  (void)state;
  for (size_t i = 0; i < 12; i++)
    commands[i] = (weir_wire_command){.operation = get_of(keys[i % KEYS]), .follows = i > 0};
  commands[0].followers = 1;
  assert_int_equal(weir_redis_codec.encode(commands, 0, bytes), sizeof two - 1);
  assert_memory_equal(bytes, two, sizeof two - 1);
  commands[0].followers = 11;
  assert_true(weir_redis_codec.encode(commands, 0, bytes) <=
              WEIR_REDIS_MGET_BYTES + 12 * (strlen(keys[0]) + WEIR_REDIS_MGET_KEY_BYTES));
  assert_memory_equal(bytes, "*13\r\n", 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_of_one_exec_are_one_mget),
      cmocka_unit_test(others_keys_are_read_by_get),
      cmocka_unit_test(a_key_that_is_gone_is_asked_for_by_get),
      cmocka_unit_test(a_read_does_not_see_what_is_written_behind_it),
      cmocka_unit_test(another_type_and_another_text_are_refused),
      cmocka_unit_test(a_user_without_mget_sends_gets),
      cmocka_unit_test(a_proxy_passes_it),
      cmocka_unit_test(a_redirection_is_followed_by_each_read),
      cmocka_unit_test(members_mean_the_same_wherever_they_are_cut),
      cmocka_unit_test(what_is_no_answer_to_it_breaks_the_connection),
      cmocka_unit_test(the_commands_words_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
