/* What the server says of itself: /metrics, /status, /healthz, /readyz. The main thread answers,
 * which never waits for a store. */
#include <string.h>

#include "serve/http.h"
#include "serve/loop.h"
#include "serve/server.h"
#include "serve/status.h"

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
  weir_bytes_text(out, server->is_draining   ? "ending\n"
                       : !server->is_serving ? "connecting\n"
                                             : "ready\n");
  for (size_t i = 0; i < config->store_count; i++) {
    weir_server_state state = WEIR_SERVER_STATE_INIT;
    const weir_store *store = weir_registry_store_at(registry, i);
    for (size_t j = 0; weir_store_read_server(store, j, &state) == WEIR_OK; j++)
      weir_bytes_format(out, "store %s: %s %s, outages %llu%s\n", config->stores[i].name,
                        state.name != NULL ? state.name : "-", breaker_name(state.breaker),
                        (unsigned long long)state.outages,
                        state.answered ? "" : ", never answered");
  }
}

/* --- requests -----------------------------------------------------------------------------------
 */

static bool is_path(const weir_http_request *request, const char *path) {
  return request->path.length == strlen(path) &&
         memcmp(request->path.bytes, path, request->path.length) == 0;
}

/* The status of the answer; 0: there is no such page. */
static int write_page(weir_server *server, const weir_http_request *request, const char **type,
                      weir_bytes *out) {
  *type = "text/plain; charset=utf-8";
  if (is_path(request, "/metrics")) {
    *type = "text/plain; version=0.0.4; charset=utf-8";
    weir_serve_write_metrics(server, out);
  } else if (is_path(request, "/status")) {
    *type = "text/html; charset=utf-8";
    weir_bytes_add(out, weir_status_page, weir_status_page_length);
  } else if (is_path(request, "/status.json")) {
    *type = "application/json";
    weir_serve_write_status(server, out);
  } else if (is_path(request, "/healthz")) {
    weir_bytes_text(out, "alive\n");
  } else if (is_path(request, "/readyz")) {
    write_readiness(server, out);
    return server->is_draining || !server->is_serving ? 503 : 200;
  } else {
    return 0;
  }
  return 200;
}

/* The page /status holds no figures, and a browser cannot be told to show a token for it: the page
 * asks for one, and shows it for /status.json. */
static weir_serve_standing look(weir_connection *connection, const weir_http_request *request) {
  return is_path(request, "/status") ? WEIR_SERVE_KNOWN
                                     : weir_serve_look_at_token(connection, request);
}

static void answer_request(weir_connection *connection, const weir_http_request *request,
                           bool known) {
  weir_bytes page = {0};
  weir_bytes *text = &connection->loop->reply;
  unsigned manner = weir_serve_manner(request);
  weir_http_refusal refusal = {404,
                               {"there are /metrics, /status, /status.json, /healthz and /readyz"}};
  const char *type = NULL;
  bool opens = is_path(request, "/status"); /* the page alone, which others may link to */
  bool is_meant = weir_serve_is_from_here(connection, request, opens, &refusal);
  bool reads = weir_http_is(request->method, "GET") || weir_http_is(request->method, "HEAD");
  if (is_meant && !known)
    refusal = (weir_http_refusal){401, {"a bearer token is needed"}};
  else if (is_meant && !reads)
    refusal = (weir_http_refusal){501, {"GET and HEAD are accepted"}};
  int status =
      is_meant && known && reads ? write_page(connection->loop->server, request, &type, &page) : 0;
  if (page.failed) refusal = (weir_http_refusal){503, {"the server is short of memory"}};
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
  weir_serve_standing standing = look(connection, &request);
  if (standing == WEIR_SERVE_HELD) *used = 0;
  if (standing == WEIR_SERVE_HELD) return WEIR_PROGRESS_HELD;
  weir_serve_count(&connection->loop->counts.admin, 1);
  answer_request(connection, &request, standing == WEIR_SERVE_KNOWN);
  connection->share = 1; /* pages are large, and this thread has signals to hear: one a turn */
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
    .full = WEIR_SERVE_HTTP_FULL,
    .full_length = sizeof WEIR_SERVE_HTTP_FULL - 1,
};
