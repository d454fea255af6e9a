/* Reads the values of options. Whatever is wrong is said with the option's name, the value as it
 * may be shown, and what is accepted. */
#include "option_values.h"

#include <string.h>

#include "logs/trace.h"
#include "number.h"
#include "report.h"

bool weir_cli_read_integer(const char *name, const char *text, int64_t most, int64_t *value) {
  if (weir_number_read(text, strlen(text), most, value) && *value >= 1) return true;
  weir_cli_error("--%s \"%s\": a whole number from 1 to %lld is accepted", name,
                 weir_cli_show(text).text, (long long)most);
  return false;
}

/* One cost for every rule, or one per rule. A 0 leaves a rule out, so it makes sense in a list
 * only.
 */
bool weir_cli_read_costs(const char *text, weir_cli_options *options) {
  bool list = strchr(text, ',') != NULL;
  int64_t sum = 0;
  options->cost_count = 0;
  for (const char *at = text; options->cost_count < WEIR_CLI_COSTS_MOST; at++) {
    size_t length = strcspn(at, ",");
    int64_t *cost = &options->costs[options->cost_count++];
    if (!weir_number_read(at, length, WEIR_TRACE_COST_MOST, cost)) break;
    sum += *cost;
    if (*(at += length) == '\0') {
      if (sum > 0) return true;
      break;
    }
  }
  weir_cli_error("--cost \"%s\": %s", weir_cli_show(text).text,
                 list ? "a list of 2 to 8 whole numbers from 0 to 2147483648, one per rule and one "
                        "above 0, is accepted"
                      : "a whole number from 1 to 2147483648 is accepted");
  return false;
}

bool weir_cli_read_wait(const char *text, weir_cli_options *options) {
  static const int64_t default_us = 60000000, most_us = 1800000000;
  bool zero = strcmp(text, "0s") == 0;
  options->wait_us = 0;
  if (!zero &&
      (!weir_duration_parse(text, strlen(text), &options->wait_us) || options->wait_us > most_us)) {
    weir_cli_error("--wait \"%s\": a whole duration from 0s to 30m is accepted, such as 2200ms",
                   weir_cli_show(text).text);
    return false;
  }
  options->limiter.longest_wait_us = options->wait_us > default_us ? options->wait_us : default_us;
  return true;
}

bool weir_cli_read_stamp(const char *text, weir_cli_options *options) {
  static const int64_t most_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  if (weir_number_read(text, strlen(text), most_us, &options->at_us)) return true;
  weir_cli_error("--at \"%s\": microseconds since 1970 are accepted, such as at_us of take --json",
                 weir_cli_show(text).text);
  return false;
}

/* Zero would mean "default" to the library, so it must not get through. */
bool weir_cli_read_duration(const char *name, const char *text, int64_t *us) {
  static const int64_t least_us = 1000, most_us = 60000000;
  if (weir_duration_parse(text, strlen(text), us) && *us >= least_us && *us <= most_us) return true;
  weir_cli_error("--%s \"%s\": a whole duration from 1ms to 60s is accepted, such as 20ms", name,
                 weir_cli_show(text).text);
  return false;
}

bool weir_cli_read_processes(const char *text, weir_cli_options *options) {
  int64_t value;
  if (!weir_cli_read_integer("processes", text, 100000, &value)) return false;
  options->limiter.processes = (uint32_t)value;
  return true;
}

bool weir_cli_read_store(const char *text, weir_cli_options *options) {
  options->store = text;
  if (options->store_count < WEIR_CLI_STORES_MOST) {
    options->stores[options->store_count++] = text;
    return true;
  }
  weir_cli_error("--store is given more than %d times", WEIR_CLI_STORES_MOST);
  return false;
}

bool weir_cli_read_via(const char *text, weir_cli_options *options) {
  if (options->via_count < WEIR_BENCH_VIAS_MOST) {
    options->vias[options->via_count++] = text;
    return true;
  }
  weir_cli_error("--via is given more than %d times", WEIR_BENCH_VIAS_MOST);
  return false;
}

bool weir_cli_read_bench_duration(const char *text, weir_cli_options *options) {
  static const int64_t least_us = 100000, most_us = INT64_C(3600000000);
  int64_t *us = &options->duration_us;
  if (weir_duration_parse(text, strlen(text), us) && *us >= least_us && *us <= most_us) return true;
  weir_cli_error("--duration \"%s\": a whole duration from 100ms to 1h is accepted, such as 2200ms",
                 weir_cli_show(text).text);
  return false;
}

bool weir_cli_read_rule(const char *text, weir_cli_options *options) {
  options->rule = text;
  if (options->rule_count < WEIR_CLI_RULES_MOST) {
    options->rules[options->rule_count++] = text;
    return true;
  }
  weir_cli_error("--rule is given more than %d times", WEIR_CLI_RULES_MOST);
  return false;
}

bool weir_cli_read_format(const char *text, weir_cli_options *options) {
  static const char *const names[] = {[WEIR_CLI_FORMAT_AUTO] = "auto",
                                      [WEIR_CLI_FORMAT_TRACE] = "trace",
                                      [WEIR_CLI_FORMAT_ACCESS_LOG] = "access-log",
                                      [WEIR_CLI_FORMAT_JSON] = "json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    options->format = (weir_cli_format)i;
    return true;
  }
  options->format = WEIR_CLI_FORMAT_PATTERN;
  options->log_format = text;
  if (strpbrk(text, "%$") != NULL) return true;
  weir_cli_error(
      "--format \"%s\": auto, trace, access-log, json and a log's own format with its %% or $ are "
      "accepted",
      weir_cli_show(text).text);
  return false;
}

static bool choose_pattern(weir_bench_pattern pattern, weir_cli_options *options) {
  bool other = options->pattern != WEIR_BENCH_UNIFORM && options->pattern != pattern;
  options->pattern = pattern;
  if (other) weir_cli_error("--hot and --zipf: one of them is accepted");
  return !other;
}

bool weir_cli_read_hot(const char *text, weir_cli_options *options) {
  (void)text;
  return choose_pattern(WEIR_BENCH_HOT, options);
}

bool weir_cli_read_zipf(const char *text, weir_cli_options *options) {
  (void)text;
  return choose_pattern(WEIR_BENCH_ZIPF, options);
}
