/* Clocks of the system, read in microseconds: CLOCK_REALTIME since 1970, all others from some moment on. */
#ifndef WEIR_COMMON_CLOCK_H
#define WEIR_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t weir_clock_us(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
