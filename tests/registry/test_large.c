/* Large configurations, by time and memory. The bounds on time are generous: they tell linear from
 * quadratic. */
#include "registry/built.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

enum {
  MILLION = 1000000,
  TIERS = 10000,
  MANY_TIERS = 65000,
  OVERRIDES = 100000,
  PATIENCE_MS = 20000
};

static char keys_file[] = "/tmp/weir-keys-XXXXXX";

/* The time of this process alone, however busy the machine is. */
static int64_t cpu_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The bytes that malloc has given out; a sanitizer's allocator says nothing of it. */
static size_t allocated(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static void test_a_million_keys(void **state) {
  char text[512], key[32];
  (void)state;
  FILE *file = fopen(keys_file, "w");
  assert_non_null(file);
  for (int i = 0; i < MILLION; i++)
    fprintf(file, "customer-%d\t%s\n", i, i % 3 == 0 ? "gold" : "silver");
  assert_int_equal(fclose(file), 0);
  snprintf(text, sizeof text,
           LISTEN
           "stores: {m: {url: \"memory:\"}}\n"
           "limiters: {api: {rule: quota:1/s, overrides_file: %s, tiers: {gold: unlimited,"
           " silver: blocked}}}\n",
           keys_file);
  size_t before = allocated();
  int64_t began = cpu_ms();
  weir_registry *registry = build(text, NULL);
  int64_t took = cpu_ms() - began;
  size_t bytes = allocated() - before;
  print_message("a million keys: %d ms, %zu KiB\n", (int)took, bytes / 1024);
  assert_true(took < PATIENCE_MS);
  assert_true(bytes < (size_t)64 * 1024 * 1024);
  const weir_named *api = find(registry, "api");
  for (int i = 0; i < MILLION; i += 997) {
    int length = snprintf(key, sizeof key, "customer-%d", i);
    assert_string_equal(weir_named_target(api, key, (size_t)length).tier,
                        i % 3 == 0 ? "gold" : "silver");
  }
  assert_string_equal(weir_named_target(api, "customer-", 9).tier, "");
  weir_registry_release(registry);
}

/* `share`: how many tiers have the same rule. */
static char *write_tiers(int limiters, int tiers, int share, int overrides) {
  size_t room = 4096 + (size_t)limiters * ((size_t)tiers * 64 + 128) + (size_t)overrides * 40;
  char *text = malloc(room);
  assert_non_null(text);
  size_t length = (size_t)snprintf(
      text, room, LISTEN "stores: {m: {url: \"memcached://127.0.0.1\"}}\nlimiters:\n");
  for (int i = 0; i < limiters; i++) {
    length += (size_t)snprintf(text + length, room - length,
                               "  limiter-%d:\n    rule: sliding-window:100/1m\n    tiers:\n", i);
    for (int j = 0; j < tiers; j++)
      length +=
          (size_t)snprintf(text + length, room - length, "      tier-%d: sliding-window:%d/1m\n", j,
                           1 + (i * tiers + j) / share);
    length += (size_t)snprintf(text + length, room - length, "    overrides:\n");
    for (int j = 0; j < overrides / limiters; j++)
      length += (size_t)snprintf(text + length, room - length, "      customer-%d: tier-%d\n", j,
                                 j % tiers);
  }
  return text;
}

static void test_ten_thousand_tiers_and_their_reload(void **state) {
  (void)state;
  char *text = write_tiers(1000, TIERS / 1000, 1, OVERRIDES);
  int64_t began = cpu_ms();
  weir_registry *old = build(text, NULL);
  int64_t built = cpu_ms();
  weir_registry *newer = build(text, old);
  int64_t reloaded = cpu_ms();
  print_message("%d tiers and %d overrides: %d ms, again %d ms\n", TIERS, OVERRIDES,
                (int)(built - began), (int)(reloaded - built));
  assert_true(reloaded - began < PATIENCE_MS);
  assert_int_equal(newer->limiter_count, TIERS);
  assert_ptr_equal(target_of(old, "limiter-7", "customer-3").limiter,
                   target_of(newer, "limiter-7", "customer-3").limiter);
  weir_registry_release(old);
  weir_registry_release(newer);
  free(text);
}

#define APART                                                                                      \
  "f.yaml:253:13: warning: limiters.one.tiers.t246: sliding-window:247/1m would share its counts " \
  "with sliding-window:1/1m but for its layout: give both most=247; a key that moves from one to " \
  "the other may have both limits in full"

static weir_registry *build_and_warn(const char *text, const weir_registry *old, size_t *warned) {
  static weir_config_faults faults, warnings;
  warnings = (weir_config_faults){0};
  weir_registry *registry = build_with(text, old, &faults);
  assert_non_null(registry);
  faults.warnings = &warnings;
  weir_registry_warn(old, registry, &faults);
  *warned = warnings.count;
  assert_string_equal(warnings.lines[0].text.text, APART);
  return registry;
}

/* As many tiers as there may be, of one limiter: small limits are laid out apart from the others. */
static void test_a_limiter_of_many_tiers_and_its_reload(void **state) {
  (void)state;
  size_t room = 4096 + (size_t)MANY_TIERS * 64, length = 0, first, again;
  char *text = malloc(room);
  assert_non_null(text);
  length += (size_t)snprintf(text, room,
                             LISTEN
                             "stores: {m: {url: \"memory:\"}}\nlimiters:\n  one:\n"
                             "    rule: fixed-window:3/1d\n    tiers:\n");
  for (int i = 0; i < MANY_TIERS; i++)
    length += (size_t)snprintf(text + length, room - length, "      t%d: sliding-window:%d/1m\n", i,
                               i + 1);
  int64_t began = cpu_ms();
  weir_registry *old = build_and_warn(text, NULL, &first);
  weir_registry *newer = build_and_warn(text, old, &again);
  int64_t took = cpu_ms() - began;
  print_message("%d tiers of one limiter, twice: %d ms\n", MANY_TIERS, (int)took);
  assert_true(took < PATIENCE_MS);
  assert_int_equal(again, first); /* and none counts anew */
  weir_registry_release(old);
  weir_registry_release(newer);
  free(text);
}

static void test_a_thousand_limiters_of_twenty_rules(void **state) {
  (void)state;
  char *text = write_tiers(1000, 1, 50, 1000);
  size_t before = allocated();
  weir_registry *registry = build(text, NULL);
  size_t bytes = allocated() - before;
  print_message("1000 limiters of 20 rules: %zu KiB\n", bytes / 1024);
  assert_true(bytes < (size_t)32 * 1024 * 1024);
  assert_in_range(registry->limiter_count, 20, 21);
  weir_registry_release(registry);
  free(text);
}

int main(void) {
  int descriptor = mkstemp(keys_file);
  if (descriptor < 0 || close(descriptor) != 0) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_million_keys),
      cmocka_unit_test(test_ten_thousand_tiers_and_their_reload),
      cmocka_unit_test(test_a_limiter_of_many_tiers_and_its_reload),
      cmocka_unit_test(test_a_thousand_limiters_of_twenty_rules),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(keys_file);
  return failed;
}
