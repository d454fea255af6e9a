/* Which descriptor a request means, under which key, and with whom its limiter is shared. */
#include "registry/built.h"

#include <unistd.h>

#define STORE "stores: {m: {url: \"memory:?timeout=10s\"}}\n"
#define MAIN LISTEN STORE "envoy: {files: FILE}\n"
#define RATE(requests) "rate_limit: {unit: year, requests_per_unit: " #requests "}"

static const char file_text[] =
    "domain: a/b\n"
    "descriptors:\n"
    "  - {key: ip, " RATE(1) "}\n"
    "  - {key: ip, value: 10.0.0.1, " RATE(2) "}\n"
    "  - {key: path, value: \"api*\", " RATE(3) ", share_threshold: true}\n"
    "  - {key: path, value: \"*/x*y\", " RATE(4) "}\n"
    "  - {key: any*, " RATE(5) "}\n"
    "  - key: n\n"
    "    descriptors:\n"
    "      - {key: ip, " RATE(6) "}\n"
    "      - {key: open, rate_limit: {unlimited: true}}\n"
    "      - {key: shut, " RATE(0) "}\n"
    "  - {key: all, value: \"*\", share_threshold: true, descriptors: [{key: k, " RATE(7) "}]}\n";

static char name[] = "/tmp/weir-descriptors-XXXXXX";

static void write_file(const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* FILE in a configuration is the file's name. */
static weir_registry *build_file(const char *config, const char *text, const weir_registry *old) {
  char whole[1024];
  const char *at = strstr(config, "FILE");
  assert_non_null(at);
  write_file(text);
  snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - config), config, name, at + 4);
  return build(whole, old);
}

static const weir_domain *domain_of(const weir_registry *registry, const char *domain) {
  const weir_domain *found = weir_descriptors_find(registry->descriptors, domain, strlen(domain));
  assert_non_null(found);
  return found;
}

/* "KEY\tVALUE\tKEY\tVALUE"; the key's bytes end with a NUL. */
static const weir_descriptor *find_text(const weir_domain *domain, const char *text, char *key,
                                        size_t room) {
  weir_entry entries[8];
  size_t count = 0, length = 0;
  while (*text != '\0') {
    weir_entry *entry = &entries[count++];
    size_t key_length = strcspn(text, "\t");
    const char *value = text + key_length + 1;
    size_t value_length = strcspn(value, "\t");
    *entry = (weir_entry){text, value, key_length, value_length};
    text = value + value_length + (value[value_length] == '\t');
  }
  const weir_descriptor *found = weir_domain_find(domain, entries, count, key, room, &length);
  if (found != NULL) key[length < room ? length : room - 1] = '\0';
  return found;
}

static void test_what_is_found(void **state) {
  static const struct {
    const char *asked;
    int64_t requests; /* -1: nothing */
    const char *key;
  } cases[] = {
      {"ip\t10.0.0.1", 2, "/a%2Fb/ip=10.0.0.1"},
      {"ip\t10.0.0.2", 1, "/a%2Fb/ip=10.0.0.2"},
      {"ip\t", 1, "/a%2Fb/ip="},
      {"ip\ta=b/c%d", 1, "/a%2Fb/ip=a%3Db%2Fc%25d"},
      {"ip\t10.0.0.1\tip\t1", -1, NULL},
      {"i\tp", -1, NULL},
      {"path\tapi", 3, "/a%2Fb/path=api*"},
      {"path\tapi/x1y", 3, "/a%2Fb/path=api*"},
      {"path\tapi*", 3, "/a%2Fb/path=api*"},
      {"path\tq/x1y", 4, "/a%2Fb/path=q%2Fx1y"},
      {"path\t*/x*y", 4, "/a%2Fb/path=*%2Fx*y"},
      {"path\tq/x1z", -1, NULL},
      {"path\tap", -1, NULL},
      {"anybody\t1", 5, "/a%2Fb/anybody=1"},
      {"any\t1", 5, "/a%2Fb/any=1"},
      {"any*\t1", 5, "/a%2Fb/any*=1"},
      {"n\tx", -1, NULL},
      {"n\tx\tip\t10.0.0.1", 6, "/a%2Fb/n=x/ip=10.0.0.1"},
      {"n\tx\topen\t1", 0, "/a%2Fb/n=x/open=1"},
      {"n\tx\tshut\t1", 0, "/a%2Fb/n=x/shut=1"},
      {"all\tx\tk\t1", 7, "/a%2Fb/all=*/k=1"},
      {"all\ty\tk\t1", 7, "/a%2Fb/all=*/k=1"},
      {"", -1, NULL},
  };
  char key[128];
  (void)state;
  weir_registry *registry = build_file(MAIN, file_text, NULL);
  const weir_domain *domain = domain_of(registry, "a/b");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const weir_descriptor *found = find_text(domain, cases[i].asked, key, sizeof key);
    int64_t requests = found != NULL ? found->config->rate->requests : -1;
    if (requests != cases[i].requests || (found != NULL && strcmp(key, cases[i].key) != 0))
      fail_msg("%s: %lld, %s", cases[i].asked, (long long)requests, found != NULL ? key : "");
    if (found != NULL) assert_int_equal(found->limiter != NULL, requests > 0);
  }
  assert_null(weir_descriptors_find(registry->descriptors, "a", 1));
  weir_registry_release(registry);
}

static void test_a_key_without_room_is_measured(void **state) {
  char key[8] = "*******";
  const weir_entry entry = {"ip", "10.0.0.2/", 2, 9};
  size_t length = 0;
  (void)state;
  weir_registry *registry = build_file(MAIN, file_text, NULL);
  const weir_domain *domain = domain_of(registry, "a/b");
  assert_non_null(weir_domain_find(domain, &entry, 1, key, 4, &length));
  assert_int_equal(length, strlen("/a%2Fb/ip=10.0.0.2%2F"));
  assert_memory_equal(key, "/a%2***", 8);
  assert_int_equal(weir_domain_write_key(domain, &entry, 1, key, 4), length);
  weir_registry_release(registry);
}

/* Ten thousand descriptors with few rules are few limiters, and found at once. */
static void test_many(void **state) {
  enum { MANY = 10000 };
  char key[64], asked[32];
  (void)state;
  char *text = malloc(MANY * 96);
  assert_non_null(text);
  size_t length = (size_t)sprintf(text, "domain: d\ndescriptors:\n");
  for (int i = 0; i < MANY; i++)
    length += (size_t)sprintf(
        text + length, "- {key: k, value: v%d, rate_limit: {unit: hour, requests_per_unit: %d}}\n",
        i, 1 + i % 20);
  weir_registry *registry = build_file(MAIN, text, NULL);
  free(text);
  assert_int_equal(registry->limiter_count, 20);
  for (int i = 0; i < MANY; i++) {
    sprintf(asked, "k\tv%d", i);
    const weir_descriptor *found = find_text(domain_of(registry, "d"), asked, key, sizeof key);
    assert_non_null(found);
    assert_int_equal(found->config->rate->requests, 1 + i % 20);
  }
  weir_registry_release(registry);
}

static void test_limiters_are_shared_and_carried_over(void **state) {
  static const char config[] =
      LISTEN STORE "envoy: {files: FILE}\nlimiters: {same: {rule: \"fixed-window:9/3600s\"}}\n";
  static const char before[] =
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 9}}]\n";
  static const char after[] =
      "domain: e\ndescriptors: [{key: l, rate_limit: {unit: hour, requests_per_unit: 9}}]\n";
  char key[32];
  (void)state;
  weir_registry *old = build_file(config, before, NULL);
  weir_limiter *limiter = find_text(domain_of(old, "d"), "k\tv", key, sizeof key)->limiter;
  assert_ptr_equal(limiter, find(old, "same")->own);
  weir_registry *newer = build_file(config, after, old);
  weir_registry_release(old);
  assert_ptr_equal(limiter, find_text(domain_of(newer, "e"), "l\tv", key, sizeof key)->limiter);
  weir_registry_release(newer);
}

/* A node is held against the one with the same matches, wherever it stands in the file. */
static void test_a_limit_that_counts_anew_is_told(void **state) {
  static const char before[] =
      "domain: d\ndescriptors:\n"
      "  - {key: k, descriptors: [{key: in, rate_limit: {unit: hour, requests_per_unit: 100}}]}\n"
      "  - {key: in, rate_limit: {unit: hour, requests_per_unit: 5000}}\n"
      "  - {key: go, rate_limit: {unit: hour, requests_per_unit: 100}}\n";
  static const char after[] =
      "domain: d\ndescriptors:\n"
      "  - {key: go, rate_limit: {unit: hour, requests_per_unit: 200}}\n"
      "  - {key: new, descriptors: [{key: in, rate_limit: {unit: hour, requests_per_unit: 900}}]}\n"
      "  - {key: in, rate_limit: {unit: hour, requests_per_unit: 5001}}\n"
      "  - {key: k, descriptors: [{key: in, rate_limit: {unit: hour, requests_per_unit: 900}}]}\n";
  static weir_config_faults faults, warnings;
  char config[512];
  (void)state;
  snprintf(config, sizeof config,
           LISTEN STORE "envoy: {files: %s, domains: {d: {algorithm: sliding-window}}}\n", name);
  faults.warnings = &warnings;
  write_file(before);
  weir_registry *old = build(config, NULL);
  write_file(after);
  weir_config *read = weir_config_read_text("f.yaml", config, strlen(config), &faults);
  weir_registry *newer = weir_registry_create(read, old, &faults);
  assert_non_null(newer);
  weir_registry_warn(old, newer, &faults);
  assert_int_equal(warnings.count, 1);
  const char *said = warnings.lines[0].text.text;
  if (strstr(said, ":6:") == NULL ||
      strstr(said,
             ": warning: domain d: sliding-window:900/1h begins to count anew, as it would share "
             "its counts with sliding-window:100/1h but for its layout: give both most=900; ") ==
          NULL)
    fail_msg("%s", said);
  weir_registry_release(old);
  weir_registry_release(newer);
}

static void test_algorithms(void **state) {
  static const struct {
    const char *settings, *rule;
  } cases[] = {
      {"{}", "fixed-window:3/1w"},
      {"{algorithm: sliding-window}", "sliding-window:3/1w"},
      {"{algorithm: quota, count: all}", "quota:3/1w,count=all"},
      {"{algorithm: token-bucket}", "token-bucket:3/1w"},
      {"{count: all}", "fixed-window:3/1w,count=all"},
  };
  static const char file[] =
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: Week, requests_per_unit: 3}}]\n";
  char config[256], key[32];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_rule_info info = WEIR_RULE_INFO_INIT;
    snprintf(config, sizeof config, LISTEN STORE "envoy: {files: FILE, domains: {d: %s}}\n",
             cases[i].settings);
    weir_registry *registry = build_file(config, file, NULL);
    const weir_descriptor *found = find_text(domain_of(registry, "d"), "k\tv", key, sizeof key);
    assert_int_equal(weir_limiter_read_rule(found->limiter, 0, &info), WEIR_OK);
    assert_int_equal(info.period_us, INT64_C(7) * 86400 * 1000000);
    assert_int_equal(info.limit, 3);
    size_t algorithm = strcspn(cases[i].rule, ":");
    assert_memory_equal(info.text, cases[i].rule, algorithm);
    assert_int_equal(strstr(info.text, "count=all") != NULL,
                     strstr(cases[i].rule, "count=all") != NULL);
    weir_registry_release(registry);
  }
}

int main(void) {
  int descriptor = mkstemp(name);
  if (descriptor < 0 || close(descriptor) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_found),
      cmocka_unit_test(test_a_key_without_room_is_measured),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_limiters_are_shared_and_carried_over),
      cmocka_unit_test(test_a_limit_that_counts_anew_is_told),
      cmocka_unit_test(test_algorithms),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(name);
  return failed;
}
