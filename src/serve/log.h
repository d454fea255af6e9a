/* What the server has to say: a line on stderr. */
#ifndef WEIR_SERVE_LOG_H
#define WEIR_SERVE_LOG_H

/* "weir: " and the text; what is not printable ASCII becomes "?". One write, so lines of threads do
 * not mix. */
void weir_serve_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
