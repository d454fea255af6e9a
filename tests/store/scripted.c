#include "store/scripted.h"

#include <stddef.h>

scripted script;

static weir_status scripted_open(const weir_url *url, int64_t timeout_us, void **handle,
                                 weir_message *message) {
  (void)url;
  script.opens++;
  script.timeout_us = timeout_us;
  *handle = &script;
  if (script.open_message != NULL) weir_message_set(message, "%s", script.open_message);
  return script.open_status;
}

static void scripted_exec(void *handle, weir_operation *operations, size_t count,
                          int64_t deadline_us, weir_message *message) {
  scripted *self = handle;
  self->execs++;
  self->deadline_us = deadline_us;
  for (size_t i = 0; i < count && i < sizeof self->outcomes / sizeof *self->outcomes; i++) {
    operations[i].outcome = self->outcomes[i];
    operations[i].value = self->result.value;
    operations[i].version_out = self->result.version_out;
  }
  if (self->exec_message != NULL) weir_message_set(message, "%s", self->exec_message);
}

static void scripted_close(void *handle) {
  ((scripted *)handle)->closes++;
}

weir_backend scripted_backend(unsigned traits) {
  static const weir_scheme schemes[] = {
      {"scripted", 0}, {"scripted+host", WEIR_URL_HOST}, {NULL, 0}};
  static const char *const options[] = {"depth", NULL};
  return (weir_backend){.size = sizeof(weir_backend),
                        .name = "scripted",
                        .schemes = schemes,
                        .options = options,
                        .traits = traits,
                        .open = scripted_open,
                        .exec = scripted_exec,
                        .close = scripted_close};
}
