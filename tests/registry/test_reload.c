/* Reloading: what means the same keeps what it remembers, and a bad file changes nothing. */
#include "registry/built.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* Patient, so that a busy machine does not run out of time in the middle of a decision. */
#define STORE "stores: {m: {url: \"memory:?timeout=10s\"}}\n"

static weir_config_faults faults;

static bool take(const weir_target *target, const char *key, weir_source *source) {
  weir_message message = {""};
  weir_decision decision;
  if (weir_limiter_take(target->limiter, key, strlen(key), 1, &decision, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  if (source != NULL) *source = decision.source;
  return decision.allowed;
}

/* A denial that is repeated without the store, and the counts of an embedded store, are carried
 * over with their owners. */
static void test_what_means_the_same_is_carried_over(void **state) {
  (void)state;
  weir_registry *old = build(
      LISTEN STORE "limiters: {a: {rule: \"quota:1/2d\"}, b: {rule: \"quota:1/1d\"}}\n", NULL);
  weir_target target = target_of(old, "a", "k");
  weir_limiter *a = target.limiter;
  weir_limiter *b = target_of(old, "b", "k").limiter;
  assert_true(take(&target, "a:k", NULL));
  assert_false(take(&target, "a:k", NULL));

  weir_registry *newer =
      build("# other lines\n" LISTEN STORE
            "limiters: {c: {rule: \"quota:1/2d\", shadow: true}, b: {rule: \"quota:2/1d\"}}\n",
            old);
  assert_ptr_equal(weir_registry_store_at(old, 0), weir_registry_store_at(newer, 0));
  assert_true(weir_registry_is_last(old));
  weir_registry_release(old);
  target = target_of(newer, "c", "k");
  assert_ptr_equal(target.limiter, a);
  assert_ptr_not_equal(target_of(newer, "b", "k").limiter, b);
  weir_source source;
  assert_false(take(&target, "a:k", &source));
  assert_true(take(&target, "c:k", NULL));
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(target.limiter, &counts);
  assert_int_equal(counts.allowed, 2);
  assert_int_equal(counts.denied, 2);
  weir_registry_release(newer);
}

static void test_other_options_are_another_limiter_on_the_same_store(void **state) {
  (void)state;
  weir_registry *old = build(LISTEN STORE "limiters: {a: {rule: \"quota:1/1d\"}}\n", NULL);
  weir_target target = target_of(old, "a", "k");
  assert_true(take(&target, "a:k", NULL));
  weir_registry *newer = build(LISTEN
                               "stores: {x: {url: \"memory:?timeout=10s\", memo_keys: 10}}\n"
                               "limiters: {a: {rule: \"quota:1/1d\"}}\n",
                               old);
  weir_target other = target_of(newer, "a", "k");
  assert_ptr_not_equal(other.limiter, target.limiter);
  weir_registry_release(old);
  assert_false(take(&other, "a:k", NULL)); /* the store still knows */
  weir_registry_release(newer);
}

static int admit_all(const weir_registry *registry, const char *name) {
  weir_target target = target_of(registry, name, "k");
  char key[16];
  int admitted = 0;
  snprintf(key, sizeof key, "%s:k", name);
  for (int i = 0; i < 40; i++)
    admitted += take(&target, key, NULL);
  return admitted;
}

/* The store is away. Half of 20 is 10, of 30 five more, and again of 40; other names, tiers and limits
 * have what is theirs. */
static void test_a_changed_limit_admits_no_share_again(void **state) {
#define AWAY "stores: {m: {url: \"redis://127.0.0.1:1\", peers: 2}}\n"
  (void)state;
  weir_registry *first = build(
      LISTEN AWAY "limiters: {a: {rule: \"quota:20/1d\"}, b: {rule: \"quota:20/1d\"}}\n", NULL);
  assert_in_range(admit_all(first, "a"), 10, 11);
  weir_registry *second = build(
      LISTEN AWAY "limiters: {a: {rule: \"quota:30/1d\"}, b: {rule: \"quota:20/1d\"}}\n", first);
  weir_registry_release(first);
  assert_in_range(admit_all(second, "a"), 4, 6);
  assert_in_range(admit_all(second, "b"), 10, 11);
  assert_null(build_with(LISTEN AWAY "limiters: {a: {rule: \"quota:99/1d\"}, b: {rule: \"x\"}}\n",
                         second, &faults));
  weir_registry *third = build(
      LISTEN AWAY "limiters: {a: {rule: \"quota:40/1d\"}, b: {rule: \"quota:31/1d\"}}\n", second);
  weir_registry_release(second);
  assert_in_range(admit_all(third, "a"), 4, 6);
  assert_in_range(admit_all(third, "b"), 4, 6);
  weir_registry *fourth = build(
      LISTEN AWAY "limiters: {a: {rule: \"quota:30/1d\"}, b: {rule: \"quota:41/1d\"}}\n", third);
  weir_registry_release(third);
  assert_int_equal(admit_all(fourth, "a"), 0);
  weir_registry_release(fourth);
}

static void test_a_fault_keeps_the_old(void **state) {
  (void)state;
  weir_registry *old = build(LISTEN STORE "limiters: {a: {rule: \"quota:1/1d\"}}\n", NULL);
  weir_target target = target_of(old, "a", "k");
  assert_true(take(&target, "a:k", NULL));
  assert_null(build_with(LISTEN STORE
                         "limiters: {a: {rule: \"quota:1/1d\"}, b: {rule: \"quota:0/1d\"}}\n",
                         old, &faults));
  assert_int_equal(faults.count, 1);
  assert_false(take(&target, "a:k", NULL));
  weir_registry_release(old);
}

static void test_throttle_is_carried_over_unless_it_changed(void **state) {
  (void)state;
  weir_registry *first = build(LISTEN STORE "throttle: {enabled: true}\n", NULL);
  weir_registry *second =
      build(LISTEN STORE "throttle: {enabled: true, memo_keys: 16384}\n", first);
  weir_registry *third = build(LISTEN STORE "throttle: {enabled: true, memo_keys: 9}\n", second);
  weir_registry *fourth = build(LISTEN STORE "limiters: {a: {rule: \"quota:1/s\"}}\n", third);
  assert_non_null(first->throttle);
  assert_ptr_equal(first->throttle, second->throttle);
  assert_ptr_not_equal(second->throttle, third->throttle);
  assert_null(fourth->throttle);
  weir_registry_release(first);
  weir_registry_release(fourth);
  weir_registry_release(second);
  weir_registry_release(third);
}

/* --- counts that begin anew --------------------------------------------------------------------- */

static weir_config_faults warnings;

static weir_registry *build_warned(const char *text, const weir_registry *old) {
  warnings = (weir_config_faults){0};
  faults = (weir_config_faults){.warnings = &warnings};
  weir_config *config = weir_config_read_text("f.yaml", text, strlen(text), &faults);
  weir_registry *registry = weir_registry_create(config, old, &faults);
  if (registry == NULL) fail_msg("%s", faults.lines[0].text.text);
  weir_registry_warn(old, registry, &faults);
  return registry;
}

/* One warning, or none where `said` is NULL. */
static void assert_warned(const char *said) {
  const char *found = warnings.lines[0].text.text;
  if (warnings.count != (said != NULL) || (said != NULL && strcmp(found, said) != 0))
    fail_msg("%zu warnings: %s", warnings.count, found);
}

/* The numbers that a client sees say the same as the warning does. */
static void test_a_rule_that_counts_anew_is_told(void **state) {
  static const char limit[] = LISTEN STORE "limiters: {a: {rule: \"sliding-window:%d/1h%s\"}}\n";
  static const struct {
    int limit;
    const char *beside; /* another rule of the stack */
    int left;           /* after 3 under 100 */
    const char *said;
  } cases[] = {
      {200, "", 197, NULL},
      {200, ";quota:1000/1d", 197, NULL},
      {5000, "", 5000,
       "f.yaml:3:22: warning: limiters.a.rule: sliding-window:5000/1h begins to count anew, as it "
       "would share its counts with sliding-window:100/1h but for its layout: give both most=5000; "
       "a key may have both limits in full, once"},
      {5000, ";quota:9000/1d", 5000,
       "f.yaml:3:22: warning: limiters.a.rule: sliding-window:5000/1h begins to count anew, as it "
       "would share its counts with sliding-window:100/1h but for its layout: give both most=5000; "
       "a key may have both limits in full, once"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    snprintf(text, sizeof text, limit, 100, "");
    weir_registry *old = build_warned(text, NULL);
    assert_warned(NULL);
    weir_target target = target_of(old, "a", "k");
    for (int taken = 0; taken < 3; taken++)
      assert_true(take(&target, "a:k", NULL));
    snprintf(text, sizeof text, limit, cases[i].limit, cases[i].beside);
    weir_registry *newer = build_warned(text, old);
    assert_warned(cases[i].said);
    weir_decision decision;
    target = target_of(newer, "a", "k");
    assert_int_equal(weir_limiter_peek(target.limiter, "a:k", 3, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.remaining, cases[i].left);
    weir_registry_release(old);
    weir_registry_release(newer);
  }
}

static void test_each_rule_is_held_against_the_one_it_follows(void **state) {
  static const char before[] = LISTEN STORE
      "limiters:\n  a: {rule: \"quota:9/1d;sliding-window:100/1h\", tiers: {t: "
      "\"token-bucket:9/1s\"}}\n"
      "  gone: {rule: \"sliding-window:100/1h\"}\n";
  static const char after[] = LISTEN STORE
      "limiters:\n  a: {rule: \"quota:8/2d;sliding-window:500/1h\", tiers: {t: "
      "\"token-bucket:9999/1s\","
      " more: \"in-flight:9/10m\"}}\n"
      "  fresh: {rule: \"sliding-window:500/1h\"}\n";
  (void)state;
  weir_registry *old = build_warned(before, NULL);
  weir_registry *newer = build_warned(after, old);
  assert_int_equal(warnings.count, 3);
  assert_non_null(
      strstr(warnings.lines[0].text.text,
             "quota:8/2d begins to count anew, as its counts are not those of quota:9/1d"));
  assert_non_null(strstr(
      warnings.lines[1].text.text,
      "500/1h begins to count anew, as it would share its counts with sliding-window:100/1h"));
  assert_non_null(strstr(warnings.lines[2].text.text, "limiters.a.tiers.t: token-bucket:9999/1s"));
  weir_registry_release(old);
  weir_registry_release(newer);
}

static void test_tiers_that_are_laid_out_apart_are_told(void **state) {
  (void)state;
  weir_registry *registry = build_warned(
      LISTEN STORE
      "limiters:\n  a:\n    rule: \"sliding-window:100/1m\"\n    tiers:\n"
      "      near: \"sliding-window:200/1m\"\n"
      "      far: \"sliding-window:5000/1m\"\n"
      "      hour: \"sliding-window:5000/1h\"\n      named: \"sliding-window:5000/1m,name=n\"\n"
      "      free: unlimited\n",
      NULL);
  assert_warned(
      "f.yaml:8:12: warning: limiters.a.tiers.far: sliding-window:5000/1m would share its counts "
      "with sliding-window:100/1m but for its layout: give both most=5000; a key that moves from "
      "one to the other may have both limits in full");
  weir_registry_release(registry);
}

/* --- snapshots and threads
 * ------------------------------------------------------------------------ */

enum { RELOADS = 100 };

typedef struct loop {
  weir_registry_mailbox mailbox;
  weir_registry *current;
  atomic_bool *over;
  size_t ticks;
} loop;

static void *run_loop(void *context) {
  loop *self = context;
  while (!atomic_load(self->over)) {
    self->current = weir_registry_fetch(&self->mailbox, self->current);
    weir_target target = target_of(self->current, "a", "k");
    weir_decision decision;
    assert_int_equal(weir_limiter_take(target.limiter, "a:k", 3, 1, &decision, NULL), WEIR_OK);
    self->ticks++;
  }
  weir_registry_release(self->current);
  weir_registry_mailbox_empty(&self->mailbox);
  return NULL;
}

static void test_loops_follow_reloads(void **state) {
  enum { LOOPS = 3 };
  loop loops[LOOPS] = {{{NULL}, NULL, NULL, 0}};
  pthread_t threads[LOOPS];
  atomic_bool over = false;
  char text[256];
  (void)state;
  weir_registry *current = build(LISTEN STORE "limiters: {a: {rule: \"quota:9/1d\"}}\n", NULL);
  for (size_t i = 0; i < LOOPS; i++) {
    loops[i].over = &over;
    loops[i].current = weir_registry_retain(current);
    assert_int_equal(pthread_create(&threads[i], NULL, run_loop, &loops[i]), 0);
  }
  for (int i = 0; i < RELOADS; i++) {
    snprintf(text, sizeof text, LISTEN STORE "limiters: {a: {rule: \"quota:%d/1d\"}}\n", 1 + i % 7);
    weir_registry *newer = build(text, current);
    for (size_t j = 0; j < LOOPS; j++)
      weir_registry_post(&loops[j].mailbox, newer);
    weir_registry_release(current);
    current = newer;
  }
  atomic_store(&over, true);
  for (size_t i = 0; i < LOOPS; i++)
    pthread_join(threads[i], NULL);
  assert_true(weir_registry_is_last(current));
  weir_registry_release(current);
}

/* --- files
 * ---------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/weir-reload-XXXXXX";

static const char *path(const char *name) {
  static char paths[4][128];
  static unsigned next;
  char *made = paths[next++ % 4];
  snprintf(made, sizeof paths[0], "%s/%s", folder, name);
  return made;
}

static void write_file(const char *name, const char *text) {
  FILE *file = fopen(path(name), "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void link_to(const char *name, const char *target) {
  assert_int_equal(symlink(target, path("turning")), 0);
  assert_int_equal(rename(path("turning"), path(name)), 0);
}

/* As a mounted ConfigMap: f.yaml -> data/f.yaml, data -> a folder that is exchanged. */
static void test_changes_are_seen_through_links(void **state) {
  weir_config_watch *watch = NULL;
  (void)state;
  assert_int_equal(mkdir(path("one"), 0700), 0);
  assert_int_equal(mkdir(path("two"), 0700), 0);
  static const char text[] = LISTEN
      "stores: {m: {url: \"redis://u:${file:secret}@127.0.0.1\"}}\n"
      "limiters: {a: {rule: \"quota:1/s\", tiers: {t: blocked}, overrides_file: keys}}\n";
  write_file("one/f.yaml", text);
  write_file("two/f.yaml", text);
  write_file("secret", "hunter2\n");
  write_file("keys", "k\tt\n");
  link_to("data", "one");
  link_to("f.yaml", "data/f.yaml");
  faults = (weir_config_faults){0};
  weir_registry *registry = weir_registry_load(path("f.yaml"), NULL, NULL, &watch, &faults);
  if (registry == NULL) fail_msg("%s", faults.lines[0].text.text);
  assert_string_equal(registry->config->stores[0].url, "redis://u:hunter2@127.0.0.1");
  assert_false(weir_config_watch_look(watch));
  link_to("data", "two");
  assert_true(weir_config_watch_look(watch));
  assert_false(weir_config_watch_look(watch));
  write_file("secret", "hunter22\n");
  assert_true(weir_config_watch_look(watch));
  write_file("keys", "longer\tt\n");
  assert_true(weir_config_watch_look(watch));
  assert_int_equal(unlink(path("keys")), 0);
  assert_true(weir_config_watch_look(watch));
  assert_false(weir_config_watch_look(watch));
  /* Files that a failed reload read are watched as well: the fault may be in one. */
  assert_null(weir_registry_load(path("f.yaml"), registry, NULL, &watch, &faults));
  assert_false(weir_config_watch_look(watch));
  write_file("keys", "k\tt\n");
  assert_true(weir_config_watch_look(watch));
  weir_config_watch_destroy(watch);
  weir_registry_release(registry);
  static const char *const names[] = {"one/f.yaml", "two/f.yaml", "secret",
                                      "keys",       "data",       "f.yaml"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unlink(path(names[i]));
  rmdir(path("one"));
  rmdir(path("two"));
}

/* One number is the ceiling of all plans; a rule that has its own keeps it. */
static void test_tiers_below_one_ceiling_share_their_counts(void **state) {
  (void)state;
  weir_registry *registry =
      build_warned(LISTEN STORE
                   "limiters:\n  a:\n    rule: \"sliding-window:100/1m;quota:9000/1d,most=90000\"\n"
                   "    most: 10000\n    overrides: {ann: far, bob: free}\n    tiers:\n"
                   "      far: \"sliding-window:5000/1m;quota:9000/1d\"\n      free: unlimited\n",
                   NULL);
  assert_warned(NULL);
  weir_target own = target_of(registry, "a", "k"), far = target_of(registry, "a", "ann");
  weir_rule_info rule = WEIR_RULE_INFO_INIT;
  assert_int_equal(weir_limiter_read_rule(own.limiter, 0, &rule), WEIR_OK);
  assert_string_equal(rule.text, "sliding-window:100/1m,most=10000");
  assert_int_equal(weir_limiter_read_rule(own.limiter, 1, &rule), WEIR_OK);
  assert_string_equal(rule.text, "quota:9000/1d,most=90000");
  assert_int_equal(weir_limiter_read_rule(far.limiter, 1, &rule), WEIR_OK);
  assert_string_equal(rule.text, "quota:9000/1d,most=10000");
  for (int taken = 0; taken < 3; taken++)
    assert_true(take(&own, "a:k", NULL));
  weir_decision decision;
  assert_int_equal(weir_limiter_peek(far.limiter, "a:k", 3, 1, &decision, NULL), WEIR_OK);
  assert_int_equal(decision.remaining, 4997);
  assert_int_equal(target_of(registry, "a", "bob").kind, WEIR_TARGET_UNLIMITED);
  weir_registry_release(registry);
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_means_the_same_is_carried_over),
      cmocka_unit_test(test_other_options_are_another_limiter_on_the_same_store),
      cmocka_unit_test(test_a_changed_limit_admits_no_share_again),
      cmocka_unit_test(test_a_fault_keeps_the_old),
      cmocka_unit_test(test_throttle_is_carried_over_unless_it_changed),
      cmocka_unit_test(test_a_rule_that_counts_anew_is_told),
      cmocka_unit_test(test_each_rule_is_held_against_the_one_it_follows),
      cmocka_unit_test(test_tiers_that_are_laid_out_apart_are_told),
      cmocka_unit_test(test_tiers_below_one_ceiling_share_their_counts),
      cmocka_unit_test(test_loops_follow_reloads),
      cmocka_unit_test(test_changes_are_seen_through_links),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rmdir(folder);
  return failed;
}
