/* A backend that does what a test says, right or wrong. One store of it at a time. */
#ifndef TESTS_STORE_SCRIPTED_H
#define TESTS_STORE_SCRIPTED_H

#include <weir/backend.h>

typedef struct scripted {
  weir_status open_status;
  const char *open_message;
  int opens;
  int closes;
  int execs;
  int64_t timeout_us;        /* what open was given */
  int64_t deadline_us;       /* what exec was given */
  weir_outcome outcomes[16]; /* what exec answers, operation by operation */
  weir_operation result;     /* value and version_out of every answer */
  const char *exec_message;
} scripted;

extern scripted script;

/* Schemes "scripted" and "scripted+host"; the options are "depth" and no other. */
weir_backend scripted_backend(unsigned traits);

#endif
