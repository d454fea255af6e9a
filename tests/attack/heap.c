#include "attack/heap.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The functions behind those that this file replaces: glibc's own, or the sanitizer's. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REAL(name) __interceptor_##name
#endif
#endif
#ifndef REAL
#define REAL(name) __libc_##name
#endif

/* NOLINTBEGIN(bugprone-reserved-identifier): names of others */
void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *memory, size_t size);
void *REAL(memalign)(size_t alignment, size_t size);
void REAL(free)(void *memory);
/* NOLINTEND(bugprone-reserved-identifier) */

static _Atomic long blocks;
static _Atomic long bytes;
static _Thread_local bool in_want; /* this thread is the one that finds no memory */
static long asked_so_far;
static long failing_at;
static long failures;
static bool failing_after;
static atomic_bool counting; /* not before a sanitizer can tell the size of a block */

__attribute__((constructor)) static void start_counting(void) {
  counting = true;
}

long heap_blocks(void) {
  return blocks;
}

long heap_bytes(void) {
  return bytes;
}

void heap_fail_at(long number, bool all_after) {
  failing_at = number;
  failing_after = all_after;
  failures = 0;
  asked_so_far = 0;
  in_want = true;
}

long heap_recover(long *asked) {
  in_want = false;
  *asked = asked_so_far;
  return failures;
}

bool heap_has_failed(void) {
  return failures > 0;
}

static bool finds_none(void) {
  if (!in_want) return false;
  long number = asked_so_far++;
  if (number < failing_at || (number > failing_at && !failing_after)) return false;
  failures++;
  errno = ENOMEM;
  return true;
}

static void *count(void *memory) {
  if (memory == NULL || !counting) return memory;
  atomic_fetch_add(&blocks, 1);
  atomic_fetch_add(&bytes, (long)malloc_usable_size(memory));
  return memory;
}

static void discount(void *memory) {
  if (memory == NULL || !counting) return;
  atomic_fetch_sub(&blocks, 1);
  atomic_fetch_sub(&bytes, (long)malloc_usable_size(memory));
}

/* Libraries find these by the dynamic linker. */
#pragma GCC visibility push(default)

void *malloc(size_t size) {
  return finds_none() ? NULL : count(REAL(malloc)(size));
}

void *calloc(size_t number, size_t size) {
  return finds_none() ? NULL : count(REAL(calloc)(number, size));
}

/* One that finds no memory leaves the old block as it is. */
void *realloc(void *memory, size_t size) {
  if (finds_none()) return NULL;
  long before = memory == NULL || !counting ? 0 : (long)malloc_usable_size(memory);
  void *moved = REAL(realloc)(memory, size);
  if (moved == NULL && size > 0) return NULL;
  if (memory != NULL) {
    atomic_fetch_sub(&blocks, 1);
    atomic_fetch_sub(&bytes, before);
  }
  return count(moved);
}

void *memalign(size_t alignment, size_t size) {
  return finds_none() ? NULL : count(REAL(memalign)(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *made = memalign(alignment, size);
  if (made == NULL) return ENOMEM;
  *memory = made;
  return 0;
}

char *strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void free(void *memory) {
  discount(memory);
  REAL(free)(memory);
}

#pragma GCC visibility pop
