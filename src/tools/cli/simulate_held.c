/* simulate --duration: reads requests with their durations, reports what limits on what is in flight
 * would have denied, and draws what was in flight over time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "report.h"
#include "simulate.h"

enum { PARTS = 900 }; /* of the time, about one a pixel: the most in each is drawn */

/* The key that was asked for; else the one denied most often by the first rule that denied any; else
 * the one with the highest peak. NULL: there is none of that name. */
static const weir_record_key *choose_key(const weir_cli_options *options,
                                         const weir_simulation *simulation,
                                         const weir_record *record) {
  const weir_denied_key *top = NULL;
  if (options->plot_key != NULL)
    return weir_record_find(record, options->plot_key, strlen(options->plot_key));
  for (size_t i = 0; top == NULL && i < simulation->rule_count; i++)
    weir_denied_keys_top(&simulation->denied[i], &top, 1);
  if (top != NULL) return weir_record_find(record, top->key, top->key_length);
  const weir_record_key *found = record->key_count > 0 ? &record->keys[0] : NULL;
  for (size_t i = 1; i < record->key_count; i++)
    if (record->keys[i].peak > found->peak) found = &record->keys[i];
  return found;
}

static void write_script(FILE *script, const weir_simulation *simulation, const weir_held *held,
                         const weir_record_key *key, const int64_t most[PARTS]) {
  size_t length;
  const char *name = weir_record_name(&held->record, key, &length);
  char begin[WEIR_CLI_TIME_BYTES];
  double part_s = (double)(held->last_us - held->first_us) / 1e6 / PARTS;
  double unit_s = part_s * PARTS > 7200 ? 3600 : part_s * PARTS > 120 ? 60 : 1;
  weir_cli_format_time(held->first_us, begin);
  weir_cli_gnuplot_page(script, 900, 360);
  fprintf(script,
          "set yrange [0:*]\nset key outside top center horizontal\n"
          "set xlabel '%s since %s UTC'\nset ylabel 'in flight at once, of key ' . ",
          unit_s == 1    ? "seconds"
          : unit_s == 60 ? "minutes"
                         : "hours",
          begin);
  weir_cli_gnuplot_quote(script, name, length < 40 ? length : 40);
  fputs("\n$most << WEIR_END\n", script);
  for (size_t i = 0; i < PARTS; i++)
    fprintf(script, "%.6f %" PRId64 "\n", (double)i * part_s / unit_s, most[i]);
  fputs("WEIR_END\nplot $most using 1:2 with fillsteps fs solid lc rgb '#88aacc' title 'in flight'",
        script);
  for (size_t i = 0; i < simulation->rule_count; i++) {
    fprintf(script, ", %" PRId64 " with lines lw 1.6 dt %zu lc rgb '#000000' title ",
            weir_simulation_rule(simulation, i)->limit, i + 1);
    weir_cli_gnuplot_quote(script, simulation->texts[i], strlen(simulation->texts[i]));
  }
  fputc('\n', script);
}

/* The exit status, as of report(). */
static int plot(const weir_cli_options *options, const weir_simulation *simulation,
                weir_held *held) {
  static int64_t most[PARTS];
  weir_message message = {""};
  const weir_record_key *key = choose_key(options, simulation, &held->record);
  if (key == NULL) {
    weir_cli_error("--plot: there is no request to draw");
    return WEIR_EXIT_USAGE;
  }
  weir_status status = weir_held_history(held, key, most, PARTS, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  write_script(script, simulation, held, key, most);
  return weir_cli_gnuplot_draw(script, options->plot);
}

static int report(const weir_cli_options *options, const char *const *rules, size_t rule_count,
                  weir_held *held, const weir_cli_input *input) {
  static weir_simulation simulation; /* large, and there is one */
  weir_message message = {""};
  const weir_cli_found found = {&simulation, NULL, held, input, &held->record};
  weir_status status = weir_held_simulate(held, rules, rule_count, &simulation, &message);
  if (status == WEIR_OK && !options->json && held->record.key_count > 0) {
    weir_cli_print_peaks(&held->record, 0);
    putchar('\n');
  }
  int exit_status = status == WEIR_OK ? weir_cli_simulate_report(options, &found)
                                      : weir_cli_fail("", status, &message);
  if (exit_status == 0 && options->plot != NULL) exit_status = plot(options, &simulation, held);
  weir_simulation_clean_up(&simulation);
  return exit_status;
}

int weir_cli_simulate_held(const weir_cli_options *options, const char *const *rules,
                           size_t rule_count) {
  weir_cli_input input;
  weir_held held = {0};
  weir_message message = {""};
  if (!weir_cli_input_open(options, NULL, &input)) return WEIR_EXIT_USAGE;
  int exit_status = weir_cli_input_read(&input, &(weir_cli_readers){.held = &held});
  if (exit_status == 0) {
    weir_status status = weir_held_finish(&held, &message);
    exit_status = status == WEIR_OK ? report(options, rules, rule_count, &held, &input)
                                    : weir_cli_fail("", status, &message);
  }
  weir_held_clean_up(&held);
  weir_cli_input_close(&input);
  return exit_status;
}
