/* Signals: handlers that run all the time change no decision and no wait, and a server that hangs
 * up while it is written to sends no SIGPIPE to the program. */
#include "attack/stores.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <weir/backend.h>

#include "fixture/servers.h"

/* --- a storm of signals ---------------------------------------------------------------------- */

enum { THREADS = 3, TAKES = 300, STORM_US = 300, LEAST_SIGNALS = 50 };

static _Atomic unsigned long signals;

static void count_signal(int signal) {
  (void)signal;
  atomic_fetch_add(&signals, 1);
}

/* Without SA_RESTART every system call that waits ends with EINTR. */
static void start_storm(void) {
  struct sigaction action = {.sa_handler = count_signal};
  struct itimerval timer = {{0, STORM_US}, {0, STORM_US}};
  signals = 0;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void end_storm(void) {
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}

typedef struct worker {
  pthread_t thread;
  weir_limiter *limiter;
  unsigned allowed;
  unsigned failed;
  weir_message why;
} worker;

/* At least that many requests, and for as long as few signals have come. */
static void *work(void *context) {
  worker *self = context;
  for (int i = 0; i < TAKES || signals < LEAST_SIGNALS; i++) {
    weir_decision decision = {0};
    weir_status status = weir_limiter_take(self->limiter, "k", 1, 1, &decision, &self->why);
    self->failed += status != WEIR_OK;
    self->allowed += status == WEIR_OK && decision.allowed;
  }
  return NULL;
}

/* The kernel prefers the first thread, which has nothing to do. */
static void leave_signals_to_others(int how) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(how, &alarm, NULL);
}

/* Every request is decided, and as many admitted as the limit says. */
static void decide_in_the_storm(const char *name) {
  char url[ATTACK_URL_BYTES];
  weir_limiter_options options = attack_options(NULL);
  worker workers[THREADS] = {0};
  unsigned allowed = 0;
  start_storm();
  weir_store *store = attack_open(attack_url(name, url));
  weir_limiter *limiter = attack_limiter(store, "token-bucket:500/400d", &options);
  for (int i = 0; i < THREADS; i++) {
    workers[i].limiter = limiter;
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  leave_signals_to_others(SIG_BLOCK);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].failed > 0) fail_msg("%s: %s", name, workers[i].why.text);
    allowed += workers[i].allowed;
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  end_storm();
  leave_signals_to_others(SIG_UNBLOCK);
  print_message("%s: %lu signals\n", name, (unsigned long)signals);
  assert_int_equal(allowed, 500);
}

static void decisions_bear_a_storm_of_signals(void **state) {
  static const char *const stores[] = {"MEMORY", "MEMCACHED_META", "MEMCACHED_CLASSIC",
                                       "REDIS",  "MEMCACHED_TLS",  "REDIS_TLS"};
  (void)state;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
    decide_in_the_storm(stores[i]);
}

static void a_wait_lasts_as_long_as_it_must(void **state) {
  char url[ATTACK_URL_BYTES];
  weir_limiter_options options = attack_options(NULL);
  weir_decision decision = {0};
  (void)state;
  start_storm();
  weir_store *store = attack_open(attack_url("MEMORY", url));
  weir_limiter *limiter = attack_limiter(store, "token-bucket:10/1s,burst=1", &options);
  int64_t begin_us = weir_monotonic_us();
  for (int i = 0; i < 4; i++) {
    assert_int_equal(weir_limiter_wait(limiter, "k", 1, 1, 60 * SECOND_US, &decision, NULL),
                     WEIR_OK);
    assert_true(decision.allowed);
  }
  int64_t taken_us = weir_monotonic_us() - begin_us;
  end_storm();
  assert_true(taken_us >= 290000); /* three tokens, from which the clocks differ a little */
  assert_true(signals > 0);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* --- a server that hangs up ------------------------------------------------------------------ */

enum { HANG_UPS = 60, BATCH = WEIR_BATCH_MOST, KEY_BYTES = 96 };

/* Answers the greeting and one peek, and is gone. */
typedef struct rude_server {
  struct address address;
  int listener;
  pthread_t thread;
} rude_server;

static void serve_rudely(int fd) {
  char heard[4096];
  if (recv(fd, heard, sizeof heard, 0) > 0) {
    bool meta = heard[0] == 'm';
    const char *greeting = meta ? "MN\r\n" : "+PONG\r\n";
    const char *absent = meta ? "EN\r\n" : "$-1\r\n";
    send(fd, greeting, strlen(greeting), MSG_NOSIGNAL);
    if (recv(fd, heard, sizeof heard, 0) > 0) send(fd, absent, strlen(absent), MSG_NOSIGNAL);
  }
  close(fd);
}

static void *serve_all(void *context) {
  rude_server *self = context;
  for (int fd; (fd = accept(self->listener, NULL, NULL)) >= 0;)
    serve_rudely(fd);
  return NULL;
}

static void start_rude(rude_server *self) {
  int on = 1;
  assert_int_equal(address_take_port(&self->address, SERVER_IPV4), 0);
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(self->listener, &self->address.socket.any, self->address.socket_bytes), 0);
  assert_int_equal(listen(self->listener, 8), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, serve_all, self), 0);
}

static void stop_rude(rude_server *self) {
  shutdown(self->listener, SHUT_RDWR);
  pthread_join(self->thread, NULL);
  close(self->listener);
  address_release(&self->address);
}

/* A batch that takes several writes: the first finds out that nobody is there, and the next would
 * be answered with the signal. */
static void write_into_the_hang_up(const char *url) {
  static weir_request requests[BATCH];
  static char keys[BATCH][KEY_BYTES + 1];
  weir_limiter_options options = attack_options(NULL);
  weir_decision decision;
  weir_message message = {""};
  for (int i = 0; i < BATCH; i++) {
    snprintf(keys[i], sizeof keys[i], "%0*d", KEY_BYTES, i);
    requests[i] = (weir_request){.key = keys[i], .key_length = KEY_BYTES, .cost = 1};
  }
  weir_store *store = attack_open(url);
  weir_limiter *limiter = attack_limiter(store, "fixed-window:5/1h", &options);
  assert_int_equal(weir_limiter_peek(limiter, "k", 1, 1, &decision, &message), WEIR_OK);
  assert_int_not_equal(weir_limiter_decide(limiter, requests, BATCH, &message), WEIR_OK);
  assert_true(message.text[0] != '\0');
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static bool is_default(int signal) {
  struct sigaction action;
  sigset_t blocked;
  sigaction(signal, NULL, &action);
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  return action.sa_handler == SIG_DFL && !sigismember(&blocked, signal);
}

/* The program's disposition is what it was: a SIGPIPE would end this test. */
static void a_server_that_hangs_up_sends_no_sigpipe(void **state) {
  static const char *const schemes[] = {"memcached", "redis"};
  (void)state;
  signal(SIGPIPE, SIG_DFL);
  for (int i = 0; i < 2; i++) {
    rude_server server;
    char url[96];
    start_rude(&server);
    snprintf(url, sizeof url, "%s://127.0.0.1:%u", schemes[i],
             (unsigned)address_port(&server.address));
    for (int j = 0; j < HANG_UPS; j++)
      write_into_the_hang_up(url);
    stop_rude(&server);
    assert_true(is_default(SIGPIPE));
  }
}

/* --- a real one that dies, with TLS as well -------------------------------------------------- */

static atomic_bool over;

static void *keep_taking(void *context) {
  while (!over) {
    weir_decision decision;
    weir_limiter_take(context, "k", 1, 1, &decision, NULL);
  }
  return NULL;
}

static void kill_under_load(struct server *server, const char *query) {
  char url[SERVER_URL_BYTES];
  weir_limiter_options options = attack_options(NULL);
  pthread_t threads[THREADS];
  server_url(&server, 1, query, url);
  weir_store *store = attack_open(url);
  weir_limiter *limiter = attack_limiter(store, "fixed-window:1000000/1h", &options);
  over = false;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_taking, limiter), 0);
  for (int i = 0; i < 5; i++) {
    poll(NULL, 0, 20);
    server_restart(server);
  }
  over = true;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  server_kill(server);
}

static void a_server_that_dies_sends_no_sigpipe(void **state) {
  char query[SERVER_URL_BYTES];
  (void)state;
  signal(SIGPIPE, SIG_DFL);
  snprintf(query, sizeof query, "tls-ca=%s", certificate_file(CERTIFICATE_CA));
  kill_under_load(server_start_memcached(SERVER_IPV4, NULL), NULL);
  kill_under_load(server_start_redis(SERVER_IPV4, NULL), NULL);
  kill_under_load(server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER, NULL), query);
  kill_under_load(server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER,
                                         (const char *const[]){"--tls-auth-clients", "no", NULL}),
                  query);
  assert_true(is_default(SIGPIPE));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decisions_bear_a_storm_of_signals),
      cmocka_unit_test(a_wait_lasts_as_long_as_it_must),
      cmocka_unit_test(a_server_that_hangs_up_sends_no_sigpipe),
      cmocka_unit_test(a_server_that_dies_sends_no_sigpipe),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
