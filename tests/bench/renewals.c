/* renewals --store URL [--keys N] [--places N] [--period SECONDS] [--periods N]
 *
 * Measures what it costs a process to pay for many places: how long a pass takes, in how many round
 * trips, and what requests wait meanwhile. Two threads go on asking through the same store: one
 * enters a place of a key of its own and leaves it, one takes from another limiter. Prints the
 * latency of what was asked during a pass, and of all else.
 *
 * URL may be the name of an environment variable. Ends where a machine that stands still loses places, and
 * says so.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/backend.h>
#include <weir/weir.h>

enum { ASKED_MOST = 1 << 20, KEY_BYTES = 32, AT_ONCE = 64, SECOND_US = 1000000 };

static struct {
  const char *url;
  long keys, places, period_s, periods;
} settings = {.keys = 1000, .places = 10, .period_s = 2, .periods = 4};

static weir_limiter *held, *taken;
static _Atomic bool paying, over;

/* How long each request of a thread took; those during a pass are the negative ones. */
typedef struct asker {
  pthread_t thread;
  bool enters;
  size_t count;
  int64_t *took_us;
} asker;

static void give_up(const char *what) {
  fprintf(stderr, "renewals: %s\n", what);
  exit(2);
}

static void *ask(void *context) {
  asker *self = context;
  while (!atomic_load(&over) && self->count < ASKED_MOST) {
    weir_request request = {.key = "asked", .key_length = 5, .cost = 1};
    weir_reservation *place = NULL;
    bool during = atomic_load(&paying);
    int64_t began_us = weir_monotonic_us();
    if (self->enters)
      weir_limiter_reserve(held, &request, &place, NULL);
    else
      weir_limiter_decide(taken, &request, 1, NULL);
    int64_t took_us = weir_monotonic_us() - began_us + 1;
    during = during || atomic_load(&paying);
    self->took_us[self->count++] = during ? -took_us : took_us;
    if (place != NULL) weir_reservation_commit(place, NULL);
    weir_reservation_destroy(place);
  }
  return NULL;
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* `took_us` in rising order. */
static void print_times(const char *what, const int64_t *took_us, size_t count) {
  if (count == 0) {
    printf("  %s: none\n", what);
    return;
  }
  printf("  %s: %zu requests, p50 %" PRId64 " us, p99 %" PRId64 " us, longest %" PRId64 " us\n",
         what, count, took_us[count / 2], took_us[count * 99 / 100], took_us[count - 1]);
}

static void print_asker(asker *self) {
  size_t during = 0;
  qsort(self->took_us, self->count, sizeof *self->took_us, compare);
  while (during < self->count && self->took_us[during] < 0)
    during++;
  for (size_t i = 0; i < during; i++)
    self->took_us[i] = -self->took_us[i];
  qsort(self->took_us, during, sizeof *self->took_us, compare);
  printf("%s\n", self->enters ? "entering" : "taking");
  print_times("during a pass", self->took_us, during);
  print_times("otherwise", self->took_us + during, self->count - during);
}

static weir_limiter_counts counts_of(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}

static void enter_all(weir_reservation **all) {
  static char keys[AT_ONCE][KEY_BYTES];
  weir_limiter *limiters[AT_ONCE];
  weir_request requests[AT_ONCE];
  long count = settings.keys * settings.places;
  for (long done = 0; done < count;) {
    size_t part = 0;
    for (; part < AT_ONCE && done + (long)part < count; part++) {
      int length = snprintf(keys[part], KEY_BYTES, "held-%ld", (done + (long)part) % settings.keys);
      requests[part] = (weir_request){.key = keys[part], .key_length = (size_t)length, .cost = 1};
      limiters[part] = held;
    }
    if (weir_reserve_together(limiters, requests, part, all + done, NULL) != WEIR_OK)
      give_up("a place cannot be entered");
    done += (long)part;
  }
}

/* One pass after another, each as soon as it is due. */
static void pay(void) {
  for (long period = 0; period < settings.periods && counts_of(held).places_held > 1;) {
    int64_t next_us;
    weir_limiter_counts before = counts_of(held);
    atomic_store(&paying, true);
    int64_t began_us = weir_monotonic_us();
    if (weir_limiter_renew(held, &next_us, NULL) != WEIR_OK) give_up("a payment failed");
    int64_t took_us = weir_monotonic_us() - began_us;
    atomic_store(&paying, false);
    weir_limiter_counts after = counts_of(held);
    if (after.renewals > before.renewals) {
      printf("%" PRIu64 " payments in %.1f ms\n", after.renewals - before.renewals,
             (double)took_us / 1000);
      period++;
    }
    const struct timespec sleep = {.tv_sec = next_us / SECOND_US,
                                   .tv_nsec = next_us % SECOND_US * 1000};
    nanosleep(&sleep, NULL);
  }
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    long number = strtol(arguments[i + 1], NULL, 10);
    if (strcmp(arguments[i], "--store") == 0) settings.url = arguments[i + 1];
    if (strcmp(arguments[i], "--keys") == 0) settings.keys = number;
    if (strcmp(arguments[i], "--places") == 0) settings.places = number;
    if (strcmp(arguments[i], "--period") == 0) settings.period_s = number;
    if (strcmp(arguments[i], "--periods") == 0) settings.periods = number;
  }
  if (settings.url == NULL || settings.keys < 1 || settings.places < 1 || settings.period_s < 1 ||
      settings.periods < 1 || count % 2 == 0)
    give_up("usage: renewals --store URL [--keys N] [--places N] [--period SECONDS] [--periods N]");
  if (getenv(settings.url) != NULL) settings.url = getenv(settings.url);
}

int main(int count, char **arguments) {
  asker askers[2] = {{.enters = true}, {.enters = false}};
  weir_limiter_options options = {.size = sizeof options, .renew = WEIR_RENEW_BY_CALLER};
  weir_message message = {""};
  weir_store *store;
  char rule[64];
  read_arguments(count, arguments);
  snprintf(rule, sizeof rule, "in-flight:%ld/%lds", settings.places, settings.period_s);
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, rule, &options, &held, &message) != WEIR_OK ||
      weir_limiter_create(store, "fixed-window:1000000000/1h", &options, &taken, &message) !=
          WEIR_OK)
    give_up(message.text);
  size_t places = (size_t)(settings.keys * settings.places);
  weir_reservation **all = calloc(places, sizeof(weir_reservation *));
  if (all == NULL) give_up("no memory");
  enter_all(all);
  for (int i = 0; i < 2; i++) {
    askers[i].took_us = calloc(ASKED_MOST, sizeof *askers[i].took_us);
    if (askers[i].took_us == NULL || pthread_create(&askers[i].thread, NULL, ask, &askers[i]) != 0)
      give_up("no memory, or no thread");
  }
  pay();
  atomic_store(&over, true);
  for (int i = 0; i < 2; i++) {
    pthread_join(askers[i].thread, NULL);
    print_asker(&askers[i]);
    free(askers[i].took_us);
  }
  weir_limiter_counts counts = counts_of(held);
  printf("%zu places of %ld keys, %" PRIu64 " lost\n", places, settings.keys, counts.places_lost);
  for (size_t i = 0; i < places; i++)
    weir_reservation_destroy(all[i]);
  free(all);
  weir_limiter_destroy(held);
  weir_limiter_destroy(taken);
  weir_store_close(store);
  return 0;
}
