/* Errors for people, and the exit status that goes with them. */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "colour.h"

void weir_cli_error(const char *format, ...) {
  char text[2 * WEIR_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);

  fprintf(stderr, "%sweir:%s ", weir_cli_colour_on(stderr, WEIR_CLI_RED),
          weir_cli_colour_on(stderr, WEIR_CLI_PLAIN));
  for (const char *c = text; *c != '\0'; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte < 0x20 || byte >= 0x7f)
      fprintf(stderr, "\\x%02x", byte);
    else
      fputc(byte, stderr);
  }
  fputc('\n', stderr);
}

int weir_cli_fail(const char *place, weir_status status, const weir_message *message) {
  bool caller = weir_status_classify(status) == WEIR_CLASS_CALLER;
  bool explained = message->text[0] != '\0';
  /* Whether something was charged stands in the status; what a caller got wrong, in the message. */
  if (caller && explained)
    weir_cli_error("%s%s", place, message->text);
  else
    weir_cli_error("%s%s%s%s", place, weir_status_text(status), explained ? ": " : "",
                   message->text);
  return caller ? WEIR_EXIT_USAGE : WEIR_EXIT_NO_DECISION;
}

bool weir_cli_flush(void) {
  if (!ferror(stdout) && fflush(stdout) == 0) return true;
  weir_cli_error("the output cannot be written: %s", strerror(errno));
  return false;
}
