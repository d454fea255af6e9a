/* walk_take URL [PID]: one warm decision between two marks, for walk.py to follow.
 *
 * Takes 64 times from one key, so that nothing is met for the first time, and once more inside
 * walked_take(). With a PID that server is stopped before it, so that the last take runs into its
 * deadline. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

enum { WARM_TAKES = 64 };

void walked_take(weir_limiter *limiter, weir_decision *decision);

/* Not inlined, and found by its name. */
__attribute__((noinline)) void walked_take(weir_limiter *limiter, weir_decision *decision) {
  weir_limiter_take(limiter, "visitor", 7, 1, decision, NULL);
}

int main(int count, char **arguments) {
  weir_message why = {""};
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_decision decision = {0};
  weir_limiter_options options = {
      .size = sizeof options, .deadline_us = 30000000, .fallback = WEIR_FALLBACK_NONE};
  if (count != 2 && count != 3) {
    fputs("usage: walk_take URL [PID]\n", stderr);
    return 2;
  }
  pid_t server = count == 3 ? (pid_t)strtol(arguments[2], NULL, 10) : 0;
  if (server != 0) options.deadline_us = 2000000;
  if (weir_store_open(arguments[1], &store, &why) != WEIR_OK) goto fail;
  if (weir_limiter_create(store, "sliding-window:4000/1h", &options, &limiter, &why) != WEIR_OK)
    goto fail;
  for (int i = 0; i < WARM_TAKES; i++)
    if (weir_limiter_take(limiter, "visitor", 7, 1, &decision, &why) != WEIR_OK) goto fail;
  decision = (weir_decision){0};
  if (server != 0) kill(server, SIGSTOP);
  walked_take(limiter, &decision);
  if (server != 0) kill(server, SIGCONT);
  bool admitted = decision.allowed && decision.source == WEIR_SOURCE_STORE;
  if (server != 0) admitted = !admitted;
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return admitted ? 0 : 1;

fail:
  fprintf(stderr, "walk_take: %s\n", why.text);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return 1;
}
