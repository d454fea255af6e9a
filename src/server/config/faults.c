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

static bool stands_before(const weir_config_fault_line *a, const weir_config_fault_line *b) {
  size_t common = a->file_length < b->file_length ? a->file_length : b->file_length;
  int order = memcmp(a->text.text, b->text.text, common);
  if (order != 0) return order < 0;
  if (a->file_length != b->file_length) return a->file_length < b->file_length;
  return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void weir_config_fault(weir_config_faults *faults, weir_config_place place, const char *path,
                       const char *format, ...) {
  faults->count++;
  if (faults->kept == WEIR_CONFIG_FAULTS_MOST) return;
  weir_config_fault_line line = {.line = place.line, .column = place.column};
  size_t head = write_head(&line.text, place, path);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line.text.text + head, sizeof line.text.text - head, format, arguments);
  va_end(arguments);
  /* Quoted bytes of a file must not move a cursor or end the line. */
  for (char *at = line.text.text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  line.file_length = strnlen(place.file, sizeof line.text.text - 1);
  /* Where lines are equal, what was found first comes first. */
  size_t at = faults->kept++;
  for (; at > 0 && stands_before(&line, &faults->lines[at - 1]); at--)
    faults->lines[at] = faults->lines[at - 1];
  faults->lines[at] = line;
}
