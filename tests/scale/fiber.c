#include "scale/fiber.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define ON_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ON_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define ON_THREAD_SANITIZER 1
#endif
#endif

/* The sanitizers follow a thread by its stack, and must be told. */
#ifdef ON_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ON_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

/* A take needs some KB; the sanitizers make that several times as much. Memory that is not touched
 * is not there. The page in front of each stack may not be touched. */
enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096 };

struct fiber {
  fiber *next; /* of those that are idle */
  char *stack;
  bool begun;
  ucontext_t begin; /* where it begins */
  jmp_buf parked;   /* where it goes on; unlike a context, without a system call */
  void (*run)(void *);
  void *argument;
#ifdef ON_ADDRESS_SANITIZER
  void *fake_stack;
#endif
#ifdef ON_THREAD_SANITIZER
  void *thread;
#endif
};

static fiber *idle;
static fiber *running;
static size_t busy;
static jmp_buf outside; /* who resumed */

#ifdef ON_ADDRESS_SANITIZER
static void *outside_fake_stack;
static const void *outside_stack;
static size_t outside_bytes;
#endif
#ifdef ON_THREAD_SANITIZER
static void *outside_thread;
#endif

static void jump(jmp_buf from, fiber *to) {
  if (_setjmp(from) != 0) return;
  if (to->begun) _longjmp(to->parked, 1);
  to->begun = true;
  setcontext(&to->begin);
}

static void switch_to(fiber *next) {
  running = next;
#ifdef ON_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&outside_fake_stack, next->stack, STACK_BYTES);
#endif
#ifdef ON_THREAD_SANITIZER
  outside_thread = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(next->thread, 0);
#endif
  jump(outside, next);
#ifdef ON_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(outside_fake_stack, NULL, NULL);
#endif
  running = NULL;
}

static void switch_back(fiber *from) {
#ifdef ON_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from->fake_stack, outside_stack, outside_bytes);
#endif
#ifdef ON_THREAD_SANITIZER
  __tsan_switch_to_fiber(outside_thread, 0);
#endif
  if (_setjmp(from->parked) == 0) _longjmp(outside, 1);
#ifdef ON_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(from->fake_stack, &outside_stack, &outside_bytes);
#endif
}

/* One stack serves many, one after another. */
static void live(void) {
  fiber *self = running;
#ifdef ON_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(NULL, &outside_stack, &outside_bytes);
#endif
  for (;;) {
    self->run(self->argument);
    self->next = idle;
    idle = self;
    busy--;
    switch_back(self);
  }
}

static void give_up(const char *what) {
  perror(what);
  exit(2);
}

static fiber *create(void) {
  fiber *made = calloc(1, sizeof *made);
  if (made == NULL) give_up("a fiber");
  char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) give_up("a stack");
  made->stack = memory + GUARD_BYTES;
  getcontext(&made->begin);
  made->begin.uc_stack.ss_sp = made->stack;
  made->begin.uc_stack.ss_size = STACK_BYTES;
  makecontext(&made->begin, live, 0);
#ifdef ON_THREAD_SANITIZER
  made->thread = __tsan_create_fiber(0);
#endif
  return made;
}

void fiber_start(void (*run)(void *), void *argument) {
  fiber *next = idle;
  if (next != NULL)
    idle = next->next;
  else
    next = create();
  next->run = run;
  next->argument = argument;
  busy++;
  switch_to(next);
}

fiber *fiber_running(void) {
  return running;
}

void fiber_park(void) {
  switch_back(running);
}

void fiber_resume(fiber *parked) {
  switch_to(parked);
}

void fiber_clean_up(void) {
  if (busy > 0) {
    fprintf(stderr, "%zu fibers are parked for ever\n", busy);
    exit(2);
  }
  for (fiber *next; idle != NULL; idle = next) {
    next = idle->next;
#ifdef ON_THREAD_SANITIZER
    __tsan_destroy_fiber(idle->thread);
#endif
    munmap(idle->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    free(idle);
  }
}
