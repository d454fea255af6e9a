/* deadlines --store URL [--rounds N]
 *
 * Eight processes whose deadlines are 5, 20 and 100 ms share one key of a strict window. Their
 * clocks differ by as much as clocks may. In most rounds one of them takes the whole limit just
 * before a cell ends by its clock, and is held up between its stamp and its charge, for less than
 * its deadline; the others look at that cell meanwhile, as soon as it can have ended, and ask for
 * all they can get when the charge is there. In the rounds between everybody is held up, and asks
 * from a moment of its own on. In no W of decision stamps more than the limit is admitted.
 *
 * URL may be the name of an environment variable. Exit code 0 only if that holds, and half of the
 * charges that were held up were admitted: without them nothing would be shown. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"

#define RULE "sliding-window:10/800ms,cells=4,strict"
#define PERIOD_US (800 * MS_US)
#define CELL_US (PERIOD_US / 4)
#define CLOCK_ERROR_US (10 * MS_US)
#define LIMIT 10

enum {
  PROCESSES = 8,
  STAMPS_MOST = 4096,
  URL_BYTES = 512,
  CHAOS_EVERY = 4,  /* rounds */
  TRIES = 3,        /* where a busy machine leaves too few charges in time */
  STAMP_READING = 2 /* a take reads the clock when it is called, and for its stamp */
};

static const struct {
  int64_t deadline_us;
  int64_t offset_us; /* of its clock */
} processes[PROCESSES] = {
    {100 * MS_US, -CLOCK_ERROR_US}, {5 * MS_US, CLOCK_ERROR_US},   {20 * MS_US, -CLOCK_ERROR_US},
    {100 * MS_US, CLOCK_ERROR_US},  {5 * MS_US, -CLOCK_ERROR_US},  {20 * MS_US, CLOCK_ERROR_US},
    {5 * MS_US, CLOCK_ERROR_US},    {20 * MS_US, -CLOCK_ERROR_US},
};

/* Those of 20 ms and more take turns. */
static const int late_ones[] = {0, 2, 3, 5, 7};

/* Parent and children share this. */
typedef struct shared {
  pthread_barrier_t turn; /* all processes and the parent: before and after each round */
  int round;
  int late_one;    /* which process is held up; PROCESSES: all are, as it comes */
  int64_t edge_us; /* real time at which a cell ends */
  bool over;
  _Atomic size_t used;
  int64_t stamps[STAMPS_MOST];
  _Atomic int64_t held_up, admitted_late;
} shared;

static shared *common;
static char url[URL_BYTES];
static int rounds = 40;

/* --- a child ------------------------------------------------------------------------------------
 */

/* One process has one thread. */
static struct {
  int number;
  weir_limiter *limiter;
  uint64_t random;
  char key[64];
  int readings;    /* of the clock, in this request */
  int64_t hold_us; /* for so long the reading of the stamp is not acted on */
  int64_t held_at_us;
} self;

static int64_t own_time_us(void) {
  return real_time_us() + processes[self.number].offset_us;
}

static int64_t read_clock(void *context) {
  (void)context;
  int64_t now_us = own_time_us();
  if (++self.readings == STAMP_READING && self.hold_us > 0) {
    self.held_at_us = now_us;
    sleep_us(self.hold_us);
  }
  return now_us;
}

/* False where it was denied, or had no time. */
static bool take(int64_t cost, int64_t hold_us) {
  weir_decision decision = {0};
  self.readings = 0;
  self.held_at_us = 0;
  self.hold_us = hold_us;
  weir_status status =
      weir_limiter_take(self.limiter, self.key, strlen(self.key), cost, &decision, NULL);
  self.hold_us = 0;
  if (status != WEIR_OK || !decision.allowed) return false;
  size_t place = atomic_fetch_add(&common->used, (size_t)cost);
  for (size_t end = place + (size_t)cost; place < end && place < STAMPS_MOST; place++)
    common->stamps[place] = decision.at_us;
  if (hold_us > 0 && decision.at_us == self.held_at_us) atomic_fetch_add(&common->admitted_late, 1);
  return true;
}

static void look(void) {
  weir_decision decision;
  self.hold_us = 0;
  weir_limiter_peek(self.limiter, self.key, strlen(self.key), 1, &decision, NULL);
}

static int64_t random_us(int64_t most_us) {
  return (int64_t)(next_number(&self.random) % (uint64_t)(most_us + 1));
}

/* A quarter of a deadline is kept for giving back. */
static int64_t longest_hold_us(void) {
  return processes[self.number].deadline_us * 11 / 16;
}

static void be_late(void) {
  int64_t stamp_us = common->edge_us - processes[self.number].offset_us - MS_US;
  sleep_us(stamp_us - real_time_us());
  atomic_fetch_add(&common->held_up, 1);
  take(LIMIT, longest_hold_us());
}

/* Looks until then, and asks from then on. */
static void ask_from(int64_t begin_us, int64_t hold_most_us) {
  while (real_time_us() < begin_us) {
    look();
    sleep_us(MS_US);
  }
  while (real_time_us() < common->edge_us + CELL_US * 3 / 4)
    if (!take(1, random_us(hold_most_us))) sleep_us(MS_US);
}

static void run_round(void) {
  snprintf(self.key, sizeof self.key, "deadlines-%ld-%d", (long)getppid(), common->round);
  sleep_us(common->edge_us - 25 * MS_US - real_time_us());
  if (common->late_one == PROCESSES)
    ask_from(common->edge_us - 20 * MS_US + random_us(110 * MS_US), longest_hold_us());
  else if (common->late_one == self.number)
    be_late();
  else
    ask_from(common->edge_us + 95 * MS_US, 0);
}

static void run_child(void *context) {
  weir_message message = {""};
  weir_store *store;
  self.number = *(int *)context;
  self.random = (uint64_t)self.number + 1;
  if (weir_store_open(url, &store, &message) != WEIR_OK ||
      weir_store_connect(store, 10 * SECOND_US, &message) != WEIR_OK)
    give_up("%s: %s", url, message.text);
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = processes[self.number].deadline_us,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = PROCESSES,
                                  .fallback = WEIR_FALLBACK_NONE,
                                  .clock = {read_clock, NULL}};
  if (weir_limiter_create(store, RULE, &options, &self.limiter, &message) != WEIR_OK)
    give_up("%s: %s", RULE, message.text);
  for (;;) {
    pthread_barrier_wait(&common->turn);
    if (common->over) break;
    run_round();
    pthread_barrier_wait(&common->turn);
  }
  weir_limiter_destroy(self.limiter);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static size_t most_in_a_window(size_t count) {
  size_t worst = 0;
  for (size_t first = 0, last = 0; last < count; last++) {
    while (common->stamps[last] - common->stamps[first] >= PERIOD_US)
      first++;
    if (last - first + 1 > worst) worst = last - first + 1;
  }
  return worst;
}

static size_t play(int number) {
  static const int late_count = sizeof late_ones / sizeof late_ones[0];
  bool chaos = number % CHAOS_EVERY == CHAOS_EVERY - 1;
  common->round = number;
  common->late_one = chaos ? PROCESSES : late_ones[number % late_count];
  common->edge_us = ((real_time_us() + 40 * MS_US) / CELL_US + 1) * CELL_US;
  common->used = 0;
  pthread_barrier_wait(&common->turn);
  pthread_barrier_wait(&common->turn);
  size_t count = common->used;
  if (count > STAMPS_MOST) give_up("a round: admitted more than there is room to note");
  qsort(common->stamps, count, sizeof common->stamps[0], compare);
  return most_in_a_window(count);
}

/* A child that ends before its time would leave the others waiting at the barrier. */
static void child_ended(int signal_number) {
  static const char text[] = "deadlines: a child ended early\n";
  (void)signal_number;
  if (!common->over && write(STDERR_FILENO, text, sizeof text - 1) >= 0) _exit(2);
}

static void read_arguments(int count, char **arguments) {
  const char *given = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) given = arguments[i + 1];
    if (strcmp(arguments[i], "--rounds") == 0) rounds = (int)strtol(arguments[i + 1], NULL, 10);
  }
  if (given != NULL && getenv(given) != NULL) given = getenv(given);
  if (given == NULL || rounds < 1 || count % 2 == 0)
    give_up("usage: deadlines --store URL [--rounds N]");
  snprintf(url, sizeof url, "%s", given);
}

int main(int count, char **arguments) {
  size_t worst = 0;
  int number = 0;
  bool shown = false;
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  share_barrier(&common->turn, PROCESSES + 1);
  signal(SIGCHLD, child_ended);
  for (int i = 0; i < PROCESSES; i++)
    start_process(run_child, &i);
  for (int tries = 0; tries < TRIES && !shown && worst <= LIMIT; tries++) {
    common->held_up = common->admitted_late = 0;
    for (int played = 0; played < rounds; played++) {
      size_t most = play(number++);
      if (most > worst) worst = most;
    }
    shown = 2 * common->admitted_late >= common->held_up;
  }
  printf("%s on %s: %d rounds, at most %zu in a window, bound %d; %" PRId64
         " admitted late in %" PRId64 " rounds with one that was held up\n",
         RULE, url, number, worst, LIMIT, common->admitted_late, common->held_up);
  common->over = true;
  pthread_barrier_wait(&common->turn);
  while (wait(NULL) > 0)
    continue;
  return worst <= LIMIT && shown ? 0 : 1;
}
