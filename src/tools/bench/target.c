/* Which servers a URL names: those behind a store, or one of weir, which decides itself. */
#include "bench/raw.h"

#include <stdio.h>
#include <string.h>
#include <weir/backend.h>

#include "store/store.h"
#include "store/url.h"

enum { MEMCACHED_PORT = 11211, REDIS_PORT = 6379, HTTP_PORT = 80, GRPC_PORT = 8081 };

/* At most WEIR_BENCH_HOST_BYTES with their end; NULL is "". */
static void copy(char *to, const char *from) {
  snprintf(to, WEIR_BENCH_HOST_BYTES, "%s", from != NULL ? from : "");
}

weir_status weir_bench_target_read(const char *url, weir_bench_target *target,
                                   weir_message *message) {
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(url, weir_builtin_backends, &parsed, message);
  if (status != WEIR_OK) return status;
  const char *scheme = parsed.url.scheme;
  *target = (weir_bench_target){.redis = strncmp(scheme, "redis", 5) == 0};
  target->raw = (target->redis || strncmp(scheme, "memcached", 9) == 0) &&
                strncmp(scheme, "rediss", 6) != 0 && strncmp(scheme, "memcacheds", 10) != 0;
  const weir_url *named = &parsed.url;
  uint16_t port = target->redis ? REDIS_PORT : MEMCACHED_PORT;
  if (named->host_count == 0 && named->path != NULL) {
    copy(target->hosts[0].name, named->path);
    target->host_count = 1;
  }
  for (size_t i = 0; i < named->host_count && i < WEIR_BENCH_HOSTS_MOST; i++) {
    copy(target->hosts[i].name, named->hosts[i].name);
    target->hosts[i].port = named->hosts[i].port != 0 ? named->hosts[i].port : port;
    target->host_count++;
  }
  copy(target->user, named->user);
  copy(target->password, named->password);
  weir_url_clear(&parsed);
  return WEIR_OK;
}

/* A limiter's name, or of gRPC DOMAIN/KEY. */
static weir_status check_path(const char *path, bool grpc, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const char *name = path != NULL ? path + 1 : "";
  size_t length = strlen(name), domain = strcspn(name, "/");
  bool has_both = domain > 0 && domain + 1 < length && strchr(name + domain + 1, '/') == NULL;
  bool is_word = length > 0 && strspn(name, accepted) == length;
  if ((grpc ? has_both : is_word) && length < WEIR_BENCH_LIMITER_BYTES) return WEIR_OK;
  weir_message_set(message,
                   grpc
                       ? "the path must be a domain and a key of its descriptors, such as "
                         "/edge/user: at most %d bytes"
                       : "the path must be the name of a limiter of the server, such as /api: 1 to "
                         "%d of A-Z a-z 0-9 _ . - are accepted",
                   WEIR_BENCH_LIMITER_BYTES - 1);
  return WEIR_BAD_URL;
}

weir_status weir_bench_target_read_via(const char *url, weir_bench_target *target,
                                       weir_message *message) {
  static const weir_scheme schemes[] = {{"redis", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                        {"http", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
#ifdef WEIR_HAS_SERVE
                                        {"grpc", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
#endif
                                        {NULL, 0}};
  static const char *const options[] = {NULL};
  static const weir_backend server = {
      .size = sizeof server, .name = "weir", .schemes = schemes, .options = options};
  static const weir_backend *const servers[] = {&server, NULL};
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(url, servers, &parsed, message);
  if (status != WEIR_OK) return status;
  bool http = strcmp(parsed.url.scheme, "http") == 0;
  bool grpc = strcmp(parsed.url.scheme, "grpc") == 0;
  status = check_path(parsed.url.path, grpc, message);
  if (status == WEIR_OK) {
    uint16_t port = grpc ? GRPC_PORT : http ? HTTP_PORT : REDIS_PORT;
    *target = (weir_bench_target){.via = grpc   ? WEIR_BENCH_GRPC
                                         : http ? WEIR_BENCH_HTTP
                                                : WEIR_BENCH_RESP,
                                  .redis = !http && !grpc,
                                  .raw = !http && !grpc};
    snprintf(target->limiter, sizeof target->limiter, "%s", parsed.url.path + 1);
    copy(target->hosts[0].name, parsed.url.hosts[0].name);
    target->hosts[0].port = parsed.url.hosts[0].port != 0 ? parsed.url.hosts[0].port : port;
    target->host_count = 1;
    copy(target->user, parsed.url.user);
    copy(target->password, parsed.url.password);
  }
  weir_url_clear(&parsed);
  return status;
}
