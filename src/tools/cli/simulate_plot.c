/* simulate --plot: what a rule thought that one key had asked for, against what it had, over the
 * few periods in which it asked for most; one panel a rule, by gnuplot. */
#include "simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "output.h"
#include "report.h"

enum {
  PERIODS_SHOWN = 6,
  LOOKS = 480,
  POINTS_MOST = 960, /* of the lines, in one panel */
  MARKS_MOST = 90,   /* of one kind: nearer ones would merge into a band */
  WIDTH = 900,       /* pixels, as are the heights */
  PANEL_HEIGHT = 150,
  GAP_HEIGHT = 34, /* between panels, for their titles */
  HEADER_HEIGHT = 78,
  FOOT_HEIGHT = 60,
  LOG_FROM = 4 /* so many times the limit, and the axis is logarithmic */
};

/* The requests of the one key that is drawn. */
struct history {
  char *key;
  size_t key_length;
  weir_curve_request *requests;
  size_t count;
  size_t room;
  int64_t from_us; /* the stretch that is drawn */
  int64_t until_us;
};

bool weir_cli_simulate_plot_check(const weir_cli_options *options) {
  size_t length = strlen(options->plot);
  bool is_stdin = options->argument_count == 0;
  for (int i = 0; i < options->argument_count; i++)
    is_stdin = is_stdin || strcmp(options->arguments[i], "-") == 0;
  if (length < 5 || strcmp(options->plot + length - 4, ".svg") != 0)
    weir_cli_error("--plot \"%s\": a file whose name ends in .svg is accepted",
                   weir_cli_show(options->plot).text);
  else if (options->attack)
    weir_cli_error("--plot with --attack: a plot needs a FILE or --generate");
  else if (options->generate == NULL && is_stdin)
    weir_cli_error("--plot with stdin: it needs a FILE or --generate, which it reads twice");
  else
    return weir_cli_gnuplot_check(options->plot);
  return false;
}

/* --- the key and its requests ---------------------------------------------------------------- */

/* The key that was asked for; else the one denied most often by the first rule that denied any;
 * else the one that asked most often. */
static bool choose_key(const weir_cli_options *options, const weir_simulation *simulation,
                       struct history *history) {
  const weir_denied_key *top = NULL;
  const char *text = options->plot_key;
  for (size_t i = 0; text == NULL && top == NULL && i < simulation->rule_count; i++)
    weir_denied_keys_top(&simulation->denied[i], &top, 1);
  if (text == NULL && top == NULL) weir_denied_keys_top(&simulation->asked, &top, 1);
  if (text == NULL && top == NULL) return true;
  if (text == NULL) text = top->key;
  history->key_length = top != NULL ? top->key_length : strlen(text);
  history->key = malloc(history->key_length + 1);
  if (history->key == NULL) return false;
  memcpy(history->key, text, history->key_length);
  return true;
}

/* A clock that goes back stands still, as in the simulation. */
static weir_status collect(weir_cli_input *input, struct history *history, weir_message *message) {
  weir_cli_arrival arrival;
  weir_cli_step step;
  int64_t latest_us = INT64_MIN;
  while ((step = weir_cli_input_next(input, &arrival, message)) == WEIR_CLI_ARRIVAL) {
    if (arrival.key_length != history->key_length ||
        memcmp(arrival.key, history->key, history->key_length) != 0)
      continue;
    if (arrival.time_us > latest_us) latest_us = arrival.time_us;
    if (!weir_array_grow(&history->requests, &history->room, history->count + 1,
                         sizeof *history->requests))
      return WEIR_NO_MEMORY;
    weir_curve_request *request = &history->requests[history->count++];
    *request = (weir_curve_request){.at_us = latest_us, .cost = arrival.cost};
    size_t length = arrival.class_name.length;
    if (length > 0 && length <= WEIR_NAME_MOST) /* as it was when it was read before */
      memcpy(request->class_name, arrival.class_name.at, length);
  }
  return step == WEIR_CLI_INPUT_BROKEN ? WEIR_BAD_ARGUMENT : WEIR_OK;
}

/* The periods in which the key asked for most; they begin a little before. */
static void choose_stretch(struct history *history, int64_t period_us) {
  int64_t span_us = PERIODS_SHOWN * period_us;
  int64_t cost = 0, most = 0;
  size_t first = 0;
  for (size_t i = 0; i < history->count; i++) {
    cost += history->requests[i].cost;
    while (history->requests[i].at_us - history->requests[first].at_us > span_us - period_us)
      cost -= history->requests[first++].cost;
    if (cost <= most) continue;
    most = cost;
    history->from_us = history->requests[first].at_us - period_us / 2;
  }
  if (history->from_us < 0) history->from_us = 0;
  history->until_us = history->from_us + span_us;
}

/* --- the script ------------------------------------------------------------------------------ */

struct drawing {
  FILE *script;
  const struct history *history;
  int64_t period_us;
  int64_t most[WEIR_SIMULATION_RULES_MOST];   /* in each panel */
  size_t panel;                               /* that is drawn */
  double drawn[WEIR_MARK_WRONGLY_DENIED + 1]; /* where the last point of each mark was drawn */
};

static bool is_apart(struct drawing *drawing, double x, weir_curve_mark mark, int most) {
  if (x - drawing->drawn[mark] < (double)PERIODS_SHOWN / most) return false;
  drawing->drawn[mark] = x;
  return true;
}

/* As many points as can be told apart; the rest would only make the file large. */
static void draw_point(void *context, const weir_curve_point *point) {
  struct drawing *drawing = context;
  int64_t *most = &drawing->most[drawing->panel];
  weir_curve_mark mark = point->mark == WEIR_MARK_RIGHT ? WEIR_MARK_NONE : point->mark;
  if (point->truth > *most) *most = point->truth;
  if (point->estimate > *most) *most = point->estimate;
  double x = (double)(point->at_us - drawing->history->from_us) / (double)drawing->period_us;
  if (mark != WEIR_MARK_NONE && !is_apart(drawing, x, mark, MARKS_MOST)) mark = WEIR_MARK_NONE;
  if (mark == WEIR_MARK_NONE && !is_apart(drawing, x, mark, POINTS_MOST)) return;
  fprintf(drawing->script, "%.6f %lld %lld %d\n", x, (long long)point->truth,
          (long long)point->estimate, (int)mark);
}

/* Each panel's curve, by running its rule on the key alone, which also finds how high it gets. */
static weir_status write_data(const weir_cli_options *options, const weir_simulation *simulation,
                              struct drawing *drawing, weir_message *message) {
  weir_status status = WEIR_OK;
  for (size_t i = 0; i < simulation->rule_count && status == WEIR_OK; i++) {
    const weir_curve curve = {.rule = simulation->texts[i],
                              .options = &options->limiter,
                              .requests = drawing->history->requests,
                              .request_count = drawing->history->count,
                              .from_us = drawing->history->from_us,
                              .until_us = drawing->history->until_us,
                              .looks = LOOKS,
                              .draw = draw_point,
                              .context = drawing};
    drawing->panel = i;
    drawing->most[i] = weir_simulation_rule(simulation, i)->limit;
    for (int mark = 0; mark <= WEIR_MARK_WRONGLY_DENIED; mark++)
      drawing->drawn[mark] = -1;
    fprintf(drawing->script, "$data%zu << WEIR_END\n", i);
    status = weir_curve_draw(&curve, message);
    fputs("WEIR_END\n", drawing->script);
  }
  return status;
}

static void write_header(const struct drawing *drawing, size_t panels) {
  FILE *script = drawing->script;
  const struct history *history = drawing->history;
  char period[WEIR_DURATION_BYTES], begin[WEIR_CLI_TIME_BYTES];
  int pixels = (int)panels * PANEL_HEIGHT + HEADER_HEIGHT + FOOT_HEIGHT;
  double height = pixels;
  weir_duration_format(drawing->period_us, period, sizeof period);
  weir_cli_format_time(history->from_us, begin);
  weir_cli_gnuplot_page(script, WIDTH, pixels);
  fprintf(script,
          "set multiplot layout %zu,1 margins 0.08,0.98,%.4f,%.4f spacing 0,%.4f\n"
          "set xrange [0:%d]\nset format x ''\n"
          "set ylabel 'in the last %s' offset 1,0\n",
          panels, FOOT_HEIGHT / height, 1 - HEADER_HEIGHT / height, GAP_HEIGHT / height,
          PERIODS_SHOWN, period);
  fputs("set label 1 'key ' . ", script);
  weir_cli_gnuplot_quote(script, history->key, history->key_length < 40 ? history->key_length : 40);
  fprintf(script, " . ', from %s UTC on' at screen 0.525, screen %.4f center\n", begin,
          1 - 14 / height);
  fprintf(script,
          "set key at screen 0.98, screen %.4f right top horizontal maxrows 1 samplen 2 width -3\n",
          1 - 26 / height);
  fprintf(script, "time_label = 'time in periods of %s'\n", period);
}

/* Their names, each above its line. */
static void name_classes(FILE *script, const weir_stack *stack) {
  enum { FIRST_LABEL = 10 };
  for (unsigned i = 1; i <= WEIR_CLASSES_MOST; i++) {
    char name[WEIR_NAME_MOST + 1];
    fprintf(script, "unset label %u\n", FIRST_LABEL + i);
    if (!weir_stack_read_class(stack, i - 1, name)) continue;
    fprintf(script, "set label %u ", FIRST_LABEL + i);
    weir_cli_gnuplot_quote(script, name, strlen(name));
    fprintf(script, " at graph 0.004, first %lld offset 0,0.45 noenhanced front font ',9'\n",
            (long long)weir_measure_limit(&stack->rules[0], i));
  }
}

static void write_panel(const struct drawing *drawing, const weir_simulation *simulation) {
  FILE *script = drawing->script;
  size_t i = drawing->panel;
  const weir_stack *stack = &simulation->drivers[i].stack;
  long long limit = (long long)stack->rules[0].limit;
  fputs("set title ", script);
  weir_cli_gnuplot_quote(script, simulation->texts[i], strlen(simulation->texts[i]));
  fputs(" offset 0,-0.7\n", script);
  if (i > 0) fputs("unset key\nunset label 1\n", script);
  name_classes(script, stack);
  if (i + 1 == simulation->rule_count) fputs("set format x\nset xlabel time_label\n", script);

  /* From 0 to the highest; where that is many times the limit, on a logarithmic axis, which has no
   * 0: what is below 1 lies on its floor. Panels of nearly one height have one scale. */
  int64_t highest = drawing->most[i], top = highest;
  for (size_t j = 0; j < WEIR_SIMULATION_RULES_MOST; j++)
    if (drawing->most[j] > top && drawing->most[j] / 2 <= highest) top = drawing->most[j];
  bool is_log = highest / LOG_FROM > limit;
  double floor = is_log ? 0.7 : 0;
  fprintf(script, "%s logscale y\nset yrange [%g:%g]\n", is_log ? "set" : "unset", floor,
          is_log ? 2.0 * (double)top : 1.125 * (double)top + 1);
  fprintf(script,
          "floor = %g\nat(y) = y > floor ? y : floor\n"
          "plot $data%zu using 1:(at($2)) with filledcurves y1=floor lc rgb '#c8c8c8' title "
          "'truth', \\\n"
          "  $data%zu using 1:(at($3)) with lines lw 1.6 lc rgb '#004488' title 'estimate', \\\n"
          "  %lld with lines dt (8,5) lw 1.2 lc rgb '#000000' title 'limit', \\\n"
          "  $data%zu using 1:($4 == 2 ? at($2) : NaN) with points pt 9 ps 0.8 lc rgb '#bb2200' "
          "title 'wrongly allowed', \\\n"
          "  $data%zu using 1:($4 == 3 ? at($2) : NaN) with points pt 10 ps 0.8 lw 1.4 lc rgb "
          "'#000000' title 'wrongly denied'",
          floor, i, i, limit, i, i);
  for (unsigned j = 1; j <= stack->class_count; j++)
    fprintf(script, ", %lld with lines dt (2,4) lw 1 lc rgb '#000000' notitle",
            (long long)weir_measure_limit(&stack->rules[0], j));
  fputc('\n', script);
}

static int draw(const weir_cli_options *options, const weir_simulation *simulation,
                const struct history *history) {
  weir_message message = {""};
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  struct drawing drawing = {.script = script,
                            .history = history,
                            .period_us = weir_simulation_rule(simulation, 0)->period_us};
  weir_status status = write_data(options, simulation, &drawing, &message);
  if (status != WEIR_OK) {
    fclose(script);
    return weir_cli_fail("", status, &message);
  }
  write_header(&drawing, simulation->rule_count);
  for (drawing.panel = 0; drawing.panel < simulation->rule_count; drawing.panel++)
    write_panel(&drawing, simulation);
  fputs("unset multiplot\n", script);
  return weir_cli_gnuplot_draw(script, options->plot);
}

int weir_cli_simulate_plot(const weir_cli_options *options, const weir_simulation *simulation) {
  struct history history = {0};
  weir_cli_input input;
  weir_message message = {""};
  int exit_status = WEIR_EXIT_USAGE;
  for (size_t i = 0; i < simulation->rule_count; i++) {
    if (simulation->drivers[i].stack.count == 1) continue;
    weir_cli_error("--plot with a stack: it draws rules, each with its own --rule");
    return exit_status;
  }
  if (!weir_cli_input_open(options, &simulation->drivers[0].stack, &input)) return exit_status;
  weir_status status = choose_key(options, simulation, &history) ? WEIR_OK : WEIR_NO_MEMORY;
  if (status == WEIR_OK && history.key != NULL) {
    weir_cli_progress_begin(&input.progress, options->quiet, false);
    status = collect(&input, &history, &message);
    weir_cli_progress_end(&input.progress);
  }
  if (status != WEIR_OK)
    exit_status = weir_cli_fail("", status, &message);
  else if (history.count == 0)
    weir_cli_error("--plot: there is no request to draw");
  else {
    choose_stretch(&history, weir_simulation_rule(simulation, 0)->period_us);
    exit_status = draw(options, simulation, &history);
  }
  weir_cli_input_close(&input);
  free(history.requests);
  free(history.key);
  return exit_status;
}
