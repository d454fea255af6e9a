/* Faults, kept in the order of their places. */
#include "config/faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The place and the path, and how long they are. */
static size_t write_head(weir_message *message, weir_config_place place, const char *path) {
  const char *separator = path[0] != '\0' ? ": " : "";
  int length = place.line == 0 ? snprintf(message->text, sizeof message->text, "%s: %s%s",
                                          place.file, path, separator)
                               : snprintf(message->text, sizeof message->text, "%s:%u:%u: %s%s",
                                          place.file, place.line, place.column, path, separator);
  return length < (int)sizeof message->text ? (size_t)length : sizeof message->text - 1;
}

/* Quoted bytes of a file must not move a cursor or end the line. */
static void make_printable(char *text) {
  for (; *text != '\0'; text++)
    if (*text < ' ' || *text > '~') *text = '?';
}

static bool stands_before(weir_config_place a, weir_config_place b) {
  int order = strcmp(a.file, b.file);
  if (order != 0) return order < 0;
  return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void weir_config_fault(weir_config_faults *faults, weir_config_place place, const char *path,
                       const char *format, ...) {
  faults->count++;
  if (faults->kept == WEIR_CONFIG_FAULTS_MOST) return;
  size_t at = faults->kept++;
  while (at > 0 && stands_before(place, faults->lines[at - 1].place))
    at--;
  weir_config_fault_line *line = &faults->lines[at];
  memmove(line + 1, line, (faults->kept - 1 - at) * sizeof *line);
  line->place = place;
  size_t head = write_head(&line->text, place, path);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line->text.text + head, sizeof line->text.text - head, format, arguments);
  va_end(arguments);
  make_printable(line->text.text);
}
