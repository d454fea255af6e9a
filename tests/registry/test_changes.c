/* Changes of a limit, one by one: how much a key has under the old rule and then under the new one, and
 * who warns of it. docs/changing-rules.md shows the table, which
 *
 *     test_registry_changes page
 *
 * writes. Each is made both ways, on every kind of store, with and without a name=. Then others by chance;
 *
 *     test_registry_changes hunt PAIRS [SEED]
 *
 * makes so many of those. */
#include "registry/built.h"

#include <inttypes.h>

#include "fixture/chance.h"
#include "limiter/stores.h"
#include "limiter/world.h"
#include "rule/rule.h"

#define PAGE "../../docs/changing-rules.md"

enum { TEXT_BYTES = 160, ROW_BYTES = 512, CONFIG_BYTES = 512, PROCESSES = 64 };
enum { TOKEN_STEPS = 1023 }; /* of a bucket's unit of time: a token has more */

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
    {"token-bucket:100/1s,burst=10", "token-bucket:900/1s,burst=10", GO_ON, 0},
    {"token-bucket:100/1h", "token-bucket:100/1h,hold=1s,lease=1s", GO_ON, 0},
    {"token-bucket:100/1h", "token-bucket:100/1h,debt=50", GO_ON, 0},
    {"leaky-bucket:100/1h,queue=9", "leaky-bucket:100/1h,queue=19", GO_ON, 0},
    {"leaky-bucket:100/1h,queue=9", "leaky-bucket:100/1h,queue=9,hold=1s", GO_ON, 0},
    {"leaky-bucket:100/1s,queue=9", "leaky-bucket:900/1s,queue=9", GO_ON, 0},
    {"leaky-bucket:100/1s,queue=9", "leaky-bucket:1000/1s,queue=9", APART, 0},
    {"in-flight:20/10m", "in-flight:40/10m", GO_ON, 0},
    {"in-flight:20/10m", "in-flight:40/10m,hold=1s,lease=1s", GO_ON, 0},
    {"in-flight:20/10m", "in-flight:40/20m", OTHER, 0},
    {"fixed-window:100/1h", "fixed-window:5000/1h,most=5000", GO_ON, 0},
    {"fixed-window:100/1h,most=5000", "fixed-window:5000/1h,lease=1s,most=5000", GO_ON, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h,most=246", GO_ON, 0},
    {"sliding-window:100/1h", "sliding-window:100/1h,most=5000", APART, 0},
    {"sliding-window:100/1h,most=5000", "sliding-window:5000/1h", GO_ON, 0},
    {"sliding-window:100/1h,most=5000", "sliding-window:5000/1h,most=5000", GO_ON, 0},
    {"sliding-window:1/1h,most=247", "sliding-window:247/1h,most=247", GO_ON, 0},
    {"sliding-window:246/1h,most=16146493", "sliding-window:16146493/1h,most=16146493", GO_ON, 0},
    {"sliding-window:246/1h,most=16146494", "sliding-window:16146494/1h,most=16146494", GO_ON, 0},
    {"sliding-window:100/1h,most=300", "sliding-window:5000/1h,most=90000", GO_ON, 0},
    {"sliding-window:100/1h,most=200", "sliding-window:200/1h,most=5000", APART, 0},
    {"sliding-window:100/1h,most=5000", "sliding-window:5000/1h,strict,most=5000", GO_ON, 0},
    {"sliding-window:240/1h,cells=1,most=5000", "sliding-window:241/1h,cells=1,most=5000", GO_ON,
     0},
    {"sliding-window:244/1h,cells=2,most=5000", "sliding-window:900/1h,cells=2,most=5000", GO_ON,
     0},
    {"sliding-window:100/1h,cells=16,most=5000", "sliding-window:5000/1h,cells=16,most=5000", GO_ON,
     0},
    {"sliding-window:100/1h,debt=50,most=5000", "sliding-window:5000/1h,debt=5000,most=5000", GO_ON,
     0},
    {"sliding-window:100/1h,lease=1s,most=5000", "sliding-window:5000/1h,lease=1s,most=5000", GO_ON,
     0},
    {"sliding-window:100/1h,count=all,most=5000", "sliding-window:5000/1h,count=all", GO_ON, 0},
    {"sliding-window:100/1h,most=5000;quota:900/1d",
     "sliding-window:5000/1h,most=5000;quota:9000/1d,most=9000", GO_ON, 0},
    {"sliding-log:5/1h", "sliding-log:9/1h,most=100000", GO_ON, 0},
    {"sliding-log:5/1h,most=9", "sliding-log:9/1h,most=9", GO_ON, 0},
    {"quota:100/1h,most=5000", "quota:5000/1h,most=5000", GO_ON, 0},
    {"quota:100/1h,lease=1s,most=5000", "quota:5000/1h,lease=1s,debt=900,most=9000", GO_ON, 0},
    {"token-bucket:500/1s,most=2000", "token-bucket:2000/1s,most=2000", GO_ON, 0},
    {"token-bucket:977/1s,most=978", "token-bucket:978/1s", GO_ON, 0},
    {"token-bucket:500/1s,lease=1ms,most=2000", "token-bucket:2000/1s,lease=1ms,most=2000", GO_ON,
     0},
    {"token-bucket:1000/1s,burst=90,most=2000000", "token-bucket:2000000/1s,burst=90,most=2000000",
     GO_ON, 0},
    {"token-bucket:500/1s,debt=50,most=2000", "token-bucket:2000/1s,debt=90,most=2000", GO_ON, 0},
    {"token-bucket:500/1s,most=900", "token-bucket:500/1s,most=2000", APART, 0},
    {"leaky-bucket:100/1s,queue=9,most=1000", "leaky-bucket:1000/1s,queue=9,most=1000", GO_ON, 0},
    {"leaky-bucket:100/1s,queue=90,most=2000000", "leaky-bucket:2000000/1s,queue=90,most=2000000",
     GO_ON, 0},
    {"in-flight:20/10m,most=40", "in-flight:40/10m,most=40", GO_ON, 0},
};
enum { CHANGES = sizeof changes / sizeof changes[0] };

/* --- what a key has ----------------------------------------------------------------------------- */

/* The rule of a limiter that admits least. */
static weir_rule_info least_rule(const weir_limiter *limiter) {
  weir_rule_info least = WEIR_RULE_INFO_INIT;
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    assert_int_equal(weir_limiter_read_rule(limiter, i, &rule), WEIR_OK);
    if (i == 0 || rule.capacity < least.capacity) least = rule;
  }
  return least;
}

/* The larger limit is what both may admit at once over one count. Buckets share a time, so theirs
 * is a bucket of the faster rate that is full after as long a time as the slower one. */
static int64_t bound_of(const weir_rule_info rules[2]) {
  const weir_rule_info *larger = &rules[rules[1].capacity > rules[0].capacity];
  const weir_rule_info *faster = &rules[rules[1].limit > rules[0].limit];
  const weir_rule_info *slower = &rules[faster == rules];
  int64_t bound = larger->capacity;
  if (strstr(larger->algorithm, "bucket") == NULL || slower->period_us != faster->period_us)
    return bound;
  int64_t slow = slower->capacity * faster->limit / slower->limit;
  int64_t both = slower->capacity + faster->capacity;
  if (slow > bound) bound = slow < both ? slow : both;
  return bound;
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
    if (weir_limiter_take_up_to(limiter, "k", 1, is_log ? 1 : least_rule(limiter).capacity,
                                &decision, &message) != WEIR_OK)
      fail_msg("%s: %s", rules, message.text);
    if (!decision.allowed) return admitted;
    admitted += decision.cost;
  }
}

typedef struct found {
  int64_t admitted;               /* under both, one after the other */
  int64_t limits[2];              /* of both, in the order of use */
  int64_t bound;                  /* of both over one count, ... */
  int64_t rounded;                /* ... and what the steps of two buckets' times may add */
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
  const weir_rule_info rules[2] = {least_rule(w.limiter), least_rule(second)};
  result.limits[0] = rules[0].capacity;
  result.limits[1] = rules[1].capacity;
  result.bound = bound_of(rules);
  if (strstr(from, "bucket") != NULL && rules[0].limit != rules[1].limit)
    result.rounded = result.bound / TOKEN_STEPS + 1;
  const char *warning;
  for (size_t i = 0; (warning = weir_limiter_warning_at(second, i)) != NULL; i++) {
    result.tells_shared |= strstr(warning, ", shares its counts with ") != NULL;
    result.tells_apart |= strstr(warning, ", does not share its counts with ") != NULL ||
                          strstr(warning, ", would share its counts with ") != NULL;
  }
  while (count > 0) {
    weir_reservation_cancel(held[--count], NULL);
    weir_reservation_destroy(held[count]);
  }
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
  weir_registry_warn(old, registry, faults);
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
  bool within = this->admitted <= this->bound + this->rounded;
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
  size_t length = strlen(one->from);
  bool stays = strncmp(one->from, one->to, length) == 0 && one->to[length] != ','; /* as a rule */
  assert_int_equal(plain.tells_shared, one->outcome == GO_ON && !stays);

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

/* "| from | to | counts | there | back | at most | warned by |" */
static void write_row(const change *one, char row[ROW_BYTES]) {
  static const char *const counts[] = {
      [GO_ON] = "go on", [APART] = "anew", [OTHER] = "anew, another limit"};
  static const char *const warns[] = {
      [GO_ON] = "none", [APART] = "limiter, reload", [OTHER] = "reload"};
  char processes[64] = "";
  found ways[2];
  for (int way = 0; way < 2; way++)
    ways[way] = check_change(one, 0, way);
  int64_t larger = ways[0].limits[ways[0].limits[1] > ways[0].limits[0]];
  if (one->processes != 0)
    snprintf(processes, sizeof processes, ", `processes` %u", one->processes);
  snprintf(row, ROW_BYTES, "| `%s` | `%s`%s | %s | %" PRId64 ", %" PRId64 " | %" PRId64 " | %s |\n",
           one->from, one->to, processes, counts[one->outcome], ways[0].admitted, ways[1].admitted,
           one->outcome == GO_ON ? ways[0].bound : larger, warns[one->outcome]);
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

/* --- while processes change --------------------------------------------------------------------- */

enum { LIMITERS = 4, STEPS = 96, HELD_MOST = 64 };

/* An admission: by its stamp, and by the end of its window. */
typedef struct admission {
  int64_t at_us, end_us, cost;
} admission;

static int64_t sum_from(const admission *all, size_t count, int64_t from_us, int64_t to_us) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    if (all[i].at_us >= from_us && all[i].at_us <= to_us) sum += all[i].cost;
  return sum;
}

/* By how much the admissions are over what the larger of both rules promises; `bound` is what both admit at
 * one moment, `rounded` a bucket's steps. */
static int64_t over_bound(const admission *all, size_t count, const weir_rule *larger,
                          int64_t bound, int64_t rounded) {
  int64_t most = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t over = 0;
    if (weir_rule_moves_in_time(larger)) {
      for (size_t j = i; j < count; j++) {
        int64_t us = all[j].at_us - all[i].at_us;
        int64_t flows = us * larger->limit / larger->period_us;
        over = sum_from(all, count, all[i].at_us, all[j].at_us) - bound - flows - rounded;
        if (over > most) most = over;
      }
    } else if (weir_rule_slides(larger)) {
      over = sum_from(all, count, all[i].at_us, all[i].at_us + larger->period_us - 1) -
             weir_rule_bound(larger);
    } else {
      for (size_t j = 0; j < count; j++)
        over += all[j].end_us == all[i].end_us ? all[j].cost : 0;
      over -= weir_rule_bound(larger);
    }
    if (over > most) most = over;
  }
  return most;
}

/* Four processes, of which the first ones have the new text already, and in the end all. */
static void check_rollout(const change *one, int store, int way, uint32_t seed) {
  char url[STORE_URL_BYTES];
  const char *texts[2] = {way == 0 ? one->from : one->to, way == 0 ? one->to : one->from};
  static admission all[STEPS];
  weir_reservation *held[HELD_MOST];
  weir_limiter *limiters[LIMITERS], *left[LIMITERS];
  size_t left_count = 0;
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .processes = PROCESSES};
  weir_stack stacks[2];
  size_t count = 0, inside = 0;
  world w;
  world_open(&w, stores_url(store, url), texts[0], &options);
  for (int i = 0; i < LIMITERS; i++)
    limiters[i] = world_limiter(&w, texts[0], &options);
  for (int i = 0; i < 2; i++)
    assert_int_equal(weir_stack_parse(texts[i], PROCESSES, &stacks[i], NULL), WEIR_OK);
  const weir_rule *larger = &stacks[stacks[1].rules[0].limit > stacks[0].rules[0].limit].rules[0];
  const weir_rule_info rules[2] = {{.algorithm = weir_rule_kind_name(larger->kind),
                                    .limit = stacks[0].rules[0].limit,
                                    .period_us = larger->period_us,
                                    .capacity = stacks[0].rules[0].burst},
                                   {.algorithm = weir_rule_kind_name(larger->kind),
                                    .limit = stacks[1].rules[0].limit,
                                    .period_us = larger->period_us,
                                    .capacity = stacks[1].rules[0].burst}};
  bool is_held = weir_rule_is_held(larger);
  int64_t bound = weir_rule_moves_in_time(larger) ? bound_of(rules) : 0;
  int64_t now_us = 0, step_us = larger->period_us / 40;
  for (int step = 0; step < STEPS; step++) {
    if (step % (STEPS / LIMITERS) == STEPS / LIMITERS / 2) {
      weir_limiter **changed = &limiters[step / (STEPS / LIMITERS)];
      if (is_held)
        left[left_count++] = *changed; /* with those that are inside by it */
      else
        weir_limiter_destroy(*changed);
      *changed = world_limiter(&w, texts[1], &options);
    }
    weir_limiter *limiter = limiters[chance(&seed, LIMITERS)];
    now_us += is_held ? 0 : chance(&seed, 3) * step_us; /* nothing pays for places anew here */
    world_set(&w, now_us);
    if (is_held) {
      if (inside > 0 && chance(&seed, 4) == 0) {
        weir_reservation_cancel(held[--inside], NULL);
        weir_reservation_destroy(held[inside]);
      }
      weir_request request = {.key = "k", .key_length = 1, .cost = 1};
      if (weir_limiter_reserve(limiter, &request, &held[inside], NULL) == WEIR_OK)
        inside += held[inside] != NULL;
      if (inside > (size_t)larger->limit) fail_msg("%s: %zu are inside", one->to, inside);
      continue;
    }
    weir_decision decision = {0};
    int64_t most = weir_rule_takes_one(larger) ? 1 : 1 + least_rule(limiter).capacity / 3;
    assert_int_equal(weir_limiter_take_up_to(limiter, "k", 1, most, &decision, NULL), WEIR_OK);
    if (!decision.allowed) continue;
    all[count++] =
        (admission){decision.at_us, decision.at_us + decision.reset_after_us, decision.cost};
  }
  int64_t over = over_bound(all, count, larger, bound, bound / TOKEN_STEPS + 1);
  if (over > 0)
    fail_msg("%s, from %s to %s: %" PRId64 " over", stores[store].name, texts[0], texts[1], over);
  while (inside > 0) {
    weir_reservation_cancel(held[--inside], NULL);
    weir_reservation_destroy(held[inside]);
  }
  for (int i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(limiters[i]);
  while (left_count > 0)
    weir_limiter_destroy(left[--left_count]);
  world_close(&w);
}

/* Leases that are held by who is replaced, and by who is not, are among them. */
static void test_processes_of_both_texts_keep_the_larger_bound(void **state) {
  (void)state;
  size_t tried = 0;
  for (size_t i = 0; i < CHANGES; i++) {
    bool has_most = strstr(changes[i].to, ",most=") || strstr(changes[i].from, ",most=");
    if (!has_most || changes[i].outcome != GO_ON || strchr(changes[i].to, ';') != NULL) continue;
    for (int store = 0; store < STORES; store++)
      for (int way = 0; way < 2; way++)
        check_rollout(&changes[i], store, way, (uint32_t)(7 * i + (size_t)store));
    tried++;
  }
  assert_true(tried >= 25);
}

/* --- by chance ---------------------------------------------------------------------------------- */

static const char *pick(uint32_t *seed, const char *one, const char *other) {
  uint32_t of = chance(seed, 4);
  return of == 0 ? one : of == 1 ? other : "";
}

/* A rule of some kind in one hour; not all of them are good. */
static void write_rule(uint32_t *seed, uint32_t kind, char rule[TEXT_BYTES]) {
  static const char *const kinds[] = {"fixed-window", "sliding-window", "quota",
                                      "token-bucket", "leaky-bucket",   "sliding-log"};
  bool is_window = kind < 3, is_log = kind == 5;
  int64_t limit = 1 + chance(seed, is_log ? 12 : 400);
  for (uint32_t i = is_log ? 0 : chance(seed, 3); i > 0; i--)
    limit *= 1 + chance(seed, 3000);
  const char *cells = kind == 1 ? pick(seed, ",cells=1", ",cells=2") : "";
  const char *strict = kind == 1 ? pick(seed, ",strict", "") : "";
  const char *all = is_window ? pick(seed, ",count=all", "") : "";
  const char *size = kind == 3 ? pick(seed, ",burst=7", ",burst=300") : "";
  if (kind == 4) size = pick(seed, ",queue=7", ",queue=300");
  const char *debt = is_window || kind == 3 ? pick(seed, ",debt=3", ",debt=90") : "";
  const char *most = pick(seed, is_log ? ",most=50" : ",most=4000000", "");
  snprintf(rule, TEXT_BYTES, "%s:%" PRId64 "/1h%s%s%s%s%s%s%s", kinds[kind], limit, cells, strict,
           all, size, debt, most, pick(seed, ",hold=1s", is_log || kind == 4 ? "" : ",lease=1s"));
}

/* Makes it the shortest text that means the same. False: it is none. */
static bool read_back(char rule[TEXT_BYTES], char tag[TEXT_BYTES]) {
  weir_store *store;
  weir_limiter *limiter;
  weir_rule_info info = WEIR_RULE_INFO_INIT;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  bool is_good = weir_limiter_create(store, rule, NULL, &limiter, NULL) == WEIR_OK;
  if (is_good) {
    assert_int_equal(weir_limiter_read_rule(limiter, 0, &info), WEIR_OK);
    snprintf(rule, TEXT_BYTES, "%s", info.text);
    snprintf(tag, TEXT_BYTES, "%s", info.tag);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return is_good;
}

static void try_by_chance(uint32_t seed, int64_t pairs) {
  enum { KINDS = 6 };
  while (pairs > 0) {
    char rules[2][TEXT_BYTES], tags[2][TEXT_BYTES];
    uint32_t kind = chance(&seed, KINDS);
    for (int i = 0; i < 2; i++)
      write_rule(&seed, kind, rules[i]);
    if (!read_back(rules[0], tags[0]) || !read_back(rules[1], tags[1])) continue;
    const change one = {rules[0], rules[1], strcmp(tags[0], tags[1]) == 0 ? GO_ON : APART, 0};
    int64_t first = check_change(&one, 0, 0).admitted;
    for (int store = 1; store < STORES; store++)
      assert_int_equal(check_change(&one, store, 0).admitted, first);
    pairs--;
  }
}

static uint32_t hunt_seed = 1;
static int64_t hunt_pairs = 60;

static void test_changes_by_chance(void **state) {
  (void)state;
  try_by_chance(hunt_seed, hunt_pairs);
}

static int print_page(void) {
  for (size_t i = 0; i < CHANGES; i++) {
    char row[ROW_BYTES];
    write_row(&changes[i], row);
    fputs(row, stdout);
  }
  return 0;
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_change_does_what_its_row_says),
      cmocka_unit_test(test_the_page_has_these_rows),
      cmocka_unit_test(test_processes_of_both_texts_keep_the_larger_bound),
      cmocka_unit_test(test_changes_by_chance),
  };
  const struct CMUnitTest by_chance[] = {cmocka_unit_test(test_changes_by_chance)};
  if (count == 2 && strcmp(arguments[1], "page") == 0) return print_page();
  stores_start();
  if (count < 3 || strcmp(arguments[1], "hunt") != 0)
    return cmocka_run_group_tests(tests, NULL, NULL);
  hunt_pairs = strtoll(arguments[2], NULL, 10);
  if (count > 3) hunt_seed = (uint32_t)strtoul(arguments[3], NULL, 10);
  return cmocka_run_group_tests(by_chance, NULL, NULL);
}
