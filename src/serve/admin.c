/* What the server says of itself: /metrics, /healthz, /readyz. The main thread answers, which never
 * waits for a store. */
#include <string.h>

#include "serve/http.h"
#include "serve/loop.h"
#include "serve/server.h"

/* --- metrics ------------------------------------------------------------------------------------
 */

static uint64_t total(weir_server *server, size_t offset) {
  uint64_t sum = 0;
  for (unsigned i = 0; i <= server->loop_count; i++) {
    weir_loop *loop = i < server->loop_count ? &server->loops[i] : &server->front;
    _Atomic uint64_t *count = (void *)((char *)&loop->counts + offset);
    sum += atomic_load_explicit(count, memory_order_relaxed);
  }
  return sum;
}

static void write_head(const char *series, const char *type, const char *help, weir_bytes *out) {
  weir_bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", series, help, series, type);
}

static void write_counters(weir_server *server, weir_bytes *out) {
  static const struct {
    const char *series, *labels, *help;
    size_t offset;
  } counters[] = {
#define WEIR_SERVE_COUNTER(member, series, labels, help) \
  {series, labels, help, offsetof(weir_serve_counts, member)},
      WEIR_SERVE_COUNTERS(WEIR_SERVE_COUNTER)
#undef WEIR_SERVE_COUNTER
  };
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    if (counters[i].help != NULL) write_head(counters[i].series, "counter", counters[i].help, out);
    weir_bytes_format(out, "%s%s %llu\n", counters[i].series, counters[i].labels,
                      (unsigned long long)total(server, counters[i].offset));
  }
}

static void write_gauge(const char *series, const char *help, int64_t value, weir_bytes *out) {
  write_head(series, "gauge", help, out);
  weir_bytes_format(out, "%s %lld\n", series, (long long)value);
}

static void write_metrics(weir_server *server, weir_bytes *out) {
  int64_t open = 0;
  for (unsigned i = 0; i < server->loop_count; i++)
    open += atomic_load_explicit(&server->loops[i].counts.open, memory_order_relaxed);
  write_counters(server, out);
  write_gauge("weir_serve_connections", "Connections that are open", open, out);
  write_gauge("weir_serve_loops", "Threads that serve", server->loop_count, out);
  write_head("weir_serve_reloads_total", "counter", "Configurations read, by how it went", out);
  weir_bytes_format(out,
                    "weir_serve_reloads_total{result=\"used\"} %llu\n"
                    "weir_serve_reloads_total{result=\"refused\"} %llu\n",
                    (unsigned long long)server->reloads,
                    (unsigned long long)server->reload_failures);
  write_head("weir_build_info", "gauge", "The version that runs", out);
  weir_bytes_format(out, "weir_build_info{version=\"%s\"} 1\n", WEIR_VERSION_TEXT);
}

/* --- readiness ----------------------------------------------------------------------------------
 */

static const char *breaker_name(weir_breaker_state state) {
  return state == WEIR_BREAKER_CLOSED ? "closed" : state == WEIR_BREAKER_OPEN ? "open" : "probing";
}

/* A store that is away is no reason to send clients elsewhere: the policy answers. So it is said in
 * the body alone. */
static void write_readiness(weir_server *server, weir_bytes *out) {
  const weir_registry *registry = server->front.tick.registry;
  const weir_config *config = weir_registry_config(registry);
  weir_bytes_text(out, server->is_draining ? "ending\n" : "ready\n");
  for (size_t i = 0; i < config->store_count; i++) {
    weir_server_state state = {.size = sizeof state};
    const weir_store *store = weir_registry_store_at(registry, i);
    for (size_t j = 0; weir_store_read_server(store, j, &state) == WEIR_OK; j++)
      weir_bytes_format(out, "store %s: %s %s, outages %llu\n", config->stores[i].name,
                        state.name != NULL ? state.name : "-", breaker_name(state.breaker),
                        (unsigned long long)state.outages);
  }
}

/* --- requests -----------------------------------------------------------------------------------
 */

static bool is_path(const weir_http_request *request, const char *path) {
  return request->path.length == strlen(path) &&
         memcmp(request->path.bytes, path, request->path.length) == 0;
}

/* The status of the answer; 0: there is no such page. */
static int write_page(weir_server *server, const weir_http_request *request, weir_bytes *out) {
  if (is_path(request, "/metrics")) {
    write_metrics(server, out);
  } else if (is_path(request, "/healthz")) {
    weir_bytes_text(out, "alive\n");
  } else if (is_path(request, "/readyz")) {
    write_readiness(server, out);
    return server->is_draining ? 503 : 200;
  } else {
    return 0;
  }
  return 200;
}

static void answer_request(weir_connection *connection, const weir_http_request *request) {
  static const char type[] = "text/plain; version=0.0.4; charset=utf-8";
  const weir_config_listener *listener = connection->port->config;
  weir_bytes page = {0};
  weir_bytes *text = &connection->loop->reply;
  unsigned manner = weir_serve_manner(request);
  weir_http_refusal refusal = {404, {"there are /metrics, /healthz and /readyz"}};
  bool known = weir_http_is_known(request, listener->credentials, listener->credential_count);
  bool reads = weir_http_is(request->method, "GET") || weir_http_is(request->method, "HEAD");
  if (!known)
    refusal = (weir_http_refusal){401, {"a bearer token is needed"}};
  else if (!reads)
    refusal = (weir_http_refusal){501, {"GET and HEAD are accepted"}};
  int status = known && reads ? write_page(connection->loop->server, request, &page) : 0;
  text->length = 0;
  if (status > 0 && !page.failed)
    weir_http_text_answer(status, type, page.data, page.length, manner, text);
  else
    weir_http_refuse(&refusal, manner, text);
  weir_connection_queue_text(connection, text->data, text->length);
  weir_bytes_free(&page);
}

static weir_progress read_request(weir_connection *connection, const char *bytes, size_t length,
                                  size_t *used) {
  weir_http_request request;
  weir_http_reading reading = weir_serve_read_http(connection, bytes, length, used, &request);
  if (reading == WEIR_HTTP_MORE) return WEIR_PROGRESS_MORE;
  if (reading == WEIR_HTTP_BROKEN) return WEIR_PROGRESS_ENDS;
  weir_serve_count(&connection->loop->counts.admin, 1);
  answer_request(connection, &request);
  return request.keeps_alive ? WEIR_PROGRESS_READ : WEIR_PROGRESS_ENDS;
}

static void begin(weir_connection *connection) {
  connection->speaks.http = (weir_http_parser){0};
}

const weir_speech weir_speech_admin = {
    .name = "admin",
    .begin = begin,
    .read = read_request,
    .answer = NULL, /* every answer is a text */
    .full = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
};
