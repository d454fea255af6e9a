/* What doctor has found, and how it is shown. */
#ifndef WEIR_CLI_DOCTOR_H
#define WEIR_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/weir.h>

/* Copies of findings, in the order in which they were told. */
typedef struct weir_cli_findings {
  weir_finding *list;
  size_t count;
  size_t room;
  bool lost; /* there was no memory for one */
} weir_cli_findings;

/* A weir_tell whose context is weir_cli_findings. */
void weir_cli_findings_add(void *context, const weir_finding *finding);
void weir_cli_findings_free(weir_cli_findings *findings);
size_t weir_cli_findings_at(const weir_cli_findings *findings, weir_finding_level level);

/* "fact", "warning", "fault". */
const char *weir_cli_level_name(weir_finding_level level);

/* Server by server, then what concerns the store as a whole. */
void weir_cli_doctor_text(FILE *out, const weir_cli_findings *findings);
/* False: no memory. */
bool weir_cli_doctor_json(FILE *out, const weir_cli_findings *findings);

#endif
