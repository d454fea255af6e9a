/* When certificates end: those that listeners show their clients, and stores their servers. Told by
 * `weir check`, by the log once a day from two weeks before the end on, and by /metrics always. */
#ifndef WEIR_SERVE_CERTIFICATES_H
#define WEIR_SERVE_CERTIFICATES_H

#include "registry/registry.h"
#include "serve/client.h"
#include "serve/listen.h"

typedef struct weir_certificate {
  const char *of;   /* "listener" or "store" */
  const char *name; /* its address, or name */
  weir_config_place place;
  int64_t ends_s; /* since 1970 */
} weir_certificate;

typedef void weir_certificate_tell(void *to, const weir_certificate *certificate);

/* All that a server uses; and all that it would use with this registry, whose files are read. */
void weir_certificates_in_use(weir_service *service, const weir_registry *registry,
                              weir_certificate_tell *tell, void *to);
void weir_certificates_read(const weir_registry *registry, weir_certificate_tell *tell, void *to);

/* Whether it is near its end, or beyond; then `text` says so. */
bool weir_certificate_is_near(const weir_certificate *certificate, int64_t now_s,
                              weir_message *text);

/* Logs those that are. */
void weir_certificates_log(weir_service *service, const weir_registry *registry);

#endif
