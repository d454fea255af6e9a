/* The share: what part of a key's charges is this process's own, so that it can go on without the
 * store as it began with it (memo/account.h).
 *
 *     own charges      c1         c2                  c3
 *     the count   0 ---+--+--+----+--+----+--+--+--+--+---
 *                      |<- c1 is mine, all: up to c2  |     learnt at c2
 *                                 |<- c2 is mine, all ->|   learnt at c3
 *
 * An own charge counts only when the next one shows what came after it. Own charges over the total,
 * with the last, would add up to more than 1: a process that came first and left would take itself
 * to be alone. Where charges come in random order, the shares of all processes so add up to 1 on
 * average, however many there are: docs/guarantees.md, "Outages".
 *
 * Sums are signed: what goes back comes off the last own charge. Only an admitted charge teaches.
 * expected.c calls this for what is counted in windows. */
#ifndef WEIR_ALGORITHM_SHARE_H
#define WEIR_ALGORITHM_SHARE_H

#include "algorithm/algorithm.h"

/* An own charge of `cost` stands on top of `before`: what there is since the last one is learnt,
 * where the two are connected. */
static inline void weir_share_learn(weir_share *share, weir_lesson *lesson, bool connected,
                                    int64_t before, int64_t cost) {
  if (connected) {
    int64_t all = before - share->before;
    share->mine += share->last;
    share->all += all;
    lesson->mine += share->last;
    lesson->all += all;
  }
  lesson->cost += cost;
  lesson->charges++;
  share->before = before;
  share->last = cost;
}

/* Halves what was learnt, so many times. */
void weir_share_halve(weir_share *share, int64_t times);

/* A bucket's time, in its units: it belongs to no period, and at `now` the bucket is empty. After a
 * gap longer than `forgets` nothing is learnt: the bucket was dry, nobody knows for how long. */
void weir_share_learn_time(weir_share *share, weir_lesson *lesson, int64_t before, int64_t cost,
                           int64_t now, int64_t forgets);

#endif
