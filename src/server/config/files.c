/* The files of a configuration: where a name leads to, all that stands there, and whether it has
 * changed since. */
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
