/* The stamp of an answer: what must be known of a take when it is settled, as a text that any client can
 * hand back. "1764028800123456.store.1f3a9c20": the time that it was decided for, who decided, and a
 * mark of limiter, key and tier, so that it settles nothing else.
 *
 * The mark is no secret: it finds mistakes, not clients that mean harm. Any server that has the same
 * limiters reads the stamps of the others. */
#ifndef WEIR_PROTOCOL_STAMP_H
#define WEIR_PROTOCOL_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/limiter.h>

enum { WEIR_STAMP_BYTES = 40 }; /* of its text, with the end */

typedef struct weir_take_stamp {
  int64_t at_us; /* weir_decision.at_us */
  weir_source source;
  bool is_idle; /* nothing was charged: the key is in a list, or the limiter in shadow mode */
  uint32_t mark;
} weir_take_stamp;

/* "store", "local", "fallback", "late"; "settled", which no stamp has. */
const char *weir_source_name(weir_source source);

/* `counted`: the key as it is counted, led by its limiter's name. */
uint32_t weir_stamp_mark(const char *counted, size_t length, const char *tier);

/* The text's length. */
size_t weir_stamp_write(const weir_take_stamp *stamp, char text[WEIR_STAMP_BYTES]);

/* False: it is no text that weir_stamp_write() writes. */
bool weir_stamp_read(const char *text, size_t length, weir_take_stamp *stamp);

#endif
