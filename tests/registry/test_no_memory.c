/* Memory ends anywhere: each allocation of reading, building and reloading fails once. It is told
 * as a fault, nothing crashes, nothing leaks, and what was there goes on. */
#include "registry/built.h"

#include <unistd.h>

#include "attack/heap.h"

enum { TRIES = 5000 };

static const char text[] =
    "listen:\n"
    "  resp: {auth: {a: b, c: d}}\n"
    "  http: {trusted: [10.0.0.0/8], auth: [x]}\n"
    "stores: {m: {url: \"memory:?timeout=10s\"}, n: {url: \"memory:?namespace=n\"}}\n"
    "limiters:\n"
    "  a: &a {store: m, rule: quota:1/1d, tiers: {t: quota:2/1d, u: blocked}, allow: [k],\n"
    "      overrides: {k: t, \"x*\": u}, overrides_file: %s}\n"
    "  b: *a\n"
    "  c: {store: n, rule: quota:1/1d}\n"
    "throttle: {enabled: true, store: n, limiters: %d}\n"
    "envoy: {files: [\"%s*\"], domains: {e: {store: n}}}\n";
static const char descriptors[] =
    "domain: e\n"
    "descriptors:\n"
    "- {key: k, value: v*, detailed_metric: true,\n"
    "   rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: r}]}}\n"
    "- {key: l, descriptors: [{key: m, rate_limit: {unlimited: true, name: r}}]}\n";

static char keys_file[] = "/tmp/weir-keys-XXXXXX";
static char descriptor_file[] = "/tmp/weir-descriptors-XXXXXX";
static weir_config_faults faults;

static void write_text(char *whole, size_t size, int limiters) {
  snprintf(whole, size, text, keys_file, limiters, descriptor_file);
}

static weir_registry *load(const char *whole, const weir_registry *old, weir_config_watch **watch) {
  faults.kept = faults.count = 0;
  weir_config *config = weir_config_read_text("f.yaml", whole, strlen(whole), &faults);
  if (config == NULL) return NULL;
  *watch = weir_config_watch_create(config);
  return weir_registry_create(config, old, &faults);
}

/* A life in which one allocation finds no memory, of the reload where there is an old one. Whether
 * one did. */
static bool live(const char *whole, const weir_registry *old, long number) {
  weir_config_watch *watch = NULL;
  long asked;
  heap_fail_at(number, false);
  weir_registry *registry = load(whole, old, &watch);
  bool has_failed = heap_recover(&asked) > 0;
  if (registry == NULL) {
    assert_true(has_failed);
    assert_true(faults.count > 0);
    bool is_told = false;
    for (size_t i = 0; i < faults.kept; i++)
      is_told |= strstr(faults.lines[i].text.text, "memory") != NULL;
    if (!is_told) fail_msg("allocation %ld: %s", number, faults.lines[0].text.text);
  } else if (has_failed && watch != NULL) {
    fail_msg("allocation %ld was not missed", number);
  }
  weir_config_watch_destroy(watch);
  weir_registry_release(registry);
  return has_failed;
}

/* A sanitizer's own strdup() is not counted, but what it gave out is when it is freed; there leaks
 * are the sanitizer's to find. */
static void sweep(const weir_registry *old, const char *whole) {
  live(whole, old, TRIES); /* what libraries keep for ever is there after the first time */
  long blocks = heap_blocks();
  long number = 0;
  while (live(whole, old, number)) {
    assert_true(heap_blocks() <= blocks);
    number++;
  }
  assert_in_range(number, 20, TRIES - 1);
}

static void test_building_without_memory(void **state) {
  char whole[1024];
  (void)state;
  write_text(whole, sizeof whole, 3);
  sweep(NULL, whole);
}

static void test_reloading_without_memory(void **state) {
  char whole[1024];
  weir_config_watch *watch = NULL;
  weir_decision decision;
  (void)state;
  write_text(whole, sizeof whole, 3);
  weir_registry *old = load(whole, NULL, &watch);
  assert_non_null(old);
  weir_limiter *limiter = target_of(old, "a", "other").limiter;
  assert_int_equal(weir_limiter_take(limiter, "a:other", 7, 1, &decision, NULL), WEIR_OK);
  assert_true(decision.allowed);
  write_text(whole, sizeof whole, 4);
  sweep(old, whole);
  assert_int_equal(weir_limiter_take(limiter, "a:other", 7, 1, &decision, NULL), WEIR_OK);
  assert_false(decision.allowed);
  weir_config_watch_destroy(watch);
  weir_registry_release(old);
}

static bool write_file(char *name, const char *bytes, size_t length) {
  int descriptor = mkstemp(name);
  return descriptor >= 0 && write(descriptor, bytes, length) == (ssize_t)length &&
         close(descriptor) == 0;
}

int main(void) {
  if (!write_file(keys_file, "z\tt\n", 4) ||
      !write_file(descriptor_file, descriptors, sizeof descriptors - 1))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_building_without_memory),
      cmocka_unit_test(test_reloading_without_memory),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(keys_file);
  unlink(descriptor_file);
  return failed;
}
