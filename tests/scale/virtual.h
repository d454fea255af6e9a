/* Time that only events move. The library's own threads wait in it: what reads the monotonic clock,
 * sleeps, or waits for another thread is linked to what stands here (--wrap), and parks its fiber.
 * Random numbers come from the seed. */
#ifndef TESTS_SCALE_VIRTUAL_H
#define TESTS_SCALE_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

/* Forgets all events; time begins anew. */
void virtual_begin(uint64_t seed);
void virtual_clean_up(void);

/* Since the begin, and one second. */
int64_t virtual_now_us(void);

/* 0 to below - 1. */
int64_t virtual_below(int64_t below);

/* Calls back at that time, not from within a fiber; events of one time come as they were made. */
void virtual_at(int64_t at_us, void (*call)(void *), void *subject);

/* Parks the running fiber until then, or until virtual_wake() with the same subject. Whether it was
 * woken. */
bool virtual_wait(const void *subject, int64_t until_us);
void virtual_wake(const void *subject);

/* Runs events until there are no more. */
void virtual_run(void);

#endif
