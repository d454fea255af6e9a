/* A limiter refuses arguments, and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/world.h"

static weir_store *memory(void) {
  weir_store *store;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  return store;
}

/* Creating fails with this status and a message that holds both texts. */
static void assert_refused(const char *rules, const weir_limiter_options *options,
                           weir_status expected, const char *part, const char *accepted) {
  weir_store *store = memory();
  weir_message message = {""};
  weir_limiter *limiter = (weir_limiter *)store; /* anything but NULL */
  weir_status status = weir_limiter_create(store, rules, options, &limiter, &message);
  if (status != expected || strstr(message.text, part) == NULL ||
      strstr(message.text, accepted) == NULL)
    fail_msg("%s: %s, \"%s\" lacks \"%s\" or \"%s\"", rules, weir_status_name(status), message.text,
             part, accepted);
  assert_null(limiter);
  assert_int_equal(weir_limiter_create(store, rules, options, &limiter, NULL), expected);
  weir_store_close(store);
}

static void names_the_bad_part_of_a_rule(void **state) {
  static const struct {
    const char *rules, *part, *accepted;
  } cases[] = {
      {"", "\"\"", "fixed-window"},
      {"sliding-windows:5/1m", "sliding-windows", "sliding-window"},
      {"fixed-window", "fixed-window", "100/1m"},
      {"fixed-window:5", "5", "LIMIT/PERIOD"},
      {"fixed-window:0/1m", "0", "1 to 9007199254740992"},
      {"fixed-window:-1/1m", "-1", "1 to 9007199254740992"},
      {"fixed-window:9007199254740993/1m", "9007199254740993", "1 to 9007199254740992"},
      {"fixed-window:99999999999999999999999/1m", "999999", "1 to 9007199254740992"},
      {"fixed-window:5.5/1m", "5.5", "whole number"},
      {"fixed-window:/1m", "\"\"", "whole number"},
      {"fixed-window:5/", "\"\"", "1ms to 400d"},
      {"fixed-window:5/0s", "0s", "1ms to 400d"},
      {"fixed-window:5/401d", "401d", "1ms to 400d"},
      {"fixed-window:5/999us", "999us", "1ms to 400d"},
      {"fixed-window:5/1 m", "1 m", "1ms to 400d"},
      {"fixed-window:5/99999999999999999999d", "99999999", "1ms to 400d"},
      {"fixed-window:5/1m,cells=4", "cells", "count="},
      {"fixed-window:5/1m,", "\"\"", "name="},
      {"sliding-window:5/1m,cells=3", "cells=3", "1, 2, 4"},
      {"sliding-window:5/1m,cells=128", "cells=128", "64"},
      {"sliding-window:5/1m,cells=0", "cells=0", "1, 2, 4"},
      {"sliding-window:5/1m,cells", "cells", "cells="},
      {"sliding-window:5/1m,cells=4,cells=4", "cells", "twice"},
      {"sliding-window:5/1m,strict=yes", "strict=yes", "no value"},
      {"sliding-window:5/1m,count=some", "count=some", "all"},
      {"sliding-window:5/1m,name=", "name=", "A-Z"},
      {"sliding-window:5/1m,name=a:b", "name=a:b", "A-Z"},
      {"sliding-window:5/1m,name=123456789012345678901234567890123", "name=1234", "1 to 32"},
      {"sliding-window:5/1m,speed=4", "speed", "cells="},
      {"fixed-window:5/1m;fixed-window:9/1m", "1 and 2", "name="},
      {"fixed-window:5/1m;", "\"\"", "fixed-window"},
      {"fixed-window:5/1m;sliding-window:x/1m", "\"sliding-window:x/1m\"", "whole number"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_refused(cases[i].rules, NULL, WEIR_BAD_RULE, cases[i].part, cases[i].accepted);
}

#define BAD_OPTION(member, value, accepted)                                                        \
  assert_refused("fixed-window:5/1m",                                                              \
                 &(weir_limiter_options){.size = sizeof(weir_limiter_options), .member = (value)}, \
                 WEIR_BAD_ARGUMENT, #member, accepted)

static void names_the_bad_option_and_its_range(void **state) {
  (void)state;
  BAD_OPTION(deadline_us, 999, "1000 to 60000000");
  BAD_OPTION(deadline_us, 60000001, "1000 to 60000000");
  BAD_OPTION(deadline_us, -1, "1000 to 60000000");
  BAD_OPTION(clock_error_us, -1, "1 to 60000000");
  BAD_OPTION(clock_error_us, 60000001, "1 to 60000000");
  BAD_OPTION(processes, 100001, "1 to 100000");
  BAD_OPTION(memo_keys, 16777217, "1 to 16777216");
  BAD_OPTION(memo_age_us, 60000001, "1 to 60000000");
  BAD_OPTION(local_denial_us, -5, "1 to 60000000");
  BAD_OPTION(least_ttl_us, INT64_C(401) * 86400 * 1000000, "34560000000000");
  BAD_OPTION(least_ttl_us, -1, "34560000000000");
  BAD_OPTION(flags, 32, "weir_limiter_flag");
  BAD_OPTION(fallback, 4, "weir_fallback");
  BAD_OPTION(peers, 100001, "1 to 100000");
  BAD_OPTION(reserved, 1, "0");
  assert_refused("fixed-window:5/1m", &(weir_limiter_options){.deadline_us = 5000},
                 WEIR_BAD_ARGUMENT, "size", "accepted");
  assert_refused("fixed-window:5/1m", &(weir_limiter_options){.size = 4097}, WEIR_BAD_ARGUMENT,
                 "size", "accepted");
}

/* As a later version of the header may have it. */
typedef struct later_options {
  weir_limiter_options known;
  char unknown[16];
} later_options;

static void accepts_a_longer_newer_structure_while_the_rest_is_zero(void **state) {
  (void)state;
  later_options later = {.known = {.size = sizeof later, .processes = 8}};
  weir_store *store = memory();
  weir_limiter *limiter;
  weir_message message = {""};
  assert_int_equal(
      weir_limiter_create(store, "fixed-window:5/1m", &later.known, &limiter, &message), WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  for (size_t i = 0; i < sizeof later.unknown; i += sizeof later.unknown - 1) {
    later.unknown[i] = 1;
    assert_refused("fixed-window:5/1m", &later.known, WEIR_BAD_ARGUMENT, "size",
                   "only if it is zero");
    later.unknown[i] = 0;
  }
}

static void an_initialiser_sets_the_size_alone(void **state) {
  (void)state;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  weir_limiter_options expected = {.size = sizeof options};
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_rule_info info = WEIR_RULE_INFO_INIT;
  weir_server_state server = WEIR_SERVER_STATE_INIT;
  assert_memory_equal(&options, &expected, sizeof options);
  assert_int_equal(counts.size, sizeof counts);
  assert_int_equal(info.size, sizeof info);
  assert_int_equal(server.size, sizeof server);
}

static void accepts_the_ends_of_every_range(void **state) {
  static const char *const rules[] = {
      "fixed-window:1/1ms",
      "fixed-window:1000000000/400d",
      "sliding-window:5/s",
      "sliding-window:5/ms,cells=64,strict,count=all,name=A.b_c-9",
      "fixed-window:5/1m;fixed-window:9/1m,name=x",
      "fixed-window:5/60s;fixed-window:9/1h;sliding-window:9/1h;sliding-window:9/1h,cells=1",
  };
  weir_store *store = memory();
  weir_limiter *limiter;
  weir_message message = {""};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    if (weir_limiter_create(store, rules[i], NULL, &limiter, &message) != WEIR_OK)
      fail_msg("%s: %s", rules[i], message.text);
    weir_limiter_destroy(limiter);
  }
  weir_store_close(store);
}

static void accepts_a_shorter_older_structure(void **state) {
  weir_limiter_options options = {.size = offsetof(weir_limiter_options, clock_error_us),
                                  .deadline_us = 5000,
                                  .clock_error_us = -1};
  weir_store *store = memory();
  weir_limiter *limiter;
  (void)state;
  assert_int_equal(weir_limiter_create(store, "fixed-window:5/1m", &options, &limiter, NULL),
                   WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void warns_of_cells_shorter_than_the_margin(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m;sliding-window:5/10ms", NULL);
  assert_non_null(strstr(weir_limiter_warning(w.limiter), "rule 2"));
  world_close(&w);
  world_open(&w, "memory:", "sliding-window:5/10s;fixed-window:5/1ms", NULL);
  assert_null(weir_limiter_warning(w.limiter));
  world_close(&w);
}

/* Up to there the margins of processes with other deadlines cover it. */
static void warns_of_deadlines_above_100_ms(void **state) {
  const struct {
    int64_t deadline_us;
    uint32_t processes;
    bool warns;
  } cases[] = {{20000, 0, false},
               {100000, 0, false},
               {100001, 0, true},
               {60000000, 2, true},
               {60000000, 1, false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    weir_limiter_options options = {.size = sizeof options,
                                    .deadline_us = cases[i].deadline_us,
                                    .processes = cases[i].processes};
    world_open(&w, "memcached://127.0.0.1:1", "fixed-window:5/1m", &options);
    const char *warning = weir_limiter_warning(w.limiter);
    assert_int_equal(warning != NULL, cases[i].warns);
    if (warning != NULL) assert_non_null(strstr(warning, "longer than 100ms"));
    world_close(&w);
    world_open(&w, "memory:", "fixed-window:5/1m", &options); /* which nobody else uses */
    assert_null(weir_limiter_warning(w.limiter));
    world_close(&w);
  }
}

static void refuses_a_cost_out_of_range_and_touches_nothing(void **state) {
  static const int64_t costs[] = {0, -1, INT64_MIN, (INT64_C(1) << 31) + 1, INT64_MAX};
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
    assert_int_equal(weir_limiter_take(w.limiter, "k", 1, costs[i], &decision, &message),
                     WEIR_BAD_COST);
    assert_non_null(strstr(message.text, "1 to 2147483648"));
    assert_int_equal(weir_limiter_peek(w.limiter, "k", 1, costs[i], &decision, NULL),
                     WEIR_BAD_COST);
  }
  assert_int_equal(world_peek(&w, "k", 1).remaining, 5);
  world_close(&w);
}

static void takes_the_largest_cost_for_a_decision(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1000000000/1m", NULL);
  weir_decision decision = world_take(&w, "k", INT64_C(1) << 31);
  assert_false(decision.allowed);
  assert_int_equal(decision.retry_after_us, WEIR_NEVER);
  world_close(&w);
}

static void refuses_an_empty_key(void **state) {
  world w;
  weir_decision decision;
  weir_message message;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(weir_limiter_take(w.limiter, "", 0, 1, &decision, &message), WEIR_BAD_KEY);
  assert_non_null(strstr(message.text, "1 byte or more"));
  assert_int_equal(weir_limiter_take(w.limiter, NULL, 0, 1, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(weir_limiter_peek(w.limiter, "", 0, 1, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(weir_limiter_reset(w.limiter, "", 0, NULL), WEIR_BAD_KEY);
  world_close(&w);
}

static void destroys_and_closes_nothing_at_all(void **state) {
  (void)state;
  weir_limiter_destroy(NULL);
  weir_store_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_the_bad_part_of_a_rule),
      cmocka_unit_test(names_the_bad_option_and_its_range),
      cmocka_unit_test(accepts_the_ends_of_every_range),
      cmocka_unit_test(accepts_a_shorter_older_structure),
      cmocka_unit_test(accepts_a_longer_newer_structure_while_the_rest_is_zero),
      cmocka_unit_test(an_initialiser_sets_the_size_alone),
      cmocka_unit_test(warns_of_cells_shorter_than_the_margin),
      cmocka_unit_test(warns_of_deadlines_above_100_ms),
      cmocka_unit_test(refuses_a_cost_out_of_range_and_touches_nothing),
      cmocka_unit_test(takes_the_largest_cost_for_a_decision),
      cmocka_unit_test(refuses_an_empty_key),
      cmocka_unit_test(destroys_and_closes_nothing_at_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
