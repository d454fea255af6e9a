/* The lines of a trace or a log, plain or gzip, from a file or from stdin; and what a trace's line
 * says: TIME_MS KEY [COST], or TIME_MS KEY leave, separated by blanks or tabs. ~COST is an estimate,
 * =COST what the last estimate of the key really cost. */
#ifndef WEIR_LOGS_TRACE_H
#define WEIR_LOGS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* How many bytes of the file have been read, compressed as they are, and how many there are; false
 * where it is no file with an end, such as a pipe. It costs a system call. */
bool weir_trace_file_measure(const weir_trace_file *file, int64_t *done, int64_t *all);

/* NULL is fine. */
void weir_trace_file_close(weir_trace_file *file);

#define WEIR_TRACE_TIME_MOST_MS INT64_C(253402300799999) /* the end of the year 9999 */
#define WEIR_TRACE_COST_MOST (INT64_C(1) << 31)

typedef struct weir_trace_request {
  int64_t time_ms; /* since the Unix epoch */
  const char *key; /* in the line, not terminated */
  size_t key_length;
  int64_t cost;
  bool estimates; /* the cost is an estimate, ... */
  bool settles;   /* ... or what that really was, from 0 on */
  bool leaves;    /* releases what the key has held longest, with cost 0 */
} weir_trace_request;

/* Reads a line without its newline; a carriage return at its end is ignored. False, with what is
 * wrong and what is accepted, for everything that is no request. */
bool weir_trace_line_parse(const char *text, size_t length, weir_trace_request *request,
                           weir_message *message);

#endif
