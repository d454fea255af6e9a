/* A store that loses all its keys at once, by a flush or a restart: each rule is admitted once more, and
 * not twice, whatever its processes remember of what was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { LIMIT = 10, PROCESSES = 4, TRIES = 40, AGES = 5 };

/* A process uses what it remembers of a key for 1 s at the most, and looks again after half of
 * that. */
static const int64_t ages_us[AGES] = {0, 300000, 501000, 999000, 1300000};

static const char *const rules[] = {
    "quota:10/1h",
    "fixed-window:1000/1d;quota:10/1h",
    "quota:10/1h;token-bucket:500/1h",
    "quota:10/1h;sliding-log:500/1h",
    "fixed-window:10/1h",
    "sliding-window:10/1h,cells=16,strict",
    "sliding-log:10/1h",
    "token-bucket:10/1h",
    "leaky-bucket:10/1h,queue=9",
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* All on one server: each is as a process of its own. */
typedef struct processes {
  outage of[PROCESSES];
} processes;

static void open_all(processes *all, const outage *server, const char *text) {
  for (int i = 0; i < PROCESSES; i++) {
    all->of[i] = *server;
    outage_open(&all->of[i], text, WEIR_FALLBACK_NONE, 0);
  }
}

static void close_all(processes *all) {
  for (int i = 0; i < PROCESSES; i++)
    outage_close(&all->of[i]);
  outage_flush(&all->of[0]);
}

static void wait_all(processes *all, int64_t us) {
  for (int i = 0; i < PROCESSES; i++)
    all->of[i].clock.now_us += us;
}

/* So many takes, in turn. */
static int take_all(processes *all, int tries) {
  int admitted = 0;
  for (int i = 0; i < tries; i++)
    admitted += outage_take(&all->of[i % PROCESSES], "k", 1).allowed;
  return admitted;
}

static void each_is_admitted_once_more(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage server;
    outage_start(&server, kind, 1);
    for (size_t n = 0; n < RULES * AGES; n++) {
      processes all;
      open_all(&all, &server, rules[n / AGES]);
      int before = (int)n % PROCESSES + 1; /* the others know nothing of the key */
      assert_int_equal(take_all(&all, before), before);
      wait_all(&all, ages_us[n % AGES]);
      outage_flush(&server);
      int after = take_all(&all, TRIES);
      wait_all(&all, 1300000);
      int later = take_all(&all, TRIES);
      if (after + later != LIMIT)
        fail_msg("%s on %s, flushed after %lld us: %d admitted, and %d later, of %d",
                 rules[n / AGES], server.name, (long long)ages_us[n % AGES], after, later, LIMIT);
      close_all(&all);
    }
  }
}

/* Lots that were charged ahead before the flush may still be used. */
static void with_leases_no_more_than_without(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage server;
    outage_start(&server, kind, 1);
    for (int n = 0; n < AGES; n++) {
      processes all;
      open_all(&all, &server, "quota:100/1h,lease=50ms");
      int admitted = take_all(&all, TRIES);
      wait_all(&all, ages_us[n]);
      outage_flush(&server);
      for (int i = 0; i < 60; i++) { /* up to 3 s */
        admitted += take_all(&all, TRIES);
        wait_all(&all, 50000);
      }
      if (admitted > 200 || admitted < 90 + TRIES)
        fail_msg("on %s: %d admitted in all, of twice 100", server.name, admitted);
      close_all(&all);
    }
  }
}

/* --- one key of two -----------------------------------------------------------------------------
 */

/* Sends a line, and reads one answer of as much as fits. */
static void ask(int fd, const char *line, char *answer, size_t room) {
  size_t length = 0;
  assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
  ssize_t got = recv(fd, answer, room - 1, 0);
  assert_true(got > 0);
  length = (size_t)got;
  answer[length] = '\0';
}

/* Deletes the names of windows, or the counts. */
static void lose(const outage *server, bool names) {
  char answer[4096];
  int fd = server_connect(server->servers[0]);
  int lost = 0;
  ask(fd, "KEYS weir:*\r\n", answer, sizeof answer);
  for (char *line = strtok(answer, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
    const char *counter = strstr(line, "}:");
    char deleted[64];
    char command[512];
    if (counter == NULL || (counter[2] == 'o') != names) continue;
    snprintf(command, sizeof command, "DEL %s\r\n", line);
    int other = server_connect(server->servers[0]);
    ask(other, command, deleted, sizeof deleted);
    close(other);
    lost++;
  }
  close(fd);
  assert_true(lost > 0);
}

static void a_quota_of_which_one_key_is_lost_is_admitted_once_more(void **state) {
  (void)state;
  outage server;
  outage_start(&server, OUTAGE_REDIS, 1);
  for (int n = 0; n < 2 * AGES; n++) {
    bool names = n % 2 == 0;
    processes all;
    open_all(&all, &server, "quota:10/1h");
    int admitted = take_all(&all, 3);
    wait_all(&all, ages_us[n / 2]);
    lose(&server, names);
    admitted += take_all(&all, TRIES);
    wait_all(&all, 1300000);
    admitted += take_all(&all, TRIES);
    if (admitted > 2 * LIMIT || (!names && admitted != 3 + LIMIT))
      fail_msg("without its %s %d are admitted in all", names ? "name" : "count", admitted);
    close_all(&all);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_admitted_once_more),
      cmocka_unit_test(with_leases_no_more_than_without),
      cmocka_unit_test(a_quota_of_which_one_key_is_lost_is_admitted_once_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
