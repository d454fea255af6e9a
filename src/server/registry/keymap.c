/* Keys and patterns of a limiter: first those of the configuration, then those of its file of
 * overrides, which has a key, a tab and the name of a tier in each line. The file is kept as it is,
 * and the table points into it. */
#include "registry/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- asked --------------------------------------------------------------------------------------
 */

static bool is_key(const void *map, const void *item, const void *wanted) {
  const weir_keymap_key *key = item;
  return weir_hash_text_is(wanted, ((const weir_keymap *)map)->bytes + key->offset, key->length);
}

static weir_keymap_key *find(const weir_keymap *map, uint32_t mark, weir_hash_text key) {
  return weir_hash_table_find(&map->keys, mark, &key);
}

/* Every '*' takes as little as it can, and more when what follows does not fit. */
bool weir_pattern_fits(const char *pattern, size_t pattern_length, const char *key, size_t length) {
  size_t at = 0, in = 0;
  size_t star = pattern_length, taken = 0; /* the last star, and up to where it has taken */
  while (in < length) {
    if (at < pattern_length && pattern[at] == '*') {
      star = at++;
      taken = in;
    } else if (at < pattern_length && pattern[at] == key[in]) {
      at++;
      in++;
    } else if (star < pattern_length) {
      at = star + 1;
      in = ++taken;
    } else {
      return false;
    }
  }
  while (at < pattern_length && pattern[at] == '*')
    at++;
  return at == pattern_length;
}

const weir_keymap_key *weir_keymap_find(const weir_keymap *map, const char *key, size_t length) {
  if (map->keys.count > 0) {
    uint32_t mark = weir_hash_table_mark(&map->keys, key, length);
    const weir_keymap_key *found = find(map, mark, (weir_hash_text){key, length});
    if (found != NULL) return found;
  }
  for (size_t i = 0; i < map->pattern_count; i++) {
    const weir_keymap_key *pattern = &map->patterns[i];
    if (weir_pattern_fits(map->bytes + pattern->offset, pattern->length, key, length))
      return pattern;
  }
  return NULL;
}

/* Enters a key whose bytes are the map's; there is room. The one that was there before, or NULL. */
static const weir_keymap_key *enter(weir_keymap *map, weir_keymap_key key) {
  const char *text = map->bytes + key.offset;
  uint32_t mark = weir_hash_table_mark(&map->keys, text, key.length);
  const weir_keymap_key *there = find(map, mark, (weir_hash_text){text, key.length});
  if (there == NULL) *(weir_keymap_key *)weir_hash_table_add(&map->keys, mark) = key;
  return there;
}

/* --- the file -----------------------------------------------------------------------------------
 */

static size_t count_lines(const char *bytes, size_t length) {
  size_t lines = length > 0; /* the last may have no end */
  for (const char *end = bytes; (end = memchr(end, '\n', length - (size_t)(end - bytes))) != NULL;
       end++)
    lines++;
  return lines;
}

/* Reads the file into the map, with room for `more` bytes behind it. Where that fails there is a
 * fault, and as much of the file as could be read is ignored. False: no memory. */
static bool read_file(weir_keymap *map, const weir_config_limiter *limiter, size_t more,
                      weir_config_faults *faults) {
  char what[128] = "";
  bool has_memory = true;
  struct stat found;
  int descriptor = open(limiter->overrides_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    snprintf(what, sizeof what, "cannot be read: %s", strerror(errno));
  } else if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) {
    snprintf(what, sizeof what, "is no regular file");
  } else if (found.st_size > WEIR_KEYMAP_FILE_MOST) {
    snprintf(what, sizeof what, "is larger than 64 MiB");
  } else {
    size_t size = (size_t)found.st_size;
    map->bytes = malloc(size + more + 1);
    has_memory = map->bytes != NULL;
    ssize_t got = 1;
    while (has_memory && got > 0 && map->file_bytes < size) {
      got = read(descriptor, map->bytes + map->file_bytes, size - map->file_bytes);
      if (got > 0) map->file_bytes += (size_t)got;
    }
    if (got < 0)
      snprintf(what, sizeof what, "%s", strerror(errno));
    else if (has_memory && count_lines(map->bytes, map->file_bytes) > WEIR_KEYMAP_KEYS_MOST)
      snprintf(what, sizeof what, "has more than %d lines", WEIR_KEYMAP_KEYS_MOST);
  }
  if (descriptor >= 0) close(descriptor);
  if (what[0] != '\0') {
    char path[WEIR_CONFIG_NAME_MOST + 32];
    snprintf(path, sizeof path, "limiters.%s.overrides_file", limiter->name);
    weir_config_fault(faults, limiter->overrides_file_place, path, "file \"%.200s\" %s",
                      limiter->overrides_file, what);
    map->file_bytes = 0;
  }
  return has_memory;
}

/* While lines are read. */
typedef struct reader {
  weir_keymap *map;
  const weir_config_limiter *limiter;
  weir_config_faults *faults;
  const weir_config_tier *last; /* most lines name the tier of the line before */
  uint32_t line;
} reader;

#define FAULT(self, column, ...)                                                                  \
  weir_config_fault((self)->faults,                                                               \
                    (weir_config_place){(self)->limiter->overrides_file, (self)->line, (column)}, \
                    "overrides_file", __VA_ARGS__)

static void add_line(reader *self, const char *line, size_t length) {
  weir_keymap *map = self->map;
  size_t behind_tab = length; /* of the last one: keys may hold tabs, names of tiers hold none */
  while (behind_tab > 0 && line[behind_tab - 1] != '\t')
    behind_tab--;
  if (behind_tab == 0) {
    FAULT(self, 1, "no tab, accepted is a key, a tab and the name of a tier");
    return;
  }
  size_t key_length = behind_tab - 1;
  if (key_length < 1 || key_length > WEIR_CONFIG_KEY_MOST) {
    FAULT(self, 1, "a key of %zu bytes, accepted are 1 to %d", key_length, WEIR_CONFIG_KEY_MOST);
    return;
  }

  const char *name = line + behind_tab;
  size_t name_length = length - behind_tab;
  const weir_config_tier *tier = self->last;
  if (tier == NULL || strlen(tier->name) != name_length ||
      memcmp(tier->name, name, name_length) != 0)
    tier = self->last = weir_config_find_tier(self->limiter, name, name_length);
  if (tier == NULL) {
    FAULT(self, (uint32_t)behind_tab + 1, "no tier \"%.*s\" in limiters.%s.tiers",
          (int)(name_length < 48 ? name_length : 48), name, self->limiter->name);
    return;
  }

  const weir_keymap_key key = {(uint32_t)(line - map->bytes), (uint16_t)key_length,
                               (uint16_t)(tier - self->limiter->tiers)};
  const weir_keymap_key *first = enter(map, key);
  if (first != NULL && first->offset < map->file_bytes)
    FAULT(self, 1, "a key that stands in line %zu already",
          count_lines(map->bytes, first->offset) + (first->offset == 0));
}

static void add_file(weir_keymap *map, const weir_config_limiter *limiter,
                     weir_config_faults *faults) {
  reader self = {.map = map, .limiter = limiter, .faults = faults};
  const char *line = map->bytes;
  const char *end = map->bytes + map->file_bytes;
  while (line < end) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (stop == NULL) stop = end;
    size_t length = (size_t)(stop - line);
    if (length > 0 && line[length - 1] == '\r') length--;
    self.line++;
    if (length > 0) add_line(&self, line, length);
    line = stop + 1;
  }
}

/* --- made ---------------------------------------------------------------------------------------
 */

static int compare_patterns(const void *a, const void *b) {
  const weir_keymap_key *first = a;
  const weir_keymap_key *second = b;
  if (first->length != second->length) return first->length > second->length ? -1 : 1;
  return first->offset < second->offset ? -1 : 1;
}

bool weir_keymap_create(weir_keymap *map, const weir_config_overrides *list,
                        const weir_config_limiter *limiter, weir_config_faults *faults) {
  bool has_file = limiter != NULL && limiter->overrides_file != NULL;
  *map = (weir_keymap){0};
  if (list->count == 0 && !has_file) return true;

  /* The file's bytes with those of the list behind them; places for all. */
  size_t bytes = 0, patterns = 0;
  for (size_t i = 0; i < list->count; i++) {
    bytes += list->items[i].key_length;
    patterns += list->items[i].is_pattern;
  }
  if (has_file && !read_file(map, limiter, bytes, faults)) return false;
  if (map->bytes == NULL) map->bytes = malloc(bytes + 1);
  map->patterns = malloc((patterns + 1) * sizeof *map->patterns);
  weir_hash_table_init(&map->keys, sizeof(weir_keymap_key), is_key, map);
  if (map->bytes == NULL || map->patterns == NULL ||
      !weir_hash_table_fit(&map->keys,
                           list->count - patterns + count_lines(map->bytes, map->file_bytes)))
    return false;

  /* Keys of a list stand once in it: the reader has seen to that in mappings, and in a list of keys
   * the second says nothing new. */
  size_t offset = map->file_bytes;
  for (size_t i = 0; i < list->count; i++) {
    const weir_config_override *item = &list->items[i];
    const weir_keymap_key key = {(uint32_t)offset, item->key_length, item->tier};
    memcpy(map->bytes + offset, item->key, item->key_length);
    offset += item->key_length;
    if (item->is_pattern)
      map->patterns[map->pattern_count++] = key;
    else
      enter(map, key);
  }
  if (map->pattern_count > 1)
    qsort(map->patterns, map->pattern_count, sizeof *map->patterns, compare_patterns);
  if (has_file && map->file_bytes > 0) add_file(map, limiter, faults);
  return true;
}

void weir_keymap_clean_up(weir_keymap *map) {
  free(map->bytes);
  free(map->patterns);
  weir_hash_table_clean_up(&map->keys);
  *map = (weir_keymap){0};
}
