/* TTLs: how long keys live, and that they do not live for ever. */
#include <inttypes.h>
#include <time.h>

#include "contract/plain_client.h"
#include "contract/suite.h"

/* A server that took so long a TTL for a date would have the key born expired. */
static void keys_of_any_ttl_are_not_born_expired(void **state) {
  static const int64_t ttls_us[] = {MINUTE_US,    29 * DAY_US,   30 * DAY_US,     31 * DAY_US,
                                    400 * DAY_US, 2000 * DAY_US, WEIR_TTL_MOST_US};
  for (size_t i = 0; i < sizeof ttls_us / sizeof ttls_us[0]; i++) {
    key at = subject_lone_key();
    expect_total(*state, lasting(op_add(&at, 5), ttls_us[i]), 5);
    expect_total(*state, op_get(&at), 5);
    weir_operation renew = lasting(op_add(&at, 1), ttls_us[i]);
    renew.refresh = true;
    expect_total(*state, renew, 6);
    expect_total(*state, op_get(&at), 6);
    expect_end(*state, lasting(op_put(&at, 7), ttls_us[i]), WEIR_DONE);
    expect_total(*state, op_get(&at), 7);
    expect_end(*state, op_drop(&at), WEIR_DONE);
    expect_end(*state, lasting(op_create(&at, 8), ttls_us[i]), WEIR_DONE);
    expect_total(*state, op_get(&at), 8);
  }
}

/* Executes an operation that gives the key a TTL, then asks the server itself: it must be what was
 * promised, rounded up (by a day, where it is given as a date, which the clock of a busy server
 * reaches a second late), never -1 for none. */
static void give_ttl(const subject *on, const key *at, weir_operation made, int64_t ttl_us) {
  int64_t began_us = weir_monotonic_us();
  expect_end(on, lasting(made, ttl_us), WEIR_DONE);
  if (!plain_sees_servers(on)) return;
  int64_t ttl_s = plain_ttl_s(on, at);
  int64_t elapsed_us = weir_monotonic_us() - began_us;
  int64_t most_us =
      ttl_us + 3 * SECOND_US + (ttl_us >= 30 * DAY_US - 3 * SECOND_US ? DAY_US + 2 * SECOND_US : 0);
  if (ttl_s * SECOND_US < ttl_us - elapsed_us || ttl_s * SECOND_US > most_us)
    fail_msg("kind %d, %" PRId64 " us: the server says %" PRId64 " s", (int)made.kind, ttl_us,
             ttl_s);
}

/* Operations that leave the TTL alone. */
static void keep_ttl(const subject *on, const key *at) {
  if (!plain_sees_servers(on)) return;
  int64_t before_s = plain_ttl_s(on, at);
  int64_t began_us = weir_monotonic_us();
  expect_end(on, lasting(op_add(at, 5), 7 * DAY_US), WEIR_DONE);
  expect_end(on, op_sub(at, 50), WEIR_DONE);
  expect_end(on, op_get(at), WEIR_DONE);
  int64_t elapsed_s = (weir_monotonic_us() - began_us) / SECOND_US;
  assert_in_range(plain_ttl_s(on, at), before_s - elapsed_s - 2, before_s);
}

static void the_server_has_the_ttl_that_was_asked_for(void **state) {
  static const int64_t ttls_us[] = {20 * SECOND_US,          30 * DAY_US - 2 * SECOND_US,
                                    30 * DAY_US - SECOND_US, 30 * DAY_US,
                                    30 * DAY_US + SECOND_US, 400 * DAY_US,
                                    WEIR_TTL_MOST_US};
  for (size_t i = 0; i < sizeof ttls_us / sizeof ttls_us[0]; i++) {
    key at = subject_lone_key();
    weir_operation renew = op_add(&at, 500);
    renew.refresh = true;
    give_ttl(*state, &at, op_add(&at, 5), ttls_us[i]);
    keep_ttl(*state, &at);
    give_ttl(*state, &at, renew, DAY_US);
    give_ttl(*state, &at, renew, ttls_us[i]);
    give_ttl(*state, &at, op_put(&at, 5), ttls_us[i]);
    expect_end(*state, op_drop(&at), WEIR_DONE);
    give_ttl(*state, &at, op_create(&at, 5), ttls_us[i]);
    if (!subject_has(*state, WEIR_TRAIT_SWAP)) continue;
    weir_operation got = expect_end(*state, op_get(&at), WEIR_DONE);
    give_ttl(*state, &at, op_swap(&at, got.version_out, 6), ttls_us[i]);
  }
}

/* memcached 1.6.18 gives a new item the old TTL when a total needs more digits than there is room.
 */
static void a_refresh_holds_where_the_total_grows_longer(void **state) {
  key at = subject_lone_key();
  weir_operation renew = op_add(&at, 99);
  renew.refresh = true;
  for (int64_t days = 1; days <= 18; days++) {
    give_ttl(*state, &at, renew, days * DAY_US);
    renew.delta = days < 17 ? 9 * renew.delta : 1;
  }
}

const contract_test life_tests[] = {
    CONTRACT_TEST(keys_of_any_ttl_are_not_born_expired),
    CONTRACT_TEST(the_server_has_the_ttl_that_was_asked_for),
    CONTRACT_TEST(a_refresh_holds_where_the_total_grows_longer),
    CONTRACT_END,
};

/* One key under observation. */
typedef struct life {
  const subject *on;
  const char *made_by;
  key at;
  int64_t alive_until_us; /* at least, weir_monotonic_us() */
  uint64_t version;       /* of its value, 0: not known */
  bool gone;
} life;

enum { WAYS = 6, LIVES_MOST = SUBJECTS_MOST * WAYS, PATIENCE_US = 6 * 1000000 };

static life lives[LIVES_MOST];
static size_t life_count;

static life *begin(const subject *on, const char *made_by, int64_t ttl_us) {
  life *made = &lives[life_count++];
  *made = (life){.on = on, .made_by = made_by, .at = subject_lone_key()};
  made->alive_until_us = weir_monotonic_us() + ttl_us; /* the key is made later than that */
  return made;
}

static void begin_all(const subject *on) {
  int64_t short_us = 900000;
  int64_t long_us = 3500000;
  life *each = begin(on, "ADD", short_us);
  expect_end(on, lasting(op_add(&each->at, 1), short_us), WEIR_DONE);
  each = begin(on, "CREATE", short_us);
  expect_end(on, lasting(op_create(&each->at, 1), short_us), WEIR_DONE);
  each = begin(on, "PUT", short_us);
  expect_end(on, lasting(op_put(&each->at, 1), MINUTE_US), WEIR_DONE);
  expect_end(on, lasting(op_put(&each->at, 1), short_us), WEIR_DONE);
  each = begin(on, "ADD without refresh", short_us);
  expect_end(on, lasting(op_add(&each->at, 1), short_us), WEIR_DONE);
  expect_end(on, lasting(op_add(&each->at, 1), MINUTE_US), WEIR_DONE);
  each = begin(on, "ADD with refresh", long_us);
  expect_end(on, lasting(op_add(&each->at, 1), short_us), WEIR_DONE);
  weir_operation renew = lasting(op_add(&each->at, 1), long_us);
  renew.refresh = true;
  expect_end(on, renew, WEIR_DONE);
  if (!subject_has(on, WEIR_TRAIT_SWAP)) return;
  each = begin(on, "SWAP", long_us);
  expect_end(on, lasting(op_create(&each->at, 1), MINUTE_US), WEIR_DONE);
  weir_operation got = expect_end(on, op_get(&each->at), WEIR_DONE);
  weir_operation swap = lasting(op_swap(&each->at, got.version_out, 1), long_us);
  each->version = expect_end(on, swap, WEIR_DONE).version_out;
}

/* An answer that came before the end of the promised life must not be "absent". */
static void look_at(life *each) {
  weir_operation got = subject_do(each->on, op_get(&each->at));
  int64_t now_us = weir_monotonic_us();
  each->gone = got.outcome == WEIR_ABSENT;
  if (!each->gone && got.outcome != WEIR_DONE)
    fail_msg("%s, %s: outcome %d", each->on->name, each->made_by, (int)got.outcome);
  if (each->gone && now_us < each->alive_until_us)
    fail_msg("%s, %s: gone %" PRId64 " us too early", each->on->name, each->made_by,
             each->alive_until_us - now_us);
  if (!each->gone && now_us > each->alive_until_us + PATIENCE_US)
    fail_msg("%s, %s: still there", each->on->name, each->made_by);
  if (each->gone && each->version != 0)
    expect_end(each->on, op_swap(&each->at, each->version, 1), WEIR_ABSENT);
}

void keeps_every_key_for_its_ttl_and_not_for_ever(void **state) {
  (void)state;
  life_count = 0;
  for (size_t i = 0; i < subject_count; i++)
    begin_all(&subjects[i]);
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (size_t i = 0; i < life_count; i++) {
      if (!lives[i].gone) look_at(&lives[i]);
      waiting = waiting || !lives[i].gone;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}
