/* A simulated store, its processes and what they have sent: what one run of a scene consists of. */
#ifndef TESTS_SCALE_OUTAGE_WORLD_H
#define TESTS_SCALE_OUTAGE_WORLD_H

#include "scale/outage_account.h"
#include "scale/outage_scene.h"

enum {
  OUTAGE_PROCESSES_MOST = 64,
  OUTAGE_KEYS_MOST = 64,
  OUTAGE_WINDOWS_MOST = 64,
  OUTAGE_WINDOW_MS = 1000,
  OUTAGE_DEADLINE_MS = 20
};

struct outage_request {
  double at_ms;
  int process, key;
  bool is_due;      /* one limiter for all would admit it, in a window that the outage touches */
  bool is_answered; /* by the policy */
};

struct outage_process {
  struct share_process share;
  bool is_open, is_probing; /* its breaker */
  double missed_ms;         /* of the first miss; negative: none */
  double probe_ms, pause_ms;
  double away_since_ms, back_ms, hold_ms;
  double starved_from_ms, starved_to_ms;
  uint64_t secret;
};

struct outage_world {
  const struct outage_scene *scene;
  enum outage_policy policy;
  uint64_t random;
  double begin_ms, end_ms; /* of the outage, or of one of several */
  struct outage_process processes[OUTAGE_PROCESSES_MOST];
  struct account accounts[OUTAGE_PROCESSES_MOST][OUTAGE_KEYS_MOST];
  double stored[OUTAGE_KEYS_MOST][OUTAGE_WINDOWS_MOST];
  double admitted[OUTAGE_KEYS_MOST][OUTAGE_WINDOWS_MOST];
  double ideal[OUTAGE_KEYS_MOST][OUTAGE_WINDOWS_MOST];
  double due, denied;
  double first_ms; /* from the begin to the first answer by the policy; negative: none */
  struct outage_request *sent;           /* while the server is away, in order */
  size_t sent_count, sent_room, overdue; /* those before `overdue` have had their deadline */
};

int outage_window(double at_ms);

/* A request reaches its process. False: no memory. */
bool outage_arrive(struct outage_world *world, struct outage_request request);

/* Answers what was sent and has had its deadline by now. */
void outage_expire(struct outage_world *world, double now_ms);

/* The server goes on, or is back. */
void outage_return(struct outage_world *world);

#endif
