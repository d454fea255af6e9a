/* check: what is wrong in a configuration, before a server reads it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "registry/registry.h"
#include "report.h"
#include "serve/transport.h"

static int report_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    fprintf(stderr, "%s\n", faults->lines[i].text.text);
  if (faults->count > faults->kept) fprintf(stderr, "and %zu more\n", faults->count - faults->kept);
  return WEIR_EXIT_USAGE;
}

static int report_good(const char *file, const weir_registry *registry) {
  const weir_config *config = weir_registry_config(registry);
  printf("%s: good: listeners %zu, stores %zu, limiters %zu with %zu different rules", file,
         config->listener_count, config->store_count, weir_registry_count(registry),
         weir_registry_limiters(registry));
  if (config->envoy.domain_count > 0)
    printf(", domains %zu with %zu descriptors", config->envoy.domain_count,
           config->envoy.node_count);
  printf("\n");
  return weir_cli_flush() ? 0 : WEIR_EXIT_NO_DECISION;
}

/* --- for programs ----------------------------------------------------------------------------- */

static json_t *faults_json(const weir_config_faults *faults) {
  json_t *list = json_array();
  for (size_t i = 0; list != NULL && i < faults->kept; i++) {
    const weir_config_fault_line *line = &faults->lines[i];
    json_t *entry = json_pack("{ss%sIsIss}", "file", line->text.text, line->file_length, "line",
                              (json_int_t)line->line, "column", (json_int_t)line->column, "text",
                              line->text.text);
    if (entry != NULL && json_array_append_new(list, entry) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static bool add_counts(json_t *object, const weir_registry *registry) {
  const weir_config *config = weir_registry_config(registry);
  json_t *counts = json_pack(
      "{sIsIsIsIsIsI}", "listeners", (json_int_t)config->listener_count, "stores",
      (json_int_t)config->store_count, "limiters", (json_int_t)weir_registry_count(registry),
      "rules", (json_int_t)weir_registry_limiters(registry), "domains",
      (json_int_t)config->envoy.domain_count, "descriptors", (json_int_t)config->envoy.node_count);
  bool added = counts != NULL && json_object_update(object, counts) == 0;
  json_decref(counts);
  return added;
}

/* `registry`: NULL where there are faults. */
static int report_json(const char *file, const weir_registry *registry,
                       const weir_config_faults *faults) {
  enum { DIGITS = 8 };
  json_t *object = json_pack("{sbsIso}", "good", registry != NULL, "faults",
                             (json_int_t)faults->count, "first", faults_json(faults));
  bool printed = object != NULL && weir_cli_json_set_bytes(object, "file", file, strlen(file)) &&
                 (registry == NULL || add_counts(object, registry)) &&
                 weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  if (!printed) return weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){{0}});
  if (!weir_cli_flush()) return WEIR_EXIT_NO_DECISION;
  return registry != NULL ? 0 : WEIR_EXIT_USAGE;
}

int weir_cli_check(const weir_cli_options *options) {
  const char *file = options->arguments[0];
  weir_config_faults *faults = calloc(1, sizeof *faults);
  if (faults == NULL) return weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){{0}});
  weir_registry *registry = weir_registry_load(file, NULL, weir_certificates_look, NULL, faults);
  int exit_status = options->json      ? report_json(file, registry, faults)
                    : registry != NULL ? report_good(file, registry)
                                       : report_faults(faults);
  weir_registry_release(registry);
  free(faults);
  return exit_status;
}
