/* Processes that have nobody beside them, in virtual time, and a store that never leaves. */
#ifndef TESTS_OUTAGE_ALONE_H
#define TESTS_OUTAGE_ALONE_H

#include "outage/figures.h"
#include "outage/trouble.h"

struct alone_row {
  const char *name, *about;
  struct trouble trouble;
  const char *rule;
  int64_t every_us;     /* a request, on average; 0: one after another */
  int takes;            /* of a process, of a key of its own; never above the limit */
  int processes;        /* one after another, none of which connects ahead */
  double worst, median; /* the goal, of a hundred requests, that are denied all the same */
};

extern const struct alone_row alone_rows[];
extern const size_t alone_rows_count;

/* From within a fiber. */
void alone_run(const struct alone_row *row, struct server *server, struct figure *figure);

#endif
