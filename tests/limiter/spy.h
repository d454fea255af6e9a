/* A store that counts: a backend such as anyone can bring, in front of the embedded store. One
 * exec is one round trip, one operation is one command. Its scheme is "spy:". */
#ifndef TESTS_LIMITER_SPY_H
#define TESTS_LIMITER_SPY_H

#include <stdatomic.h>
#include <weir/backend.h>

enum { SPY_KINDS = WEIR_DROP + 1 };

/* What has been seen since spy_forget(). */
typedef struct spy_counts {
  _Atomic int round_trips;
  _Atomic int commands;
  _Atomic int of_kind[SPY_KINDS];
} spy_counts;

/* The next operation of `kind` ends in `outcome`; `executed`: although it was carried out; `late`,
 * which spy_fail_next() leaves false: and says nothing of the store. */
typedef struct spy_fault {
  weir_operation_kind kind;
  weir_outcome outcome;
  bool executed;
  bool late;
} spy_fault;

typedef struct spy {
  spy_counts counts;
  spy_fault fault;
  atomic_bool faulty;       /* the fault is still to come */
  _Atomic int64_t delay_us; /* each exec takes this long, at least */
} spy;

/* There is one; a test that opens it has it to itself. */
extern spy the_spy;
extern const weir_backend spy_backend;

void spy_forget(void);
void spy_fail_next(weir_operation_kind kind, weir_outcome outcome, bool executed);

#endif
