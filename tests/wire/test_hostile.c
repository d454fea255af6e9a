/* A scripted server does what real ones do not do on demand: trickle, lie, hang up half-way. */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/operations.h"

/* A deadline may be missed by so much: the machine may be busy with other things, so only the best
 * call is held to the first, and is waited for. */
enum { GRACE_US = 5000, BUSY_US = 10000000 };

/* After the greeting, answers the first request with `answer`, a piece each `gap_ms`, and then
 * hangs up or stays silent until the client leaves. */
typedef struct fake_script {
  const char *greeting;
  const char *answer;
  size_t piece;
  long gap_ms;
  bool hang_up;
} fake_script;

typedef struct fake_server {
  struct address address;
  fake_script script;
  int listener;
  pthread_t thread;
} fake_server;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void say(int fd, const char *text, size_t piece, long gap_ms) {
  for (size_t left = strlen(text); left > 0;) {
    size_t now = left < piece ? left : piece;
    if (send(fd, text, now, MSG_NOSIGNAL) < 0) return;
    text += now;
    left -= now;
    if (left > 0) pause_ms(gap_ms);
  }
}

static void serve_one(int fd, const fake_script *play) {
  char heard[4096];
  if (recv(fd, heard, sizeof heard, 0) <= 0) return;
  say(fd, play->greeting, strlen(play->greeting), 0);
  if (recv(fd, heard, sizeof heard, 0) <= 0) return;
  say(fd, play->answer, play->piece, play->gap_ms);
  while (!play->hang_up && recv(fd, heard, sizeof heard, 0) > 0) {
  }
}

static void *serve(void *context) {
  fake_server *self = context;
  for (;;) {
    int fd = accept(self->listener, NULL, NULL);
    if (fd < 0) return NULL;
    serve_one(fd, &self->script);
    close(fd);
  }
}

static void start(fake_server *self, fake_script play) {
  int on = 1;
  self->script = play;
  assert_int_equal(address_take_port(&self->address, SERVER_IPV4), 0);
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(self->listener, &self->address.socket.any, self->address.socket_bytes), 0);
  assert_int_equal(listen(self->listener, 8), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, serve, self), 0);
}

static weir_store *open_fake(const fake_server *self, const char *protocol) {
  char url[128];
  weir_store *store = NULL;
  weir_message message = {""};
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u?timeout=30s&protocol=%s",
           (unsigned)address_port(&self->address), protocol);
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_OK);
  return store;
}

static void end_server(fake_server *self) {
  shutdown(self->listener, SHUT_RDWR);
  pthread_join(self->thread, NULL);
  close(self->listener);
  address_release(&self->address);
}

/* The outcome of one ADD within that deadline, over a connection of its own; *taken_us: when. */
static weir_operation add_once(const fake_server *fake, const char *protocol, int64_t deadline_us,
                               int64_t *taken_us, weir_message *message) {
  weir_store *store = open_fake(fake, protocol);
  weir_operation add = add_to("weir:t:{h}:1", 1);
  int64_t begin_us = weir_monotonic_us();
  message->text[0] = '\0';
  weir_store_exec(store, &add, 1, begin_us + deadline_us, message);
  *taken_us = weir_monotonic_us() - begin_us;
  assert_true(*taken_us < deadline_us + BUSY_US);
  weir_store_close(store);
  return add;
}

/* An ADD has the same outcome every time: the server settles that long before the deadline. */
static weir_operation play(const char *protocol, fake_script script, weir_message *message) {
  const int64_t deadline_us = PATIENCE_MS * INT64_C(1000);
  weir_operation first = {.outcome = WEIR_PENDING};
  int64_t taken_us;
  fake_server fake;
  start(&fake, script);
  for (int i = 0; i < 3; i++) {
    weir_operation add = add_once(&fake, protocol, deadline_us, &taken_us, message);
    if (i == 0) first = add;
    assert_int_equal(add.outcome, first.outcome);
    assert_true(taken_us < deadline_us / 2);
  }
  end_server(&fake);
  return first;
}

/* The whole answer takes three times as long as the deadline. A call for which a busy machine found
 * no time to connect says nothing about the server. */
static void a_trickling_server_does_not_stretch_the_deadline(void **state) {
  enum { DEADLINE_US = 300000 };
  (void)state;
  weir_message message = {""};
  fake_script slow = {"MN\r\n", "VA 1 O0\r\n1\r\n", 1, 80, false};
  fake_server fake;
  int64_t least_us = INT64_MAX;
  start(&fake, slow);
  for (int tries = 0; tries < 3 || (tries < 100 && least_us > DEADLINE_US + GRACE_US); tries++) {
    int64_t taken_us;
    weir_operation add = add_once(&fake, "meta", DEADLINE_US, &taken_us, &message);
    assert_non_null(strstr(message.text, "deadline"));
    if (add.outcome == WEIR_NOT_SENT) continue;
    assert_outcome(add, WEIR_UNKNOWN);
    if (taken_us < least_us) least_us = taken_us;
  }
  end_server(&fake);
  assert_in_range(least_us, DEADLINE_US, DEADLINE_US + GRACE_US);
}

static void a_reply_in_pieces_is_put_together(void **state) {
  (void)state;
  weir_message message = {""};
  fake_script pieces = {"MN\r\n", "VA 1 O0\r\n7\r\n", 1, 1, false};
  assert_done(play("meta", pieces, &message), 7);
}

static void garbage_makes_the_outcome_unknown(void **state) {
  (void)state;
  weir_message message = {""};
  static const char *const answers[] = {
      "HELLO\r\n", "VA 1 O9\r\n1\r\n",      "VA 1\r\n1\r\n", "VA 1 O0\r\n1xx",  "HD O0\r\n",
      "\n",        "VA 99999999999 O0\r\n", "EN\r\n",        "VA x O0\r\n1\r\n"};
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    fake_script lie = {"MN\r\n", answers[i], 100, 0, false};
    weir_operation add = play("meta", lie, &message);
    if (add.outcome != WEIR_UNKNOWN) fail_msg("%s gave %d", answers[i], (int)add.outcome);
    assert_non_null(strstr(message.text, "not memcached meta commands"));
  }
}

static void a_line_without_end_is_given_up(void **state) {
  (void)state;
  static char line[9000];
  weir_message message = {""};
  memset(line, 'x', sizeof line - 1);
  assert_outcome(play("meta", (fake_script){"MN\r\n", line, sizeof line, 0, false}, &message),
                 WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "not memcached meta commands"));
}

static void half_a_reply_is_unknown(void **state) {
  (void)state;
  weir_message message = {""};
  fake_script half = {"MN\r\n", "VA 1 O0\r\n", 100, 0, true};
  assert_outcome(play("meta", half, &message), WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "closed the connection"));
}

static void a_reply_too_many_closes_the_connection(void **state) {
  (void)state;
  weir_message message = {""};
  fake_server fake;
  start(&fake, (fake_script){"MN\r\n", "VA 1 O0\r\n7\r\nVA 1 O1\r\n8\r\n", 100, 0, false});
  weir_store *store = open_fake(&fake, "meta");
  for (int i = 0; i < 3; i++) {
    assert_done(execute(store, add_to("weir:t:{h}:1", 1), &message), 7);
    pause_ms(20);
  }
  weir_store_close(store);
  end_server(&fake);
}

static void an_error_to_a_storage_command_closes_the_connection(void **state) {
  (void)state;
  weir_message message = {""};
  fake_server fake;
  start(&fake, (fake_script){"MN\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n", 100, 0, false});
  weir_store *store = open_fake(&fake, "meta");
  weir_operation operations[] = {put_to(WEIR_PUT, "weir:t:{h}:1", 1), add_to("weir:t:{h}:1", 1)};
  weir_store_exec(store, operations, 2, deadline_in_ms(PATIENCE_MS), &message);
  assert_outcome(operations[0], WEIR_REFUSED);
  assert_outcome(operations[1], WEIR_UNKNOWN);
  assert_non_null(strstr(message.text, "bad data chunk"));
  weir_store_close(store);
  end_server(&fake);
}

static void a_proxy_that_lost_an_answer_leaves_it_unknown(void **state) {
  (void)state;
  weir_message message = {""};
  fake_script lost = {"VERSION 1\r\n", "SERVER_ERROR Connection timed out\r\n", 100, 0, false};
  assert_outcome(play("classic", lost, &message), WEIR_UNKNOWN);
  fake_script refused = {"VERSION 1\r\n", "SERVER_ERROR Connection refused\r\n", 100, 0, false};
  assert_outcome(play("classic", refused, &message), WEIR_REFUSED);
}

static void a_server_of_another_kind_is_named(void **state) {
  (void)state;
  weir_message message = {""};
  fake_script other = {"-ERR unknown command\r\n", "", 1, 0, true};
  assert_outcome(play("meta", other, &message), WEIR_NOT_SENT);
  assert_non_null(strstr(message.text, "protocol=classic"));
  assert_outcome(play("classic", other, &message), WEIR_NOT_SENT);
  assert_outcome(play("auto", other, &message), WEIR_NOT_SENT);
  assert_non_null(strstr(message.text, "\"-ERR unknown command\"")); /* as it came */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trickling_server_does_not_stretch_the_deadline),
      cmocka_unit_test(a_reply_in_pieces_is_put_together),
      cmocka_unit_test(garbage_makes_the_outcome_unknown),
      cmocka_unit_test(a_line_without_end_is_given_up),
      cmocka_unit_test(half_a_reply_is_unknown),
      cmocka_unit_test(a_reply_too_many_closes_the_connection),
      cmocka_unit_test(an_error_to_a_storage_command_closes_the_connection),
      cmocka_unit_test(a_proxy_that_lost_an_answer_leaves_it_unknown),
      cmocka_unit_test(a_server_of_another_kind_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
