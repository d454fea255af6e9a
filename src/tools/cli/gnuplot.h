/* Pictures: a script that gnuplot turns into a file. */
#ifndef WEIR_CLI_GNUPLOT_H
#define WEIR_CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

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
