/* The tenants of a simulated pool are decided as a limiter decides them, with as many operations and round trips: a
 * process that is asked for all tenants knows of their pool what it has read for any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "simulate/tenants.h"
#include "store/store.h"

enum { REQUESTS = 8000, DEADLINE_US = 400000, TENANTS = 12 };

static int64_t now_us;

static int64_t read_time(void *context) {
  (void)context;
  return now_us;
}

/* The store's own backend, with what it executes counted. */
static const weir_backend *executes;
static uint64_t operations, trips;

static void count_and_execute(void *handle, weir_operation *planned, size_t count,
                              int64_t deadline_us, weir_message *message) {
  operations += count;
  trips++;
  executes->exec(handle, planned, count, deadline_us, message);
}

static weir_limiter *open_limiter(const char *rule, const weir_limiter_options *options,
                                  weir_store **store) {
  static weir_backend counted;
  weir_message message = {""};
  weir_limiter *limiter = NULL;
  assert_int_equal(weir_store_open("memory:", store, &message), WEIR_OK);
  if (weir_limiter_create(*store, rule, options, &limiter, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  executes = (*store)->backend;
  counted = *executes;
  counted.exec = count_and_execute;
  (*store)->backend = &counted;
  operations = trips = 0;
  return limiter;
}

static weir_decision ask_limiter(weir_limiter *limiter, const weir_tenant_request *asked) {
  weir_message message = {""};
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra};
  weir_request request = {.key = asked->pool, .key_length = asked->pool_length};
  request.cost = asked->cost;
  extra.tenant = asked->name;
  extra.tenant_length = asked->name_length;
  assert_int_equal(weir_decide_extra(&limiter, &request, extras, 1, &message), WEIR_OK);
  return request.decision;
}

static uint64_t chance = 1;

static int64_t below(int64_t most) {
  chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((chance >> 33) % (uint64_t)most);
}

/* Some ask always, some come and go; t0 asks for half of it all. */
static void compare(const char *rule, int64_t cost_most) {
  static weir_tenants tenants;
  weir_message message = {""};
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = DEADLINE_US,
                                  .processes = 1,
                                  .clock = {read_time, NULL}};
  weir_store *store;
  weir_limiter *limiter = open_limiter(rule, &options, &store);
  assert_int_equal(weir_tenants_init(&tenants, &rule, 1, &options, &message), WEIR_OK);
  const weir_division *division = &tenants.divisions[0];
  int64_t admitted = 0, denied = 0;
  now_us = INT64_C(1764028800000000);
  for (int i = 0; i < REQUESTS; i++) {
    char name[16];
    now_us += below(12000);
    int64_t burst = now_us / 7000000 % 3, number = below(2) * below(TENANTS);
    if (number % 3 != burst) number = 0;
    int length = snprintf(name, sizeof name, "t%d", (int)number);
    weir_tenant_request asked = {now_us, "pool", name, 4, (size_t)length, 1 + below(cost_most)};
    assert_int_equal(weir_tenants_request(&tenants, &asked, &message), WEIR_OK);
    if (ask_limiter(limiter, &asked).allowed)
      admitted += asked.cost;
    else
      denied += asked.cost;
    int64_t simulated = 0;
    for (size_t t = 0; t < tenants.count; t++)
      simulated += division->shares[t].ways[WEIR_BY_RULE].admitted;
    assert_int_equal(simulated, admitted);
  }
  assert_true(admitted > REQUESTS / 5 && denied > REQUESTS / 5);
  assert_int_equal(division->driver.rounds, trips);
  assert_int_equal(division->driver.operations, operations);
  weir_tenants_clean_up(&tenants);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void named_tenants_are_decided_as_by_the_library(void **state) {
  (void)state;
  compare("shared-window:1800/15s,cells=15,weights=t0:4|t1:1|t2:1|t3:2|t4:1|t5:1", 1);
  compare("shared-window:3000/20s,cells=8,floors=80%,weights=t0:1|t3:1|t6:1", 4);
}

static void unnamed_tenants_are_decided_as_by_the_library(void **state) {
  (void)state;
  compare("shared-window:1800/15s,cells=15,weights=t0:1,others=2", 1);
  compare("shared-window:3000/20s,cells=20,others=1", 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(named_tenants_are_decided_as_by_the_library),
      cmocka_unit_test(unnamed_tenants_are_decided_as_by_the_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
