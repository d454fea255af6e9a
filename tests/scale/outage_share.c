#include "scale/outage_share.h"

/* How many charges a guess weighs; after how many periods nothing is left; when a process's sums
 * are halved. */
enum { PRIOR_WEIGHT = 4, PERIODS_MOST = 8, HALF_LIFE_MS = 5000 };

double share_of_key(const struct share_key *key, const struct share_process *process,
                    double first) {
  double of_process = (process->own + PRIOR_WEIGHT * first) / (process->all + PRIOR_WEIGHT);
  return (key->own + PRIOR_WEIGHT * of_process) / (key->all + PRIOR_WEIGHT);
}

void share_learn(struct share_key *key, struct share_process *process, double before,
                 bool is_holding, double now_ms) {
  double own = key->has_charged ? 1 : 0;
  double all = before - key->before;
  if (all < own) all = own; /* the store has lost something */
  if (!is_holding) {
    key->own += own;
    key->all += all;
    process->own += own;
    process->all += all;
  }
  key->before = before;
  key->has_charged = true;
  if (now_ms > process->half_at_ms) {
    process->half_at_ms = now_ms + HALF_LIFE_MS;
    process->own /= 2;
    process->all /= 2;
  }
}

void share_begin_period(struct share_key *key, int periods) {
  double left = periods > PERIODS_MOST ? 0 : .5;
  key->own *= left;
  key->all *= left;
  key->before = 0;
  key->has_charged = false;
}
