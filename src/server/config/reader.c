/* Nodes by tables of fields: kinds, ranges, and what is said of the rest. */
#include "config/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/word.h>

enum { LIST_BYTES = 400 };

weir_config_place weir_place(const weir_reader *reader, const weir_node *node) {
  return (weir_config_place){reader->file, node->line, node->column};
}

size_t weir_path_enter(weir_reader *reader, const char *part) {
  size_t length = strlen(reader->path);
  snprintf(reader->path + length, sizeof reader->path - length, "%s%s", length > 0 ? "." : "",
           part);
  return length;
}

void weir_path_leave(weir_reader *reader, size_t length) {
  reader->path[length] = '\0';
}

weir_quoted weir_quote(const weir_node *scalar) {
  weir_quoted quoted;
  const char *text = scalar->text;
  if (strstr(text, "://") != NULL || strchr(text, '@') != NULL)
    snprintf(quoted.text, sizeof quoted.text, "\"***\"");
  else
    snprintf(quoted.text, sizeof quoted.text, "\"%.*s%s\"", WEIR_QUOTE_MOST, text,
             scalar->length > WEIR_QUOTE_MOST ? "..." : "");
  return quoted;
}

/* --- kinds --------------------------------------------------------------------------------------
 */

bool weir_node_is(const weir_node *scalar, const char *word) {
  return strlen(word) == scalar->length && memcmp(scalar->text, word, scalar->length) == 0;
}

/* YAML's nothing, which is no text: a scalar in quotes is. */
static bool is_nothing(const weir_node *node) {
  return node->kind == WEIR_NODE_SCALAR && !node->is_quoted &&
         (node->length == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

bool weir_node_is_empty(const weir_node *node) {
  return node == NULL || is_nothing(node) || (node->kind == WEIR_NODE_SCALAR && node->length == 0);
}

bool weir_expect(weir_reader *reader, const weir_node *node, weir_node_kind kind) {
  static const char *const names[] = {[WEIR_NODE_SCALAR] = "text",
                                      [WEIR_NODE_SEQUENCE] = "a list",
                                      [WEIR_NODE_MAPPING] = "a mapping"};
  bool is_empty = is_nothing(node);
  if (node->kind == kind && !(kind == WEIR_NODE_SCALAR && is_empty)) return true;
  weir_fault(reader, node, "found %s, accepted is %s", is_empty ? "nothing" : names[node->kind],
             names[kind]);
  return false;
}

bool weir_expect_most(weir_reader *reader, const weir_node *node, weir_node_kind kind,
                      uint32_t most, const char *what) {
  if (!weir_expect(reader, node, kind)) return false;
  if (node->length <= most) return true;
  weir_fault(reader, node, "found %u %s, accepted are %u", node->length, what, most);
  return false;
}

/* --- scalars ------------------------------------------------------------------------------------
 */

const char *weir_read_text(weir_reader *reader, const weir_node *node) {
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return NULL;
  if (node->length == 0 || strlen(node->text) != node->length) {
    weir_fault(reader, node, "found %s, accepted is text",
               node->length == 0 ? "empty text" : "text with a NUL byte");
    return NULL;
  }
  return weir_arena_copy(reader->arena, node->text, node->length);
}

bool weir_read_name(weir_reader *reader, const weir_node *node) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (node->length >= 1 && node->length <= WEIR_CONFIG_NAME_MOST &&
      strspn(node->text, accepted) == node->length)
    return true;
  weir_fault(reader, node, "name %s: accepted are 1 to %d of A-Z a-z 0-9 _ . -",
             weir_quote(node).text, WEIR_CONFIG_NAME_MOST);
  return false;
}

/* The digits at the start of a scalar; what stands behind them. */
static bool read_digits(const weir_node *node, int64_t *number, const char **rest) {
  char *end;
  size_t digits = strspn(node->text, "0123456789");
  if (digits == 0 || digits > 18) return false;
  *number = strtoll(node->text, &end, 10);
  *rest = end;
  return strlen(node->text) == node->length;
}

bool weir_read_number(weir_reader *reader, const weir_node *node, int64_t least, int64_t most,
                      int64_t *number) {
  int64_t read;
  const char *rest;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return false;
  if (read_digits(node, &read, &rest) && *rest == '\0' && read >= least && read <= most) {
    *number = read;
    return true;
  }
  weir_fault(reader, node, "found %s, accepted are whole numbers from %" PRId64 " to %" PRId64,
             weir_quote(node).text, least, most);
  return false;
}

static const struct {
  const char *name;
  int64_t bytes;
} units[] = {{"MiB", 1024 * 1024}, {"KiB", 1024}, {"B", 1}};
enum { UNITS = sizeof units / sizeof *units };

/* The largest unit of which so many bytes are a whole number. */
static size_t whole_unit(int64_t bytes) {
  size_t unit = 0;
  while (bytes % units[unit].bytes != 0)
    unit++;
  return unit;
}

static void read_bytes(weir_reader *reader, const weir_node *node, const weir_field *field,
                       int64_t *bytes) {
  int64_t number;
  const char *rest;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  for (size_t i = 0; i < UNITS && read_digits(node, &number, &rest); i++) {
    bool fits = strcmp(rest, units[i].name) == 0 && number <= field->most / units[i].bytes &&
                number * units[i].bytes >= field->least;
    if (!fits) continue;
    *bytes = number * units[i].bytes;
    return;
  }
  size_t low = whole_unit(field->least), high = whole_unit(field->most);
  weir_fault(reader, node,
             "found %s, accepted is a whole number and B, KiB or MiB, from %" PRId64
             "%s to %" PRId64 "%s",
             weir_quote(node).text, field->least / units[low].bytes, units[low].name,
             field->most / units[high].bytes, units[high].name);
}

static void read_duration(weir_reader *reader, const weir_node *node, const weir_field *field,
                          int64_t *us) {
  char least[WEIR_DURATION_BYTES], most[WEIR_DURATION_BYTES];
  int64_t read;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  if (weir_duration_parse(node->text, node->length, &read) && read >= field->least &&
      read <= field->most) {
    *us = read;
    return;
  }
  weir_duration_format(field->least, least, sizeof least);
  weir_duration_format(field->most, most, sizeof most);
  weir_fault(reader, node,
             "found %s, accepted is a duration from %s to %s: a whole number and ms, s, m, h or d",
             weir_quote(node).text, least, most);
}

static void read_bool(weir_reader *reader, const weir_node *node, bool *value) {
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  bool is_true = weir_node_is(node, "true");
  if (is_true || weir_node_is(node, "false"))
    *value = is_true;
  else
    weir_fault(reader, node, "found %s, accepted are true and false", weir_quote(node).text);
}

/* --- lists of what is accepted -------------------------------------------------------------------
 */

/* NULL: there are no more. */
static const char *name_at(weir_names names, size_t index) {
  if (index >= names.count) return NULL;
  const char *item = (const char *)names.items + index * names.size;
  return *(const char *const *)(const void *)item;
}

void weir_fault_unknown(weir_reader *reader, const weir_node *node, const char *what,
                        weir_names names) {
  char accepted[LIST_BYTES] = "";
  const char *name, *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
    weir_word_list(accepted, sizeof accepted, name, name_at(names, i + 1) == NULL);
    if (weir_word_nearer(node->text, node->length, name, &distance)) nearest = name;
  }
  if (names.count == 0)
    weir_fault(reader, node, "%s %s: there are none", what, weir_quote(node).text);
  else if (nearest != NULL)
    weir_fault(reader, node, "%s %s, did you mean \"%s\"? accepted are %s", what,
               weir_quote(node).text, nearest, accepted);
  else
    weir_fault(reader, node, "%s %s, accepted are %s", what, weir_quote(node).text, accepted);
}

static int compare_names(const void *a, const void *b) {
  const char *const *const *first = a;
  const char *const *const *second = b;
  return strcmp(**first, **second);
}

void weir_sort_names(const char *const **names, size_t count) {
  if (count > 0) qsort(names, count, sizeof *names, compare_names);
}

/* Names in a file of overrides have no NUL behind them. */
const char *const *weir_find_name(const char *const *const *sorted, size_t count, const char *name,
                                  size_t length) {
  size_t low = 0, high = memchr(name, '\0', length) == NULL ? count : 0;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const char *tried = *sorted[middle];
    int order = strncmp(name, tried, length);
    if (order == 0 && tried[length] == '\0') return sorted[middle];
    if (order > 0)
      low = middle + 1;
    else
      high = middle; /* also where it goes on behind the wanted one */
  }
  return NULL;
}

static void read_choice(weir_reader *reader, const weir_node *node, const weir_field *field,
                        int *choice) {
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  for (int i = 0; field->choices[i] != NULL; i++) {
    if (!weir_node_is(node, field->choices[i])) continue;
    *choice = i;
    return;
  }
  weir_fault_unknown(reader, node, "found",
                     (weir_names){field->choices, sizeof *field->choices, SIZE_MAX});
}

/* --- mappings -----------------------------------------------------------------------------------
 */

const weir_node *weir_node_find(const weir_node *mapping, const char *name) {
  for (const weir_node_item *item = mapping->items; item != NULL; item = item->next)
    if (strcmp(item->key->text, name) == 0) return item->value;
  return NULL;
}

static void read_field(weir_reader *reader, const weir_node *node, const weir_field *field,
                       void *target) {
  void *member = (char *)target + field->offset;
  if (field->may_be_empty && weir_node_is_empty(node)) return;
  switch (field->type) {
    case WEIR_FIELD_NODE:
      field->read(reader, node, member);
      break;
    case WEIR_FIELD_NUMBER:
      weir_read_number(reader, node, field->least, field->most, member);
      break;
    case WEIR_FIELD_BYTES:
      read_bytes(reader, node, field, member);
      break;
    case WEIR_FIELD_DURATION:
      read_duration(reader, node, field, member);
      break;
    case WEIR_FIELD_BOOL:
      read_bool(reader, node, member);
      break;
    case WEIR_FIELD_TEXT:
      *(const char **)member = weir_read_text(reader, node);
      break;
    case WEIR_FIELD_CHOICE:
      read_choice(reader, node, field, member);
      break;
  }
}

/* In the order of the table, so that what others refer to is read before them. */
void weir_read_fields(weir_reader *reader, const weir_node *node, const weir_field *fields,
                      void *target) {
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  for (const weir_field *field = fields; field->name != NULL; field++) {
    const weir_node *value = weir_node_find(node, field->name);
    if (value == NULL) continue;
    size_t length = weir_path_enter(reader, field->name);
    read_field(reader, value, field, target);
    weir_path_leave(reader, length);
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    const weir_field *field = fields;
    while (field->name != NULL && !weir_node_is(item->key, field->name))
      field++;
    if (field->name == NULL)
      weir_fault_unknown(reader, item->key, "unknown key",
                         (weir_names){fields, sizeof *fields, SIZE_MAX});
  }
}
