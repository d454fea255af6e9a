/* From libyaml's events to a tree, and the faults of files. Libyaml's own documents are not used:
 * they are built whole before their nodes can be counted, and let a file need a hundred times its
 * size. */
#include "config/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "table.h"

/* --- memory: blocks, handed out from their start ------------------------------------------------
 */

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct weir_arena_block {
  weir_arena_block *next;
  size_t bytes;
  _Alignas(ALIGNMENT) char memory[];
};

void *weir_arena_take(weir_arena *arena, size_t count, size_t size) {
  if (size != 0 && count > (SIZE_MAX / 2) / size) return NULL;
  size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (arena->blocks == NULL || bytes > arena->blocks->bytes - arena->used) {
    size_t room = bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes;
    weir_arena_block *block = malloc(sizeof *block + room);
    if (block == NULL) {
      arena->failed = true;
      return NULL;
    }
    *block = (weir_arena_block){.next = arena->blocks, .bytes = room};
    arena->blocks = block;
    arena->used = 0;
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

/* --- building -----------------------------------------------------------------------------------
 */

typedef struct open_node {
  weir_node *node;
  weir_node_item *last;
  const weir_node *key; /* of a mapping, whose value comes next */
  uint32_t nodes_before;
} open_node;

typedef struct anchor {
  const char *name;
  weir_node *node;
  struct anchor *next;
} anchor;

typedef struct builder {
  const char *file;
  const char *text;
  size_t length;
  weir_arena *arena;
  weir_config_faults *faults;
  yaml_parser_t parser;
  open_node open[WEIR_TREE_DEPTH_MOST];
  size_t depth;
  uint32_t nodes;
  anchor *anchors;
  size_t anchor_count;
  weir_node *root;
  bool has_document;
  weir_hash_table keys; /* of the mapping that is being closed; empty between two of them */
} builder;

static weir_config_place place_of(const builder *self, yaml_mark_t mark) {
  return (weir_config_place){self->file, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

/* --- mappings: no key twice ---------------------------------------------------------------------
 */

static bool is_same(const void *context, const void *item, const void *wanted) {
  const weir_node *a = *(const weir_node *const *)item;
  const weir_node *b = wanted;
  (void)context;
  return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

static bool check_keys(builder *self, const weir_node *mapping) {
  weir_hash_table *seen = &self->keys;
  bool has_memory = weir_hash_table_fit(seen, mapping->length);
  for (const weir_node_item *item = mapping->items; has_memory && item != NULL; item = item->next) {
    const weir_node *key = item->key;
    uint32_t mark = weir_hash_table_mark(seen, key->text, key->length);
    const weir_node **first = weir_hash_table_find(seen, mark, key);
    if (first == NULL)
      *(const weir_node **)weir_hash_table_add(seen, mark) = key;
    else
      weir_config_fault(self->faults, (weir_config_place){self->file, key->line, key->column}, "",
                        "key \"%.64s\" stands twice in one mapping, first in line %u", key->text,
                        (*first)->line);
  }
  weir_hash_table_clean_up(seen);
  self->arena->failed |= !has_memory;
  return has_memory;
}

/* --- nodes --------------------------------------------------------------------------------------
 */

static bool count_nodes(builder *self, uint32_t more, yaml_mark_t mark) {
  if (more <= WEIR_TREE_NODES_MOST - self->nodes) {
    self->nodes += more;
    return true;
  }
  weir_config_fault(self->faults, place_of(self, mark), "",
                    "more than %d nodes, all that aliases stand for included",
                    WEIR_TREE_NODES_MOST);
  return false;
}

static bool check_height(builder *self, unsigned height, yaml_mark_t mark) {
  if (self->depth + height <= WEIR_TREE_DEPTH_MOST) return true;
  weir_config_fault(self->faults, place_of(self, mark), "", "nested deeper than %d",
                    WEIR_TREE_DEPTH_MOST);
  return false;
}

static weir_node *make_node(builder *self, weir_node_kind kind, yaml_mark_t mark) {
  if (!count_nodes(self, 1, mark) || !check_height(self, 1, mark)) return NULL;
  weir_node *node = weir_arena_take(self->arena, 1, sizeof *node);
  if (node == NULL) return NULL;
  *node = (weir_node){.kind = kind,
                      .height = 1,
                      .weight = 1,
                      .line = (uint32_t)mark.line + 1,
                      .column = (uint32_t)mark.column + 1};
  return node;
}

static bool append(builder *self, open_node *parent, weir_node *node) {
  weir_node_item *item = weir_arena_take(self->arena, 1, sizeof *item);
  if (item == NULL) return false;
  *item = (weir_node_item){.key = parent->key, .value = node};
  parent->key = NULL;
  if (parent->last == NULL)
    parent->node->items = item;
  else
    parent->last->next = item;
  parent->last = item;
  parent->node->length++;
  return true;
}

/* Puts a node where it stands: into what is open, or at the root. */
static bool place_node(builder *self, weir_node *node, yaml_mark_t mark) {
  if (self->depth == 0) {
    self->root = node;
    return true;
  }
  open_node *parent = &self->open[self->depth - 1];
  if (parent->node->kind == WEIR_NODE_SEQUENCE || parent->key != NULL)
    return append(self, parent, node);
  if (node->kind != WEIR_NODE_SCALAR) {
    weir_config_fault(self->faults, place_of(self, mark), "",
                      "a mapping or list as a key; accepted is text");
    return false;
  }
  parent->key = node;
  return true;
}

static bool remember(builder *self, const yaml_char_t *name, weir_node *node, yaml_mark_t mark) {
  if (name == NULL) return true;
  if (self->anchor_count == WEIR_TREE_ANCHORS_MOST) {
    weir_config_fault(self->faults, place_of(self, mark), "", "more than %d anchors",
                      WEIR_TREE_ANCHORS_MOST);
    return false;
  }
  anchor *made = weir_arena_take(self->arena, 1, sizeof *made);
  char *copy = weir_arena_copy(self->arena, (const char *)name, strlen((const char *)name));
  if (made == NULL || copy == NULL) return false;
  *made = (anchor){.name = copy, .node = node, .next = self->anchors};
  self->anchors = made;
  self->anchor_count++;
  return true;
}

static bool refuse_tag(builder *self, const yaml_char_t *tag, yaml_mark_t mark) {
  if (tag == NULL) return true;
  weir_config_fault(self->faults, place_of(self, mark), "", "tag \"%.64s\"; none is accepted",
                    (const char *)tag);
  return false;
}

/* --- events -------------------------------------------------------------------------------------
 */

static bool add_scalar(builder *self, const yaml_event_t *event) {
  yaml_mark_t mark = event->start_mark;
  if (!refuse_tag(self, event->data.scalar.tag, mark)) return false;
  weir_node *node = make_node(self, WEIR_NODE_SCALAR, mark);
  if (node == NULL) return false;
  node->length = (uint32_t)event->data.scalar.length;
  node->text = weir_arena_copy(self->arena, (const char *)event->data.scalar.value, node->length);
  node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  return node->text != NULL && remember(self, event->data.scalar.anchor, node, mark) &&
         place_node(self, node, mark);
}

static bool open_collection(builder *self, weir_node_kind kind, const yaml_char_t *anchor_name,
                            const yaml_char_t *tag, yaml_mark_t mark) {
  uint32_t before = self->nodes;
  if (!refuse_tag(self, tag, mark)) return false;
  weir_node *node = make_node(self, kind, mark);
  if (node == NULL || !remember(self, anchor_name, node, mark) || !place_node(self, node, mark))
    return false;
  node->height = 0; /* until it is closed */
  self->open[self->depth++] = (open_node){.node = node, .nodes_before = before};
  return true;
}

static bool close_collection(builder *self) {
  open_node *closed = &self->open[--self->depth];
  weir_node *node = closed->node;
  unsigned height = 0;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    if (item->value->height > height) height = item->value->height;
  node->height = (uint8_t)(height + 1);
  node->weight = self->nodes - closed->nodes_before;
  return node->kind == WEIR_NODE_SEQUENCE || check_keys(self, node);
}

static bool add_alias(builder *self, const yaml_event_t *event) {
  const char *name = (const char *)event->data.alias.anchor;
  yaml_mark_t mark = event->start_mark;
  const anchor *found = self->anchors;
  while (found != NULL && strcmp(found->name, name) != 0)
    found = found->next;
  if (found == NULL) {
    weir_config_fault(self->faults, place_of(self, mark), "",
                      "alias *%.64s; no anchor &%.64s stands before it", name, name);
    return false;
  }
  if (found->node->height == 0) {
    weir_config_fault(self->faults, place_of(self, mark), "",
                      "alias *%.64s stands inside what it names; cycles are not accepted", name);
    return false;
  }
  return count_nodes(self, found->node->weight, mark) &&
         check_height(self, found->node->height, mark) && place_node(self, found->node, mark);
}

static bool take_event(builder *self, const yaml_event_t *event) {
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      if (!self->has_document) return self->has_document = true;
      weir_config_fault(self->faults, place_of(self, event->start_mark), "",
                        "a second document; one is accepted");
      return false;
    case YAML_SCALAR_EVENT:
      return add_scalar(self, event);
    case YAML_ALIAS_EVENT:
      return add_alias(self, event);
    case YAML_SEQUENCE_START_EVENT:
      return open_collection(self, WEIR_NODE_SEQUENCE, event->data.sequence_start.anchor,
                             event->data.sequence_start.tag, event->start_mark);
    case YAML_MAPPING_START_EVENT:
      return open_collection(self, WEIR_NODE_MAPPING, event->data.mapping_start.anchor,
                             event->data.mapping_start.tag, event->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      return close_collection(self);
    default:
      return true;
  }
}

/* Where bytes are no text, libyaml knows only their offset. */
static weir_config_place place_of_byte(const builder *self, size_t offset) {
  weir_config_place place = {self->file, 1, 1};
  for (size_t i = 0; i < offset && i < self->length; i++) {
    bool is_rest_of_character = ((unsigned char)self->text[i] & 0xc0) == 0x80;
    if (self->text[i] == '\n')
      place = (weir_config_place){self->file, place.line + 1, 1};
    else
      place.column += !is_rest_of_character;
  }
  return place;
}

static void report_parser(builder *self) {
  const yaml_parser_t *parser = &self->parser;
  if (parser->error == YAML_MEMORY_ERROR) {
    self->arena->failed = true;
    return;
  }
  weir_config_place place = parser->error == YAML_READER_ERROR
                                ? place_of_byte(self, parser->problem_offset)
                                : place_of(self, parser->problem_mark);
  bool is_tab = false; /* libyaml counts characters there, and no bytes */
  size_t index = parser->error == YAML_SCANNER_ERROR ? parser->problem_mark.index : SIZE_MAX;
  for (size_t i = 0; i < self->length && index != SIZE_MAX; i++) {
    bool is_rest_of_character = ((unsigned char)self->text[i] & 0xc0) == 0x80;
    if (is_rest_of_character || index-- > 0) continue;
    is_tab = self->text[i] == '\t';
    break;
  }
  weir_config_fault(self->faults, place, "", "no YAML: %s%s%s%s",
                    parser->context != NULL ? parser->context : "",
                    parser->context != NULL ? ", " : "",
                    parser->problem != NULL ? parser->problem : "it cannot be read",
                    is_tab ? ": a tab; blanks are accepted before what stands in a line" : "");
}

weir_node *weir_tree_read(const char *file, const char *text, size_t length, weir_arena *arena,
                          weir_config_faults *faults) {
  /* Some editors begin a file with what says that it is UTF-8; libyaml takes it for a character. */
  size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  builder self = {
      .file = file, .text = text + mark, .length = length - mark, .arena = arena, .faults = faults};
  if (!yaml_parser_initialize(&self.parser)) {
    arena->failed = true;
    return NULL;
  }
  weir_hash_table_init(&self.keys, sizeof(weir_node *), is_same, NULL);
  yaml_parser_set_encoding(&self.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&self.parser, (const unsigned char *)self.text, self.length);
  bool good = true, is_end = false;
  while (good && !is_end) {
    yaml_event_t event;
    good = yaml_parser_parse(&self.parser, &event) != 0;
    if (!good) {
      report_parser(&self);
      break;
    }
    is_end = event.type == YAML_STREAM_END_EVENT;
    good = take_event(&self, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&self.parser);
  if (good && self.root == NULL)
    weir_config_fault(faults, (weir_config_place){file, 1, 1}, "",
                      "the file is empty; accepted is a mapping");
  return good ? self.root : NULL;
}

/* --- faults, kept in the order of their places --------------------------------------------------
 */

/* The place and the path, and how long they are. */
static size_t write_head(weir_message *message, weir_config_place place, const char *kind,
                         const char *path) {
  const char *separator = path[0] != '\0' ? ": " : "";
  int length = place.line == 0
                   ? snprintf(message->text, sizeof message->text, "%s: %s%s%s", place.file, kind,
                              path, separator)
                   : snprintf(message->text, sizeof message->text, "%s:%u:%u: %s%s%s", place.file,
                              place.line, place.column, kind, path, separator);
  return length < (int)sizeof message->text ? (size_t)length : sizeof message->text - 1;
}

static bool stands_before(const weir_config_fault_line *a, const weir_config_fault_line *b) {
  size_t common = a->file_length < b->file_length ? a->file_length : b->file_length;
  int order = memcmp(a->text.text, b->text.text, common);
  if (order != 0) return order < 0;
  if (a->file_length != b->file_length) return a->file_length < b->file_length;
  return a->line != b->line ? a->line < b->line : a->column < b->column;
}

__attribute__((format(printf, 5, 0))) static void keep(weir_config_faults *faults,
                                                       weir_config_place place, const char *kind,
                                                       const char *path, const char *format,
                                                       va_list arguments) {
  faults->count++;
  if (faults->kept == WEIR_CONFIG_FAULTS_MOST) return;
  weir_config_fault_line line = {.line = place.line, .column = place.column};
  size_t head = write_head(&line.text, place, kind, path);
  vsnprintf(line.text.text + head, sizeof line.text.text - head, format, arguments);
  /* Quoted bytes of a file must not move a cursor or end the line. */
  for (char *at = line.text.text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  line.file_length = strnlen(place.file, sizeof line.text.text - 1);
  /* Where lines are equal, what was found first comes first. */
  size_t at = faults->kept++;
  for (; at > 0 && stands_before(&line, &faults->lines[at - 1]); at--)
    faults->lines[at] = faults->lines[at - 1];
  faults->lines[at] = line;
}

void weir_config_fault(weir_config_faults *faults, weir_config_place place, const char *path,
                       const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(faults, place, "", path, format, arguments);
  va_end(arguments);
}

void weir_config_warn(weir_config_faults *faults, weir_config_place place, const char *path,
                      const char *format, ...) {
  va_list arguments;
  if (faults->warnings == NULL) return;
  va_start(arguments, format);
  keep(faults->warnings, place, "warning: ", path, format, arguments);
  va_end(arguments);
}
