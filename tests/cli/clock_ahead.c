/* Put in front of a memcached by LD_PRELOAD: the clock of its machine is WEIR_CLOCK_AHEAD_S seconds ahead. */
#define _GNU_SOURCE /* for syscall() */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now);
time_t time(time_t *now);
int gettimeofday(struct timeval *restrict now, void *restrict zone);

static time_t ahead_s(void) {
  const char *text = getenv("WEIR_CLOCK_AHEAD_S");
  return text == NULL ? 0 : (time_t)strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead_s();
  return (int)result;
}

time_t time(time_t *now) {
  struct timespec read = {0};
  clock_gettime(CLOCK_REALTIME, &read);
  if (now != NULL) *now = read.tv_sec;
  return read.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec read = {0};
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &read);
  now->tv_sec = read.tv_sec;
  now->tv_usec = read.tv_nsec / 1000;
  return 0;
}
