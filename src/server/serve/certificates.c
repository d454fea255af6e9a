#include "serve/certificates.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "tell/log.h"

enum { DAY_S = 24 * 3600, NEAR_DAYS = 14 };

static void tell_stores(const weir_registry *registry, weir_certificate_tell *tell, void *to) {
  for (size_t i = 0; i < registry->config->store_count; i++) {
    int64_t ends_s = weir_store_certificate_end_s(weir_registry_store_at(registry, i));
    if (ends_s == 0) continue;
    const weir_config_store *store = &registry->config->stores[i];
    tell(to, &(weir_certificate){"store", store->name, store->place, ends_s});
  }
}

static void tell_listener(const weir_config_listener *listener, weir_serve_tls *tls,
                          weir_certificate_tell *tell, void *to) {
  int64_t ends_s = tls != NULL ? weir_serve_tls_certificate_end_s(tls) : 0;
  if (ends_s != 0)
    tell(to, &(weir_certificate){"listener", listener->address, listener->place, ends_s});
}

void weir_certificates_in_use(weir_service *service, const weir_registry *registry,
                              weir_certificate_tell *tell, void *to) {
  for (size_t i = 0; i < service->socket_count; i++) {
    pthread_mutex_lock(&service->tls_lock);
    weir_serve_tls *tls = weir_serve_tls_retain(service->tls[i]);
    pthread_mutex_unlock(&service->tls_lock);
    tell_listener(weir_service_listener(service, registry, i), tls, tell, to);
    weir_serve_tls_destroy(tls);
  }
  tell_stores(registry, tell, to);
}

void weir_certificates_read(const weir_registry *registry, weir_certificate_tell *tell, void *to) {
  for (size_t i = 0; i < registry->config->listener_count; i++) {
    const weir_config_listener *listener = &registry->config->listeners[i];
    weir_message why;
    if (listener->tls.certificate == NULL) continue;
    weir_serve_tls *tls = weir_serve_tls_create(listener, &why);
    tell_listener(listener, tls, tell, to);
    weir_serve_tls_destroy(tls);
  }
  tell_stores(registry, tell, to);
}

bool weir_certificate_is_near(const weir_certificate *certificate, int64_t now_s,
                              weir_message *text) {
  int64_t left_s = certificate->ends_s - now_s;
  time_t end = (time_t)certificate->ends_s;
  struct tm parts;
  char date[32];
  if (left_s > NEAR_DAYS * DAY_S) return false;
  if (gmtime_r(&end, &parts) == NULL || strftime(date, sizeof date, "%F %T UTC", &parts) == 0)
    snprintf(date, sizeof date, "%" PRId64, certificate->ends_s);
  if (left_s <= 0)
    snprintf(text->text, sizeof text->text, "%s %.200s: its certificate has ended, at %s",
             certificate->of, certificate->name, date);
  else
    snprintf(text->text, sizeof text->text,
             "%s %.200s: its certificate ends in %" PRId64 " days, at %s", certificate->of,
             certificate->name, left_s / DAY_S, date);
  return true;
}

static void log_one(void *now_s, const weir_certificate *certificate) {
  weir_message text;
  if (weir_certificate_is_near(certificate, *(const int64_t *)now_s, &text))
    weir_serve_log("%s", text.text);
}

void weir_certificates_log(weir_service *service, const weir_registry *registry) {
  int64_t now_s = (int64_t)time(NULL);
  weir_certificates_in_use(service, registry, log_one, &now_s);
}
