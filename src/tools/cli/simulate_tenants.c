/* simulate --tenant: reads requests with their tenants, reports how shared windows would have divided their
 * limits, and draws it beside a fixed split and first come first served. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "report.h"
#include "simulate.h"

enum { SHOWN = 20, DRAWN = 12, RULE_WIDTH = 21, DIGITS = 8 };

static const char *const way_names[WEIR_WAYS] = {
    [WEIR_BY_RULE] = NULL, [WEIR_BY_SPLIT] = "fixed split", [WEIR_BY_ORDER] = "first come"};

static double percent_of(int64_t part, double whole) {
  return whole > 0 ? 100 * (double)part / whole : 0;
}

static double per_request(uint64_t sum, const weir_tenants *tenants) {
  return tenants->requests > 0 ? (double)sum / (double)tenants->requests : 0;
}

/* --- for people --------------------------------------------------------------------------------- */

static void print_way(const weir_division *division, weir_way way) {
  printf(" %11" PRId64 " %8.1f%% %6.1f%% %7.2f%%", division->admitted[way],
         percent_of(division->admitted[way], division->fair), 100 * division->worst[way],
         weir_cli_percent(division->floor_denied[way], division->floor_asked));
}

static void print_rules(const weir_tenants *tenants) {
  printf("tenants: %zu\n\n", tenants->count);
  printf("%-*s %11s %9s %7s %8s %15s %6s %6s\n", RULE_WIDTH, "", "", "of", "", "floors",
         "most admitted", "ops", "trips");
  printf("%-*s %11s %9s %7s %8s %15s %6s %6s\n", RULE_WIDTH, "rule", "admitted", "max-min", "worst",
         "denied", "in a period", "each", "each");
  for (size_t i = 0; i < tenants->rule_count; i++) {
    const weir_division *division = &tenants->divisions[i];
    printf("%s\n%-*s", division->text, RULE_WIDTH, "");
    print_way(division, WEIR_BY_RULE);
    printf(" %8" PRId64 " %5.2fL %6.2f %6.2f\n", division->most,
           (double)division->most / (double)division->driver.stack.rules[0].limit,
           per_request(division->driver.operations, tenants),
           per_request(division->driver.rounds, tenants));
    for (int way = WEIR_BY_SPLIT; way < WEIR_WAYS; way++) {
      printf("  %-*s", RULE_WIDTH - 2, way_names[way]);
      print_way(division, (weir_way)way);
      putchar('\n');
    }
  }
}

static void print_name(const weir_tenants *tenants, const weir_tenant *tenant) {
  if (tenants->pool_count > 1) {
    weir_cli_print_key(stdout, tenant->texts, tenant->pool_length, WEIR_SHOWN_KEY_BYTES);
    putchar(' ');
  }
  weir_cli_print_key(stdout, weir_tenant_name(tenant), tenant->name_length, WEIR_SHOWN_KEY_BYTES);
  putchar('\n');
}

static void print_shares(const weir_tenants *tenants, const weir_division *division,
                         const size_t *top, size_t count) {
  printf("\n%s\n%8s %7s %10s %10s %10s %7s %11s %10s  tenant\n", division->text, "weight", "floor",
         "asked", "max-min", "admitted", "of it", "fixed split", "first come");
  for (size_t i = 0; i < count; i++) {
    const weir_tenant *tenant = &tenants->tenants[top[i]];
    const weir_tenant_share *share = &division->shares[top[i]];
    int64_t admitted = share->ways[WEIR_BY_RULE].admitted;
    char weight[24] = "-";
    if (share->weight > 0) snprintf(weight, sizeof weight, "%" PRId64, share->weight);
    printf("%8s %7" PRId64 " %10" PRId64 " %10.0f %10" PRId64 " %6.1f%% %11" PRId64 " %10" PRId64
           "  ",
           weight, weir_tenant_floor(share), tenant->asked, share->fair, admitted,
           percent_of(admitted, share->fair), share->ways[WEIR_BY_SPLIT].admitted,
           share->ways[WEIR_BY_ORDER].admitted);
    print_name(tenants, tenant);
  }
  if (count < tenants->count)
    printf("and %zu tenants more: --top shows up to 10000\n", tenants->count - count);
}

/* --- for programs ------------------------------------------------------------------------------- */

static bool set_way(json_t *object, const char *name, const weir_division *division, weir_way way) {
  return json_object_set_new(object, name,
                             json_pack("{sIsfsI}", "admitted", (json_int_t)division->admitted[way],
                                       "worst", division->worst[way], "floor_denied",
                                       (json_int_t)division->floor_denied[way])) == 0;
}

static json_t *share_json(const weir_tenant *tenant, const weir_tenant_share *share) {
  json_t *entry =
      json_pack("{sIsIsIsIsfsIsIsIsI}", "weight", (json_int_t)share->weight, "floor",
                (json_int_t)weir_tenant_floor(share), "requests", (json_int_t)tenant->requests,
                "cost", (json_int_t)tenant->asked, "max_min", share->fair, "admitted",
                (json_int_t)share->ways[WEIR_BY_RULE].admitted, "floor_denied",
                (json_int_t)share->ways[WEIR_BY_RULE].floor_denied, "fixed_split",
                (json_int_t)share->ways[WEIR_BY_SPLIT].admitted, "first_come",
                (json_int_t)share->ways[WEIR_BY_ORDER].admitted);
  if (entry != NULL && weir_cli_json_set_bytes(entry, "pool", tenant->texts, tenant->pool_length) &&
      weir_cli_json_set_bytes(entry, "tenant", weir_tenant_name(tenant), tenant->name_length))
    return entry;
  json_decref(entry);
  return NULL;
}

static bool print_json(const weir_tenants *tenants, const weir_division *division,
                       const size_t *top, size_t count) {
  const weir_rule *rule = &division->driver.stack.rules[0];
  json_t *shares = json_array();
  bool complete = shares != NULL;
  for (size_t i = 0; complete && i < count; i++)
    complete = json_array_append_new(
                   shares, share_json(&tenants->tenants[top[i]], &division->shares[top[i]])) == 0;
  json_t *object = json_pack(
      "{sssIsisIsIsIsIsfsIsfsIsIsIsIsIsIsO}", "rule", division->text, "limit",
      (json_int_t)rule->limit, "cells", rule->cells, "floor_of_cell",
      (json_int_t)rule->floor_of_cell, "tenants", (json_int_t)tenants->count, "requests",
      (json_int_t)tenants->requests, "cost", (json_int_t)tenants->cost, "max_min", division->fair,
      "cost_allowed", (json_int_t)division->admitted[WEIR_BY_RULE], "worst",
      division->worst[WEIR_BY_RULE], "floor_asked", (json_int_t)division->floor_asked,
      "floor_denied", (json_int_t)division->floor_denied[WEIR_BY_RULE], "most_admitted",
      (json_int_t)division->most, "most_admitted_us", (json_int_t)division->most_us, "operations",
      (json_int_t)division->driver.operations, "trips", (json_int_t)division->driver.rounds,
      "shares", shares);
  complete = complete && object != NULL &&
             set_way(object, "fixed_split", division, WEIR_BY_SPLIT) &&
             set_way(object, "first_come", division, WEIR_BY_ORDER) &&
             weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  json_decref(shares);
  return complete;
}

static int report(const weir_cli_options *options, const weir_tenants *tenants,
                  const weir_cli_input *input) {
  static weir_simulation seen; /* large; what is told of the input is that of any simulation */
  size_t most = options->top > 0 ? (size_t)options->top : SHOWN;
  size_t *top = calloc(most, sizeof *top);
  seen = (weir_simulation){.requests = tenants->requests,
                           .first_us = tenants->first_us,
                           .now_us = tenants->now_us,
                           .keys.most = tenants->pool_count,
                           .out_of_order = tenants->out_of_order,
                           .furthest_us = tenants->furthest_us};
  bool enough = top != NULL && weir_cli_simulate_report_input(options, &seen, input, NULL);
  if (enough && !options->json) print_rules(tenants);
  size_t count = enough ? weir_tenants_top(tenants, top, most) : 0;
  for (size_t i = 0; enough && i < tenants->rule_count; i++) {
    if (options->json)
      enough = print_json(tenants, &tenants->divisions[i], top, count);
    else
      print_shares(tenants, &tenants->divisions[i], top, count);
  }
  free(top);
  return enough ? weir_cli_flush() : weir_cli_fail_memory();
}

/* --- as a picture -------------------------------------------------------------------------------
 *
 * What each of the largest tenants got of its max-min: a bar by rule, and two by the ways beside the first. */

static void write_rows(FILE *script, const weir_tenants *tenants, const size_t *top, size_t count) {
  const weir_division *first = &tenants->divisions[0];
  fputs("$shares << WEIR_END\n", script);
  for (size_t i = 0; i < count; i++) {
    const weir_tenant *tenant = &tenants->tenants[top[i]];
    fprintf(script, "%zu", i);
    for (size_t j = 0; j < tenants->rule_count; j++) {
      const weir_tenant_share *share = &tenants->divisions[j].shares[top[i]];
      fprintf(script, " %.3f", percent_of(share->ways[WEIR_BY_RULE].admitted, share->fair));
    }
    const weir_tenant_share *share = &first->shares[top[i]];
    for (int way = WEIR_BY_SPLIT; way < WEIR_WAYS; way++)
      fprintf(script, " %.3f", percent_of(share->ways[way].admitted, share->fair));
    fprintf(script, " %.1f\n", percent_of(tenant->asked, share->fair));
  }
  fputs("WEIR_END\nset xtics rotate by -25 nomirror (", script);
  for (size_t i = 0; i < count; i++) {
    const weir_tenant *tenant = &tenants->tenants[top[i]];
    size_t length = tenant->name_length < 24 ? tenant->name_length : 24;
    if (i > 0) fputs(", ", script);
    weir_cli_gnuplot_quote(script, weir_tenant_name(tenant), length);
    fprintf(script, " %zu", i);
  }
  fputs(")\n", script);
}

static void write_script(FILE *script, const weir_tenants *tenants, const size_t *top,
                         size_t count) {
  static const char *const colours[] = {"#004488", "#66aadd", "#117733", "#88bb66", "#884400"};
  enum { COLOURS = sizeof colours / sizeof *colours, CUT = 250 };
  size_t bars = tenants->rule_count + WEIR_WAYS - 1;
  weir_cli_gnuplot_page(script, 900, 400 + 16 * (int)tenants->rule_count);
  fprintf(script,
          "set yrange [0:%d<*<%d]\nset xrange [-0.6:%.1f]\n"
          "set key outside top center vertical maxrows %zu\n"
          "set ylabel 'admitted, in %% of max-min, cut at %d %%'\n"
          "set boxwidth %.5f\nset style fill solid 0.9 noborder\n",
          120, CUT, (double)count - 0.4, bars + 1, CUT, 0.8 / (double)bars);
  write_rows(script, tenants, top, count);
  fputs("plot 100 with lines dt (8,5) lw 1.2 lc rgb '#000000' title 'max-min'", script);
  for (size_t i = 0; i < bars; i++) {
    bool is_rule = i < tenants->rule_count;
    const char *colour = is_rule ? colours[i % COLOURS] : i + 1 < bars ? "#bbbbbb" : "#dd8877";
    const char *title =
        is_rule ? tenants->divisions[i].text : way_names[WEIR_BY_SPLIT + i - tenants->rule_count];
    fprintf(script, ", $shares using ($1 + %.5f):%zu with boxes lc rgb '%s' title ",
            ((double)i + 0.5) / (double)bars * 0.8 - 0.4, i + 2, colour);
    size_t length = strlen(title);
    weir_cli_gnuplot_quote(script, title, length < 72 ? length : 72);
  }
  fputc('\n', script);
}

static int plot(const weir_cli_options *options, const weir_tenants *tenants) {
  size_t top[DRAWN], count = weir_tenants_top(tenants, top, DRAWN);
  if (count == 0) {
    weir_cli_error("--plot: there is no request to draw");
    return WEIR_EXIT_USAGE;
  }
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  write_script(script, tenants, top, count);
  return weir_cli_gnuplot_draw(script, options->plot);
}

int weir_cli_simulate_tenants(const weir_cli_options *options, const char *const *rules,
                              size_t rule_count) {
  static weir_tenants tenants; /* large, and there is one */
  weir_cli_input input;
  weir_message message = {""};
  weir_status status = weir_tenants_init(&tenants, rules, rule_count, &options->limiter, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  int exit_status = WEIR_EXIT_USAGE;
  if (weir_cli_input_open(options, &tenants.divisions[0].driver.stack, &input)) {
    exit_status = weir_cli_input_read(&input, &(weir_cli_readers){.tenants = &tenants});
    if (exit_status == 0) {
      weir_tenants_finish(&tenants);
      exit_status = report(options, &tenants, &input);
    }
    if (exit_status == 0 && options->plot != NULL) exit_status = plot(options, &tenants);
    weir_cli_input_close(&input);
  }
  weir_tenants_clean_up(&tenants);
  return exit_status;
}
