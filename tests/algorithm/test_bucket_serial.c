/* Random requests, one after another, over every kind of store, against the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <inttypes.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_bucket_definition.h"
#include "test_bucket_store.h"

enum { CLIENTS = 2, TAKEN_MOST = 8, ROUNDS = 3000, RUNS = 2 };

struct run {
  int64_t ends[CLIENT_REQUESTS_MOST][WEIR_RULES_MOST]; /* of a group's requests, by rule */
  weir_stack stack;
  struct bucket bucket;
  struct fake_store store;
  struct client clients[CLIENTS];
  int client_count;
  struct taken taken[TAKEN_MOST];
  size_t taken_count;
  int64_t now_us;
  unsigned seed;
  unsigned allowed, denied, delayed, returned, mended, local;
};

static int64_t random_to(struct run *run, int64_t most) {
  int64_t number = (int64_t)rand_r(&run->seed) << 31 | rand_r(&run->seed);
  return most <= 0 ? 0 : number % (most + 1);
}

static void open_run(struct run *run, const char *rule, unsigned traits, bool hides_versions,
                     int client_count, int64_t start_us) {
  run->stack = stack_of(rule);
  run->store.hides_versions = hides_versions;
  run->client_count = client_count;
  for (int i = 0; i < client_count; i++)
    run->clients[i] = client_of(&run->stack, traits);
  run->bucket = (struct bucket){.rule = &run->stack.rules[0],
                                .settings = run->clients[0].settings,
                                .leaky = run->stack.rules[0].kind == WEIR_LEAKY_BUCKET,
                                .swaps = traits & WEIR_TRAIT_SWAP,
                                .v = 0};
  run->now_us = start_us;
}

static void close_run(struct run *run) {
  for (int i = 0; i < run->client_count; i++)
    client_free(&run->clients[i]);
}

/* Small costs, often enough a large one; every other request with some wish. */
static weir_claim random_request(struct run *run) {
  int64_t burst = run->stack.rules[0].burst;
  int64_t most = random_to(run, 3) == 0 ? burst : burst / 4;
  weir_claim request = {.ask = {.kind = random_to(run, 5) == 0 ? WEIR_PEEK : WEIR_TAKE,
                                .cost = 1 + random_to(run, most - 1),
                                .up_to = random_to(run, 3) == 0,
                                .waits = random_to(run, 2) == 0}};
  int64_t full_us = ceil_us(&run->bucket, full(&run->bucket));
  if (request.ask.waits)
    request.ask.wait_us = random_to(run, full_us < 60000000 ? full_us : 60000000);
  return request;
}

static void compare(const struct run *run, const weir_claim *request, const struct expected *e) {
  const weir_decision *d = &request->verdict.decision;
  bool same = request->verdict.status == WEIR_OK && d->allowed == e->allowed &&
              d->cost == e->cost && d->remaining == e->remaining &&
              d->retry_after_us == e->retry_after_us && d->reset_after_us == e->reset_after_us &&
              d->delay_us == e->delay_us && d->at_us == run->now_us &&
              d->limit == run->stack.rules[0].burst;
  if (same) return;
  fail_msg("%s at %" PRId64 ": cost %" PRId64 " remaining %" PRId64 " retry %" PRId64
           " reset %" PRId64 " delay %" PRId64 " status %d allowed %d; expected cost %" PRId64
           " remaining %" PRId64 " retry %" PRId64 " reset %" PRId64 " delay %" PRId64
           " allowed %d",
           run->stack.rules[0].tag, run->now_us, d->cost, d->remaining, d->retry_after_us,
           d->reset_after_us, d->delay_us, (int)request->verdict.status, d->allowed, e->cost,
           e->remaining, e->retry_after_us, e->reset_after_us, e->delay_us, e->allowed);
}

static void remember(struct run *run, const weir_claim *request, const int64_t *ends, wide v) {
  struct taken *taken = &run->taken[run->taken_count++ % TAKEN_MOST];
  *taken = (struct taken){.cost = request->verdict.decision.cost,
                          .at_us = request->verdict.decision.at_us,
                          .delayed = request->verdict.decision.delay_us > 0,
                          .v = v};
  memcpy(taken->ends, ends, sizeof taken->ends);
}

/* A process's denial by what it knows must be the store's own. */
static bool settles_locally(struct run *run, struct client *client, size_t count) {
  const weir_view view = {client->stack, &client->settings, client->memo, run->now_us};
  bool settled =
      run->client_count == 1 && count == 1 && weir_settle_locally(&view, &client->requests[0]);
  run->local += settled;
  return settled;
}

static void step_group(struct run *run, struct client *client) {
  weir_claim asked[CLIENT_REQUESTS_MOST];
  size_t count = 1 + (size_t)random_to(run, 2) * (random_to(run, 2) == 0);
  bool mends = false;
  for (size_t i = 0; i < count; i++) {
    asked[i] = client->requests[i] = random_request(run);
    client->requests[i].ask.ends = run->ends[i];
    mends = mends || asked[i].ask.kind == WEIR_TAKE;
  }
  /* a state from a clock far ahead counts as full, and a take leaves it so */
  wide stored = run->bucket.v;
  bool far = is_far(&run->bucket, run->now_us);
  if (far) run->bucket.v = units(&run->bucket, run->now_us) + full(&run->bucket);
  run->mended += far && mends;
  if (!settles_locally(run, client, count)) {
    client_start(client, run->now_us, count);
    client_finish(client, &run->store, run->now_us);
  }
  for (size_t i = 0; i < count; i++) {
    struct expected e = decide(&run->bucket, run->now_us, &asked[i]);
    const weir_claim *request = &client->requests[i];
    compare(run, request, &e);
    run->allowed += e.allowed;
    run->denied += !e.allowed;
    run->delayed += e.delay_us > 0;
    if (request->ask.kind == WEIR_TAKE && e.allowed) remember(run, request, run->ends[i], e.v);
  }
  if (far && !mends) run->bucket.v = stored;
}

static void step_back(struct run *run, struct client *client) {
  if (run->taken_count == 0) return;
  size_t known = run->taken_count < TAKEN_MOST ? run->taken_count : TAKEN_MOST;
  struct taken *taken = &run->taken[random_to(run, (int64_t)known - 1)];
  bool cancels = random_to(run, 1) == 0;
  if (taken->cost == 0 || (!cancels && taken->delayed) || is_far(&run->bucket, run->now_us)) return;
  wide before = run->bucket.v;
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_REFUND,
                                             .cost = taken->cost,
                                             .at_us = taken->at_us,
                                             .ends = cancels ? taken->ends : NULL}};
  client_start(client, run->now_us, 1);
  client_finish(client, &run->store, run->now_us);
  assert_int_equal(client->requests[0].verdict.status,
                   give_back(&run->bucket, run->now_us, taken, cancels));
  run->returned += run->bucket.v != before;
  taken->cost = 0;
}

static void step_reset(struct run *run, struct client *client) {
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}};
  client_start(client, run->now_us, 1);
  client_finish(client, &run->store, run->now_us);
  run->bucket.v = 0;
  run->taken_count = 0;
}

/* Mostly about as long as a token takes, sometimes as a full bucket, seldom weeks. */
static int64_t random_pause(struct run *run) {
  int64_t token_us = ceil_us(&run->bucket, run->stack.rules[0].token_units);
  int64_t full_us = ceil_us(&run->bucket, full(&run->bucket));
  switch (random_to(run, 9)) {
    case 0:
      return random_to(run, 2 * full_us);
    case 1:
    case 2:
      return random_to(run, 99) == 0 ? random_to(run, 20 * INT64_C(86400000000)) : 0;
    default:
      return random_to(run, 3 * token_us);
  }
}

/* By more than the longest wait. Keys of a later epoch are not found again by an earlier one. */
static void set_clock_back(struct run *run) {
  int64_t full_us = ceil_us(&run->bucket, full(&run->bucket));
  int64_t to_us = run->now_us - 62000000 - (63 + random_to(run, 4)) * full_us;
  int epoch_bits = 52 - run->stack.rules[0].unit_bits;
  if (to_us >= 0 && (run->bucket.swaps || to_us >> epoch_bits == run->now_us >> epoch_bits))
    run->now_us = to_us;
}

static void go(struct run *run) {
  for (int i = 0; i < ROUNDS; i++) {
    struct client *client = &run->clients[random_to(run, run->client_count - 1)];
    int64_t what = random_to(run, 999);
    if (what == 0)
      step_reset(run, client);
    else if (what < 150)
      step_back(run, client);
    else
      step_group(run, client);
    run->now_us += random_pause(run);
    if (what == 999) set_clock_back(run);
  }
}

static const struct {
  const char *name;
  unsigned traits;
  bool hides_versions;
} kinds[] = {{"swap", WEIR_TRAIT_SWAP, false},
             {"swap without versions", WEIR_TRAIT_SWAP, true},
             {"raise", WEIR_TRAIT_RAISE, false}};

static const char *const rules[] = {
    "token-bucket:10/1s",
    "token-bucket:3/1s,burst=1",
    "token-bucket:7/1s,burst=100",
    "token-bucket:1/1d,burst=3",
    "token-bucket:300000/1s",               /* k = 10 */
    "token-bucket:1000000/1s,burst=5000",   /* k = 10, T = 1024 exactly */
    "token-bucket:125000000/1s,burst=1500", /* k = 20, bytes of 1 Gbit/s */
    "token-bucket:1000000000/1s",           /* k = 20 */
    "leaky-bucket:10/1s",
    "leaky-bucket:7/1s,queue=20",
    "leaky-bucket:300000/1s,queue=3000",
    "leaky-bucket:125000000/1s,queue=1499",
};

static void try_all(int client_count, int64_t start_us, unsigned *mended) {
  unsigned local = 0;
  unsigned allowed = 0, denied = 0, delayed = 0, returned = 0;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
      for (unsigned seed = 1; seed <= RUNS; seed++) {
        struct run run = {.seed = seed * 7919 + (unsigned)i};
        open_run(&run, rules[i], kinds[kind].traits, kinds[kind].hides_versions, client_count,
                 start_us);
        go(&run);
        allowed += run.allowed;
        denied += run.denied;
        delayed += run.delayed;
        returned += run.returned;
        *mended += run.mended;
        local += run.local;
        close_run(&run);
      }
  assert_true(allowed > 10000 && denied > 10000 && delayed > 10000 && returned > 1000);
  if (client_count == 1) assert_true(local > 1000);
}

static void decides_as_defined_for_one_process(void **state) {
  (void)state;
  unsigned mended = 0;
  try_all(1, INT64_C(1700000000123456), &mended);
  assert_true(mended > 0);
}

static void decides_as_defined_whoever_asks(void **state) {
  (void)state;
  unsigned mended = 0;
  try_all(CLIENTS, INT64_C(1700000000123456), &mended);
  assert_true(mended > 0);
}

static void decides_as_defined_from_the_first_microsecond_on(void **state) {
  (void)state;
  unsigned mended = 0;
  try_all(CLIENTS, 0, &mended);
}

/* Where stored times wrap and where epochs roll, for every unit. */
static void decides_as_defined_across_every_roll(void **state) {
  (void)state;
  for (int bits = 0; bits <= 20; bits += 10) {
    int64_t epoch_us = INT64_C(1) << (52 - bits);
    int64_t wrap_us = INT64_C(1) << (62 - bits);
    unsigned mended = 0;
    try_all(CLIENTS, 50 * epoch_us - 1000000, &mended);
    try_all(CLIENTS, (bits == 0 ? 0 : 5 * wrap_us) + epoch_us - 1000, &mended);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_as_defined_for_one_process),
      cmocka_unit_test(decides_as_defined_whoever_asks),
      cmocka_unit_test(decides_as_defined_from_the_first_microsecond_on),
      cmocka_unit_test(decides_as_defined_across_every_roll),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
