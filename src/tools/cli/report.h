/* How a command ends: its exit status, and one line on stderr when it fails. */
#ifndef WEIR_CLI_REPORT_H
#define WEIR_CLI_REPORT_H

#include <stdbool.h>

#include <weir/weir.h>

enum {
  WEIR_EXIT_ALLOWED = 0,
  WEIR_EXIT_DENIED = 1,
  WEIR_EXIT_USAGE = 2,      /* the arguments or the input are wrong */
  WEIR_EXIT_NO_DECISION = 3 /* everything else that went wrong */
};

/* Writes "weir: ", the text and a newline to stderr; what is no printable ASCII is spelled out, so
 * that it stays one line and moves no cursor, whatever was quoted. Arguments come through
 * weir_cli_show() (shown.h), which shortens them and hides passwords. */
void weir_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports why there is no decision, at `place` ("" or ending in a blank), and answers with the exit
 * status. */
int weir_cli_fail(const char *place, weir_status status, const weir_message *message);

/* Writes out what stdout holds back; false, with a line on stderr, when some output was lost. */
bool weir_cli_flush(void);

#endif
