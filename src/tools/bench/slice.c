/* One process of a benchmark. It opens what it measures and touches every key, then has its threads
 * warm up and wait; when the clock starts for all processes each thread calls until the end, and
 * the process reports what they have counted. */
#include "bench/slice.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/backend.h>

/* Every key is used once before the clock runs. */
enum { TOUCH_TRIES = 5, TOUCH_PAUSE_US = 100000, TOUCHED_AT_ONCE = 32 };

/* The first tenth of the time, and some at least, is not measured. */
enum { WARM_DIVISOR = 10, WARM_LEAST_US = 20000 };

/* Between two looks whether all processes are ready. */
enum { GO_LOOK_US = 200 };

struct worker {
  struct team *team;
  pthread_t thread;
  uint32_t *drawn;
  size_t at;
  weir_bench_raw *raw;
  const weir_bench_key **picked; /* `batch` of them */
  weir_request *requests;        /* where batch is above 1 */
  weir_reservation *place;       /* what the last call has entered */
  weir_bench_histogram *latencies;
  uint64_t decisions, admitted, local, late;
  uint64_t warm_admitted;
  weir_status status;
  weir_message message;
};

/* What all requests say of themselves, and as many times as one call may have requests. */
struct says {
  weir_extra extra;
  weir_limiter **limiters;
  const weir_extra **extras; /* NULL: they say nothing, and are asked in the plain way */
};

/* The threads of one process. */
struct team {
  const weir_bench_slice *slice;
  weir_bench_key *keys;
  weir_store *store;
  weir_limiter *limiter;
  struct says says;
  struct worker *workers;
  unsigned count; /* of workers that are there */
  pthread_barrier_t barrier;
  int64_t warm_end_us;
  int64_t end_us;
  atomic_bool failed;
};

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void weir_bench_sleep_us(int64_t us) {
  struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

/* --- calls -------------------------------------------------------------------------------------
 */

/* A batch of evenly used keys is one of neighbours, so that they differ. */
static void pick(struct worker *worker, unsigned batch) {
  const weir_bench_plan *plan = worker->team->slice->plan;
  bool neighbours = plan->pattern == WEIR_BENCH_UNIFORM;
  uint32_t first = worker->drawn[worker->at];
  for (unsigned i = 0; i < batch; i++) {
    uint32_t number =
        neighbours ? (first + i) % plan->keys : worker->drawn[(worker->at + i) % WEIR_BENCH_DRAWN];
    worker->picked[i] = &worker->team->keys[number];
  }
  worker->at = (worker->at + (neighbours ? 1 : batch)) % WEIR_BENCH_DRAWN;
}

static void count(struct worker *worker, const weir_decision *decision) {
  worker->admitted += decision->allowed;
  worker->local += decision->source == WEIR_SOURCE_LOCAL;
}

/* A place that could not be left is free when its period is over. */
static void leave(weir_reservation *place) {
  if (place == NULL) return;
  (void)weir_reservation_commit(place, NULL);
  weir_reservation_destroy(place);
}

static weir_status decide_all(const struct team *team, weir_request *requests, size_t count,
                              weir_message *message) {
  const struct says *says = &team->says;
  if (says->extras == NULL) return weir_limiter_decide(team->limiter, requests, count, message);
  return weir_decide_extra(says->limiters, requests, says->extras, count, message);
}

static weir_status decide_here(struct worker *worker, unsigned batch) {
  const struct team *team = worker->team;
  weir_limiter *limiter = team->limiter;
  const weir_bench_key *key = worker->picked[0];
  if (team->slice->holds) {
    weir_request request = {.key = key->text, .key_length = key->length, .cost = 1};
    weir_status status =
        team->says.extras == NULL
            ? weir_limiter_reserve(limiter, &request, &worker->place, &worker->message)
            : weir_reserve_extra(&limiter, &request, team->says.extras, 1, &worker->place,
                                 &worker->message);
    if (status == WEIR_OK) count(worker, &request.decision);
    return status;
  }
  if (batch == 1 && team->says.extras == NULL) {
    weir_decision decision;
    weir_status status =
        weir_limiter_take(limiter, key->text, key->length, 1, &decision, &worker->message);
    if (status == WEIR_OK) count(worker, &decision);
    return status;
  }
  for (unsigned i = 0; i < batch; i++) {
    worker->requests[i].key = worker->picked[i]->text;
    worker->requests[i].key_length = worker->picked[i]->length;
    worker->requests[i].cost = 1;
  }
  weir_status status = decide_all(team, worker->requests, batch, &worker->message);
  for (unsigned i = 0; status == WEIR_OK && i < batch; i++)
    count(worker, &worker->requests[i].decision);
  return status;
}

static weir_status call_once(struct worker *worker, unsigned batch) {
  pick(worker, batch);
  if (worker->raw == NULL) return decide_here(worker, batch);
  if (worker->team->slice->baseline) {
    bool pair = worker->team->slice->pair;
    if (!weir_bench_raw_add(worker->raw, worker->picked, batch, pair, &worker->message))
      return WEIR_UNAVAILABLE;
    worker->admitted += batch;
    return WEIR_OK;
  }
  weir_bench_answers answers = {0};
  weir_status status =
      weir_bench_raw_ask(worker->raw, worker->picked, batch, &answers, &worker->message);
  worker->admitted += answers.allowed;
  worker->late += answers.late;
  return status;
}

/* No reason to give up: how often a store has no answer in time is part of what is measured. */
static bool is_late(weir_status status) {
  weir_status_class class = weir_status_classify(status);
  return class == WEIR_CLASS_TRANSIENT || class == WEIR_CLASS_STORE;
}

/* --- threads -----------------------------------------------------------------------------------
 */

static void work_until(struct worker *worker, int64_t end_us, weir_bench_histogram *latencies) {
  struct team *team = worker->team;
  unsigned batch = team->slice->plan->batch;
  int64_t end_ns = end_us * 1000; /* weir_monotonic_us() reads the same clock */
  int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  while (began_ns < end_ns && worker->status == WEIR_OK) {
    weir_status status = call_once(worker, batch);
    bool late = worker->raw == NULL && is_late(status);
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (latencies != NULL) weir_bench_histogram_add(latencies, now_ns - began_ns, 1);
    if (late)
      worker->late += batch;
    else
      worker->status = status;
    worker->decisions += batch;
    began_ns = now_ns;
    if (worker->place == NULL) continue;
    leave(worker->place); /* its own time is none of the call's */
    worker->place = NULL;
    began_ns = clock_ns(CLOCK_MONOTONIC);
  }
}

static void *run_worker(void *argument) {
  struct worker *worker = argument;
  struct team *team = worker->team;
  work_until(worker, team->warm_end_us, NULL);
  worker->warm_admitted = worker->admitted;
  worker->decisions = worker->admitted = worker->local = worker->late = 0;
  if (worker->status != WEIR_OK) atomic_store(&team->failed, true);
  pthread_barrier_wait(&team->barrier); /* warm */
  pthread_barrier_wait(&team->barrier); /* go */
  if (!atomic_load(&team->failed)) work_until(worker, team->end_us, worker->latencies);
  return NULL;
}

static bool make_worker(struct team *team, struct worker *worker, uint64_t seed,
                        weir_message *message) {
  const weir_bench_plan *plan = team->slice->plan;
  worker->team = team;
  worker->drawn = weir_bench_keys_draw(plan->pattern, plan->keys, seed);
  worker->picked = calloc(plan->batch, sizeof *worker->picked);
  worker->requests = calloc(plan->batch, sizeof *worker->requests);
  worker->latencies = calloc(1, sizeof *worker->latencies);
  if (!worker->drawn || !worker->picked || !worker->requests || !worker->latencies) return false;
  if (team->slice->baseline || team->slice->target->via != WEIR_BENCH_STORE) {
    worker->raw = weir_bench_raw_open(team->slice->target, 0, message);
    if (worker->raw == NULL) return false;
  }
  if (pthread_create(&worker->thread, NULL, run_worker, worker) == 0) return true;
  weir_message_set(message, "it could not be started");
  return false;
}

/* --- the process -------------------------------------------------------------------------------
 */

/* False: not enough memory. */
static bool begin_says(struct team *team) {
  const weir_bench_plan *plan = team->slice->plan;
  struct says *says = &team->says;
  if (plan->class_name == NULL && plan->tenant == NULL) return true;
  says->extra = (weir_extra)WEIR_EXTRA_INIT;
  says->extra.class_name = plan->class_name;
  says->extra.tenant = plan->tenant;
  says->extra.tenant_length = plan->tenant != NULL ? strlen(plan->tenant) : 0;
  size_t most = plan->batch > TOUCHED_AT_ONCE ? plan->batch : TOUCHED_AT_ONCE;
  says->limiters = calloc(most, sizeof(weir_limiter *));
  says->extras = calloc(most, sizeof(const weir_extra *));
  if (says->limiters == NULL || says->extras == NULL) return false;
  for (size_t i = 0; i < most; i++) {
    says->limiters[i] = team->limiter;
    says->extras[i] = &says->extra;
  }
  return true;
}

static weir_status open_contestant(struct team *team, weir_message *message) {
  const weir_bench_slice *slice = team->slice;
  const weir_bench_plan *plan = slice->plan;
  team->keys = weir_bench_keys_make(slice->prefix, plan->keys);
  if (team->keys == NULL) return WEIR_NO_MEMORY;
  if (slice->baseline) {
    weir_bench_raw *raw = weir_bench_raw_open(slice->target, 0, message);
    bool ready = raw != NULL && weir_bench_raw_prepare(raw, team->keys, plan->keys, message);
    weir_bench_raw_close(raw);
    return ready ? WEIR_OK : WEIR_UNAVAILABLE;
  }
  if (slice->target->via != WEIR_BENCH_STORE) return WEIR_OK;
  weir_status status = weir_store_open(slice->url, &team->store, message);
  if (status != WEIR_OK) return status;
  status = weir_limiter_create(team->store, plan->rule, &plan->limiter, &team->limiter, message);
  if (status != WEIR_OK) return status;
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  weir_store_read_times(team->store, &times);
  weir_store_connect(team->store, times.connect_timeout_us, NULL); /* what is away shows below */
  return begin_says(team) ? WEIR_OK : WEIR_NO_MEMORY;
}

/* Has a server of weir meet every key. */
static weir_status touch_by_server(struct team *team, weir_bench_share *share) {
  uint32_t keys = team->slice->plan->keys;
  weir_bench_raw *raw = weir_bench_raw_open(team->slice->target, 0, &share->message);
  weir_status status = raw != NULL ? WEIR_OK : WEIR_UNAVAILABLE;
  weir_bench_answers answers = {0};
  for (uint32_t done = 0; done < keys && status == WEIR_OK;) {
    const weir_bench_key *picked[TOUCHED_AT_ONCE];
    uint32_t part = keys - done < TOUCHED_AT_ONCE ? keys - done : TOUCHED_AT_ONCE;
    for (uint32_t i = 0; i < part; i++)
      picked[i] = &team->keys[done + i];
    status = weir_bench_raw_ask(raw, picked, part, &answers, &share->message);
    done += part;
  }
  share->warm_admitted += answers.allowed;
  weir_bench_raw_close(raw);
  return status;
}

/* Places that it holds are left at once. A batch in which no request is answered is tried again:
 * one stall is no reason to give up, a store that is away is. */
static weir_status touch(struct team *team, weir_request *requests, size_t count,
                         weir_bench_share *share) {
  weir_limiter *limiters[TOUCHED_AT_ONCE];
  weir_reservation *places[TOUCHED_AT_ONCE];
  weir_message *message = &share->message;
  weir_status status = WEIR_OK;
  for (size_t i = 0; i < count; i++)
    limiters[i] = team->limiter;
  for (int tries = 0; tries < TOUCH_TRIES; tries++) {
    bool answered = false, holds = team->slice->holds;
    status = holds
                 ? weir_reserve_extra(limiters, requests, team->says.extras, count, places, message)
                 : decide_all(team, requests, count, message);
    for (size_t i = 0; i < count; i++) {
      if (holds) leave(places[i]);
      if (requests[i].status != WEIR_OK) continue;
      answered = true;
      share->warm_admitted += requests[i].decision.allowed;
    }
    if (answered) return WEIR_OK;
    if (!is_late(status)) break;
    weir_bench_sleep_us(TOUCH_PAUSE_US);
  }
  return status;
}

/* So that no key is new when the clock runs. */
static weir_status touch_keys(struct team *team, weir_bench_share *share) {
  static weir_request requests[TOUCHED_AT_ONCE];
  uint32_t keys = team->slice->plan->keys;
  weir_status status = WEIR_OK;
  if (team->slice->baseline) return WEIR_OK;
  if (team->slice->target->via != WEIR_BENCH_STORE) return touch_by_server(team, share);
  for (uint32_t done = 0; done < keys && status == WEIR_OK;) {
    uint32_t part = keys - done < TOUCHED_AT_ONCE ? keys - done : TOUCHED_AT_ONCE;
    for (uint32_t i = 0; i < part; i++) {
      const weir_bench_key *key = &team->keys[done + i];
      requests[i] = (weir_request){.key = key->text, .key_length = key->length, .cost = 1};
    }
    status = touch(team, requests, part, share);
    done += part;
  }
  return status;
}

static void clean_up(struct team *team) {
  for (unsigned i = 0; team->workers != NULL && i < team->slice->plan->threads; i++) {
    struct worker *worker = &team->workers[i];
    weir_bench_raw_close(worker->raw);
    free(worker->drawn);
    free(worker->picked);
    free(worker->requests);
    free(worker->latencies);
  }
  free(team->workers);
  free(team->says.limiters);
  free(team->says.extras);
  weir_limiter_destroy(team->limiter);
  weir_store_close(team->store);
  free(team->keys);
}

static void report(const struct team *team, weir_bench_share *share) {
  for (unsigned i = 0; i < team->count; i++) {
    const struct worker *worker = &team->workers[i];
    share->decisions += worker->decisions;
    share->admitted += worker->admitted;
    share->local += worker->local;
    share->late += worker->late;
    share->warm_admitted += worker->warm_admitted;
    weir_bench_histogram_merge(&share->latencies, worker->latencies);
    if (worker->status == WEIR_OK || share->status != WEIR_OK) continue;
    share->status = worker->status;
    share->message = worker->message;
  }
}

/* All 0 for the raw loop. */
static weir_limiter_counts counts_of(const struct team *team) {
  weir_limiter_counts counts = {.size = sizeof counts};
  if (team->limiter != NULL) weir_limiter_read_counts(team->limiter, &counts);
  return counts;
}

/* Between the two barriers the workers stand still. */
static void run_clock(struct team *team, weir_bench_share *share, int64_t born_us) {
  const weir_bench_slice *slice = team->slice;
  pthread_barrier_wait(&team->barrier);
  atomic_store(&share->ready, true);
  int64_t go_us;
  while ((go_us = atomic_load(slice->go)) == 0)
    weir_bench_sleep_us(GO_LOOK_US);
  int64_t left_us = go_us - weir_monotonic_us();
  if (left_us > 0) weir_bench_sleep_us(left_us);

  weir_limiter_counts before = counts_of(team);
  int64_t client_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  team->end_us = go_us + slice->time_us;
  pthread_barrier_wait(&team->barrier);
  for (unsigned i = 0; i < team->count; i++)
    pthread_join(team->workers[i].thread, NULL);

  int64_t end_us = weir_monotonic_us();
  share->client_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - client_ns;
  share->elapsed_us = end_us - go_us;
  share->lived_us = end_us - born_us;
  weir_limiter_counts after = counts_of(team);
  share->rounds = after.round_trips - before.round_trips;
  share->leased = after.leased - before.leased;
  share->lease_used = after.lease_used - before.lease_used;
  share->lease_returned = after.lease_returned - before.lease_returned;
  share->lease_lost = after.lease_lost - before.lease_lost;
}

/* All threads, or none: then the barrier would never open. */
static bool start_workers(struct team *team, unsigned process, weir_message *message) {
  const weir_bench_plan *plan = team->slice->plan;
  team->workers = calloc(plan->threads, sizeof *team->workers);
  if (team->workers == NULL) return false;
  if (pthread_barrier_init(&team->barrier, NULL, plan->threads + 1) != 0) return false;
  for (; team->count < plan->threads; team->count++)
    if (!make_worker(team, &team->workers[team->count],
                     (uint64_t)process * WEIR_BENCH_THREADS_MOST + team->count + 1, message))
      return false;
  return true;
}

void weir_bench_slice_work(const weir_bench_slice *slice, unsigned process,
                           weir_bench_share *share) {
  struct team team = {.slice = slice};
  int64_t warm_us = slice->time_us / WARM_DIVISOR;
  if (warm_us < WARM_LEAST_US) warm_us = WARM_LEAST_US;
  share->status = open_contestant(&team, &share->message);
  int64_t born_us = weir_monotonic_us();
  if (share->status == WEIR_OK) share->status = touch_keys(&team, share);
  team.warm_end_us = weir_monotonic_us() + warm_us;
  if (share->status == WEIR_OK && !start_workers(&team, process, &share->message)) {
    share->status = WEIR_UNAVAILABLE;
    weir_message_prefix(&share->message, "a thread of the benchmark cannot work: ");
    _Exit(1); /* some threads wait for the others for ever */
  }
  if (share->status == WEIR_OK) {
    run_clock(&team, share, born_us);
    report(&team, share);
  }
  clean_up(&team);
}
