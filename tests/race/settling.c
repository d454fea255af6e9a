/* Processes on one key that take estimates, work, and settle what it really was, while one of them is
 * killed every 400 ms. Knows the installed headers alone.
 *
 *     settling --store VARIABLE [--rule fixed|strict|quota] [--seconds N] [--exact | --low]
 *
 * Each call's charge is written down in bins of time behind it, in memory that all share: so what a
 * killed process has not written down is missing, and no bin holds more than was charged.
 *
 *   - charges of any window: no more than the limit and the debt;
 *   - real costs of any window: no more than that and what was cut;
 *   - with --exact, nothing is killed and estimates are the 95th percentile of what such work costs:
 *     at least 95 % of the limit is used;
 *   - with --low, work costs up to four times its estimate: debts are made, and some is cut. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

enum { PROCESSES = 8, THREADS_MOST = 8, BINS = 1024, LIMIT = 20000, DEBT = 4000 };
enum { PERIOD_US = 2000000, KILL_EVERY_US = 400000, WORK_MOST_US = 20000, ATTEMPTS = 3 };

typedef struct ledger {
  _Atomic int64_t charged[BINS], real[BINS], cut[BINS];
  _Atomic int64_t taken, denied, failed, up, down;
  _Atomic bool over;
} ledger;

typedef struct setup {
  const char *store, *rules;
  int64_t bin_us; /* so many bins are a window: */
  int bins;
  int threads;
  bool exact, low, opens; /* of a quota windows begin anywhere: it is not held against its bound */
  int64_t begin_us, end_us;
} setup;

typedef struct worker {
  const setup *of;
  weir_limiter *limiter;
  uint64_t chance;
} worker;

static ledger *book;

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(int64_t us) {
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static int64_t draw(worker *self, int64_t least, int64_t most) {
  self->chance ^= self->chance << 13;
  self->chance ^= self->chance >> 7;
  self->chance ^= self->chance << 17;
  return least + (int64_t)(self->chance % (uint64_t)(most - least + 1));
}

static size_t bin_of(const setup *of, int64_t at_us) {
  int64_t bin = (at_us - of->begin_us) / of->bin_us;
  return at_us < of->begin_us ? 0 : bin < BINS ? (size_t)bin : BINS - 1;
}

/* A cost that came back counts as gone from a bin only where it could be used again there. */
static void write_down(const setup *of, const weir_decision *taken, int64_t estimate, int64_t real,
                       int64_t charged, int64_t before_us, int64_t after_us) {
  size_t first = bin_of(of, taken->at_us), from = bin_of(of, before_us), to = bin_of(of, after_us);
  if (charged < estimate && from < first + (size_t)of->bins) {
    atomic_fetch_add(&book->charged[first], charged - estimate);
    atomic_fetch_add(&book->real[first], real - estimate);
  }
  if (charged > estimate && from == to) atomic_fetch_add(&book->charged[to], charged - estimate);
  if (real > estimate && from == to) {
    atomic_fetch_add(&book->real[to], real - estimate);
    atomic_fetch_add(&book->cut[to], real - charged);
  }
  atomic_fetch_add(charged > estimate ? &book->up : &book->down, 1);
}

static void work_once(worker *self) {
  const setup *of = self->of;
  int64_t estimate = of->exact ? 95 : draw(self, 200, 999);
  int64_t real = of->exact ? draw(self, 1, 100) : estimate * draw(self, 10, 100) / 100;
  if (!of->exact && draw(self, 1, 50) == 1) real = estimate * 3 / 2;
  if (of->low) real = estimate * draw(self, 10, 400) / 100;
  weir_decision taken;
  if (weir_limiter_take(self->limiter, "k", 1, estimate, &taken, NULL) != WEIR_OK) {
    atomic_fetch_add(&book->failed, 1);
    return;
  }
  if (!taken.allowed) {
    atomic_fetch_add(&book->denied, 1);
    sleep_us(draw(self, 1000, 5000));
    return;
  }
  size_t bin = bin_of(of, taken.at_us);
  atomic_fetch_add(&book->charged[bin], estimate);
  atomic_fetch_add(&book->real[bin], estimate);
  atomic_fetch_add(&book->taken, 1);
  sleep_us(draw(self, 1000, WORK_MOST_US));
  int64_t before_us = now_us();
  if (weir_limiter_settle(self->limiter, "k", 1, real, &taken, NULL) == WEIR_OK)
    write_down(of, &taken, estimate, real, taken.cost, before_us, now_us());
  else
    atomic_fetch_add(&book->failed, 1);
}

static void *work(void *worker_) {
  worker *self = worker_;
  while (!atomic_load(&book->over) && now_us() < self->of->end_us)
    work_once(self);
  return NULL;
}

static int run_process(const setup *of, uint64_t seed) {
  const weir_limiter_options options = {.size = sizeof options,
                                        .fallback = WEIR_FALLBACK_NONE,
                                        .deadline_us = 100000,
                                        .processes = PROCESSES};
  weir_store *store;
  weir_limiter *limiter;
  weir_message message;
  pthread_t threads[THREADS_MOST];
  worker workers[THREADS_MOST];
  if (weir_store_open(of->store, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, of->rules, &options, &limiter, &message) != WEIR_OK) {
    fprintf(stderr, "%s\n", message.text);
    return 1;
  }
  for (int i = 0; i < of->threads; i++) {
    workers[i] = (worker){of, limiter, (seed + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15) | 1};
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) return 1;
  }
  for (int i = 0; i < of->threads; i++)
    pthread_join(threads[i], NULL);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return 0;
}

static pid_t start(const setup *of) {
  static uint64_t seed = 1;
  pid_t child = fork();
  seed += THREADS_MOST;
  if (child == 0) _exit(run_process(of, seed));
  return child;
}

/* False: a process that nothing killed has failed. */
static bool run(const setup *of, int *kills) {
  pid_t children[PROCESSES];
  bool well = true;
  for (int i = 0; i < PROCESSES; i++)
    children[i] = start(of);
  while (now_us() < of->end_us - KILL_EVERY_US) {
    sleep_us(KILL_EVERY_US);
    if (of->exact) continue;
    int victim = (*kills)++ % PROCESSES;
    kill(children[victim], SIGKILL);
    waitpid(children[victim], NULL, 0);
    children[victim] = start(of);
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    if (waitpid(children[i], &status, 0) != children[i] || status != 0) well = false;
  }
  return well;
}

typedef enum verdict { VERDICT_GOOD, VERDICT_BAD, VERDICT_TOO_FEW } verdict;

/* The bins of windows that lie within the run. */
static verdict judge(const setup *of, int kills) {
  int64_t most_charged = 0, most_real = INT64_MIN, cut = 0, real = 0;
  size_t end = bin_of(of, of->end_us);
  for (size_t from = 0; from + (size_t)of->bins <= end; from++) {
    int64_t window_charged = 0, window_real = 0;
    for (size_t bin = from; bin < from + (size_t)of->bins; bin++) {
      window_charged += book->charged[bin];
      window_real += book->real[bin] - book->cut[bin];
    }
    if (window_charged > most_charged) most_charged = window_charged;
    if (window_real > most_real) most_real = window_real;
  }
  for (size_t bin = 0; bin < end; bin++) {
    cut += book->cut[bin];
    real += book->real[bin];
  }
  double used = 100.0 * (double)real / ((double)end / of->bins * LIMIT);
  printf("%s: %d killed, taken %" PRId64 ", denied %" PRId64 ", failed %" PRId64
         ", settled up %" PRId64 ", cut %" PRId64 "\n",
         of->rules, kills, book->taken, book->denied, book->failed, book->up, cut);
  printf("charged beyond limit and debt %" PRId64 ", real beyond that and cut %" PRId64
         ", used %.1f %%\n",
         most_charged - LIMIT - DEBT, most_real - LIMIT - DEBT, used);
  bool holds = of->opens || (most_charged <= LIMIT + DEBT && most_real <= LIMIT + DEBT);
  bool worked = book->taken > 20 && book->up > 0 && book->down > 0;
  if (of->low && (cut == 0 || most_charged <= LIMIT)) worked = false;
  if (holds && !worked) return VERDICT_TOO_FEW;
  return holds && (!of->exact || used >= 95) ? VERDICT_GOOD : VERDICT_BAD;
}

/* From the begin of a window on. */
static verdict attempt(setup *of, int seconds) {
  int kills = 0;
  memset(book, 0, sizeof *book);
  int64_t first_us = now_us() / PERIOD_US * PERIOD_US + PERIOD_US;
  sleep_us(first_us - now_us());
  of->begin_us = first_us;
  of->end_us = first_us + (int64_t)seconds * 1000000;
  bool well = run(of, &kills);
  verdict found = judge(of, kills);
  return well ? found : VERDICT_BAD;
}

/* The bounds must hold in every attempt. Too little may happen because a busy machine let no
 * process run: that is measured again. */
int main(int count, char **arguments) {
  setup of = {.bin_us = PERIOD_US, .bins = 1, .threads = 4};
  int seconds = 4;
  bool strict = false;
  char rules[128];
  for (int i = 1; i < count; i++) {
    bool more = i + 1 < count;
    if (strcmp(arguments[i], "--store") == 0 && more) {
      of.store = getenv(arguments[++i]);
    } else if (strcmp(arguments[i], "--seconds") == 0 && more) {
      seconds = atoi(arguments[++i]);
    } else if (strcmp(arguments[i], "--rule") == 0 && more) {
      strict = strcmp(arguments[++i], "strict") == 0;
      of.opens = strcmp(arguments[i], "quota") == 0;
    } else if (strcmp(arguments[i], "--exact") == 0) {
      of.exact = true;
      of.threads = THREADS_MOST;
    } else if (strcmp(arguments[i], "--low") == 0) {
      of.low = true;
    } else {
      of.store = NULL;
      break;
    }
  }
  if (of.store == NULL || seconds < 4 || seconds > 600) {
    fputs(
        "usage: settling --store VARIABLE [--rule fixed|strict|quota] [--seconds 4..600] "
        "[--exact | --low]\n",
        stderr);
    return 2;
  }
  snprintf(rules, sizeof rules, "%s:%d/2s%s,debt=%d",
           strict     ? "sliding-window"
           : of.opens ? "quota"
                      : "fixed-window",
           LIMIT, strict ? ",strict" : "", DEBT);
  of.rules = rules;
  if (strict) {
    of.bins = 4;
    of.bin_us = PERIOD_US / of.bins;
  }
  book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (book == MAP_FAILED) return 1;
  verdict found = VERDICT_TOO_FEW;
  for (int tries = 0; tries < ATTEMPTS && found == VERDICT_TOO_FEW; tries++) {
    if (tries > 0) sleep_us(PERIOD_US); /* what it charged has left by then */
    found = attempt(&of, seconds);
  }
  return found == VERDICT_GOOD ? 0 : 1;
}
