/* fresh --store URL [--processes N] [--load N] [--most N]
 *
 * Processes that have just started, one after another, on a machine that has other work: beside so many
 * busy loops. Each takes a few times for a key that nobody has seen, far below the limit, without
 * connecting first. So its first answers may be late, and its share of the limit is but an eighth. The
 * store never left: what it has said holds, and nobody may be denied. More than --most processes that
 * deny are a failure; the default is 0.
 *
 * URL may be the name of an environment variable. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"

enum { TAKES = 5, LOAD_MOST = 64 };

#define PATIENCE_US (30 * SECOND_US)

static const char rule[] = "sliding-window:20/1m,name=fresh";

/* Parent and children share this. */
typedef struct shared {
  _Atomic int denied, late, denying_processes, late_processes;
} shared;

static shared *common;
static struct {
  const char *url;
  int processes, load, most;
} settings = {.processes = 100, .load = 10};

static void take_first(void *context) {
  char key[64];
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  int denied = 0;
  int late = 0;
  int length = snprintf(key, sizeof key, "fresh-%ld-%d", (long)getppid(), *(const int *)context);
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, rule, NULL, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  for (int i = 0; i < TAKES; i++) {
    weir_decision decision = {0};
    weir_status status = weir_limiter_take(limiter, key, (size_t)length, 1, &decision, &message);
    if (status != WEIR_OK) give_up("%s: %s", weir_status_name(status), message.text);
    late += decision.source != WEIR_SOURCE_STORE;
    if (decision.allowed) continue;
    denied++;
    fprintf(stderr, "fresh: process %d, take %d: denied, source %d, store %s: %s\n",
            *(const int *)context, i + 1, (int)decision.source,
            weir_status_name(decision.store_status), message.text);
  }
  atomic_fetch_add(&common->denied, denied);
  atomic_fetch_add(&common->late, late);
  atomic_fetch_add(&common->denying_processes, denied > 0);
  atomic_fetch_add(&common->late_processes, late > 0);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void burn(void *context) {
  (void)context;
  for (;;)
    atomic_signal_fence(memory_order_seq_cst);
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    int number = (int)strtol(arguments[i + 1], NULL, 10);
    if (strcmp(arguments[i], "--store") == 0)
      settings.url = arguments[i + 1];
    else if (strcmp(arguments[i], "--processes") == 0)
      settings.processes = number;
    else if (strcmp(arguments[i], "--load") == 0)
      settings.load = number;
    else if (strcmp(arguments[i], "--most") == 0)
      settings.most = number;
    else
      give_up("no such option: %s", arguments[i]);
  }
  if (settings.url != NULL && getenv(settings.url) != NULL) settings.url = getenv(settings.url);
  if (settings.url == NULL || settings.load < 0 || settings.load > LOAD_MOST ||
      settings.processes < 1)
    give_up("usage: fresh --store URL [--processes N] [--load 0 to %d] [--most N]", LOAD_MOST);
}

int main(int count, char **arguments) {
  pid_t loops[LOAD_MOST];
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  for (int i = 0; i < settings.load; i++)
    loops[i] = start_process(burn, NULL);
  for (int i = 0; i < settings.processes; i++)
    if (!await_process(start_process(take_first, &i), PATIENCE_US)) give_up("process %d failed", i);
  for (int i = 0; i < settings.load; i++)
    end_process(loops[i]);
  printf(
      "%s: %d of %d processes deny, %d of %d takes; the policy answered %d takes of %d processes\n",
      settings.url, common->denying_processes, settings.processes, common->denied,
      TAKES * settings.processes, common->late, common->late_processes);
  return common->denying_processes <= settings.most ? 0 : 1;
}
