/* check: what is wrong in a configuration, before a server reads it. */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "registry/registry.h"
#include "report.h"
#include "serve/certificates.h"

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

int weir_cli_check(const weir_cli_options *options) {
  const char *file = options->arguments[0];
  weir_config_faults *faults = calloc(1, sizeof *faults);
  if (faults == NULL) return weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){{0}});
  weir_registry *registry = weir_registry_load(file, NULL, weir_certificates_look, NULL, faults);
  int exit_status = registry != NULL ? report_good(file, registry) : report_faults(faults);
  weir_registry_release(registry);
  free(faults);
  return exit_status;
}
