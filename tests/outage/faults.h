/* Faults: what happens to the server of a run, and when. */
#ifndef TESTS_OUTAGE_FAULTS_H
#define TESTS_OUTAGE_FAULTS_H

#include "fixture/servers.h"
#include "outage/tally.h"

typedef enum fault_kind {
  FAULT_PAUSE, /* SIGSTOP and SIGCONT, once the first lane of a day has used a part of its limit */
  FAULT_KILL,  /* SIGKILL, and a start at the same address; lanes of a day are half used by then */
  FAULT_STOP,  /* SIGSTOP for long, under traffic */
  FAULT_BUSY   /* none; the machine has too much to do */
} fault_kind;

struct fault {
  fault_kind kind;
  int64_t warm_up_us; /* of traffic before it */
  int64_t length_us;
  int64_t after_us; /* how long the traffic goes on */
};

/* The course of a fault, as known when it is over. */
struct fault_course {
  int64_t begin_us, end_us;                /* by the real time */
  int64_t forgotten[LANES_MOST];           /* of a day, by the store, when it was killed */
  int64_t admitted_until_back[LANES_MOST]; /* of a day, until it was started again */
};

/* Blocks for as long as all of it takes; the traffic is under way. */
void fault_run(const struct fault *fault, struct server *server, const struct lane *const *lanes,
               size_t count, struct tally *tally, uint64_t *random, struct fault_course *course);

#endif
