/* Lines for whoever runs the server. */
#include "serve/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

void weir_serve_log(const char *format, ...) {
  char line[LINE_BYTES] = "weir: ";
  size_t begin = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + begin, sizeof line - begin - 1, format, arguments);
  va_end(arguments);
  size_t length = begin;
  for (; line[length] != '\0'; length++)
    if (line[length] < 0x20 || line[length] > 0x7e) line[length] = '?';
  line[length++] = '\n';
  (void)!write(STDERR_FILENO, line, length);
}
