/* The lines of a trace, plain or gzip, from a file or from stdin. */
#ifndef WEIR_CLI_TRACE_FILE_H
#define WEIR_CLI_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/status.h>

enum { WEIR_TRACE_LINE_MOST = 65536 }; /* bytes without the newline */

typedef struct weir_trace_file weir_trace_file;

typedef enum weir_trace_step {
  WEIR_TRACE_LINE,
  WEIR_TRACE_END,
  WEIR_TRACE_TOO_LONG, /* the line is longer than WEIR_TRACE_LINE_MOST */
  WEIR_TRACE_BROKEN    /* the file cannot be read on */
} weir_trace_step;

/* Opens `path`, or stdin for "-". NULL with a message on error. */
weir_trace_file *weir_trace_file_open(const char *path, weir_message *message);

/* The next line, valid until the next call; the last one may lack its newline. The message is
 * written for TOO_LONG and BROKEN, after which there is nothing more to read, save for what is
 * behind a long line that was skipped. */
weir_trace_step weir_trace_file_next(weir_trace_file *file, const char **text, size_t *length,
                                     weir_message *message);

/* After TOO_LONG: goes on behind that line. False with a message when the file cannot be read on.
 */
bool weir_trace_file_skip(weir_trace_file *file, weir_message *message);

/* NULL is fine. */
void weir_trace_file_close(weir_trace_file *file);

#endif
