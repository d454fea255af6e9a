/* Whether TLS will be able to use what the configuration names, before anybody connects. */
#include "serve/certificates.h"

#include <stdio.h>
#include <unistd.h>

#include "serve/transport.h"

/* What cannot be read at all is a fault of the file already. */
static bool is_complete(const weir_config_tls *tls) {
  const char *const files[] = {tls->certificate, tls->key, tls->client_ca};
  for (size_t i = 0; i < 3; i++)
    if (files[i] == NULL ? i < 2 : access(files[i], R_OK) != 0) return false;
  return true;
}

void weir_certificates_look(const weir_config *config, weir_config_faults *faults) {
  for (size_t i = 0; i < config->listener_count; i++) {
    const weir_config_listener *listener = &config->listeners[i];
    weir_message why = {""};
    char path[64];
    if (!is_complete(&listener->tls)) continue;
    weir_serve_tls *tls = weir_serve_tls_create(listener, &why);
    snprintf(path, sizeof path, "%s.tls", weir_config_listen_path(listener->protocol));
    if (tls == NULL) weir_config_fault(faults, listener->tls.place, path, "%s", why.text);
    weir_serve_tls_destroy(tls);
  }
}
