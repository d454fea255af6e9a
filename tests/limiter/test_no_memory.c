/* Memory: what fails without it fails whole, and no decision needs any once its limiter is warm.
 * The linker sends every call that the library and this test make to the wrappers below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "fixture/process.h"
#include "limiter/stores.h"
#include "limiter/world.h"

enum { ENOUGH = 1 << 30, SWEEP_MOST = 500 };

static _Atomic int allocations;
static _Atomic int left = ENOUGH; /* before memory ends */

static bool may_have(void) {
  atomic_fetch_add(&allocations, 1);
  return atomic_fetch_sub(&left, 1) > 0;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size) {
  return may_have() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size) {
  return may_have() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *memory, size_t size) {
  return may_have() ? __real_realloc(memory, size) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return may_have() ? __real_aligned_alloc(alignment, size) : NULL;
}

char *__wrap_strdup(const char *text) {
  return may_have() ? __real_strdup(text) : NULL;
}

/* NOLINTEND(bugprone-reserved-identifier) */

static const char stack[] =
    "sliding-window:9/1h;quota:9/1h;token-bucket:9/1h;leaky-bucket:9/1h,queue=8;sliding-log:9/1h";

static void a_limiter_is_made_whole_or_not_at_all(void **state) {
  weir_store *store;
  weir_limiter *limiter;
  weir_status status = WEIR_NO_MEMORY;
  int failures = 0;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  for (; failures < SWEEP_MOST; failures++) {
    weir_message message = {""};
    limiter = (weir_limiter *)store; /* anything but NULL */
    left = failures;
    status = weir_limiter_create(store, stack, NULL, &limiter, &message);
    left = ENOUGH;
    if (status == WEIR_OK) break;
    assert_int_equal(status, WEIR_NO_MEMORY);
    assert_null(limiter);
    assert_non_null(strstr(message.text, "memory"));
  }
  assert_int_equal(status, WEIR_OK);
  assert_true(failures > 2);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* The store needs memory as well: without it, it refuses. */
static bool is_for_want_of_memory(weir_status status) {
  return status == WEIR_NO_MEMORY || status == WEIR_REFUSED_BY_STORE;
}

/* Wherever memory ends, nothing is reserved and nothing charged; but for a log, which keeps what it
 * was charged. */
static void a_request_is_reserved_whole_or_not_at_all(void **state) {
  static const char without_log[] =
      "sliding-window:9/1h;quota:9/1h;token-bucket:9/1h;leaky-bucket:9/1h,queue=8";
  weir_reservation *reservation;
  bool reserved = false;
  int failures = 0;
  (void)state;
  for (; failures < SWEEP_MOST && !reserved; failures++) {
    world w;
    weir_message message = {""};
    weir_request request = {.key = "k", .key_length = 1, .cost = 2};
    world_open(&w, "memory:", without_log, NULL);
    left = failures;
    weir_status status = weir_limiter_reserve(w.limiter, &request, &reservation, &message);
    left = ENOUGH;
    reserved = status == WEIR_OK;
    if (!reserved) {
      assert_true(is_for_want_of_memory(status));
      assert_int_equal(request.status, status);
      assert_true(message.text[0] != '\0');
      assert_null(reservation);
    }
    assert_int_equal(world_peek(&w, "k", 1).remaining, reserved ? 7 : 9);
    if (reserved) assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
    weir_reservation_destroy(reservation);
    world_close(&w);
  }
  assert_true(reserved);
  assert_true(failures > 5);
}

/* Once the call and the key are known only the reservation itself is allocated, before the charge.
 */
static void a_reservation_without_memory_asks_no_store(void **state) {
  world w;
  weir_reservation *reservation;
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1h", NULL);
  world_take(&w, "k", 1);
  left = 0;
  assert_int_equal(weir_limiter_reserve(w.limiter, &request, &reservation, NULL), WEIR_NO_MEMORY);
  left = ENOUGH;
  assert_null(reservation);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 8);
  world_close(&w);
}

/* A batch that nothing can be asked for says so in each of its requests. */
static void a_batch_without_memory_says_so_in_every_request(void **state) {
  world w;
  weir_message message = {""};
  weir_request requests[3];
  weir_limiter_counts counts = {.size = sizeof counts};
  (void)state;
  for (int i = 0; i < 3; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  world_open(&w, "memory:", "fixed-window:9/1h", NULL);
  left = 0;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 3, &message), WEIR_NO_MEMORY);
  left = ENOUGH;
  assert_string_equal(message.text, weir_status_text(WEIR_NO_MEMORY));
  for (int i = 0; i < 3; i++)
    assert_int_equal(requests[i].status, WEIR_NO_MEMORY);
  weir_limiter_read_counts(w.limiter, &counts);
  assert_int_equal(counts.statuses[WEIR_NO_MEMORY], 3);
  world_close(&w);
}

/* With less and less of it missing: each limiter's requests say so alone, and without memory to
 * leave together the others leave one after another. */
static void several_limiters_need_no_more_memory_than_each(void **state) {
  int together = 0;
  (void)state;
  for (int given = 0; together == 0; given++) {
    world w;
    weir_limiter *limiters[3];
    weir_request requests[3];
    static const char *const names[3] = {"fixed-window:9/1h,name=a", "fixed-window:9/1h,name=b",
                                         "fixed-window:9/1h,name=c"};
    assert_in_range(given, 0, SWEEP_MOST);
    world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h", NULL);
    for (int i = 0; i < 3; i++) {
      limiters[i] = world_limiter(&w, names[i], NULL);
      requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
    }
    fake_forget();
    left = given;
    weir_status status = weir_decide_together(limiters, requests, 3, NULL);
    left = ENOUGH;
    int admitted = 0;
    for (int i = 0; i < 3; i++) {
      assert_true(requests[i].status == WEIR_OK || requests[i].status == WEIR_NO_MEMORY ||
                  requests[i].status == WEIR_UNAVAILABLE);
      if (requests[i].status == WEIR_OK) admitted += requests[i].decision.allowed;
      assert_int_equal(limiter_peek(limiters[i], "k", 1).remaining,
                       requests[i].status == WEIR_OK ? 8 : 9);
      weir_limiter_destroy(limiters[i]);
    }
    assert_int_equal(status == WEIR_OK, admitted == 3);
    if (admitted == 3 && the_fake.counts.round_trips == 1 + 3) together = given;
    world_close(&w);
  }
  print_message("together from allocation %d on\n", together);
}

/* The account and the limiter that counts for it are made by the first request that needs them,
 * while the store is away. Nobody listens on port 1. */
static void a_policy_without_memory_denies_until_there_is_some(void **state) {
  bool admitted = false;
  int failures = 0, denied = 0;
  (void)state;
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = 30 * SECOND_US, .memo_keys = 1, .peers = 1};
  for (; failures < SWEEP_MOST && !admitted; failures++) {
    weir_store *store;
    weir_limiter *limiter;
    weir_decision decision = {0};
    assert_int_equal(weir_store_open("memcached://127.0.0.1:1", &store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_create(store, "quota:9/400d", &options, &limiter, NULL), WEIR_OK);
    left = failures;
    weir_status status = weir_limiter_take(limiter, "k", 1, 1, &decision, NULL);
    left = ENOUGH;
    if (status != WEIR_OK) assert_int_equal(status, WEIR_NO_MEMORY);
    admitted = status == WEIR_OK && decision.allowed;
    denied += decision.source == WEIR_SOURCE_FALLBACK && !decision.allowed;
    decision = limiter_take(limiter, "k", 1);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, admitted ? 7 : 8);
    weir_limiter_destroy(limiter);
    weir_store_close(store);
  }
  assert_true(admitted);
  assert_true(denied > 10);
}

/* Admitted, denied, peeked, with costs, up to, in a batch, waiting, given back. */
static void decide_in_every_way(world *w, int64_t *after_start_us, const int64_t *costs) {
  weir_request requests[] = {{.cost = 1},
                             {.cost = 1, .flags = WEIR_REQUEST_PEEK},
                             {.costs = costs},
                             {.cost = 1, .flags = WEIR_REQUEST_UP_TO},
                             {.cost = 1, .longest_wait_us = 1000}};
  weir_decision decision;
  for (size_t i = 0; i < 5; i++) {
    requests[i].key = i == 1 ? "other" : "k";
    requests[i].key_length = strlen(requests[i].key);
  }
  for (int i = 0; i < 20; i++) {
    world_set(w, *after_start_us += 20 * SECOND_US);
    decision = world_take(w, "k", 1);
    if (decision.allowed)
      assert_int_equal(weir_limiter_refund(w->limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_decide(w->limiter, requests, 5, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_wait(w->limiter, "k", 1, 1, 0, &decision, NULL), WEIR_OK);
    if (i == 10) world_reset(w, "k");
  }
}

static void no_decision_allocates(void **state) {
  static const struct {
    const char *rules;
    int64_t costs[5];
  } cases[] = {{"quota:10/1h", {3}},
               {"token-bucket:10/1h", {3}},
               {"leaky-bucket:10/1h,queue=5", {3}},
               {"sliding-log:10/1h", {1}},
               {stack, {3, 2, 0, 1, 1}}};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      world w;
      char url[STORE_URL_BYTES];
      int64_t after_start_us = 0;
      weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
      int threads = process_threads();
      world_open(&w, stores_url(store, url), cases[i].rules, &options);
      decide_in_every_way(&w, &after_start_us, cases[i].costs);
      process_await_threads(threads); /* one asks Redis in which form it takes sums */
      int before = allocations;
      decide_in_every_way(&w, &after_start_us, cases[i].costs);
      if (allocations != before)
        fail_msg("%s, %s: %d allocations", stores[store].name, cases[i].rules,
                 allocations - before);
      world_close(&w);
    }
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limiter_is_made_whole_or_not_at_all),
      cmocka_unit_test(a_request_is_reserved_whole_or_not_at_all),
      cmocka_unit_test(a_reservation_without_memory_asks_no_store),
      cmocka_unit_test(a_batch_without_memory_says_so_in_every_request),
      cmocka_unit_test(several_limiters_need_no_more_memory_than_each),
      cmocka_unit_test(a_policy_without_memory_denies_until_there_is_some),
      cmocka_unit_test(no_decision_allocates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
