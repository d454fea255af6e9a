/* Registries from text, for tests. */
#ifndef TESTS_REGISTRY_BUILT_H
#define TESTS_REGISTRY_BUILT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "registry/registry.h"

#define LISTEN "listen: {resp: {}}\n"

static inline weir_registry *build_with(const char *text, const weir_registry *old,
                                        weir_config_faults *faults) {
  *faults = (weir_config_faults){0};
  weir_config *config = weir_config_read_text("f.yaml", text, strlen(text), faults);
  assert_non_null(config);
  return weir_registry_create(config, old, faults);
}

static inline weir_registry *build(const char *text, const weir_registry *old) {
  static weir_config_faults faults;
  weir_registry *registry = build_with(text, old, &faults);
  if (registry == NULL) fail_msg("%s", faults.lines[0].text.text);
  return registry;
}

static inline const weir_named *find(const weir_registry *registry, const char *name) {
  const weir_named *named = weir_registry_find(registry, name, strlen(name));
  assert_non_null(named);
  return named;
}

static inline weir_target target_of(const weir_registry *registry, const char *name,
                                    const char *key) {
  return weir_named_target(find(registry, name), key, strlen(key));
}

#endif
