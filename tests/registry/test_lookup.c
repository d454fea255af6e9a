/* Which limiter a name and a key lead to. */
#include "registry/built.h"

#include <unistd.h>

#include "registry/registry.h"

static const char text[] = LISTEN
    "stores: {m: {url: \"memory:?namespace=a\"}, n: {url: \"memory:?namespace=b\"},"
    " o: {url: \"memory:?namespace=a\", fallback: deny}}\n"
    "limiters:\n"
    "  api:\n"
    "    store: m\n"
    "    rule: quota:2/1h\n"
    "    cost: 3\n"
    "    tiers: {gold: \"quota:5/1h\", silver: \"quota:4/1h\", partner: unlimited, banned: "
    "blocked}\n"
    "    overrides: {alice: gold, bob: partner, eve: banned, \"svc-*\": partner, \"svc-x*\": "
    "silver,"
    " \"*-svc-*-z\": gold, \"svc-xy\": banned, \"nul\\0l\": gold}\n"
    "    allow: [friend, \"*.example\", eve]\n"
    "    block: [\"bad-*\", \"friend-of-bad\", \"bad.example\"]\n"
    "  same: {store: m, rule: \"quota:2/1h\"}\n"
    "  other-store: {store: n, rule: \"quota:2/1h\"}\n"
    "  other-options: {store: o, rule: \"quota:2/1h\"}\n"
    "  other-rule: {store: m, rule: \"quota:2/2h\"}\n";

static void test_keys_lead_to_tiers(void **state) {
  static const struct {
    const char *key, *tier;
    weir_target_kind kind;
  } cases[] = {
      {"anybody", "", WEIR_TARGET_LIMITER},
      {"alice", "gold", WEIR_TARGET_LIMITER},
      {"alic", "", WEIR_TARGET_LIMITER},
      {"alice2", "", WEIR_TARGET_LIMITER},
      {"bob", "partner", WEIR_TARGET_UNLIMITED},
      {"eve", "", WEIR_TARGET_UNLIMITED},
      {"svc-", "partner", WEIR_TARGET_UNLIMITED},
      {"svc-a", "partner", WEIR_TARGET_UNLIMITED},
      {"svc-x", "silver", WEIR_TARGET_LIMITER},
      {"svc-xyz", "silver", WEIR_TARGET_LIMITER},
      {"svc-xy", "banned", WEIR_TARGET_BLOCKED},
      {"a-svc-b-z", "gold", WEIR_TARGET_LIMITER},
      {"svc-x-svc-b-z", "gold", WEIR_TARGET_LIMITER},
      {"a-svc-b-zz", "", WEIR_TARGET_LIMITER},
      {"friend", "", WEIR_TARGET_UNLIMITED},
      {"a.example", "", WEIR_TARGET_UNLIMITED},
      {"bad-alice", "", WEIR_TARGET_BLOCKED},
      {"friend-of-bad", "", WEIR_TARGET_BLOCKED},
      {"bad.example", "", WEIR_TARGET_BLOCKED},
      {"", "", WEIR_TARGET_LIMITER},
  };
  (void)state;
  weir_registry *registry = build(text, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_target target = target_of(registry, "api", cases[i].key);
    if (target.kind != cases[i].kind || strcmp(target.tier, cases[i].tier) != 0)
      fail_msg("%s: kind %d, tier \"%s\"", cases[i].key, (int)target.kind, target.tier);
    assert_int_equal(target.limiter != NULL, target.kind == WEIR_TARGET_LIMITER);
  }
  assert_string_equal(weir_named_target(find(registry, "api"), "nul\0l", 5).tier, "gold");
  weir_registry_release(registry);
}

static void test_limiters_are_shared_where_they_mean_the_same(void **state) {
  (void)state;
  weir_registry *registry = build(text, NULL);
  const weir_limiter *api = target_of(registry, "api", "k").limiter;
  assert_ptr_equal(api, target_of(registry, "same", "k").limiter);
  assert_ptr_not_equal(api, target_of(registry, "other-store", "k").limiter);
  assert_ptr_not_equal(api, target_of(registry, "other-options", "k").limiter);
  assert_ptr_not_equal(api, target_of(registry, "other-rule", "k").limiter);
  assert_int_equal(registry->limiter_count, 6);
  assert_ptr_equal(weir_registry_store_at(registry, 0), weir_registry_store_at(registry, 2));
  assert_ptr_not_equal(weir_registry_store_at(registry, 0), weir_registry_store_at(registry, 1));
  const char *store;
  assert_ptr_equal(weir_registry_limiter_at(registry, 0, &store), api);
  assert_string_equal(store, "m");
  weir_registry_release(registry);
}

static void test_names_are_found(void **state) {
  (void)state;
  weir_registry *registry = build(text, NULL);
  size_t length;
  assert_int_equal(registry->named_count, 5);
  for (size_t i = 0; i < 5; i++) {
    const weir_named *named = &registry->named[i];
    const char *name = named->config->name;
    assert_ptr_equal(find(registry, name), named);
    assert_int_equal(named->index, i);
    const char *prefix = named->prefix;
    length = named->prefix_length;
    assert_int_equal(length, strlen(name) + 1);
    assert_memory_equal(prefix, name, length - 1);
    assert_int_equal(prefix[length - 1], ':');
  }
  assert_null(weir_registry_find(registry, "ap", 2));
  assert_null(weir_registry_find(registry, "api:", 4));
  assert_null(weir_registry_find(registry, "", 0));
  assert_int_equal(find(registry, "api")->config->cost, 3);
  weir_registry_release(registry);
}

/* By the definition, in the plainest way. */
static bool fits(const char *pattern, const char *key) {
  if (*pattern == '\0') return *key == '\0';
  if (*pattern == '*') return fits(pattern + 1, key) || (*key != '\0' && fits(pattern, key + 1));
  return *pattern == *key && fits(pattern + 1, key + 1);
}

/* Every text of up to 5 of a, b (and '*'). */
static void test_patterns_fit_what_they_say(void **state) {
  enum { LONGEST = 5 };
  size_t fitting = 0;
  (void)state;
  for (unsigned p = 0; p < 1024; p++) {
    char pattern[LONGEST + 1] = "";
    for (size_t i = 0; i < LONGEST && (p >> 2 * i & 3) != 3; i++)
      pattern[i] = "ab*"[p >> 2 * i & 3];
    for (unsigned k = 1; k < 64; k++) {
      char key[LONGEST + 2] = "";
      for (unsigned rest = k, i = 0; rest > 1; rest >>= 1)
        key[i++] = "ab"[rest & 1];
      bool expected = fits(pattern, key);
      fitting += expected;
      if (weir_pattern_fits(pattern, strlen(pattern), key, strlen(key)) != expected)
        fail_msg("%s and %s", pattern, key);
    }
  }
  assert_in_range(fitting, 1000, 60000);
}

/* --- files of overrides
 * --------------------------------------------------------------------------- */

static char name[] = "/tmp/weir-overrides-XXXXXX";

static void write_overrides(const char *bytes, size_t length) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static weir_registry *build_from_file(const char *bytes, size_t length,
                                      weir_config_faults *faults) {
  char config[512];
  write_overrides(bytes, length);
  snprintf(config, sizeof config,
           LISTEN
           "stores: {m: {url: \"memory:\"}}\n"
           "limiters: {api: {rule: quota:1/s, overrides_file: %s, tiers: {gold: blocked,"
           " go: unlimited}, overrides: {dave: go, \"c*\": go}}}\n",
           name);
  return build_with(config, NULL, faults);
}

static weir_config_faults faults;

static void test_overrides_come_from_a_file(void **state) {
  static const char lines[] =
      "alice\tgold\r\n\n  bob \tgo\na\tb\tgold\ndave\tgold\nc*\tgold\nlast\tgo";
  (void)state;
  weir_registry *registry = build_from_file(lines, sizeof lines - 1, &faults);
  if (registry == NULL) fail_msg("%s", faults.lines[0].text.text);
  assert_string_equal(target_of(registry, "api", "alice").tier, "gold");
  assert_string_equal(target_of(registry, "api", "  bob ").tier, "go");
  assert_string_equal(target_of(registry, "api", "a\tb").tier, "gold");
  assert_string_equal(target_of(registry, "api", "dave").tier,
                      "go"); /* said in the configuration */
  assert_string_equal(target_of(registry, "api", "c*").tier, "gold"); /* a key, no pattern */
  assert_string_equal(target_of(registry, "api", "cc").tier, "go");
  assert_string_equal(target_of(registry, "api", "last").tier, "go");
  assert_string_equal(target_of(registry, "api", "bob").tier, "");
  weir_registry_release(registry);
  registry = build_from_file("", 0, &faults);
  assert_non_null(registry);
  assert_string_equal(target_of(registry, "api", "alice").tier, "");
  weir_registry_release(registry);
}

static void test_faults_of_a_file_have_their_places(void **state) {
  static const char lines[] =
      "alice\tgold\nbob\tgodl\nno tab\n\tgold\nalice\tgo\nx\tgold\0\0\0\0\0\0\0\0\0\0\0\nx\t\n";
  static const char *const says[] = {
      ":2:5: overrides_file: no tier \"godl\" in limiters.api.tiers",
      ":3:1: overrides_file: no tab",
      ":4:1: overrides_file: a key of 0 bytes",
      ":5:1: overrides_file: a key that stands in line 1 already",
      ":6:3: overrides_file: no tier \"gold\"",
      ":7:3: overrides_file: no tier \"\"",
  };
  (void)state;
  assert_null(build_from_file(lines, sizeof lines - 1, &faults));
  assert_int_equal(faults.count, sizeof says / sizeof *says);
  for (size_t i = 0; i < faults.count; i++) {
    const char *line = faults.lines[i].text.text;
    assert_memory_equal(line, name, strlen(name));
    if (strncmp(line + strlen(name), says[i], strlen(says[i])) != 0) fail_msg("%s", line);
  }
}

/* Of 100,000 keys of each form, a limiter denies its part within 1 % of all of them. A part that grows
 * keeps its keys, and two limiters draw different ones. */
static void test_a_part_is_enforced(void **state) {
  enum { KEYS = 100000, LIMITERS = 4 };
  static const char *const forms[] = {"%d", "customer-%07d", "192.168.%d", "user:%d@mail.example"};
  static const int wanted[LIMITERS] = {10000, 10000, 30000, 50};
  (void)state;
  weir_registry *registry = build(LISTEN
                                  "stores: {m: {url: \"memory:\"}}\n"
                                  "limiters:\n"
                                  "  a: {rule: quota:1/s, enforce: 10%}\n"
                                  "  b: {rule: quota:1/s, enforce: 10%}\n"
                                  "  c: {rule: quota:1/s, enforce: 30%}\n"
                                  "  d: {rule: quota:1/s, enforce: 0.05%}\n",
                                  NULL);
  weir_registry *later = build(LISTEN
                               "stores: {m: {url: \"memory:\"}}\n"
                               "limiters: {a: {rule: quota:5/s, enforce: 20%}}\n",
                               NULL);
  for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
    int enforced[LIMITERS] = {0}, of_both = 0, of_later = 0;
    for (int i = 0; i < KEYS; i++) {
      char key[64];
      bool is[LIMITERS];
      size_t length = (size_t)snprintf(key, sizeof key, forms[form], i);
      for (size_t j = 0; j < LIMITERS; j++)
        enforced[j] += is[j] = weir_named_enforces(&registry->named[j], key, length);
      bool is_later = weir_named_enforces(&later->named[0], key, length);
      assert_true(is_later || !is[0]);
      of_later += is_later;
      of_both += is[0] && is[1];
    }
    print_message("%s: %d, %d, %d, %d; %d of both, %d later\n", forms[form], enforced[0],
                  enforced[1], enforced[2], enforced[3], of_both, of_later);
    for (size_t j = 0; j < LIMITERS; j++)
      assert_in_range(enforced[j], wanted[j] * 9 / 10 - 20, wanted[j] * 11 / 10 + 20);
    for (size_t j = 0; j < 3; j++)
      assert_in_range(enforced[j], wanted[j] - KEYS / 100, wanted[j] + KEYS / 100);
    assert_in_range(of_both, 800, 1200);
    assert_in_range(of_later, 20000 - KEYS / 100, 20000 + KEYS / 100);
  }
  weir_registry_release(later);
  weir_registry_release(registry);
}

int main(void) {
  int descriptor = mkstemp(name);
  if (descriptor < 0 || close(descriptor) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keys_lead_to_tiers),
      cmocka_unit_test(test_a_part_is_enforced),
      cmocka_unit_test(test_limiters_are_shared_where_they_mean_the_same),
      cmocka_unit_test(test_names_are_found),
      cmocka_unit_test(test_patterns_fit_what_they_say),
      cmocka_unit_test(test_overrides_come_from_a_file),
      cmocka_unit_test(test_faults_of_a_file_have_their_places),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(name);
  return failed;
}
