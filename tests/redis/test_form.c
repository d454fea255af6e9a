/* Sums by INCREX, where a server has it: when it is asked, what is sent, and the way back in the
 * middle of an exec. The server is a Redis that has the command by a module of ours. */
#include "fixture/cluster.h"
#include "redis/cluster.h"
#include "redis/relay.h"

enum { USES_BEFORE = 16 };

static const char *const with_module[] = {"--loadmodule", WEIR_INCREX_MODULE, NULL};

typedef struct world {
  struct server *server;
  redisContext *plain;
  weir_store *store;
} world;

static world begin(const char *const *arguments, const char *login) {
  world made = {.server = server_start_redis(SERVER_IPV4, arguments)};
  if (login != NULL) server_log_in_as(made.server, login);
  made.plain = plain_connect(made.server);
  made.store = open_servers(&made.server, 1, "timeout=5s");
  return made;
}

static void end(world made) {
  size_t count;
  assert_int_equal(plain_count_immortal(made.plain, &count), 0);
  weir_store_close(made.store);
  redisFree(made.plain);
  server_kill(made.server);
}

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static long long calls(const world *with) {
  return plain_calls(with->plain, "increx");
}

/* Adds until sums go by INCREX. How many additions that took; 0: they never did. */
static int64_t warm(const world *with, const char *key) {
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  for (int64_t total = 1; weir_monotonic_us() < end_us; total++) {
    long long before = plain_calls(with->plain, "incrby");
    assert_done(execute(with->store, add_to(key, 1), NULL), total);
    if (plain_calls(with->plain, "incrby") == before) return total;
    rest();
  }
  return 0;
}

static void assert_ttl(const world *with, const char *key, int64_t ttl_us) {
  char command[64];
  snprintf(command, sizeof command, "PTTL %s", key);
  assert_in_range(plain_do(with->plain, command), ttl_us / 1000 - 5000, ttl_us / 1000 + 1);
}

static void a_sum_is_one_command(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  assert_true(warm(&with, "weir:{a}") > USES_BEFORE);
  assert_int_equal(plain_calls(with.plain, "exists"), 0);
  long long sets = plain_calls(with.plain, "set"), before = calls(&with);
  long long asked = plain_calls(with.plain, "pttl");
  weir_operation renewing = lasting(add_to("weir:{b}", 1), 2 * MINUTE_US);
  renewing.refresh = true;
  assert_done(execute(with.store, add_to("weir:{b}", 5), NULL), 5);
  assert_ttl(&with, "weir:{b}", MINUTE_US);
  assert_done(execute(with.store, lasting(add_to("weir:{b}", 5), 2 * MINUTE_US), NULL), 10);
  assert_done(execute(with.store, lasting(sub_from("weir:{b}", 3), 2 * MINUTE_US), NULL), 7);
  assert_ttl(&with, "weir:{b}", MINUTE_US);
  assert_done(execute(with.store, renewing, NULL), 8);
  assert_ttl(&with, "weir:{b}", 2 * MINUTE_US);
  assert_done(execute(with.store, sub_from("weir:{b}", 20), NULL), -12);
  assert_done(execute(with.store, get_of("weir:{b}"), NULL), -12);
  assert_int_equal(plain_do(with.plain, "DEL weir:{a}"), 1);
  assert_done(execute(with.store, add_to("weir:{a}", 1), NULL), 1); /* lately seen with a TTL */
  assert_int_equal(calls(&with) - before, 6);
  assert_int_equal(plain_calls(with.plain, "set"), sets);
  assert_int_equal(plain_calls(with.plain, "pttl"), asked + 3); /* those of this test */
  end(with);
}

/* What others have taken, or a loss, may leave a key at 0 or below. It is there, and is taken from by the plain
 * form, which finds out as well that there is none. */
static void a_key_of_nothing_or_less_is_taken_from(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  const int64_t most = WEIR_VALUE_MOST;
  assert_true(warm(&with, "weir:{a}") > 0);
  assert_done(execute(with.store, add_to("weir:{b}", 3), NULL), 3);
  assert_done(execute(with.store, sub_from("weir:{b}", 5), NULL), -2);
  assert_done(execute(with.store, sub_from("weir:{b}", 1), NULL), -3);
  assert_done(execute(with.store, add_to("weir:{b}", 3), NULL), 0);
  assert_done(execute(with.store, sub_from("weir:{b}", 1), NULL), -1);
  assert_done(execute(with.store, add_to("weir:{b}", 1), NULL), 0);
  assert_done(execute(with.store, add_to("weir:{b}", most), NULL), most);
  assert_done(execute(with.store, sub_from("weir:{b}", most), NULL), 0);
  assert_ttl(&with, "weir:{b}", MINUTE_US);
  assert_outcome(execute(with.store, sub_from("weir:{none}", 1), NULL), WEIR_ABSENT);
  assert_int_equal(plain_do(with.plain, "EXISTS weir:{none}"), 1); /* 0, as without the command */
  assert_ttl(&with, "weir:{none}", MINUTE_US);
  assert_done(execute(with.store, add_to("weir:{none}", 1), NULL), 1);
  end(with);
}

static void the_probe_leaves_nothing_and_is_one(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  int64_t total = warm(&with, "weir:{a}");
  assert_int_equal(plain_do(with.plain, "DBSIZE"), 1);
  assert_int_equal(calls(&with), 2); /* it, and the first sum */
  for (int i = 0; i < 100; i++)
    assert_done(execute(with.store, add_to("weir:{a}", 1), NULL), ++total);
  assert_int_equal(calls(&with), 102);
  end(with);
}

/* A key that an old process has left without a TTL, and one of another's. */
static void it_heals_a_key_and_refuses_a_stranger(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  weir_message message = {""};
  assert_true(warm(&with, "weir:{a}") > 0);
  plain_do(with.plain, "SET weir:{a} 7");
  plain_do(with.plain, "SET weir:{b} 7");
  plain_do(with.plain, "SET weir:{c} x PX 60000");
  plain_do(with.plain, "SET weir:{d} 9223372036854775807 PX 60000");
  assert_done(execute(with.store, add_to("weir:{a}", 1), NULL), 8);
  assert_done(execute(with.store, sub_from("weir:{b}", 1), NULL), 6);
  assert_ttl(&with, "weir:{a}", MINUTE_US);
  assert_ttl(&with, "weir:{b}", MINUTE_US);
  assert_outcome(execute(with.store, add_to("weir:{c}", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "it holds something that is not an integer"));
  assert_outcome(execute(with.store, add_to("weir:{d}", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "the value would leave the range of an int64"));
  end(with);
}

static weir_operation below(weir_operation add, int64_t floor) {
  add.floor = floor;
  return add;
}

static void assert_full(weir_operation done, int64_t value) {
  assert_outcome(done, WEIR_FULL);
  assert_int_equal(done.value, value);
}

/* What is refused is not written: no key is made, no TTL renewed, and it is one command. */
static void an_addition_keeps_below_its_bound(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  assert_true(warm(&with, "weir:{a}") > 0);
  long long before = calls(&with);
  assert_full(execute(with.store, below(add_to("weir:{b}", 5), 5), NULL), 0);
  assert_int_equal(plain_do(with.plain, "EXISTS weir:{b}"), 0);
  assert_done(execute(with.store, below(add_to("weir:{b}", 4), 5), NULL), 4);
  assert_full(execute(with.store, below(lasting(add_to("weir:{b}", 1), 2 * MINUTE_US), 5), NULL),
              4);
  assert_ttl(&with, "weir:{b}", MINUTE_US);
  assert_full(
      execute(with.store, below(add_to("weir:{b}", WEIR_VALUE_MOST), WEIR_VALUE_MOST), NULL), 4);
  assert_full(execute(with.store, below(add_to("weir:{b}", 1), 1), NULL), 4);
  assert_done(execute(with.store, below(add_to("weir:{b}", 1), 6), NULL), 5);
  assert_int_equal(calls(&with) - before, 6);
  plain_do(with.plain, "SET weir:{b} 9223372036854775807 PX 60000");
  assert_full(execute(with.store, below(add_to("weir:{b}", 1), 6), NULL), INT64_MAX);
  end(with);
}

/* A count that must be there is made by who opens it. One that holds nothing is asked for plainly: it may be
 * none. */
static void a_seed_is_never_missed(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  assert_true(warm(&with, "weir:{a}") > 0);
  weir_operation seeded = below(add_to("weir:{b}", 2), 9);
  seeded.seed = 40;
  assert_done(execute(with.store, seeded, NULL), 42);
  assert_full(execute(with.store, seeded, NULL), 42);
  plain_do(with.plain, "SET weir:{b} 0 PX 60000");
  assert_done(execute(with.store, seeded, NULL), 2);
  plain_do(with.plain, "SET weir:{b} 0"); /* as though a sum had made it: no TTL, no seed */
  assert_done(execute(with.store, seeded, NULL), 42);
  plain_do(with.plain, "SET weir:{b} 1 PX 60000");
  long long sums = plain_calls(with.plain, "incrby"), bounded = calls(&with);
  for (int64_t total = 3; total < 9; total += 2)
    assert_done(execute(with.store, seeded, NULL), total);
  assert_full(execute(with.store, seeded, NULL), 7);
  assert_int_equal(plain_calls(with.plain, "incrby"), sums);
  assert_int_equal(calls(&with) - bounded, 4);
  plain_do(with.plain, "SET weir:{b} -3 PX 60000");
  assert_done(execute(with.store, seeded, NULL), -1);
  end(with);
}

/* One of several on a key may go again alone, and none overtakes another. */
static void seeded_additions_of_a_key_keep_their_order(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  assert_true(warm(&with, "weir:{a}") > 0);
  plain_do(with.plain, "SET weir:{b} 0 PX 60000");
  weir_operation batch[3];
  for (int i = 0; i < 3; i++) {
    batch[i] = below(add_to("weir:{b}", i + 1), 100);
    batch[i].seed = 40;
  }
  weir_store_exec(with.store, batch, 3, deadline_in_ms(PATIENCE_MS), NULL);
  assert_done(batch[0], 1);
  assert_done(batch[1], 3);
  assert_done(batch[2], 6);
  end(with);
}

/* A seed that is lost between SET and a sum must be missed, and a TTL would hide that. */
static void a_seed_goes_as_it_went(void **state) {
  (void)state;
  world with = begin(with_module, NULL);
  assert_true(warm(&with, "weir:{a}") > 0);
  long long before = calls(&with);
  weir_operation seeded = add_to("weir:{b}", 2);
  seeded.seed = 40;
  assert_done(execute(with.store, seeded, NULL), 42);
  plain_do(with.plain, "SET weir:{b} 0"); /* as though a sum had made it: no TTL, no seed */
  assert_done(execute(with.store, seeded, NULL), 42);
  assert_int_equal(calls(&with), before);
  end(with);
}

/* One that is newer now, or whose user has got the right, is asked on a new connection. */
static void a_server_that_gets_it_is_found(void **state) {
  static const char *const without[] = {"--enable-module-command", "yes", NULL};
  (void)state;
  world with = begin(without, NULL);
  for (int64_t total = 1; total <= 4 * USES_BEFORE; total++, rest())
    assert_done(execute(with.store, add_to("weir:{a}", 1), NULL), total);
  plain_do(with.plain, "MODULE LOAD " WEIR_INCREX_MODULE);
  plain_do(with.plain, "CLIENT KILL TYPE normal SKIPME yes");
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  while (calls(&with) < 5 && weir_monotonic_us() < end_us) {
    weir_operation made = execute_when_back(with.store, add_to("weir:{b}", 1), NULL);
    assert_true(made.outcome == WEIR_DONE || made.outcome >= WEIR_NOT_SENT);
    rest();
  }
  assert_true(calls(&with) >= 5);
  end(with);
}

static redisReply integer_of(long long value) {
  return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = value};
}

/* One that knows the words and not what they mean has added. */
static void only_what_keeps_to_its_bounds_has_it(void **state) {
  static const struct {
    long long total, applied;
    weir_redis_form_answer answer;
  } cases[] = {{0, 0, WEIR_FORM_BOUNDED}, {1, 1, WEIR_FORM_PLAIN}, {1, 0, WEIR_FORM_PLAIN}};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    redisReply total = integer_of(cases[i].total), applied = integer_of(cases[i].applied);
    redisReply *both[] = {&total, &applied};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = both};
    assert_int_equal(weir_redis_form_read(&reply), cases[i].answer);
  }
}

/* What a replica says is no answer of its primary, and no other that passes is one. */
static void what_passes_is_no_answer(void **state) {
  static const struct {
    const char *error;
    weir_redis_form_answer answer;
  } cases[] = {
      {"READONLY You can't write against a read only replica.", WEIR_FORM_UNKNOWN},
      {"LOADING Redis is loading the dataset in memory", WEIR_FORM_UNKNOWN},
      {"OOM command not allowed when used memory > 'maxmemory'.", WEIR_FORM_UNKNOWN},
      {"MOVED 3999 127.0.0.1:6381", WEIR_FORM_UNKNOWN},
      {"CLUSTERDOWN Hash slot not served", WEIR_FORM_UNKNOWN},
      {"ERR unknown command 'INCREX'", WEIR_FORM_PLAIN},
      {"ERR syntax error", WEIR_FORM_PLAIN},
      {"NOPERM this user has no permissions to run the 'increx' command", WEIR_FORM_PLAIN}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "%s", cases[i].error);
    const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
    assert_int_equal(weir_redis_form_read(&reply), cases[i].answer);
  }
}

/* --- the way back ------------------------------------------------------------------------------
 */

static const char *const with_user[] = {
    "--loadmodule", WEIR_INCREX_MODULE, "--user", "limiter", "on",
    ">s3cret",      "~weir:*",          "+@all",  NULL};

/* One exec of many, in the middle of which sums are read. */
static void exec_many(const world *with, int64_t before) {
  weir_operation batch[] = {add_to("weir:{a}", 1), get_of("weir:{a}"),      add_to("weir:{a}", 2),
                            get_of("weir:{a}"),    sub_from("weir:{a}", 1), get_of("weir:{a}"),
                            add_to("weir:{b}", 1), get_of("weir:{b}")};
  weir_message message = {""};
  weir_store_exec(with->store, batch, 8, deadline_in_ms(PATIENCE_MS), &message);
  for (size_t i = 0; i < 8; i++)
    if (batch[i].outcome != WEIR_DONE) fail_msg("%zu: %s", i, message.text);
  assert_done(batch[4], before + 2);
  assert_done(batch[5], before + 2);
  assert_int_equal(batch[6].value, batch[7].value);
  assert_true(batch[1].value >= before + 1);
}

static void a_right_that_is_taken_away_costs_one_round(void **state) {
  (void)state;
  world with = begin(with_user, "limiter:s3cret");
  int64_t total = warm(&with, "weir:{a}");
  exec_many(&with, total);
  long long sums = plain_calls(with.plain, "incrby"), bounded = calls(&with);
  plain_do(with.plain, "ACL SETUSER limiter -increx");
  exec_many(&with, total + 2);
  assert_int_equal(plain_calls(with.plain, "incrby") - sums, 3);
  exec_many(&with, total + 4); /* by the plain form at once */
  assert_int_equal(plain_calls(with.plain, "incrby") - sums, 6);
  assert_int_equal(calls(&with), bounded);
  assert_done(execute(with.store, get_of("weir:{a}"), NULL), total + 6);
  end(with);
}

/* Of a key that a write in another form comes behind. */
static void writes_of_a_key_keep_their_order(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    world with = begin(with_user, "limiter:s3cret");
    assert_true(warm(&with, "weir:{a}") > 0);
    plain_do(with.plain, "ACL SETUSER limiter -increx");
    weir_operation seeded = add_to("weir:{b}", 1);
    seeded.seed = 40;
    weir_operation behind[] = {operation_on(WEIR_DROP, "weir:{b}"), put_to(WEIR_PUT, "weir:{b}", 9),
                               seeded};
    const int64_t left[] = {0, 9, 6};
    weir_operation batch[] = {add_to("weir:{b}", 5), behind[i], add_to("weir:{c}", 1)};
    weir_store_exec(with.store, batch, 3, deadline_in_ms(PATIENCE_MS), NULL);
    for (size_t j = 0; j < 3; j++)
      assert_outcome(batch[j], WEIR_DONE);
    weir_operation got = execute(with.store, get_of("weir:{b}"), NULL);
    assert_outcome(got, i == 0 ? WEIR_ABSENT : WEIR_DONE);
    if (i > 0) assert_int_equal(got.value, left[i]);
    end(with);
  }
}

/* --- nodes, judged -----------------------------------------------------------------------------
 */

static relay left, right;
static atomic_int hidden; /* INCREX that were told to be unknown */

static bool is_increx(const relay_command *command) {
  return strncmp(command->words, "INCREX", 6) == 0;
}

static unsigned slot_of(const relay_command *command) {
  const char *home = strchr(command->words, '{') + 1;
  return weir_redis_slot(home, strcspn(home, "}"));
}

static bool hides(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  if (!is_increx(command)) return false;
  atomic_fetch_add(&hidden, 1);
  snprintf(error, RELAY_TEXT, "ERR unknown command 'INCREX', with args beginning with: ");
  return true;
}

static bool lacks_bounds(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "ERR syntax error");
  return is_increx(command) && strstr(command->words, "BOUND") != NULL;
}

static bool loads(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "LOADING Redis is loading the dataset in memory");
  return is_increx(command);
}

/* All is the other's: of a node that was the owner. */
static bool moves(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return true;
}

static world begin_nodes(relay_judge *first, relay_judge *second) {
  char url[128];
  world made = {.server = server_start_redis(SERVER_IPV4, with_module)};
  made.plain = plain_connect(made.server);
  relay_start(&left, made.server, first);
  relay_start(&right, made.server, second);
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=5s",
           (unsigned)address_port(&left.address));
  assert_int_equal(weir_store_open(url, &made.store, NULL), WEIR_OK);
  atomic_store(&hidden, 0);
  return made;
}

static void end_nodes(world made) {
  end(made);
  relay_stop(&left);
  relay_stop(&right);
}

static void add_times(const world *with, int64_t *total, int times) {
  for (int i = 0; i < times; i++)
    assert_done(execute(with->store, add_to("weir:{a}", 1), NULL), ++*total);
}

/* A node without it is asked once, and its sums go as they went. */
static void a_node_without_it_is_asked_once(void **state) {
  relay_judge *const judges[] = {hides, lacks_bounds};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world with = begin_nodes(judges[i], NULL);
    int64_t total = 0, end_us = deadline_in_ms(1500);
    while (weir_monotonic_us() < end_us) {
      add_times(&with, &total, 20);
      rest();
    }
    assert_int_equal(calls(&with), 0);
    if (i == 0) assert_int_equal(atomic_load(&hidden), 1);
    end_nodes(with);
  }
}

/* What a node says of itself at present is no answer. */
static void one_that_loads_is_asked_again(void **state) {
  (void)state;
  world with = begin_nodes(loads, NULL);
  int64_t total = 0;
  add_times(&with, &total, 3 * USES_BEFORE);
  rest();
  relay_set(&left, NULL);
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  while (calls(&with) < 5 && weir_monotonic_us() < end_us) {
    add_times(&with, &total, 1);
    rest();
  }
  assert_true(calls(&with) >= 5);
  end_nodes(with);
}

/* A node that goes back to an older version, as one that takes over may be. */
static void one_that_loses_it_midway_costs_one_round(void **state) {
  (void)state;
  world with = begin_nodes(NULL, NULL);
  int64_t total = warm(&with, "weir:{a}");
  exec_many(&with, total);
  relay_set(&left, hides);
  exec_many(&with, total + 2);
  assert_int_equal(atomic_load(&hidden), 4); /* the sums of one exec, once */
  exec_many(&with, total + 4);
  assert_int_equal(atomic_load(&hidden), 4);
  end_nodes(with);
}

/* Slots move from a node that has it to one that does not. */
static void nodes_of_a_cluster_may_differ(void **state) {
  (void)state;
  world with = begin_nodes(NULL, hides);
  int64_t total = warm(&with, "weir:{a}");
  relay_set(&left, moves);
  total += 2;
  exec_many(&with, total - 2);
  add_times(&with, &total, 64);
  assert_true(atomic_load(&hidden) <= 1); /* nothing but the question */
  end_nodes(with);
}

/* The upper half of all slots is the other's. */
static bool shares(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  return slot_of(command) >= WEIR_REDIS_SLOTS / 2 && moves(self, command, error);
}

/* One exec goes to both kinds at once, each by its own form. */
static void each_node_of_an_exec_has_its_form(void **state) {
  (void)state;
  world with = begin_nodes(shares, hides);
  static char keys[8][16];
  weir_operation batch[8];
  int64_t end_us = deadline_in_ms(PATIENCE_MS), total = 0;
  for (int i = 0; i < 8; i++)
    snprintf(keys[i], sizeof keys[i], "weir:{%d}", i);
  while (calls(&with) < 200 && weir_monotonic_us() < end_us) {
    total++;
    for (int i = 0; i < 8; i++)
      batch[i] = add_to(keys[i], 1);
    weir_store_exec(with.store, batch, 8, deadline_in_ms(PATIENCE_MS), NULL);
    for (int i = 0; i < 8; i++)
      assert_done(batch[i], total);
    rest();
  }
  assert_true(calls(&with) >= 200);
  assert_true(atomic_load(&hidden) <= 1);
  end_nodes(with);
}

/* The key has gone ahead to the other, for this once. */
static bool sends_on(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "ASK %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return true;
}

/* Where the one that it was sent on to has lost the command, it stays there. */
static void a_slot_may_move_to_an_older_node(void **state) {
  (void)state;
  world with = begin_nodes(shares, NULL);
  assert_true(warm(&with, "weir:{0}") > 0);
  int64_t total = warm(&with, "weir:{3}");
  assert_true(total > 0);
  relay_set(&left, sends_on);
  relay_set(&right, hides);
  assert_done(execute(with.store, add_to("weir:{3}", 1), NULL), total + 1);
  assert_int_equal(atomic_load(&hidden), 1);
  assert_int_equal(atomic_load(&left.seen), 1);
  end_nodes(with);
}

/* An error that no server is known to have: whether it was executed, nobody knows. */
static bool puzzles(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "ERR the proxy lost its way");
  return is_increx(command);
}

static void an_error_in_doubt_is_not_sent_again(void **state) {
  (void)state;
  world with = begin_nodes(NULL, NULL);
  assert_true(warm(&with, "weir:{a}") > 0);
  long long sums = plain_calls(with.plain, "incrby");
  relay_set(&left, puzzles);
  assert_outcome(execute(with.store, add_to("weir:{a}", 1), NULL), WEIR_UNKNOWN);
  assert_int_equal(plain_calls(with.plain, "incrby"), sums);
  end_nodes(with);
}

/* Of an INCREX that was sent and not answered nobody knows: it is never sent again in any form. Here
 * it is executed, later. */
static bool stalls(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  (void)error;
  if (is_increx(command)) nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
  return false;
}

static void an_unknown_one_is_not_sent_again(void **state) {
  (void)state;
  world with = begin_nodes(NULL, NULL);
  int64_t total = warm(&with, "weir:{a}");
  long long sums = plain_calls(with.plain, "incrby"), before = calls(&with);
  relay_set(&left, stalls);
  weir_operation add = add_to("weir:{a}", 1);
  weir_store_exec(with.store, &add, 1, deadline_in_ms(200), NULL);
  assert_outcome(add, WEIR_UNKNOWN);
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  while (calls(&with) == before && weir_monotonic_us() < end_us)
    rest();
  relay_set(&left, NULL);
  assert_done(execute_when_back(with.store, get_of("weir:{a}"), NULL), total + 1);
  assert_int_equal(plain_calls(with.plain, "incrby"), sums);
  end_nodes(with);
}

/* --- under load --------------------------------------------------------------------------------
 */

enum { LOADERS = 3, STORES_EACH = 6, EXECS = 120, OWN = 10 };

typedef struct loader {
  struct server *server;
  const char *key;
  pthread_t thread;
  long long added;
} loader;

/* A key that one thread alone writes tells after each exec whether all was done, and once. */
static void load_store(loader *self, weir_store *store) {
  for (int i = 0; i < EXECS; i++) {
    weir_operation batch[] = {add_to(self->key, 3), get_of(self->key), sub_from(self->key, 1),
                              add_to("weir:{all}", 1), get_of(self->key)};
    weir_message message = {""};
    int64_t after = OWN + 2 * ++self->added;
    weir_store_exec(store, batch, 5, deadline_in_ms(PATIENCE_MS), &message);
    for (size_t j = 0; j < 5; j++)
      if (batch[j].outcome != WEIR_DONE) fail_msg("%zu: %s", j, message.text);
    assert_true(batch[1].value >= after);
    assert_int_equal(batch[4].value, after);
  }
}

static void *load(void *context) {
  loader *self = context;
  for (int i = 0; i < STORES_EACH; i++) {
    weir_store *store = open_servers(&self->server, 1, "timeout=5s");
    if (i == 0) assert_done(execute(store, add_to(self->key, OWN), NULL), OWN);
    load_store(self, store);
    weir_store_close(store);
  }
  return NULL;
}

/* The right goes and comes, again and again: stores find the command, lose it, and never have it. */
static void changing_over_loses_nothing(void **state) {
  (void)state;
  world with = begin(with_user, "limiter:s3cret");
  loader loaders[LOADERS] = {{.key = "weir:{x}"}, {.key = "weir:{y}"}, {.key = "weir:{z}"}};
  const long long sum = (long long)LOADERS * STORES_EACH * EXECS;
  for (size_t i = 0; i < LOADERS; i++) {
    loaders[i].server = with.server;
    assert_int_equal(pthread_create(&loaders[i].thread, NULL, load, &loaders[i]), 0);
  }
  for (long long at = 0; at < sum; at = plain_do(with.plain, "INCRBY weir:{all} 0")) {
    plain_do(with.plain, "ACL SETUSER limiter +increx");
    for (int i = 0; i < 20; i++)
      rest();
    plain_do(with.plain, "ACL SETUSER limiter -increx");
    rest();
  }
  for (size_t i = 0; i < LOADERS; i++)
    pthread_join(loaders[i].thread, NULL);
  printf("  %lld sums by INCREX, %lld by INCRBY\n", calls(&with),
         plain_calls(with.plain, "incrby"));
  assert_true(calls(&with) > LOADERS * EXECS);
  assert_done(execute(with.store, add_to("weir:{all}", 1), NULL), sum + 1);
  end(with);
}

/* A cluster of which one node has never had the command, and where another's heir has not either. */
enum { WITHOUT = 1, HEIR = 3, KEYS = 24 };

static void add_to_all(weir_store *store, int64_t total) {
  for (int i = 0; i < KEYS; i++) {
    char key[32];
    weir_message message = {""};
    snprintf(key, sizeof key, "weir:{%d}:1", i);
    weir_operation add = execute(store, add_to(key, 1), &message);
    if (add.outcome != WEIR_DONE) fail_msg("%s: %s", key, message.text);
    assert_int_equal(add.value, total);
  }
}

static void an_heir_may_be_older(void **state) {
  static const char *const arguments[] = {"--loadmodule", WEIR_INCREX_MODULE,
                                          "--enable-module-command", "yes", NULL};
  static cluster nodes;
  char url[SERVER_URL_BYTES];
  weir_store *store = NULL;
  int64_t total = 0, end_us = deadline_in_ms(PATIENCE_MS);
  (void)state;
  cluster_start(&nodes, &(cluster_options){.replicas = 1, .arguments = arguments}, false);
  cluster_do(&nodes, WITHOUT, "MODULE UNLOAD increx");
  cluster_do(&nodes, HEIR, "MODULE UNLOAD increx");
  cluster_url(&nodes, "timeout=5s", url);
  assert_int_equal(weir_store_open(url, &store, NULL), WEIR_OK);
  while ((cluster_calls(&nodes, 0, "increx") < KEYS || cluster_calls(&nodes, 2, "increx") < KEYS) &&
         weir_monotonic_us() < end_us)
    add_to_all(store, ++total);
  assert_true(weir_monotonic_us() < end_us);
  assert_true(cluster_calls(&nodes, WITHOUT, "incrby") >= total);
  assert_true(cluster_failover(&nodes, HEIR, NULL, PATIENCE_MS));
  for (int i = 0; i < 4 * USES_BEFORE; i++)
    add_to_all(store, ++total);
  assert_true(cluster_calls(&nodes, HEIR, "incrby") > 0);
  assert_int_equal(cluster_sum(&nodes, "weir:*", 1U << 0), KEYS * total);
  weir_store_close(store);
  cluster_stop(&nodes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sum_is_one_command),
      cmocka_unit_test(a_key_of_nothing_or_less_is_taken_from),
      cmocka_unit_test(the_probe_leaves_nothing_and_is_one),
      cmocka_unit_test(it_heals_a_key_and_refuses_a_stranger),
      cmocka_unit_test(an_addition_keeps_below_its_bound),
      cmocka_unit_test(a_seed_is_never_missed),
      cmocka_unit_test(seeded_additions_of_a_key_keep_their_order),
      cmocka_unit_test(a_seed_goes_as_it_went),
      cmocka_unit_test(a_right_that_is_taken_away_costs_one_round),
      cmocka_unit_test(writes_of_a_key_keep_their_order),
      cmocka_unit_test(a_node_without_it_is_asked_once),
      cmocka_unit_test(one_that_loads_is_asked_again),
      cmocka_unit_test(one_that_loses_it_midway_costs_one_round),
      cmocka_unit_test(nodes_of_a_cluster_may_differ),
      cmocka_unit_test(each_node_of_an_exec_has_its_form),
      cmocka_unit_test(a_slot_may_move_to_an_older_node),
      cmocka_unit_test(a_server_that_gets_it_is_found),
      cmocka_unit_test(only_what_keeps_to_its_bounds_has_it),
      cmocka_unit_test(what_passes_is_no_answer),
      cmocka_unit_test(an_error_in_doubt_is_not_sent_again),
      cmocka_unit_test(an_unknown_one_is_not_sent_again),
      cmocka_unit_test(changing_over_loses_nothing),
      cmocka_unit_test(an_heir_may_be_older),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
