/* The figures of bench for programs. */
#include "bench_report.h"
#include "json.h"

enum { DIGITS = 6 };

static bool set(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}

/* What is not known is null. */
static json_t *make_figures(const weir_bench_figures *figures) {
  json_t *object = json_object();
  bool complete = object != NULL;
  for (size_t i = 0; complete && i < weir_cli_figure_count; i++) {
    double value = weir_bench_figure_at(figures, weir_cli_figures[i].offset);
    complete = set(object, weir_cli_figures[i].name, value < 0 ? json_null() : json_real(value));
  }
  if (complete) return object;
  json_decref(object);
  return NULL;
}

static json_t *make_ratios(const weir_bench_contestant *store) {
  json_t *object = json_object();
  bool complete = object != NULL;
  for (size_t i = 0; complete && i < weir_cli_figure_count; i++) {
    const weir_cli_figure *figure = &weir_cli_figures[i];
    double value = weir_bench_figure_at(&store->ratio, figure->offset);
    if (figure->ratio && value >= 0) complete = set(object, figure->name, json_real(value));
  }
  if (complete) return object;
  json_decref(object);
  return NULL;
}

static json_t *make_rounds(const weir_bench_contestant *contestant, unsigned count) {
  json_t *array = json_array();
  bool complete = array != NULL;
  for (unsigned i = 0; complete && i < count; i++)
    complete = json_array_append_new(array, make_figures(&contestant->rounds[i])) == 0;
  if (complete) return array;
  json_decref(array);
  return NULL;
}

static bool fill(json_t *object, const weir_bench_plan *plan, const weir_bench *bench,
                 const weir_bench_contestant *contestant) {
  static const char *const patterns[] = {"uniform", "hot", "zipf"};
  bool is_store = contestant->target < plan->store_count;
  bool compared = weir_cli_bench_raw(bench, contestant) != NULL;
  char label[WEIR_CLI_LABEL_BYTES];
  weir_cli_bench_label(contestant->baseline ? contestant - 1 : contestant, label);
  bool complete = set(object, "store", json_string(label)) &&
                  set(object, "raw_loop", json_boolean(contestant->baseline)) &&
                  set(object, "rule", is_store ? json_string(plan->rule) : json_null()) &&
                  set(object, "processes", json_integer(plan->processes)) &&
                  set(object, "threads", json_integer(plan->threads)) &&
                  set(object, "keys", json_integer(plan->keys)) &&
                  set(object, "pattern", json_string(patterns[plan->pattern])) &&
                  set(object, "batch", json_integer(plan->batch)) &&
                  set(object, "median", make_figures(&contestant->median)) &&
                  set(object, "rounds", make_rounds(contestant, bench->rounds));
  return complete && (!compared || set(object, "ratio_to_raw_loop", make_ratios(contestant)));
}

bool weir_cli_bench_json(FILE *out, const weir_bench_plan *plan, const weir_bench *bench) {
  for (size_t i = 0; i < bench->contestant_count; i++) {
    json_t *object = json_object();
    bool complete = object != NULL && fill(object, plan, bench, &bench->contestants[i]);
    bool printed = complete && weir_cli_json_print(out, object, DIGITS);
    json_decref(object);
    if (!printed) return false;
  }
  return true;
}
