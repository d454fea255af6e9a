/* Tenants of a pool, through limiters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"
#include "store/store.h"

/* Cells of 10 s, Cf = 50: a has a floor of 30, b and c of 10. */
static const char *const rule = "shared-window:1000/80s,cells=8,weights=a:3|b:1|c:1";

static void on_each_store(void (*test)(world *w)) {
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), rule, NULL);
    world_set(&w, 5 * SECOND_US);
    test(&w);
    world_close(&w);
  }
}

static weir_status ask(weir_limiter *limiter, const char *pool, const char *tenant, int64_t cost,
                       uint32_t flags, weir_decision *decision) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras = &extra;
  weir_message why = {""};
  weir_request request = {.key = pool, .key_length = strlen(pool), .cost = cost, .flags = flags};
  extra.tenant = tenant;
  extra.tenant_length = strlen(tenant);
  weir_status status = weir_decide_extra(&limiter, &request, &extras, 1, &why);
  if (status != WEIR_OK) fail_msg("%s", why.text);
  *decision = request.decision;
  return request.status;
}

static bool take(weir_limiter *limiter, const char *pool, const char *tenant, int64_t cost) {
  weir_decision decision;
  assert_int_equal(ask(limiter, pool, tenant, cost, 0, &decision), WEIR_OK);
  return decision.allowed;
}

/* All that a tenant gets in this cell, one cost after another. */
static int64_t drain(weir_limiter *limiter, const char *pool, const char *tenant, int64_t cost) {
  int64_t got = 0;
  while (take(limiter, pool, tenant, cost))
    got += cost;
  return got;
}

static void floors_stay_whoever_borrows(world *w) {
  weir_limiter *other = world_limiter(w, rule, NULL);
  int64_t got = drain(w->limiter, "pool", "b", 5);
  assert_in_range(got, 275, 550);
  got += drain(other, "pool", "b", 1);
  assert_in_range(got, 275, 550);
  for (int i = 0; i < 3; i++)
    assert_true(take(i % 2 == 0 ? other : w->limiter, "pool", "a", 10));
  assert_true(take(other, "pool", "c", 10));
  weir_limiter_destroy(other);
}

static void every_store_keeps_floors(void **state) {
  (void)state;
  on_each_store(floors_stay_whoever_borrows);
}

/* What is lent now is gone for a window; the floors of every later cell are there. */
static void floors_come_again_in_each_cell(world *w) {
  drain(w->limiter, "pool", "b", 5);
  drain(w->limiter, "pool", "who has no floor", 5);
  for (int cell = 1; cell < 20; cell++) {
    world_set(w, cell * 10 * SECOND_US + 3 * SECOND_US);
    for (int i = 0; i < 3; i++)
      assert_true(take(w->limiter, "pool", "a", 10));
    drain(w->limiter, "pool", "z", 7);
    assert_true(take(w->limiter, "pool", "c", 10));
  }
}

static void every_store_keeps_floors_for_later(void **state) {
  (void)state;
  on_each_store(floors_come_again_in_each_cell);
}

static void pools_do_not_meet(world *w) {
  int64_t got = drain(w->limiter, "one", "b", 5);
  assert_int_equal(drain(w->limiter, "two", "b", 5), got);
}

static void no_pool_takes_from_another(void **state) {
  (void)state;
  on_each_store(pools_do_not_meet);
}

/* Tenants of one pool are decided together, each by its own floor; their order is that of the batch. */
static void a_batch_has_many_tenants(world *w) {
  static const char *const tenants[] = {"a", "b", "c", "b", "a", "a"};
  weir_limiter *limiters[6];
  weir_request requests[6];
  weir_extra extras[6];
  const weir_extra *of[6];
  weir_message why = {""};
  for (const char *none = "xyz"; *none != '\0'; none++) /* nothing is left to be lent */
    drain(w->limiter, "pool", none, 5);
  for (int i = 0; i < 6; i++) {
    limiters[i] = w->limiter;
    requests[i] = (weir_request){.key = "pool", .key_length = 4, .cost = 10};
    extras[i] = (weir_extra)WEIR_EXTRA_INIT;
    extras[i].tenant = tenants[i];
    extras[i].tenant_length = 1;
    of[i] = &extras[i];
  }
  assert_int_equal(weir_decide_extra(limiters, requests, of, 6, &why), WEIR_OK);
  for (int i = 0; i < 6; i++)
    assert_int_equal(requests[i].decision.allowed, i != 3); /* the second 10 of b's floor of 10 */
}

static void a_batch_is_decided_by_tenant(void **state) {
  (void)state;
  on_each_store(a_batch_has_many_tenants);
}

/* --- what a tenant learns spares others ---------------------------------------------------------
 */

static const weir_backend *executes;
static size_t executed;

static void count_and_execute(void *handle, weir_operation *operations, size_t count,
                              int64_t deadline_us, weir_message *message) {
  executed += count;
  executes->exec(handle, operations, count, deadline_us, message);
}

static void refuse_all(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                       weir_message *message) {
  (void)handle;
  (void)deadline_us;
  for (size_t i = 0; i < count; i++)
    operations[i].outcome = WEIR_REFUSED;
  weir_message_set(message, "refused");
}

/* Who borrows first reads the whole window. Who does next finds that it was read, and so is the level. */
static void the_next_reads_no_cell_again(world *w) {
  weir_backend counted = *w->store->backend;
  if (counted.traits & WEIR_TRAIT_IMMEDIATE) return; /* a read is no trip there */
  executes = w->store->backend;
  counted.exec = count_and_execute;
  w->store->backend = &counted;
  executed = 0;
  assert_true(take(w->limiter, "pool", "none", 5));
  assert_in_range(executed, 16, 40);
  executed = 0;
  assert_true(take(w->limiter, "pool", "other", 5));
  assert_int_equal(executed, 2);
  drain(w->limiter, "pool", "b", 5);
  executed = 0;
  assert_false(take(w->limiter, "pool", "b", 5)); /* stopped, as is known */
  assert_int_equal(executed, 0);
  assert_true(take(w->limiter, "pool", "a", 30));
  assert_int_equal(executed, 2);
  w->store->backend = executes;
}

static void tenants_share_what_is_known_of_their_pool(void **state) {
  (void)state;
  on_each_store(the_next_reads_no_cell_again);
}

/* Cells of 10 s, Cf = 50: a has 25 of it and all others 25. */
static const char *const rule_of_others = "shared-window:1000/80s,cells=8,weights=a:1,others=1";

/* So many that none has a floor take what may be lent, and nothing of a's floor nor of a known one's. */
static void inventing_takes_no_floor(world *w) {
  weir_limiter *limiter = world_limiter(w, rule_of_others, NULL);
  char name[16];
  for (int cell = 0; cell < 12; cell++) {
    world_set(w, cell * 10 * SECOND_US + 5 * SECOND_US);
    if (cell == 0) assert_true(take(limiter, "pool", "known", 1));
    for (int i = 0; i < 60; i++) {
      snprintf(name, sizeof name, "new-%d-%d", cell / 4, i);
      take(limiter, "pool", name, 1);
      if (cell == 0) take(limiter, "pool", name, 20);
    }
    assert_true(take(limiter, "pool", "a", 25));
  }
  weir_limiter_destroy(limiter);
}

static void who_is_not_named_takes_from_others_alone(void **state) {
  (void)state;
  on_each_store(inventing_takes_no_floor);
}

/* Two that were seen share what others have, whoever asks for them, once all that may be lent is. */
static void others_share_their_part(world *w) {
  static const char *const all_floors =
      "shared-window:1000/80s,cells=8,floors=100%,weights=a:1,others=1";
  weir_limiter *limiter = world_limiter(w, all_floors, NULL),
               *other = world_limiter(w, all_floors, NULL);
  assert_true(take(limiter, "pool", "x", 1));
  assert_true(take(other, "pool", "y", 1));
  for (int cell = 0; cell < 5; cell++) {
    world_set(w, cell * 10 * SECOND_US + 5 * SECOND_US);
    drain(other, "pool", "a", 1);
  }
  for (int i = 0; i < 6; i++) {
    assert_true(take(i % 2 == 0 ? other : limiter, "pool", "x", 4));
    assert_true(take(i % 2 == 0 ? limiter : other, "pool", "y", 4));
  }
  assert_false(take(limiter, "pool", "x", 4));
  assert_false(take(other, "pool", "y", 4));
  weir_limiter_destroy(other);
  weir_limiter_destroy(limiter);
}

static void who_was_seen_has_a_floor(void **state) {
  (void)state;
  on_each_store(others_share_their_part);
}

/* A request may say another limit of its pool: what is there counts under both. */
static void another_limit_counts_on(world *w) {
  weir_limiter *limiter =
      world_limiter(w, "shared-window:1000/80s,cells=8,weights=a:3|b:1|c:1,most=4000", NULL);
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras = &extra;
  weir_message why = {""};
  weir_request request = {.key = "pool", .key_length = 4, .cost = 120};
  extra.tenant = "a";
  extra.tenant_length = 1;
  extra.limit = 4000;
  for (const char *none = "xyz"; *none != '\0'; none++)
    drain(limiter, "pool", none, 1);
  assert_false(take(limiter, "pool", "z", 100));
  assert_int_equal(weir_decide_extra(&limiter, &request, &extras, 1, &why), WEIR_OK);
  assert_true(request.decision.allowed); /* its floor is 120 of 200 */
  extra.tenant = "z";
  assert_int_equal(weir_decide_extra(&limiter, &request, &extras, 1, &why), WEIR_OK);
  assert_true(request.decision.allowed);
  assert_int_equal(request.decision.limit, 4000 - 9 * 200);
  extra.limit = 99;
  assert_int_equal(weir_decide_extra(&limiter, &request, &extras, 1, &why), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(why.text, "accepted are 100 to 4000"));
  weir_limiter_destroy(limiter);
}

static void a_limit_up_to_most_may_be_said(void **state) {
  (void)state;
  on_each_store(another_limit_counts_on);
}

/* Tokens of a model: an estimate is taken, and what it really was is settled, by whatever process. */
static void estimates_are_settled(world *w) {
  static const char *const with_debt =
      "shared-window:1000/80s,cells=8,weights=a:3|b:1|c:1,debt=100";
  weir_limiter *one = world_limiter(w, with_debt, NULL), *other = world_limiter(w, with_debt, NULL);
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras = &extra;
  weir_message why = {""};
  weir_decision taken;
  weir_request request = {.key = "pool", .key_length = 4, .flags = WEIR_REQUEST_SETTLE};
  extra.tenant = "z";
  extra.tenant_length = 1;
  assert_int_equal(ask(one, "pool", "z", 200, 0, &taken), WEIR_OK);
  assert_true(taken.allowed);
  world_set(w, 15 * SECOND_US);
  int64_t lent = drain(other, "pool", "y", 5) + drain(other, "pool", "x", 5);
  request.decision = taken;
  request.cost = 20;
  assert_int_equal(weir_decide_extra(&one, &request, &extras, 1, &why), WEIR_OK);
  assert_int_equal(request.status, WEIR_OK);
  assert_int_equal(request.decision.cost, 20);
  assert_true(take(one, "pool", "w", 60)); /* what came back may be lent */
  world_set(w, 25 * SECOND_US);
  assert_true(take(other, "pool", "v", 5));
  assert_int_equal(ask(one, "pool", "a", 1, 0, &taken), WEIR_OK);
  request.decision = taken;
  request.cost = 5000;
  extra.tenant = "a";
  assert_int_equal(weir_decide_extra(&other, &request, &extras, 1, &why), WEIR_OK);
  assert_int_equal(request.status, WEIR_OK);
  /* All that may be lent, and 100 more: the other process has read again what came back. */
  assert_int_equal(request.decision.cost, 1 + 1000 - (lent + 60 + 7 * 50) - 5 - 50 + 100);
  assert_false(take(other, "pool", "v", 1));
  assert_true(take(other, "pool", "a", 29));
  assert_true(take(other, "pool", "c", 10));
  weir_limiter_destroy(one);
  weir_limiter_destroy(other);
}

static void an_estimate_is_settled(void **state) {
  (void)state;
  on_each_store(estimates_are_settled);
}

static void peeks_and_long_names(world *w) {
  char tenant[3000];
  weir_decision decision;
  memset(tenant, 'x', sizeof tenant - 1);
  tenant[sizeof tenant - 1] = '\0';
  assert_int_equal(ask(w->limiter, "pool", tenant, 5, WEIR_REQUEST_PEEK, &decision), WEIR_OK);
  assert_true(decision.allowed);
  assert_int_equal(decision.limit, 550);
  assert_true(take(w->limiter, tenant, tenant, 5)); /* the pool's name is as long */
  assert_int_equal(ask(w->limiter, "pool", "a", 600, 0, &decision), WEIR_OK);
  assert_false(decision.allowed);
  assert_int_equal(decision.retry_after_us, WEIR_NEVER);
  drain(w->limiter, "pool", "b", 5);
  assert_int_equal(ask(w->limiter, "pool", "b", 5, WEIR_REQUEST_PEEK, &decision), WEIR_OK);
  assert_false(decision.allowed);
  assert_int_equal(decision.retry_after_us, 5 * SECOND_US); /* the cell's end */
}

static void looks_and_takes_any_name(void **state) {
  (void)state;
  on_each_store(peeks_and_long_names);
}

/* A list of one tenant: what its take leaves of the floor is less than the peeks ask for, and the rest may be
 * borrowed. Or the take is denied, and the floor is whole. */
static void a_list_has_peeks(world *w) {
  weir_limiter *limiters[] = {w->limiter, w->limiter, w->limiter};
  weir_request requests[3] = {{.cost = 30, .flags = WEIR_REQUEST_PEEK},
                              {.cost = 8},
                              {.cost = 550, .flags = WEIR_REQUEST_PEEK | WEIR_REQUEST_UP_TO}};
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra, &extra, &extra};
  weir_message why = {""};
  extra.tenant = "b";
  extra.tenant_length = 1;
  for (int i = 0; i < 3; i++) {
    requests[i].key = "pool";
    requests[i].key_length = 4;
  }
  assert_int_equal(weir_decide_extra(limiters, requests, extras, 3, &why), WEIR_OK);
  for (int i = 0; i < 3; i++) {
    weir_decision alone;
    assert_int_equal(ask(w->limiter, "alone", "b", requests[i].cost, requests[i].flags, &alone),
                     WEIR_OK);
    assert_true(requests[i].decision.allowed && alone.allowed);
    assert_int_equal(requests[i].decision.cost, alone.cost);
    if (i != 1) assert_int_equal(requests[i].decision.remaining, alone.remaining);
  }

  for (const char *none = "xyz"; *none != '\0'; none++)
    drain(w->limiter, "pool", none, 1);
  extra.tenant = "c";
  requests[0].cost = requests[2].cost = 10;
  requests[1].cost = 200;
  assert_int_equal(weir_decide_extra(limiters, requests, extras, 3, &why), WEIR_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(requests[i].decision.allowed, i != 1);
  assert_int_equal(requests[2].decision.cost, 10);
}

static void a_peek_in_a_list_finds_what_it_finds_alone(void **state) {
  (void)state;
  on_each_store(a_list_has_peeks);
}

/* --- charged ahead -----------------------------------------------------------------------------
 */

/* Cells of 10 s, Cf = 1000 of which a has 600, and hardly anything to be lent. */
static const char *const rule_without =
    "shared-window:10000/80s,cells=8,floors=100%,weights=a:3|b:2";
static const char *const rule_with =
    "shared-window:10000/80s,cells=8,floors=100%,weights=a:3|b:2,lease=1s";

static weir_limiter *one_of(world *w, const char *text, uint32_t processes) {
  weir_limiter_options options = {.processes = processes};
  return world_limiter(w, text, &options);
}

static void close_without_loss(weir_limiter *limiter) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_message why = {""};
  assert_int_equal(weir_limiter_return_leases(limiter, &why), WEIR_OK);
  weir_limiter_read_counts(limiter, &counts);
  assert_int_equal(counts.keys_lost, 0);
  assert_int_equal(counts.leased, counts.lease_used + counts.lease_returned);
  weir_limiter_destroy(limiter);
}

/* What there is to be lent goes to who has no floor. */
static void lend_all(weir_limiter *limiter) {
  drain(limiter, "pool", "x", 50);
  drain(limiter, "pool", "y", 5);
  drain(limiter, "pool", "z", 1);
}

/* Operations of 400 takes within a's floor. */
static size_t operations_of(world *w, const char *text) {
  weir_backend counted = *w->store->backend;
  weir_limiter *limiter = one_of(w, text, 1);
  executes = w->store->backend;
  counted.exec = count_and_execute;
  w->store->backend = &counted;
  executed = 0;
  for (int i = 0; i < 400; i++)
    assert_true(take(limiter, "pool", "a", 1));
  size_t operations = executed;
  w->store->backend = executes;
  close_without_loss(limiter);
  return operations;
}

static void a_lot_needs_two_operations(world *w) {
  if (w->store->backend->traits & WEIR_TRAIT_IMMEDIATE) return; /* nothing leaves there */
  assert_int_equal(operations_of(w, rule_without), 800 + 4); /* once, how the period is divided */
  world_set(w, 15 * SECOND_US);
  assert_in_range(operations_of(w, rule_with), 8, 40);
}

static void lots_spare_operations(void **state) {
  (void)state;
  on_each_store(a_lot_needs_two_operations);
}

/* Whoever holds what: a tenant has its floor and no more, and none of another's. */
static void lots_stay_within_floors(world *w) {
  weir_limiter *one = one_of(w, rule_with, 2), *other = one_of(w, rule_with, 2);
  weir_message why = {""};
  lend_all(one);
  int64_t got = 0;
  for (int i = 0; i < 100; i++)
    got += take(one, "pool", "a", 1) + take(other, "pool", "a", 1);
  assert_int_equal(got, 200);
  assert_int_equal(drain(one, "pool", "b", 1) + drain(other, "pool", "b", 1), 400);
  assert_false(take(one, "pool", "c", 1));
  got += drain(one, "pool", "a", 1);
  assert_int_equal(weir_limiter_return_leases(other, &why), WEIR_OK);
  got += drain(one, "pool", "a", 1);
  assert_int_equal(got, 600);
  assert_false(take(other, "pool", "a", 1));
  close_without_loss(one);
  close_without_loss(other);
}

static void floors_hold_with_lots(void **state) {
  (void)state;
  on_each_store(lots_stay_within_floors);
}

/* A lot ends with its cell, and what it has left goes back there: so that it may be lent. */
static void lots_end_with_their_cell(world *w) {
  weir_limiter *limiter = one_of(w, rule_with, 1), *plain = one_of(w, rule_without, 1);
  weir_limiter_counts counts = {.size = sizeof counts};
  world_set(w, 19 * SECOND_US);
  lend_all(plain);
  int64_t got = 0;
  do {
    assert_true(take(limiter, "pool", "a", 1));
    got++;
    weir_limiter_read_counts(limiter, &counts);
  } while (counts.leased == counts.lease_used);
  world_set(w, 20 * SECOND_US);
  assert_true(take(limiter, "pool", "a", 1));
  weir_limiter_read_counts(limiter, &counts);
  assert_int_equal(counts.lease_lost, 0);
  assert_true(counts.lease_returned > 0);
  assert_int_equal(drain(plain, "pool", "b", 1), 400);
  world_set(w, 19 * SECOND_US); /* a step back, after which nothing of the cell is remembered */
  weir_limiter *fresh = one_of(w, rule_without, 1);
  got += drain(fresh, "pool", "a", 1);
  assert_int_equal(got, 600);
  close_without_loss(limiter);
  weir_limiter_destroy(plain);
  weir_limiter_destroy(fresh);
}

static void what_a_lot_leaves_goes_back(void **state) {
  (void)state;
  on_each_store(lots_end_with_their_cell);
}

/* The cell ends while a request is looked for, before it is charged: what its tenant held was of no use in the next
 * one, so it asks again, and leaves its group with nobody in it. */
static world *crossing;

static void end_cell_and_execute(void *handle, weir_operation *operations, size_t count,
                                 int64_t deadline_us, weir_message *message) {
  world_set(crossing, 20 * SECOND_US);
  executes->exec(handle, operations, count, deadline_us, message);
}

static void all_of_a_group_ask_again(world *w) {
  if (w->store->backend->traits & WEIR_TRAIT_IMMEDIATE) return; /* it would be late there */
  weir_limiter *limiter = one_of(w, rule_with, 1);
  weir_backend slow = *w->store->backend;
  weir_limiter_counts counts = {.size = sizeof counts};
  int64_t held;
  world_set(w, 19 * SECOND_US);
  lend_all(limiter);
  do {
    assert_true(take(limiter, "pool", "a", 1));
    weir_limiter_read_counts(limiter, &counts);
    held = (int64_t)(counts.leased - counts.lease_used);
  } while (held < 2);
  assert_false(take(limiter, "pool", "a", 600)); /* so the next one is looked for */
  executes = w->store->backend;
  slow.exec = end_cell_and_execute;
  w->store->backend = &slow;
  crossing = w;
  assert_true(take(limiter, "pool", "a", held + 1));
  w->store->backend = executes;
  close_without_loss(limiter);
}

static void who_meets_the_end_of_a_cell_asks_again(void **state) {
  (void)state;
  on_each_store(all_of_a_group_ask_again);
}

/* Of those who are not named as well, once they were seen. */
static void others_have_lots(world *w) {
  static const char *const text =
      "shared-window:10000/80s,cells=8,floors=100%,weights=a:1,others=1,lease=1s";
  weir_limiter *limiter = one_of(w, text, 1);
  for (int cell = 0; cell < 5; cell++) {
    world_set(w, cell * 10 * SECOND_US + 5 * SECOND_US);
    assert_true(take(limiter, "pool", "x", 1));
    assert_true(take(limiter, "pool", "y", 1));
    drain(limiter, "pool", "a", 50);
    drain(limiter, "pool", "a", 1);
  }
  weir_limiter_counts counts = {.size = sizeof counts};
  assert_int_equal(drain(limiter, "pool", "x", 1), (500 - 25) / 2 - 1);
  weir_limiter_read_counts(limiter, &counts);
  assert_true(counts.lease_used > 200);
  assert_false(take(limiter, "pool", "new", 20));
  close_without_loss(limiter);
}

static void who_is_not_named_has_lots(void **state) {
  (void)state;
  on_each_store(others_have_lots);
}

/* --- weights that change -----------------------------------------------------------------------
 *
 * Cells of 10 s, Cf = 800: north has 500 of it and then 320, south 300 and then 320, east nothing and then 160.
 */

#define OF_TENANTS "shared-window:8000/80s,cells=8,floors=100%,weights="
static const char *const weights_before = OF_TENANTS "north:5|south:3";
static const char *const weights_lesser = OF_TENANTS "north:16|south:15|nobody:9";
static const char *const weights_after = OF_TENANTS "north:2|south:2|east:1";

enum { CHANGE_CELLS = 48, CELLS_OF_AN_INTERVAL = 9 };

/* In this cell one of both has what it has in both divisions, after all others have taken what they get. */
static int64_t divide_cell(weir_limiter *one, weir_limiter *other, int cell, int64_t *denied) {
  bool north = cell % 2 == 0;
  int64_t got = 0, floor = north ? 320 : 300;
  const char *greedy[] = {north ? "south" : "north", "east", "stranger"};
  for (int i = 0; i < 6; i++)
    got += drain(i % 2 == 0 ? one : other, "pool", greedy[i / 2], 20);
  for (int64_t asked = 0; asked < floor; asked += 20) {
    bool allowed = take(asked % 40 == 0 ? one : other, "pool", north ? "north" : "south", 20);
    *(allowed ? &got : denied) += 20;
  }
  return got;
}

/* The most in any interval of a period, which meets so many cells: a third of all is decided by the first two
 * processes, a third by the next two. */
static int64_t most_while_changing(world *w, const char *const texts[2][2], int64_t *denied) {
  int64_t got[CHANGE_CELLS], most = 0;
  for (int cell = 0; cell < CHANGE_CELLS; cell++) {
    const char *const *of = texts[cell * 2 / CHANGE_CELLS];
    weir_limiter *one = world_limiter(w, of[cell / 3 % 2], NULL),
                 *other = world_limiter(w, of[1 - cell / 3 % 2], NULL);
    world_set(w, cell * 10 * SECOND_US + 5 * SECOND_US);
    got[cell] = divide_cell(one, other, cell, denied);
    weir_limiter_destroy(one);
    weir_limiter_destroy(other);
  }
  for (int first = 0; first + CELLS_OF_AN_INTERVAL <= CHANGE_CELLS; first++) {
    int64_t sum = 0;
    for (int cell = first; cell < first + CELLS_OF_AN_INTERVAL; cell++)
      sum += got[cell];
    if (sum > most) most = sum;
  }
  return most;
}

static void the_lesser_floors_come_between(world *w) {
  const char *const texts[2][2] = {{weights_before, weights_lesser},
                                   {weights_lesser, weights_after}};
  int64_t denied = 0, most = most_while_changing(w, texts, &denied);
  print_message("%d of 8000\n", (int)most);
  assert_in_range(most, 7000, 8000);
  assert_int_equal(denied, 0);
}

static void a_change_by_way_of_lesser_floors_keeps_both_promises(void **state) {
  (void)state;
  on_each_store(the_lesser_floors_come_between);
}

/* At once, and whoever is the first of a period: the limit holds, and what some take of the floors of both divisions
 * others may miss in theirs. */
static void one_division_holds(world *w) {
  const char *const texts[2][2] = {{weights_before, weights_after},
                                   {weights_before, weights_after}};
  int64_t denied = 0, most = most_while_changing(w, texts, &denied);
  print_message("%d of 8000, %d within the lesser floors denied\n", (int)most, (int)denied);
  assert_in_range(most, 7000, 8000);
}

static void a_change_at_once_keeps_the_limit(void **state) {
  (void)state;
  on_each_store(one_division_holds);
}

/* Floors of another size: loans of old processes have left no room for larger ones. */
static void floors_change_when_there_is_room(world *w) {
  static const char *const small =
                               "shared-window:8000/80s,cells=8,floors=20%,weights=north:5|south:3",
                           *const large =
                               "shared-window:8000/80s,cells=8,floors=100%,weights=north:5|south:3";
  const char *const texts[2][2] = {{small, large}, {large, small}};
  int64_t denied = 0, most = most_while_changing(w, texts, &denied);
  print_message("%d of 8000\n", (int)most);
  assert_in_range(most, 7000, 8000);
}

static void a_change_of_floors_keeps_the_limit(void **state) {
  (void)state;
  on_each_store(floors_change_when_there_is_room);
}

/* So does one of the part that others= have, of which named tenants take nothing. */
static void others_change(world *w) {
  static const char *const few = OF_TENANTS "north:5|south:3,others=1", *const many = OF_TENANTS
                                                                        "north:1|south:1,others=8";
  const char *const texts[2][2] = {{few, many}, {many, few}};
  int64_t denied = 0, most = most_while_changing(w, texts, &denied);
  print_message("%d of 8000\n", (int)most);
  assert_in_range(most, 7000, 8000);
}

static void a_change_of_the_part_of_others_keeps_the_limit(void **state) {
  (void)state;
  on_each_store(others_change);
}

/* --- without the store --------------------------------------------------------------------------
 */

/* As a limiter is that was told of no policy, one of so many. */
static weir_limiter *going_on(world *w, uint32_t peers) {
  weir_limiter *limiter;
  weir_message why = {""};
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = WORLD_DEADLINE_US,
                                  .clock = hand_clock_as_clock(&w->clock),
                                  .peers = peers};
  if (weir_limiter_create(w->store, rule, &options, &limiter, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  return limiter;
}

/* Four processes of which each knows that it is one of four: the floors of a and c are 30 and 10 in a cell. */
static void floors_go_on_without_the_store(void **state) {
  (void)state;
  enum { PROCESSES = 4, CELLS = 8 };
  world processes[PROCESSES];
  weir_limiter *limiters[PROCESSES];
  int64_t got[2] = {0};
  weir_decision decision;
  for (int i = 0; i < PROCESSES; i++) {
    world_open(&processes[i], "memcached://127.0.0.1:1", rule, NULL);
    limiters[i] = going_on(&processes[i], PROCESSES);
  }
  for (int cell = 0; cell < CELLS; cell++) {
    for (int i = 0; i < PROCESSES; i++) {
      int64_t mine = 0;
      world_set(&processes[i], cell * 10 * SECOND_US + 5 * SECOND_US);
      for (int n = 0; n < 12; n++) {
        assert_int_equal(ask(limiters[i], "pool", "a", 1, 0, &decision), WEIR_OK);
        mine += decision.allowed;
        assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
        assert_int_equal(ask(limiters[i], "pool", "c", 1, 0, &decision), WEIR_OK);
        got[1] += decision.allowed;
      }
      assert_in_range(mine, 7, 8);
      got[0] += mine;
      assert_int_equal(ask(limiters[i], "pool", "none", 1, 0, &decision), WEIR_OK);
      assert_false(decision.allowed); /* nothing is lent */
    }
  }
  assert_in_range(got[0], 30 * CELLS - PROCESSES, 30 * CELLS + PROCESSES);
  assert_in_range(got[1], 10 * CELLS - PROCESSES, 10 * CELLS + PROCESSES);
  for (int i = 0; i < PROCESSES; i++) {
    weir_limiter_destroy(limiters[i]);
    world_close(&processes[i]);
  }
}

/* Nothing is owed of what a floor admitted, whatever it really cost. */
static void what_a_floor_admitted_settles_to_itself(void **state) {
  (void)state;
  static const int64_t real[] = {0, 2, 3, 9};
  world w;
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras = &extra;
  weir_message why = {""};
  world_open(&w, "memcached://127.0.0.1:1", rule, NULL);
  weir_limiter *limiter = going_on(&w, 1);
  extra.tenant = "a";
  extra.tenant_length = 1;
  world_set(&w, 5 * SECOND_US);
  for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
    weir_request request = {.key = "pool", .key_length = 4, .flags = WEIR_REQUEST_SETTLE};
    assert_int_equal(ask(limiter, "pool", "a", 3, 0, &request.decision), WEIR_OK);
    assert_true(request.decision.allowed);
    assert_int_equal(request.decision.source, WEIR_SOURCE_FALLBACK);
    request.cost = real[i];
    assert_int_equal(weir_decide_extra(&limiter, &request, &extras, 1, &why), WEIR_OK);
    if (request.status != WEIR_OK) fail_msg("%s: %s", weir_status_name(request.status), why.text);
  }
  weir_limiter_destroy(limiter);
  world_close(&w);
}

/* What this process was charged of all that was, is its part of the floor. */
static void a_part_of_a_floor_is_what_was_measured(void **state) {
  (void)state;
  char url[STORE_URL_BYTES];
  world w;
  weir_decision decision;
  int64_t got = 0;
  world_open(&w, stores_url(1, url), rule, NULL);
  weir_limiter *one = going_on(&w, 10), *other = going_on(&w, 10);
  for (int cell = 0; cell < 12; cell++) {
    world_set(&w, cell * 10 * SECOND_US + 5 * SECOND_US);
    for (int n = 0; n < 20; n++)
      assert_true(take(n % 4 > 0 ? one : other, "pool", "a", 1));
  }
  weir_backend away = *w.store->backend;
  executes = w.store->backend;
  away.exec = refuse_all;
  w.store->backend = &away;
  for (int cell = 12; cell < 20; cell++) {
    world_set(&w, cell * 10 * SECOND_US + 5 * SECOND_US);
    for (int n = 0; n < 40; n++) {
      assert_int_equal(ask(one, "pool", "a", 1, 0, &decision), WEIR_OK);
      got += decision.allowed;
    }
  }
  assert_in_range(got, 8 * 30 * 65 / 100, 8 * 30 * 85 / 100); /* three of four */
  w.store->backend = executes;
  weir_limiter_destroy(one);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* --- what is refused ----------------------------------------------------------------------------
 */

static void assert_says(const weir_message *why, const char *part) {
  if (strstr(why->text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", why->text, part);
}

static void what_it_cannot_do_is_refused(void **state) {
  (void)state;
  world w;
  weir_decision decision;
  weir_message why = {""};
  weir_request request = {.key = "pool", .key_length = 4, .cost = 1};
  weir_extra extra = WEIR_EXTRA_INIT, empty = WEIR_EXTRA_INIT;
  const weir_extra *of = &extra;
  weir_reservation *made;
  size_t denied_by;
  extra.tenant = "a";
  extra.tenant_length = 1;
  world_open(&w, "memory:", rule, NULL);
  assert_int_equal(weir_limiter_take(w.limiter, "pool", 4, 1, &decision, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, "names no tenant");
  assert_int_equal(weir_limiter_wait(w.limiter, "pool", 4, 1, 0, &decision, &why),
                   WEIR_BAD_ARGUMENT);
  assert_says(&why, "names no tenant");
  const weir_extra *none = &empty;
  assert_int_equal(weir_decide_extra(&w.limiter, &request, &none, 1, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, "names no tenant");
  assert_int_equal(weir_limiter_reset(w.limiter, "pool", 4, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, "has no reset");
  assert_int_equal(weir_reserve_extra(&w.limiter, &request, &of, 1, &made, &why),
                   WEIR_BAD_ARGUMENT);
  assert_says(&why, "takes no reservations");
  assert_int_equal(weir_decide_all_extra(&w.limiter, &request, &of, 1, &denied_by, &why),
                   WEIR_BAD_ARGUMENT);
  assert_says(&why, "gives back by settling alone, and so is no member");
  assert_int_equal(ask(w.limiter, "pool", "a", 1, 0, &decision), WEIR_OK);
  assert_int_equal(weir_limiter_refund(w.limiter, "pool", 4, 1, &decision, &why),
                   WEIR_BAD_ARGUMENT);
  assert_says(&why, "names no tenant: accepted is a settlement");
  world_close(&w);
}

static void limits_of_keys_are_refused(void **state) {
  (void)state;
  weir_store *store;
  weir_limiter *limiter;
  weir_message why = {""};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.limits_us = SECOND_US;
  assert_int_equal(weir_store_open("memory:", &store, &why), WEIR_OK);
  assert_int_equal(
      weir_limiter_create(store, "shared-window:1000/80s,cells=8,weights=a:3|b:1,most=4000",
                          &options, &limiter, &why),
      WEIR_BAD_RULE);
  assert_says(&why, "limits_us with a shared-window");
  weir_store_close(store);
}

static void cells_that_are_too_short_for_the_clocks_are_refused(void **state) {
  (void)state;
  weir_store *store;
  weir_limiter *limiter;
  weir_message why = {""};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.clock_error_us = 4950000;
  assert_int_equal(weir_store_open("memory:", &store, &why), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, rule, &options, &limiter, &why), WEIR_BAD_RULE);
  assert_says(&why, "cells of 10000 ms are too short");
  options.clock_error_us = 4900000;
  assert_int_equal(weir_limiter_create(store, rule, &options, &limiter, &why), WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_store_keeps_floors),
      cmocka_unit_test(every_store_keeps_floors_for_later),
      cmocka_unit_test(no_pool_takes_from_another),
      cmocka_unit_test(a_batch_is_decided_by_tenant),
      cmocka_unit_test(tenants_share_what_is_known_of_their_pool),
      cmocka_unit_test(lots_spare_operations),
      cmocka_unit_test(floors_hold_with_lots),
      cmocka_unit_test(what_a_lot_leaves_goes_back),
      cmocka_unit_test(who_meets_the_end_of_a_cell_asks_again),
      cmocka_unit_test(who_is_not_named_has_lots),
      cmocka_unit_test(a_change_by_way_of_lesser_floors_keeps_both_promises),
      cmocka_unit_test(a_change_at_once_keeps_the_limit),
      cmocka_unit_test(a_change_of_floors_keeps_the_limit),
      cmocka_unit_test(a_change_of_the_part_of_others_keeps_the_limit),
      cmocka_unit_test(who_is_not_named_takes_from_others_alone),
      cmocka_unit_test(who_was_seen_has_a_floor),
      cmocka_unit_test(a_limit_up_to_most_may_be_said),
      cmocka_unit_test(an_estimate_is_settled),
      cmocka_unit_test(looks_and_takes_any_name),
      cmocka_unit_test(a_peek_in_a_list_finds_what_it_finds_alone),
      cmocka_unit_test(floors_go_on_without_the_store),
      cmocka_unit_test(what_a_floor_admitted_settles_to_itself),
      cmocka_unit_test(a_part_of_a_floor_is_what_was_measured),
      cmocka_unit_test(what_it_cannot_do_is_refused),
      cmocka_unit_test(limits_of_keys_are_refused),
      cmocka_unit_test(cells_that_are_too_short_for_the_clocks_are_refused),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
