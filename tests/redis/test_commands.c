/* A server gets to see the commands of docs/redis-commands.md and no others. */
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "redis/page.h"
#include "redis/plain.h"
#include "weir/limiter.h"

/* Every operation once where its key is absent, once where it is there, and all repairs. */
static void run_all_operations(weir_store *store, redisContext *plain) {
  weir_operation seeded = add_to("weir:{d}", 2);
  seeded.seed = 40;
  weir_operation renewing = add_to("weir:{a}", 1);
  renewing.refresh = true;
  weir_operation short_raise = raise_to("weir:{z}", 10, 1);
  short_raise.refresh = false;
  weir_operation batch[] = {add_to("weir:{a}", 5),
                            add_to("weir:{a}", 1),
                            renewing,
                            sub_from("weir:{a}", 1),
                            sub_from("weir:{b}", 1),
                            get_of("weir:{a}"),
                            get_of("weir:{none}"),
                            put_to(WEIR_PUT, "weir:{a}", 7),
                            put_to(WEIR_CREATE, "weir:{a}", 1),
                            put_to(WEIR_CREATE, "weir:{e}", 1),
                            raise_to("weir:{z}", 10, 1),
                            short_raise,
                            raised(get_of("weir:{z}")),
                            raised(sub_from("weir:{z}", 1)),
                            add_to("weir:{c}", 1),
                            seeded,
                            operation_on(WEIR_DROP, "weir:{a}"),
                            operation_on(WEIR_DROP, "weir:{a}")};
  size_t count = sizeof batch / sizeof batch[0];
  weir_message message = {""};
  plain_do(plain, "SET weir:{c} 5");
  plain_do(plain, "SET weir:{d} 0");
  weir_store_exec(store, batch, count, deadline_in_ms(2000), &message);
  for (size_t i = 0; i < count; i++) {
    if (batch[i].outcome >= WEIR_NOT_SENT) fail_msg("operation %zu: %s", i, message.text);
  }
  assert_done(batch[12], 12);
  assert_done(batch[13], 11);
  assert_done(batch[14], 6);
  assert_done(batch[15], 42);
  plain_do(plain, "SET weir:{c} 0"); /* a key that was seen with a TTL, and has none now */
  assert_done(execute(store, add_to("weir:{c}", 2), NULL), 2);
}

static struct server *start_with_user(const struct page_need *need, const char *rules) {
  char command[PAGE_ACL_BYTES + 128];
  char acl[PAGE_ACL_BYTES];
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  page_acl(need, acl);
  snprintf(command, sizeof command,
           "ACL SETUSER exact reset on >s3cret ~weir:* resetchannels -@all %s %s", acl, rules);
  plain_do(plain, command);
  redisFree(plain);
  server_log_in_as(server, "exact:s3cret");
  return server;
}

static void all_operations_run_with_the_published_commands_alone(void **state) {
  (void)state;
  struct server *server = start_with_user(&page_everything, "");
  redisContext *plain = plain_connect(server);
  weir_store *store = open_servers(&server, 1, "timeout=5s");
  size_t count;
  run_all_operations(store, plain);
  assert_int_equal(plain_count_immortal(plain, &count), 0);
  weir_store_close(store);
  redisFree(plain);
}

static void no_published_command_can_be_left_out(void **state) {
  (void)state;
  const char *names[PAGE_NAMES_MOST];
  size_t count = page_names(&page_everything, names);
  for (size_t i = 0; i < count; i++) {
    char minus[32];
    if (strcmp(names[i], "bitfield") == 0) continue; /* test_foreign.c: for what others stored */
    if (strcmp(names[i], "mget") == 0) continue;     /* test_joined.c: GETs do it as well */
    snprintf(minus, sizeof minus, "-%s", names[i]);
    struct server *server = start_with_user(&page_everything, minus);
    weir_store *store = open_servers(&server, 1, "timeout=5s");
    weir_operation batch[] = {add_to("weir:{a}", 5),
                              sub_from("weir:{a}", 1),
                              get_of("weir:{a}"),
                              put_to(WEIR_PUT, "weir:{a}", 7),
                              raise_to("weir:{z}", 10, 1),
                              raised(get_of("weir:{z}")),
                              operation_on(WEIR_DROP, "weir:{a}")};
    const size_t operations = sizeof batch / sizeof batch[0];
    bool failed = false;
    weir_store_exec(store, batch, operations, deadline_in_ms(2000), NULL);
    for (size_t j = 0; j < operations; j++)
      failed |= batch[j].outcome >= WEIR_NOT_SENT;
    if (!failed) fail_msg("%s is not needed", names[i]);
    weir_store_close(store);
    server_kill(server);
  }
}

/* One question for the first, and one of 64 after that. */
static void a_hundred_additions_to_a_key_ask_twice_for_its_ttl(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_servers(&server, 1, "timeout=5s");
  for (int i = 1; i <= 100; i++)
    assert_done(execute(store, add_to("weir:{a}", 1), NULL), i);
  assert_int_equal(plain_calls(plain, "set"), 100);
  assert_int_equal(plain_calls(plain, "incrby"), 100);
  assert_int_equal(plain_calls(plain, "pttl"), 2);
  assert_int_equal(plain_calls(plain, "pexpire"), 0);
  weir_store_close(store);
  redisFree(plain);
}

enum { RULES_MOST = 5 };

/* In the order of page_needs; the last need is that of a reset, of them all. */
static const char *const rules_of_needs[][RULES_MOST] = {
    {"fixed-window:3/1h", "sliding-window:3/1h", "sliding-window:3/1h,cells=16,strict",
     "sliding-window:5000/1h,count=all", "fixed-window:3/1h;sliding-window:5/1d"},
    {"quota:3/1h", "quota:5/1d,count=all"},
    {"sliding-log:3/1h"},
    {"token-bucket:3/1h", "leaky-bucket:3/1h", "leaky-bucket:3/1h,queue=4",
     "token-bucket:3/1h;leaky-bucket:3/1d,queue=4"},
};
enum { NEEDS_OF_RULES = sizeof rules_of_needs / sizeof rules_of_needs[0] };

/* Eight requests, or a reset. */
static void take_or_reset(weir_store *store, const char *rule, bool reset) {
  const weir_limiter_options options = {.size = sizeof options,
                                        .deadline_us = 5000000,
                                        .flags = WEIR_NO_LOCAL_DENIAL,
                                        .fallback = WEIR_FALLBACK_NONE};
  weir_limiter *limiter = NULL;
  weir_message message = {""};
  weir_decision decision;
  if (weir_limiter_create(store, rule, &options, &limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", rule, message.text);
  for (int i = 0; i < 8 && !reset; i++) {
    if (weir_limiter_take(limiter, "visitor", 7, 1, &decision, &message) != WEIR_OK)
      fail_msg("%s: %s", rule, message.text);
  }
  if (reset && weir_limiter_reset(limiter, "visitor", 7, &message) != WEIR_OK)
    fail_msg("reset of %s: %s", rule, message.text);
  weir_limiter_destroy(limiter);
}

static void run_rules(weir_store *store, size_t need, bool reset) {
  for (size_t i = 0; i < RULES_MOST && rules_of_needs[need][i] != NULL; i++)
    take_or_reset(store, rules_of_needs[need][i], reset);
}

static void each_rule_needs_what_the_page_says(void **state) {
  (void)state;
  assert_int_equal(page_need_count, NEEDS_OF_RULES + 1);
  for (size_t need = 0; need < page_need_count; need++) {
    struct server *server = start_with_user(&page_needs[need], "");
    weir_store *store = open_servers(&server, 1, "timeout=5s");
    if (need < NEEDS_OF_RULES) run_rules(store, need, false);
    for (size_t each = 0; each < NEEDS_OF_RULES && need == NEEDS_OF_RULES; each++)
      run_rules(store, each, true);
    weir_store_close(store);
    server_kill(server);
  }
}

/* Reads what MONITOR shows up to the marker, and expects no name that is not listed. */
static size_t check_monitor(FILE *monitor, const char *const *names, size_t name_count) {
  char line[1024];
  size_t seen = 0;
  while (fgets(line, sizeof line, monitor) != NULL) {
    const char *name = strstr(line, "] \"");
    if (name == NULL) continue; /* the +OK of MONITOR */
    name += 3;
    size_t length = strcspn(name, "\"");
    if (strncasecmp(name, "echo", length) == 0) return seen;
    bool listed = false;
    for (size_t i = 0; i < name_count; i++)
      listed |= strlen(names[i]) == length && strncasecmp(names[i], name, length) == 0;
    if (!listed) fail_msg("not on the page: %s", line);
    seen++;
  }
  fail_msg("the monitor ended early");
  return seen;
}

static void a_monitor_sees_published_commands_alone(void **state) {
  (void)state;
  const char *names[PAGE_NAMES_MOST];
  size_t name_count = page_names(&page_everything, names);
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_servers(&server, 1, "timeout=5s");
  int fd = server_connect(server);
  const struct timeval patience = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  FILE *monitor = fdopen(fd, "r+");
  assert_non_null(monitor);
  fputs("MONITOR\r\n", monitor);
  fflush(monitor);
  char ok[16];
  assert_non_null(fgets(ok, sizeof ok, monitor));
  run_all_operations(store, plain);
  for (size_t need = 0; need < NEEDS_OF_RULES; need++) {
    run_rules(store, need, false);
    run_rules(store, need, true);
  }
  plain_do(plain, "ECHO done");
  assert_true(check_monitor(monitor, names, name_count) > 100);
  fclose(monitor);
  weir_store_close(store);
  redisFree(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_operations_run_with_the_published_commands_alone),
      cmocka_unit_test(no_published_command_can_be_left_out),
      cmocka_unit_test(a_hundred_additions_to_a_key_ask_twice_for_its_ttl),
      cmocka_unit_test(each_rule_needs_what_the_page_says),
      cmocka_unit_test(a_monitor_sees_published_commands_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
