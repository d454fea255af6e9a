/* Names and certificates: who is believed to be the server, and what is shown to it; the options
 * that say so. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>

#include "wire/operations.h"

enum { KINDS = 2, TEXT_BYTES = 1024 };

/* A memcached and a Redis that ask no certificate of clients, one of each for what they show. */
static struct server *servers[KINDS][CERTIFICATE_COUNT];
/* The same with one that does. */
static struct server *strict[KINDS];

static struct server *start_kind(int kind, enum server_place place, enum certificate shown) {
  static const char *const lenient[] = {"--tls-auth-clients", "no", NULL};
  if (kind == 0) return server_start_memcached_tls(place, shown, NULL);
  return server_start_redis_tls(place, shown, lenient);
}

static struct server *server_of(int kind, enum certificate shown) {
  struct server **server = &servers[kind][shown];
  if (*server == NULL) *server = start_kind(kind, SERVER_IPV4, shown);
  return *server;
}

static weir_operation add_once(weir_store *store, weir_message *message) {
  weir_operation add = execute(store, add_to("weir:t:{tls}:1", 1), message);
  weir_store_close(store);
  return add;
}

static const char *trusting(const char *more) {
  static char query[TEXT_BYTES];
  snprintf(query, sizeof query, "tls-ca=%s%s", certificate_file(CERTIFICATE_CA), more);
  return query;
}

static void expect_accepted(struct server *server, const char *query) {
  weir_message message = {""};
  weir_operation add = add_once(open_servers(&server, 1, query), &message);
  if (add.outcome != WEIR_DONE) fail_msg("with %s: %s", query, message.text);
}

/* Final: it is known long before the deadline. */
static void expect_refused(struct server *server, const char *query, const char *reason) {
  weir_message message = {""};
  int64_t begin_us = weir_monotonic_us();
  weir_operation add = add_once(open_servers(&server, 1, query), &message);
  assert_outcome(add, WEIR_NOT_SENT);
  if (strstr(message.text, reason) == NULL || strstr(message.text, "TLS") == NULL)
    fail_msg("with %s: \"%s\" does not say \"%s\"", query, message.text, reason);
  assert_true(weir_monotonic_us() - begin_us < PATIENCE_MS * INT64_C(1000) / 2);
}

static void a_certificate_of_a_known_ca_is_accepted(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    expect_accepted(server_of(kind, CERTIFICATE_SERVER), trusting(""));
}

/* Whoever lists it trusts it, though another certificate signed it. */
static void a_certificate_that_is_listed_itself_is_accepted(void **state) {
  char query[TEXT_BYTES];
  (void)state;
  snprintf(query, sizeof query, "tls-ca=%s", certificate_file(CERTIFICATE_SERVER));
  for (int kind = 0; kind < KINDS; kind++)
    expect_accepted(server_of(kind, CERTIFICATE_SERVER), query);
}

static void a_certificate_of_an_unknown_ca_is_refused(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    expect_refused(server_of(kind, CERTIFICATE_SERVER), NULL, "self-signed certificate");
    expect_refused(server_of(kind, CERTIFICATE_STRANGER), trusting(""), "tls-ca and tls-name");
  }
}

static void an_expired_certificate_is_refused(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    expect_refused(server_of(kind, CERTIFICATE_EXPIRED), trusting(""), "certificate has expired");
}

static void a_certificate_of_another_name_is_refused(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    struct server *named = server_of(kind, CERTIFICATE_NAMED);
    expect_refused(named, trusting(""), "not accepted for \"127.0.0.1\": IP address mismatch");
    expect_refused(named, trusting("&tls-name=localhost"), "hostname mismatch");
    expect_refused(named, trusting("&tls-name=r.test"), "hostname mismatch");
    expect_accepted(named, trusting("&tls-name=weir.test"));
    expect_accepted(named, trusting("&tls-name=WEIR.test."));
  }
}

static void a_common_name_alone_names_nobody(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    expect_refused(server_of(kind, CERTIFICATE_BARE), trusting("&tls-name=localhost"), "mismatch");
}

static void an_address_is_verified_as_an_address(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    struct server *server = server_of(kind, CERTIFICATE_SERVER);
    expect_accepted(server, trusting("&tls-name=::1"));
    expect_refused(server, trusting("&tls-name=127.0.0.2"), "IP address mismatch");
    if (server_place_has_ipv6())
      expect_accepted(start_kind(kind, SERVER_IPV6, CERTIFICATE_SERVER), trusting(""));
  }
}

static void a_host_is_verified_as_it_is_spelled(void **state) {
  static const char *const schemes[KINDS] = {"memcacheds", "rediss"};
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    char url[SERVER_URL_BYTES];
    char spelled[SERVER_URL_BYTES];
    weir_message message = {""};
    weir_store *store = NULL;
    struct server *server = server_of(kind, CERTIFICATE_SERVER);
    server_url(&server, 1, trusting(""), url);
    snprintf(spelled, sizeof spelled, "%s://localhost%s", schemes[kind],
             strstr(url, "127.0.0.1") + strlen("127.0.0.1"));
    assert_int_equal(weir_store_open(spelled, &store, &message), WEIR_OK);
    assert_outcome(add_once(store, &message), WEIR_DONE);
  }
}

static void nothing_is_verified_where_the_url_says_so(void **state) {
  static const enum certificate shown[] = {CERTIFICATE_STRANGER, CERTIFICATE_EXPIRED,
                                           CERTIFICATE_NAMED, CERTIFICATE_BARE};
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
      expect_accepted(server_of(kind, shown[i]), "tls-verify=none");
  }
}

static const char *showing(enum certificate which) {
  static char query[TEXT_BYTES];
  snprintf(query, sizeof query, "tls-ca=%s&tls-cert=%s&tls-key=%s",
           certificate_file(CERTIFICATE_CA), certificate_file(which), certificate_key_file(which));
  return query;
}

static void a_server_that_asks_for_a_certificate_gets_it(void **state) {
  (void)state;
  strict[0] = server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER,
                                         (const char *const[]){"-o", "ssl_verify_mode=2", NULL});
  strict[1] = server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, NULL);
  for (int kind = 0; kind < KINDS; kind++) {
    expect_accepted(strict[kind], showing(CERTIFICATE_CLIENT));
    expect_refused(strict[kind], trusting(""), "tls-cert");
    expect_refused(strict[kind], showing(CERTIFICATE_STRANGER), "tls-cert");
    expect_accepted(strict[kind], showing(CERTIFICATE_CLIENT));
  }
}

/* An encrypted key must not make anybody ask at the terminal. */
static const char *write_encrypted_key(void) {
  static char path[TEXT_BYTES];
  EVP_PKEY *key = EVP_EC_gen("P-256");
  snprintf(path, sizeof path, "%s", server_write_file("encrypted.key", ""));
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), (const unsigned char *)"pass",
                                        4, NULL, NULL),
                   1);
  fclose(file);
  EVP_PKEY_free(key);
  return path;
}

static void expect_bad_url(const char *said, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void expect_bad_url(const char *said, const char *format, ...) {
  static const char *const schemes[KINDS] = {"memcacheds://localhost?", "rediss://localhost?"};
  for (int kind = 0; kind < KINDS; kind++) {
    char url[TEXT_BYTES * 2];
    int used = snprintf(url, sizeof url, "%s", schemes[kind]);
    weir_message message = {""};
    weir_store *store = NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(url + used, sizeof url - (size_t)used, format, arguments);
    va_end(arguments);
    assert_int_equal(weir_store_open(url, &store, &message), WEIR_BAD_URL);
    assert_null(store);
    if (strstr(message.text, said) == NULL)
      fail_msg("%s: \"%s\" does not say \"%s\"", url, message.text, said);
  }
}

/* OpenSSL keeps one queue of errors per thread, which a program shares with its libraries. */
static void errors_that_others_left_do_not_matter_and_none_is_left(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    weir_message message = {""};
    struct server *server = server_of(kind, CERTIFICATE_SERVER);
    weir_store *store = open_servers(&server, 1, trusting(""));
    for (int i = 0; i < 20; i++) {
      ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
      weir_operation add = execute(store, add_to("weir:t:{q}:1", 1), &message);
      if (add.outcome != WEIR_DONE) fail_msg("%s", message.text);
      assert_int_equal(ERR_peek_error(), 0);
    }
    weir_store_close(store);
    expect_refused(server_of(kind, CERTIFICATE_STRANGER), trusting(""), "not accepted");
    assert_int_equal(ERR_peek_error(), 0);
    expect_refused(strict[kind], trusting(""), "tls-cert");
    assert_int_equal(ERR_peek_error(), 0);
  }
}

static void options_that_cannot_be_used_are_named_with_the_reason(void **state) {
  (void)state;
  char other[TEXT_BYTES];
  snprintf(other, sizeof other, "%s", server_write_file("other.txt", "no certificate\n"));
  const char *client = certificate_file(CERTIFICATE_CLIENT);
  const char *key = certificate_key_file(CERTIFICATE_CLIENT);
  expect_bad_url("tls-ca=/no/file: the file cannot be read: No such file", "tls-ca=/no/file");
  expect_bad_url("cannot be read: Is a directory", "tls-ca=/");
  expect_bad_url("other.txt: not certificates in PEM form", "tls-ca=%s", other);
  expect_bad_url("not certificates in PEM form", "tls-ca=%s", key);
  expect_bad_url("tls-cert without tls-key", "tls-cert=%s", client);
  expect_bad_url("tls-key without tls-cert", "tls-key=%s", key);
  expect_bad_url("tls-key=/no/key: the file cannot be read", "tls-cert=%s&tls-key=/no/key", client);
  expect_bad_url("not a certificate in PEM form", "tls-cert=%s&tls-key=%s", other, key);
  expect_bad_url("not the private key of tls-cert", "tls-cert=%s&tls-key=%s", client, other);
  expect_bad_url("not the private key of tls-cert", "tls-cert=%s&tls-key=%s", client,
                 certificate_key_file(CERTIFICATE_STRANGER));
  expect_bad_url("without a passphrase", "tls-cert=%s&tls-key=%s", client, write_encrypted_key());
  expect_bad_url("tls-verify=maybe: accepted are full, none", "tls-verify=maybe");
  expect_bad_url("nothing is verified", "tls-verify=none&tls-ca=%s", client);
  expect_bad_url("tls-name=a/b: accepted are a host name", "tls-name=a/b");
  expect_bad_url("tls-name=[::1]: accepted are", "tls-name=[::1]");
  expect_bad_url("tls-name=.a", "tls-name=.a");
}

static void plain_urls_take_no_tls_options(void **state) {
  static const char *const urls[] = {
      "memcached://localhost?tls-ca=/x",      "memcached+unix:///s?tls-verify=none",
      "redis://localhost?tls-name=localhost", "redis+unix:///s?tls-cert=/x",
      "redis://localhost?tls-key=/x",
  };
  (void)state;
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    weir_message message = {""};
    weir_store *store = NULL;
    assert_int_equal(weir_store_open(urls[i], &store, &message), WEIR_BAD_URL);
    assert_non_null(strstr(message.text, "is an option of rediss:// and memcacheds://"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_certificate_of_a_known_ca_is_accepted),
      cmocka_unit_test(a_certificate_that_is_listed_itself_is_accepted),
      cmocka_unit_test(a_certificate_of_an_unknown_ca_is_refused),
      cmocka_unit_test(an_expired_certificate_is_refused),
      cmocka_unit_test(a_certificate_of_another_name_is_refused),
      cmocka_unit_test(a_common_name_alone_names_nobody),
      cmocka_unit_test(an_address_is_verified_as_an_address),
      cmocka_unit_test(a_host_is_verified_as_it_is_spelled),
      cmocka_unit_test(nothing_is_verified_where_the_url_says_so),
      cmocka_unit_test(a_server_that_asks_for_a_certificate_gets_it),
      cmocka_unit_test(errors_that_others_left_do_not_matter_and_none_is_left),
      cmocka_unit_test(options_that_cannot_be_used_are_named_with_the_reason),
      cmocka_unit_test(plain_urls_take_no_tls_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
