/* Keeps what doctor is told, until all of it is printed. */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

enum { ROOM_FIRST = 32 };

static void free_texts(const weir_finding *finding) {
  const char *const texts[] = {finding->server, finding->topic, finding->text};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    free((void *)(uintptr_t)texts[i]); /* ours, from copy_text */
}

/* A socket's path may hold any byte; in the copy, what is not plain ASCII is '?'. */
static char *copy_text(const char *text) {
  char *made = strdup(text);
  for (char *at = made; at != NULL && *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  return made;
}

static bool copy(const weir_finding *finding, weir_finding *made) {
  *made = (weir_finding){.level = finding->level,
                         .server = finding->server != NULL ? copy_text(finding->server) : NULL,
                         .topic = copy_text(finding->topic),
                         .text = copy_text(finding->text)};
  bool whole = made->topic != NULL && made->text != NULL &&
               (finding->server == NULL || made->server != NULL);
  if (!whole) free_texts(made);
  return whole;
}

static bool make_room(weir_cli_findings *findings) {
  if (findings->count < findings->room) return true;
  size_t room = findings->room == 0 ? ROOM_FIRST : 2 * findings->room;
  weir_finding *list = realloc(findings->list, room * sizeof *list);
  if (list == NULL) return false;
  findings->list = list;
  findings->room = room;
  return true;
}

void weir_cli_findings_add(void *context, const weir_finding *finding) {
  weir_cli_findings *findings = context;
  if (make_room(findings) && copy(finding, &findings->list[findings->count]))
    findings->count++;
  else
    findings->lost = true;
}

void weir_cli_findings_free(weir_cli_findings *findings) {
  for (size_t i = 0; i < findings->count; i++)
    free_texts(&findings->list[i]);
  free(findings->list);
}

size_t weir_cli_findings_at(const weir_cli_findings *findings, weir_finding_level level) {
  size_t count = 0;
  for (size_t i = 0; i < findings->count; i++)
    count += findings->list[i].level == level;
  return count;
}

const char *weir_cli_level_name(weir_finding_level level) {
  static const char *const names[] = {[WEIR_FINDING_FACT] = "fact",
                                      [WEIR_FINDING_WARNING] = "warning",
                                      [WEIR_FINDING_FAULT] = "fault"};
  return names[level];
}
