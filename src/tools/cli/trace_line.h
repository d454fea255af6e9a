/* One line of a trace: TIME_MS KEY [COST], separated by blanks or tabs. */
#ifndef WEIR_CLI_TRACE_LINE_H
#define WEIR_CLI_TRACE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/status.h>

#include "request.h"

#define WEIR_TRACE_TIME_MOST_MS INT64_C(253402300799999) /* the end of the year 9999 */

/* Reads a line without its newline; a carriage return at its end is ignored. The key points into
 * the text. False, with what is wrong and what is accepted, for everything that is no request. */
bool weir_trace_line_parse(const char *text, size_t length, weir_cli_request *request,
                           weir_message *message);

#endif
