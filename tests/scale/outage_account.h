/* The admissions of a process for a key while the store does not answer, by three policies; and
 * what it owes to the store for them. Fixed windows, a cost of 1. */
#ifndef TESTS_SCALE_OUTAGE_ACCOUNT_H
#define TESTS_SCALE_OUTAGE_ACCOUNT_H

#include <stdint.h>

#include "scale/outage_share.h"

enum outage_policy {
  OUTAGE_FRESH,     /* the whole limit anew, in each process */
  OUTAGE_PEERS,     /* of a limit anew, the part that each of so many processes has */
  OUTAGE_CONTINUES, /* the measured share of what was left, paid back on return */
  OUTAGE_POLICIES
};

/* The account of a process and key, in one window. */
struct account {
  struct share_key share;
  int window;      /* that the rest is about; -1: none yet */
  double total;    /* charged by everybody, as the store said last; negative: it said nothing */
  double owed;     /* admitted by the policy and certainly not in the store */
  double admitted; /* by the policy, since the store answered last */
  double begun_at; /* the total that this process's share is of while it holds; negative: none */
  double held;     /* admitted since then, by the policy and by the store */
  double fresh;    /* admitted by the policies that begin anew, in `fresh_window` */
  int fresh_window;
};

/* The terms that decide beside the account. */
struct account_terms {
  enum outage_policy policy;
  double limit;
  int processes;
  struct share_process *process;
  int window;
  double lot; /* drawn once for a process, key and window, 0 to below 1: what it rounds by */
};

void account_begin(struct account *account);

/* Whether the policy admits a request. `is_sent`: its charge may be in the store. */
bool account_admits(struct account *account, const struct account_terms *terms, bool is_sent);

/* The store decides a request, of which `*stored` counts all. `is_holding`: it came back so lately
 * that others may not have paid yet. */
bool account_store_admits(struct account *account, const struct account_terms *terms,
                          double *stored, bool is_holding, double now_ms);

#endif
