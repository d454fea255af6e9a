/* A file of overrides: a key, a tab and the name of a tier in each line. It is kept as it is, and
 * the table points into it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/keymap.h"

typedef struct overrides {
  weir_keymap *map;
  const weir_config_limiter *limiter;
  weir_config_faults *faults;
  const weir_config_tier *last; /* most lines name the tier of the line before */
  uint32_t line;
} overrides;

size_t weir_overrides_count_lines(const char *bytes, size_t length) {
  size_t lines = length > 0; /* the last may have no end */
  for (const char *end = bytes; (end = memchr(end, '\n', length - (size_t)(end - bytes))) != NULL;
       end++)
    lines++;
  return lines;
}

/* --- reading ------------------------------------------------------------------------------------
 */

static void report_file(const weir_config_limiter *limiter, weir_config_faults *faults,
                        const char *what) {
  char path[WEIR_CONFIG_NAME_MOST + 32];
  snprintf(path, sizeof path, "limiters.%s.overrides_file", limiter->name);
  weir_config_fault(faults, limiter->overrides_file_place, path, "file \"%.200s\" %s",
                    limiter->overrides_file, what);
}

/* Up to `size` bytes; false: errno says why. */
static bool read_all(int descriptor, char *bytes, size_t size, size_t *length) {
  *length = 0;
  while (*length < size) {
    ssize_t got = read(descriptor, bytes + *length, size - *length);
    if (got < 0) return false;
    if (got == 0) break;
    *length += (size_t)got;
  }
  return true;
}

/* False: no memory. */
static bool read_open(int descriptor, const weir_config_limiter *limiter, size_t more,
                      weir_keymap *map, weir_config_faults *faults) {
  struct stat found;
  bool is_file = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
  if (!is_file || found.st_size > WEIR_KEYMAP_FILE_MOST) {
    report_file(limiter, faults, is_file ? "is larger than 64 MiB" : "is no regular file");
    return true;
  }
  map->bytes = malloc((size_t)found.st_size + more + 1);
  if (map->bytes == NULL) return false;
  const char *what = NULL;
  if (!read_all(descriptor, map->bytes, (size_t)found.st_size, &map->file_bytes))
    what = strerror(errno);
  else if (weir_overrides_count_lines(map->bytes, map->file_bytes) > WEIR_KEYMAP_KEYS_MOST)
    what = "has more than 4194304 lines";
  if (what == NULL) return true;
  report_file(limiter, faults, what);
  map->file_bytes = 0;
  return true;
}

bool weir_overrides_read(weir_keymap *map, const weir_config_limiter *limiter, size_t more,
                         weir_config_faults *faults) {
  int descriptor = open(limiter->overrides_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    char what[128];
    snprintf(what, sizeof what, "cannot be read: %s", strerror(errno));
    report_file(limiter, faults, what);
    return true;
  }
  bool good = read_open(descriptor, limiter, more, map, faults);
  close(descriptor);
  return good;
}

/* --- lines --------------------------------------------------------------------------------------
 */

#define FAULT(self, column, ...)                                                                  \
  weir_config_fault((self)->faults,                                                               \
                    (weir_config_place){(self)->limiter->overrides_file, (self)->line, (column)}, \
                    "overrides_file", __VA_ARGS__)

static const weir_config_tier *find_tier(overrides *self, const char *name, size_t length) {
  const weir_config_tier *last = self->last;
  if (last != NULL && strlen(last->name) == length && memcmp(last->name, name, length) == 0)
    return last;
  return self->last = weir_config_find_tier(self->limiter, name, length);
}

/* In which line a key of the file stands. */
static size_t line_of(const weir_keymap *map, size_t offset) {
  return weir_overrides_count_lines(map->bytes, offset) + (offset == 0);
}

/* Keys may hold tabs, names of tiers hold none. */
static const char *find_last_tab(const char *line, size_t length) {
  while (length > 0 && line[length - 1] != '\t')
    length--;
  return length > 0 ? line + length - 1 : NULL;
}

static void add_line(overrides *self, const char *line, size_t length) {
  const char *tab = find_last_tab(line, length);
  if (tab == NULL) {
    FAULT(self, 1, "no tab, accepted is a key, a tab and the name of a tier");
    return;
  }
  size_t key_length = (size_t)(tab - line);
  uint32_t column = (uint32_t)key_length + 2;
  size_t name_length = length - key_length - 1;
  if (key_length < 1 || key_length > WEIR_CONFIG_KEY_MOST) {
    FAULT(self, 1, "a key of %zu bytes, accepted are 1 to %d", key_length, WEIR_CONFIG_KEY_MOST);
    return;
  }
  const weir_config_tier *tier = find_tier(self, tab + 1, name_length);
  if (tier == NULL) {
    FAULT(self, column, "no tier \"%.*s\" in limiters.%s.tiers",
          (int)(name_length < 48 ? name_length : 48), tab + 1, self->limiter->name);
    return;
  }
  weir_keymap *map = self->map;
  weir_keymap_slot key = {(uint32_t)(line - map->bytes), (uint16_t)key_length,
                          (uint16_t)(tier - self->limiter->tiers)};
  const weir_keymap_slot *first = weir_keymap_add(map, key);
  if (first != NULL && first->offset < map->file_bytes)
    FAULT(self, 1, "a key that stands in line %zu already", line_of(map, first->offset));
}

void weir_overrides_add(weir_keymap *map, const weir_config_limiter *limiter,
                        weir_config_faults *faults) {
  overrides self = {.map = map, .limiter = limiter, .faults = faults};
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
