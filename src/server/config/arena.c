/* Blocks of memory, handed out from their start. */
#include "config/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct weir_arena_block {
  weir_arena_block *next;
  size_t bytes;
  _Alignas(ALIGNMENT) char memory[];
};

static bool add_block(weir_arena *arena, size_t bytes) {
  if (bytes < BLOCK_BYTES) bytes = BLOCK_BYTES;
  weir_arena_block *block = malloc(sizeof *block + bytes);
  if (block == NULL) return false;
  *block = (weir_arena_block){.next = arena->blocks, .bytes = bytes};
  arena->blocks = block;
  arena->used = 0;
  return true;
}

void *weir_arena_take(weir_arena *arena, size_t count, size_t size) {
  if (size != 0 && count > (SIZE_MAX / 2) / size) return NULL;
  size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  bool fits = arena->blocks != NULL && bytes <= arena->blocks->bytes - arena->used;
  if (!fits && !add_block(arena, bytes)) {
    arena->failed = true;
    return NULL;
  }
  void *memory = arena->blocks->memory + arena->used;
  arena->used += bytes;
  return memset(memory, 0, bytes);
}

char *weir_arena_copy(weir_arena *arena, const char *text, size_t length) {
  char *copy = weir_arena_take(arena, length + 1, 1);
  if (copy != NULL) memcpy(copy, text, length);
  return copy;
}

void weir_arena_free(weir_arena *arena) {
  while (arena->blocks != NULL) {
    weir_arena_block *block = arena->blocks;
    arena->blocks = block->next;
    free(block);
  }
  arena->used = 0;
}
