/* Reading nodes into structures by tables of fields. A wrong value is reported with its place, and
 * left at its default.
 *
 * A section of the file is a table of fields and a structure that they are read into. The function
 * of a field gets its member of that structure, so that one function serves every field of a type:
 * a store's name, a file, the key of a check. */
#ifndef WEIR_CONFIG_READER_H
#define WEIR_CONFIG_READER_H

#include "config/config.h"

/* --- the tree -----------------------------------------------------------------------------------
 *
 * YAML as a tree of nodes, each with its place, in memory that goes all at once. */

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

/* --- reading nodes by tables --------------------------------------------------------------------
 */

enum { WEIR_CONFIG_PATH_MOST = 256, WEIR_WATCHED_MOST = 4096 };

typedef struct weir_reader {
  const char *file;
  weir_arena *arena; /* of the configuration */
  weir_config_faults *faults;
  weir_config *config;
  char path[WEIR_CONFIG_PATH_MOST]; /* of what is being read: "limiters.api.rule" */
} weir_reader;

typedef void weir_read_node(weir_reader *reader, const weir_node *node, void *target);

typedef enum weir_field_type {
  WEIR_FIELD_NODE,     /* whatever `read` makes of it */
  WEIR_FIELD_NUMBER,   /* int64_t, from least to most */
  WEIR_FIELD_BYTES,    /* int64_t: a number and B, KiB or MiB */
  WEIR_FIELD_DURATION, /* int64_t, microseconds */
  WEIR_FIELD_BOOL,
  WEIR_FIELD_TEXT,  /* const char *: 1 byte or more, no NUL */
  WEIR_FIELD_CHOICE /* int: which of `choices` */
} weir_field_type;

typedef struct weir_field {
  const char *name;
  weir_field_type type;
  bool may_be_empty; /* nothing, "" and null leave the member as it is */
  size_t offset;     /* of the member */
  int64_t least, most;
  const char *const *choices; /* up to NULL */
  weir_read_node *read;
} weir_field;

/* Rows of a table: a field's name, its type, and the member of the structure that it is read into. */
#define WEIR_ROW(text, kind, structure, member) \
  { .name = (text), .type = WEIR_FIELD_##kind, .offset = offsetof(structure, member) }
#define WEIR_ROW_RANGE(text, kind, structure, member, low, high)                      \
  {                                                                                   \
    .name = (text), .type = WEIR_FIELD_##kind, .offset = offsetof(structure, member), \
    .least = (low), .most = (high)                                                    \
  }
#define WEIR_ROW_CHOICE(text, structure, member, list)                                \
  {                                                                                   \
    .name = (text), .type = WEIR_FIELD_CHOICE, .offset = offsetof(structure, member), \
    .choices = (list)                                                                 \
  }
#define WEIR_ROW_READ(text, function, structure, member) \
  { .name = (text), .read = (function), .offset = offsetof(structure, member) }

/* A mapping with these fields, up to the one without a name; each may be there or not. */
void weir_read_fields(weir_reader *reader, const weir_node *node, const weir_field *fields,
                      void *target);

/* Whether a scalar is this word, and not one with a NUL behind it. */
bool weir_node_is(const weir_node *scalar, const char *word);

/* Whether nothing stands there, as far as a field that may be empty goes; NULL is such a node. */
bool weir_node_is_empty(const weir_node *node);

/* A mapping's field; NULL: it has none of this name. */
const weir_node *weir_node_find(const weir_node *mapping, const char *name);

weir_config_place weir_place(const weir_reader *reader, const weir_node *node);

/* A fault about the node, under the reader's path. */
#define weir_fault(reader, node, ...) \
  weir_config_fault((reader)->faults, weir_place(reader, node), (reader)->path, __VA_ARGS__)

/* The names of an array whose items begin with theirs: `count` of them at most, up to the first that
 * is NULL. */
typedef struct weir_names {
  const void *items;
  size_t size, count; /* size: of an item */
} weir_names;

/* A fault about text that is none of these: "WHAT "txt", did you mean "text"? accepted are ...". */
void weir_fault_unknown(weir_reader *reader, const weir_node *node, const char *what,
                        weir_names names);

/* Sorts pointers to names, so that one can be found by its `length` bytes; NULL: it is not there. The
 * pointer leads to the item that begins with the name, too. */
void weir_sort_names(const char *const **names, size_t count);
const char *const *weir_find_name(const char *const *const *sorted, size_t count, const char *name,
                                  size_t length);

/* Goes on to a part of what is being read; the result takes it back. */
size_t weir_path_enter(weir_reader *reader, const char *part);
void weir_path_leave(weir_reader *reader, size_t length);

/* False after a fault: the node is of another kind. */
bool weir_expect(weir_reader *reader, const weir_node *node, weir_node_kind kind);

/* The same for a list or a mapping, which has at most so many of `what`: "limiters". */
bool weir_expect_most(weir_reader *reader, const weir_node *node, weir_node_kind kind,
                      uint32_t most, const char *what);

/* Text of 1 byte or more without NUL, which lives as long as the configuration; NULL after a fault.
 */
const char *weir_read_text(weir_reader *reader, const weir_node *node);

/* A name of 1 to WEIR_CONFIG_NAME_MOST of A-Z a-z 0-9 _ . -. False after a fault. */
bool weir_read_name(weir_reader *reader, const weir_node *node);

/* A whole number; false after a fault. */
bool weir_read_number(weir_reader *reader, const weir_node *node, int64_t least, int64_t most,
                      int64_t *number);

/* Text with ${NAME} and ${file:PATH} put in. Where it is a URL, what is put in before its last '@'
 * is escaped. NULL after a fault. */
const char *weir_read_secret(weir_reader *reader, const weir_node *node, bool is_url,
                             size_t *length);

/* The part of a value that a fault may quote. A value that looks like a URL or a credential is not
 * shown. */
enum { WEIR_QUOTE_MOST = 48 };
typedef struct weir_quoted {
  char text[WEIR_QUOTE_MOST + 8];
} weir_quoted;
weir_quoted weir_quote(const weir_node *scalar);

/* --- functions of fields ------------------------------------------------------------------------
 */

/* The sections; target: the configuration. */
weir_read_node weir_read_listen, weir_read_stores, weir_read_limiters, weir_read_groups,
    weir_read_envoy;

/* A store by its name; target: const weir_config_store *. */
weir_read_node weir_read_store;

/* Whether it can be the name of a field or an argument of HTTP: A-Z a-z 0-9 _ . - */
bool weir_is_field_name(const char *text);

/* "header:NAME", "query:NAME" or "client"; target: weir_config_key. */
weir_read_node weir_read_key;

/* Warns where a key is the client's address, other hosts reach the listener, and it trusts no proxy. Once
 * all is read. */
void weir_warn_of_untrusted(weir_reader *reader);

/* The store of what names none: the only one there is; NULL after a fault about `whole`. */
const weir_config_store *weir_only_store(weir_reader *reader, const weir_node *whole);

/* A list of domains, with room for all that files may add; false: no memory. */
bool weir_envoy_make_room(weir_reader *reader);

/* Adds what a descriptor file says to config->envoy, once there is room: reader->file is its name,
 * and the reader one of its own. */
void weir_read_descriptor_file(weir_reader *reader, const char *text, size_t length);

/* --- files (files.c) ----------------------------------------------------------------------------
 */

/* The path of a file that is named in the configuration: as it is when absolute, else beside the
 * file that names it. NULL: no memory. */
const char *weir_resolve_file(weir_reader *reader, const char *name);

/* A whole file; free() it. NULL after a fault, also of no memory. */
char *weir_config_read_bytes(const char *file, size_t *length, weir_config_faults *faults);

/* One more file that is watched for changes. */
void weir_watch_file(weir_reader *reader, const char *name);

#endif
