/* A child does not share what its parent opened, whatever the parent's threads were at. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { THREADS = 8, FORKS = 40, WARM = 20, PATIENCE_S = 120, DESCRIPTORS_MOST = 1024 };

/* In the child nothing may fail a test of the parent's: it ends with a number that says where. */
#define CHECK(condition)                         \
  do {                                           \
    if (!(condition)) _exit(__LINE__ % 250 + 1); \
  } while (0)

typedef struct busy {
  weir_limiter *limiter;
  atomic_bool over;
  _Atomic int decided;
  _Atomic int warm; /* threads that will not allocate any more */
  pthread_t threads[THREADS];
} busy;

static void *take_all_the_time(void *context) {
  busy *b = context;
  int rounds = 0;
  weir_request requests[3] = {{.key = "a", .key_length = 1, .cost = 1},
                              {.key = "b", .key_length = 1, .cost = 2},
                              {.key = "c", .key_length = 1, .cost = 1}};
  weir_decision decision;
  while (!b->over) {
    weir_limiter_take(b->limiter, "a", 1, 1, &decision, NULL);
    weir_limiter_decide(b->limiter, requests, 3, NULL);
    atomic_fetch_add(&b->decided, 1);
    if (++rounds == WARM) atomic_fetch_add(&b->warm, 1);
  }
  return NULL;
}

static bool is_refusal(weir_status status, const weir_message *message) {
  return status == WEIR_BAD_ARGUMENT && strstr(message->text, "open it after fork()") != NULL;
}

static void check_refused(weir_store *store, weir_limiter *limiter, weir_decision taken,
                          weir_reservation *reservation) {
  weir_message why = {""};
  weir_decision decision;
  weir_limiter *made;
  weir_reservation *reserved;
  weir_request request = {.key = "a", .key_length = 1, .cost = 1};
  CHECK(is_refusal(weir_limiter_take(limiter, "a", 1, 1, &decision, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_take_up_to(limiter, "a", 1, 1, &decision, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_wait(limiter, "a", 1, 1, 0, &decision, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_peek(limiter, "a", 1, 1, &decision, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_reset(limiter, "a", 1, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_decide(limiter, &request, 1, &why), &why));
  CHECK(request.status == WEIR_BAD_ARGUMENT);
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_reserve(limiter, &request, &reserved, &why), &why));
  CHECK(reserved == NULL);
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_refund(limiter, "a", 1, 1, &taken, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_settle(limiter, "a", 1, 2, &taken, &why), &why));
  why.text[0] = '\0';
  int64_t real[] = {2};
  CHECK(is_refusal(weir_reservation_settle(reservation, real, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_reservation_cancel(reservation, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_reservation_commit(reservation, &why), &why));
  why.text[0] = '\0';
  CHECK(is_refusal(weir_limiter_create(store, "quota:1/1s", NULL, &made, &why), &why));
  CHECK(made == NULL);
}

/* A store that the child opens itself is as good as anywhere. */
static void check_own(void) {
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  const weir_limiter_options options = {.size = sizeof options, .deadline_us = 30 * SECOND_US};
  CHECK(weir_store_open("memory:", &store, NULL) == WEIR_OK);
  CHECK(weir_limiter_create(store, "fixed-window:1/400d", &options, &limiter, NULL) == WEIR_OK);
  CHECK(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL) == WEIR_OK && decision.allowed);
  CHECK(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL) == WEIR_OK && !decision.allowed);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void assert_child_is_content(pid_t child) {
  int status;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("the child ended with %s %d", WIFEXITED(status) ? "line (mod 250)" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) - 1 : WTERMSIG(status));
}

/* The address sanitizer's allocator does not know of forks: a child waits for ever for a lock of it
 * that a thread of the parent held. So nobody forks before all threads have what they need. */
static void get_busy(busy *b, weir_limiter *limiter) {
  *b = (busy){.limiter = limiter};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&b->threads[i], NULL, take_all_the_time, b), 0);
  while (b->warm < THREADS)
    sched_yield();
}

static void stop_being_busy(busy *b) {
  b->over = true;
  for (int i = 0; i < THREADS; i++)
    pthread_join(b->threads[i], NULL);
}

/* Forks at random moments of what the threads do, and does everything in the child. `stopped`: a
 * server that is stopped meanwhile, or NULL. */
static void fork_often(weir_store *store, weir_limiter *limiter, struct server *stopped) {
  busy b;
  weir_decision taken;
  weir_reservation *reservation;
  weir_request request = {.key = "r", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &taken, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_reserve(limiter, &request, &reservation, NULL), WEIR_OK);
  assert_non_null(reservation);
  get_busy(&b, limiter);
  if (stopped != NULL) server_stop(stopped);
  for (int i = 0; i < FORKS; i++) {
    for (int before = b.decided; b.decided == before && i % 4 == 0 && stopped == NULL;)
      sched_yield();
    pid_t child = fork();
    if (child == 0) {
      alarm(PATIENCE_S);
      check_refused(store, limiter, taken, reservation);
      weir_reservation_destroy(reservation);
      weir_limiter_destroy(limiter);
      weir_store_close(store);
      check_own();
      _exit(0);
    }
    assert_child_is_content(child);
  }
  if (stopped != NULL) server_continue(stopped);
  stop_being_busy(&b);
  weir_reservation_destroy(reservation);
}

static void open_on(const char *url, weir_fallback fallback, int64_t deadline_us,
                    weir_store **store, weir_limiter **limiter) {
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = deadline_us, .fallback = fallback};
  assert_int_equal(weir_store_open(url, store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(*store, "fixed-window:1000000000/400d;token-bucket:9000/1s",
                                       &options, limiter, NULL),
                   WEIR_OK);
}

static void a_child_is_refused_while_threads_are_in_memory(void **state) {
  weir_store *store;
  weir_limiter *limiter;
  (void)state;
  open_on("memory:", WEIR_FALLBACK_LOCAL, 30 * SECOND_US, &store, &limiter);
  fork_often(store, limiter, NULL);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void a_child_is_refused_while_threads_talk_to_servers(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, kind == OUTAGE_REDIS ? 1 : OUTAGE_SERVERS);
    open_on(o.url, WEIR_FALLBACK_ALLOW, 30 * SECOND_US, &o.store, &o.limiter);
    fork_often(o.store, o.limiter, NULL);
    outage_close(&o);
  }
}

/* All threads wait, one of them in the system for the server and the others for that one. */
static void a_child_is_refused_while_threads_wait_for_a_stopped_server(void **state) {
  outage o;
  (void)state;
  outage_start(&o, OUTAGE_META, 1);
  open_on(o.url, WEIR_FALLBACK_LOCAL, 30 * SECOND_US, &o.store, &o.limiter);
  fork_often(o.store, o.limiter, o.servers[0]);
  outage_close(&o);
}

/* One of two limiters has answered for the store. In the child neither asks the policy, nor makes
 * what it lacks for that. */
static void a_child_is_refused_what_a_policy_charged(void **state) {
  outage o;
  weir_limiter *fresh;
  (void)state;
  outage_start(&o, OUTAGE_META, 1);
  open_on(o.url, WEIR_FALLBACK_LOCAL, 30 * SECOND_US, &o.store, &o.limiter);
  outage_kill(&o, 0);
  weir_decision taken = outage_take(&o, "k", 1);
  assert_int_equal(taken.source, WEIR_SOURCE_FALLBACK);
  assert_int_equal(weir_limiter_create(o.store, "quota:5/1h", NULL, &fresh, NULL), WEIR_OK);
  pid_t child = fork();
  if (child == 0) {
    weir_message why = {""};
    weir_decision decision;
    CHECK(is_refusal(weir_limiter_take(fresh, "k", 1, 1, &decision, &why), &why));
    weir_limiter *both[] = {o.limiter, fresh};
    for (int i = 0; i < 2; i++) {
      why.text[0] = '\0';
      CHECK(is_refusal(weir_limiter_refund(both[i], "k", 1, 1, &taken, &why), &why));
      weir_limiter_destroy(both[i]);
    }
    weir_store_close(o.store);
    _exit(0);
  }
  assert_child_is_content(child);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 1, &taken, NULL), WEIR_OK);
  weir_limiter_destroy(fresh);
  outage_close(&o);
}

static int open_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < DESCRIPTORS_MOST; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* Its end of the connection is closed, the parent's is not: nobody has read the other's replies. */
static void closing_in_the_child_leaves_the_parent_alone(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    outage_open(&o, "fixed-window:100/1m", WEIR_FALLBACK_DENY, 0);
    assert_int_equal(outage_take(&o, "k", 1).remaining, 99);
    pid_t child = fork();
    if (child == 0) {
      int before = open_descriptors();
      weir_limiter_destroy(o.limiter);
      weir_store_close(o.store);
      CHECK(open_descriptors() < before);
      _exit(0);
    }
    assert_child_is_content(child);
    for (int i = 2; i <= 20; i++) {
      weir_decision decision = outage_take(&o, "k", 1);
      assert_int_equal(decision.source, WEIR_SOURCE_STORE);
      assert_int_equal(decision.remaining, 100 - i);
    }
    outage_close(&o);
  }
}

/* A grandchild is no more at home in the store of its parent than that in its own parent's. */
static void every_generation_opens_its_own(void **state) {
  weir_store *store;
  weir_limiter *limiter;
  (void)state;
  open_on("memory:", WEIR_FALLBACK_LOCAL, 30 * SECOND_US, &store, &limiter);
  pid_t child = fork();
  if (child == 0) {
    weir_store *own;
    weir_message why = {""};
    CHECK(weir_store_open("memory:", &own, NULL) == WEIR_OK);
    pid_t grandchild = fork();
    if (grandchild == 0) {
      weir_limiter *made;
      CHECK(is_refusal(weir_limiter_create(own, "quota:1/1s", NULL, &made, &why), &why));
      CHECK(is_refusal(weir_limiter_create(store, "quota:1/1s", NULL, &made, &why), &why));
      weir_store_close(own);
      check_own();
      _exit(0);
    }
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    weir_store_close(own);
    _exit(0);
  }
  assert_child_is_content(child);
  weir_decision decision;
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_is_refused_while_threads_are_in_memory),
      cmocka_unit_test(a_child_is_refused_while_threads_talk_to_servers),
      cmocka_unit_test(a_child_is_refused_while_threads_wait_for_a_stopped_server),
      cmocka_unit_test(a_child_is_refused_what_a_policy_charged),
      cmocka_unit_test(closing_in_the_child_leaves_the_parent_alone),
      cmocka_unit_test(every_generation_opens_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
