/* weir_model: explores the scopes and the mutants, and prints what it found.
 *
 *     weir_model            the ordinary scopes, then the mutants and the shortest run of each
 *     weir_model --deep     larger scopes as well
 *     weir_model --tables   as without it, in the form of docs/model.md, by two processes; runs that fail apart
 *     weir_model --brief    the same, but of each mutant the first run that its check ends
 *     weir_model --bounded [NAME]   ordinary scopes on a store with bounds; no mutants
 *     weir_model --mixed [NAME]     the same, and it keeps none for client 1
 *     weir_model --withdrawn [NAME] and it keeps none from some step on
 *     weir_model --contrary [NAME]  and it refuses whatever has one, so that bounds are always too low
 *     weir_model NAME       one scope or mutant
 *
 * Exits 0 when every check holds in every scope and every mutant is caught by its check. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

/* What came of one scope or mutant. */
struct outcome {
  struct verdict verdict;
  double seconds;
  bool explored; /* there was memory enough, and, of a mutant, its scope */
  atomic_bool known;
};

/* A scope, or a mutant in its scope. */
struct task {
  const struct scope *scope;
  const struct mutant *mutant;
  struct outcome *outcome;
  bool is_mutant;
};

enum { WORKERS = 2, TASKS_MOST = 1024 };

/* What those who work share. */
struct board {
  atomic_size_t next; /* the task that nobody has begun */
  struct outcome outcomes[TASKS_MOST];
};

struct work {
  const struct job *job;
  struct board *board;
  struct task tasks[TASKS_MOST];
  size_t count;
  pid_t workers[WORKERS];
  size_t worker_count; /* 0: each task is done when its outcome is asked for */
};

/* --- what is to be done ------------------------------------------------------------------------
 */

static bool wanted(const char *name, const struct job *job) {
  return job->only == NULL || strcmp(name, job->only) == 0;
}

static void add(struct work *work, struct task task) {
  if (work->count == TASKS_MOST) {
    fprintf(stderr, "weir_model: more than %d scopes and mutants\n", TASKS_MOST);
    exit(2);
  }
  task.outcome = &work->board->outcomes[work->count];
  work->tasks[work->count++] = task;
}

static void gather(struct work *work) {
  const struct job *job = work->job;
  const struct scope *scope;
  const struct mutant *mutant;
  for (size_t i = 0; (scope = scope_at(i)) != NULL; i++) {
    bool chosen = job->only != NULL || job->deep || !(scope->flags & DEEP);
    if (chosen && wanted(scope->name, job))
      add(work, (struct task){.scope = scope, .mutant = job->store});
  }
  for (size_t i = 0; (mutant = mutant_at(i)) != NULL && job->store == &no_mutant; i++)
    if (wanted(mutant->name, job))
      add(work,
          (struct task){.scope = scope_find(mutant->scope), .mutant = mutant, .is_mutant = true});
}

/* --- doing it ----------------------------------------------------------------------------------
 */

static void explore_one(const struct job *job, const struct task *task) {
  struct outcome *outcome = task->outcome;
  int64_t start_us = weir_monotonic_us();
  FILE *story = !job->tables ? stdout : task->is_mutant ? NULL : stderr;
  bool shortest = !task->is_mutant || !job->brief;
  outcome->explored =
      task->scope != NULL && explore(task->scope, task->mutant, shortest, story, &outcome->verdict);
  outcome->seconds = (double)(weir_monotonic_us() - start_us) / 1e6;
  outcome->known = true;
}

static void explore_as_worker(const struct work *work, pid_t parent) {
  size_t next;
  while (getppid() == parent && (next = work->board->next++) < work->count)
    explore_one(work->job, &work->tasks[next]);
  _exit(0);
}

/* Processes, as a search that goes wrong must not take the others along. */
static void start_workers(struct work *work) {
  pid_t parent = getpid();
  while (work->worker_count < WORKERS) {
    pid_t pid = fork();
    if (pid == 0) explore_as_worker(work, parent);
    if (pid < 0) return;
    work->workers[work->worker_count++] = pid;
  }
}

/* False: no worker is left. */
static bool some_work(struct work *work) {
  for (size_t i = 0; i < work->worker_count; i++)
    if (work->workers[i] > 0 && waitpid(work->workers[i], NULL, WNOHANG) != 0) work->workers[i] = 0;
  for (size_t i = 0; i < work->worker_count; i++)
    if (work->workers[i] > 0) return true;
  return false;
}

static const struct outcome *outcome_of(struct work *work, const struct task *task) {
  const struct timespec pause = {.tv_nsec = 10000000};
  if (work->worker_count == 0) explore_one(work->job, task);
  while (!task->outcome->known && some_work(work))
    nanosleep(&pause, NULL);
  return task->outcome;
}

/* --- telling of it -----------------------------------------------------------------------------
 */

static bool tell_scope(const struct job *job, const struct task *task,
                       const struct outcome *outcome) {
  const struct verdict *verdict = &outcome->verdict;
  const char *name = task->scope->name, *result = check_name(verdict->failed);
  if (job->tables)
    printf("| %s | %" PRIu64 " | %" PRIu64 " | %d | %s |\n", name, verdict->states,
           verdict->decisions, verdict->deepest, result);
  else
    printf("%-46s %9" PRIu64 " %10" PRIu64 " %5d %6.1f s  %s\n", name, verdict->states,
           verdict->decisions, verdict->deepest, outcome->seconds, result);
  return verdict->failed == CHECK_NONE;
}

static void print_mutant(const struct mutant *mutant, const struct outcome *outcome) {
  const struct verdict *verdict = &outcome->verdict;
  if (verdict->failed == CHECK_NONE)
    printf("   SURVIVES after %" PRIu64 " states\n", verdict->states);
  else if (verdict->failed != mutant->killed_by)
    printf("   killed by %s, which is not its check (%s)\n", check_name(verdict->failed),
           check_name(mutant->killed_by));
  else
    printf("   killed by %s in %d steps, found among %" PRIu64 " states in %.1f s\n",
           check_name(verdict->failed), verdict->length, verdict->states, outcome->seconds);
}

static bool tell_mutant(const struct job *job, const struct task *task,
                        const struct outcome *outcome) {
  const struct mutant *mutant = task->mutant;
  const struct verdict *verdict = &outcome->verdict;
  if (job->tables)
    printf("| %s | %s | %s | %d |\n", mutant->name, mutant->scope,
           verdict->failed == CHECK_NONE ? "SURVIVES" : check_name(verdict->failed),
           verdict->length);
  else
    print_mutant(mutant, outcome);
  return verdict->failed == mutant->killed_by;
}

static bool tell(struct work *work, const struct task *task) {
  const struct job *job = work->job;
  const char *name = task->is_mutant ? task->mutant->scope : task->scope->name;
  if (task->is_mutant && !job->tables)
    printf("\nmutant \"%s\" in \"%s\"\n", task->mutant->name, task->mutant->scope);
  const struct outcome *outcome = outcome_of(work, task);
  if (!outcome->known || !outcome->explored) {
    fprintf(stderr, "weir_model: %s: %s\n", name,
            outcome->known ? "no such scope, or no memory" : "its search ended half way");
    return false;
  }
  bool good = task->is_mutant ? tell_mutant(job, task, outcome) : tell_scope(job, task, outcome);
  fflush(stdout);
  return good;
}

static void print_head(const struct job *job, bool of_mutants) {
  if (of_mutants && job->tables)
    printf("\n| mutant | in the scope | caught by | steps |\n|---|---|---|---:|\n");
  else if (job->tables)
    printf(
        "| scope | states | decisions | longest run, steps | result |\n|---|---:|---:|---:|---|\n");
  else if (!of_mutants)
    printf("%-46s %9s %10s %5s %8s\n", "scope", "states", "decisions", "steps", "time");
}

/* Returns how many are bad. */
static size_t tell_all(struct work *work, uint64_t *states) {
  size_t bad = 0;
  print_head(work->job, false);
  for (size_t i = 0; i < work->count; i++) {
    const struct task *task = &work->tasks[i];
    if (task->is_mutant && (i == 0 || !work->tasks[i - 1].is_mutant)) print_head(work->job, true);
    bad += !tell(work, task);
    if (!task->is_mutant) *states += task->outcome->verdict.states;
  }
  return bad;
}

static const struct mutant *store_called(const char *option) {
  if (strcmp(option, "--bounded") == 0) return &no_mutant_bounded;
  if (strcmp(option, "--mixed") == 0) return &no_mutant_mixed;
  if (strcmp(option, "--withdrawn") == 0) return &no_mutant_withdrawn;
  return strcmp(option, "--contrary") == 0 ? &no_mutant_contrary : NULL;
}

int main(int argc, char **argv) {
  struct job job = {.store = &no_mutant};
  static struct work work;
  uint64_t states = 0;
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
  work.job = &job;
  work.board =
      mmap(NULL, sizeof *work.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (work.board == MAP_FAILED) {
    fprintf(stderr, "weir_model: no memory\n");
    return 2;
  }
  gather(&work);
  if (work.count == 0) {
    fprintf(stderr, "weir_model: there is no scope or mutant \"%s\"\n", job.only);
    return 2;
  }
  if (job.tables) start_workers(&work); /* else runs are told as they are found */
  size_t bad = tell_all(&work, &states);
  printf("\n%zu explored, %zu bad; %" PRIu64 " states\n", work.count, bad, states);
  return bad == 0 ? 0 : 1;
}
