/* What simulate has measured, for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"
#include "simulate_report.h"

enum { RULE_WIDTH = 21 }; /* "sliding-window:100/1m" */

void weir_cli_format_time(int64_t time_us, char text[WEIR_CLI_TIME_BYTES]) {
  time_t seconds = (time_t)(time_us / 1000000);
  struct tm parts = {0};
  gmtime_r(&seconds, &parts);
  size_t end = strftime(text, WEIR_CLI_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &parts);
  int ms = (int)(time_us / 1000 % 1000);
  if (ms != 0) snprintf(text + end, WEIR_CLI_TIME_BYTES - end, ".%03d", ms);
}

double weir_cli_percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* --- the input ------------------------------------------------------------------------------- */

static void print_malformed(FILE *out, const weir_cli_input *input) {
  if (input->malformed == 0) return;
  fprintf(out, "malformed lines: %" PRIu64 ", left out; the first of them:\n", input->malformed);
  for (uint64_t i = 0; i < input->malformed && i < WEIR_CLI_MALFORMED_SHOWN; i++) {
    fputs("  ", out);
    if (input->source_count > 1) {
      weir_cli_print_key(out, input->first[i].name, strlen(input->first[i].name),
                         WEIR_CLI_SHOWN_MOST);
      fputs(", ", out);
    }
    fprintf(out, "line %" PRIu64 ": %s\n", input->first[i].line, input->first[i].reason.text);
  }
}

static void print_input(FILE *out, const weir_simulation *simulation, const weir_cli_input *input) {
  char first[WEIR_CLI_TIME_BYTES], last[WEIR_CLI_TIME_BYTES];
  weir_cli_format_time(simulation->first_us, first);
  weir_cli_format_time(simulation->now_us, last);
  fprintf(out, "requests: %" PRIu64, simulation->requests);
  if (simulation->requests > 0) fprintf(out, ", %s to %s UTC", first, last);
  fprintf(out, "\nkeys in use at once: up to %zu\n", simulation->keys.most);
  print_malformed(out, input);
  if (input->keyless > 0)
    fprintf(out, "lines without what --key limits: %" PRIu64 ", left out\n", input->keyless);
  if (input->filtered > 0)
    fprintf(out, "lines that --status or --path leave out: %" PRIu64 "\n", input->filtered);
  if (simulation->out_of_order > 0)
    fprintf(out,
            "requests with an earlier time than one before them: %" PRIu64
            ",\n  by up to %.3f s; they count at the later time\n",
            simulation->out_of_order, (double)simulation->furthest_us / 1e6);
}

/* --- the rules ------------------------------------------------------------------------------- */

/* The first column; a longer rule has a line of its own. */
static void begin_row(FILE *out, const char *rule) {
  if (strlen(rule) > RULE_WIDTH) fprintf(out, "%s\n", rule);
  fprintf(out, "%-*s", RULE_WIDTH, strlen(rule) > RULE_WIDTH ? "" : rule);
}

static void print_decisions(FILE *out, const weir_simulation *simulation) {
  fprintf(out, "\n%-*s %7s %7s %7s %8s %8s %7s %7s\n", RULE_WIDTH, "", "", "wrongly", "wrongly",
          "of exact", "off", "error", "error");
  fprintf(out, "%-*s %7s %7s %7s %8s %8s %7s %7s\n", RULE_WIDTH, "rule", "denied", "allowed",
          "denied", "admitted", "by key", "mean", "p99");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_measure *m = &simulation->measures[i];
    const weir_rule *rule = weir_simulation_rule(simulation, i);
    begin_row(out, simulation->texts[i]);
    fprintf(out, " %6.3f%% %6.3f%% %6.3f%% %7.2f%% %7.3f%%",
            weir_cli_percent(m->cost - m->cost_allowed, m->cost),
            weir_cli_percent(m->cost_wrongly_allowed, m->cost),
            weir_cli_percent(m->cost_wrongly_denied, m->cost),
            weir_cli_percent(m->cost_allowed, m->cost_exactly_allowed),
            weir_cli_percent(m->cost_differing, m->cost_exactly_allowed));
    if (weir_measure_has_estimate(rule) && m->errors > 0)
      fprintf(out, " %6.2f%% %6.1f%%\n", 100 * m->error_sum / (double)m->errors,
              weir_measure_error_p99(m) / 10.0);
    else
      fprintf(out, " %7s %7s\n", "-", "-");
  }
}

static double per(uint64_t sum, uint64_t count) {
  return count > 0 ? (double)sum / (double)count : 0;
}

static void print_costs(FILE *out, const weir_simulation *simulation) {
  fprintf(out, "\n%-*s %15s %10s %7s %7s %7s %7s\n", RULE_WIDTH, "", "most admitted", "operations",
          "trips", "without", "entries", "bytes");
  fprintf(out, "%-*s %15s %10s %7s %7s %7s %7s\n", RULE_WIDTH, "rule", "in a period", "a request",
          "each", "store", "per key", "per key");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_measure *m = &simulation->measures[i];
    const weir_driver *driver = &simulation->drivers[i];
    int64_t limit = m->most_limit > 0 ? m->most_limit : 1;
    begin_row(out, simulation->texts[i]);
    fprintf(out, " %8" PRId64 " %5.2fL %10.2f %7.2f %6.1f%% %7.1f %7.0f\n", m->most_admitted,
            (double)m->most_admitted / (double)limit, per(driver->operations, m->requests),
            per(driver->rounds, m->requests), 100 * per(m->local, m->requests),
            per(m->entries, m->requests), per(m->state_bytes, m->state_samples));
  }
}

/* Who was denied most often, of whom the record knows more. */
static void print_top(FILE *out, const weir_tally_entry *const *top, size_t count,
                      const weir_record *record) {
  fprintf(out, "  %9s  %8s  %9s  %9s  %-23s  %s\n", "denied", "share", "requests", "peak", "first",
          "key");
  for (size_t i = 0; i < count; i++) {
    char first[WEIR_CLI_TIME_BYTES];
    const weir_record_key *key = weir_record_find(record, top[i]->key, top[i]->key_length);
    weir_cli_format_time(top[i]->first_us, first);
    fprintf(out, "  %9" PRIu64 "  %7.3f%%  %9" PRIu32 "  %9" PRId64 "  %-23s  ", top[i]->denied,
            weir_cli_percent((int64_t)top[i]->denied, (int64_t)key->requests), key->requests,
            key->peak, first);
    weir_cli_print_key(out, top[i]->key, top[i]->key_length, WEIR_SHOWN_KEY_BYTES);
    fputc('\n', out);
  }
}

static bool print_denied(FILE *out, const weir_simulation *simulation, size_t i, int64_t most,
                         weir_record *record) {
  const weir_measure *m = &simulation->measures[i];
  const weir_tally *tally = &simulation->denied[i];
  size_t shown = most > 0 ? (size_t)most : WEIR_CLI_DENIED_SHOWN;
  const weir_tally_entry **top = calloc(shown, sizeof *top);
  if (top == NULL) return false;
  size_t count = weir_tally_top(tally, top, shown);
  bool is_long = strlen(simulation->texts[i]) > (size_t)2 * RULE_WIDTH;
  fprintf(out, "\n%s%swould have denied %" PRIu64 " requests of %zu keys%s\n", simulation->texts[i],
          is_long ? "\n" : " ", m->requests - m->allowed, tally->used, count > 0 ? ":" : "");
  bool enough =
      most == 0 || weir_record_find_peaks(record, weir_simulation_rule(simulation, i)->period_us);
  if (most > 0 && count > 0 && enough) print_top(out, top, count, record);
  for (size_t j = 0; most == 0 && j < count; j++) {
    char first[WEIR_CLI_TIME_BYTES];
    weir_cli_format_time(top[j]->first_us, first);
    fprintf(out, "  %9" PRIu64 "  ", top[j]->denied);
    weir_cli_print_key(out, top[j]->key, top[j]->key_length, WEIR_SHOWN_KEY_BYTES);
    fprintf(out, "  (first %s)\n", first);
  }
  free(top);
  return enough;
}

bool weir_cli_simulation_text(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input, int64_t top, weir_record *record) {
  print_input(out, simulation, input);
  print_decisions(out, simulation);
  print_costs(out, simulation);
  for (size_t i = 0; i < simulation->rule_count; i++)
    if (!print_denied(out, simulation, i, top, record)) return false;
  return true;
}

void weir_cli_attack_text(FILE *out, const char *rule, const weir_attack_result *result) {
  fprintf(out,
          "%s: admitted up to %" PRId64 " in a period, %.2f times the limit; proved bound %" PRId64
          ", reached to %.1f%%\n",
          rule, result->most, (double)result->most / (double)result->limit, result->bound,
          weir_cli_percent(result->most, result->bound));
  fprintf(out, "  by this traffic, the best of %" PRIu64 ":\n", result->traffics);
  for (size_t i = 0; i < result->train_count; i++) {
    const weir_attack_train *train = &result->trains[i];
    fprintf(out,
            "  after %.6f periods %" PRId64 " requests, one every %" PRId64 " us, up to %" PRId64
            " each: admitted %" PRId64 "\n",
            (double)train->at_us / (double)result->period_us, train->requests, train->gap_us,
            train->cost, train->admitted);
  }
}
