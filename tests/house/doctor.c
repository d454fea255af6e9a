/* A program that inspects a store by itself, built with the installed headers and weir-doctor. */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

/* The context counts the findings that are faults, and those about operations. */
struct counted {
  int faults, operations;
};

static void count(void *context, const weir_finding *finding) {
  struct counted *counted = context;
  counted->faults += finding->level == WEIR_FINDING_FAULT;
  counted->operations += strcmp(finding->topic, "operations") == 0;
}

int main(void) {
  struct counted counted = {0, 0};
  weir_message message = {""};
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_status status = weir_store_open("memory:?timeout=10s", &store, &message);
  if (status == WEIR_OK) status = weir_store_inspect(store, 0, count, &counted, &message);
  if (status == WEIR_OK)
    status = weir_limiter_create(store, "sliding-window:5/1s", NULL, &limiter, &message);
  if (status == WEIR_OK) status = weir_limiter_inspect(limiter, 0, count, &counted, &message);
  if (status != WEIR_OK) fprintf(stderr, "%s\n", message.text);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return status == WEIR_OK && counted.faults == 0 && counted.operations == 2 ? 0 : 1;
}
