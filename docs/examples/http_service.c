/* A small HTTP service with limits: 429 and its fields, client keys behind proxies, metrics, a log.
 *
 *     cc http_service.c $(pkg-config --cflags --libs weir libevent libevent_pthreads) -o service
 *     ./service '[::]:8080' memcached://localhost sliding-window:100/1m '10.0.0.0/8, 127.0.0.1'
 *
 * Each thread has an event loop on the same port. A decision holds up its own loop for a round trip
 * to the store; event_loop.c shows the way without.
 */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

enum { THREADS = 4, HEADERS_BYTES_MOST = 8192, QUIET_US = 10000000 };

static weir_store *store;
static weir_limiter *limiter;
static weir_http_networks *proxies;

typedef struct worker {
  struct event_base *base;
  struct evhttp *http;
  pthread_t thread;
} worker;

/* A client may send the field itself, and a proxy may add one of its own: all of them count. */
static const char *join_forwarded(struct evhttp_request *http, char joined[HEADERS_BYTES_MOST]) {
  const struct evkeyvalq *headers = evhttp_request_get_input_headers(http);
  size_t used = 0;
  joined[0] = '\0';
  for (const struct evkeyval *each = headers->tqh_first; each != NULL; each = each->next.tqe_next)
    if (evutil_ascii_strcasecmp(each->key, "X-Forwarded-For") == 0 && used < HEADERS_BYTES_MOST)
      used += (size_t)snprintf(joined + used, HEADERS_BYTES_MOST - used, "%s%s", used ? "," : "",
                               each->value);
  return joined;
}

static void serve(struct evhttp_request *http, void *unused) {
  char joined[HEADERS_BYTES_MOST];
  char key[WEIR_HTTP_CLIENT_KEY_BYTES] = "?";
  char *peer = NULL;
  ev_uint16_t port;
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  size_t count = 0;
  weir_decision decision = {.allowed = false};
  weir_message why = {""};
  (void)unused;
  evhttp_connection_get_peer(evhttp_request_get_connection(http), &peer, &port);
  weir_status status =
      weir_http_client_key(proxies, peer, join_forwarded(http, joined), 0, 0, key, &why);
  if (status == WEIR_OK) status = weir_limiter_take(limiter, key, strlen(key), 1, &decision, &why);
  if (status == WEIR_OK)
    status =
        weir_http_write_fields(limiter, "api", &decision, WEIR_HTTP_DRAFT_10, fields, &count, &why);
  for (size_t i = 0; i < count; i++)
    evhttp_add_header(evhttp_request_get_output_headers(http), fields[i].name, fields[i].value);
  int code = status != WEIR_OK ? HTTP_SERVUNAVAIL : decision.allowed ? HTTP_OK : 429;
  printf("%s %s %d %s\n", key, evhttp_request_get_uri(http), code, why.text);
  evhttp_send_reply(http, code, code == 429 ? "Too Many Requests" : NULL, NULL);
}

static int append(void *body, const char *text, size_t length) {
  return evbuffer_add(body, text, length);
}

static void serve_metrics(struct evhttp_request *http, void *unused) {
  const weir_monitor_source source = {"api", limiter, store};
  struct evbuffer *body = evbuffer_new();
  (void)unused;
  bool whole = body != NULL && weir_monitor_prometheus(&source, 1, append, body, NULL) == WEIR_OK;
  evhttp_send_reply(http, whole ? HTTP_OK : HTTP_INTERNAL, NULL, whole ? body : NULL);
  if (body != NULL) evbuffer_free(body);
}

static void log_event(void *unused, const weir_event *event) {
  (void)unused;
  fprintf(stderr, "%s %s %s: %s (%llu)\n", event->kind_name, event->source,
          event->server != NULL ? event->server : "-", event->text,
          (unsigned long long)event->count);
}

static void *run(void *base) {
  event_base_dispatch(base);
  return NULL;
}

static bool start(worker *made, const struct sockaddr *address, int length) {
  struct evconnlistener *listener;
  if ((made->base = event_base_new()) == NULL) return false;
  if ((made->http = evhttp_new(made->base)) == NULL) return false;
  listener = evconnlistener_new_bind(
      made->base, NULL, NULL, LEV_OPT_REUSEABLE_PORT | LEV_OPT_CLOSE_ON_FREE, -1, address, length);
  if (listener == NULL || evhttp_bind_listener(made->http, listener) == NULL) return false;
  evhttp_set_max_headers_size(made->http, HEADERS_BYTES_MOST);
  evhttp_set_cb(made->http, "/metrics", serve_metrics, NULL); /* your proxy keeps it from others */
  evhttp_set_gencb(made->http, serve, NULL);
  return pthread_create(&made->thread, NULL, run, made->base) == 0;
}

int main(int argc, char **argv) {
  const struct timespec second = {.tv_sec = 1};
  weir_message why = {"usage: service ADDRESS:PORT STORE RULE PROXIES"};
  weir_watch *watch = NULL;
  struct sockaddr_storage address;
  int length = sizeof address;
  worker workers[THREADS];
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, NULL);
  evthread_use_pthreads();
  bool good = argc == 5 &&
              evutil_parse_sockaddr_port(argv[1], (struct sockaddr *)&address, &length) == 0 &&
              weir_store_open(argv[2], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, argv[3], NULL, &limiter, &why) == WEIR_OK &&
              weir_http_networks_create(argv[4], &proxies, &why) == WEIR_OK;
  const weir_monitor_source source = {"api", limiter, store};
  good = good && weir_watch_create(&source, 1, QUIET_US, &watch, &why) == WEIR_OK;
  if (good) snprintf(why.text, sizeof why.text, "cannot listen on %s", argv[1]);
  for (int i = 0; i < THREADS && good; i++)
    good = start(&workers[i], (struct sockaddr *)&address, length);
  if (!good) {
    fprintf(stderr, "service: %s\n", why.text);
    return 2;
  }
  while (sigtimedwait(&ending, NULL, &second) < 0)
    weir_watch_look(watch, log_event, NULL);
  for (int i = 0; i < THREADS; i++) {
    event_base_loopexit(workers[i].base, NULL);
    pthread_join(workers[i].thread, NULL);
    evhttp_free(workers[i].http);
    event_base_free(workers[i].base);
  }
  weir_watch_destroy(watch);
  weir_http_networks_destroy(proxies);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return 0;
}
