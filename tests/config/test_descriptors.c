/* Descriptor files: every kind of fault, with its exact place and what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "registry/registry.h"

#define LISTEN "listen: {http: {}}\n"
#define STORES "stores: {m: {url: \"memory:\"}}\n"
#define TWO_STORES "stores: {m: {url: \"memory:\"}, n: {url: \"memory:\"}}\n"
#define MAIN LISTEN STORES "envoy: {files: \"*.yaml\"}\n"
#define LIST "domain: d\ndescriptors:\n"
#define FIRST "a.yaml:3:3: domain d: descriptors[0]"
#define RATE "rate_limit: {unit: second, requests_per_unit: 1}"

/* The configuration, the file a.yaml, and the start and a part of the only line that is said. */
static const struct {
  const char *text, *file, *starts, *says;
} cases[] = {
    /* what is said of files and domains */
    {LISTEN STORES "envoy: {}\n", "domain: d\n", "f.yaml:3:8: envoy: ", "files is missing"},
    {LISTEN STORES "envoy: []\n", "domain: d\n", "f.yaml:3:8: envoy: ", "found a list"},
    {LISTEN STORES "envoy: {files: \"*.yml\"}\n", "domain: d\n",
     "f.yaml:3:16: envoy.files: ", "no file is named like this"},
    {LISTEN STORES "envoy: {files: [a.yaml, {}]}\n", "domain: d\n",
     "f.yaml:3:25: envoy.files: ", "found a mapping, accepted is text"},
    {LISTEN STORES "envoy: {files: nothing.yaml}\n", "domain: d\n",
     "nothing.yaml: ", "cannot be read: No such file"},
    {LISTEN STORES "envoy: {files: /dev/null}\n", "domain: d\n",
     "f.yaml:3:16: envoy.files: ", "\"/dev/null\" is no regular file"},
    {LISTEN STORES "envoy: {files: [a.yaml, a.yaml]}\n", "domain: d\n", "a.yaml:1:9: domain: ",
     "domain \"d\" stands in line 1 of a.yaml already; \"envoy: {merge: true}\" accepts that"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {e: {}}}\n", "domain: d\n",
     "f.yaml:3:34: envoy: ", "no file of envoy.files has the domain \"e\""},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {store: n}}}\n", "domain: d\n",
     "f.yaml:3:45: envoy.domains.d.store: ", "no store \"n\""},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {algorithm: sliding}}}\n", "domain: d\n",
     "f.yaml:3:49: envoy.domains.d.algorithm: ",
     "accepted are fixed-window, sliding-window, quota, token-bucket and in-flight"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {count: none}}}\n", "domain: d\n",
     "f.yaml:3:45: envoy.domains.d.count: ", "accepted are admitted and all"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {count: all, together: true}}}\n",
     "domain: d\n", "f.yaml:3:34: envoy.domains.d: ", "count: all keeps"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {count: all, algorithm: token-bucket}}}\n",
     "domain: d\n", "f.yaml:3:34: envoy.domains.d: ", "count: all is of windows and quotas"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {calendar: true, algorithm: quota}}}\n",
     "domain: d\n", "f.yaml:3:34: envoy.domains.d: ", "calendar: true is of fixed-window alone"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {headers: draft-03, header_names: {reset: "
                   "\"a b\"}}}}\n",
     "domain: d\n", "f.yaml:3:", "accepted are 1 to 64 of A-Z a-z 0-9 _ . -"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {header_names: {limit: a}}}}\n",
     "domain: d\n", "f.yaml:3:34: envoy.domains.d: ", "are of headers: draft-03"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {near_limit: 101}}}\n", "domain: d\n",
     "f.yaml:3:50: envoy.domains.d.near_limit: ", "from 0 to 100"},
    {LISTEN TWO_STORES "envoy: {files: a.yaml}\n", "domain: d\n", "a.yaml:1:9: domain: ",
     "which of the 2 stores? say \"envoy: {domains: {d: {store: NAME}}}\" in f.yaml"},
    {LISTEN TWO_STORES "envoy: {files: a.yaml, domains: {d: {}}}\n", "domain: d\n",
     "f.yaml:3:34: envoy.domains.d: ", "store is missing, as there are 2 of them"},
    /* the file as a whole */
    {MAIN, "", "a.yaml:1:1: ", "the file is empty"},
    {MAIN, "domain: [\n", "a.yaml:2:1: no YAML", "did not find expected"},
    {MAIN, "- a\n", "a.yaml:1:1: ", "found a list, accepted is a mapping"},
    {MAIN, "descriptors: []\n", "a.yaml:1:1: ", "domain is missing"},
    {MAIN, "domain: \"\"\n", "a.yaml:1:9: domain: ", "empty text"},
    {MAIN, "domain: \"a\\\"b\"\n", "a.yaml:1:9: domain: ", "accepted are 1 to 63 printable ASCII"},
    {MAIN, "domain: a\ndescriptor: []\n", "a.yaml:2:1: ",
     "unknown key \"descriptor\", did you mean \"descriptors\"? accepted are domain and"},
    {MAIN, "domain: d\ndescriptors: {}\n",
     "a.yaml:2:14: domain d: descriptors: ", "found a mapping, accepted is a list"},
    /* descriptors */
    {MAIN, LIST "- a\n",
     "a.yaml:3:3: domain d: descriptors[0]: ", "found text, accepted is a mapping"},
    {MAIN, LIST "- {value: v}\n", FIRST ": ", "key is missing"},
    {MAIN, LIST "- {key: \"\"}\n", "a.yaml:3:9: domain d: descriptors[0].key: ", "empty text"},
    {MAIN, LIST "- {key: k, vlaue: v}\n", "a.yaml:3:12: domain d: descriptors[0]: ",
     "unknown key \"vlaue\", did you mean \"value\"? accepted are key, value, rate_limit, "
     "shadow_mode, quota_mode, share_threshold, detailed_metric, value_to_metric, metadata and "
     "descriptors"},
    {MAIN, LIST "- {key: k, shadow_mode: yes}\n",
     "a.yaml:3:25: domain d: descriptors[0].shadow_mode: ", "true and false"},
    {MAIN, LIST "- {key: k, metadata: x}\n",
     "a.yaml:3:22: domain d: descriptors[0].metadata: ", "accepted is a mapping"},
    {MAIN, LIST "- {key: k, value: v, share_threshold: true}\n", FIRST ": ",
     "share_threshold is of a value with '*' alone"},
    {MAIN, LIST "- {key: k}\n- {key: l}\n- {key: k}\n",
     "a.yaml:5:3: domain d: descriptors[2]: ", "the same key and value as in line 3"},
    {MAIN, LIST "- {key: a, value: b_c}\n- {key: a_b, value: c}\n",
     "a.yaml:4:3: domain d: descriptors[1]: ", "the same key and value as in line 3"},
    {MAIN, LIST "- key: k\n  descriptors:\n  - {key: l, value: v}\n  - {key: l, value: v}\n",
     "a.yaml:6:5: domain d: descriptors[0].descriptors[1]: ", "as in line 5"},
    /* limits */
    {MAIN, LIST "- {key: k, rate_limit: 5}\n",
     "a.yaml:3:24: domain d: descriptors[0].rate_limit: ", "found text, accepted is a mapping"},
    {MAIN, LIST "- {key: k, rate_limit: {requests_per_unit: 1}}\n",
     "a.yaml:3:24: domain d: descriptors[0].rate_limit: ", "unit is missing"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day}}\n",
     "a.yaml:3:24: domain d: descriptors[0].rate_limit: ",
     "requests_per_unit is missing; 0 denies"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: days, requests_per_unit: 1}}\n",
     "a.yaml:3:31: domain d: descriptors[0].rate_limit.unit: ",
     "found \"days\", did you mean \"day\"? accepted are second, minute, hour, day, week, month "
     "and"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: \"day\\0\", requests_per_unit: 1}}\n",
     "a.yaml:3:31: domain d: descriptors[0].rate_limit.unit: ", "accepted are second, minute"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: unknown, requests_per_unit: 1}}\n",
     "a.yaml:3:31: domain d: descriptors[0].rate_limit.unit: ", "found \"unknown\""},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 0}}\n",
     "a.yaml:3:75: domain d: descriptors[0].rate_limit.unit_multiplier: ", "from 1 to"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 0, unit_multiplier: 401}}\n",
     "a.yaml:3:24: domain d: descriptors[0].rate_limit: ", "a period of more than 400 days"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 400}}\n",
     NULL, NULL},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {calendar: true}}}\n",
     LIST "- {key: k, rate_limit: {unit: month, requests_per_unit: 1, unit_multiplier: 2}}\n",
     "a.yaml:3:24: domain d: descriptors[0].rate_limit: ", "calendar: true"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n",
     "a.yaml:3:55: domain d: descriptors[0].rate_limit.requests_per_unit: ",
     "whole numbers from 0 to 4294967295"},
    {MAIN, LIST "- {key: k, rate_limit: {unlimited: true, unit: day}}\n",
     "a.yaml:3:48: domain d: descriptors[0].rate_limit: ", "an unlimited one has no unit"},
    {MAIN,
     LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: "
          "n}]}}\n",
     "a.yaml:3:78: domain d: descriptors[0].rate_limit.replaces: ", "does not replace itself"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{}]}}\n",
     "a.yaml:3:69: domain d: descriptors[0].rate_limit.replaces: ", "name is missing"},
    {MAIN, LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: {name: n}}}\n",
     "a.yaml:3:68: domain d: descriptors[0].rate_limit.replaces: ", "accepted is a list"},
    /* classes, and what requests say */
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {classes: \"low:1,name=x\"}}}\n", LIST,
     "f.yaml:3:47: envoy.domains.d.classes: ",
     "accepted are names and parts, such as batch:60%|free:80%"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {classes: low:1, count: all}}}\n", LIST,
     "f.yaml:3:34: envoy.domains.d: ", "count: all keeps what denied classes ask for"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {classes: low:200%}}}\n",
     LIST "- {key: k, " RATE "}\n", "a.yaml:3:24: ", "classes"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {most: 5}}}\n",
     LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 10}}\n", "a.yaml:3:24: ", "most"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {entries: {class: \"\"}}}}\n", LIST,
     "f.yaml:3:55: envoy.domains.d.entries.class: ", "accepted is text"},
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {entries: {clas: a}}}}\n", LIST,
     "f.yaml:3:48: envoy.domains.d.entries: ", "unknown key \"clas\", did you mean \"class\"?"},
    /* what only the rule's own algorithm knows */
    {LISTEN STORES "envoy: {files: a.yaml, domains: {d: {algorithm: token-bucket}}}\n",
     LIST "- {key: k, rate_limit: {unit: second, requests_per_unit: 1000000000}}\n", NULL, NULL},
    /* and what is good, empty places among it */
    {MAIN, "domain: d\n", NULL, NULL},
    {MAIN, "domain: d\ndescriptors:\n", NULL, NULL},
    {MAIN, LIST "- {key: k, value: , rate_limit: ~, descriptors: null, metadata: }\n", NULL, NULL},
    {MAIN, LIST "- {key: k, value: \"\", " RATE "}\n- {key: k, value: 404, " RATE "}\n", NULL,
     NULL},
    {MAIN, LIST "- &a {key: k, value: v, " RATE "}\n- {key: l, descriptors: [*a]}\n", NULL, NULL},
    {MAIN, LIST "- {key: k, rate_limit: {unlimited: true, name: n}}\n", NULL, NULL},
    {LISTEN STORES "envoy: {files: [a.yaml], domains: {d: {algorithm: quota, count: all}}}\n",
     LIST "- {key: k, rate_limit: {unit: YEAR, requests_per_unit: 1}}\n", NULL, NULL},
};

static weir_config_faults faults;

static void write_file(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static weir_registry *build(const char *text) {
  faults = (weir_config_faults){0};
  weir_config *config = weir_config_read_text("f.yaml", text, strlen(text), &faults);
  assert_non_null(config);
  weir_registry *registry = weir_registry_create(config, NULL, &faults);
  assert_int_equal(registry == NULL, faults.count > 0);
  return registry;
}

static void test_each_fault_has_its_place(void **state) {
  size_t wrong = 0;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_file("a.yaml", cases[i].file);
    weir_registry_release(build(cases[i].text));
    const char *line = faults.lines[0].text.text;
    const char *starts = cases[i].starts;
    bool as_expected = starts == NULL ? faults.count == 0
                                      : faults.count == 1 && strstr(line, cases[i].says) != NULL &&
                                            strncmp(line, starts, strlen(starts)) == 0;
    if (as_expected) continue;
    wrong++;
    print_error("%s%s: %zu faults, expected \"%s...%s\", the first is \"%s\"\n", cases[i].text,
                cases[i].file, faults.count, starts != NULL ? starts : "",
                starts != NULL ? cases[i].says : "", faults.count > 0 ? line : "");
  }
  assert_int_equal(wrong, 0);
}

/* The format has larger ones than any rule here: they are lowered, and that is said. */
static void test_a_limit_above_the_most_is_lowered(void **state) {
  static weir_config_faults warnings;
  const char *text = MAIN;
  (void)state;
  write_file("a.yaml", LIST "- {key: k, rate_limit: {unit: day, requests_per_unit: 4294967295}}\n");
  faults = (weir_config_faults){.warnings = &warnings};
  weir_config *config = weir_config_read_text("f.yaml", text, strlen(text), &faults);
  assert_int_equal(faults.count, 0);
  assert_int_equal(warnings.count, 1);
  assert_string_equal(
      warnings.lines[0].text.text,
      "a.yaml:3:24: warning: domain d: descriptors[0].rate_limit: requests_per_unit of "
      "4294967295 is taken as 1000000000, which is the most");
  const weir_config_rate *rate = config->envoy.domains[0].descriptors[0].rate;
  assert_int_equal(rate->requests, 1000000000);
  assert_string_equal(rate->rule, "fixed-window:1000000000/86400s");
  weir_config_destroy(config);
}

static void test_all_faults_of_all_files_are_told(void **state) {
  (void)state;
  write_file("a.yaml", LIST "- {key: k, x: 1, rate_limit: {unit: x, requests_per_unit: -1}}\n");
  write_file("b.yaml", "domain: d\ndescriptors: [{}]\n");
  assert_null(build(MAIN "loops: 0\n"));
  unlink("b.yaml");
  assert_int_equal(faults.count, 6);
}

/* Deep enough to be of use, and no deeper than the path of its faults. */
static void test_depth_is_bounded(void **state) {
  static char text[16384];
  (void)state;
  for (int depth = 31; depth <= 32; depth++) {
    strcpy(text, "domain: d\n");
    for (int i = 0; i < depth; i++)
      sprintf(text + strlen(text), "%sdescriptors: [{key: k", i > 0 ? ", " : "");
    for (int i = 0; i < depth; i++)
      strcat(text, "}]");
    write_file("a.yaml", text);
    weir_registry_release(build(MAIN));
    assert_int_equal(faults.count, depth == 32);
  }
  assert_non_null(strstr(faults.lines[0].text.text, "nested deeper than 64"));
}

static void write_many(int count, const char *rest) {
  FILE *file = fopen("a.yaml", "w");
  assert_non_null(file);
  fputs("domain: d\ndescriptors:\n", file);
  for (int i = 0; i < count; i++)
    fprintf(file, "- {key: k%d%s}\n", i, rest);
  assert_int_equal(fclose(file), 0);
}

static void test_descriptors_are_counted(void **state) {
  (void)state;
  write_many(100001, "");
  assert_null(build(MAIN));
  assert_int_equal(faults.count, 1);
  assert_non_null(strstr(faults.lines[0].text.text, "more than 100000 descriptors"));
  write_many(1001, ", value: v*");
  assert_null(build(MAIN));
  assert_int_equal(faults.count, 1);
  assert_non_null(strstr(faults.lines[0].text.text, "found 1001 descriptors with '*'"));
}

int main(void) {
  char folder[] = "/tmp/weir-descriptors-XXXXXX";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_fault_has_its_place),
      cmocka_unit_test(test_a_limit_above_the_most_is_lowered),
      cmocka_unit_test(test_all_faults_of_all_files_are_told),
      cmocka_unit_test(test_depth_is_bounded),
      cmocka_unit_test(test_descriptors_are_counted),
  };
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink("a.yaml");
  if (rmdir(folder) != 0) perror(folder);
  return failed;
}
