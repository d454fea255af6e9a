/* Eight processes, which nobody told of each other, through outages and back: what all of them
 * together admit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { PROCESSES = 8, LIMIT = 400, KEYS = 3, DEADLINE_US = 200000 };
enum { SOURCES = WEIR_SOURCE_LATE + 1 };

/* In memory that all processes share. */
typedef struct common {
  atomic_bool over;
  _Atomic int failures;
  _Atomic int64_t tries[PROCESSES];                   /* of each */
  _Atomic int64_t answers[PROCESSES][SOURCES];        /* by source */
  _Atomic int64_t admitted[KEYS][PROCESSES][SOURCES]; /* by source */
} common;

static common *shared(void) {
  common *made =
      mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(made, MAP_FAILED);
  return made;
}

static void take_a_breath(void) {
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Takes one after another until it is told to stop. */
static void take_all_the_time(common *all, const char *url, const char *rules, int number) {
  const weir_limiter_options options = {.size = sizeof options, .deadline_us = DEADLINE_US};
  weir_store *store;
  weir_limiter *limiter;
  if (weir_store_open(url, &store, NULL) != WEIR_OK ||
      weir_limiter_create(store, rules, &options, &limiter, NULL) != WEIR_OK)
    _exit(1);
  for (int i = 0; !all->over; i++) {
    take_a_breath();
    char key = (char)('a' + i % KEYS);
    weir_decision decision;
    weir_status status = weir_limiter_take(limiter, &key, 1, 1, &decision, NULL);
    atomic_fetch_add(&all->tries[number], 1);
    if (status != WEIR_OK) {
      atomic_fetch_add(&all->failures, status != WEIR_CONTENDED);
      continue;
    }
    atomic_fetch_add(&all->answers[number][decision.source], 1);
    if (decision.allowed) atomic_fetch_add(&all->admitted[i % KEYS][number][decision.source], 1);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  _exit(0);
}

static bool everyone_got(const common *all, weir_source source, int64_t more,
                         const int64_t since[PROCESSES]) {
  for (int i = 0; i < PROCESSES; i++)
    if (all->answers[i][source] < since[i] + more) return false;
  return true;
}

/* Until each process had so many more answers from that source. */
static void await(const common *all, weir_source source, int64_t more) {
  int64_t since[PROCESSES];
  int64_t end_us = weir_monotonic_us() + 120 * SECOND_US;
  for (int i = 0; i < PROCESSES; i++)
    since[i] = all->answers[i][source];
  while (!everyone_got(all, source, more, since)) {
    assert_true(weir_monotonic_us() < end_us);
    take_a_breath();
  }
}

static int64_t sum(const common *all, int key, weir_source source) {
  int64_t admitted = 0;
  for (int i = 0; i < PROCESSES; i++)
    admitted += all->admitted[key][i][source];
  return admitted;
}

/* All together admit what was left, on average: a share is measured by some 15 charges of each
 * process and key, which leaves a deviation of a tenth or two. `empties`: how often the store began
 * anew. Fresh limits in all of them would be 9 of it. */
static void check(const common *all, int64_t empties) {
  for (int key = 0; key < KEYS; key++) {
    int64_t by_store = sum(all, key, WEIR_SOURCE_STORE);
    int64_t by_policy = sum(all, key, WEIR_SOURCE_FALLBACK) + sum(all, key, WEIR_SOURCE_LATE);
    print_message("key %d: %lld by the store, %lld by policy\n", key, (long long)by_store,
                  (long long)by_policy);
    assert_true(by_store <= (empties + 1) * LIMIT + empties * 2 * PROCESSES);
    assert_true(by_store + by_policy <= (empties + 1) * LIMIT * 3 / 2);
    assert_true(by_policy > LIMIT / 4);
  }
  assert_int_equal(all->failures, 0);
}

/* A fourth of each limit is used when the outage begins, which asks for more than is left. Everyone
 * is denied locally in the end: only the store can tell that it is there. */
static void go_through(enum outage_kind kind, const char *rules, bool forgets) {
  outage o;
  common *all = shared();
  pid_t children[PROCESSES];
  outage_start(&o, kind, 1);
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) take_all_the_time(all, o.url, rules, i);
  }
  await(all, WEIR_SOURCE_STORE, 40);
  for (int round = 0; round < 2; round++) {
    if (forgets)
      server_kill(o.servers[0]);
    else
      server_stop(o.servers[0]);
    await(all, WEIR_SOURCE_FALLBACK, 200);
    if (forgets)
      server_restart(o.servers[0]);
    else
      server_continue(o.servers[0]);
    await(all, WEIR_SOURCE_STORE, 10);
  }
  all->over = true;
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  check(all, forgets ? 2 : 0);
  munmap(all, sizeof *all);
}

static void a_server_that_stops_and_goes_on(void **state) {
  (void)state;
  go_through(OUTAGE_META, "fixed-window:400/400d", false);
  go_through(OUTAGE_REDIS, "fixed-window:400/400d", false);
}

static void a_server_that_is_killed_and_comes_back_empty(void **state) {
  (void)state;
  go_through(OUTAGE_META, "token-bucket:400/400d", true);
  go_through(OUTAGE_REDIS, "quota:400/400d", true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_that_stops_and_goes_on),
      cmocka_unit_test(a_server_that_is_killed_and_comes_back_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
