/* flush_hunt --store memcached|redis [--runs N] [--restart]
 *
 * Eight processes take of the same keys while their server loses all it has, at a moment that is
 * drawn anew in each run: by a flush, or killed and started again. Requests that were begun after
 * that must be admitted no more than each limit once. With `lease=` what was charged before may
 * still be used: both together twice the limit. Exit code 0 only if it was so in all runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/backend.h>
#include <weir/weir.h>

#include "fixture/servers.h"

enum { PROCESSES = 8, LIMIT = 20, KEYS = 4, RULES = 8, RUNS_MOST = 1000 };
enum { LOSS_MOST_US = 1500000, AFTER_US = 1800000, DEADLINE_US = 1000000 };

static const char *const rules[RULES] = {
    "quota:20/1h,name=a",
    "quota:20/1h,lease=30ms,name=b",
    "fixed-window:5000/1h;quota:20/1h,name=c",
    "quota:20/1h;sliding-log:5000/1h,name=d",
    "fixed-window:20/1h,name=e",
    "sliding-window:20/1h,strict,name=f",
    "sliding-log:20/1h,name=g",
    "token-bucket:20/1h,name=h",
};

/* Parent and children share this. */
static struct shared {
  _Atomic bool begun, lost, over;
  _Atomic int before[RULES][KEYS], after[RULES][KEYS];
} * shared;

static void give_up(const char *what, const char *why) {
  fprintf(stderr, "flush_hunt: %s: %s\n", what, why);
  exit(1);
}

/* Slowly before the loss, so that something is left then, and fast after it. */
static void pause_a_little(unsigned *seed) {
  int64_t most_us = atomic_load(&shared->lost) ? 2000 : 60000;
  usleep((useconds_t)(rand_r(seed) % most_us));
}

static void take(weir_limiter *const limiters[RULES], unsigned *seed) {
  int rule = rand_r(seed) % RULES, number = rand_r(seed) % KEYS;
  char key = (char)('a' + number);
  weir_decision decision;
  bool lost = atomic_load(&shared->lost);
  weir_status status = weir_limiter_take(limiters[rule], &key, 1, 1, &decision, NULL);
  if (status == WEIR_OK && decision.allowed)
    atomic_fetch_add(lost ? &shared->after[rule][number] : &shared->before[rule][number], 1);
}

static void be_a_process(const char *url, unsigned seed) {
  weir_limiter *limiters[RULES];
  weir_store *store;
  weir_message message = {""};
  weir_limiter_options options = {
      .size = sizeof options, .deadline_us = DEADLINE_US, .fallback = WEIR_FALLBACK_NONE};
  if (weir_store_open(url, &store, &message) != WEIR_OK) give_up(url, message.text);
  for (int i = 0; i < RULES; i++)
    if (weir_limiter_create(store, rules[i], &options, &limiters[i], &message) != WEIR_OK)
      give_up(rules[i], message.text);
  while (!atomic_load(&shared->begun))
    usleep(1000);
  while (!atomic_load(&shared->over)) {
    pause_a_little(&seed);
    for (int i = 0; i < RULES; i++)
      take(limiters, &seed);
  }
  for (int i = 0; i < RULES; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
  exit(0);
}

static void flush(const struct server *server, bool redis) {
  const char *word = redis ? "FLUSHALL\r\n" : "flush_all\r\n";
  char answer[8] = "";
  int fd = server_connect(server);
  if (send(fd, word, strlen(word), MSG_NOSIGNAL) < 0 || recv(fd, answer, sizeof answer, 0) <= 0)
    give_up("flush", "no answer");
  close(fd);
}

/* How many keys were admitted too often. */
static int judge(int run, int64_t lost_us) {
  int bad = 0, most = 0;
  for (int rule = 0; rule < RULES; rule++) {
    bool leases = strstr(rules[rule], "lease") != NULL;
    for (int key = 0; key < KEYS; key++) {
      int before = shared->before[rule][key], after = shared->after[rule][key];
      bool too_much = before + after > 2 * LIMIT || (!leases && after > LIMIT);
      if (after > most) most = after;
      if (!too_much) continue;
      printf("run %d: lost after %lld ms: %s: %d admitted before, %d after\n", run,
             (long long)(lost_us / 1000), rules[rule], before, after);
      bad++;
    }
  }
  printf("run %d: lost after %lld ms, at most %d of %d after that%s\n", run,
         (long long)(lost_us / 1000), most, LIMIT, bad > 0 ? ": TOO MANY" : "");
  fflush(stdout);
  return bad;
}

static int run_once(int run, bool redis, bool restart, unsigned *seed) {
  char url[SERVER_URL_BYTES];
  pid_t children[PROCESSES];
  struct server *server =
      redis ? server_start_redis(SERVER_IPV4, NULL) : server_start_memcached(SERVER_IPV4, NULL);
  int64_t lost_us = rand_r(seed) % LOSS_MOST_US;
  server_url(&server, 1, NULL, url);
  memset(shared, 0, sizeof *shared);
  for (int i = 0; i < PROCESSES; i++) {
    unsigned own = (unsigned)rand_r(seed);
    children[i] = fork();
    if (children[i] == 0) be_a_process(url, own);
    if (children[i] < 0) give_up("fork", "there is no process");
  }
  atomic_store(&shared->begun, true);
  usleep((useconds_t)lost_us);
  if (restart)
    server_restart(server);
  else
    flush(server, redis);
  atomic_store(&shared->lost, true);
  usleep(AFTER_US);
  atomic_store(&shared->over, true);
  int bad = 0;
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    if (status != 0) give_up("a process", "it failed");
  }
  bad = judge(run, lost_us);
  server_kill(server);
  return bad;
}

int main(int argc, char **argv) {
  const char *store = "";
  int runs = 1, bad = 0;
  bool restart = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--store") == 0 && i + 1 < argc)
      store = argv[++i];
    else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
      runs = atoi(argv[++i]);
    else if (strcmp(argv[i], "--restart") == 0)
      restart = true;
    else
      give_up(argv[i], "--store memcached|redis, --runs N and --restart are accepted");
  }
  bool redis = strcmp(store, "redis") == 0;
  if (!redis && strcmp(store, "memcached") != 0) give_up("--store", "memcached or redis");
  if (runs < 1 || runs > RUNS_MOST) give_up("--runs", "1 to 1000");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) give_up("mmap", "there is no memory");
  unsigned seed = (unsigned)weir_monotonic_us();
  for (int run = 1; run <= runs; run++)
    bad += run_once(run, redis, restart, &seed);
  printf("%s: %d runs, %d keys admitted more than once more\n", store, runs, bad);
  return bad > 0;
}
