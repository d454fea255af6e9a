/* The native part of the package: opens a limiter, and decides batches on Node's own threads. */
#define NAPI_VERSION 6
#include <node_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

typedef struct limits {
  weir_store *store;
  weir_limiter *limiter;
} limits;

/* A batch, from the call to the promise's end. */
typedef struct batch {
  limits *of;
  size_t count;
  weir_request *requests;
  char **keys; /* theirs */
  napi_deferred promise;
  napi_async_work work;
} batch;

static napi_value fail(napi_env env, const char *code, const char *text) {
  napi_throw_error(env, code, text);
  return NULL;
}

static char *text_of(napi_env env, napi_value value, size_t *length) {
  char *text = NULL;
  if (napi_get_value_string_utf8(env, value, NULL, 0, length) != napi_ok) return NULL;
  if ((text = malloc(*length + 1)) != NULL)
    napi_get_value_string_utf8(env, value, text, *length + 1, length);
  return text;
}

static void close_limits(limits *done) {
  weir_limiter_destroy(done->limiter);
  weir_store_close(done->store);
  *done = (limits){NULL, NULL};
}

static void collect(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  close_limits(data);
  free(data);
}

/* open(url, rules, fallback) */
static napi_value open_limiter(napi_env env, napi_callback_info info) {
  napi_value argument[3];
  napi_value made = NULL;
  size_t count = 3;
  size_t length;
  weir_message why = {"out of memory"};
  weir_limiter_options options = {.size = sizeof options};
  napi_get_cb_info(env, info, &count, argument, NULL, NULL);
  char *url = text_of(env, argument[0], &length);
  char *rules = text_of(env, argument[1], &length);
  limits *opened = calloc(1, sizeof *opened);
  weir_status status = WEIR_NO_MEMORY;
  napi_get_value_uint32(env, argument[2], &options.fallback);
  if (url != NULL && rules != NULL && opened != NULL)
    status = weir_store_open(url, &opened->store, &why);
  if (status == WEIR_OK)
    status = weir_limiter_create(opened->store, rules, &options, &opened->limiter, &why);
  free(url);
  free(rules);
  if (status == WEIR_OK && napi_create_external(env, opened, collect, NULL, &made) == napi_ok)
    return made;
  if (opened != NULL) collect(env, opened, NULL);
  return fail(env, weir_status_name(status), why.text);
}

static void set(napi_env env, napi_value object, const char *name, napi_value value) {
  napi_set_named_property(env, object, name, value);
}

static void set_number(napi_env env, napi_value object, const char *name, double number) {
  napi_value value;
  napi_create_double(env, number, &value);
  set(env, object, name, value);
}

/* {allowed, source, limit, remaining, retryAfter, resetAfter, delay, cost}; {error} without one. */
static napi_value decision_of(napi_env env, const weir_request *request) {
  const weir_decision *decision = &request->decision;
  napi_value made;
  napi_value value;
  napi_create_object(env, &made);
  if (request->status != WEIR_OK) {
    napi_create_string_utf8(env, weir_status_name(request->status), NAPI_AUTO_LENGTH, &value);
    set(env, made, "error", value);
    return made;
  }
  napi_get_boolean(env, decision->allowed, &value);
  set(env, made, "allowed", value);
  set_number(env, made, "source", decision->source);
  set_number(env, made, "limit", (double)decision->limit);
  set_number(env, made, "remaining", (double)decision->remaining);
  set_number(env, made, "retryAfterUs", (double)decision->retry_after_us);
  set_number(env, made, "resetAfterUs", (double)decision->reset_after_us);
  set_number(env, made, "delayUs", (double)decision->delay_us);
  set_number(env, made, "cost", (double)decision->cost);
  return made;
}

/* On a thread of Node's: touches nothing of JavaScript. */
static void decide(napi_env env, void *data) {
  batch *asked = data;
  (void)env;
  weir_limiter_decide(asked->of->limiter, asked->requests, asked->count, NULL);
}

static void free_batch(batch *done) {
  for (size_t i = 0; done->keys != NULL && i < done->count; i++)
    free(done->keys[i]);
  free(done->keys);
  free(done->requests);
  free(done);
}

static void finish(napi_env env, napi_status status, void *data) {
  batch *done = data;
  napi_value all;
  (void)status;
  napi_create_array_with_length(env, done->count, &all);
  for (size_t i = 0; i < done->count; i++)
    napi_set_element(env, all, (uint32_t)i, decision_of(env, &done->requests[i]));
  napi_resolve_deferred(env, done->promise, all);
  napi_delete_async_work(env, done->work);
  free_batch(done);
}

static bool read_next(napi_env env, napi_value pairs, batch *to) {
  napi_value key;
  napi_value cost;
  size_t i = to->count++;
  weir_request *request = &to->requests[i];
  napi_get_element(env, pairs, (uint32_t)(2 * i), &key);
  napi_get_element(env, pairs, (uint32_t)(2 * i + 1), &cost);
  request->key = to->keys[i] = text_of(env, key, &request->key_length);
  return request->key != NULL && napi_get_value_int64(env, cost, &request->cost) == napi_ok;
}

/* decide(limiter, [key, cost, key, cost, ...]): a promise of as many decisions. */
static napi_value decide_all(napi_env env, napi_callback_info info) {
  napi_value argument[2];
  napi_value promise;
  napi_value name;
  size_t count = 2;
  uint32_t length = 0;
  void *of = NULL;
  napi_get_cb_info(env, info, &count, argument, NULL, NULL);
  napi_get_value_external(env, argument[0], &of);
  napi_get_array_length(env, argument[1], &length);
  batch *made = calloc(1, sizeof *made);
  if (made != NULL) made->requests = calloc(length / 2 + 1, sizeof *made->requests);
  if (made != NULL) made->keys = calloc(length / 2 + 1, sizeof *made->keys);
  if (of == NULL || made == NULL || made->requests == NULL || made->keys == NULL) {
    if (made != NULL) free_batch(made);
    return fail(env, "NO_MEMORY", "out of memory, or no limiter");
  }
  made->of = of;
  while (made->count < length / 2) {
    if (read_next(env, argument[1], made)) continue;
    free_batch(made);
    return fail(env, "BAD_ARGUMENT", "accepted are keys that are text and costs that are numbers");
  }
  napi_create_promise(env, &made->promise, &promise);
  napi_create_string_utf8(env, "weir", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, decide, finish, made, &made->work);
  napi_queue_async_work(env, made->work);
  return promise;
}

/* close(limiter): no batch is under way. */
static napi_value close_limiter(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  void *done = NULL;
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  napi_get_value_external(env, argument, &done);
  if (done != NULL) close_limits(done);
  return NULL;
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {{"open", open_limiter}, {"decide", decide_all}, {"close", close_limiter}};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value made;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &made);
    set(env, exports, functions[i].name, made);
  }
  return exports;
}
