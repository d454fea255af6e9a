#include <pthread.h>
#include <signal.h>

#include "wire/wire.h"

bool weir_wire_detach(void *(*run)(void *), void *context) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all;
  sigset_t before;
  if (pthread_attr_init(&detached) != 0) return false;
  sigfillset(&all);
  bool started = pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0 &&
                 pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  if (started) {
    started = pthread_create(&thread, &detached, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  pthread_attr_destroy(&detached);
  return started;
}
