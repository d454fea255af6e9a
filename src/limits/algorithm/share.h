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
 * plan.c calls this for what is counted in windows, bucket.c for buckets. */
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
static inline void weir_share_halve(weir_share *share, int64_t times) {
  if (times > 62) times = 62;
  share->mine /= INT64_C(1) << times;
  share->all /= INT64_C(1) << times;
}

/* A bucket's count begins no periods: its past is halved when it holds so many own charges. */
enum { WEIR_SHARE_CHARGES_OF_A_BUCKET = 16 };

/* A bucket's time, in its units: it belongs to no period, and at `now` the bucket is empty. After a
 * gap longer than `forgets` nothing is learnt: the bucket was dry, for an unknown time. */
static inline void weir_share_learn_time(weir_share *share, weir_lesson *lesson, int64_t before,
                                         int64_t cost, int64_t now, int64_t forgets) {
  bool had_some = share->before != 0 || share->last != 0;
  bool lately = now - share->before - share->last <= forgets && before >= share->before;
  weir_share_learn(share, lesson, had_some && lately, before, cost);
  if (share->mine > WEIR_SHARE_CHARGES_OF_A_BUCKET * cost) weir_share_halve(share, 1);
}

#endif
