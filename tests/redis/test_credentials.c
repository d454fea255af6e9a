/* Users and passwords, plainly and over TLS, and that no message tells them. */
#include <stdio.h>

#include "redis/codec.h"
#include "wire/operations.h"

static const char *const users[] = {"--user", "ann",         "on",          ">s3cret", "~weir:*",
                                    "+@all",  "-@scripting", "-@dangerous", NULL};

static weir_operation add_as(struct server *server, const char *credentials, const char *query,
                             weir_message *message) {
  server_log_in_as(server, credentials);
  weir_store *store = open_servers(&server, 1, query);
  weir_operation add = execute(store, add_to("weir:t:{c}:1", 1), message);
  weir_store_close(store);
  return add;
}

static void expect_refused(struct server *server, const char *credentials, const char *query,
                           const char *said) {
  weir_message message = {""};
  assert_outcome(add_as(server, credentials, query, &message), WEIR_NOT_SENT);
  if (strstr(message.text, said) == NULL) fail_msg("%s: \"%s\"", credentials, message.text);
  assert_null(strstr(message.text, "s3cret"));
}

static void expect_guarded(struct server *server, const char *query) {
  weir_message message = {""};
  assert_outcome(add_as(server, "ann:s3cret", query, &message), WEIR_DONE);
  expect_refused(server, "ann:not-s3cret", query, "does not accept this user and password");
  expect_refused(server, "s3cret:ann", query, "does not accept this user and password");
}

static void a_user_is_let_in_by_the_right_password_alone(void **state) {
  (void)state;
  expect_guarded(server_start_redis(SERVER_IPV4, users), NULL);
}

static void the_same_holds_over_tls(void **state) {
  char query[SERVER_URL_BYTES];
  (void)state;
  snprintf(query, sizeof query, "tls-ca=%s&tls-cert=%s&tls-key=%s",
           certificate_file(CERTIFICATE_CA), certificate_file(CERTIFICATE_CLIENT),
           certificate_key_file(CERTIFICATE_CLIENT));
  expect_guarded(server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, users), query);
}

/* It repeats the arguments of what it does not know. */
static void a_server_without_auth_does_not_tell_the_password(void **state) {
  static const char *const renamed[] = {"--rename-command", "AUTH", "", NULL};
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, renamed);
  expect_refused(server, ":s3cret", NULL, "auth: the server does not have this command");
  expect_refused(server, "ann:s3cret", NULL, "auth: the server does not have this command");
}

static void no_answer_to_a_login_is_told(void **state) {
  static const char *const lies[] = {"-ERR you said ann s3cret\r\n",
                                     "-s3cret\r\n",
                                     "-NOPERM s3cret key\r\n",
                                     "+s3cret\r\n",
                                     "s3cret\r\n",
                                     "$6\r\ns3cret\r\n"};
  (void)state;
  weir_redis_login login;
  assert_true(weir_redis_login_write(&login, "ann", "s3cret", 0));
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    weir_message message = {""};
    weir_greeting greeting = {.settings = &login};
    assert_int_equal(weir_redis_protocol.greet(&greeting, "", 0, false, &message),
                     WEIR_GREETING_SAY);
    assert_int_equal(
        weir_redis_protocol.greet(&greeting, lies[i], strlen(lies[i]), false, &message),
        WEIR_GREETING_FAILED);
    assert_string_not_equal(message.text, "");
    if (strstr(message.text, "s3cret") != NULL) fail_msg("%s", message.text);
  }
}

static void a_server_that_speaks_tls_is_named(void **state) {
  static const char alert[] = "\x15\x03\x01\x00\x02\x02\x46";
  (void)state;
  weir_redis_login login;
  weir_message message = {""};
  assert_true(weir_redis_login_write(&login, NULL, NULL, 0));
  weir_greeting greeting = {.settings = &login};
  assert_int_equal(weir_redis_protocol.greet(&greeting, "", 0, false, &message), WEIR_GREETING_SAY);
  assert_int_equal(weir_redis_protocol.greet(&greeting, alert, sizeof alert - 1, true, &message),
                   WEIR_GREETING_FAILED);
  assert_non_null(strstr(message.text, "rediss://"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_user_is_let_in_by_the_right_password_alone),
      cmocka_unit_test(the_same_holds_over_tls),
      cmocka_unit_test(a_server_without_auth_does_not_tell_the_password),
      cmocka_unit_test(no_answer_to_a_login_is_told),
      cmocka_unit_test(a_server_that_speaks_tls_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
