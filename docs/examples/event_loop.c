/* Limits in an event loop that never waits for the store.
 *
 *     cc event_loop.c $(pkg-config --cflags --libs weir libevent libevent_pthreads) -o event_loop
 *     ./event_loop '127.0.0.1:8080' memcached://localhost sliding-window:100/1m
 *     curl -i http://127.0.0.1:8080/alice
 *
 * One thread decides. What has come while it waited for the store is its next batch, so a slow
 * store makes batches larger, and everything else that the loop does no slower: /health is answered
 * at once, whatever the limits wait for.
 */
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { WAITING_MOST = 10000, TOO_MANY_REQUESTS = 429 };

typedef struct job {
  struct job *next;
  struct evhttp_request *http;
  char *key;
  weir_request ask;
} job;

/* In the order they came. */
typedef struct line {
  job *first;
  job **end; /* where the next one goes */
  size_t count;
} line;

static weir_limiter *limiter;
static struct event *decided; /* wakes the loop */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static line waiting = {.end = &waiting.first};
static line done = {.end = &done.first};
static bool stopping;

static void append(line *to, job *added) {
  added->next = NULL;
  *to->end = added;
  to->end = &added->next;
  to->count++;
}

static job *take_first(line *from) {
  job *first = from->first;
  if (first == NULL) return NULL;
  from->first = first->next;
  if (from->first == NULL) from->end = &from->first;
  from->count--;
  return first;
}

/* --- the thread that decides -------------------------------------------------------------------
 */

static void decide_batch(job *const *jobs, size_t count) {
  static weir_request batch[WEIR_BATCH_MOST];
  for (size_t i = 0; i < count; i++)
    batch[i] = jobs[i]->ask;
  weir_limiter_decide(limiter, batch, count, NULL); /* each request has a status of its own */
  for (size_t i = 0; i < count; i++)
    jobs[i]->ask = batch[i];
}

static void *decide(void *unused) {
  static job *jobs[WEIR_BATCH_MOST];
  pthread_mutex_lock(&mutex);
  for (;;) {
    size_t count = 0;
    while (waiting.count == 0 && !stopping)
      pthread_cond_wait(&changed, &mutex);
    if (stopping) break;
    while (count < WEIR_BATCH_MOST && waiting.count > 0)
      jobs[count++] = take_first(&waiting);
    pthread_mutex_unlock(&mutex);
    decide_batch(jobs, count);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++)
      append(&done, jobs[i]);
    event_active(decided, EV_READ, 1);
  }
  for (job *left; (left = take_first(&waiting)) != NULL;)
    append(&done, left); /* without an answer */
  pthread_mutex_unlock(&mutex);
  return unused;
}

/* --- the event loop ----------------------------------------------------------------------------
 */

/* Of a client that has left, the reply is dropped. */
static void finish(job *finished) {
  const weir_decision *decision = &finished->ask.decision;
  struct evkeyvalq *headers = evhttp_request_get_output_headers(finished->http);
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  size_t count = 0;
  int code = HTTP_SERVUNAVAIL;
  if (finished->ask.status == WEIR_OK) {
    code = decision->allowed ? HTTP_OK : TOO_MANY_REQUESTS;
    weir_http_write_fields(limiter, "api", decision, WEIR_HTTP_DRAFT_10, fields, &count, NULL);
  }
  for (size_t i = 0; i < count; i++)
    evhttp_add_header(headers, fields[i].name, fields[i].value);
  evhttp_send_reply(finished->http, code, NULL, NULL);
  free(finished->key);
  free(finished);
}

static void finish_decided(evutil_socket_t none, short events, void *unused) {
  job *next;
  (void)none, (void)events, (void)unused;
  do {
    pthread_mutex_lock(&mutex);
    next = take_first(&done);
    pthread_mutex_unlock(&mutex);
    if (next != NULL) finish(next);
  } while (next != NULL);
}

/* The path is the key. */
static void serve(struct evhttp_request *http, void *unused) {
  job *made = calloc(1, sizeof *made);
  (void)unused;
  if (made != NULL) made->key = strdup(evhttp_request_get_uri(http));
  pthread_mutex_lock(&mutex);
  bool accepted = made != NULL && made->key != NULL && waiting.count < WAITING_MOST;
  if (accepted) {
    made->http = http;
    made->ask = (weir_request){.key = made->key, .key_length = strlen(made->key), .cost = 1};
    made->ask.status = WEIR_TIMEOUT;
    append(&waiting, made);
    pthread_cond_signal(&changed);
  }
  pthread_mutex_unlock(&mutex);
  if (accepted) return;
  if (made != NULL) free(made->key);
  free(made);
  evhttp_send_reply(http, HTTP_SERVUNAVAIL, NULL, NULL);
}

static void serve_health(struct evhttp_request *http, void *unused) {
  (void)unused;
  evhttp_send_reply(http, HTTP_OK, NULL, NULL);
}

static void stop(evutil_socket_t number, short events, void *base) {
  (void)number, (void)events;
  event_base_loopexit(base, NULL);
}

static bool listen_on(const char *text, struct event_base *base, struct evhttp *http) {
  struct sockaddr_storage address;
  int length = sizeof address;
  if (evutil_parse_sockaddr_port(text, (struct sockaddr *)&address, &length) != 0) return false;
  struct evconnlistener *listener =
      evconnlistener_new_bind(base, NULL, NULL, LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE, -1,
                              (struct sockaddr *)&address, length);
  if (listener == NULL || evhttp_bind_listener(http, listener) == NULL) return false;
  evhttp_set_cb(http, "/health", serve_health, NULL);
  evhttp_set_gencb(http, serve, NULL);
  return true;
}

/* Until SIGTERM. */
static bool run(const char *address) {
  struct event_base *base = event_base_new();
  struct evhttp *http = evhttp_new(base);
  struct event *ending = evsignal_new(base, SIGTERM, stop, base);
  pthread_t thread;
  decided = event_new(base, -1, EV_PERSIST, finish_decided, NULL);
  evsignal_add(ending, NULL);
  bool good = listen_on(address, base, http);
  if (good && pthread_create(&thread, NULL, decide, NULL) == 0) {
    event_base_dispatch(base);
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    finish_decided(-1, 0, NULL);
  }
  evhttp_free(http);
  event_free(ending);
  event_free(decided);
  event_base_free(base);
  return good;
}

int main(int argc, char **argv) {
  weir_message why = {"usage: event_loop ADDRESS:PORT STORE RULE"};
  weir_store *store = NULL;
  evthread_use_pthreads();
  bool good = argc == 4 && weir_store_open(argv[2], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, argv[3], NULL, &limiter, &why) == WEIR_OK;
  if (good) {
    snprintf(why.text, sizeof why.text, "cannot listen on %s", argv[1]);
    good = run(argv[1]);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (!good) fprintf(stderr, "event_loop: %s\n", why.text);
  return good ? 0 : 2;
}
