/* take_ratio [ROUNDS]: what a decision costs over the bare round trip.
 *
 * p50 of weir_limiter_take (sliding-window, 4 packed cells, a limit that is never reached) on one
 * connection, against a raw socket loop that does one `incr` on the same memcached, in turns within
 * one run; once with client and server on one core, once on two. Fails only where it could not run
 * or somebody was denied: times are for people to read. */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <weir/weir.h>

#include "fixture/servers.h"

enum {
  BLOCK = 200,        /* of one kind, before it is the other's turn */
  ROUNDS_MOST = 1000, /* blocks of each kind */
  KEY_BLOCKS = 10     /* blocks on one key: 2000 of the 4000 that the rule lets pass */
};

static const char rule[] = "sliding-window:4000/1h";

typedef struct contest {
  int raw; /* a socket */
  weir_limiter *limiter;
  int rounds;
  int64_t *raw_ns;
  int64_t *take_ns;
} contest;

static _Noreturn void give_up(const char *what) {
  fprintf(stderr, "take_ratio: %s\n", what);
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Threads and processes made from here on run there as well. */
static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) give_up("cannot be pinned to a core");
}

/* Sends a line and reads one; the number in it, or -1. */
static int64_t send_request(int fd, const char *request, size_t length) {
  char reply[64];
  size_t used = 0;
  if (send(fd, request, length, MSG_NOSIGNAL) != (ssize_t)length) give_up("cannot send");
  do {
    ssize_t more = recv(fd, reply + used, sizeof reply - 1 - used, 0);
    if (more <= 0) give_up("the server hung up");
    used += (size_t)more;
  } while (reply[used - 1] != '\n' && used < sizeof reply - 1);
  reply[used] = '\0';
  return reply[0] >= '0' && reply[0] <= '9' ? strtoll(reply, NULL, 10) : -1;
}

static int64_t run_raw(const contest *both, int64_t *times_ns) {
  static const char request[] = "incr raw 1\r\n";
  int64_t total = 0;
  for (int i = 0; i < BLOCK; i++) {
    int64_t began_ns = now_ns();
    total = send_request(both->raw, request, sizeof request - 1);
    times_ns[i] = now_ns() - began_ns;
  }
  return total;
}

static void run_takes(const contest *both, int round, int64_t *times_ns) {
  char key[32];
  size_t length = (size_t)snprintf(key, sizeof key, "key-%d", round / KEY_BLOCKS);
  for (int i = 0; i < BLOCK; i++) {
    weir_decision decision = {0};
    weir_message message = {""};
    int64_t began_ns = now_ns();
    weir_status status = weir_limiter_take(both->limiter, key, length, 1, &decision, &message);
    times_ns[i] = now_ns() - began_ns;
    if (status != WEIR_OK) give_up(message.text);
    if (!decision.allowed) give_up("a request was denied");
  }
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static double percentile_us(int64_t *times_ns, size_t count, size_t percent) {
  qsort(times_ns, count, sizeof *times_ns, compare);
  size_t place = count * percent / 100;
  return (double)times_ns[place] / 1000;
}

static void compete(contest *both, const char *where) {
  size_t count = (size_t)both->rounds * BLOCK;
  static const char start[] = "set raw 0 0 1\r\n0\r\n";
  int64_t total = 0;
  send_request(both->raw, start, sizeof start - 1);
  for (int round = 0; round < both->rounds; round++) {
    run_takes(both, round, both->take_ns + (size_t)round * BLOCK);
    total = run_raw(both, both->raw_ns + (size_t)round * BLOCK);
  }
  if (total != (int64_t)count) give_up("the raw counter is not what was added to it");
  double take_us = percentile_us(both->take_ns, count, 50);
  double raw_us = percentile_us(both->raw_ns, count, 50);
  printf(
      "%s: p50 of %zu takes %.2f us, of %zu raw increments %.2f us, ratio %.3f (p99 %.2f us, "
      "%.2f us)\n",
      where, count, take_us, count, raw_us, take_us / raw_us,
      percentile_us(both->take_ns, count, 99), percentile_us(both->raw_ns, count, 99));
}

/* A server on `server_core`, a client on `client_core`. */
static void measure(int rounds, int server_core, int client_core, const char *where) {
  char url[SERVER_URL_BYTES];
  int yes = 1;
  weir_store *store;
  weir_message message = {""};
  weir_limiter_options options = {
      .size = sizeof options, .processes = 1, .fallback = WEIR_FALLBACK_NONE};
  contest both = {.rounds = rounds};
  pin(server_core);
  struct server *server =
      server_start_memcached(SERVER_IPV4, (const char *const[]){"-t", "1", NULL});
  pin(client_core);
  server_url(&server, 1, "protocol=meta&timeout=30s", url);
  both.raw = server_connect(server);
  both.raw_ns = calloc((size_t)rounds * BLOCK, sizeof *both.raw_ns);
  both.take_ns = calloc((size_t)rounds * BLOCK, sizeof *both.take_ns);
  if (both.raw < 0 || both.raw_ns == NULL || both.take_ns == NULL) give_up("cannot begin");
  setsockopt(both.raw, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (weir_store_open(url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, rule, &options, &both.limiter, &message) != WEIR_OK)
    give_up(message.text);
  compete(&both, where);
  weir_limiter_destroy(both.limiter);
  weir_store_close(store);
  close(both.raw);
  free(both.raw_ns);
  free(both.take_ns);
  server_kill(server);
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? (int)strtol(arguments[1], NULL, 10) : 100;
  if (rounds < 1 || rounds > ROUNDS_MOST) give_up("usage: take_ratio [ROUNDS], 1 to 1000");
  measure(rounds, 0, 0, "one core");
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    puts("two cores: this machine has one");
    return 0;
  }
  measure(rounds, 0, 1, "two cores");
  return 0;
}
