/* Runs the processes of a benchmark, round after round, and adds up what each has measured. */
#include "bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/backend.h>

#include "bench/slice.h"
#include "rule/rule.h"

/* To look while the clock runs takes the processor from those that are measured. */
enum { START_US = 5000, LOOK_US = 500, RARE_LOOK_US = 20000, NOT_KNOWN = -1 };

/* The processes of one slice share this with the one that waits for them. */
struct shared {
  atomic_int_fast64_t go;
  weir_bench_share shares[];
};

struct run {
  const weir_bench_plan *plan;
  weir_stack stack;
  bool leases; /* weir_bench.leases */
  bool holds;  /* a rule is held */
  weir_bench_target targets[WEIR_BENCH_TARGETS_MOST];
  struct shared *memory;
  size_t memory_bytes;
  pid_t children[WEIR_BENCH_PROCESSES_MOST];
  weir_message *message;
};

/* --- processes ---------------------------------------------------------------------------------
 */

static bool is_stopped(const struct run *run) {
  return run->plan->stop != NULL && *run->plan->stop != 0;
}

/* Waits until every process is ready, or done; false: one has failed, or all are to stop. */
static bool await(struct run *run, bool all_done) {
  for (unsigned i = 0; i < run->plan->processes; i++) {
    weir_bench_share *share = &run->memory->shares[i];
    while (!atomic_load(&share->done) && (all_done || !atomic_load(&share->ready))) {
      if (is_stopped(run)) return false;
      /* One that is gone without being done has failed where it could not say why. */
      bool gone = run->children[i] > 0 && waitpid(run->children[i], NULL, WNOHANG) != 0;
      if (gone) run->children[i] = 0;
      if (gone && !atomic_load(&share->done)) {
        bool said = share->message.text[0] != '\0';
        weir_message_set(run->message, "%s",
                         said ? share->message.text : "a process of the benchmark has ended");
        return false;
      }
      weir_bench_sleep_us(all_done ? RARE_LOOK_US : LOOK_US);
    }
    if (share->status == WEIR_OK) continue;
    weir_message_set(run->message, "%s", share->message.text);
    return false;
  }
  return true;
}

/* --- figures -----------------------------------------------------------------------------------
 */

/* The most that all keys can have been admitted within `us`: as docs/guarantees.md has it. A use of
 * a lease comes later than its charge, which is what a bucket's reserve is for: B, not B'. */
static double most_admitted(const struct run *run, double us) {
  double least = -1;
  for (size_t i = 0; i < run->stack.count; i++) {
    const weir_rule *rule = &run->stack.rules[i];
    double periods = us / (double)rule->period_us;
    double begun = (double)(int64_t)periods + (weir_rule_slides(rule) ? 1 : 2);
    double most = weir_rule_moves_in_time(rule)
                      ? (double)rule->burst + (double)rule->limit * periods
                      : (double)weir_rule_bound(rule) * begun;
    if (least < 0 || most < least) least = most;
  }
  return least * (run->plan->pattern == WEIR_BENCH_HOT ? 1 : run->plan->keys);
}

static void add_up(const struct run *run, const weir_bench_slice *slice,
                   weir_bench_figures *figures) {
  static weir_bench_histogram latencies; /* large */
  uint64_t decisions = 0, admitted = 0, local = 0, late = 0, rounds = 0;
  int64_t client_ns = 0, lived_us = 0;
  latencies = (weir_bench_histogram){0};
  for (unsigned i = 0; i < run->plan->processes; i++) {
    const weir_bench_share *share = &run->memory->shares[i];
    decisions += share->decisions;
    admitted += share->admitted + share->warm_admitted;
    local += share->local;
    late += share->late;
    rounds += share->rounds;
    client_ns += share->client_ns;
    figures->rate += (double)share->decisions * 1e6 / (double)share->elapsed_us;
    if (share->lived_us > lived_us) lived_us = share->lived_us;
    weir_bench_histogram_merge(&latencies, &share->latencies);
  }
  bool is_asked_here = !slice->baseline && slice->target->via == WEIR_BENCH_STORE;
  double each = decisions > 0 ? (double)decisions : 1;
  figures->p50_us = weir_bench_histogram_us(&latencies, 0.5);
  figures->p99_us = weir_bench_histogram_us(&latencies, 0.99);
  figures->p999_us = weir_bench_histogram_us(&latencies, 0.999);
  figures->client_us = (double)client_ns / 1000 / each;
  figures->commands /= each;
  figures->round_trips = is_asked_here ? (double)rounds / each : 1.0 / run->plan->batch;
  figures->local = is_asked_here ? (double)local / each : NOT_KNOWN;
  figures->late = (double)late / each;
  figures->admitted = slice->baseline ? NOT_KNOWN : (double)admitted;
  bool is_bound = is_asked_here && !run->holds; /* by what comes in, and not by what is in */
  figures->allowed = is_bound ? most_admitted(run, (double)lived_us) : NOT_KNOWN;
  figures->leased = figures->lease_used = figures->lease_returned = figures->lease_lost = NOT_KNOWN;
  if (!run->leases || !is_asked_here) return;
  figures->leased = figures->lease_used = figures->lease_returned = figures->lease_lost = 0;
  for (unsigned i = 0; i < run->plan->processes; i++) {
    const weir_bench_share *share = &run->memory->shares[i];
    figures->leased += (double)share->leased;
    figures->lease_used += (double)share->lease_used;
    figures->lease_returned += (double)share->lease_returned;
    figures->lease_lost += (double)share->lease_lost;
  }
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static double median(double *values, unsigned count) {
  qsort(values, count, sizeof values[0], compare);
  return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double weir_bench_figure_at(const weir_bench_figures *figures, size_t offset) {
  double value;
  memcpy(&value, (const char *)figures + offset, sizeof value);
  return value;
}

/* Each figure's median over the rounds; over those of the raw loop, where one is given. */
static void find_medians(const weir_bench_contestant *contestant, const weir_bench_contestant *raw,
                         unsigned rounds, weir_bench_figures *medians) {
  double values[WEIR_BENCH_ROUNDS_MOST];
  for (size_t at = 0; at < sizeof *medians; at += sizeof(double)) {
    bool known = true;
    for (unsigned i = 0; i < rounds; i++) {
      double own = weir_bench_figure_at(&contestant->rounds[i], at);
      double base = raw != NULL ? weir_bench_figure_at(&raw->rounds[i], at) : 1;
      known = known && (raw == NULL || (own >= 0 && base > 0));
      values[i] = known ? own / base : NOT_KNOWN;
    }
    double value = known ? median(values, rounds) : NOT_KNOWN;
    memcpy((char *)medians + at, &value, sizeof value);
  }
}

/* --- slices ------------------------------------------------------------------------------------
 */

static bool run_processes(struct run *run, const weir_bench_slice *slice,
                          weir_bench_figures *figures) {
  weir_bench_served before, after;
  fflush(NULL);
  for (unsigned i = 0; i < run->plan->processes; i++) {
    run->children[i] = fork();
    if (run->children[i] == 0) {
      weir_bench_share *share = &run->memory->shares[i];
      weir_bench_slice_work(slice, i, share);
      atomic_store(&share->done, true);
      _Exit(0);
    }
    if (run->children[i] > 0) continue;
    weir_message_set(run->message, "no process for the benchmark: %s", strerror(errno));
    return false;
  }
  if (!await(run, false)) return false;
  bool known = weir_bench_served_read(slice->target, &before);
  atomic_store(&run->memory->go, weir_monotonic_us() + START_US);
  if (!await(run, true)) return false;
  known = known && weir_bench_served_read(slice->target, &after);
  figures->commands = known ? (double)weir_bench_served_between(&before, &after) : NOT_KNOWN;
  add_up(run, slice, figures);
  if (!known) figures->commands = NOT_KNOWN;
  return true;
}

static weir_status run_slice(struct run *run, const weir_bench_contestant *contestant,
                             unsigned round, weir_bench_figures *figures) {
  const weir_bench_target *target = &run->targets[contestant->target];
  weir_bench_slice slice = {
      .plan = run->plan,
      .target = target,
      .url = contestant->url,
      .baseline = contestant->baseline,
      .pair = contestant->pair,
      .holds = run->holds,
      .time_us = run->plan->duration_us / run->plan->rounds,
      .go = &run->memory->go,
  };
  snprintf(slice.prefix, sizeof slice.prefix, "bench-%llx-%u-%zu",
           (unsigned long long)weir_monotonic_us() & 0xffffff, round, contestant->target);
  memset(run->memory, 0, run->memory_bytes);
  bool good = run_processes(run, &slice, figures);
  weir_status status = good ? WEIR_OK : WEIR_UNAVAILABLE;
  for (unsigned i = run->plan->processes; !good && i-- > 0;)
    if (run->memory->shares[i].status != WEIR_OK) status = run->memory->shares[i].status;
  for (unsigned i = 0; i < run->plan->processes; i++) {
    if (run->children[i] <= 0) continue;
    kill(run->children[i], SIGKILL);
    while (waitpid(run->children[i], NULL, 0) < 0 && errno == EINTR) {
    }
    run->children[i] = 0;
  }
  if (status == WEIR_OK) return WEIR_OK;

  /* Names the contestant of a message, without the secrets that its URL may hold. */
  const char *beside = contestant->baseline ? "raw loop beside " : "";
  bool in_memory = strncmp(contestant->url, "memory:", 7) == 0;
  if (target->via != WEIR_BENCH_STORE)
    weir_message_prefix(run->message, "%s--via %s:%u: ", beside, target->hosts[0].name,
                        target->hosts[0].port);
  else
    weir_message_prefix(run->message, "%s%s: ", beside, in_memory ? "memory:" : "the store");
  return status;
}

static weir_status run_rounds(struct run *run, weir_bench *bench) {
  const weir_bench_plan *plan = run->plan;
  size_t all = bench->contestant_count * plan->rounds;
  size_t done = 0;
  for (unsigned round = 0; round < plan->rounds && !is_stopped(run); round++) {
    for (size_t i = 0; i < bench->contestant_count && !is_stopped(run); i++) {
      /* back and forth, so that whatever drifts does not favour one of them */
      size_t number = round % 2 == 0 ? i : bench->contestant_count - 1 - i;
      weir_bench_contestant *contestant = &bench->contestants[number];
      weir_status status = run_slice(run, contestant, round, &contestant->rounds[round]);
      if (is_stopped(run)) break; /* whatever it has answered: its processes may be gone */
      if (status != WEIR_OK) {
        bench->via_failed = run->targets[contestant->target].via != WEIR_BENCH_STORE;
        return status;
      }
      if (plan->progress != NULL) plan->progress(plan->context, ++done, all);
      if (i + 1 == bench->contestant_count) bench->rounds = round + 1;
    }
  }
  if (bench->rounds == 0) {
    weir_message_set(run->message, "stopped before every store had a turn");
    return WEIR_UNAVAILABLE;
  }
  for (size_t i = 0; i < bench->contestant_count; i++) {
    weir_bench_contestant *contestant = &bench->contestants[i];
    find_medians(contestant, NULL, bench->rounds, &contestant->median);
    if (contestant->baseline)
      find_medians(contestant - 1, contestant, bench->rounds, &contestant[-1].ratio);
  }
  return WEIR_OK;
}

/* --- the whole ---------------------------------------------------------------------------------
 */

static weir_status line_up(struct run *run, weir_bench *bench) {
  const weir_bench_plan *plan = run->plan;
  for (size_t i = 0; i < plan->store_count + plan->via_count; i++) {
    bool is_store = i < plan->store_count;
    const char *url = is_store ? plan->stores[i] : plan->vias[i - plan->store_count];
    weir_bench_target *target = &run->targets[i];
    weir_status status = is_store ? weir_bench_target_read(url, target, run->message)
                                  : weir_bench_target_read_via(url, target, run->message);
    if (status != WEIR_OK && !is_store) weir_message_prefix(run->message, "--via: ");
    if (status != WEIR_OK) return status;
    weir_bench_contestant contestant = {.url = url, .target = i};
    bench->contestants[bench->contestant_count++] = contestant;
    contestant.baseline = true;
    contestant.pair = plan->pair && is_store && target->redis;
    if (plan->baseline && target->raw) bench->contestants[bench->contestant_count++] = contestant;
  }
  return WEIR_OK;
}

weir_status weir_bench_run(const weir_bench_plan *plan, weir_bench *bench, weir_message *message) {
  weir_message unread;
  struct run run = {.plan = plan, .message = message != NULL ? message : &unread};
  *bench = (weir_bench){.contestant_count = 0};
  weir_status status = WEIR_OK;
  if (plan->store_count > 0) { /* only these are asked by a rule of the plan */
    uint32_t processes = plan->limiter.processes != 0 ? plan->limiter.processes : 64;
    status = weir_stack_parse(plan->rule, processes, &run.stack, run.message);
    for (size_t i = 0; status == WEIR_OK && i < run.stack.count; i++)
      run.holds = run.holds || weir_rule_is_held(&run.stack.rules[i]);
    if (status == WEIR_OK && weir_rule_is_shared(&run.stack.rules[0]) && plan->tenant == NULL) {
      weir_message_set(
          run.message,
          "a %s is asked with tenants: accepted are --tenant NAME and other algorithms",
          weir_rule_kind_name(run.stack.rules[0].kind));
      status = WEIR_BAD_RULE;
    }
    if (run.holds && plan->batch > 1) {
      weir_message_set(run.message, "a batch of %u places: one place in a call is accepted",
                       plan->batch);
      status = WEIR_BAD_ARGUMENT;
    }
    bench->leases = run.leases = status == WEIR_OK && run.stack.rules[0].lease_us > 0 &&
                                 !run.holds && !(plan->limiter.flags & WEIR_NO_LEASES);
  }
  if (status == WEIR_OK) status = line_up(&run, bench);
  if (status != WEIR_OK) return status;
  run.memory_bytes = sizeof *run.memory + plan->processes * sizeof run.memory->shares[0];
  run.memory =
      mmap(NULL, run.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run.memory == MAP_FAILED) {
    weir_message_set(run.message, "%s", weir_status_text(WEIR_NO_MEMORY));
    return WEIR_NO_MEMORY;
  }
  status = run_rounds(&run, bench);
  munmap(run.memory, run.memory_bytes);
  return status;
}
