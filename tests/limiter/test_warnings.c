#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <pthread.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limiter.h"
#include "limiter/world.h"

static size_t count_warnings(const weir_limiter *limiter) {
  size_t count = 0;
  while (weir_limiter_warning_at(limiter, count) != NULL)
    count++;
  return count;
}

static void assert_no_warning(const weir_limiter *limiter) {
  if (count_warnings(limiter) > 0) fail_msg("%s", weir_limiter_warning(limiter));
  assert_null(weir_limiter_warning(limiter));
}

static void two_limits_on_the_same_counts_warn_the_second(void **state) {
  (void)state;
  world w;
  world_open(&w, "memory:", "fixed-window:50/1m", NULL);
  weir_limiter *login = world_limiter(&w, "fixed-window:5/1m", NULL);
  assert_no_warning(w.limiter);
  assert_string_equal(weir_limiter_warning(login),
                      "rule 1, fixed-window:5/1m, shares its counts with fixed-window:50/1m of "
                      "another limiter on this store: give one of them a name=, unless this is the "
                      "same limit being changed");
  world_take(&w, "ann", 6); /* searches */
  assert_false(limiter_take(login, "ann", 1).allowed);
  weir_limiter_destroy(login);
  world_close(&w);
}

/* The second is told of the first: that it shares its counts though it decides otherwise, or that
 * it does not share them though it is the same limit. */
static void two_rules_share_or_are_apart(void **state) {
  (void)state;
  static const char shares[] = ", shares its counts with ",
                    apart[] = ", as they are laid out apart; ";
  static const char *const none = NULL;
  static const struct {
    const char *first, *second;
    const char *says; /* NULL: nothing */
  } cases[] = {
      {"fixed-window:5/1m", "fixed-window:5/1m", none},
      {"fixed-window:5/1m", "fixed-window:5/60s", none},
      {"fixed-window:5/1m", "fixed-window:5/1m,count=admitted", none},
      {"fixed-window:5/1m", "fixed-window:50/1m,name=search", none},
      {"fixed-window:5/1m,name=login", "fixed-window:50/1m,name=search", none},
      {"fixed-window:5/1m", "fixed-window:50/1s", none},
      {"fixed-window:5/1m", "quota:50/1m", none},
      {"fixed-window:5/1m", "fixed-window:50/1m,count=all", apart},
      {"sliding-window:5/1m", "sliding-window:5000/1m", "but for its layout: give both most=5000;"},
      {"sliding-window:5/1m", "sliding-window:5/1m,cells=4", none},
      {"token-bucket:5/1m", "token-bucket:5/1m,burst=5", none},
      {"fixed-window:5/1m", "fixed-window:5/1m,hold=1s", shares},
      {"fixed-window:5/1m,name=a", "fixed-window:6/1m,name=a", none},
      {"sliding-window:5/1m", "sliding-window:6/1m", shares},
      {"sliding-window:5/1m", "sliding-window:5/1m,strict", shares},
      {"sliding-log:5/1m", "sliding-log:6/1m", shares},
      {"sliding-log:5/1m;sliding-log:9/1h", "sliding-log:5/1m;sliding-log:9/1h", none},
      {"sliding-log:5/1m;sliding-log:9/1h", "sliding-log:5/1m", apart}, /* another log */
      {"sliding-log:5/1m;sliding-log:9/1h", "sliding-log:6/1m;sliding-log:9/1h", shares},
      {"sliding-log:5/1m;sliding-log:9/1h", "sliding-log:9/1h", shares},
      {"quota:5/1m", "quota:6/1m", shares},
      {"token-bucket:5/1m", "token-bucket:5/1m,burst=9", shares},
      {"leaky-bucket:5/1m", "leaky-bucket:5/1m,queue=9", shares},
      {"sliding-window:100/1m,name=a", "sliding-window:5000/1m,name=a", ": give both most=5000;"},
      {"sliding-window:5000/1m,name=a", "sliding-window:100/1m,name=a", ": give both most=5000;"},
      {"sliding-window:100/1m,name=a,most=200", "sliding-window:5000/1m,name=a,most=6000",
       ": give both most=6000;"},
      {"sliding-window:100/1m,name=a,most=5000", "sliding-window:5000/1m,name=a", none},
      {"sliding-window:100/1m,name=a,most=5000", "sliding-window:50/1m,name=a,most=9000", none},
      {"sliding-window:100/1m", "sliding-window:100/1m;sliding-window:5000/1m,strict,cells=8",
       apart},
      {"sliding-window:247/1m", "sliding-window:247/1m,strict", apart}, /* 247 is in two classes */
      {"sliding-window:100/1m", "sliding-window:124/1m,debt=124", apart},
      {"sliding-window:100/1m", "sliding-window:247/1m,debt=124", ": give both most=247;"},
      {"sliding-window:100/1m,name=a", "sliding-window:5000/1m,name=b", none},
      {"sliding-window:100/1m", "sliding-window:100/1m,cells=8", apart},
      {"sliding-window:100/1m", "sliding-window:100/1h,cells=8", none},
      {"sliding-window:5/1m", "sliding-window:5/1m;fixed-window:9/1d,count=all", apart},
      {"token-bucket:977/1s,name=a", "token-bucket:978/1s,name=a", ": give both most=978;"},
      {"token-bucket:9/1h,burst=3000,name=a", "token-bucket:9000000/1h,name=a",
       apart}, /* 13 days */
      {"token-bucket:9/1h,burst=2000,name=a", "token-bucket:9000000/1h,name=a",
       ": give both most=9000000;"},
      {"token-bucket:978/1s,name=a", "token-bucket:979/1s,name=a", none},
      {"leaky-bucket:100/1s", "leaky-bucket:1000/1s", ": give both most=1000;"},
      {"in-flight:5/30s,name=a", "in-flight:9/30s,name=a", none},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    world_open(&w, "memory:", cases[i].first, NULL);
    weir_limiter *second = world_limiter(&w, cases[i].second, NULL);
    assert_no_warning(w.limiter);
    const char *said = weir_limiter_warning(second);
    if (count_warnings(second) != (cases[i].says != NULL) ||
        (said != NULL && strstr(said, cases[i].says) == NULL))
      fail_msg("%s beside %s: %s", cases[i].second, cases[i].first, said);
    weir_limiter_destroy(second);
    world_close(&w);
  }
}

static void a_name_over_two_layouts_warns_the_second(void **state) {
  (void)state;
  world w;
  world_open(&w, "memory:", "sliding-window:100/1m,name=api", NULL);
  weir_limiter *larger = world_limiter(&w, "sliding-window:5000/1m,name=api", NULL);
  assert_no_warning(w.limiter);
  assert_string_equal(
      weir_limiter_warning(larger),
      "rule 1, sliding-window:5000/1m,name=api, would share its counts with "
      "sliding-window:100/1m,name=api of another limiter on this store but for its layout: give "
      "both most=5000; a key may have both limits in full; give one of them another name=, if they "
      "are two limits");
  world_take(&w, "ann", 100);
  assert_int_equal(limiter_peek(larger, "ann", 1).remaining, 5000);
  weir_limiter_options many = {.processes = 80}; /* the layout follows them, too */
  weir_limiter *few = world_limiter(&w, "sliding-window:246/1m", NULL);
  weir_limiter *same = world_limiter(&w, "sliding-window:246/1m", &many);
  assert_no_warning(few);
  assert_int_equal(count_warnings(same), 1);
  assert_non_null(strstr(weir_limiter_warning(same), "give one of them a name="));
  weir_limiter_destroy(same);
  weir_limiter_destroy(few);
  weir_limiter_destroy(larger);
  world_close(&w);
}

/* All rules of both, and a warning of short cells. */
static void no_warning_is_dropped(void **state) {
  (void)state;
  world w;
  world_open(&w, "memory:",
             "sliding-window:5/10ms;fixed-window:5/1m;fixed-window:5/2m;"
             "fixed-window:5/3m;fixed-window:5/4m;quota:5/1m;quota:5/2m;quota:5/3m",
             NULL);
  weir_limiter *apart = world_limiter(
      &w, "sliding-window:5/10ms,cells=2;fixed-window:5/1m,count=all;fixed-window:5/2m,count=all",
      NULL);
  weir_limiter *both =
      world_limiter(&w,
                    "sliding-window:6/10ms;fixed-window:6/1m;fixed-window:6/2m;"
                    "fixed-window:6/3m;fixed-window:6/4m;quota:6/1m;quota:6/2m;quota:6/3m",
                    NULL);
  assert_int_equal(count_warnings(both), 1 + 8 + 3);
  weir_limiter_destroy(both);
  weir_limiter_destroy(apart);
  world_close(&w);
}

static void each_rule_that_shares_and_each_other_reason_is_told(void **state) {
  (void)state;
  world w;
  world_open(&w, "memory:", "fixed-window:5/1m;quota:5/1d;sliding-window:5/10ms", NULL);
  assert_int_equal(count_warnings(w.limiter), 1); /* of short cells */
  weir_limiter *second = world_limiter(
      &w, "quota:9/1d;sliding-window:5/10ms;sliding-log:1/1s;fixed-window:9/1m", NULL);
  assert_int_equal(count_warnings(second), 3);
  assert_ptr_equal(weir_limiter_warning(second), weir_limiter_warning_at(second, 0));
  assert_non_null(strstr(weir_limiter_warning_at(second, 0), "the cells of rule 2"));
  assert_non_null(strstr(weir_limiter_warning_at(second, 1), "rule 1, quota:9/1d, shares"));
  assert_non_null(strstr(weir_limiter_warning_at(second, 2), "rule 4, fixed-window:9/1m, shares"));
  assert_null(weir_limiter_warning_at(second, 3));
  assert_null(weir_limiter_warning_at(second, SIZE_MAX));
  weir_limiter_destroy(second);
  world_close(&w);
}

static void only_living_limiters_on_the_same_store_count(void **state) {
  (void)state;
  world w, other;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  world_open(&other, "memory:", "fixed-window:50/1m", NULL);
  assert_no_warning(other.limiter);
  world_close(&other);
  weir_limiter *second = world_limiter(&w, "fixed-window:50/1m", NULL);
  weir_limiter_destroy(w.limiter); /* the change of the limit is complete */
  weir_limiter *third = world_limiter(&w, "fixed-window:50/1m", NULL);
  assert_int_equal(count_warnings(second), 1);
  assert_no_warning(third);
  weir_limiter_destroy(second);
  w.limiter = third;
  world_close(&w);
}

/* There are 64 processes, unless the options say otherwise. Nothing answers at these addresses, and
 * nothing is asked. */
static void short_leases_of_buckets_warn_where_swaps_can_fail(void **state) {
  static const char memcached[] = "memcached://127.0.0.1:1";
  static const struct {
    const char *url, *rules;
    uint32_t processes;
    unsigned flags;
    const char *warning; /* NULL: none */
  } cases[] = {
      {memcached, "token-bucket:100/1s,burst=1000,lease=127ms", 0, 0,
       "rule 1 has lease=127ms: 64 processes would swap its bucket too often, at round trips of "
       "200 us; lease=128ms would do, and processes=63 would do if there are no more"},
      {memcached, "token-bucket:100/1s,burst=1000,lease=128ms", 0, 0, NULL},
      {memcached, "quota:9/1d,lease=1s;token-bucket:20000/1s,burst=2000,lease=10ms", 8, 0,
       "rule 2 has lease=10ms: 8 processes would swap its bucket too often, at round trips of "
       "200 us; lease=16ms would do, and processes=5 would do if there are no more"},
      {memcached, "token-bucket:20000/1s,burst=2000,lease=25ms", 50, 0,
       "rule 1 has lease=25ms: 50 processes would swap its bucket too often, at round trips of "
       "200 us; lease=100ms,burst=8000 would do, and processes=12 would do if there are no more"},
      {memcached, "token-bucket:20000/1s,burst=2000,lease=1ms", 501, 0,
       "rule 1 has lease=1ms: 501 processes would swap its bucket too often, at round trips of "
       "200 us; processes=1 would do if there are no more"},
      {memcached, "token-bucket:1000000000/1s,burst=1000000000,lease=1ms", 400, 0,
       "rule 1 has lease=1ms: 400 processes would swap its bucket too often, at round trips of "
       "200 us; processes=1 would do if there are no more"},
      {memcached, "token-bucket:20000/1s,lease=1ms", 1, 0, NULL},
      {memcached, "token-bucket:20000/1s,lease=1ms", 64, WEIR_NO_LEASES, NULL},
      {memcached, "token-bucket:20000/1s", 64, 0, NULL},
      {memcached, "sliding-window:20000/1s,lease=1ms", 64, 0, NULL},
      {"redis://127.0.0.1:1", "token-bucket:20000/1s,lease=1ms", 64, 0, NULL},
      {"memory:", "token-bucket:20000/1s,lease=1ms", 64, 0, NULL},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_store *store;
    weir_limiter *limiter;
    const weir_limiter_options options = {.size = sizeof options,
                                          .processes = cases[i].processes,
                                          .fallback = WEIR_FALLBACK_NONE,
                                          .flags = cases[i].flags};
    assert_int_equal(weir_store_open(cases[i].url, &store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_create(store, cases[i].rules, &options, &limiter, NULL), WEIR_OK);
    if (cases[i].warning == NULL)
      assert_no_warning(limiter);
    else
      assert_string_equal(weir_limiter_warning(limiter), cases[i].warning);
    assert_int_equal(count_warnings(limiter), cases[i].warning != NULL);
    weir_limiter_destroy(limiter);
    weir_store_close(store);
  }
}

static void *come_and_go(void *store) {
  for (int i = 0; i < 200; i++) {
    weir_limiter *limiter;
    const weir_limiter_options options = {
        .size = sizeof options, .memo_keys = 1, .fallback = WEIR_FALLBACK_NONE};
    if (weir_limiter_create(store, i % 2 == 0 ? "quota:5/1m;fixed-window:5/1m" : "quota:6/1m",
                            &options, &limiter, NULL) != WEIR_OK)
      return store;
    if (count_warnings(limiter) > 1) return store;
    weir_limiter_destroy(limiter);
  }
  return NULL;
}

static void limiters_may_come_and_go_in_any_thread(void **state) {
  enum { THREADS = 4 };
  (void)state;
  pthread_t threads[THREADS];
  weir_store *store;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, store), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  weir_limiter *last;
  assert_int_equal(weir_limiter_create(store, "quota:7/1m", NULL, &last, NULL), WEIR_OK);
  assert_no_warning(last);
  weir_limiter_destroy(last);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_limits_on_the_same_counts_warn_the_second),
      cmocka_unit_test(two_rules_share_or_are_apart),
      cmocka_unit_test(a_name_over_two_layouts_warns_the_second),
      cmocka_unit_test(no_warning_is_dropped),
      cmocka_unit_test(each_rule_that_shares_and_each_other_reason_is_told),
      cmocka_unit_test(only_living_limiters_on_the_same_store_count),
      cmocka_unit_test(short_leases_of_buckets_warn_where_swaps_can_fail),
      cmocka_unit_test(limiters_may_come_and_go_in_any_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
