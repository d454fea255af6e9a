/* What all commands do alike when they print JSON. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Sets a member to text of the input. JSON holds Unicode only, so what is not UTF-8 goes in as
 * base64 (RFC 4648, section 4, with padding) under the name with "_base64" behind. False when
 * memory is short. */
bool weir_cli_json_set_bytes(json_t *object, const char *name, const char *bytes, size_t length);

/* One line of printable ASCII: everything else within strings is escaped, as it may move a
 * terminal's cursor. `digits`: of numbers that are not whole. Nothing reaches `out`, and the answer
 * is false, unless there is an object and memory to print it. */
bool weir_cli_json_print(FILE *out, const json_t *object, unsigned digits);

#endif
