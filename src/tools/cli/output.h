/* Commands print for programs, and draw, by these. */
#ifndef WEIR_CLI_OUTPUT_H
#define WEIR_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* --- JSON ---------------------------------------------------------------------------------------
 *
 * Shared by all commands that print it. */

/* Sets a member to text of the input. JSON holds Unicode only, so what is not UTF-8 goes in as
 * base64 (RFC 4648, section 4, with padding) under the name with "_base64" behind. False when
 * memory is short. */
bool weir_cli_json_set_bytes(json_t *object, const char *name, const char *bytes, size_t length);

/* One line of printable ASCII: everything else within strings is escaped, as it may move a
 * terminal's cursor. `digits`: of numbers that are not whole. Nothing reaches `out`, and the answer
 * is false, unless there is an object and memory to print it. */
bool weir_cli_json_print(FILE *out, const json_t *object, unsigned digits);

/* --- pictures: a script that gnuplot turns into a file ------------------------------------------ */

/* Whether a picture can be written there; else one line on stderr. A file that is there stays as it
 * is. */
bool weir_cli_gnuplot_check(const char *path);

/* Where to write the script; NULL after one line on stderr. */
FILE *weir_cli_gnuplot_begin(void);

/* The first lines of a picture in SVG, of so many pixels: how all of them look. */
void weir_cli_gnuplot_page(FILE *script, int width, int height);

/* Draws the script into the file at `path` and closes it. The exit status: 0, or another one after
 * a line on stderr. */
int weir_cli_gnuplot_draw(FILE *script, const char *path);

/* Writes text as a string of gnuplot's, whatever its bytes. */
void weir_cli_gnuplot_quote(FILE *script, const char *text, size_t length);

#endif
