#include "monitor/sources.h"

#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

static const char *fault_of(const weir_monitor_source *sources, size_t i) {
  const weir_monitor_source *source = &sources[i];
  if (source->name == NULL || source->name[0] == '\0') return "has no name";
  if (strnlen(source->name, WEIR_MONITOR_NAME_MOST + 1) > WEIR_MONITOR_NAME_MOST)
    return "has a name of more than 64 bytes";
  if (source->limiter == NULL && source->store == NULL) return "has neither limiter nor store";
  for (size_t j = 0; j < i; j++) {
    const weir_monitor_source *other = &sources[j];
    bool both_limit = source->limiter != NULL && other->limiter != NULL;
    bool both_store = source->store != NULL && other->store != NULL;
    if ((both_limit || both_store) && strcmp(source->name, other->name) == 0)
      return "has the name of another";
  }
  return NULL;
}

weir_status weir_monitor_check(const weir_monitor_source *sources, size_t count,
                               weir_message *message) {
  if (count > WEIR_MONITOR_SOURCES_MOST) {
    weir_message_set(message, "%zu sources: accepted are up to %d", count,
                     WEIR_MONITOR_SOURCES_MOST);
    return WEIR_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < count; i++) {
    const char *fault = fault_of(sources, i);
    if (fault == NULL) continue;
    weir_message_set(message, "sources[%zu] %s", i, fault);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

bool weir_monitor_read_server(const weir_store *store, size_t index, weir_server_state *state,
                              char text[WEIR_SERVER_INDEX_BYTES]) {
  state->size = sizeof *state;
  if (weir_store_read_server(store, index, state) != WEIR_OK) return false;
  if (state->name != NULL) return true;
  snprintf(text, WEIR_SERVER_INDEX_BYTES, "%zu", index);
  state->name = text;
  return true;
}
