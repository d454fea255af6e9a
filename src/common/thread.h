/* A thread beside the main one. It takes no signal: those are the main thread's. */
#ifndef WEIR_COMMON_THREAD_H
#define WEIR_COMMON_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* False: there is no thread to be had. */
static inline bool weir_start_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* which a new thread takes over */
  bool started = pthread_create(thread, NULL, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

#endif
