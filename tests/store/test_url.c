#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/url.h"

static const char *const no_options[] = {NULL};
static const char *const some_options[] = {"protocol", "depth", NULL};

static const weir_scheme here_schemes[] = {{"here", 0}, {NULL, 0}};
static const weir_scheme many_schemes[] = {
    {"many", WEIR_URL_HOSTS}, {"many+unix", WEIR_URL_PATH}, {NULL, 0}};
static const weir_scheme one_schemes[] = {
    {"one", WEIR_URL_HOST | WEIR_URL_USER}, {"one+unix", WEIR_URL_PATH | WEIR_URL_USER}, {NULL, 0}};

static const weir_scheme both_schemes[] = {{"both", WEIR_URL_HOST | WEIR_URL_PATH}, {NULL, 0}};

static const weir_backend here = {.name = "here", .schemes = here_schemes, .options = no_options};
static const weir_backend many = {.name = "many", .schemes = many_schemes, .options = some_options};
static const weir_backend one = {.name = "one", .schemes = one_schemes, .options = some_options};
static const weir_backend both = {.name = "both", .schemes = both_schemes, .options = no_options};
static const weir_backend *const backends[] = {&here, &many, &one, &both, NULL};

static weir_parsed_url parse(const char *text) {
  weir_parsed_url parsed;
  weir_message message = {""};
  if (weir_url_parse(text, backends, &parsed, &message) != WEIR_OK)
    fail_msg("%s: %s", text, message.text);
  return parsed;
}

/* The message must begin as every message of a URL does and hold `part`. */
static void assert_fault(const char *text, const char *part) {
  weir_parsed_url parsed;
  weir_message message = {""};
  if (weir_url_parse(text, backends, &parsed, &message) != WEIR_BAD_URL)
    fail_msg("\"%s\" is accepted", text);
  if (strncmp(message.text, "store URL: ", 11) != 0 || strstr(message.text, part) == NULL)
    fail_msg("\"%s\": the message \"%s\" lacks \"%s\"", text, message.text, part);
  assert_null(parsed.memory);
}

static void a_scheme_alone_is_enough_where_no_part_is_needed(void **state) {
  (void)state;
  static const char *const texts[] = {"here:",  "here://", "here:///",
                                      "here:/", "here:?",  "here:///?"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    weir_parsed_url parsed = parse(texts[i]);
    assert_ptr_equal(parsed.backend, &here);
    assert_string_equal(parsed.url.scheme, "here");
    assert_int_equal(parsed.url.host_count, 0);
    assert_int_equal(parsed.url.option_count, 0);
    assert_null(parsed.url.path);
    assert_null(parsed.url.user);
    weir_url_clear(&parsed);
  }
}

static void assert_host(const weir_url *url, size_t index, const char *name, int port, int weight) {
  assert_true(index < url->host_count);
  assert_string_equal(url->hosts[index].name, name);
  assert_int_equal(url->hosts[index].port, port);
  assert_int_equal(url->hosts[index].weight, weight);
}

static void hosts_may_have_ports_and_weights(void **state) {
  (void)state;
  weir_parsed_url parsed =
      parse("many://a,b:1,c.example-1_x:65535:1000000,[::1],[fe80::1%25lo]:7:2,192.0.2.1");
  assert_int_equal(parsed.url.host_count, 6);
  assert_host(&parsed.url, 0, "a", 0, 1);
  assert_host(&parsed.url, 1, "b", 1, 1);
  assert_host(&parsed.url, 2, "c.example-1_x", 65535, 1000000);
  assert_host(&parsed.url, 3, "::1", 0, 1);
  assert_host(&parsed.url, 4, "fe80::1%lo", 7, 2);
  assert_host(&parsed.url, 5, "192.0.2.1", 0, 1);
  weir_url_clear(&parsed);
}

static void user_and_password_stand_before_the_last_at_sign(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *user;
    const char *password;
  } cases[] = {
      {"one://ann:s3cret@h:1", "ann", "s3cret"}, {"one://ann@h:1", "ann", NULL},
      {"one://:s3cret@h:1", NULL, "s3cret"},     {"one://@h:1", NULL, NULL},
      {"one://ann:a:b@c@h:1", "ann", "a:b@c"},   {"one://a%3Ann:%2F%3f%40%25@h:1", "a:nn", "/?@%"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_parsed_url parsed = parse(cases[i].text);
    assert_host(&parsed.url, 0, "h", 1, 1);
    for (int part = 0; part < 2; part++) {
      const char *found = part == 0 ? parsed.url.user : parsed.url.password;
      const char *expected = part == 0 ? cases[i].user : cases[i].password;
      if (expected == NULL)
        assert_null(found);
      else
        assert_string_equal(found, expected);
    }
    weir_url_clear(&parsed);
  }
}

static void a_path_begins_with_its_slash_and_is_decoded(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"many+unix:///run/a.sock", "/run/a.sock"},
      {"many+unix:/run/a.sock", "/run/a.sock"},
      {"many+unix:///a%20b%3Fc", "/a b?c"},
      {"one+unix://u:p@/s?depth=1", "/s"},
      {"many+unix:////s", "//s"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    weir_parsed_url parsed = parse(texts[i][0]);
    assert_string_equal(parsed.url.path, texts[i][1]);
    assert_int_equal(parsed.url.host_count, 0);
    weir_url_clear(&parsed);
  }
}

static void a_path_after_a_host_may_be_left_out(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"both://h", NULL}, {"both://h/", NULL}, {"both://h/7?timeout=1s", "/7"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    weir_parsed_url parsed = parse(texts[i][0]);
    assert_host(&parsed.url, 0, "h", 0, 1);
    if (texts[i][1] == NULL)
      assert_null(parsed.url.path);
    else
      assert_string_equal(parsed.url.path, texts[i][1]);
    weir_url_clear(&parsed);
  }
  assert_fault("both:/7", "the host is missing");
}

static void options_are_decoded_and_found_by_name(void **state) {
  (void)state;
  weir_parsed_url parsed = parse("many://h/?protocol=a%26b=c&names%70ace=x&depth=+");
  assert_int_equal(parsed.url.option_count, 3);
  assert_string_equal(weir_url_find(&parsed.url, "protocol"), "a&b=c");
  assert_string_equal(weir_url_find(&parsed.url, "namespace"), "x");
  assert_string_equal(weir_url_find(&parsed.url, "depth"), "+");
  assert_null(weir_url_find(&parsed.url, "timeout"));
  weir_url_clear(&parsed);
}

static void every_fault_names_the_offending_part(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "no scheme that is known: accepted are here"},
      {"localhost:11211",
       "no scheme that is known: accepted are here, many, many+unix, one, one+unix, both"},
      {"HERE:", "unknown scheme \"HERE\""},
      {"HERE://", "unknown scheme \"HERE\""},
      {"redsi://ann:s3cret@h", "unknown scheme \"redsi\""},
      {"redsi", "no scheme that is known"},
      {"here", "no ':' after \"here\""},
      {"here:x", "after \"here:\" neither // nor a path nor ? follows"},
      {"here://h", "here takes no host"},
      {"here:///x", "here takes no path"},
      {"many:", "the host is missing"},
      {"many://", "host 1 of the list: the host is missing"},
      {"many:///x", "the host is missing"},
      {"many://a,", "host 2 of the list: the host is missing"},
      {"many://a,,b", "host 2 of the list: the host is missing"},
      {"many://:11211", "the host is missing"},
      {"many://h:", "the port is not a number from 1 to 65535"},
      {"many://h:x", "the port is not a number from 1 to 65535"},
      {"many://h:-1", "the port is not a number"},
      {"many://h:0", "the port is not a number from 1 to 65535"},
      {"many://h:65536", "the port is not a number from 1 to 65535"},
      {"many://h:99999", "the port is not a number from 1 to 65535"},
      {"many://a,h:18446744073709551617", "host 2 of the list: the port is not a number"},
      {"many://h:1:0", "the weight is not a number from 1 to 1000000"},
      {"many://h:1:1000001", "the weight is not a number from 1 to 1000000"},
      {"many://h:1:", "the weight is not a number"},
      {"many://h:1:2:3", "an IPv6 address stands in brackets"},
      {"many://::1", "an IPv6 address stands in brackets"},
      {"many://fe80::1", "an IPv6 address stands in brackets"},
      {"many://[::1", "must end in ']'"},
      {"many://[::1]11211", "must end in ']'"},
      {"many://[]", "the host is missing"},
      {"many://[h]", "what stands in brackets is not an IPv6 address"},
      {"many://[::1%25]", "what stands in brackets is not an IPv6 address"},
      {"many://h%20h", "the host is no name: accepted are A-Z"},
      {"many://h%0a", "host 1 of the list: the host is no name: accepted are A-Z"},
      {"many://h/1", "many takes no path"},
      {"many://ann@h", "many takes no user and no password"},
      {"many+unix:", "the path is missing: write many+unix:///path"},
      {"many+unix:///", "the path is missing"},
      {"many+unix://run/x", "many+unix takes no host"},
      {"one://a,b", "one takes one host"},
      {"one://a:1:2", "one takes no weight"},
      {"one://u:p/w@h", "a '@' after the hosts"},
      {"one://u:p?w@h", "a '@' after the hosts"},
      {"many://h?depth=a@b", "write it as %40"},
      {"one:u@h", "a '@' after the hosts"},
      {"here:?depth=1", "unknown option \"depth\": here accepts namespace, timeout"},
      {"many://h?dept=1",
       "unknown option \"dept\": many accepts namespace, timeout, protocol, depth"},
      {"many://h?depth=1&depth=1", "option depth is given twice"},
      {"here:?timeout=1s&timeout=1s", "option timeout is given twice"},
      {"many://h?Dept=1", "unknown option: many accepts namespace"},
      {"many://h?dept", "unknown option: many accepts namespace"},
      {"many://h?depth", "option depth has no value: write depth=..."},
      {"many://h?depth=", "option depth has no value"},
      {"many://h?=1", "an option has no name"},
      {"many://h?depth=1&", "an option has no name"},
      {"many://h?&depth=1", "an option has no name"},
      {"many://h?depth=%", "bad percent escape in the value of an option"},
      {"many://h?depth=%4", "bad percent escape"},
      {"many://h?depth=%4g", "bad percent escape"},
      {"many://h?depth=%g4", "bad percent escape"},
      {"many://h?depth=a%00b", "not %00"},
      {"many://h?%zz=1", "bad percent escape in the name of an option"},
      {"many://%zz", "bad percent escape in the host"},
      {"many+unix:///%0", "bad percent escape in the path"},
      {"one://%:p@h", "bad percent escape in the user"},
      {"one://u:%00@h", "bad percent escape in the password"},
      {"many://a b", "byte 0x20 at offset 8"},
      {"many://a\r\nb", "byte 0x0d at offset 8"},
      {"many://\xc3\xa4", "byte 0xc3 at offset 7"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_fault(cases[i][0], cases[i][1]);
  assert_fault(NULL, "none given");
}

static void the_length_is_bounded(void **state) {
  (void)state;
  char text[WEIR_URL_BYTES_MOST + 2] = "many+unix:///";
  size_t used = strlen(text);
  memset(text + used, 'x', sizeof text - used);
  text[WEIR_URL_BYTES_MOST + 1] = '\0';
  assert_fault(text, "longer than 4096 bytes");
  text[WEIR_URL_BYTES_MOST] = '\0';
  weir_parsed_url parsed = parse(text);
  assert_int_equal(strlen(parsed.url.path), WEIR_URL_BYTES_MOST - strlen("many+unix://"));
  weir_url_clear(&parsed);
}

static void long_lists_have_room(void **state) {
  (void)state;
  char text[WEIR_URL_BYTES_MOST + 1] = "many://h";
  for (size_t at = strlen(text); at + 2 < sizeof text; at += 2)
    memcpy(text + at, ",h", 3);
  weir_parsed_url parsed = parse(text);
  assert_int_equal(parsed.url.host_count, (strlen(text) - strlen("many://") + 1) / 2);
  assert_host(&parsed.url, parsed.url.host_count - 1, "h", 0, 1);
  weir_url_clear(&parsed);
}

#define SECRET "sesame"

static void no_message_holds_a_credential(void **state) {
  (void)state;
  static const char *const texts[] = {
      "s3cret:s3cret@h",
      "one:s3cret:s3cret@h",
      "one://s3cret:s3cret@",
      "one://s3cret:s3cret@:1",
      "one://s3cret@s3cret@h:",
      "one://s3cret:s3cret@h:99999",
      "one://s3cret/s3cret@h",
      "one://s3cret?s3cret=1@h",
      "one://s3cret:s3cret@h?x=1",
      "one://s3cret:1/s3cret@h",
      "one://s3cret:1?depth=s3cret@h",
      "one://s3cret:s3cret@a,b",
      "one://s3cret%zz:s3cret@h",
      "one://s3cret:s3cret%00@h",
      "one://s3cret:s3cret@h/1",
      "many://s3cret:s3cret@h",
      "many://a,s3cret:s3cret@h",
      "nope://s3cret:s3cret@h",
      "here://s3cret:s3cret@",
      "one+unix://s3cret:s3cret@",
      "one+unix://s3cret:s3cret@/",
      /* the '@' forgotten */
      "one://ann:s3cret",
      "many://ann:s3cret",
      "here://ann:s3cret",
      "one://:s3cret",
      "here://s3cret",
      "one://s3cret!",
      "one://[s3cret]",
      "one:s3cret",
      "one:/s3cret",
      "one://ann:1/s3cret",
      "one://ann:1?s3cret",
      "many://ann:1,s3cret!",
      "one+unix://s3cret/s",
      "s3cret",
      "s3cret@h",
      "s3cret@one://h",
      "ann:s3cret",
      ":s3cret@h",
      "://:s3cret@h",
      "one:@s3cret",
      "one://ann@:s3cret",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    weir_parsed_url parsed;
    weir_message message = {""};
    assert_int_equal(weir_url_parse(texts[i], backends, &parsed, &message), WEIR_BAD_URL);
    if (strstr(message.text, "s3cret") != NULL) fail_msg("%s: %s", texts[i], message.text);
  }
}

/* Whether the secret stands where a message may quote it: in what is surely a scheme, or in an
 * option's name or value. */
static bool may_be_quoted(const char *text) {
  const char *secret = strstr(text, SECRET);
  const char *colon = strchr(text, ':');
  if (colon != NULL && colon > secret && (strncmp(colon, "://", 3) == 0 || colon[1] == '\0'))
    return true;
  const char *option = secret;
  while (option > text && option[-1] != '?' && option[-1] != '&')
    option--;
  return option > text && memchr(option, '=', strcspn(option, "&")) != NULL;
}

/* URLs, well-formed or not, of up to six of these pieces around the secret. */
static void no_arrangement_of_pieces_shows_a_credential(void **state) {
  (void)state;
  static const char *const pieces[] = {"",   "one", "here", "many", "ann", "1", ":",   "@",
                                       "//", "/",   "?",    "=",    ",",   "[", "%40", "depth"};
  enum { PIECES = sizeof pieces / sizeof *pieces, BEFORE = 4, AFTER = 2 };
  unsigned count = 1;
  for (int i = 0; i < BEFORE + AFTER; i++)
    count *= PIECES;
  for (unsigned number = 0; number < count; number += 31) { /* a prime: one in 31 */
    char text[64] = "";
    unsigned rest = number;
    for (int i = 0; i < BEFORE + AFTER; i++, rest /= PIECES) {
      if (i == BEFORE) strcat(text, SECRET);
      strcat(text, pieces[rest % PIECES]);
    }
    weir_parsed_url parsed;
    weir_message message = {""};
    if (weir_url_parse(text, backends, &parsed, &message) == WEIR_OK)
      weir_url_clear(&parsed);
    else if (strstr(message.text, SECRET) != NULL && !may_be_quoted(text))
      fail_msg("%s: %s", text, message.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_scheme_alone_is_enough_where_no_part_is_needed),
      cmocka_unit_test(hosts_may_have_ports_and_weights),
      cmocka_unit_test(user_and_password_stand_before_the_last_at_sign),
      cmocka_unit_test(a_path_begins_with_its_slash_and_is_decoded),
      cmocka_unit_test(a_path_after_a_host_may_be_left_out),
      cmocka_unit_test(options_are_decoded_and_found_by_name),
      cmocka_unit_test(every_fault_names_the_offending_part),
      cmocka_unit_test(the_length_is_bounded),
      cmocka_unit_test(long_lists_have_room),
      cmocka_unit_test(no_message_holds_a_credential),
      cmocka_unit_test(no_arrangement_of_pieces_shows_a_credential),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
