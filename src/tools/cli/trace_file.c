/* A file of lines, which may be compressed. */
#include "trace_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct weir_trace_file {
  gzFile input;
  bool at_end;
  size_t start; /* buffer[start] to buffer[end - 1] has been read but not handed out */
  size_t end;
  char buffer[2 * WEIR_TRACE_LINE_MOST];
};

static gzFile open_input(const char *path) {
  if (strcmp(path, "-") != 0) return gzopen(path, "rb");
  int descriptor = dup(STDIN_FILENO); /* gzclose closes what it was given */
  if (descriptor < 0) return NULL;
  gzFile input = gzdopen(descriptor, "rb");
  if (input == NULL) close(descriptor);
  return input;
}

weir_trace_file *weir_trace_file_open(const char *path, weir_message *message) {
  weir_trace_file *file = malloc(sizeof *file);
  errno = ENOMEM; /* zlib sets no errno when memory is short */
  gzFile input = file != NULL ? open_input(path) : NULL;
  if (input == NULL) {
    snprintf(message->text, sizeof message->text, "cannot be opened: %s", strerror(errno));
    free(file);
    return NULL;
  }
  file->input = input;
  file->at_end = false;
  file->start = file->end = 0;
  return file;
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

void weir_trace_file_close(weir_trace_file *file) {
  if (file == NULL) return;
  gzclose_r(file->input);
  free(file);
}
