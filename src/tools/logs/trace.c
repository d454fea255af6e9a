/* A file of lines, which may be compressed, and one line of a trace. Lines are handed out where
 * they lie in the buffer, which has room for two of them: what is left when no newline is in it is
 * moved to its front, and read on behind. */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir/backend.h>
#include <zlib.h>

#include "number.h"

#define LINE_FORM "a line is TIME_MS KEY [COST]"

struct weir_trace_file {
  gzFile input;
  int64_t size; /* when it was opened; below 0: it is no plain file */
  bool at_end;
  size_t start; /* buffer[start] to buffer[end - 1] has been read but not handed out */
  size_t end;
  char buffer[2 * WEIR_TRACE_LINE_MOST];
};

weir_trace_file *weir_trace_file_open(const char *path, weir_message *message) {
  weir_trace_file *file = malloc(sizeof *file);
  gzFile input = NULL;
  errno = ENOMEM; /* zlib sets no errno when memory is short */
  if (file != NULL && strcmp(path, "-") != 0) {
    input = gzopen(path, "rb");
  } else if (file != NULL) {
    int descriptor = dup(STDIN_FILENO); /* gzclose closes what it was given */
    if (descriptor >= 0) input = gzdopen(descriptor, "rb");
    if (descriptor >= 0 && input == NULL) close(descriptor);
  }
  if (input == NULL) {
    snprintf(message->text, sizeof message->text, "cannot be opened: %s", strerror(errno));
    free(file);
    return NULL;
  }
  struct stat about;
  bool from_stdin = strcmp(path, "-") == 0;
  bool known = (from_stdin ? fstat(STDIN_FILENO, &about) : stat(path, &about)) == 0;
  file->size = known && S_ISREG(about.st_mode) ? about.st_size : -1;
  file->input = input;
  file->at_end = false;
  file->start = file->end = 0;
  return file;
}

void weir_trace_file_close(weir_trace_file *file) {
  if (file == NULL) return;
  gzclose_r(file->input);
  free(file);
}

bool weir_trace_file_measure(const weir_trace_file *file, int64_t *done, int64_t *all) {
  *all = file->size;
  *done = file->size >= 0 ? gzoffset(file->input) : -1;
  if (*done > *all) *done = *all; /* it grows */
  return *done >= 0;
}

/* Z_BUF_ERROR from a reader means that the compressed data stops before its end. */
static const char *input_problem(gzFile input) {
  int code;
  gzerror(input, &code);
  switch (code) {
    case Z_OK:
    case Z_STREAM_END:
      return NULL;
    case Z_ERRNO:
      return strerror(errno);
    case Z_BUF_ERROR:
      return "the gzip data is cut short";
    case Z_MEM_ERROR:
      return "there is not enough memory";
    default:
      return "the gzip data is corrupt";
  }
}

/* Moves what is left to the front and reads behind it; there is room, because what is left is no
 * longer than a line. False when the input is broken. */
static bool fill(weir_trace_file *file, weir_message *message) {
  size_t kept = file->end - file->start;
  memmove(file->buffer, file->buffer + file->start, kept);
  file->start = 0;
  file->end = kept;
  int got = gzread(file->input, file->buffer + kept, (unsigned)(sizeof file->buffer - kept));
  if (got > 0) {
    file->end += (size_t)got;
    return true;
  }
  const char *problem = input_problem(file->input);
  if (problem != NULL) snprintf(message->text, sizeof message->text, "%s", problem);
  file->at_end = true;
  return problem == NULL;
}

weir_trace_step weir_trace_file_next(weir_trace_file *file, const char **text, size_t *length,
                                     weir_message *message) {
  for (;;) {
    size_t held = file->end - file->start;
    const char *first = file->buffer + file->start;
    const char *newline = held > 0 ? memchr(first, '\n', held) : NULL;
    *text = first;
    *length = newline != NULL ? (size_t)(newline - first) : held;
    if (*length > WEIR_TRACE_LINE_MOST) {
      snprintf(message->text, sizeof message->text,
               "the line is too long; up to %d bytes are accepted", WEIR_TRACE_LINE_MOST);
      return WEIR_TRACE_TOO_LONG;
    }
    if (newline != NULL || file->at_end) {
      file->start += *length + (newline != NULL);
      return newline != NULL || held > 0 ? WEIR_TRACE_LINE : WEIR_TRACE_END;
    }
    if (!fill(file, message)) return WEIR_TRACE_BROKEN;
  }
}

bool weir_trace_file_skip(weir_trace_file *file, weir_message *message) {
  for (;;) {
    size_t held = file->end - file->start;
    const char *first = file->buffer + file->start;
    const char *newline = held > 0 ? memchr(first, '\n', held) : NULL;
    file->start = newline != NULL ? (size_t)(newline - file->buffer) + 1 : file->end;
    if (newline != NULL || file->at_end) return true;
    if (!fill(file, message)) return false;
  }
}

/* --- a line of a trace ------------------------------------------------------------------------ */

typedef struct field {
  const char *at;
  size_t length;
} field;

/* The next field from *at on; its length is 0 when there is none. */
static field next_field(const char **at, const char *end) {
  while (*at < end && (**at == ' ' || **at == '\t'))
    (*at)++;
  field found = {.at = *at};
  while (*at < end && **at != ' ' && **at != '\t')
    (*at)++;
  found.length = (size_t)(*at - found.at);
  return found;
}

static bool reject(weir_message *message, const char *problem) {
  weir_message_set(message, "%s; " LINE_FORM, problem);
  return false;
}

/* Quotes the field, cut where it is long. */
static bool reject_field(weir_message *message, const char *name, field found,
                         const char *accepted) {
  enum { SHOWN_MOST = 40 };
  bool cut = found.length > SHOWN_MOST;
  weir_message_set(message, "%s \"%.*s%s\": %s", name, (int)(cut ? SHOWN_MOST : found.length),
                   found.at, cut ? "..." : "", accepted);
  return false;
}

bool weir_trace_line_parse(const char *text, size_t length, weir_trace_request *request,
                           weir_message *message) {
  *request = (weir_trace_request){.cost = 1};
  if (length > 0 && text[length - 1] == '\r') length--;
  if (length > 0 && memchr(text, '\0', length) != NULL) return reject(message, "NUL byte");
  const char *at = text, *end = text + length;
  field time = next_field(&at, end), key = next_field(&at, end);
  field cost = next_field(&at, end), extra = next_field(&at, end);

  if (time.length == 0) return reject(message, "blank line");
  if (!weir_number_read(time.at, time.length, WEIR_TRACE_TIME_MOST_MS, &request->time_ms))
    return reject_field(message, "TIME_MS", time,
                        "a whole number from 0 to 253402300799999 is accepted");
  if (key.length == 0) return reject(message, "no KEY");
  if (extra.length > 0) return reject_field(message, "extra field", extra, LINE_FORM);
  request->key = key.at;
  request->key_length = key.length;
  if (cost.length == 0) return true;
  request->leaves = cost.length == strlen("leave") && memcmp(cost.at, "leave", cost.length) == 0;
  if (request->leaves) request->cost = 0;
  if (request->leaves) return true;
  field number = cost;
  request->estimates = cost.at[0] == '~';
  request->settles = cost.at[0] == '=';
  if (request->estimates || request->settles) {
    number.at++;
    number.length--;
  }
  if (!weir_number_read(number.at, number.length, WEIR_TRACE_COST_MOST, &request->cost) ||
      (request->cost < 1 && !request->settles))
    return reject_field(message, "COST", cost,
                        request->settles ? "a whole number from 0 to 2147483648 is accepted"
                                         : "a whole number from 1 to 2147483648 is accepted");
  return true;
}
