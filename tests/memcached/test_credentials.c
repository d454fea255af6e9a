/* Users and passwords: what the server's -Y file asks for, and what nobody else may see. */
#include <stdio.h>
#include <unistd.h>

#include "wire/operations.h"

enum { SERVERS = 2 };

static const char *const protocols[] = {"protocol=auto", "protocol=meta", "protocol=classic", NULL};

static struct server *locked[SERVERS];
static struct server *local;
static struct server *secure;
static struct server *open_to_all;

static const char *passwords(void) {
  return server_write_file("passwords", "ann:s3cret\nbob:p@s/s:%1\n");
}

static weir_operation add_once(weir_store *store, weir_message *message) {
  weir_operation add = execute(store, add_to("weir:t:{c}:1", 1), message);
  weir_store_close(store);
  return add;
}

static weir_operation add_as(struct server *server, const char *credentials, const char *query,
                             weir_message *message) {
  server_log_in_as(server, credentials);
  return add_once(open_servers(&server, 1, query), message);
}

static void expect_in(struct server *server, const char *credentials, const char *query) {
  weir_message message = {""};
  weir_operation add = add_as(server, credentials, query, &message);
  if (add.outcome != WEIR_DONE) fail_msg("%s: %s", credentials, message.text);
}

static void a_known_user_is_let_in(void **state) {
  char query[SERVER_URL_BYTES];
  (void)state;
  snprintf(query, sizeof query, "tls-ca=%s", certificate_file(CERTIFICATE_CA));
  for (int i = 0; protocols[i] != NULL; i++) {
    expect_in(locked[0], "ann:s3cret", protocols[i]);
    expect_in(locked[0], "bob:p%40s%2Fs%3A%251", protocols[i]);
    expect_in(local, "ann:s3cret", protocols[i]);
  }
  expect_in(secure, "ann:s3cret", query);
}

static void a_user_is_known_to_every_server_of_a_list(void **state) {
  weir_message message = {""};
  (void)state;
  server_log_in_as(locked[0], "ann:s3cret");
  weir_store *store = open_servers(locked, SERVERS, NULL);
  for (int i = 0; i < 20; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:t:{many%d}:1", i);
    assert_done(execute(store, add_to(key, 1), &message), 1);
  }
  weir_store_close(store);
}

static void a_wrong_password_is_refused_and_not_told(void **state) {
  static const char *const wrong[] = {"ann:s3cret2", "ann:s3cre", "s3cret2:ann", NULL};
  (void)state;
  for (int i = 0; wrong[i] != NULL; i++) {
    for (int j = 0; protocols[j] != NULL; j++) {
      weir_message message = {""};
      assert_outcome(add_as(locked[0], wrong[i], protocols[j], &message), WEIR_NOT_SENT);
      assert_non_null(strstr(message.text, "does not accept the user and password"));
      assert_null(strstr(message.text, "s3cre"));
    }
  }
}

static void a_server_that_wants_a_password_says_so(void **state) {
  (void)state;
  for (int i = 0; protocols[i] != NULL; i++) {
    weir_message message = {""};
    assert_outcome(add_as(locked[0], NULL, protocols[i], &message), WEIR_NOT_SENT);
    assert_non_null(strstr(message.text, "wants a user and a password"));
  }
}

/* Sends a request and reads what comes until the line that ends it. */
static void ask_plainly(const struct server *server, const char *request, char *reply, size_t room,
                        const char *end) {
  size_t used = 0;
  int fd = server_connect(server);
  assert_true(send(fd, request, strlen(request), MSG_NOSIGNAL) > 0);
  do {
    assert_true(used < room - 1);
    assert_int_equal(recv(fd, reply + used, 1, 0), 1);
    reply[++used] = '\0';
  } while (strstr(reply, end) == NULL);
  close(fd);
}

/* To a server without -Y they are a command like any other. */
static void needless_credentials_work_and_cannot_be_read(void **state) {
  (void)state;
  for (int i = 0; protocols[i] != NULL; i++) {
    char reply[256] = "";
    expect_in(open_to_all, "ann:s3cret", protocols[i]);
    ask_plainly(open_to_all, "get weir:auth\r\n", reply, sizeof reply, "END\r\n");
    assert_string_equal(reply, "END\r\n");
  }
}

static void no_command_hides_in_a_password(void **state) {
  (void)state;
  weir_message message = {""};
  char reply[256] = "";
  ask_plainly(open_to_all, "set weir:kept 0 0 1\r\n7\r\n", reply, sizeof reply, "STORED\r\n");
  add_as(open_to_all, "ann:x%0D%0Aflush_all%0D%0A", NULL, &message);
  add_as(open_to_all, "ann%0D%0Aflush_all%0D%0A:x", NULL, &message);
  ask_plainly(open_to_all, "get weir:kept\r\n", reply, sizeof reply, "END\r\n");
  assert_non_null(strstr(reply, "VALUE weir:kept"));
}

static void expect_bad_url(const char *url, const char *said) {
  weir_message message = {""};
  weir_store *store = NULL;
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_BAD_URL);
  if (strstr(message.text, said) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", message.text, said);
  assert_null(strstr(message.text, "s3cret"));
}

static void half_of_a_login_is_not_accepted(void **state) {
  char url[1024];
  char password[600];
  (void)state;
  expect_bad_url("memcached://ann@localhost", "user:password@");
  expect_bad_url("memcached://:s3cret@localhost", "user:password@");
  expect_bad_url("memcached://ann:s3cret@", "host");
  expect_bad_url("memcached://ann:s3cret@localhost:x", "port");
  memset(password, 'x', sizeof password - 1);
  password[sizeof password - 1] = '\0';
  snprintf(url, sizeof url, "memcached://ann:%s@localhost", password);
  expect_bad_url(url, "user and password are longer than");
}

int main(void) {
  for (int i = 0; i < SERVERS; i++)
    locked[i] = server_start_memcached(SERVER_IPV4, (const char *const[]){"-Y", passwords(), NULL});
  local = server_start_memcached(SERVER_UNIX, (const char *const[]){"-Y", passwords(), NULL});
  secure = server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER,
                                      (const char *const[]){"-Y", passwords(), NULL});
  open_to_all = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_known_user_is_let_in),
      cmocka_unit_test(a_user_is_known_to_every_server_of_a_list),
      cmocka_unit_test(a_wrong_password_is_refused_and_not_told),
      cmocka_unit_test(a_server_that_wants_a_password_says_so),
      cmocka_unit_test(needless_credentials_work_and_cannot_be_read),
      cmocka_unit_test(no_command_hides_in_a_password),
      cmocka_unit_test(half_of_a_login_is_not_accepted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
