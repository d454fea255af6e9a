/* serve and check: a configuration, served until a signal ends it, or only looked at before. */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/word.h>

#include "options.h"
#include "output.h"
#include "registry/registry.h"
#include "report.h"
#include "serve.h"
#include "serve/certificates.h"
#include "serve/listen.h"

int weir_cli_serve(const weir_cli_options *options) {
  return weir_serve_run(options->arguments[0]);
}

void weir_cli_print_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    fprintf(stderr, "%s\n", faults->lines[i].text.text);
  if (faults->count > faults->kept) fprintf(stderr, "and %zu more\n", faults->count - faults->kept);
}

/* Warns of each store that has a server whose name is not found: the server would start all the
 * same, and look for it. */
static void warn_of_names(const weir_registry *registry, weir_config_faults *faults) {
  for (size_t i = 0; i < registry->config->store_count; i++) {
    const weir_config_store *config = &registry->config->stores[i];
    const weir_store *store = weir_registry_store_at(registry, i);
    weir_server_state state = WEIR_SERVER_STATE_INIT;
    for (size_t j = 0; weir_store_read_server(store, j, &state) == WEIR_OK; j++)
      if (!state.answered && state.addresses == 0 && state.last_error.text[0] != '\0')
        weir_config_warn(faults, config->place, "", "store %s: %s: %s", config->name, state.name,
                         state.last_error.text);
  }
}

static void warn_of_certificate(void *faults, const weir_certificate *certificate) {
  weir_message text;
  if (weir_certificate_is_near(certificate, (int64_t)time(NULL), &text))
    weir_config_warn(faults, certificate->place, "", "%s", text.text);
}

/* "class, limit and tenant"; "": nothing. */
enum { CLAIMS_BYTES = 48 };
static void list_claims(const weir_config_listener *listener, char list[CLAIMS_BYTES]) {
  list[0] = '\0';
  for (size_t i = 0; i < WEIR_CONFIG_CLAIMS; i++)
    if (listener->says >> i & 1)
      weir_word_list(list, CLAIMS_BYTES, weir_config_claims[i], listener->says >> i == 1);
}

/* What strangers might say, where they reach the listener. */
static void print_claims(const weir_config *config) {
  for (size_t i = 0; i < config->listener_count; i++) {
    const weir_config_listener *listener = &config->listeners[i];
    char list[CLAIMS_BYTES];
    list_claims(listener, list);
    if (listener->says != 0)
      printf("%s %s: requests may say %s\n", weir_config_listen_path(listener->protocol),
             listener->address, list);
  }
}

/* `registry`: NULL where there are faults. */
static void print_text(const char *file, const weir_registry *registry,
                       const weir_config_faults *faults) {
  weir_cli_print_faults(registry == NULL ? faults : faults->warnings);
  if (registry == NULL) return;
  const weir_config *config = registry->config;
  printf("%s: good: listeners %zu, stores %zu, limiters %zu with %zu different rules", file,
         config->listener_count, config->store_count, registry->named_count,
         registry->limiter_count);
  if (config->envoy.domain_count > 0)
    printf(", domains %zu with %zu descriptors", config->envoy.domain_count,
           config->envoy.node_count);
  printf("\n");
  print_claims(config);
}

/* NULL: not enough memory. */
static json_t *write_lines(const weir_config_faults *faults) {
  json_t *lines = json_array();
  for (size_t i = 0; lines != NULL && i < faults->kept; i++) {
    const weir_config_fault_line *line = &faults->lines[i];
    json_t *entry = json_pack("{ss%sIsIss}", "file", line->text.text, line->file_length, "line",
                              (json_int_t)line->line, "column", (json_int_t)line->column, "text",
                              line->text.text);
    if (entry != NULL && json_array_append_new(lines, entry) == 0) continue;
    json_decref(lines);
    lines = NULL;
  }
  return lines;
}

/* Of each listener, in the order of the file. NULL: not enough memory. */
static json_t *write_claims(const weir_config *config) {
  json_t *lists = json_array();
  for (size_t i = 0; lists != NULL && i < config->listener_count; i++) {
    json_t *list = json_array();
    bool whole = list != NULL && json_array_append_new(lists, list) == 0;
    for (size_t j = 0; whole && j < WEIR_CONFIG_CLAIMS; j++)
      if (config->listeners[i].says >> j & 1)
        whole = json_array_append_new(list, json_string(weir_config_claims[j])) == 0;
    if (whole) continue;
    json_decref(lists);
    lists = NULL;
  }
  return lists;
}

/* False: not enough memory. */
static bool print_json(const char *file, const weir_registry *registry,
                       const weir_config_faults *faults) {
  enum { DIGITS = 8 };
  json_t *object =
      json_pack("{sbsIsosIso}", "good", registry != NULL, "faults", (json_int_t)faults->count,
                "first", write_lines(faults), "warnings", (json_int_t)faults->warnings->count,
                "first_warnings", write_lines(faults->warnings));
  bool whole = object != NULL && weir_cli_json_set_bytes(object, "file", file, strlen(file));
  if (whole && registry != NULL) {
    const weir_config *config = registry->config;
    json_t *counts = json_pack(
        "{sIsIsIsIsIsIso}", "listeners", (json_int_t)config->listener_count, "stores",
        (json_int_t)config->store_count, "limiters", (json_int_t)registry->named_count, "rules",
        (json_int_t)registry->limiter_count, "domains", (json_int_t)config->envoy.domain_count,
        "descriptors", (json_int_t)config->envoy.node_count, "says", write_claims(config));
    whole = counts != NULL && json_object_update(object, counts) == 0;
    json_decref(counts);
  }
  bool printed = whole && weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  return printed;
}

int weir_cli_check(const weir_cli_options *options) {
  const char *file = options->arguments[0];
  weir_config_faults *faults = calloc(2, sizeof *faults);
  if (faults == NULL) return weir_cli_fail_memory();
  faults[0].warnings = &faults[1];
  weir_registry *registry = weir_registry_load(file, NULL, weir_certificates_look, NULL, faults);
  int exit_status = registry != NULL ? 0 : WEIR_EXIT_USAGE;
  if (registry != NULL) {
    warn_of_names(registry, faults);
    weir_certificates_read(registry, warn_of_certificate, faults);
  }
  if (!options->json)
    print_text(file, registry, faults);
  else if (!print_json(file, registry, faults))
    exit_status = weir_cli_fail_memory();
  int lost = weir_cli_flush();
  weir_registry_release(registry);
  free(faults);
  return lost != 0 ? lost : exit_status;
}
