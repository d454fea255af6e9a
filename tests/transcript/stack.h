/* Texts of rules, at random. */
#ifndef TESTS_TRANSCRIPT_STACK_H
#define TESTS_TRANSCRIPT_STACK_H

#include <stdbool.h>
#include <stdint.h>

enum { STACK_BYTES = 512, STACK_GROUP_BYTES = 64 };

/* One to three rules, and the group to which they belong: the algorithms in their order, once each.
 * Not every text is a stack that a limiter accepts. */
void stack_write(uint32_t *seed, char text[STACK_BYTES], char group[STACK_GROUP_BYTES]);

#endif
