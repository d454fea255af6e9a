/* Memory ends anywhere: each allocation of a whole life fails once, those of the libraries below
 * too. From the opening of the store to its end nothing crashes or leaks, what fails says so in one
 * clear message, and nothing is charged that was not said to be.
 *
 *     with_servers test_attack_out_of_memory         of those of OpenSSL a part
 *     with_servers test_attack_out_of_memory full    every single one */
#include "attack/stores.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "attack/heap.h"
#include "fixture/process.h"

enum { LIMIT = 100, TRIES = 5000, SECURE_TRIES = 30 };

#define STACK                                                                            \
  "sliding-window:100/1h;quota:100/1h;token-bucket:100/1h;leaky-bucket:100/1h,queue=99;" \
  "sliding-log:100/1h;fixed-window:100/1h"

/* The effect of a refund or a cancelled reservation on what is charged. */
typedef enum giving { GIVES_BACK, MAY_GIVE_BACK, KEEPS } giving;

typedef struct life {
  const char *store; /* of with_servers */
  const char *rules;
  giving back;
  weir_fallback fallback;
  bool is_secure;  /* speaks TLS */
  bool is_named;   /* its host is not in digits */
  bool has_failed; /* the allocation of this life's number was reached */
  hand_clock clock;
  int64_t least; /* charged to "k", at the least and at the most */
  int64_t most;
} life;

static bool runs_whole;

/* --- one life ------------------------------------------------------------------------------- */

/* An answer is one of those that may come of a lack of memory, and says what it is. To OpenSSL it
 * is one more reason why a file cannot be read. */
static void check(const life *self, weir_status status, const weir_message *message) {
  size_t length = strlen(message->text);
  bool known = status == WEIR_NO_MEMORY || status == WEIR_UNAVAILABLE ||
               status == WEIR_REFUSED_BY_STORE || status == WEIR_UNKNOWN_OUTCOME ||
               (status == WEIR_BAD_URL && self->is_secure);
  bool blames_server = strstr(message->text, "reply is not") != NULL;
  bool clear = length > 0 && message->text[length - 1] != ' ' && !blames_server;
  if (status == WEIR_OK || (heap_has_failed() && known && clear)) return;
  long asked;
  heap_recover(&asked);
  fail_msg("%s: \"%s\"", weir_status_name(status), message->text);
}

/* A policy's admission was not charged in the store, unless nobody knows. */
static bool note_taken(life *self, weir_status status, const weir_decision *decision) {
  bool by_policy = status == WEIR_OK && decision->source == WEIR_SOURCE_FALLBACK;
  bool taken = status == WEIR_OK && !by_policy && decision->allowed;
  weir_status of_store = by_policy ? decision->store_status : status;
  assert_true(!by_policy || self->fallback != WEIR_FALLBACK_NONE);
  self->least += taken;
  self->most += taken || of_store == WEIR_UNKNOWN_OUTCOME;
  return taken;
}

static void note_given_back(life *self, weir_status status) {
  bool may_be = status == WEIR_OK || status == WEIR_UNKNOWN_OUTCOME;
  if (may_be && self->back != KEEPS) self->least--;
  if (status == WEIR_OK && self->back == GIVES_BACK) self->most--;
}

static void take_and_refund(life *self, weir_limiter *limiter) {
  weir_message message = {""};
  weir_decision decision = {0};
  weir_status status = weir_limiter_take(limiter, "k", 1, 1, &decision, &message);
  check(self, status, &message);
  if (!note_taken(self, status, &decision)) return;
  status = weir_limiter_refund(limiter, "k", 1, 1, &decision, &message);
  check(self, status, &message);
  note_given_back(self, status);
}

/* A settlement charges once more by 1, or not at all. Only some rules can be settled. */
static void take_and_settle(life *self, weir_limiter *limiter, int64_t real) {
  weir_message message = {""};
  weir_decision decision = {0};
  if (self->back != GIVES_BACK) return;
  weir_status status = weir_limiter_take(limiter, "k", 1, 1, &decision, &message);
  check(self, status, &message);
  if (!note_taken(self, status, &decision)) return;
  status = weir_limiter_settle(limiter, "k", 1, real, &decision, &message);
  check(self, status, &message);
  bool may_be = status == WEIR_OK || status == WEIR_UNKNOWN_OUTCOME;
  if (real < 1 && may_be) self->least--;
  if (real < 1 && status == WEIR_OK) self->most--;
  if (real > 1 && status == WEIR_OK) self->least++;
  if (real > 1 && may_be) self->most++;
}

static void take_otherwise(life *self, weir_limiter *limiter) {
  weir_message message = {""};
  weir_decision decision = {0};
  weir_status status = weir_limiter_take_up_to(limiter, "k", 1, 1, &decision, &message);
  check(self, status, &message);
  note_taken(self, status, &decision);
  status = weir_limiter_wait(limiter, "k", 1, 1, 0, &decision, &message);
  check(self, status, &message);
  note_taken(self, status, &decision);
  check(self, weir_limiter_peek(limiter, "k", 1, 1, &decision, &message), &message);
}

static void reserve(life *self, weir_limiter *limiter, bool cancels) {
  weir_message message = {""};
  weir_reservation *reservation = NULL;
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  weir_status status = weir_limiter_reserve(limiter, &request, &reservation, &message);
  check(self, status, &message);
  bool taken = note_taken(self, status, &request.decision);
  if (reservation == NULL) return;
  status = (cancels ? weir_reservation_cancel : weir_reservation_commit)(reservation, &message);
  check(self, status, &message);
  if (cancels && taken) note_given_back(self, status);
  weir_reservation_destroy(reservation);
}

static void decide_several(life *self, weir_limiter *limiter) {
  weir_message message = {""};
  weir_request requests[] = {{.key = "other", .key_length = 5, .cost = 1},
                             {.key = "k", .key_length = 1, .cost = 1},
                             {.key = "k", .key_length = 1, .cost = 1, .flags = WEIR_REQUEST_PEEK}};
  check(self, weir_limiter_decide(limiter, requests, 3, &message), &message);
  for (size_t i = 0; i < 3; i++)
    check(self, requests[i].status, &message);
  note_taken(self, requests[1].status, &requests[1].decision);
  check(self, weir_limiter_reset(limiter, "other", 5, &message), &message);
}

/* Memory is there again. A server that was not asked for want of memory may be left alone for a
 * moment. OpenSSL makes contexts without memory that never come to anything. */
static void check_charges(const life *self, weir_limiter *limiter) {
  weir_message message = {""};
  weir_decision decision = {0};
  weir_status status = WEIR_UNAVAILABLE;
  for (int i = 0; i < (self->is_secure ? SECURE_TRIES : TRIES) && status != WEIR_OK; i++) {
    status = weir_limiter_peek(limiter, "k", 1, 1, &decision, &message);
    if (status != WEIR_OK) poll(NULL, 0, 2);
  }
  if (status != WEIR_OK && self->is_secure) return;
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  assert_in_range(decision.remaining, LIMIT - self->most, LIMIT - self->least);
}

static void use(life *self, weir_store *store, bool all_after) {
  weir_message message = {""};
  weir_limiter *limiter = (weir_limiter *)store; /* anything but NULL */
  weir_limiter_options options = attack_options(&self->clock);
  options.fallback = self->fallback;
  long asked;
  weir_status status = weir_limiter_create(store, self->rules, &options, &limiter, &message);
  check(self, status, &message);
  if (status != WEIR_OK) {
    assert_int_equal(status, WEIR_NO_MEMORY);
    assert_null(limiter);
    return;
  }
  take_and_refund(self, limiter);
  take_and_settle(self, limiter, 0);
  take_and_settle(self, limiter, 2);
  take_otherwise(self, limiter);
  reserve(self, limiter, true);
  reserve(self, limiter, false);
  decide_several(self, limiter);
  if (!all_after) {
    self->has_failed = heap_recover(&asked) > 0;
    check_charges(self, limiter);
  }
  weir_limiter_destroy(limiter);
}

/* The allocation of that number fails. */
static void live(life *self, const char *url, long number, bool all_after) {
  weir_message message = {""};
  weir_store *store = (weir_store *)self; /* anything but NULL */
  long asked;
  self->clock.now_us = START_US;
  self->least = self->most = 0;
  self->has_failed = false;
  heap_fail_at(number, all_after);
  weir_status status = weir_store_open(url, &store, &message);
  check(self, status, &message);
  if (status == WEIR_OK) {
    use(self, store, all_after);
  } else {
    assert_true(status == WEIR_NO_MEMORY || status == WEIR_BAD_URL);
    assert_null(store);
  }
  weir_store_close(status == WEIR_OK ? store : NULL);
  self->has_failed |= heap_recover(&asked) > 0;
}

/* --- every life ----------------------------------------------------------------------------- */

/* OpenSSL and threads that end keep some memory for those to come. Whether any is lost there is for
 * the leak sanitizer to say. */
static void expect_nothing_left(const life *self, long blocks, int descriptors, long number) {
  bool is_counted = !self->is_secure && !self->is_named;
  if (is_counted && heap_blocks() != blocks)
    fail_msg("%ld blocks are left after allocation %ld failed", heap_blocks() - blocks, number);
  assert_int_equal(process_descriptors(), descriptors);
}

static const char *url_of(const life *self, char url[ATTACK_URL_BYTES]) {
  static const char digits[] = "127.0.0.1";
  static const char name[] = "localhost";
  _Static_assert(sizeof digits == sizeof name, "one takes the other's place");
  attack_url(self->store, url);
  char *host = strstr(url, digits);
  if (self->is_named) memcpy(host, name, strlen(name));
  return url;
}

static void sweep(life *self, long stride, bool all_after) {
  char url[ATTACK_URL_BYTES];
  long number = -1;
  long lives = 0;
  int threads = process_threads();
  for (int warm = 0; warm < 2; warm++) {
    live(self, url_of(self, url), INT64_MAX, false);
    process_await_threads(threads); /* of those that a store may leave behind, each has memory */
  }
  long blocks = heap_blocks();
  int descriptors = process_descriptors();
  do {
    number += number < 0 ? 1 : stride;
    lives++;
    live(self, url_of(self, url), number, all_after);
    process_await_threads(threads);
    expect_nothing_left(self, blocks, descriptors, number);
  } while (self->has_failed);
  assert_true(lives > 5);
  print_message("%s, %.20s: %ld lives for %ld allocations\n", self->store, self->rules, lives,
                number);
}

static void *do_nothing(void *context) {
  return context;
}

/* The first thread leaves memory to the next. */
static int warm_up(void **state) {
  pthread_t thread;
  (void)state;
  assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
  return pthread_join(thread, NULL);
}

static void every_algorithm_bears_it(void **state) {
  static const struct {
    const char *rules;
    giving back;
    weir_fallback fallback;
  } cases[] = {{"fixed-window:100/1h", GIVES_BACK, WEIR_FALLBACK_NONE},
               {"sliding-window:100/1h,cells=64", GIVES_BACK, WEIR_FALLBACK_NONE},
               {"sliding-log:100/1h", KEEPS, WEIR_FALLBACK_NONE},
               {"quota:100/1h", GIVES_BACK, WEIR_FALLBACK_NONE},
               {"token-bucket:100/1h", GIVES_BACK, WEIR_FALLBACK_NONE},
               {"leaky-bucket:100/1h,queue=99", MAY_GIVE_BACK, WEIR_FALLBACK_NONE},
               {STACK, KEEPS, WEIR_FALLBACK_NONE},
               {STACK, KEEPS, WEIR_FALLBACK_LOCAL},
               {STACK, KEEPS, WEIR_FALLBACK_DENY}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    life one = {.store = "MEMORY",
                .rules = cases[i].rules,
                .back = cases[i].back,
                .fallback = cases[i].fallback};
    sweep(&one, 1, false);
    sweep(&one, 1, true);
  }
}

static void every_store_bears_it(void **state) {
  static const char *const stores[] = {"MEMCACHED_META",  "MEMCACHED_CLASSIC",
                                       "MEMCACHED_THREE", "TWEMPROXY",
                                       "REDIS",           "REDIS_TWEMPROXY"};
  (void)state;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
    life one = {.store = stores[i], .rules = STACK, .back = KEEPS, .fallback = WEIR_FALLBACK_NONE};
    sweep(&one, 1, false);
  }
}

/* Another thread looks up its name. */
static void a_host_with_a_name_bears_it(void **state) {
  life one = {.store = "MEMCACHED_META",
              .rules = STACK,
              .back = KEEPS,
              .fallback = WEIR_FALLBACK_NONE,
              .is_named = true};
  (void)state;
  sweep(&one, 1, false);
}

/* Thousands of allocations, nearly all of them OpenSSL's. */
static void a_store_with_tls_bears_it(void **state) {
  static const struct {
    const char *name;
    long stride;
  } stores[] = {{"MEMCACHED_TLS", 151}, {"REDIS_TLS", 307}};
  char url[ATTACK_URL_BYTES];
  (void)state;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
    life one = {
        .store = stores[i].name, .rules = STACK, .back = KEEPS, .fallback = WEIR_FALLBACK_NONE};
    one.is_secure = true;
    sweep(&one, runs_whole ? 1 : stores[i].stride, false);
    one.is_secure = false; /* and nothing is left of it */
    live(&one, url_of(&one, url), INT64_MAX, false);
  }
}

int main(int count, char **arguments) {
  runs_whole = count > 1 && strcmp(arguments[1], "full") == 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_bears_it),
      cmocka_unit_test(every_store_bears_it),
      cmocka_unit_test(a_host_with_a_name_bears_it),
      cmocka_unit_test(a_store_with_tls_bears_it),
  };
  return cmocka_run_group_tests(tests, warm_up, NULL);
}
