/* Calls every public function of the library, over and over: with right and with wrong arguments, by four
 * threads, while their stores are killed, stopped and started again. Sanitizers watch; what is answered
 * must be what the headers say.
 *
 *     api_hunt SECONDS [SEED]    the same seed has the same arguments; in the check 10 s
 *     api_hunt --list            which functions it calls
 *
 * In rounds: each opens its stores and limiters anew, and must leave nothing open behind. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attack/api_hunt.h"
#include "fixture/chance.h"
#include "fixture/servers.h"

#define SECOND_US INT64_C(1000000)
#define ROUND_US (2 * SECOND_US)
#define HANGS_AFTER_US (120 * SECOND_US)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Beyond what it may wait and the longest deadline here, on a machine that does other things as well. */
#define LATE_US (SANITIZED ? HANGS_AFTER_US : 3 * SECOND_US)

/* --- limiters ----------------------------------------------------------------------------------
 */

const char *const api_rules[API_RULES] = {
    "fixed-window:20/1s",
    "fixed-window:500/200ms,lease=20ms",
    "sliding-window:50/2s,cells=2,lease=20ms",
    "sliding-window:1000/1s,strict,lease=5ms,debt=100",
    "sliding-window:30/1s,count=all,hold=5ms",
    "sliding-log:20/1s",
    "sliding-log:20/1s;sliding-log:50/1m",
    "quota:200/1s,lease=20ms,debt=10",
    "quota:20/5s;fixed-window:50/1s",
    "token-bucket:100000/1s,burst=20000,lease=20ms",
    "token-bucket:300000000/1s,lease=1ms",
    "token-bucket:100/1s,debt=20",
    "token-bucket:20/1s",
    "leaky-bucket:100/1s,queue=10",
    "in-flight:5/1s",
    "in-flight:3/1s,lease=100ms",
    "in-flight:5/1s;fixed-window:100/1s",
    "fixed-window:20/1s;quota:50/1m;token-bucket:90/1s",
    "sliding-window:1000/1s,lease=50ms;fixed-window:3000/1m,lease=50ms",
    "fixed-window:1000000000/400d;token-bucket:9/1s,name=n",
    "shared-window:300/4s,weights=a:2|b:1,others=1",
    "shared-window:2000/4s,weights=a:2,others=1,lease=20ms,debt=100",
};

static _Atomic int64_t clock_off_us;

static int64_t read_clock(void *context) {
  struct timespec now;
  (void)context;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * SECOND_US + now.tv_nsec / 1000 + atomic_load(&clock_off_us);
}

/* Each of a store is a different one: policies, memories of a few keys, who renews, a clock that jumps. */
static weir_limiter *create(const char *rules, weir_store *store, int number, bool *has_policy) {
  static const unsigned fallbacks[] = {WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_NONE,
                                       WEIR_FALLBACK_DENY, WEIR_FALLBACK_ALLOW};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  weir_limiter *limiter;
  weir_message message = {""};
  options.deadline_us = number % 2 == 0 ? 20000 : 50000;
  options.memo_keys = number % 3 == 0 ? 0 : 8;
  options.fallback = fallbacks[number % 5];
  options.renew = number % 4 == 1 ? WEIR_RENEW_BY_CALLER : WEIR_RENEW_BY_THREAD;
  options.processes = number % 7 == 0 ? 1 : 0;
  if (number % 11 == 3) options.flags = WEIR_NO_COMBINING | WEIR_NO_CACHED_CELLS;
  if (number % 13 == 4) options.flags = WEIR_NO_LOCAL_DENIAL;
  if (number % 6 == 5) options.clock = (weir_clock){.now_us = read_clock};
  if (weir_limiter_create(store, rules, &options, &limiter, &message) != WEIR_OK) {
    fprintf(stderr, "api_hunt: %s: %s\n", rules, message.text);
    exit(1);
  }
  *has_policy = options.fallback != WEIR_FALLBACK_NONE;
  return limiter;
}

static void open_world(api_world *world) {
  for (int s = 0; s < API_STORES; s++) {
    weir_message message = {""};
    weir_status status =
        s == API_STORES - 1
            ? weir_store_open_backend(&api_backend, world->urls[s], &world->stores[s], &message)
            : weir_store_open(world->urls[s], &world->stores[s], &message);
    if (status != WEIR_OK) {
      fprintf(stderr, "api_hunt: %s: %s\n", world->urls[s], message.text);
      exit(1);
    }
    for (int i = 0; i < API_RULES; i++) {
      int n = s * API_RULES + i;
      world->limiters[n] = create(api_rules[i], world->stores[s], n + s, &world->has_policy[n]);
      world->is_shared[n] = strncmp(api_rules[i], "shared-window:", 14) == 0;
    }
  }
}

static void close_world(api_world *world) {
  for (int i = 0; i < API_LIMITERS; i++)
    weir_limiter_destroy(world->limiters[i]);
  for (int s = 0; s < API_STORES; s++)
    weir_store_close(world->stores[s]);
}

/* --- threads -----------------------------------------------------------------------------------
 */

static const api_call *const tables[] = {api_decisions, api_reservations, api_others};
enum { TABLES = sizeof tables / sizeof tables[0] };

static const api_call *call_at(size_t index) {
  for (size_t t = 0; t < TABLES; t++)
    for (const api_call *call = tables[t]; call->name != NULL; call++)
      if (index-- == 0) return call;
  return NULL;
}

static unsigned weights; /* of all; written before there are threads */

static void add_weights(void) {
  for (size_t i = 0; call_at(i) != NULL; i++)
    weights += call_at(i)->weight;
}

static const api_call *draw_call(api_thread *thread) {
  uint32_t left = api_chance(thread, weights);
  size_t i = 0;
  while (left >= call_at(i)->weight)
    left -= call_at(i++)->weight;
  return call_at(i);
}

static _Atomic int64_t ends_us;
static _Atomic unsigned first_round; /* each thread begins with its part of all calls */

static void run(api_thread *thread, const api_call *call) {
  int64_t from_us = weir_monotonic_us();
  thread->waits_us = 0;
  thread->steps++;
  atomic_store(&thread->since_us, from_us);
  atomic_store(&thread->calling, call->name);
  call->run(thread);
  int64_t took_us = weir_monotonic_us() - from_us;
  if (took_us > thread->waits_us + LATE_US)
    api_fail(thread, "took %lld us, and was to wait for %lld", (long long)took_us,
             (long long)thread->waits_us);
}

static void *run_thread(void *context) {
  api_thread *thread = context;
  if (atomic_load(&first_round))
    for (size_t i = thread->number; call_at(i) != NULL; i += API_THREADS)
      run(thread, call_at(i));
  while (weir_monotonic_us() < atomic_load(&ends_us))
    run(thread, draw_call(thread));
  for (size_t i = 0; i < API_KEPT; i++)
    api_let_go(&thread->kept[i]);
  atomic_store(&thread->since_us, INT64_MAX);
  return NULL;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

static void rest_us(int64_t us) {
  nanosleep(&(struct timespec){.tv_sec = us / SECOND_US, .tv_nsec = us % SECOND_US * 1000}, NULL);
}

static void look_who_hangs(const api_thread *threads) {
  for (int i = 0; i < API_THREADS; i++)
    if (weir_monotonic_us() - atomic_load(&threads[i].since_us) > HANGS_AFTER_US)
      api_fail(&threads[i], "hangs");
}

/* The servers are this thread's own. */
static void disturb(struct server *const *servers, const api_thread *threads, uint32_t *seed) {
  while (weir_monotonic_us() < atomic_load(&ends_us)) {
    struct server *server = servers[chance(seed, 2)];
    int64_t pause_us = 20000 + (int64_t)chance(seed, 300000);
    uint32_t fault = chance(seed, 4);
    if (fault == 0) server_kill(server);
    if (fault == 1) server_stop(server);
    if (fault == 2)
      atomic_store(&clock_off_us, (int64_t)chance(seed, 6 * SECOND_US) - 3 * SECOND_US);
    rest_us(pause_us);
    if (fault == 0) server_restart(server);
    if (fault == 1) server_continue(server);
    rest_us(100000);
    look_who_hangs(threads);
  }
}

static int count_descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder != NULL && readdir(folder) != NULL)
    count++;
  if (folder != NULL) closedir(folder);
  return count;
}

static uint64_t run_round(api_world *world, struct server *const *servers, int64_t until_us,
                          uint32_t *seed) {
  static api_thread threads[API_THREADS];
  pthread_t ids[API_THREADS];
  uint64_t steps = 0;
  int64_t end_us = weir_monotonic_us() + ROUND_US;
  open_world(world);
  atomic_store(&ends_us, end_us < until_us ? end_us : until_us);
  memset(threads, 0, sizeof threads);
  for (unsigned i = 0; i < API_THREADS; i++) {
    threads[i].world = world;
    threads[i].number = i;
    threads[i].seed = *seed * API_THREADS + i;
    atomic_store(&threads[i].since_us, INT64_MAX);
    if (pthread_create(&ids[i], NULL, run_thread, &threads[i]) != 0) exit(1);
  }
  disturb(servers, threads, seed);
  for (int i = 0; i < API_THREADS; i++) {
    pthread_join(ids[i], NULL);
    steps += threads[i].steps;
  }
  close_world(world);
  return steps;
}

static int list(void) {
  for (size_t i = 0; call_at(i) != NULL; i++)
    puts(call_at(i)->name);
  return 0;
}

int main(int count, char **arguments) {
  static api_world world;
  static char urls[2][SERVER_URL_BYTES];
  if (count == 2 && strcmp(arguments[1], "--list") == 0) return list();
  long seconds = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
  uint32_t seed = count > 2 ? (uint32_t)strtoul(arguments[2], NULL, 10) : 1;
  if (seconds < 1) {
    fprintf(stderr, "usage: api_hunt SECONDS [SEED], or api_hunt --list\n");
    return 2;
  }
  fprintf(stderr, "api_hunt: seed %u\n", seed);
  struct server *const servers[] = {server_start_memcached(SERVER_IPV4, NULL),
                                    server_start_redis(SERVER_IPV4, NULL)};
  for (int i = 0; i < 2; i++)
    server_url(&servers[i], 1, NULL, urls[i]);
  world.urls[0] = "memory:";
  world.urls[1] = urls[0];
  world.urls[2] = urls[1];
  world.urls[3] = "own:";
  add_weights();
  int64_t until_us = weir_monotonic_us() + seconds * SECOND_US;
  uint64_t steps = 0;
  unsigned rounds = 0;
  int open = 0;
  while (weir_monotonic_us() < until_us) {
    atomic_store(&first_round, rounds == 0);
    steps += run_round(&world, servers, until_us, &seed);
    int now_open = count_descriptors();
    if (rounds++ == 0) open = now_open;
    if (now_open > open) {
      fprintf(stderr, "api_hunt: round %u left %d descriptors open\n", rounds, now_open - open);
      return 1;
    }
  }
  printf("%llu calls in %u rounds\n", (unsigned long long)steps, rounds);
  return 0;
}
