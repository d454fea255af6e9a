/* A peer may do much inside TLS: records of any size, new keys, lies. */
#include <openssl/ssl.h>
#include <stdio.h>

#include "wire/operations.h"
#include "wire/tls_peer.h"

static weir_store *open_peer(const struct tls_peer *peer, const char *host, const char *more) {
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  weir_store *store = NULL;
  snprintf(url, sizeof url, "memcacheds://%s:%u?protocol=meta&tls-ca=%s%s", host,
           (unsigned)tls_peer_port(peer), certificate_file(CERTIFICATE_CA), more);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

/* Three additions over one connection, if it lasts; the first that was not done, or the last. */
static weir_operation play(tls_peer_script script, weir_message *message) {
  struct tls_peer *peer = tls_peer_start(script);
  weir_store *store = open_peer(peer, "127.0.0.1", "");
  weir_operation add = {.outcome = WEIR_DONE};
  for (int i = 0; i < 3 && add.outcome == WEIR_DONE; i++)
    add = execute(store, add_to("weir:t:{p}:1", 1), message);
  weir_store_close(store);
  tls_peer_stop(peer);
  return add;
}

static void expect_answers(tls_peer_script script) {
  weir_message message = {""};
  weir_operation add = play(script, &message);
  if (add.outcome != WEIR_DONE) fail_msg("%s", message.text);
  assert_int_equal(add.value, 7);
}

static void expect_end(tls_peer_script script, weir_outcome outcome, const char *said) {
  weir_message message = {""};
  weir_operation add = play(script, &message);
  assert_outcome(add, outcome);
  if (strstr(message.text, said) == NULL) fail_msg("\"%s\"", message.text);
}

static void tls_1_2_and_1_3_are_spoken(void **state) {
  (void)state;
  expect_answers((tls_peer_script){.version = TLS1_2_VERSION});
  expect_answers((tls_peer_script){.version = TLS1_3_VERSION});
}

static void tls_1_1_is_not(void **state) {
  (void)state;
  expect_end((tls_peer_script){.version = TLS1_1_VERSION}, WEIR_NOT_SENT, "TLS: ");
}

/* More records than are read in a row: poll knows nothing of those that came with the others. */
static void records_that_come_together_are_all_read(void **state) {
  (void)state;
  expect_answers((tls_peer_script){.byte_by_byte = true});
  expect_answers((tls_peer_script){.byte_by_byte = true, .padding = 50});
  expect_answers((tls_peer_script){.byte_by_byte = true, .padding = 50, .version = TLS1_2_VERSION});
}

static void new_keys_are_taken_and_given(void **state) {
  (void)state;
  expect_answers((tls_peer_script){.renews_keys = true});
  expect_answers((tls_peer_script){.renews_keys = true, .byte_by_byte = true, .padding = 50});
}

static void half_an_answer_is_unknown(void **state) {
  (void)state;
  expect_end((tls_peer_script){.end = TLS_PEER_HANGS_UP}, WEIR_UNKNOWN, "closed the connection");
  expect_end((tls_peer_script){.end = TLS_PEER_SAYS_FAREWELL}, WEIR_UNKNOWN,
             "closed the connection");
}

static void a_forged_record_is_never_read(void **state) {
  (void)state;
  expect_end((tls_peer_script){.end = TLS_PEER_CORRUPTS}, WEIR_UNKNOWN, "TLS: ");
  expect_end((tls_peer_script){.end = TLS_PEER_CORRUPTS, .version = TLS1_2_VERSION}, WEIR_UNKNOWN,
             "TLS: ");
  expect_end((tls_peer_script){.end = TLS_PEER_TALKS_PLAINLY}, WEIR_UNKNOWN, "TLS: ");
}

static void expect_name(const char *host, const char *more, const char *name) {
  weir_message message = {""};
  struct tls_peer *peer = tls_peer_start((tls_peer_script){.version = 0});
  weir_store *store = open_peer(peer, host, more);
  assert_done(execute(store, add_to("weir:t:{p}:1", 1), &message), 7);
  assert_string_equal(tls_peer_heard_name(peer), name);
  weir_store_close(store);
  tls_peer_stop(peer);
}

static void a_name_is_sent_and_an_address_is_not(void **state) {
  (void)state;
  expect_name("localhost", "", "localhost");
  expect_name("localhost", "&tls-name=weir.test.", "weir.test");
  expect_name("127.0.0.1", "&tls-name=weir.test", "weir.test");
  expect_name("127.0.0.1", "", "");
  expect_name("localhost", "&tls-name=::1", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tls_1_2_and_1_3_are_spoken),
      cmocka_unit_test(tls_1_1_is_not),
      cmocka_unit_test(records_that_come_together_are_all_read),
      cmocka_unit_test(new_keys_are_taken_and_given),
      cmocka_unit_test(half_an_answer_is_unknown),
      cmocka_unit_test(a_forged_record_is_never_read),
      cmocka_unit_test(a_name_is_sent_and_an_address_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
