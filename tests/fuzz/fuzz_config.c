/* Any text as a configuration: it is read to the end, every fault is one readable line with its
 * place, and what has no fault can be built, also in the place of another. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "registry/registry.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const char secret[] = "hunter2:@/";

static bool holds_secret(const char *text, size_t size) {
  size_t length = sizeof secret - 4; /* without what is escaped in a URL */
  for (size_t at = 0; at + length <= size; at++)
    if (memcmp(text + at, secret, length) == 0) return true;
  return false;
}

/* `may_hold`: the secret stands in the text itself. */
static void check_faults(const weir_config_faults *faults, bool may_hold) {
  require(faults->kept <= faults->count && faults->kept <= WEIR_CONFIG_FAULTS_MOST);
  for (size_t i = 0; i < faults->kept; i++) {
    const weir_config_fault_line *line = &faults->lines[i];
    require_readable(&line->text);
    if (i > 0) require(line->line >= line[-1].line);
    require(may_hold || !holds_secret(line->text.text, strlen(line->text.text)));
  }
}

/* And no folders, which a pattern may name many of. */
int glob(const char *pattern, int flags, int (*stops)(const char *, int), glob_t *found) {
  (void)pattern;
  (void)flags;
  (void)stops;
  (void)found;
  return GLOB_ABORTED;
}

/* All that is asked of a snapshot, with keys from the text itself. */
static void use(weir_registry *registry, const char *text, size_t size) {
  for (size_t i = 0; i < registry->named_count; i++) {
    const weir_named *named = &registry->named[i];
    const char *name = named->config->name;
    require(weir_registry_find(registry, name, strlen(name)) == named);
    for (size_t at = 0; at + 8 < size; at += 97) {
      weir_target target = weir_named_target(named, text + at, 8);
      require((target.kind == WEIR_TARGET_LIMITER) == (target.limiter != NULL));
    }
    const weir_config_overrides *overrides = &named->config->overrides;
    for (size_t j = 0; j < overrides->count; j++)
      weir_named_target(named, overrides->items[j].key, overrides->items[j].key_length);
  }
}

/* A fuzzer must look up no names of hosts and read no files. */
static bool asks_somebody(const weir_config *config) {
  for (size_t i = 0; i < config->store_count; i++)
    if (config->stores[i].url != NULL && strncmp(config->stores[i].url, "memory:", 7) != 0)
      return true;
  for (size_t i = 0; i < config->limiter_count; i++)
    if (config->limiters[i].overrides_file != NULL) return true;
  return false;
}

/* The meaning of one text, with what is carried over from `old`; NULL where there are faults. */
static weir_registry *load(const char *text, size_t size, const weir_registry *old) {
  static weir_config_faults faults;
  faults.kept = faults.count = 0;
  bool may_hold = holds_secret(text, size);
  weir_config *config = weir_config_read_text("f.yaml", text, size, &faults);
  require(config != NULL);
  check_faults(&faults, may_hold);
  if (asks_somebody(config)) {
    weir_config_destroy(config);
    return NULL;
  }
  weir_registry *registry = weir_registry_create(config, old, &faults);
  require((registry == NULL) == (faults.count > 0));
  check_faults(&faults, may_hold);
  if (registry == NULL) return NULL;
  weir_registry_warn(old, registry, &faults);
  use(registry, text, size);
  return registry;
}

/* Behind a NUL byte, which no YAML holds, stands a file that takes the first one's place. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  const char *text = (const char *)data;
  const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
  size_t first = nul != NULL ? (size_t)(nul - text) : size;
  setenv("PASSWORD", secret, 1);
  weir_registry *registry = load(text, first, NULL);
  weir_registry *newer = first < size ? load(text + first + 1, size - first - 1, registry) : NULL;
  weir_registry_release(registry);
  if (newer != NULL) use(newer, text + first + 1, size - first - 1);
  weir_registry_release(newer);
  return 0;
}
