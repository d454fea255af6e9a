/* The structures hold what the file says, and the defaults of what it does not say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

static weir_config_faults faults;

static weir_config *read_text(const char *text) {
  faults = (weir_config_faults){0};
  weir_config *config = weir_config_read_text("/folder/f.yaml", text, strlen(text), &faults);
  assert_non_null(config);
  if (faults.count > 0) fail_msg("%s", faults.lines[0].text.text);
  return config;
}

static void test_defaults(void **state) {
  (void)state;
  weir_config *config = read_text(
      "listen: {resp: {}, http: {}, grpc: {}, admin: {}}\n"
      "stores: {m: {url: \"memory:\"}}\n"
      "limiters: {a: {rule: quota:1/s}}\n");
  assert_int_equal(config->listener_count, 4);
  static const char *const addresses[] = {"127.0.0.1:6380", "127.0.0.1:8080", "127.0.0.1:8081",
                                          "127.0.0.1:9090"};
  for (size_t i = 0; i < 4; i++) {
    const weir_config_listener *listener = &config->listeners[i];
    assert_int_equal(listener->protocol, i);
    assert_string_equal(listener->address, addresses[i]);
    assert_int_equal(listener->kind, WEIR_CONFIG_TCP);
    assert_int_equal(listener->socket.ss_family, AF_INET);
    assert_int_equal(listener->socket_length, sizeof(struct sockaddr_in));
    assert_int_equal(listener->mode, 0660);
    assert_null(listener->tls.certificate);
    assert_int_equal(listener->credential_count, 0);
    assert_int_equal(listener->denied_status, 429);
    assert_string_equal(listener->key.name, "key");
  }
  const weir_limiter_options *options = &config->stores[0].options;
  assert_int_equal(options->deadline_us, 0);
  assert_int_equal(options->fallback, WEIR_FALLBACK_LOCAL);
  assert_int_equal(options->processes, 0);
  const weir_config_limiter *limiter = &config->limiters[0];
  assert_ptr_equal(limiter->store, &config->stores[0]);
  assert_int_equal(limiter->cost, 1);
  assert_false(limiter->has_key);
  assert_int_equal(limiter->enforced, WEIR_CONFIG_ALL_KEYS);
  assert_int_equal(limiter->headers, WEIR_CONFIG_HEADERS_DRAFT_10);
  assert_int_equal(limiter->log_keys, WEIR_CONFIG_LOG_KEYS_OFF);
  assert_false(config->throttle.enabled);
  assert_int_equal(config->loops, 0);
  assert_int_equal(config->limits.connections, 10000);
  assert_int_equal(config->limits.drain_us, 10000000);
  weir_config_destroy(config);
}

static void test_parts_of_the_keys(void **state) {
  static const struct {
    const char *text;
    uint32_t enforced;
  } parts[] = {{"0%", 0},
               {"0.01%", 1},
               {"0.5%", 50},
               {"10%", 1000},
               {"12.25%", 1225},
               {"99.9%", 9990},
               {"100.00%", WEIR_CONFIG_ALL_KEYS}};
  (void)state;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "listen: {resp: {}}\n"
             "stores: {m: {url: \"memory:\"}}\n"
             "limiters: {a: {rule: quota:1/s, shadow: false, enforce: %s}}\n",
             parts[i].text);
    weir_config *config = read_text(text);
    assert_int_equal(config->limiters[0].enforced, parts[i].enforced);
    weir_config_destroy(config);
  }
}

static void test_listeners(void **state) {
  (void)state;
  setenv("WEIR_TEST_SECRET", "p@ss", 1);
  weir_config *config = read_text(
      "listen:\n"
      "  resp:\n"
      "    - {address: \"[::1]:7000\", auth: secret, says: [tenant, class]}\n"
      "    - {address: unix:/run/s, mode: \"600\", group: web, auth: {a: "
      "\"x${WEIR_TEST_SECRET}$\"}}\n"
      "    - {address: 10.0.0.1:7, insecure: true, reuse_port: true}\n"
      "    - {address: systemd:resp, auth: s, sets_limits: true}\n"
      "  http: {address: localhost:7, denied_status: 403, key: \"header:X-Key\", trusted: "
      "[10.0.0.0/8,"
      " \"fd00::/8\"], auth: [one, two], ipv4_bits: 24, ipv6_bits: 48}\n"
      "stores: {m: {url: \"memory:\"}}\n"
      "throttle: {enabled: true, throttlecrab: true, limiters: 7, memo_keys: 8}\n"
      "limits: {output: 64KiB, idle: 1m, connections: 5}\n"
      "loops: 3\n"
      "log: {format: json}\n"
      "shadow: true\n"
      "limiters: {a: {rule: quota:1/s, key: client, cost: 2147483648, headers: off, enforce: "
      "10%}}\n");
  const weir_config_listener *listener = config->listeners;
  assert_int_equal(config->listener_count, 5);
  assert_int_equal(listener->socket.ss_family, AF_INET6);
  assert_string_equal(listener->credentials[0].user, "default");
  assert_string_equal(listener->credentials[0].secret, "secret");
  assert_int_equal(listener->says, WEIR_CONFIG_CLASS | WEIR_CONFIG_TENANT);
  listener++;
  assert_int_equal(listener->says, 0);
  assert_int_equal(listener->kind, WEIR_CONFIG_UNIX);
  assert_string_equal(((const struct sockaddr_un *)(const void *)&listener->socket)->sun_path,
                      "/run/s");
  assert_int_equal(listener->mode, 0600);
  assert_string_equal(listener->group, "web");
  assert_string_equal(listener->credentials[0].user, "a");
  assert_string_equal(listener->credentials[0].secret, "xp@ss$");
  assert_int_equal(listener->credentials[0].secret_length, 6);
  listener++;
  assert_true(listener->insecure);
  assert_true(listener->reuse_port);
  assert_int_equal(config->log.format, WEIR_CONFIG_LOG_JSON);
  listener++;
  assert_int_equal(listener->kind, WEIR_CONFIG_SYSTEMD);
  assert_string_equal(listener->name, "resp");
  assert_true(listener->sets_limits);
  listener++;
  assert_int_equal(listener->protocol, WEIR_CONFIG_HTTP);
  assert_int_equal(listener->denied_status, 403);
  assert_false(listener->sets_limits);
  assert_int_equal(listener->key.kind, WEIR_CONFIG_KEY_HEADER);
  assert_string_equal(listener->key.name, "X-Key");
  assert_int_equal(listener->credential_count, 2);
  assert_null(listener->credentials[1].user);
  assert_string_equal(listener->credentials[1].secret, "two");
  char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  assert_int_equal(weir_http_client_key(listener->trusted, "10.1.1.1", "192.0.2.7",
                                        listener->ipv4_bits, listener->ipv6_bits, key, NULL),
                   WEIR_OK);
  assert_string_equal(key, "192.0.2.0/24");
  assert_true(config->throttle.enabled && config->throttle.throttlecrab);
  assert_int_equal(config->throttle.limiters, 7);
  assert_int_equal(config->throttle.memo_keys, 8);
  assert_int_equal(config->limits.output_bytes, 65536);
  assert_int_equal(config->limits.idle_us, 60000000);
  assert_int_equal(config->limits.connections, 5);
  assert_int_equal(config->loops, 3);
  const weir_config_limiter *limiter = &config->limiters[0];
  assert_true(limiter->has_key);
  assert_int_equal(limiter->enforced, 0); /* all are in shadow mode */
  assert_int_equal(limiter->key.kind, WEIR_CONFIG_KEY_CLIENT);
  assert_int_equal(limiter->cost, INT64_C(2147483648));
  assert_int_equal(limiter->headers, WEIR_CONFIG_HEADERS_OFF);
  weir_config_destroy(config);
}

/* Before the last '@' of a URL what is put in is escaped, behind it it is not. */
static void test_secrets_of_urls(void **state) {
  (void)state;
  char text[512], file[] = "/tmp/weir-secret-XXXXXX";
  int descriptor = mkstemp(file);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, "a/b%c\r\n", 7), 7);
  close(descriptor);
  setenv("WEIR_TEST_SECRET", "p@s:\xc3", 1);
  setenv("WEIR_TEST_HOSTS", "one,two:12", 1);
  setenv("WEIR_TEST_URL", "redis://u:p@h", 1);
  snprintf(text, sizeof text,
           "listen: {resp: {}}\nlimiters: {a: {store: a, rule: quota:1/s}}\nstores:\n"
           "  a: {url: \"redis://u:${WEIR_TEST_SECRET}@${WEIR_TEST_HOSTS}?timeout=1s\"}\n"
           "  b: {url: \"redis://u:${file:%s}@h\", deadline: 5ms, fallback: none, processes: 9}\n"
           "  c: {url: \"${WEIR_TEST_URL}\"}\n",
           file);
  weir_config *config = read_text(text);
  assert_string_equal(config->stores[0].url, "redis://u:p%40s%3A%C3@one,two:12?timeout=1s");
  assert_int_equal(config->stores[0].options.deadline_us, 0); /* the URL's own */
  assert_string_equal(config->stores[1].url, "redis://u:a%2Fb%25c@h");
  assert_int_equal(config->stores[1].options.deadline_us, 5000);
  assert_int_equal(config->stores[1].options.fallback, WEIR_FALLBACK_NONE);
  assert_int_equal(config->stores[1].options.processes, 9);
  assert_string_equal(config->stores[2].url, "redis://u:p@h");
  assert_int_equal(config->file_count, 2);
  assert_string_equal(config->files[0].name, "/folder/f.yaml");
  assert_string_equal(config->files[1].name, file);
  weir_config_destroy(config);
  unlink(file);
}

static void test_names_of_files_are_beside_the_configuration(void **state) {
  (void)state;
  weir_config *config = read_text(
      "listen: {resp: {}}\nstores: {m: {url: \"memory:\"}}\n"
      "limiters: {a: {rule: quota:1/s, overrides_file: o}, b: {rule: quota:1/s, overrides_file: "
      "/o}}\n");
  assert_string_equal(config->limiters[0].overrides_file, "/folder/o");
  assert_string_equal(config->limiters[1].overrides_file, "/o");
  weir_config_destroy(config);
}

static void test_a_client_behind_a_proxy_is_told(void **state) {
  static const char rest[] =
      "stores: {m: {url: \"memory:\"}}\nlimiters: {a: {rule: quota:1/s%s}}\n";
  static const struct {
    const char *http, *limiter;
    bool warns;
  } cases[] = {
      {"key: client, address: \"0.0.0.0:80\", insecure: true", "", true},
      {"address: \"0.0.0.0:80\", insecure: true", ", key: client", true},
      {"address: \"0.0.0.0:80\", insecure: true", "", false},
      {"address: \"0.0.0.0:80\", insecure: true", ", key: \"query:k\"", false},
      {"key: client, address: \"127.0.0.1:80\"", "", false},
      {"key: client, address: \"unix:/run/s\"", "", false},
      {"key: client, address: \"0.0.0.0:80\", insecure: true, trusted: [10.0.0.1]", "", false},
      {"key: client, address: \"0.0.0.0:80\", insecure: true, trusted: []", "", false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static weir_config_faults found, warnings;
    char text[512];
    found = (weir_config_faults){.warnings = &warnings};
    warnings = (weir_config_faults){0};
    int head = snprintf(text, sizeof text, "listen: {http: {%s}}\n", cases[i].http);
    snprintf(text + head, sizeof text - (size_t)head, rest, cases[i].limiter);
    weir_config_destroy(weir_config_read_text("f.yaml", text, strlen(text), &found));
    assert_int_equal(found.count, 0);
    if (warnings.count != cases[i].warns) fail_msg("%s", text);
    if (!cases[i].warns) continue;
    const char *said = warnings.lines[0].text.text;
    if (strstr(said, "f.yaml:1:16: warning: listen.http: key: client without trusted: ") != said)
      fail_msg("%s", said);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_parts_of_the_keys),
      cmocka_unit_test(test_listeners),
      cmocka_unit_test(test_secrets_of_urls),
      cmocka_unit_test(test_a_client_behind_a_proxy_is_told),
      cmocka_unit_test(test_names_of_files_are_beside_the_configuration),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
