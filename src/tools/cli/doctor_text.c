/* Findings of doctor for people: server by server, then the store. */
#include <string.h>

#include "colour.h"
#include "doctor.h"

static bool same(const char *left, const char *right) {
  return left == right || (left != NULL && right != NULL && strcmp(left, right) == 0);
}

/* Marks that need no colour. */
static const char *mark(weir_finding_level level) {
  static const char *const marks[] = {[WEIR_FINDING_FACT] = "ok",
                                      [WEIR_FINDING_WARNING] = "warning",
                                      [WEIR_FINDING_FAULT] = "FAULT"};
  return marks[level];
}

static weir_cli_colour colour_of(weir_finding_level level) {
  static const weir_cli_colour colours[] = {[WEIR_FINDING_FACT] = WEIR_CLI_GREEN,
                                            [WEIR_FINDING_WARNING] = WEIR_CLI_YELLOW,
                                            [WEIR_FINDING_FAULT] = WEIR_CLI_RED};
  return colours[level];
}

static void print_server(FILE *out, const weir_cli_findings *findings, const char *server) {
  fprintf(out, "%s\n", server != NULL ? server : "store");
  for (size_t i = 0; i < findings->count; i++) {
    const weir_finding *finding = &findings->list[i];
    if (same(finding->server, server))
      fprintf(out, "  %s%-7s%s  %-10s  %s\n", weir_cli_colour_on(out, colour_of(finding->level)),
              mark(finding->level), weir_cli_colour_on(out, WEIR_CLI_PLAIN), finding->topic,
              finding->text);
  }
}

/* Whether none before it is about the same server. */
static bool is_first(const weir_cli_findings *findings, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (same(findings->list[j].server, findings->list[i].server)) return false;
  return true;
}

static void print_count(FILE *out, size_t count, const char *what) {
  fprintf(out, "%zu %s%s", count, what, count == 1 ? "" : "s");
}

void weir_cli_doctor_text(FILE *out, const weir_cli_findings *findings) {
  bool whole = false; /* something concerns the store as a whole */
  for (size_t i = 0; i < findings->count; i++) {
    whole |= findings->list[i].server == NULL;
    if (findings->list[i].server != NULL && is_first(findings, i))
      print_server(out, findings, findings->list[i].server);
  }
  if (whole) print_server(out, findings, NULL);
  print_count(out, weir_cli_findings_at(findings, WEIR_FINDING_FAULT), "fault");
  fputs(", ", out);
  print_count(out, weir_cli_findings_at(findings, WEIR_FINDING_WARNING), "warning");
  fputc('\n', out);
}
