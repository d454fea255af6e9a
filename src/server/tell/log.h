/* Messages of the server: a line on stderr each, with its time.
 *
 * No thread waits for its reader. A thread of its own writes what others have said; lines that find no
 * room before it are dropped and counted, and the log says how many when it is read again. */
#ifndef WEIR_TELL_LOG_H
#define WEIR_TELL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_log_field {
  const char *name;
  const char *text; /* NULL: the number */
  int64_t number;
  bool is_quoted; /* of a text, in lines that are no JSON */
} weir_log_field;

/* Before the first line and after the last; without a thread, lines are written where they are said.
 * The end waits a second at most for lines that are not written yet. */
void weir_serve_log_begin(void);
void weir_serve_log_end(void);

/* Whether lines are objects of JSON from now on. */
void weir_serve_log_as_json(bool json);

/* Lines that are not in the log. */
uint64_t weir_serve_log_lost(void);

/* A sentence; what is not printable ASCII becomes "?". Any thread. */
void weir_serve_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Logs an event, with its particulars. */
void weir_serve_log_event(const char *what, const weir_log_field *fields, size_t count);

#endif
