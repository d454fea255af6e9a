/* weir_model: explores the scopes and the mutants, and prints what it found.
 *
 *     weir_model            the ordinary scopes, then the mutants and the shortest run of each
 *     weir_model --deep     larger scopes as well
 *     weir_model --tables   as without it, in the form of docs/model.md, runs that fail apart
 *     weir_model --brief    the same, but of each mutant the first run that its check ends
 *     weir_model --bounded [NAME]   ordinary scopes on a store with bounds; no mutants
 *     weir_model --mixed [NAME]     the same, and it keeps none for client 1
 *     weir_model --contrary [NAME]  and it refuses whatever has one, so that bounds are always too low
 *     weir_model NAME       one scope or mutant
 *
 * Exits 0 when every check holds in every scope and every mutant is caught by its check. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/backend.h>

#include "explore.h"
#include "mutants.h"
#include "scopes.h"
#include "truth.h"

/* What is asked for. */
struct job {
  const char *only; /* one scope or mutant; NULL: all */
  bool deep;
  const struct mutant *store; /* on which the scopes run; no mutants unless it is no_mutant */
  bool tables;
  bool brief;
};

struct tally {
  size_t ran, bad;
  uint64_t states;
};

static double seconds_since(int64_t start_us) {
  return (double)(weir_monotonic_us() - start_us) / 1e6;
}

static bool run_scope(const struct scope *scope, const struct job *job, struct tally *tally) {
  struct verdict verdict;
  int64_t start = weir_monotonic_us();
  if (!explore(scope, job->store, true, job->tables ? stderr : stdout, &verdict)) {
    fprintf(stderr, "weir_model: %s: no memory\n", scope->name);
    return false;
  }
  const char *result = check_name(verdict.failed);
  tally->states += verdict.states;
  if (job->tables)
    printf("| %s | %" PRIu64 " | %" PRIu64 " | %d | %s |\n", scope->name, verdict.states,
           verdict.decisions, verdict.deepest, result);
  else
    printf("%-46s %9" PRIu64 " %10" PRIu64 " %5d %6.1f s  %s\n", scope->name, verdict.states,
           verdict.decisions, verdict.deepest, seconds_since(start), result);
  fflush(stdout);
  return verdict.failed == CHECK_NONE;
}

static void print_mutant(const struct mutant *mutant, const struct verdict *verdict,
                         double seconds) {
  if (verdict->failed == CHECK_NONE)
    printf("   SURVIVES after %" PRIu64 " states\n", verdict->states);
  else if (verdict->failed != mutant->killed_by)
    printf("   killed by %s, which is not its check (%s)\n", check_name(verdict->failed),
           check_name(mutant->killed_by));
  else
    printf("   killed by %s in %d steps, found among %" PRIu64 " states in %.1f s\n",
           check_name(verdict->failed), verdict->length, verdict->states, seconds);
}

static bool run_mutant(const struct mutant *mutant, const struct job *job) {
  struct verdict verdict;
  int64_t start = weir_monotonic_us();
  const struct scope *scope = scope_find(mutant->scope);
  if (!job->tables) printf("\nmutant \"%s\" in \"%s\"\n", mutant->name, mutant->scope);
  if (scope == NULL ||
      !explore(scope, mutant, !job->brief, job->tables ? NULL : stdout, &verdict)) {
    fprintf(stderr, "weir_model: %s: no such scope, or no memory\n", mutant->scope);
    return false;
  }
  if (job->tables)
    printf("| %s | %s | %s | %d |\n", mutant->name, mutant->scope,
           verdict.failed == CHECK_NONE ? "SURVIVES" : check_name(verdict.failed), verdict.length);
  else
    print_mutant(mutant, &verdict, seconds_since(start));
  fflush(stdout);
  return verdict.failed == mutant->killed_by;
}

static bool wanted(const char *name, const struct job *job) {
  return job->only == NULL || strcmp(name, job->only) == 0;
}

static void run_scopes(const struct job *job, struct tally *tally) {
  const struct scope *scope;
  if (job->tables)
    printf(
        "| scope | states | decisions | longest run, steps | result |\n|---|---:|---:|---:|---|\n");
  else
    printf("%-46s %9s %10s %5s %8s\n", "scope", "states", "decisions", "steps", "time");
  for (size_t i = 0; (scope = scope_at(i)) != NULL; i++) {
    bool chosen = job->only != NULL || job->deep || !(scope->flags & DEEP);
    if (!chosen || !wanted(scope->name, job)) continue;
    tally->bad += !run_scope(scope, job, tally);
    tally->ran++;
  }
}

static void run_mutants(const struct job *job, struct tally *tally) {
  const struct mutant *mutant;
  if (job->tables) printf("\n| mutant | in the scope | caught by | steps |\n|---|---|---|---:|\n");
  for (size_t i = 0; (mutant = mutant_at(i)) != NULL && job->store == &no_mutant; i++) {
    if (!wanted(mutant->name, job)) continue;
    tally->bad += !run_mutant(mutant, job);
    tally->ran++;
  }
}

static const struct mutant *store_called(const char *option) {
  if (strcmp(option, "--bounded") == 0) return &no_mutant_bounded;
  if (strcmp(option, "--mixed") == 0) return &no_mutant_mixed;
  return strcmp(option, "--contrary") == 0 ? &no_mutant_contrary : NULL;
}

int main(int argc, char **argv) {
  struct job job = {.store = &no_mutant};
  struct tally tally = {.ran = 0};
  const struct mutant *store;
  if (argc > 1 && strcmp(argv[1], "--deep") == 0)
    job.deep = true;
  else if (argc > 1 && strcmp(argv[1], "--tables") == 0)
    job.tables = true;
  else if (argc > 1 && strcmp(argv[1], "--brief") == 0)
    job.tables = job.brief = true;
  else if (argc > 1 && (store = store_called(argv[1])) != NULL) {
    job.store = store;
    job.only = argv[2];
  } else if (argc > 1)
    job.only = argv[1];
  run_scopes(&job, &tally);
  run_mutants(&job, &tally);
  if (tally.ran == 0) {
    fprintf(stderr, "weir_model: there is no scope or mutant \"%s\"\n", job.only);
    return 2;
  }
  printf("\n%zu explored, %zu bad; %" PRIu64 " states\n", tally.ran, tally.bad, tally.states);
  return tally.bad == 0 ? 0 : 1;
}
