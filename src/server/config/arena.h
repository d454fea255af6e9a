/* Memory that goes all at once. */
#ifndef WEIR_CONFIG_ARENA_H
#define WEIR_CONFIG_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_arena_block weir_arena_block;

/* Zero it before use. */
typedef struct weir_arena {
  weir_arena_block *blocks;
  size_t used; /* of the newest block */
  bool failed; /* memory was lacking at least once */
} weir_arena;

/* Zeroed, aligned for anything; NULL: no memory. */
void *weir_arena_take(weir_arena *arena, size_t count, size_t size);

/* A copy with a NUL behind it. */
char *weir_arena_copy(weir_arena *arena, const char *text, size_t length);

void weir_arena_free(weir_arena *arena);

#endif
