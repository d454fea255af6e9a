/* Client addresses as keys: what a client can write itself must not choose its key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

static weir_http_networks *networks_of(const char *text) {
  weir_http_networks *networks;
  weir_message message;
  assert_int_equal(weir_http_networks_create(text, &networks, &message), WEIR_OK);
  return networks;
}

/* The key, or "" for an error. */
static const char *key_of(const weir_http_networks *trusted, const char *peer,
                          const char *forwarded_for) {
  static char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  weir_http_client_key(trusted, peer, forwarded_for, 0, 0, key, NULL);
  return key;
}

static void addresses_become_keys(void **state) {
  (void)state;
  static const struct {
    const char *peer;
    const char *key;
  } cases[] = {
      {"192.0.2.7", "192.0.2.7"},
      {"192.0.2.7:4711", "192.0.2.7"},
      {"::ffff:192.0.2.7", "192.0.2.7"},
      {"[::ffff:192.0.2.7]:80", "192.0.2.7"},
      {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
      {"[2001:DB8:1:2::6]:443", "2001:db8:1:2::/64"},
      {"[2001:db8::1]", "2001:db8::/64"},
      {"fe80::1%eth0", "fe80::/64"},
      {"::1", "::/64"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_string_equal(key_of(NULL, cases[i].peer, NULL), cases[i].key);
}

static void what_is_no_address_is_an_error(void **state) {
  (void)state;
  static const char *const peers[] = {
      "",
      "unix:",
      "localhost",
      "192.0.2",
      "192.0.2.7:",
      "192.0.2.7:x",
      "192.0.2.07",
      "192.0.2.7:1:2",
      "[192.0.2.7]",
      "[2001:db8::1",
      "2001:db8::g",
      "1.2.3.4%eth0",
      "[2001:db8::1]x",
      "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"};
  for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
    char key[WEIR_HTTP_CLIENT_KEY_BYTES];
    weir_message message;
    assert_int_equal(weir_http_client_key(NULL, peers[i], NULL, 0, 0, key, &message),
                     WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "is no address"));
    assert_string_equal(key, "");
  }
  assert_string_equal(key_of(NULL, NULL, NULL), "");
}

static void nobody_is_believed_who_is_not_trusted(void **state) {
  (void)state;
  weir_http_networks *proxies = networks_of("10.0.0.0/8, fd00::/8");
  assert_string_equal(key_of(NULL, "10.0.0.1", "192.0.2.1"), "10.0.0.1");
  assert_string_equal(key_of(proxies, "192.0.2.9", "192.0.2.1"), "192.0.2.9");
  weir_http_networks_destroy(proxies);
}

static void the_first_stranger_from_the_right_is_the_client(void **state) {
  (void)state;
  static const struct {
    const char *peer;
    const char *field;
    const char *key;
  } cases[] = {
      {"10.0.0.1", NULL, "10.0.0.1"},
      {"10.0.0.1", "", "10.0.0.1"},
      {"10.0.0.1", "192.0.2.1", "192.0.2.1"},
      {"10.0.0.1", "192.0.2.1, 10.0.0.2", "192.0.2.1"},
      {"fd00::1", " 192.0.2.1 ,\t10.0.0.2", "192.0.2.1"},
      {"10.0.0.1", "1.1.1.1, 192.0.2.1", "192.0.2.1"}, /* the left one is the client's own word */
      {"10.0.0.1", "10.9.9.9, 192.0.2.1, 10.0.0.2", "192.0.2.1"},
      {"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"}, /* all are trusted: a client within */
      {"10.0.0.1", "junk, 10.0.0.2", "10.0.0.2"},
      {"10.0.0.1", "192.0.2.1, junk", "10.0.0.1"},
      {"10.0.0.1", "192.0.2.1,", "10.0.0.1"},
      {"10.0.0.1", ",", "10.0.0.1"},
      {"10.0.0.1", "unknown", "10.0.0.1"},
      {"10.0.0.1", "[2001:db8:1:2::9]:1234", "2001:db8:1:2::/64"},
      {"::ffff:10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"},
  };
  weir_http_networks *proxies = networks_of("10.0.0.0/8 fd00::/8");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_string_equal(key_of(proxies, cases[i].peer, cases[i].field), cases[i].key);
  weir_http_networks_destroy(proxies);
}

static void networks_end_at_their_bits(void **state) {
  (void)state;
  static const struct {
    const char *network;
    const char *peer;
    bool inside;
  } cases[] = {
      {"10.0.0.0/8", "10.255.255.255", true},
      {"10.0.0.0/8", "11.0.0.0", false},
      {"10.1.2.3/8", "10.9.9.9", true},
      {"192.0.2.7", "192.0.2.7", true},
      {"192.0.2.7", "192.0.2.6", false},
      {"192.0.2.128/25", "192.0.2.127", false},
      {"192.0.2.128/25", "192.0.2.200", true},
      {"0.0.0.0/0", "203.0.113.9", true},
      {"0.0.0.0/0", "2001:db8::1", false},
      {"::/0", "2001:db8::1", true},
      {"::/0", "203.0.113.9", false},
      {"fd00::/8", "fdff::1", true},
      {"2001:db8::/33", "2001:db8:8000::", false},
      {"::ffff:10.0.0.0/8", "10.1.1.1", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_http_networks *trusted = networks_of(cases[i].network);
    bool believed = strcmp(key_of(trusted, cases[i].peer, "198.51.100.1"), "198.51.100.1") == 0;
    assert_int_equal(believed, cases[i].inside);
    weir_http_networks_destroy(trusted);
  }
}

static void bad_networks_are_named(void **state) {
  (void)state;
  static const char *const texts[] = {"10.0.0.0/33",  "fd00::/129", "10.0.0.0/",   "10.0.0.0/x",
                                      "10.0.0.0/8/8", "example",    "10.0.0.0/-1", "::1/0128"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char text[64] = "::1, ";
    weir_http_networks *networks;
    weir_message message;
    strcat(text, texts[i]);
    assert_int_equal(weir_http_networks_create(text, &networks, &message), WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, texts[i]));
    assert_null(networks);
  }
  weir_http_networks *networks;
  assert_int_equal(weir_http_networks_create(NULL, &networks, NULL), WEIR_BAD_ARGUMENT);
  char many[(WEIR_HTTP_NETWORKS_MOST + 1) * 4 + 1] = "";
  for (int i = 0; i < WEIR_HTTP_NETWORKS_MOST; i++)
    strcat(many, "::1 ");
  networks = networks_of(many);
  weir_http_networks_destroy(networks);
  strcat(many, "::1 ");
  assert_int_equal(weir_http_networks_create(many, &networks, NULL), WEIR_BAD_ARGUMENT);
}

static void as_many_bits_count_as_the_service_says(void **state) {
  (void)state;
  char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  weir_message message;
  assert_int_equal(weir_http_client_key(NULL, "192.0.2.7", NULL, 24, 0, key, &message), WEIR_OK);
  assert_string_equal(key, "192.0.2.0/24");
  assert_int_equal(weir_http_client_key(NULL, "2001:db8:1:2::9", NULL, 0, 48, key, &message),
                   WEIR_OK);
  assert_string_equal(key, "2001:db8:1::/48");
  assert_int_equal(weir_http_client_key(NULL, "2001:db8:1:2::9", NULL, 0, 128, key, &message),
                   WEIR_OK);
  assert_string_equal(key, "2001:db8:1:2::9");
  assert_int_equal(weir_http_client_key(NULL, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, 0,
                                        127, key, &message),
                   WEIR_OK);
  assert_string_equal(key, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
  assert_int_equal(weir_http_client_key(NULL, "192.0.2.7", NULL, 33, 0, key, &message),
                   WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "ipv4_bits is 33"));
  assert_int_equal(weir_http_client_key(NULL, "192.0.2.7", NULL, 0, 129, key, &message),
                   WEIR_BAD_ARGUMENT);
}

static void networks_contain_what_lies_in_them(void **state) {
  weir_http_networks *networks = networks_of("10.0.0.0/8 2001:db8::/32");
  (void)state;
  assert_true(weir_http_networks_contain(networks, "10.255.0.1"));
  assert_true(weir_http_networks_contain(networks, "10.255.0.1:80"));
  assert_true(weir_http_networks_contain(networks, "::ffff:10.0.0.1"));
  assert_true(weir_http_networks_contain(networks, "[2001:db8:1::1]:443"));
  assert_false(weir_http_networks_contain(networks, "11.0.0.1"));
  assert_false(weir_http_networks_contain(networks, "2001:db9::1"));
  assert_false(weir_http_networks_contain(networks, "10.0.0.1, 11.0.0.1"));
  assert_false(weir_http_networks_contain(networks, ""));
  assert_false(weir_http_networks_contain(networks, NULL));
  assert_false(weir_http_networks_contain(NULL, "10.0.0.1"));
  weir_http_networks_destroy(networks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(addresses_become_keys),
      cmocka_unit_test(what_is_no_address_is_an_error),
      cmocka_unit_test(nobody_is_believed_who_is_not_trusted),
      cmocka_unit_test(the_first_stranger_from_the_right_is_the_client),
      cmocka_unit_test(networks_end_at_their_bits),
      cmocka_unit_test(bad_networks_are_named),
      cmocka_unit_test(networks_contain_what_lies_in_them),
      cmocka_unit_test(as_many_bits_count_as_the_service_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
