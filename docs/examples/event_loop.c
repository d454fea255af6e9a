/* Limits in an event loop that never waits for the store.
 *
 *     cc event_loop.c $(pkg-config --cflags --libs weir libevent libevent_pthreads) -o event_loop
 *     ./event_loop '127.0.0.1:8080' memcached://localhost sliding-window:100/1m
 *     curl -i http://127.0.0.1:8080/alice
 *
 * One thread decides. Requests that come while it waits for the store are its next batch, so a slow
 * store makes batches larger, and everything else that the loop does no slower: /health is answered
 * at once, whatever the limits wait for.
 *
 *     ./event_loop '127.0.0.1:8080' memcached://localhost in-flight:20/10s 1500
 *
 * Here each request is work of 1500 ms, and 20 of a key are under way at once over all processes. A
 * place is held from before the work to its end. A held place must be paid for again now and then:
 * the loop's timer says when, and the thread does it, as that waits for the store as well.
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
  weir_reservation *place; /* that it holds; NULL: none */
  bool is_done;            /* its work; then it leaves */
} job;

/* In the order they came. */
typedef struct line {
  job *first;
  job **end; /* where the next one goes */
  size_t count;
} line;

static weir_limiter *limiter;
static long work_ms; /* 0: the rule holds nothing */
static struct event_base *base;
static struct event *decided;  /* wakes the loop */
static struct event *renewal;  /* its timer: what is held is due to be paid for */
static size_t working;         /* jobs that hold a place, or are about to leave */
static bool ending, has_ended; /* once none does any more */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static line waiting = {.end = &waiting.first};
static line done = {.end = &done.first};
static bool is_due;                    /* a renewal */
static int64_t due_in_us = WEIR_NEVER; /* the next one, for the loop's timer */
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

/* Those whose work is done leave, which makes room for those that enter. */
static void leave_and_enter(job *const *jobs, size_t count) {
  static weir_limiter *limiters[WEIR_BATCH_MOST];
  static weir_request asks[WEIR_BATCH_MOST];
  static weir_reservation *places[WEIR_BATCH_MOST];
  size_t leaving = 0, entering = 0;
  for (size_t i = 0; i < count; i++)
    if (jobs[i]->is_done) places[leaving++] = jobs[i]->place;
  if (leaving > 0) weir_release_together(places, leaving, NULL, NULL);
  for (size_t i = 0; i < leaving; i++)
    weir_reservation_destroy(places[i]);

  for (size_t i = 0; i < count; i++) {
    if (jobs[i]->is_done) continue;
    limiters[entering] = limiter;
    asks[entering++] = jobs[i]->ask;
  }
  if (entering == 0) return;
  weir_reserve_together(limiters, asks, entering, places, NULL);
  entering = 0;
  for (size_t i = 0; i < count; i++) {
    if (jobs[i]->is_done) continue;
    jobs[i]->place = places[entering];
    jobs[i]->ask = asks[entering++];
  }
}

static void *decide(void *unused) {
  static job *jobs[WEIR_BATCH_MOST];
  pthread_mutex_lock(&mutex);
  for (;;) {
    size_t count = 0;
    int64_t next_us = WEIR_NEVER;
    while (waiting.count == 0 && !is_due && !stopping)
      pthread_cond_wait(&changed, &mutex);
    if (stopping) break;
    while (count < WEIR_BATCH_MOST && waiting.count > 0)
      jobs[count++] = take_first(&waiting);
    is_due = false;
    pthread_mutex_unlock(&mutex);
    if (work_ms == 0)
      decide_batch(jobs, count);
    else if (count > 0)
      leave_and_enter(jobs, count);
    /* Asks the store only where something is due; where that fails, next_us is short. */
    if (work_ms > 0) weir_limiter_renew(limiter, &next_us, NULL);
    pthread_mutex_lock(&mutex);
    due_in_us = next_us;
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

static void hand_over(job *next) {
  pthread_mutex_lock(&mutex);
  append(&waiting, next);
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

/* The answer says whether the place was still held at the end: work that must not overlap asks that
 * before each step. */
static void finish_work(evutil_socket_t none, short events, void *worked) {
  job *finished = worked;
  (void)none, (void)events;
  int code = weir_reservation_held(finished->place) ? HTTP_OK : HTTP_SERVUNAVAIL;
  evhttp_send_reply(finished->http, code, NULL, NULL);
  finished->is_done = true;
  hand_over(finished);
}

static void begin_work(job *begun) {
  const struct timeval time = {work_ms / 1000, work_ms % 1000 * 1000};
  working++;
  event_base_once(base, -1, EV_TIMEOUT, finish_work, begun, &time);
}

static void set_renewal(int64_t in_us) {
  const struct timeval time = {in_us / 1000000, in_us % 1000000};
  if (in_us == WEIR_NEVER)
    evtimer_del(renewal);
  else
    evtimer_add(renewal, &time);
}

static void renew(evutil_socket_t none, short events, void *unused) {
  (void)none, (void)events, (void)unused;
  pthread_mutex_lock(&mutex);
  is_due = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

/* The reply to a client that has left is dropped. */
static void finish(job *finished) {
  const weir_decision *decision = &finished->ask.decision;
  struct evkeyvalq *headers = evhttp_request_get_output_headers(finished->http);
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  size_t count = 0;
  int code = HTTP_SERVUNAVAIL;
  if (finished->place != NULL) { /* it entered while the loop ended */
    weir_reservation_commit(finished->place, NULL);
    weir_reservation_destroy(finished->place);
  } else if (finished->ask.status == WEIR_OK) {
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
  int64_t in_us;
  (void)none, (void)events, (void)unused;
  do {
    pthread_mutex_lock(&mutex);
    next = take_first(&done);
    in_us = due_in_us;
    pthread_mutex_unlock(&mutex);
    if (next != NULL && next->is_done) {
      working--;
      free(next->key);
      free(next);
    } else if (next != NULL && next->place != NULL && !has_ended) {
      begin_work(next);
    } else if (next != NULL) {
      finish(next);
    }
  } while (next != NULL);
  set_renewal(in_us);
  if (ending && working == 0) event_base_loopexit(base, NULL);
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

/* Places that are held are left first. */
static void stop(evutil_socket_t number, short events, void *unused) {
  (void)number, (void)events, (void)unused;
  ending = true;
  if (working == 0) event_base_loopexit(base, NULL);
}

static bool listen_on(const char *text, struct evhttp *http) {
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
  base = event_base_new();
  struct evhttp *http = evhttp_new(base);
  struct event *term = evsignal_new(base, SIGTERM, stop, NULL);
  pthread_t thread;
  decided = event_new(base, -1, EV_PERSIST, finish_decided, NULL);
  renewal = evtimer_new(base, renew, NULL);
  evsignal_add(term, NULL);
  bool good = listen_on(address, http);
  if (good && pthread_create(&thread, NULL, decide, NULL) == 0) {
    event_base_dispatch(base);
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    has_ended = true;
    finish_decided(-1, 0, NULL);
  }
  evhttp_free(http);
  event_free(term);
  event_free(renewal);
  event_free(decided);
  event_base_free(base);
  return good;
}

int main(int argc, char **argv) {
  weir_message why = {"usage: event_loop ADDRESS:PORT STORE RULE [WORK_MS]"};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  weir_store *store = NULL;
  options.renew = WEIR_RENEW_BY_CALLER;
  if (argc == 5) work_ms = strtol(argv[4], NULL, 10);
  evthread_use_pthreads();
  bool good = (argc == 4 || work_ms > 0) && weir_store_open(argv[2], &store, &why) == WEIR_OK &&
              weir_limiter_create(store, argv[3], &options, &limiter, &why) == WEIR_OK;
  if (good) {
    snprintf(why.text, sizeof why.text, "cannot listen on %s", argv[1]);
    good = run(argv[1]);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (!good) fprintf(stderr, "event_loop: %s\n", why.text);
  return good ? 0 : 2;
}
