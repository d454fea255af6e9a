/* Any text as a descriptor file: every fault is one readable line with its place, and what has none
 * can be built and asked, with keys that say which request they are of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"
#include "fuzz/require.h"
#include "registry/registry.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { KEY_MOST = 512, PART = 12 };

static weir_limiter *find(void *self, const weir_config_store *store, const char *rule,
                          weir_config_place place, const char *path) {
  (void)self;
  (void)store;
  require(rule[0] != '\0' && place.line > 0 && strncmp(path, "domain ", 7) == 0);
  return NULL;
}

static weir_store *get_store(void *self, const weir_config_store *store) {
  (void)store;
  return self;
}

/* A request of parts of the text itself. */
static void ask(const weir_domain *domain, const char *text, size_t size) {
  weir_entry entries[4];
  char key[KEY_MOST];
  for (size_t at = 0; at + 8 * PART <= size && at < 4096; at += 7) {
    for (size_t i = 0; i < 4; i++) {
      const char *part = text + at + 2 * PART * i;
      entries[i] =
          (weir_entry){part, part + PART, 1 + (size_t)(part[0] & 7), (size_t)(part[1] & 7)};
    }
    size_t length = 0;
    const weir_descriptor *found =
        weir_domain_find(domain, entries, 1 + at % 4, key, sizeof key, &length);
    if (found == NULL) continue;
    require(found->config->rate != NULL && length > 1 && key[0] == '/');
  }
}

/* Each descriptor is found by its own words, from the root on, unless a wildcard or another way of
 * cutting KEY_VALUE stands before it. */
static void ask_own(const weir_domain *domain, const weir_config_descriptor *list, size_t count) {
  char key[KEY_MOST];
  for (size_t i = 0; i < count; i++) {
    const char *value = list[i].value != NULL ? list[i].value : "";
    const weir_entry entry = {list[i].key, value, strlen(list[i].key), strlen(value)};
    size_t length = 0;
    const weir_descriptor *found = weir_domain_find(domain, &entry, 1, key, sizeof key, &length);
    if (list[i].value != NULL && list[i].rate != NULL)
      require(found != NULL && found->config == &list[i]);
  }
}

static void check_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    require_readable(&faults->lines[i].text);
}

static void use(const weir_config *config, weir_config_faults *faults, const char *text,
                size_t size) {
  int store;
  const weir_descriptors_source source = {&store, find, get_store};
  weir_descriptors *made = weir_descriptors_create(&config->envoy, &source, faults);
  require(made != NULL && made->count <= 1);
  for (size_t i = 0; i < made->count && faults->count == 0; i++) {
    const weir_domain *domain = &made->domains[i];
    const weir_config_domain *named = domain->config;
    require(weir_descriptors_find(made, named->name, strlen(named->name)) == domain);
    ask(domain, text, size);
    ask_own(domain, named->descriptors, named->count);
  }
  weir_descriptors_destroy(made);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static weir_config_faults faults;
  weir_arena arena = {0};
  weir_config_store store = {.name = "m"};
  weir_config config = {.file = "f.yaml", .stores = &store, .store_count = 1};
  weir_reader reader = {"d.yaml", &arena, &faults, &config, ""};
  faults.kept = faults.count = 0;
  require(weir_envoy_make_room(&reader));
  weir_read_descriptor_file(&reader, (const char *)data, size);
  require(!arena.failed);
  check_faults(&faults);
  if (faults.count == 0) use(&config, &faults, (const char *)data, size);
  check_faults(&faults);
  weir_arena_free(&arena);
  return 0;
}
