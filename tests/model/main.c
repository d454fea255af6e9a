/* weir_model: explores the scopes and the mutants, and prints what it found.
 *
 *     weir_model           the ordinary scopes, then the mutants
 *     weir_model --deep    larger scopes as well
 *     weir_model NAME      one scope or mutant
 *
 * Exits 0 when every check holds in every scope and every mutant is caught by its check. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <weir/backend.h>

#include "explore.h"
#include "mutants.h"
#include "scopes.h"
#include "truth.h"

static double seconds_since(int64_t start_us) {
  return (double)(weir_monotonic_us() - start_us) / 1e6;
}

static bool run_scope(const struct scope *scope) {
  struct verdict verdict;
  int64_t start = weir_monotonic_us();
  if (!explore(scope, &no_mutant, stdout, &verdict)) {
    fprintf(stderr, "weir_model: %s: no memory\n", scope->name);
    return false;
  }
  printf("%-46s %9" PRIu64 " %10" PRIu64 " %5d %6.1f s  %s\n", scope->name, verdict.states,
         verdict.decisions, verdict.deepest, seconds_since(start), check_name(verdict.failed));
  fflush(stdout);
  return verdict.failed == CHECK_NONE;
}

static bool run_mutant(const struct mutant *mutant) {
  struct verdict verdict;
  int64_t start = weir_monotonic_us();
  const struct scope *scope = scope_find(mutant->scope);
  printf("\nmutant \"%s\" in \"%s\"\n", mutant->name, mutant->scope);
  if (scope == NULL || !explore(scope, mutant, stdout, &verdict)) {
    fprintf(stderr, "weir_model: %s: no such scope, or no memory\n", mutant->scope);
    return false;
  }
  if (verdict.failed == CHECK_NONE)
    printf("   SURVIVES after %" PRIu64 " states\n", verdict.states);
  else if (verdict.failed != mutant->killed_by)
    printf("   killed by %s, which is not its check (%s)\n", check_name(verdict.failed),
           check_name(mutant->killed_by));
  else
    printf("   killed by %s in %d steps, found among %" PRIu64 " states in %.1f s\n",
           check_name(verdict.failed), verdict.length, verdict.states, seconds_since(start));
  fflush(stdout);
  return verdict.failed == mutant->killed_by;
}

static bool wanted(const char *name, const char *only) {
  return only == NULL || strcmp(name, only) == 0;
}

int main(int argc, char **argv) {
  bool deep = argc > 1 && strcmp(argv[1], "--deep") == 0;
  const char *only = argc > 1 && !deep ? argv[1] : NULL;
  size_t ran = 0;
  size_t bad = 0;
  printf("%-46s %9s %10s %5s %8s\n", "scope", "states", "decisions", "steps", "time");
  fflush(stdout);
  const struct scope *scope;
  for (size_t i = 0; (scope = scope_at(i)) != NULL; i++) {
    bool chosen = only != NULL || deep || !(scope->flags & DEEP);
    if (!chosen || !wanted(scope->name, only)) continue;
    bad += !run_scope(scope);
    ran++;
  }
  const struct mutant *mutant;
  for (size_t i = 0; (mutant = mutant_at(i)) != NULL; i++) {
    if (!wanted(mutant->name, only)) continue;
    bad += !run_mutant(mutant);
    ran++;
  }
  if (ran == 0) {
    fprintf(stderr, "weir_model: there is no scope or mutant \"%s\"\n", only);
    return 2;
  }
  printf("\n%zu explored, %zu bad\n", ran, bad);
  return bad == 0 ? 0 : 1;
}
