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
  /* What a failed reload read is watched as well: the fault may be in it. */
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

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_means_the_same_is_carried_over),
      cmocka_unit_test(test_other_options_are_another_limiter_on_the_same_store),
      cmocka_unit_test(test_a_fault_keeps_the_old),
      cmocka_unit_test(test_throttle_is_carried_over_unless_it_changed),
      cmocka_unit_test(test_loops_follow_reloads),
      cmocka_unit_test(test_changes_are_seen_through_links),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rmdir(folder);
  return failed;
}
