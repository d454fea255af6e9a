/* Mutants: known mistakes, put between the machines and the model, that the checks must catch. */
#ifndef MODEL_MUTANTS_H
#define MODEL_MUTANTS_H

#include "model.h"

/* Members that are NULL or false change nothing. */
struct mutant {
  const char *name;
  const char *scope;    /* where it is looked for */
  enum check killed_by; /* the check that must notice */

  void (*misconfigure)(weir_stack *stack, weir_terms *terms);
  void (*misremember)(const struct model *model, weir_memo *memo); /* before a request */
  size_t (*reorder)(const weir_machine *machine, size_t landed);   /* which action lands next */
  void (*rewrite)(const struct model *model, const struct client *client, weir_action *action);
  void (*distort)(weir_action *action); /* the answer */
  bool never_late;                      /* answers after the deadline are taken for good */
  bool saturates;                       /* SUB stops at 0 */
  bool resends;                         /* what got no answer is sent again */
};

extern const struct mutant no_mutant;
extern const struct mutant mutants[];
extern const size_t mutant_count;

#endif
