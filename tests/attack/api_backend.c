/* A store of the hunt's own: that of this process behind one that is late, loses questions before and
 * answers after they were executed, as a network does. And it calls what is offered to backends alone. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attack/api_hunt.h"
#include "fixture/chance.h"

extern const weir_backend weir_memory_backend;

static _Atomic uint32_t draws;

static uint32_t draw(uint32_t of) {
  uint32_t seed = atomic_fetch_add_explicit(&draws, 1, memory_order_relaxed) * 2654435761U;
  chance(&seed, 2);
  return chance(&seed, of);
}

static void rest_us(long us) {
  nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* All that the URL may say is read by the functions for it, with ends that are out of order too. */
static weir_status own_open(const weir_url *url, int64_t timeout_us, void **handle,
                            weir_message *message) {
  static const char *const words[] = {"one", "two", NULL};
  weir_message why;
  int64_t number;
  size_t word;
  (void)timeout_us;
  weir_message_set(&why, "%s", "nothing is wrong");
  weir_message_prefix(&why, "%s: ", url->scheme);
  weir_status status = weir_url_duration(url, "wait", 1, 1000000, 1, &number, &why);
  if (status == WEIR_OK) status = weir_url_integer(url, "number", -5, 5, 0, &number, &why);
  if (status == WEIR_OK) status = weir_url_word(url, "word", words, 0, &word, &why);
  if (weir_url_find(url, "absent") != NULL) abort();
  if (status != WEIR_OK) {
    weir_message_set(message, "%s", why.text);
    return status;
  }
  const weir_url plain = {.scheme = "memory", .path = ""};
  return weir_memory_backend.open(&plain, timeout_us, handle, message);
}

static void own_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message) {
  char shown[WEIR_KEY_SHOWN_BYTES];
  uint32_t fate = draw(64);
  if (fate < 8) rest_us((long)draw(3000));
  if (fate == 8) rest_us((long)draw(60000));
  bool lost = fate == 9;
  if (!lost) weir_memory_backend.exec(handle, operations, count, deadline_us, message);
  bool late = weir_monotonic_us() > deadline_us || fate == 10;
  if (!lost && !late) return;
  for (size_t i = 0; i < count; i++) {
    operations[i].outcome = lost ? WEIR_NOT_SENT : WEIR_UNKNOWN;
    operations[i].late = draw(2) == 0;
  }
  weir_message_set(message, "%s: lost by chance", weir_operation_show_key(operations, shown));
}

static const weir_scheme schemes[] = {{"own", 0}, {NULL, 0}};
static const char *const options[] = {"wait", "number", "word", NULL};

static void own_close(void *handle) {
  weir_memory_backend.close(handle);
}

const weir_backend api_backend = {.size = sizeof(weir_backend),
                                  .name = "own",
                                  .schemes = schemes,
                                  .options = options,
                                  .traits = WEIR_TRAIT_SWAP,
                                  .open = own_open,
                                  .exec = own_exec,
                                  .close = own_close};
