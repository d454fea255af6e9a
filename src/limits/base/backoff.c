/* Random pauses between tries: for rounds that others disturbed, and for callers. */
#include <weir/backoff.h>

#include <sodium.h>
#include <unistd.h>
#include <weir/backend.h>

#include "random.h"

/* The calling thread's: nothing secret hangs on it, it must only differ from thread to thread. A
 * process that was forked seeds anew: else all children of one parent would pause alike, and meet
 * again and again. */
static uint64_t *own_counter(void) {
  static _Thread_local struct {
    pid_t owner;
    uint64_t counter;
  } generator;
  pid_t self = getpid();
  if (generator.owner != self) {
    /* Without the system's random numbers the time must do: pauses that are alike are better than
     * none. */
    generator.counter = (uint64_t)weir_monotonic_us();
    if (sodium_init() >= 0) randombytes_buf(&generator.counter, sizeof generator.counter);
    generator.owner = self;
  }
  return &generator.counter;
}

int64_t weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us) {
  if (base_us <= 0 || most_us <= 0) return 0;
  bool over = attempt >= 63 || base_us > (most_us >> attempt); /* base * 2^attempt above most */
  uint64_t count = (uint64_t)(over ? most_us : base_us << attempt) + 1; /* at most 2^63 */

  /* 0 to count - 1, each as likely: numbers from the incomplete last run are thrown away. */
  uint64_t *counter = own_counter();
  uint64_t incomplete = -count % count;
  uint64_t number;
  do {
    number = weir_random_next(counter);
  } while (number < incomplete);
  return (int64_t)(number % count);
}
