/* Exploration: every order of steps, each state once. */
#ifndef MODEL_EXPLORE_H
#define MODEL_EXPLORE_H

#include "model.h"

struct verdict {
  uint64_t states;
  uint64_t decisions;
  int deepest;       /* the longest run, in steps */
  enum check failed; /* CHECK_NONE: everything holds */
  int length;        /* of the failing run that was found */
  char failure[256];
};

/* Explores a scope to the end, or to the first failure. Where a check fails, the shortest run that
 * makes some check fail is told to `story` (NULL: nobody). Of a mutant any run will do that its own
 * check ends, where `shortest` is not asked for. False: no memory. */
bool explore(const struct scope *scope, const struct mutant *mutant, bool shortest, FILE *story,
             struct verdict *verdict);

#endif
