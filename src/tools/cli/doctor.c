/* doctor: what a store allows, and what cannot be promised on it. */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report.h"

static weir_status inspect(const weir_cli_options *options, weir_cli_findings *findings,
                           weir_message *message) {
  weir_store *store;
  weir_limiter *limiter = NULL;
  weir_status status = weir_store_open(options->store, &store, message);
  if (status != WEIR_OK) return status;
  if (options->rule == NULL) {
    status = weir_store_inspect(store, 0, weir_cli_findings_add, findings, message);
  } else {
    status = weir_limiter_create(store, options->rule, &options->limiter, &limiter, message);
    if (status == WEIR_OK)
      status = weir_limiter_inspect(limiter, 0, weir_cli_findings_add, findings, message);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (status != WEIR_OK || !findings->lost) return status;
  snprintf(message->text, sizeof message->text, "%s", weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

static bool print(const weir_cli_options *options, const weir_cli_findings *findings) {
  if (options->quiet) return true;
  if (!options->json) {
    weir_cli_doctor_text(stdout, findings);
  } else if (!weir_cli_doctor_json(stdout, findings)) {
    weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){{0}});
    return false;
  }
  return weir_cli_flush();
}

int weir_cli_doctor(const weir_cli_options *options) {
  weir_cli_findings findings = {0};
  weir_message message = {{0}};
  int exit_status = WEIR_EXIT_NO_DECISION;
  weir_status status = inspect(options, &findings, &message);
  if (status != WEIR_OK)
    exit_status = weir_cli_fail("", status, &message);
  else if (print(options, &findings) && weir_cli_findings_at(&findings, WEIR_FINDING_FAULT) == 0)
    exit_status = 0;
  weir_cli_findings_free(&findings);
  return exit_status;
}
