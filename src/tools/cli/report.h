/* How a command speaks to people: its errors and exit status, what it quotes of the input,
 * colours, and how far long work has come. Bytes of the input may be long, hold anything that
 * moves a terminal's cursor or ends a line, and be a store URL in the wrong place; none of them is
 * shown as it is. */
#ifndef WEIR_CLI_REPORT_H
#define WEIR_CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

enum {
  WEIR_EXIT_ALLOWED = 0,
  WEIR_EXIT_DENIED = 1,
  WEIR_EXIT_USAGE = 2,       /* the arguments or the input are wrong */
  WEIR_EXIT_NO_DECISION = 3, /* everything else that went wrong */
  WEIR_EXIT_UNKNOWN = 4,     /* of what changes counts alone: it may have been done */
  WEIR_EXIT_OF_RUN = 125     /* of run, whose others are COMMAND's: anything that went wrong */
};

/* Writes "weir: ", the text and a newline to stderr; what is no printable ASCII is spelled out, so
 * that it stays one line and moves no cursor, whatever was quoted. Arguments come through
 * weir_cli_show(), which shortens them and hides passwords. */
void weir_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports why there is no decision, at `place` ("" or ending in a blank), and answers with the exit
 * status. */
int weir_cli_fail(const char *place, weir_status status, const weir_message *message);

/* weir_cli_fail() where memory is short. */
int weir_cli_fail_memory(void);

/* Writes out what stdout holds back; the exit status: 0, or WEIR_EXIT_NO_DECISION after a line on
 * stderr where some output was lost. */
int weir_cli_flush(void);

/* --- what stood in the input ------------------------------------------------------------------ */

/* Writes a key so that it stays one field of its line and can be read back: printable ASCII but the
 * backslash as it is, every other byte as "\xff" (two lower-case digits), the backslash as "\x5c".
 * Ends in "..." after `most` bytes of the key. */
void weir_cli_print_key(FILE *out, const char *key, size_t length, size_t most);

/* A message quotes so much of an argument or a name of a file: 80 bytes at most, then "..."; in the
 * place of what may be a password, "***". weir_cli_error() spells out the rest. */
enum { WEIR_CLI_SHOWN_MOST = 80 };

typedef struct weir_cli_shown {
  char text[WEIR_CLI_SHOWN_MOST + 4];
} weir_cli_shown;

weir_cli_shown weir_cli_show(const char *argument);

/* "1995-08-01 04:00:00.250", UTC. */
enum { WEIR_CLI_TIME_BYTES = 40 };
void weir_cli_format_time(int64_t time_us, char text[WEIR_CLI_TIME_BYTES]);

/* --- terminals ------------------------------------------------------------------------------- */

typedef enum weir_cli_colour {
  WEIR_CLI_PLAIN,
  WEIR_CLI_BOLD,
  WEIR_CLI_GREEN, /* as wished */
  WEIR_CLI_YELLOW,
  WEIR_CLI_RED
} weir_cli_colour;

/* The bytes that turn a colour on; "" where the stream is no terminal, is a dumb one, or NO_COLOR
 * says no. WEIR_CLI_PLAIN ends every other. */
const char *weir_cli_colour_on(FILE *stream, weir_cli_colour colour);

/* A line on the terminal that says how far long work has come. */
typedef struct weir_cli_progress {
  bool enabled;
  bool shown;
  int64_t begin_ms;
  int64_t next_ms;
} weir_cli_progress;

/* Silent when `quiet`, and unless stderr is a terminal. `prints`: results come meanwhile, which show
 * themselves where stdout is a terminal. */
void weir_cli_progress_begin(weir_cli_progress *progress, bool quiet, bool prints);

/* Whether the line is to be written anew. Asked for every piece of work, so that only then anybody
 * finds out how far it has come. */
bool weir_cli_progress_is_due(weir_cli_progress *progress);

/* `share`: of the work, 0 to 1, from which the time that is left follows; 0 or below: not known. */
void weir_cli_progress_show(weir_cli_progress *progress, uint64_t lines_done, double share);
void weir_cli_progress_end(weir_cli_progress *progress);

#endif
