/* Files by what their names lead to. */
#include "config/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct weir_config_watch {
  size_t count;
  weir_config_file files[]; /* the names are copies, and stand behind the last */
};

bool weir_config_file_look(weir_config_file *file) {
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
    has_changed |= weir_config_file_look(&watch->files[i]);
  return has_changed;
}
