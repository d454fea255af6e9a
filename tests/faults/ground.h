/* Programs of several processes stand on this: time, memory that they share, processes. In this
 * folder's programs, the process that starts the servers has one thread; all that runs beside it
 * are processes. */
#ifndef TESTS_FAULTS_GROUND_H
#define TESTS_FAULTS_GROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MS_US INT64_C(1000)
#define SECOND_US INT64_C(1000000)

/* Ends the process with exit code 2: what was wanted could not be tried. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t real_time_us(void);
void sleep_us(int64_t us);

/* Zeroed, for this process and all that it starts. */
void *share_memory(size_t bytes);
void unshare_memory(void *memory, size_t bytes);

/* For so many threads of processes that share its memory. */
void share_barrier(pthread_barrier_t *barrier, unsigned threads);

/* Runs in a process of its own, which exits with 0 when `run` returns and dies with this one. */
pid_t start_process(void (*run)(void *context), void *context);

/* Kills it. */
void end_process(pid_t process);

/* Waits for it to exit; false when it does not within `us`, is killed by a signal, or does not exit
 * with 0. */
bool await_process(pid_t process, int64_t us);

/* A reproducible stream of numbers; never 0 as state. */
uint64_t next_number(uint64_t *state);

#endif
