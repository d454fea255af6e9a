#include "transcript/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm/algorithm.h"
#include "fixture/chance.h"
#include "store/store.h"

#define HOUR_US INT64_C(3600000000)

recorder the_recorder;

/* FNV-1a: a transcript is compared, never attacked. */
static void add_bytes(const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < count; i++)
    the_recorder.hash = (the_recorder.hash ^ at[i]) * UINT64_C(0x100000001b3);
}

void recorder_note(const char *name, int64_t value) {
  if (the_recorder.printed) printf(" %s=%" PRId64, name, value);
  add_bytes(&value, sizeof value);
}

/* The rest is on a line of its own. */
static void begin(const char *what) {
  if (the_recorder.printed) printf("\n%s", what);
  add_bytes(what, strlen(what));
}

/* How the counter is called: by its text, or by what its identity was made of. */
static void note_name(const weir_operation *operation) {
  if (operation->key == NULL) {
    recorder_note("rule", operation->counter.rule);
    recorder_note("place", operation->counter.place);
    recorder_note("index", operation->counter.index);
    recorder_note("entry", operation->counter.entry);
    return;
  }
  if (the_recorder.printed) printf(" %.*s", (int)operation->key_length, operation->key);
  add_bytes(operation->key, operation->key_length);
}

void recorder_note_asked(const weir_operation *operation) {
  weir_operation_kind kind = operation->kind;
  begin("  asks");
  recorder_note("kind", kind);
  note_name(operation);
  recorder_note("raised", operation->raised);
  if (kind == WEIR_ADD || kind == WEIR_RAISE) recorder_note("refresh", operation->refresh);
  if (kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_RAISE)
    recorder_note("delta", operation->delta);
  if (kind == WEIR_ADD) recorder_note("seed", operation->seed);
  if (kind == WEIR_RAISE) recorder_note("floor", operation->floor);
  if (kind != WEIR_GET && kind != WEIR_DROP) recorder_note("ttl", operation->ttl_us);
  if (kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT)
    recorder_note("value", operation->value);
  the_recorder.operations++;
}

/* Versions are the server's own numbers, and in no transcript. */
void recorder_note_answer(const weir_operation *operation) {
  weir_operation_kind kind = operation->kind;
  begin("  answer");
  recorder_note("outcome", operation->outcome);
  if (operation->outcome == WEIR_DONE &&
      (kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_GET || kind == WEIR_RAISE))
    recorder_note("value", operation->value);
}

/* Servers count the life of keys in a time of their own, which must not show: none ends here. */
static void pass_on(weir_operation *operations, size_t count, int64_t deadline_us,
                    weir_message *message) {
  int64_t *lives = malloc(count * sizeof *lives + 1);
  if (lives == NULL) abort();
  for (size_t i = 0; i < count; i++) {
    lives[i] = operations[i].ttl_us;
    if (lives[i] > 0 && lives[i] < HOUR_US) operations[i].ttl_us = HOUR_US;
  }
  weir_store_exec(the_recorder.behind, operations, count, deadline_us, message);
  for (size_t i = 0; i < count; i++)
    operations[i].ttl_us = lives[i];
  free(lives);
}

static void fail(weir_operation *operation, weir_outcome outcome, bool late) {
  operation->outcome = outcome;
  operation->late = late && outcome != WEIR_REFUSED;
}

/* One operation fails; half of the unknown ones were executed. */
static void fail_one(weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message) {
  static const weir_outcome outcomes[] = {WEIR_NOT_SENT, WEIR_UNKNOWN, WEIR_UNKNOWN, WEIR_REFUSED};
  uint32_t *seed = &the_recorder.chance;
  size_t victim = chance(seed, (uint32_t)count);
  uint32_t how = chance(seed, 4);
  bool late = chance(seed, 2) == 0;
  if (how == 1) {
    pass_on(operations, count, deadline_us, message);
  } else {
    pass_on(operations, victim, deadline_us, message);
    pass_on(operations + victim + 1, count - victim - 1, deadline_us, message);
  }
  fail(&operations[victim], outcomes[how], late);
  weir_message_set(message, "the recorder made it fail");
}

static void fail_all(weir_operation *operations, size_t count, weir_message *message) {
  the_recorder.away--;
  for (size_t i = 0; i < count; i++)
    fail(&operations[i], WEIR_NOT_SENT, false);
  weir_message_set(message, "the recorder is away");
}

/* A round trip takes a while, and at times longer than a request has. */
static void take_time(void) {
  uint32_t *seed = &the_recorder.chance;
  recorder_move(chance(seed, 500));
  if (chance(seed, 60) == 0) recorder_move(chance(seed, 400000));
}

static void recorder_exec(void *handle, weir_operation *operations, size_t count,
                          int64_t deadline_us, weir_message *message) {
  (void)handle;
  begin(" exec");
  for (size_t i = 0; i < count; i++)
    recorder_note_asked(&operations[i]);
  if (the_recorder.away > 0)
    fail_all(operations, count, message);
  else if (the_recorder.faulty && chance(&the_recorder.chance, 15) == 0)
    fail_one(operations, count, deadline_us, message);
  else
    pass_on(operations, count, deadline_us, message);
  if (the_recorder.faulty) take_time();
  for (size_t i = 0; i < count; i++)
    recorder_note_answer(&operations[i]);
}

static weir_status recorder_open_handle(const weir_url *url, int64_t timeout_us, void **handle,
                                        weir_message *message) {
  (void)url, (void)timeout_us, (void)message;
  *handle = &the_recorder;
  return WEIR_OK;
}

static void recorder_close_handle(void *handle) {
  (void)handle;
  weir_store_close(the_recorder.behind);
}

static _Noreturn void give_up(const char *what, const weir_message *why) {
  fprintf(stderr, "transcript: %s: %s\n", what, why->text);
  exit(1);
}

static const weir_scheme schemes[] = {{"recorder", 0}, {NULL, 0}};
static const char *const no_options[] = {NULL};

weir_store *recorder_open(const char *url, const char *name, bool texts) {
  /* The library keeps a pointer to it. */
  static weir_backend backend = {.size = sizeof(weir_backend),
                                 .name = "recorder",
                                 .schemes = schemes,
                                 .options = no_options,
                                 .open = recorder_open_handle,
                                 .exec = recorder_exec,
                                 .close = recorder_close_handle};
  char own[128];
  weir_message why = {""};
  weir_store *store;
  if (weir_store_open(url, &the_recorder.behind, &why) != WEIR_OK) give_up(url, &why);
  backend.traits = the_recorder.behind->backend->traits;
  if (texts) backend.traits = WEIR_TRAIT_SWAP;
  snprintf(own, sizeof own, "recorder:?namespace=%s", name);
  if (weir_store_open_backend(&backend, own, &store, &why) != WEIR_OK) give_up(own, &why);
  return store;
}

void recorder_close(weir_store *store) {
  weir_store_close(store);
}

void recorder_move(int64_t us) {
  the_recorder.clock_us += us;
  if (us > 0) the_recorder.monotonic_us += us;
}

static int64_t read_clock(void *context) {
  (void)context;
  return the_recorder.clock_us;
}

weir_clock recorder_clock(void) {
  return (weir_clock){read_clock, NULL};
}

/* The library would ask the machine for these: linked with --wrap. */
int64_t __wrap_weir_monotonic_us(void);
int64_t __wrap_weir_monotonic_us(void) {
  return the_recorder.monotonic_us;
}

/* Where the environment says so, no charge is plain. */
weir_machine *__real_weir_machine_init(void *memory, const weir_stack *stack,
                                       const weir_settings *settings);
weir_machine *__wrap_weir_machine_init(void *memory, const weir_stack *stack,
                                       const weir_settings *settings);
weir_machine *__wrap_weir_machine_init(void *memory, const weir_stack *stack,
                                       const weir_settings *settings) {
  weir_machine *machine = __real_weir_machine_init(memory, stack, settings);
  machine->phases_only = getenv("WEIR_TEST_PHASES_ONLY") != NULL;
  return machine;
}

void __wrap_weir_sleep_until(int64_t until_us);
void __wrap_weir_sleep_until(int64_t until_us) {
  if (until_us > the_recorder.monotonic_us) recorder_move(until_us - the_recorder.monotonic_us);
}

int64_t __wrap_weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us);
int64_t __wrap_weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us) {
  (void)attempt;
  return base_us < most_us ? base_us : most_us;
}

void __wrap_randombytes_buf(void *bytes, size_t count);
void __wrap_randombytes_buf(void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    the_recorder.random =
        the_recorder.random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    ((unsigned char *)bytes)[i] = (unsigned char)(the_recorder.random >> 56);
  }
}
