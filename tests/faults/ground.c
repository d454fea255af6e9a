#include "faults/ground.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weir/backend.h>

_Noreturn void give_up(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("given up: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(2);
}

int64_t real_time_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

void sleep_us(int64_t us) {
  if (us <= 0) return;
  struct timespec left = {.tv_sec = us / SECOND_US, .tv_nsec = us % SECOND_US * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    continue;
}

void *share_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no %zu bytes of shared memory", bytes);
  return memory;
}

void unshare_memory(void *memory, size_t bytes) {
  munmap(memory, bytes);
}

void share_barrier(pthread_barrier_t *barrier, unsigned threads) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(barrier, &attributes, threads);
  pthread_barrierattr_destroy(&attributes);
}

pid_t start_process(void (*run)(void *context), void *context) {
  pid_t parent = getpid();
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) give_up("no process left");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) run(context);
  exit(0);
}

void end_process(pid_t process) {
  kill(process, SIGKILL);
  while (waitpid(process, NULL, 0) < 0 && errno == EINTR)
    continue;
}

bool await_process(pid_t process, int64_t us) {
  int status = 0;
  for (int64_t end_us = weir_monotonic_us() + us; waitpid(process, &status, WNOHANG) == 0;) {
    if (weir_monotonic_us() > end_us) {
      end_process(process);
      return false;
    }
    sleep_us(2 * MS_US);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

uint64_t next_number(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x * UINT64_C(0x2545F4914F6CDD1D);
}
