#include "algorithm/share.h"

/* A bucket's count begins no periods: its past is halved when it holds so many own charges. */
enum { OWN_CHARGES_OF_A_BUCKET = 16 };

void weir_share_halve(weir_share *share, int64_t times) {
  if (times > 62) times = 62;
  share->mine /= INT64_C(1) << times;
  share->all /= INT64_C(1) << times;
}

void weir_share_learn_time(weir_share *share, weir_lesson *lesson, int64_t before, int64_t cost,
                           int64_t now, int64_t forgets) {
  bool had_some = share->before != 0 || share->last != 0;
  bool lately = now - share->before - share->last <= forgets && before >= share->before;
  weir_share_learn(share, lesson, had_some && lately, before, cost);
  if (share->mine > OWN_CHARGES_OF_A_BUCKET * cost) weir_share_halve(share, 1);
}
