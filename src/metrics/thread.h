/* What threads do not share, so that none waits for another's cache line: places that they take in
 * turn. */
#ifndef WEIR_METRICS_THREAD_H
#define WEIR_METRICS_THREAD_H

enum { WEIR_THREAD_PLACES = 16, WEIR_CACHE_LINE_BYTES = 64 };

/* The calling thread's, below WEIR_THREAD_PLACES; the same for its life. More threads share. */
unsigned weir_thread_place(void);

#endif
