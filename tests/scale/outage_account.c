#include "scale/outage_account.h"

#include <math.h>

/* A process that has met no store takes this for its share. */
#define FIRST_SHARE (1.0 / 8)

void account_begin(struct account *account) {
  *account = (struct account){.window = -1, .total = -1, .begun_at = -1, .fresh_window = -1};
}

/* To a later window, where it is one. */
static void turn(struct account *account, int window) {
  if (account->window == window) return;
  share_begin_period(&account->share, window - account->window);
  account->window = window;
  account->total = account->begun_at = -1;
  account->owed = account->admitted = account->held = 0;
}

static double known_total(const struct account *account) {
  return account->total >= 0 ? account->total : 0;
}

/* In whole requests. Rounded by lot: always down would shut out processes that have less than one,
 * and always up would admit one for each process. */
static double allowance(const struct account *account, const struct account_terms *terms,
                        double total) {
  double share = share_of_key(&account->share, terms->process, FIRST_SHARE);
  return floor(share * (terms->limit - total) + terms->lot);
}

static bool admits_afresh(struct account *account, const struct account_terms *terms) {
  bool is_divided = terms->policy == OUTAGE_PEERS;
  double most = is_divided ? floor(terms->limit / terms->processes) : terms->limit;
  if (account->fresh_window != terms->window) {
    account->fresh_window = terms->window;
    account->fresh = 0;
  }
  if (account->fresh >= fmax(most, 1)) return false;
  account->fresh++;
  return true;
}

bool account_admits(struct account *account, const struct account_terms *terms, bool is_sent) {
  if (terms->policy != OUTAGE_CONTINUES) return admits_afresh(account, terms);
  turn(account, terms->window);
  if (account->begun_at < 0) account->begun_at = known_total(account);
  if (account->admitted + 1 > allowance(account, terms, known_total(account)) ||
      account->held + 1 > allowance(account, terms, account->begun_at))
    return false;
  account->admitted++;
  account->held++;
  if (!is_sent) account->owed++;
  return true;
}

/* A debt that the limit has no room for is dropped. */
static void pay(struct account *account, const struct account_terms *terms, double *stored) {
  double paid = fmin(account->owed, terms->limit - *stored);
  if (terms->policy == OUTAGE_CONTINUES && paid > 0) *stored += paid;
  account->owed = 0;
}

bool account_store_admits(struct account *account, const struct account_terms *terms,
                          double *stored, bool is_holding, double now_ms) {
  bool holds = is_holding && terms->policy == OUTAGE_CONTINUES;
  turn(account, terms->window);
  pay(account, terms, stored);
  account->admitted = 0;
  if (!holds || account->begun_at < 0) account->held = 0;
  if (!holds)
    account->begun_at = -1;
  else if (account->begun_at < 0)
    account->begun_at = known_total(account);
  if (holds && account->held + 1 > allowance(account, terms, account->begun_at)) return false;
  if (holds) account->held++;
  if (*stored < terms->limit) {
    share_learn(&account->share, terms->process, *stored, holds, now_ms);
    *stored += 1;
    account->total = *stored;
    return true;
  }
  account->total = *stored;
  return false;
}
