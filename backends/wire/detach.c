#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "wire/wire.h"

bool weir_wire_detach(void *(*run)(void *), void *context) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all;
  sigset_t before;
  int error = pthread_attr_init(&detached);
  if (error == 0) {
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &detached, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
  }
  errno = error;
  return error == 0;
}
