/* Pauses between tries. */
#ifndef WEIR_BACKOFF_H
#define WEIR_BACKOFF_H

#include <stdint.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exponential back-off with full jitter: a random whole number, evenly from 0 to the smaller of
 * most_us and base_us * 2^attempt. attempt 0 is the first pause. base_us and most_us: 0 or more;
 * what is below counts as 0. Draws from a generator of the calling thread, seeded by the system. */
WEIR_EXPORT int64_t weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us);

#ifdef __cplusplus
}
#endif

#endif
