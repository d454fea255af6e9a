/* Recommends limits: asks src/tools/simulate for them, and says what it found. */
#include "simulate_recommend.h"

#include <inttypes.h>
#include <string.h>

#include "gnuplot.h"
#include "json.h"
#include "number.h"
#include "report.h"
#include "simulate_report.h"

static const int percentiles[] = {500, 900, 990, 999, 1000};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles, DIGITS = 8, BAR_MOST = 36 };

/* --- the goal --------------------------------------------------------------------------------- */

/* "0.1%": up to four digits behind the point. */
static bool read_share(const char *text, int64_t *share) {
  size_t whole = strspn(text, "0123456789"), digits = 0;
  int64_t percent, fraction = 0;
  if (!weir_number_read(text, whole, 100, &percent)) return false;
  if (text[whole] == '.') {
    digits = strspn(text + whole + 1, "0123456789");
    if (digits > 4 || !weir_number_read(text + whole + 1, digits, 9999, &fraction)) return false;
    for (size_t i = digits; i < 4; i++)
      fraction *= 10;
    whole += 1 + digits;
  }
  *share = percent * 10000 + fraction;
  return strcmp(text + whole, "%") == 0 && *share < WEIR_RULE_SHARE_WHOLE;
}

bool weir_cli_goal_read(const char *text, weir_goal *goal) {
  static const char of_keys[] = "keys:", one[] = "key:";
  *goal = (weir_goal){.of_keys = strncmp(text, of_keys, strlen(of_keys)) == 0};
  if (strncmp(text, one, strlen(one)) == 0 && text[strlen(one)] != '\0') {
    goal->key = text + strlen(one);
    return true;
  }
  if (read_share(goal->of_keys ? text + strlen(of_keys) : text, &goal->share)) return true;
  weir_cli_error(
      "--recommend \"%s\": keys:0.1%% of keys, 0.1%% of requests, or key:NAME for one that "
      "is never denied are accepted; from 0%% to 99.9999%%",
      weir_cli_show(text).text);
  return false;
}

/* --- what was found, in text ------------------------------------------------------------------ */

static void print_peaks(const weir_record *record, const int64_t peaks[PERCENTILES],
                        int64_t period_us) {
  char period[WEIR_DURATION_BYTES];
  uint64_t bins[WEIR_RECORD_BINS], most = 1;
  weir_duration_format(period_us, period, sizeof period);
  weir_record_histogram(record, bins);
  printf("peaks of %zu keys, in any %s:\n ", record->key_count, period);
  for (int i = 0; i < PERCENTILES; i++) {
    printf("%s %" PRId64 " ", i > 0 ? "," : "", peaks[i]);
    if (percentiles[i] == 1000)
      printf("most\n");
    else
      printf("p%g", percentiles[i] / 10.0);
  }
  for (int i = 0; i < WEIR_RECORD_BINS; i++)
    most = bins[i] > most ? bins[i] : most;
  for (int i = 0; i < WEIR_RECORD_BINS; i++) {
    if (bins[i] == 0) continue;
    int bar = (int)((double)bins[i] * BAR_MOST / (double)most + 0.999);
    printf("  %10" PRId64 " to %10" PRId64 "  %9" PRIu64 " keys  %.*s\n", INT64_C(1) << i,
           (INT64_C(2) << i) - 1, bins[i], bar, "####################################");
  }
}

static void print_denials(const char *what, const weir_denials *denied, const weir_record *record) {
  printf("  %s %" PRIu64 " requests (%.4f%%) of %" PRIu64 " keys (%.4f%%)\n", what,
         denied->requests, weir_cli_percent((int64_t)denied->requests, (int64_t)record->count),
         denied->keys, weir_cli_percent((int64_t)denied->keys, (int64_t)record->key_count));
}

/* One client that hammers can use up alone what may be denied. */
static void print_rests_on(const char *rule, const weir_record *record, const weir_goal *goal,
                           const weir_cli_found *result) {
  const weir_recommendation *found = &result->found;
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  size_t length;
  if (found->rests_on == NULL) return;
  const char *key = weir_record_name(record, found->rests_on, &length);
  printf("  %" PRIu64 " of these would be of one key, on which this rests: ",
         found->rests_on_requests);
  weir_cli_print_key(stdout, key, length, WEIR_SHOWN_KEY_BYTES);
  putchar('\n');
  if (result->by_keys == 0) return;
  weir_recommend_write(rule, result->by_keys, text);
  printf("  keys:%g%%, which counts each key once, gives %s\n",
         (double)goal->share * 100 / WEIR_RULE_SHARE_WHOLE, text);
}

static void print_found(const char *rule, const weir_record *record, const weir_goal *goal,
                        const weir_cli_found *result) {
  const weir_recommendation *found = &result->found;
  const weir_denials *with = &found->denied, *below = &found->denied_below;
  bool is_least = found->least > 1 && found->limit == found->least;
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_recommend_write(rule, found->limit, text);
  if (goal->key != NULL) {
    printf("recommended: %s never denies ", text);
    weir_cli_print_key(stdout, goal->key, strlen(goal->key), WEIR_SHOWN_KEY_BYTES);
    if (is_least)
      printf("\n  one less is no rule with these options\n\n");
    else
      printf("\n  one less denies it %" PRIu64 " times\n\n", below->requests);
    return;
  }
  printf("recommended: %s\n", text);
  print_denials("denies", with, record);
  if (is_least)
    printf("  one less is no rule with these options\n");
  else
    print_denials("one less denies", below, record);
  if (!found->smallest) printf("  a smaller limit may be enough, too: not all were tried\n");
  print_rests_on(rule, record, goal, result);
  putchar('\n');
}

/* --- and for programs ------------------------------------------------------------------------- */

static json_t *denials_json(const weir_denials *denied) {
  return json_pack("{sIsI}", "requests", (json_int_t)denied->requests, "keys",
                   (json_int_t)denied->keys);
}

static json_t *histogram_json(const weir_record *record) {
  uint64_t bins[WEIR_RECORD_BINS];
  json_t *list = json_array();
  weir_record_histogram(record, bins);
  for (int i = 0; list != NULL && i < WEIR_RECORD_BINS; i++)
    if (bins[i] > 0)
      json_array_append_new(
          list, json_pack("{sIsIsI}", "from", (json_int_t)INT64_C(1) << i, "to",
                          (json_int_t)((INT64_C(2) << i) - 1), "keys", (json_int_t)bins[i]));
  return list;
}

/* Null where no one key has more than half. */
static json_t *rests_on_json(const weir_record *record, const weir_cli_found *result) {
  const weir_recommendation *found = &result->found;
  if (found->rests_on == NULL) return json_null();
  size_t length;
  const char *key = weir_record_name(record, found->rests_on, &length);
  json_t *object =
      json_pack("{sIso}", "denied_with_one_less", (json_int_t)found->rests_on_requests,
                "limit_by_keys", result->by_keys > 0 ? json_integer(result->by_keys) : json_null());
  if (object == NULL || weir_cli_json_set_bytes(object, "key", key, length)) return object;
  json_decref(object);
  return NULL;
}

static bool print_json(const char *rule, const weir_record *record,
                       const int64_t peaks[PERCENTILES], const weir_cli_found *result) {
  const weir_recommendation *found = &result->found;
  bool is_least = found->least > 1 && found->limit == found->least;
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_recommend_write(rule, found->limit, text);
  json_t *object = json_pack(
      "{sssssIsbsIsIsososos{sIsIsIsIsI}so}", "recommend", rule, "recommended", text, "limit",
      (json_int_t)found->limit, "smallest", found->smallest, "requests", (json_int_t)record->count,
      "keys", (json_int_t)record->key_count, "denied", denials_json(&found->denied),
      "denied_with_one_less", is_least ? json_null() : denials_json(&found->denied_below),
      "rests_on", rests_on_json(record, result), "peaks", "p50", (json_int_t)peaks[0], "p90",
      (json_int_t)peaks[1], "p99", (json_int_t)peaks[2], "p99_9", (json_int_t)peaks[3], "most",
      (json_int_t)peaks[4], "histogram", histogram_json(record));
  bool printed = object != NULL && weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  return printed;
}

/* --- all rules -------------------------------------------------------------------------------- */

/* Of the first rule; 0 with a message where the text is none. */
static int64_t period_of(const char *rule, weir_message *message) {
  weir_stack stack;
  return weir_stack_parse(rule, 1, &stack, message) == WEIR_OK ? stack.rules[0].period_us : 0;
}

static void add_text(weir_cli_recommended *recommended, const char *rule, int64_t limit) {
  char *text = recommended->texts[recommended->text_count];
  weir_recommend_write(rule, limit, text);
  for (size_t i = 0; i < recommended->text_count; i++)
    if (strcmp(recommended->texts[i], text) == 0) return;
  recommended->text_count++;
}

/* What the same share of keys gives; 0: nothing. */
static weir_status find_by_keys(const weir_cli_options *options, const char *rule,
                                weir_record *record, const weir_goal *goal, int64_t *limit) {
  const weir_goal of_keys = {.of_keys = true, .share = goal->share};
  weir_recommendation found;
  weir_message unused;
  weir_status status = weir_recommend(rule, &options->limiter, record, &of_keys, &found, &unused);
  *limit = status == WEIR_OK ? found.limit : 0;
  return status == WEIR_NO_MEMORY ? status : WEIR_OK;
}

static weir_status recommend_one(const weir_cli_options *options, const char *rule, bool first,
                                 weir_record *record, weir_cli_recommended *recommended,
                                 weir_message *message) {
  weir_cli_found *result = &recommended->found[recommended->count];
  const weir_recommendation *found = &result->found;
  const weir_goal *goal = recommended->goal;
  int64_t peaks[PERCENTILES], period_us = period_of(rule, message);
  if (period_us == 0) return WEIR_BAD_RULE;
  weir_status status =
      weir_recommend(rule, &options->limiter, record, goal, &result->found, message);
  if (goal->of_keys || goal->key != NULL) result->found.rests_on = NULL; /* as was asked for */
  if (status == WEIR_OK && found->rests_on != NULL)
    status = find_by_keys(options, rule, record, goal, &result->by_keys);
  if (status != WEIR_OK) return status;
  if (!weir_record_find_peaks(record, period_us)) return WEIR_NO_MEMORY;
  for (size_t i = 0; i < PERCENTILES; i++)
    peaks[i] = weir_record_percentile(record, percentiles[i]);
  if (options->json && !print_json(rule, record, peaks, result)) return WEIR_NO_MEMORY;
  if (!options->json && first) print_peaks(record, peaks, period_us);
  if (!options->json) print_found(rule, record, goal, result);
  recommended->rules[recommended->count++] = rule;
  add_text(recommended, rule, found->limit);
  if (found->limit > found->least) add_text(recommended, rule, found->limit - 1);
  const char *given = rule + strcspn(rule, ":") + 1;
  int64_t limit;
  if (weir_number_read(given, strcspn(given, "/"), WEIR_LIMIT_MOST, &limit))
    add_text(recommended, rule, limit);
  return WEIR_OK;
}

int weir_cli_recommend(const weir_cli_options *options, const char *const *rules, size_t rule_count,
                       weir_record *record, const weir_goal *goal,
                       weir_cli_recommended *recommended) {
  *recommended = (weir_cli_recommended){.goal = goal};
  if (rule_count > WEIR_CLI_RECOMMENDED_MOST) {
    weir_cli_error("--recommend: up to %d --rule are accepted", WEIR_CLI_RECOMMENDED_MOST);
    return WEIR_EXIT_USAGE;
  }
  int64_t told_us = 0; /* the period whose peaks were printed last */
  for (size_t i = 0; i < rule_count; i++) {
    weir_message message = {""};
    int64_t period_us = period_of(rules[i], &message);
    weir_status status =
        recommend_one(options, rules[i], period_us != told_us, record, recommended, &message);
    if (status != WEIR_OK) return weir_cli_fail("--recommend: ", status, &message);
    told_us = period_us;
  }
  return 0;
}

/* --- the picture ------------------------------------------------------------------------------ */

/* One client may ask for a thousand times what the others do: both axes are logarithmic. */
static void write_script(FILE *script, const weir_cli_recommended *recommended,
                         const weir_record *record, const char *period) {
  static const char *const colours[] = {"#bb2200", "#004488", "#117733", "#884400", "#000000"};
  uint64_t bins[WEIR_RECORD_BINS], above = 0;
  int64_t highest = 0;
  weir_record_histogram(record, bins);
  for (size_t i = 0; i < record->key_count; i++)
    highest = record->keys[i].peak > highest ? record->keys[i].peak : highest;
  fprintf(script,
          "set terminal svg size 760,430 font 'sans,13' background '#ffffff' noenhanced\n"
          "set encoding utf8\nset logscale x 2\nset logscale y 10\n"
          "set grid ytics lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
          "set yrange [0.8:*]\nset format x '%%.0f'\nset key outside top center horizontal\n"
          "set xlabel 'peak: the most that a key asked for in any %s'\n"
          "set ylabel 'keys with so high a peak, or higher'\n$peaks << WEIR_END\n",
          period);
  fprintf(script, "%" PRId64 " 1\n", highest);
  for (int i = WEIR_RECORD_BINS - 1; i >= 0; i--) {
    above += bins[i];
    if (above > 0) fprintf(script, "%" PRId64 " %" PRIu64 "\n", INT64_C(1) << i, above);
  }
  fputs("WEIR_END\n", script);
  for (size_t i = 0; i < recommended->count; i++)
    fprintf(script, "$limit%zu << WEIR_END\n%" PRId64 " 0.8\n%" PRId64 " %zu\nWEIR_END\n", i,
            recommended->found[i].found.limit, recommended->found[i].found.limit,
            record->key_count);
  fputs("plot $peaks using 1:2 with linespoints lw 1.6 pt 7 ps 0.5 lc rgb '#777777' title 'keys'",
        script);
  for (size_t i = 0; i < recommended->count; i++) {
    char text[WEIR_RECOMMENDED_TEXT_BYTES];
    weir_recommend_write(recommended->rules[i], recommended->found[i].found.limit, text);
    fprintf(script, ", $limit%zu using 1:2 with lines lw 1.6 dt %zu lc rgb '%s' title ", i, i + 1,
            colours[i % (sizeof colours / sizeof *colours)]);
    weir_cli_gnuplot_quote(script, text, strlen(text));
  }
  fputc('\n', script);
}

int weir_cli_recommend_plot(const weir_cli_options *options,
                            const weir_cli_recommended *recommended, weir_record *record) {
  char period[WEIR_DURATION_BYTES];
  weir_message unused;
  int64_t period_us = period_of(recommended->rules[0], &unused);
  if (!weir_record_find_peaks(record, period_us)) return weir_cli_fail_memory();
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  weir_duration_format(period_us, period, sizeof period);
  write_script(script, recommended, record, period);
  return weir_cli_gnuplot_draw(script, options->plot);
}
