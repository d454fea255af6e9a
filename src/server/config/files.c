/* The files of a configuration: where a name leads to, all that stands there, whether it has
 * changed since; and secrets, which come from files and from the environment, never from the
 * configuration itself unless its owner wants so, and stand in no message. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/reader.h"

const char *weir_resolve_file(weir_reader *reader, const char *name) {
  const char *slash = strrchr(reader->file, '/');
  size_t folder = name[0] == '/' || slash == NULL ? 0 : (size_t)(slash - reader->file) + 1;
  size_t length = strlen(name);
  char *whole = weir_arena_take(reader->arena, folder + length + 1, 1);
  if (whole == NULL) return NULL;
  memcpy(whole, reader->file, folder);
  memcpy(whole + folder, name, length);
  return whole;
}

char *weir_config_read_bytes(const char *file, size_t *length, weir_config_faults *faults) {
  weir_config_place place = {.file = file};
  size_t room = 64 * 1024;
  char *bytes = NULL;
  FILE *stream = NULL;
  errno = 0;
  /* A pipe that no process writes to is empty, and not waited for. */
  int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0 && fcntl(descriptor, F_SETFL, 0) == 0) stream = fdopen(descriptor, "rb");
  if (stream != NULL) {
    bytes = malloc(room);
    *length = 0;
    setvbuf(stream, NULL, _IONBF, 0); /* `bytes` is the buffer */
  }
  while (bytes != NULL) {
    *length += fread(bytes + *length, 1, room - *length, stream);
    if (*length < room || *length > WEIR_TREE_BYTES_MOST) break;
    room *= 2;
    char *larger = realloc(bytes, room);
    if (larger == NULL) free(bytes);
    bytes = larger;
  }
  if (bytes != NULL && ferror(stream)) {
    free(bytes);
    bytes = NULL;
  }
  int error = errno;
  if (stream != NULL) fclose(stream);
  if (stream == NULL && descriptor >= 0) close(descriptor);
  if (bytes == NULL) {
    weir_config_fault(faults, place, "", "cannot be read: %s", strerror(error));
  } else if (*length > WEIR_TREE_BYTES_MOST) {
    weir_config_fault(faults, place, "", "larger than %d MiB", WEIR_TREE_BYTES_MOST / 1024 / 1024);
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

/* --- changes ------------------------------------------------------------------------------------
 */

struct weir_config_watch {
  size_t count;
  weir_config_file files[]; /* the names are copies, and stand behind the last */
};

/* Sets what the name leads to now; whether that is another than before. */
static bool look_at_file(weir_config_file *file) {
  struct stat found;
  weir_config_file now = {.name = file->name};
  if (stat(file->name, &found) == 0) {
    now.device = (uint64_t)found.st_dev;
    now.inode = (uint64_t)found.st_ino;
    now.size = (uint64_t)found.st_size;
    now.changed_ns = (int64_t)found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec;
  }
  bool is_same = now.device == file->device && now.inode == file->inode && now.size == file->size &&
                 now.changed_ns == file->changed_ns;
  *file = now;
  return !is_same;
}

void weir_watch_file(weir_reader *reader, const char *name) {
  weir_config *config = reader->config;
  for (size_t i = 0; i < config->file_count; i++)
    if (strcmp(config->files[i].name, name) == 0) return;
  if (config->file_count == WEIR_WATCHED_MOST) return;
  weir_config_file *file = &config->files[config->file_count++];
  file->name = name;
  look_at_file(file);
}

weir_config_watch *weir_config_watch_create(const weir_config *config) {
  size_t bytes = sizeof(weir_config_watch) + config->file_count * sizeof(weir_config_file);
  size_t names = 0;
  for (size_t i = 0; i < config->file_count; i++)
    names += strlen(config->files[i].name) + 1;
  weir_config_watch *watch = malloc(bytes + names);
  if (watch == NULL) return NULL;
  char *name = (char *)watch + bytes;
  watch->count = config->file_count;
  for (size_t i = 0; i < watch->count; i++) {
    watch->files[i] = config->files[i];
    watch->files[i].name = name;
    size_t length = strlen(config->files[i].name) + 1;
    memcpy(name, config->files[i].name, length);
    name += length;
  }
  return watch;
}

void weir_config_watch_destroy(weir_config_watch *watch) {
  free(watch);
}

bool weir_config_watch_look(weir_config_watch *watch) {
  bool has_changed = false;
  for (size_t i = 0; i < watch->count; i++)
    has_changed |= look_at_file(&watch->files[i]);
  return has_changed;
}

/* --- secrets ------------------------------------------------------------------------------------
 */

enum { SECRET_MOST = 4096, TEXT_MOST = 16 * 1024, NAME_MOST = 1024 };

typedef struct expansion {
  weir_reader *reader;
  const weir_node *node;
  char text[TEXT_MOST];
  size_t length;
} expansion;

static bool add(expansion *self, const char *bytes, size_t length) {
  if (length > sizeof self->text - 1 - self->length) {
    weir_fault(self->reader, self->node, "longer than %d bytes with all that is put in",
               TEXT_MOST - 1);
    return false;
  }
  memcpy(self->text + self->length, bytes, length);
  self->length += length;
  return true;
}

/* A password may hold what means something in a URL. */
static bool add_escaped(expansion *self, const char *bytes, size_t length) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  for (size_t i = 0; i < length; i++) {
    char escape[4];
    bool is_plain = bytes[i] != '\0' && strchr(plain, bytes[i]) != NULL;
    snprintf(escape, sizeof escape, "%%%02X", (unsigned char)bytes[i]);
    if (!(is_plain ? add(self, bytes + i, 1) : add(self, escape, 3))) return false;
  }
  return true;
}

/* A file's content, without the line break that editors leave. Negative after a fault. */
static ssize_t read_secret_file(expansion *self, const char *name, char bytes[SECRET_MOST + 1]) {
  const char *file = weir_resolve_file(self->reader, name);
  if (file == NULL) return -1;
  weir_watch_file(self->reader, file);
  ssize_t length = 0, got = -1;
  int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (descriptor >= 0 &&
         (got = read(descriptor, bytes + length, (size_t)(SECRET_MOST + 1 - length))) > 0)
    length += got;
  int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (got < 0) {
    weir_fault(self->reader, self->node, "file \"%.200s\" cannot be read: %s", name,
               strerror(error));
    return -1;
  }
  if (length > SECRET_MOST) {
    weir_fault(self->reader, self->node, "file \"%.200s\" is longer than %d bytes", name,
               SECRET_MOST);
    return -1;
  }
  if (length > 0 && bytes[length - 1] == '\n') length--;
  if (length > 0 && bytes[length - 1] == '\r') length--;
  if (length > 0 && memchr(bytes, '\0', (size_t)length) == NULL) return length;
  weir_fault(self->reader, self->node, "file \"%.200s\" %s", name,
             length == 0 ? "is empty" : "holds a NUL byte");
  return -1;
}

/* `text` begins with "${"; where the closing brace stands, or NULL after a fault. */
static const char *put_in(expansion *self, const char *text, bool escapes) {
  char name[NAME_MOST], bytes[SECRET_MOST + 1];
  const char *end = strchr(text, '}');
  size_t name_length = end == NULL ? 0 : (size_t)(end - text) - 2;
  if (end == NULL || name_length >= sizeof name) {
    weir_fault(self->reader, self->node,
               "\"${\" without \"}\"; accepted are ${NAME} and ${file:PATH}");
    return NULL;
  }
  memcpy(name, text + 2, name_length);
  name[name_length] = '\0';
  bool is_file = strncmp(name, "file:", 5) == 0;
  const char *value = is_file ? bytes : getenv(name);
  if (value == NULL || *name == '\0') {
    weir_fault(self->reader, self->node, "environment variable \"%.64s\" is not set", name);
    return NULL;
  }
  ssize_t length = is_file ? read_secret_file(self, name + 5, bytes) : (ssize_t)strlen(value);
  if (length < 0) return NULL;
  return (escapes ? add_escaped : add)(self, value, (size_t)length) ? end : NULL;
}

const char *weir_read_secret(weir_reader *reader, const weir_node *node, bool is_url,
                             size_t *length) {
  const char *text = weir_read_text(reader, node);
  if (text == NULL) return NULL;
  expansion self = {.reader = reader, .node = node};
  const char *credentials_end = is_url ? strrchr(text, '@') : NULL;
  for (const char *at = text; *at != '\0'; at++) {
    if (at[0] == '$' && at[1] == '{')
      at = put_in(&self, at, credentials_end != NULL && at < credentials_end);
    else if (!add(&self, at, 1))
      return NULL;
    if (at == NULL) return NULL;
  }
  if (self.length == 0) {
    weir_fault(reader, node, "empty with all that is put in");
    return NULL;
  }
  if (length != NULL) *length = self.length;
  return weir_arena_copy(reader->arena, self.text, self.length);
}
