/* The heap of a whole program, with the system's libraries in it: counted, and failing on demand.
 * Link heap.c to have it. */
#ifndef TESTS_ATTACK_HEAP_H
#define TESTS_ATTACK_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Blocks and bytes that were allocated and not freed. */
long heap_blocks(void);
long heap_bytes(void);

/* From now on the calling thread's allocation of that number (0: the next) finds no memory; with
 * `all_after`, every later one neither. Threads that it starts find theirs: a sanitizer needs some
 * to begin with one. */
void heap_fail_at(long number, bool all_after);

/* Memory is there again. How many allocations found none; *asked: how many there were. */
long heap_recover(long *asked);

/* So far: whether one has found none. */
bool heap_has_failed(void);

#endif
