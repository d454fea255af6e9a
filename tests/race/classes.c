/* classes --store URL [--seconds N] [--rule N]
 *
 * 32 threads in 8 processes ask for the same keys as fast as they can: ten times for a low class, once
 * for a high one or for none, by every algorithm. A new key comes when one was asked for often enough, but
 * for windows that are short enough to slide meanwhile. Whatever the low class asks,
 *
 *     what is kept is there     no request of a class above is denied while all that was begun of its class
 *                               and higher ones fits into what the lower class cannot have
 *     each has its part         a class and those below are admitted their part, all together the limit
 *
 * What is denied is charged until it is taken back. Each other process may hide so much of what is kept: a
 * request of each of its threads, as one group of it is under way for a key.
 *
 * Windows that begin by the clock are so long that none ends meanwhile. Places are held for a while, so
 * that all are taken, and come and go. Who stands still with its stamp meets in a window what has left
 * it for those who came later: such requests are not looked at. Lots of higher classes are charged
 * before they are asked for: with leases only the parts are looked at.
 *
 * URL may be the name of an environment variable. Exit code 0 only if all of it holds. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/backend.h>
#include <weir/weir.h>

#include "faults/ground.h"

enum { PROCESSES = 8, THREADS = 4, SECONDS_MOST = 600, LOW_IN = 11 };
enum { KEY_ASKS = 10000, KEYS_MOST = 1 << 17, BEGINS = 1 << 17 };
enum { STOOD_STILL_US = 20000, PATIENCE_US = 30000000 };
enum { LIMIT = 1000, HIDDEN = (PROCESSES - 1) * THREADS };
enum { PLACES = 64 }; /* that a thread asks for at once: all together for more than there are */
enum { LOW, HIGH, NONE, CLASSES };

#define PARTS ",classes=low:60%|high:90%"
static const struct {
  const char *text;
  int64_t slides_us; /* 0: it keeps what a key was charged for as long as that is asked for */
  bool leases, holds;
} rules[] = {
    {"fixed-window:1000/400d" PARTS, 0, false, false},
    {"sliding-window:1000/1h" PARTS, 0, false, false},
    {"sliding-window:1000/2s" PARTS, 2000000, false, false},
    {"sliding-window:1000/2s,strict" PARTS, 2000000, false, false},
    {"sliding-log:1000/1h" PARTS, 0, false, false},
    {"quota:1000/1h" PARTS, 0, false, false},
    {"token-bucket:1000/4h" PARTS, 0, false, false},
    {"fixed-window:1000/400d" PARTS ";quota:100000/1d,name=all", 0, false, false},
    {"fixed-window:1000/400d,lease=20ms" PARTS, 0, true, false},
    {"in-flight:1000/20s" PARTS, 0, false, true},
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* Parent and children share this. */
typedef struct shared {
  pthread_barrier_t begin;
  int64_t end_us; /* weir_monotonic_us() */
  _Atomic int64_t asks;
  _Atomic int64_t asked[CLASSES], denied[CLASSES], kept_from;
  _Atomic int64_t without; /* requests without an answer: what they were charged is not known */
  _Atomic int32_t begun[KEYS_MOST][CLASSES], ended[KEYS_MOST][CLASSES];
  _Atomic int32_t admitted[KEYS_MOST][CLASSES];
  _Atomic int64_t unknown_us[KEYS_MOST]; /* the last of them; 0: there was none */
  _Atomic uint64_t begins[CLASSES];
  _Atomic int64_t begin_at_us[CLASSES][BEGINS];
} shared;

static shared *common;
static struct {
  const char *url;
  int seconds;
  size_t rule;
} settings = {.seconds = 10, .rule = RULES};
static size_t rule;

/* What a class may have with those below. */
static int64_t part(int class) {
  return LIMIT * (class == LOW ? 60 : class == HIGH ? 90 : 100) / 100;
}

/* --- a child ------------------------------------------------------------------------------------
 */

/* How many of this class were begun that may count at once with one that was asked from then till now. */
static int64_t begun_with(int class, int64_t key, int32_t ended_before, int64_t from_us) {
  if (rules[rule].holds) return atomic_load(&common->begun[key][class]) - ended_before;
  if (rules[rule].slides_us == 0) return atomic_load(&common->begun[key][class]);
  uint64_t count = atomic_load(&common->begins[class]), n = 0;
  int64_t since_us = from_us - rules[rule].slides_us * 3 / 2;
  for (; n < count && n < BEGINS; n++) {
    int64_t at_us = atomic_load(&common->begin_at_us[class][(count - 1 - n) % BEGINS]);
    if (at_us != 0 && at_us <= since_us) break; /* 0: it is just being written down */
  }
  return (int64_t)n;
}

static void note_begin(int class, int64_t key) {
  uint64_t at = atomic_fetch_add(&common->begins[class], 1);
  atomic_store(&common->begin_at_us[class][at % BEGINS], weir_monotonic_us());
  atomic_fetch_add(&common->begun[key][class], 1);
  atomic_fetch_add(&common->asked[class], 1);
}

/* All that is above a class was begun, and yet fits into what that cannot have. */
static void check_denied(int class, int64_t key, const int32_t *ended, int64_t from_us) {
  int64_t begun = 0, now_us = weir_monotonic_us();
  int64_t unknown_us = atomic_load(&common->unknown_us[key]);
  bool forgotten = rules[rule].slides_us > 0 && now_us - unknown_us > 2 * rules[rule].slides_us;
  bool stood_still = rules[rule].slides_us > 0 && now_us - from_us > STOOD_STILL_US;
  if (stood_still || (unknown_us > 0 && !forgotten)) return;
  for (int lower = class - 1; lower >= LOW; lower--) {
    begun = 0;
    for (int above = lower + 1; above < CLASSES; above++)
      begun += begun_with(above, key, ended[above], from_us);
    int64_t kept = part(class) - part(lower) - HIDDEN;
    if (begun > kept || rules[rule].leases) continue;
    atomic_fetch_add(&common->kept_from, 1);
    fprintf(stderr, "classes: %s: class %d was denied when %" PRId64 " of %" PRId64 " were begun\n",
            rules[rule].text, class, begun, kept);
    return;
  }
}

/* What was charged is not known. */
static void note_unknown(int64_t key) {
  atomic_store(&common->unknown_us[key], weir_monotonic_us());
  atomic_fetch_add(&common->without, 1);
}

/* What a thread holds, and of what. */
typedef struct place {
  weir_reservation *held; /* NULL: nothing */
  int64_t key;
  int class;
} place;

static void leave(place *left) {
  if (left->held == NULL) return;
  if (weir_reservation_commit(left->held, NULL) != WEIR_OK) note_unknown(left->key);
  weir_reservation_destroy(left->held);
  left->held = NULL;
  atomic_fetch_add(&common->ended[left->key][left->class], 1);
}

static void ask(weir_limiter *limiter, int class, int64_t key, place *entered) {
  static const weir_extra says[] = {{.size = sizeof(weir_extra), .class_name = "low"},
                                    {.size = sizeof(weir_extra), .class_name = "high"}};
  const weir_extra *extra = class == NONE ? NULL : &says[class];
  char text[64];
  int32_t ended[CLASSES];
  int length = snprintf(text, sizeof text, "classes-%ld-%zu-%" PRId64, (long)getppid(), rule, key);
  weir_request request = {.key = text, .key_length = (size_t)length, .cost = 1};
  for (int n = LOW; n < CLASSES; n++)
    ended[n] = atomic_load(&common->ended[key][n]);
  int64_t from_us = weir_monotonic_us();
  note_begin(class, key);
  *entered = (place){.key = key, .class = class};
  if (rules[rule].holds)
    weir_reserve_extra(&limiter, &request, &extra, 1, &entered->held, NULL);
  else
    weir_decide_extra(&limiter, &request, &extra, 1, NULL);
  if (request.status != WEIR_OK) {
    note_unknown(key);
  } else if (request.decision.allowed) {
    atomic_fetch_add(&common->admitted[key][class], 1);
  } else {
    atomic_fetch_add(&common->denied[class], 1);
    check_denied(class, key, ended, from_us);
  }
  if (entered->held == NULL) atomic_fetch_add(&common->ended[key][class], 1);
}

/* Enough was asked and answered to say something. */
static bool was_tried(void) {
  return common->denied[LOW] > 0 && common->asked[NONE] > common->without;
}

/* A machine may stand still for all the time that was meant. */
static bool is_over(void) {
  int64_t now_us = weir_monotonic_us();
  return now_us >= common->end_us && (was_tried() || now_us - common->end_us >= PATIENCE_US);
}

static void *hammer(void *context) {
  weir_limiter *limiter = context;
  place places[PLACES] = {{NULL, 0, LOW}};
  pthread_barrier_wait(&common->begin);
  for (int64_t n = 0; !is_over(); n++) {
    int64_t asks = atomic_fetch_add(&common->asks, 1);
    int64_t key = rules[rule].slides_us > 0 ? 0 : asks / KEY_ASKS;
    if (key >= KEYS_MOST) give_up("too many keys");
    leave(&places[n % PLACES]);
    ask(limiter,
        n % LOW_IN != 0       ? LOW
        : n / LOW_IN % 2 == 0 ? HIGH
                              : NONE,
        key, &places[n % PLACES]);
  }
  for (size_t i = 0; i < PLACES; i++)
    leave(&places[i]);
  return NULL;
}

static void run_child(void *context) {
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  pthread_t threads[THREADS];
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  (void)context;
  options.fallback = WEIR_FALLBACK_NONE;
  options.deadline_us = rules[rule].slides_us > 0 ? 200000 : 1000000;
  options.processes = PROCESSES;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  if (weir_limiter_create(store, rules[rule].text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", rules[rule].text, message.text);
  if (weir_store_connect(store, 10000000, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, hammer, limiter) != 0) give_up("thread: none left");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

static void run(void) {
  int child_status;
  common->end_us = INT64_MAX;
  for (int i = 0; i < PROCESSES; i++)
    start_process(run_child, NULL);
  pthread_barrier_wait(&common->begin);
  common->end_us = weir_monotonic_us() + settings.seconds * SECOND_US;
  while (wait(&child_status) > 0)
    if (child_status != 0) give_up("child: ended early");
}

/* Of a bucket that raises, what is denied may be charged while others are admitted less. */
static int64_t count_over(int64_t *most) {
  int64_t over = 0;
  *most = 0;
  for (size_t key = 0; key < KEYS_MOST; key++) {
    int64_t sum = 0;
    for (int class = LOW; class < CLASSES; class ++) {
      sum += common->admitted[key][class];
      over += sum > part(class);
    }
    if (sum > *most) *most = sum;
  }
  return over;
}

static bool report(void) {
  int64_t most = 0;
  bool counts = rules[rule].slides_us == 0 && !rules[rule].holds;
  int64_t over = counts ? count_over(&most) : 0;
  printf("%s: asked %" PRId64 " low, %" PRId64 " high, %" PRId64 " of none; denied %" PRId64
         ", %" PRId64 ", %" PRId64 "; denied of what is kept %" PRId64 "; over a part %" PRId64
         " keys, at most %" PRId64 "; %" PRId64 " without an answer\n",
         rules[rule].text, common->asked[LOW], common->asked[HIGH], common->asked[NONE],
         common->denied[LOW], common->denied[HIGH], common->denied[NONE], common->kept_from, over,
         most, common->without);
  fflush(stdout);
  return common->kept_from == 0 && over == 0 && was_tried();
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0)
      settings.url = arguments[i + 1];
    else if (strcmp(arguments[i], "--seconds") == 0)
      settings.seconds = (int)strtol(arguments[i + 1], NULL, 10);
    else if (strcmp(arguments[i], "--rule") == 0)
      settings.rule = (size_t)strtol(arguments[i + 1], NULL, 10);
    else
      give_up("no such option: %s", arguments[i]);
  }
  if (settings.url != NULL && getenv(settings.url) != NULL) settings.url = getenv(settings.url);
  if (settings.url == NULL || settings.seconds < 1 || settings.seconds >= SECONDS_MOST)
    give_up("usage: classes --store URL [--seconds 1 to 599, of each rule] [--rule 0 to %d]",
            RULES - 1);
}

int main(int count, char **arguments) {
  bool good = true;
  read_arguments(count, arguments);
  for (rule = 0; rule < RULES; rule++) {
    if (settings.rule < RULES && settings.rule != rule) continue;
    common = share_memory(sizeof *common);
    share_barrier(&common->begin, PROCESSES * THREADS + 1);
    run();
    good = report() && good;
    unshare_memory(common, sizeof *common);
  }
  return good ? 0 : 1;
}
