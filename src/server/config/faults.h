/* What is wrong in the files of a configuration: all of it, each with its place. */
#ifndef WEIR_CONFIG_FAULTS_H
#define WEIR_CONFIG_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

/* The first FAULTS_MOST are kept as text, all are counted. */
enum { WEIR_CONFIG_FAULTS_MOST = 100 };

/* Where something stands. Lines and columns count from 1, columns in characters; line 0: the file
 * as a whole. */
typedef struct weir_config_place {
  const char *file; /* of a configuration: lives as long as it */
  uint32_t line, column;
} weir_config_place;

typedef struct weir_config_fault_line {
  size_t file_length; /* of FILE in the text */
  uint32_t line, column;
  weir_message text; /* "FILE:LINE:COL: PATH: what was found, what is accepted" */
} weir_config_fault_line;

/* Zero it before use. Lines are in the order of their places. */
typedef struct weir_config_faults {
  weir_config_fault_line lines[WEIR_CONFIG_FAULTS_MOST];
  size_t kept;
  size_t count; /* also of those that found no room */
} weir_config_faults;

/* One more. `path`: what it is about, "limiters.api.rule"; may be empty. The line is printable
 * ASCII; other bytes stand as "?". */
void weir_config_fault(weir_config_faults *faults, weir_config_place place, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
