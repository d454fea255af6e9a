/* What a limiter's options are where the caller leaves them 0. The simulator, which has no
 * limiter, reads the same. */
#ifndef WEIR_LIMITER_DEFAULTS_H
#define WEIR_LIMITER_DEFAULTS_H

#include <stdint.h>

enum {
  WEIR_DEFAULT_PROCESSES = 64, /* that may use the same keys */
  WEIR_DEFAULT_PEERS = 8       /* that a process which has not met its store shares it with */
};

#define WEIR_DEFAULT_CLOCK_ERROR_US INT64_C(10000)
#define WEIR_DEFAULT_MEMO_AGE_US INT64_C(1000000)
#define WEIR_DEFAULT_LOCAL_DENIAL_US INT64_C(50000)
#define WEIR_DEFAULT_LONGEST_WAIT_US INT64_C(60000000)

#endif
