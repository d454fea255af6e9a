/* Changes of a limit, one by one: how much a key has under the old rule and then under the new one, and
 * who warns of it. docs/changing-rules.md shows the table, which
 *
 *     test_registry_changes page
 *
 * writes. Each is made both ways, on every kind of store, with and without a name=. */
#include "registry/built.h"

#include <inttypes.h>

#include "limiter/stores.h"
#include "limiter/world.h"

#define PAGE "../../docs/changing-rules.md"

enum { TEXT_BYTES = 160, ROW_BYTES = 512, CONFIG_BYTES = 512, PROCESSES = 64 };

typedef enum outcome {
  GO_ON, /* both rules have the same counts */
  APART, /* the same limit, laid out apart */
  OTHER  /* another limit, by its text */
} outcome;

typedef struct change {
  const char *from, *to;
  outcome outcome;
  uint32_t processes; /* of the second; 0: as of the first */
} change;

static const change changes[] = {
    {"fixed-window:100/1h", "fixed-window:5000/1h", GO_ON, 0},
    {"fixed-window:100/1h", "fixed-window:100/1h,hold=1s", GO_ON, 0},
    {"fixed-window:100/1h", "fixed-window:200/1h,lease=1s", GO_ON, 0},
    {"fixed-window:100/1h", "fixed-window:200/1h,debt=50", GO_ON, 0},
    {"fixed-window:100/1h", "fixed-window:200/1h", GO_ON, 1000},
    {"fixed-window:100/1h", "fixed-window:200/1h,count=all", APART, 0},
    {"fixed-window:100/1h", "fixed-window:200/1d", OTHER, 0},
    {"fixed-window:100/1h", "fixed-window:200/1h,name=new", OTHER, 0},
    {"fixed-window:100/1h", "quota:200/1h", OTHER, 0},
    {"sliding-window:100/1h", "sliding-window:246/1h", GO_ON, 0},
    {"sliding-window:100/1h", "sliding-window:247/1h", APART, 0},
    {"sliding-window:246/1h", "sliding-window:5000/1h", APART, 0},
    {"sliding-window:247/1h", "sliding-window:16146493/1h", GO_ON, 0},
    {"sliding-window:247/1h", "sliding-window:16146494/1h", APART, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h,strict", GO_ON, 0},
    {"sliding-window:247/1h", "sliding-window:247/1h,strict", APART, 0},
    {"sliding-window:248/1h,strict", "sliding-window:249/1h,strict", APART, 0},
    {"sliding-window:240/1h,cells=1", "sliding-window:241/1h,cells=1", APART, 0},
    {"sliding-window:244/1h,cells=2", "sliding-window:245/1h,cells=2", APART, 0},
    {"sliding-window:100/1h", "sliding-window:200/1h,cells=8", APART, 0},
    {"sliding-window:100/1h", "sliding-window:123/1h,debt=123", GO_ON, 0},
    {"sliding-window:100/1h", "sliding-window:124/1h,debt=124", APART, 0},
    {"sliding-window:100/1h", "sliding-window:200/1h,hold=1s,lease=1s", GO_ON, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h", GO_ON, 80},
    {"sliding-window:246/1h", "sliding-window:246/1h", APART, 80},
    {"sliding-window:100/1h", "sliding-window:200/1h,count=all", APART, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h;fixed-window:200/1d,count=all", APART, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h;fixed-window:200/1d", GO_ON, 0},
    {"sliding-log:5/1h", "sliding-log:9/1h", GO_ON, 0},
    {"sliding-log:5/1h", "sliding-log:9/1h,hold=1s", GO_ON, 0},
    {"sliding-log:5/1h;sliding-log:8/1d", "sliding-log:7/1h;sliding-log:9/1d", GO_ON, 0},
    {"sliding-log:5/1h", "sliding-log:5/1h;sliding-log:9/1d", APART, 0},
    {"quota:100/1h", "quota:5000/1h", GO_ON, 0},
    {"quota:100/1h", "quota:200/1h,hold=1s,lease=1s,debt=50", GO_ON, 0},
    {"quota:100/1h", "quota:200/1h,count=all", APART, 0},
    {"token-bucket:100/1h", "token-bucket:5000/1h", GO_ON, 0},
    {"token-bucket:500/1s", "token-bucket:2000/1s", APART, 0},
    {"token-bucket:977/1s", "token-bucket:978/1s", APART, 0},
    {"token-bucket:978/1s", "token-bucket:1000977/1s", GO_ON, 0},
    {"token-bucket:1000977/1s", "token-bucket:1000978/1s", APART, 0},
    {"token-bucket:100/1h,burst=50", "token-bucket:100/1h,burst=80", GO_ON, 0},
    {"token-bucket:100/1h", "token-bucket:100/1h,hold=1s,lease=1s", GO_ON, 0},
    {"token-bucket:100/1h", "token-bucket:100/1h,debt=50", GO_ON, 0},
    {"leaky-bucket:100/1h,queue=9", "leaky-bucket:100/1h,queue=19", GO_ON, 0},
    {"leaky-bucket:100/1s,queue=9", "leaky-bucket:900/1s,queue=9,hold=1s", GO_ON, 0},
    {"leaky-bucket:100/1s,queue=9", "leaky-bucket:1000/1s,queue=9", APART, 0},
    {"in-flight:20/30s", "in-flight:40/30s", GO_ON, 0},
    {"in-flight:20/30s", "in-flight:40/30s,hold=1s,lease=1s", GO_ON, 0},
    {"in-flight:20/30s", "in-flight:40/1m", OTHER, 0},
};
enum { CHANGES = sizeof changes / sizeof changes[0] };

/* --- what a key has ----------------------------------------------------------------------------- */

static int64_t limit_of(const weir_limiter *limiter) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    assert_int_equal(weir_limiter_read_rule(limiter, i, &rule), WEIR_OK);
    if (rule.capacity < least) least = rule.capacity;
  }
  return least;
}

/* Reserves until one is denied; all stay held. */
static int64_t hold_all(weir_limiter *limiter, weir_reservation **held, size_t *count) {
  for (int64_t admitted = 0;; admitted++) {
    weir_request request = {.key = "k", .key_length = 1, .cost = 1};
    weir_message message = {""};
    weir_reservation *one = NULL;
    if (weir_limiter_reserve(limiter, &request, &one, &message) != WEIR_OK)
      fail_msg("%s", message.text);
    if (one == NULL) return admitted;
    held[(*count)++] = one;
  }
}

/* All that there is; time stands still. */
static int64_t take_all(weir_limiter *limiter, const char *rules) {
  int64_t admitted = 0;
  bool is_log = strstr(rules, "sliding-log") != NULL;
  for (;;) {
    weir_decision decision = {0};
    weir_message message = {""};
    if (weir_limiter_take_up_to(limiter, "k", 1, is_log ? 1 : limit_of(limiter), &decision,
                                &message) != WEIR_OK)
      fail_msg("%s: %s", rules, message.text);
    if (!decision.allowed) return admitted;
    admitted += decision.cost;
  }
}

typedef struct found {
  int64_t admitted; /* under both, one after the other */
  int64_t limits[2];
  bool tells_shared, tells_apart; /* the second limiter, of the first */
} found;

/* The limiters live side by side, as while texts are replaced. */
static found run(int store, const char *from, const char *to, uint32_t processes,
                 uint32_t to_processes) {
  enum { HELD_MOST = 100 };
  char url[STORE_URL_BYTES];
  weir_reservation *held[HELD_MOST];
  size_t count = 0;
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .processes = processes};
  world w;
  found result = {0};
  world_open(&w, stores_url(store, url), from, &options);
  bool is_held = strstr(from, "in-flight") != NULL;
  result.admitted = is_held ? hold_all(w.limiter, held, &count) : take_all(w.limiter, from);
  options.processes = to_processes;
  weir_limiter *second = world_limiter(&w, to, &options);
  result.admitted += is_held ? hold_all(second, held, &count) : take_all(second, to);
  result.limits[0] = limit_of(w.limiter);
  result.limits[1] = limit_of(second);
  const char *warning;
  for (size_t i = 0; (warning = weir_limiter_warning_at(second, i)) != NULL; i++) {
    result.tells_shared |= strstr(warning, ", shares its counts with ") != NULL;
    result.tells_apart |= strstr(warning, ", does not share its counts with ") != NULL;
  }
  while (count > 0)
    weir_reservation_cancel(held[--count], NULL);
  weir_limiter_destroy(second);
  world_close(&w);
  return result;
}

/* With a name= for each of its rules. */
static void name_rules(const char *rules, char named[TEXT_BYTES]) {
  const char *end = strchr(rules, ';');
  int length = end != NULL ? (int)(end - rules) : (int)strlen(rules);
  snprintf(named, TEXT_BYTES, "%.*s,name=n%s%s%s", length, rules, end != NULL ? ";" : "",
           end != NULL ? end + 1 : "", end != NULL ? ",name=n" : "");
}

/* --- who warns ---------------------------------------------------------------------------------- */

static weir_registry *read_rule(const char *rule, uint32_t processes, const weir_registry *old,
                                weir_config_faults *faults) {
  char text[CONFIG_BYTES];
  snprintf(text, sizeof text,
           LISTEN
           "stores: {m: {url: \"memory:\", processes: %u}}\n"
           "limiters: {api: {rule: \"%s\"}}\n",
           processes, rule);
  weir_config *config = weir_config_read_text("f.yaml", text, strlen(text), faults);
  weir_registry *registry = weir_registry_create(config, old, faults);
  if (registry == NULL) fail_msg("%s", faults->lines[0].text.text);
  return registry;
}

static bool reload_warns(const char *from, const char *to, uint32_t processes,
                         uint32_t to_processes) {
  static weir_config_faults faults, warnings;
  faults = warnings = (weir_config_faults){0};
  faults.warnings = &warnings;
  weir_registry *old = read_rule(from, processes, NULL, &faults);
  assert_int_equal(warnings.count, 0);
  weir_registry *fresh = read_rule(to, to_processes, old, &faults);
  if (warnings.count > 0)
    assert_non_null(
        strstr(warnings.lines[0].text.text, "f.yaml:3:24: warning: limiters.api.rule: "));
  weir_registry_release(old);
  weir_registry_release(fresh);
  return warnings.count > 0;
}

/* --- one change --------------------------------------------------------------------------------- */

static void check_one_way(const change *one, int store, const found *this) {
  const char *where = stores[store].name;
  int64_t larger = this->limits[0] > this->limits[1] ? this->limits[0] : this->limits[1];
  bool within = this->admitted <= larger;
  bool anew = this->admitted == this->limits[0] + this->limits[1];
  if (!(one->outcome == GO_ON ? within : anew))
    fail_msg("%s, %s and %s: %" PRId64 " admitted", where, one->from, one->to, this->admitted);
  if (this->tells_apart != (one->outcome == APART))
    fail_msg("%s, %s and %s: %s that they are apart", where, one->from, one->to,
             this->tells_apart ? "told" : "not told");
}

/* `way`: 0 as it stands, 1 back. */
static found check_change(const change *one, int store, int way) {
  uint32_t processes[2] = {PROCESSES, one->processes != 0 ? one->processes : PROCESSES};
  const char *texts[2] = {one->from, one->to};
  char named[2][TEXT_BYTES];
  found plain = run(store, texts[way], texts[!way], processes[way], processes[!way]);
  check_one_way(one, store, &plain);
  bool is_other_text = strcmp(one->from, one->to) != 0;
  assert_int_equal(plain.tells_shared, one->outcome == GO_ON && is_other_text);

  bool warns = reload_warns(texts[way], texts[!way], processes[way], processes[!way]);
  if (warns != (one->outcome != GO_ON))
    fail_msg("%s to %s: a reload %s", texts[way], texts[!way], warns ? "warns" : "does not warn");
  if (strstr(one->to, "name=") != NULL) return plain;
  for (int i = 0; i < 2; i++)
    name_rules(texts[i], named[i]);
  found both = run(store, named[way], named[!way], processes[way], processes[!way]);
  check_one_way(one, store, &both);
  assert_false(both.tells_shared); /* which the name has said */
  assert_int_equal(both.admitted, plain.admitted);
  return plain;
}

/* "| from | to | counts | there | back | larger limit | who warns |" */
static void write_row(const change *one, char row[ROW_BYTES]) {
  static const char *const counts[] = {
      [GO_ON] = "go on", [APART] = "anew", [OTHER] = "anew, another limit"};
  static const char *const warns[] = {
      [GO_ON] = "nobody", [APART] = "limiter, reload", [OTHER] = "reload"};
  char processes[64] = "";
  found ways[2];
  for (int way = 0; way < 2; way++)
    ways[way] = check_change(one, 0, way);
  const int64_t *limits = ways[0].limits;
  if (one->processes != 0)
    snprintf(processes, sizeof processes, ", `processes` %u", one->processes);
  snprintf(row, ROW_BYTES, "| `%s` | `%s`%s | %s | %" PRId64 ", %" PRId64 " | %" PRId64 " | %s |\n",
           one->from, one->to, processes, counts[one->outcome], ways[0].admitted, ways[1].admitted,
           limits[0] > limits[1] ? limits[0] : limits[1], warns[one->outcome]);
}

static void test_every_change_does_what_its_row_says(void **state) {
  (void)state;
  for (size_t i = 0; i < CHANGES; i++)
    for (int way = 0; way < 2; way++) {
      found first = check_change(&changes[i], 0, way);
      for (int store = 1; store < STORES; store++)
        assert_int_equal(check_change(&changes[i], store, way).admitted, first.admitted);
    }
}

static void test_the_page_has_these_rows(void **state) {
  (void)state;
  static char page[1 << 16];
  FILE *file = fopen(PAGE, "r");
  assert_non_null(file);
  size_t length = fread(page, 1, sizeof page - 1, file);
  fclose(file);
  assert_true(length < sizeof page - 1);
  const char *at = page;
  for (size_t i = 0; i < CHANGES; i++) {
    char row[ROW_BYTES];
    write_row(&changes[i], row);
    const char *there = strstr(at, row);
    if (there == NULL || (i > 0 && there != at))
      fail_msg("docs/changing-rules.md lacks, here: %s", row);
    at = there + strlen(row);
  }
  if (*at == '|') fail_msg("docs/changing-rules.md has a row that nothing tests: %.80s", at);
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_change_does_what_its_row_says),
      cmocka_unit_test(test_the_page_has_these_rows),
  };
  char row[ROW_BYTES];
  bool writes = count == 2 && strcmp(arguments[1], "page") == 0;
  for (size_t i = 0; writes && i < CHANGES; i++) {
    write_row(&changes[i], row);
    fputs(row, stdout);
  }
  if (writes) return 0;
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
