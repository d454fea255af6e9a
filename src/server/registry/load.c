/* From a file to a snapshot, with all that is to be said of it. */
#include "registry/registry.h"

weir_registry *weir_registry_load(const char *file, const weir_registry *old,
                                  weir_registry_look *look, weir_config_watch **watch,
                                  weir_config_faults *faults) {
  weir_config *config = weir_config_read(file, faults);
  if (config == NULL) return NULL;
  if (look != NULL) look(config, faults);
  weir_config_watch *newer = watch != NULL ? weir_config_watch_create(config) : NULL;
  if (newer != NULL) {
    weir_config_watch_destroy(*watch);
    *watch = newer;
  }
  weir_registry *registry = weir_registry_create(config, old, faults);
  if (registry != NULL) weir_registry_warn(old, registry, faults);
  return registry;
}
