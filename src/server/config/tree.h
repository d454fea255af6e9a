/* YAML as a tree of nodes, each with its place, in memory that goes all at once. */
#ifndef WEIR_CONFIG_TREE_H
#define WEIR_CONFIG_TREE_H

#include "config/faults.h"

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

enum {
  WEIR_TREE_DEPTH_MOST = 64,
  WEIR_TREE_NODES_MOST = 1000000, /* each alias counts as all that it stands for */
  WEIR_TREE_ANCHORS_MOST = 256,
  WEIR_TREE_BYTES_MOST = 64 * 1024 * 1024
};

typedef enum weir_node_kind {
  WEIR_NODE_SCALAR,
  WEIR_NODE_SEQUENCE,
  WEIR_NODE_MAPPING
} weir_node_kind;

typedef struct weir_node weir_node;

typedef struct weir_node_item {
  const weir_node *key; /* of a mapping: a scalar; else NULL */
  weir_node *value;
  struct weir_node_item *next;
} weir_node_item;

struct weir_node {
  weir_node_kind kind;
  bool is_quoted; /* a scalar in quotes or a block, which is never nothing */
  uint8_t height; /* 1 of a scalar */
  uint32_t line, column;
  uint32_t weight;  /* nodes in it, itself and what aliases stand for included */
  uint32_t length;  /* bytes of a scalar, items of the others */
  const char *text; /* of a scalar, with a NUL behind it; it may hold others */
  weir_node_item *items;
};

/* Reads YAML of one document without tags. NULL where there is a fault, or no memory (the arena
 * says so). Keys are scalars, and no mapping has one twice; no alias stands inside what it names.
 */
weir_node *weir_tree_read(const char *file, const char *text, size_t length, weir_arena *arena,
                          weir_config_faults *faults);

#endif
