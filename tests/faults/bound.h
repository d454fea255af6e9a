/* Holds what was admitted against what docs/guarantees.md allows, interval by interval, in whole
 * numbers. */
#ifndef TESTS_FAULTS_BOUND_H
#define TESTS_FAULTS_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/rule.h"

typedef struct admission {
  int64_t at_us; /* its stamp */
  int64_t cost;
} admission;

/* Something that was counted may be gone since: who was admitted with a stamp before from_us was
 * counted before, who has a stamp after to_us is counted since. */
typedef struct loss {
  int64_t from_us, to_us;
} loss;

/* A window admits `most` in any period (or each aligned one), a bucket `most` and what refills.
 * With each loss that an interval touches that begins anew, and `per_loss` may come on top. */
typedef struct promise {
  bool is_bucket, is_aligned;
  int64_t most, per_loss;
  int64_t limit, period_us; /* a bucket's rate; a window's period */
} promise;

/* The worst interval: what it held, what it might, and by how much it is over (0 or less: not). */
typedef struct worst {
  int64_t admitted, bound, excess;
} worst;

/* The promise of the rule while `in_vain` may be charged and not yet be taken back, multiplied by
 * `holders` who each keep their own counts. */
promise promise_of(const weir_rule *rule, int64_t holders, int64_t in_vain, int64_t per_loss);

/* The promise of `processes` that admit by their accounts while the store does not decide: what was
 * left on average, and each may round up one cost. Shares are measured: the sum of few of them is
 * off by a tenth or two, so this says half as much again. */
promise promise_of_accounts(const weir_rule *rule, int64_t processes, int64_t cost);

/* Sorts both lists. */
worst find_worst(const promise *given, admission *admissions, size_t count, loss *losses,
                 size_t loss_count);

#endif
