/* simulate --recommend: reads all requests, has src/tools/simulate find the smallest limit for each
 * rule that denies no more than was asked for, and shows the usual report of what it found, of one
 * less and of what was given. */
#include <inttypes.h>
#include <string.h>

#include "number.h"
#include "output.h"
#include "report.h"
#include "simulate.h"
#include "simulate/recommend.h"

/* How many rules can be asked about at once: of each the report has up to three. */
enum { RECOMMENDED_MOST = WEIR_SIMULATION_RULES_MOST / 3 };

typedef struct found_limit {
  const char *rule; /* as given */
  weir_recommendation found;
  int64_t by_keys; /* what the same share of keys gives, where it rests on one key; 0: not known */
} found_limit;

typedef struct recommended {
  weir_goal goal;
  weir_record record;
  weir_held held; /* with --duration, in the place of the record */
  size_t count;
  found_limit limits[RECOMMENDED_MOST];
  /* The limits that the report is about: recommended, one less, as given. */
  size_t text_count;
  char texts[WEIR_SIMULATION_RULES_MOST][WEIR_RECOMMENDED_TEXT_BYTES];
} recommended;

/* "0.1%", "keys:0.1%", "key:NAME"; a share has up to four digits behind the point. False after one
 * line on stderr. */
static bool read_goal(const char *text, weir_goal *goal) {
  static const char of_keys[] = "keys:", one[] = "key:";
  *goal = (weir_goal){.of_keys = strncmp(text, of_keys, strlen(of_keys)) == 0};
  if (strncmp(text, one, strlen(one)) == 0 && text[strlen(one)] != '\0') {
    goal->key = text + strlen(one);
    return true;
  }
  const char *share = goal->of_keys ? text + strlen(of_keys) : text;
  size_t end = strspn(share, "0123456789");
  int64_t percent = 0, fraction = 0;
  bool good = weir_number_read(share, end, 100, &percent);
  if (good && share[end] == '.') {
    size_t digits = strspn(share + end + 1, "0123456789");
    good = digits <= 4 && weir_number_read(share + end + 1, digits, 9999, &fraction);
    for (size_t i = digits; i < 4; i++)
      fraction *= 10;
    end += 1 + digits;
  }
  goal->share = percent * 10000 + fraction;
  if (good && strcmp(share + end, "%") == 0 && goal->share < WEIR_RULE_SHARE_WHOLE) return true;
  weir_cli_error(
      "--recommend \"%s\": keys:0.1%% of keys, 0.1%% of requests, or key:NAME for one that "
      "is never denied are accepted; from 0%% to 99.9999%%",
      weir_cli_show(text).text);
  return false;
}

/* --- what was found, in text ------------------------------------------------------------------ */

static void print_denials(const char *what, const weir_denied_count *denied,
                          const weir_record *record) {
  printf("  %s %" PRIu64 " requests (%.4f%%) of %" PRIu64 " keys (%.4f%%)\n", what,
         denied->requests, weir_cli_percent((int64_t)denied->requests, (int64_t)record->count),
         denied->keys, weir_cli_percent((int64_t)denied->keys, (int64_t)record->key_count));
}

static void print_found(const weir_record *record, const weir_goal *goal,
                        const found_limit *result) {
  const weir_recommendation *found = &result->found;
  bool is_least = found->least > 1 && found->limit == found->least;
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_recommend_write(result->rule, found->limit, text);
  if (goal->key != NULL) {
    printf("recommended: %s never denies ", text);
    weir_cli_print_key(stdout, goal->key, strlen(goal->key), WEIR_SHOWN_KEY_BYTES);
    if (is_least)
      printf("\n  one less is no rule with these options\n\n");
    else
      printf("\n  one less denies it %" PRIu64 " times\n\n", found->denied_below.requests);
    return;
  }
  printf("recommended: %s\n", text);
  print_denials("denies", &found->denied, record);
  if (is_least)
    printf("  one less is no rule with these options\n");
  else
    print_denials("one less denies", &found->denied_below, record);
  if (!found->smallest) printf("  a smaller limit may be enough, too: not all were tried\n");
  if (found->rests_on != NULL) {
    /* One client that hammers can use up alone what may be denied. */
    size_t length;
    const char *key = weir_record_name(record, found->rests_on, &length);
    printf("  %" PRIu64 " of these would be of one key, on which this rests: ",
           found->rests_on_requests);
    weir_cli_print_key(stdout, key, length, WEIR_SHOWN_KEY_BYTES);
    putchar('\n');
  }
  if (found->rests_on != NULL && result->by_keys > 0) {
    weir_recommend_write(result->rule, result->by_keys, text);
    printf("  keys:%g%%, which counts each key once, gives %s\n",
           (double)goal->share * 100 / WEIR_RULE_SHARE_WHOLE, text);
  }
  putchar('\n');
}

/* --- and for programs ------------------------------------------------------------------------- */

static json_t *denials_json(const weir_denied_count *denied) {
  return json_pack("{sIsI}", "requests", (json_int_t)denied->requests, "keys",
                   (json_int_t)denied->keys);
}

/* Null where no one key has more than half. */
static json_t *rests_on_json(const weir_record *record, const found_limit *result) {
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

/* False: not enough memory. */
static bool print_json(const weir_record *record, const found_limit *result) {
  enum { DIGITS = 8 };
  const weir_recommendation *found = &result->found;
  bool is_least = found->least > 1 && found->limit == found->least;
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  weir_recommend_write(result->rule, found->limit, text);
  json_t *object = json_pack(
      "{sssssIsbsIsIsososo}", "recommend", result->rule, "recommended", text, "limit",
      (json_int_t)found->limit, "smallest", found->smallest, "requests", (json_int_t)record->count,
      "keys", (json_int_t)record->key_count, "denied", denials_json(&found->denied),
      "denied_with_one_less", is_least ? json_null() : denials_json(&found->denied_below),
      "rests_on", rests_on_json(record, result));
  bool printed = object != NULL && weir_cli_peaks_json(record, object) &&
                 weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  return printed;
}

/* --- all rules -------------------------------------------------------------------------------- */

static void add_text(recommended *all, const char *rule, int64_t limit) {
  char *text = all->texts[all->text_count];
  weir_recommend_write(rule, limit, text);
  for (size_t i = 0; i < all->text_count; i++)
    if (strcmp(all->texts[i], text) == 0) return;
  all->text_count++;
}

static weir_status recommend(const weir_cli_options *options, const char *rule, recommended *all,
                             const weir_goal *goal, weir_recommendation *found,
                             weir_message *message) {
  return options->duration_field != NULL
             ? weir_held_recommend(&all->held, rule, goal, found, message)
             : weir_recommend(rule, &options->limiter, &all->record, goal, found, message);
}

/* `told_us`: the period whose peaks were printed last. */
static weir_status find_limit(const weir_cli_options *options, const char *rule,
                              weir_record *record, recommended *all, int64_t *told_us,
                              weir_message *message) {
  found_limit *result = &all->limits[all->count];
  const weir_recommendation *found = &result->found;
  const weir_goal *goal = &all->goal;
  weir_stack stack;
  if (weir_stack_parse(rule, 1, &stack, message) != WEIR_OK) return WEIR_BAD_RULE;
  int64_t period_us = weir_rule_is_held(&stack.rules[0]) ? 0 : stack.rules[0].period_us;
  result->rule = rule;
  weir_status status = recommend(options, rule, all, goal, &result->found, message);
  /* Such a goal counts each key once, or one alone; and of one key all rests on it. */
  if (goal->of_keys || goal->key != NULL || record->key_count == 1) result->found.rests_on = NULL;
  if (status == WEIR_OK && found->rests_on != NULL) {
    const weir_goal of_keys = {.of_keys = true, .share = goal->share};
    weir_recommendation by_keys;
    weir_message unused;
    status = recommend(options, rule, all, &of_keys, &by_keys, &unused);
    result->by_keys = status == WEIR_OK ? by_keys.limit : 0;
    if (status != WEIR_NO_MEMORY) status = WEIR_OK; /* it may give nothing */
  }
  if (status != WEIR_OK) return status;

  if (!weir_record_find_peaks(record, period_us)) return WEIR_NO_MEMORY;
  if (options->json && !print_json(record, result)) return WEIR_NO_MEMORY;
  if (!options->json && period_us != *told_us) weir_cli_print_peaks(record, period_us);
  if (!options->json) print_found(record, goal, result);
  *told_us = period_us;

  all->count++;
  add_text(all, rule, found->limit);
  if (found->limit > found->least) add_text(all, rule, found->limit - 1);
  const char *given = rule + strcspn(rule, ":") + 1;
  int64_t limit;
  if (weir_number_read(given, strcspn(given, "/"), WEIR_LIMIT_MOST, &limit))
    add_text(all, rule, limit);
  return WEIR_OK;
}

/* Feeds the record to the texts' rules. */
static weir_status run_recorded(weir_simulation *simulation, const weir_cli_options *options,
                                const char *const *rules, size_t rule_count, weir_record *record,
                                weir_message *message) {
  weir_status status =
      weir_simulation_init(simulation, rules, rule_count, &options->limiter, message);
  weir_record_cursor cursor;
  weir_recorded request;
  weir_record_begin(record, &cursor);
  while (status == WEIR_OK && weir_record_next(&cursor, &request)) {
    size_t length;
    const char *key = weir_record_name(record, &record->keys[request.key], &length);
    const weir_simulated asked = {
        .time_us = request.time_us, .key = key, .key_length = length, .cost = request.cost};
    status = weir_simulation_request(simulation, &asked, message);
  }
  simulation->out_of_order = record->out_of_order; /* in the record they are in order */
  simulation->furthest_us = record->furthest_us;
  return status == WEIR_OK ? weir_simulation_finish(simulation) : status;
}

/* The usual report, of the texts. The exit status. */
static int report(const weir_cli_options *options, recommended *all, const weir_cli_input *input) {
  static weir_simulation simulation; /* large, and there is one */
  const char *rules[WEIR_SIMULATION_RULES_MOST];
  weir_message message = {""};
  weir_held *held = options->duration_field != NULL ? &all->held : NULL;
  weir_record *record = held != NULL ? &held->record : &all->record;
  for (size_t i = 0; i < all->text_count; i++)
    rules[i] = all->texts[i];
  weir_status status =
      held != NULL ? weir_held_simulate(held, rules, all->text_count, &simulation, &message)
                   : run_recorded(&simulation, options, rules, all->text_count, record, &message);
  const weir_cli_found found = {&simulation, NULL, held, input, record};
  int exit_status = status == WEIR_OK ? weir_cli_simulate_report(options, &found)
                                      : weir_cli_fail("", status, &message);
  weir_simulation_clean_up(&simulation);
  return exit_status;
}

static int plot(const weir_cli_options *options, const recommended *all, weir_record *record,
                int64_t period_us) {
  char texts[RECOMMENDED_MOST][WEIR_RECOMMENDED_TEXT_BYTES];
  weir_cli_limit limits[RECOMMENDED_MOST];
  for (size_t i = 0; i < all->count; i++) {
    int64_t limit = all->limits[i].found.limit;
    weir_recommend_write(all->limits[i].rule, limit, texts[i]);
    limits[i] = (weir_cli_limit){texts[i], limit};
  }
  return weir_cli_plot_peaks(options->plot, record, period_us, limits, all->count);
}

int weir_cli_simulate_recommend(const weir_cli_options *options, const char *const *rules,
                                size_t rule_count) {
  static recommended all; /* large, and there is one */
  weir_stack stack;
  weir_cli_input input;
  weir_message message = {""};
  bool holds = options->duration_field != NULL;
  weir_record *record = holds ? &all.held.record : &all.record;
  if (!read_goal(options->recommend, &all.goal)) return WEIR_EXIT_USAGE;
  weir_status status = weir_stack_parse(rules[0], 1, &stack, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  if (!weir_cli_input_open(options, &stack, &input)) return WEIR_EXIT_USAGE;

  const weir_cli_readers readers = {.record = &all.record, .held = holds ? &all.held : NULL};
  int exit_status = weir_cli_input_read(&input, &readers);
  if (exit_status == 0 && holds && (status = weir_held_finish(&all.held, &message)) != WEIR_OK)
    exit_status = weir_cli_fail("", status, &message);
  if (exit_status == 0 && record->count == 0) {
    weir_cli_error("--recommend: there is no request");
    exit_status = WEIR_EXIT_USAGE;
  } else if (exit_status == 0 && rule_count > RECOMMENDED_MOST) {
    weir_cli_error("--recommend: up to %d --rule are accepted", RECOMMENDED_MOST);
    exit_status = WEIR_EXIT_USAGE;
  }
  int64_t told_us = -1;
  for (size_t i = 0; exit_status == 0 && i < rule_count; i++) {
    status = find_limit(options, rules[i], record, &all, &told_us, &message);
    if (status != WEIR_OK) exit_status = weir_cli_fail("--recommend: ", status, &message);
  }
  if (exit_status == 0) exit_status = report(options, &all, &input);
  if (exit_status == 0 && options->plot != NULL)
    exit_status = plot(options, &all, record, holds ? 0 : stack.rules[0].period_us);
  weir_record_clean_up(&all.record);
  weir_held_clean_up(&all.held);
  weir_cli_input_close(&input);
  return exit_status;
}
