/* The native part of the package: takes at once, and batches and other calls on Node's own threads.
 *
 * index.js alone calls it, with arguments it has looked at. Handles are counted: a call that is under
 * way uses its limiters, so closing one frees it when the last call has ended. */
#define NAPI_VERSION 6
#include <math.h>
#include <node_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

/* --- what the library made, and who uses it: all of it counted in JavaScript's thread */

typedef struct thing {
  size_t users;
  weir_store *store;
  weir_limiter *limiter;
  weir_reservation *reservation;
  weir_request *request; /* of the reservation, which knows the place of its decision */
  weir_http_networks *networks;
  struct thing *after; /* what must outlive it */
  napi_async_work end;
} thing;

/* JavaScript's hold on a thing, until it lets go. */
typedef struct handle {
  thing *of;
} handle;

static thing *use(thing *used) {
  if (used != NULL) used->users++;
  return used;
}

/* The environment of this thread ends: what is begun beside its loop would outlive it. */
static _Thread_local bool is_ending;

static void note_end(void *unused) {
  (void)unused;
  is_ending = true;
}

/* Touches nothing of JavaScript. */
static void destroy(napi_env env, void *data) {
  thing *gone = data;
  (void)env;
  weir_reservation_destroy(gone->reservation);
  weir_http_networks_destroy(gone->networks);
  weir_limiter_destroy(gone->limiter);
  weir_store_close(gone->store);
}

static void drop(napi_env env, thing *used);

static void forget(napi_env env, napi_status ended, void *data) {
  thing *gone = data;
  thing *after = gone->after;
  (void)ended;
  if (gone->end != NULL) napi_delete_async_work(env, gone->end);
  free(gone->request);
  free(gone);
  drop(env, after);
}

/* A limiter's end waits for its thread, and so not in the event loop. What must outlive it is dropped behind it. */
static void drop(napi_env env, thing *used) {
  napi_value name;
  if (used == NULL || --used->users > 0) return;
  if (used->limiter != NULL && !is_ending &&
      napi_create_string_utf8(env, "weir", NAPI_AUTO_LENGTH, &name) == napi_ok &&
      napi_create_async_work(env, NULL, name, destroy, forget, used, &used->end) == napi_ok &&
      napi_queue_async_work(env, used->end) == napi_ok)
    return;
  destroy(env, used);
  forget(env, napi_ok, used);
}

static void collect(napi_env env, void *data, void *hint) {
  handle *gone = data;
  (void)hint;
  drop(env, gone->of);
  free(gone);
}

/* --- values */

static napi_value fail(napi_env env, weir_status status, const char *text) {
  napi_throw_error(env, weir_status_name(status),
                   text != NULL && text[0] != '\0' ? text : weir_status_text(status));
  return NULL;
}

/* Takes over a user of `of`. */
static napi_value handle_of(napi_env env, thing *of) {
  napi_value made = NULL;
  handle *held = malloc(sizeof *held);
  if (held != NULL) held->of = of;
  if (held != NULL && napi_create_external(env, held, collect, NULL, &made) == napi_ok) return made;
  free(held);
  drop(env, of);
  return fail(env, WEIR_NO_MEMORY, NULL);
}

/* NULL where it is none, or was let go. */
static thing *thing_of(napi_env env, napi_value value) {
  void *held = NULL;
  if (napi_get_value_external(env, value, &held) != napi_ok || held == NULL) return NULL;
  return ((handle *)held)->of;
}

enum { ARGUMENTS_MOST = 6 };

static void read_arguments(napi_env env, napi_callback_info info,
                           napi_value values[ARGUMENTS_MOST]) {
  size_t count = ARGUMENTS_MOST;
  napi_get_cb_info(env, info, &count, values, NULL, NULL); /* what is missing is undefined */
}

/* A copy of text or of bytes with a NUL behind; NULL: neither, or no memory. */
static char *bytes_of(napi_env env, napi_value value, size_t *length) {
  char *text = NULL;
  void *bytes = NULL;
  bool buffer = false;
  *length = 0;
  if (napi_get_value_string_utf8(env, value, NULL, 0, length) == napi_ok) {
    if ((text = malloc(*length + 1)) != NULL)
      napi_get_value_string_utf8(env, value, text, *length + 1, length);
    return text;
  }
  if (napi_is_buffer(env, value, &buffer) != napi_ok || !buffer) return NULL;
  napi_get_buffer_info(env, value, &bytes, length);
  if ((text = malloc(*length + 1)) == NULL) return NULL;
  if (*length > 0) memcpy(text, bytes, *length);
  text[*length] = '\0';
  return text;
}

/* NULL: they are none. */
static double *numbers_of(napi_env env, napi_value value, size_t *count) {
  static double none; /* an empty array has no place */
  napi_typedarray_type type = napi_uint8_array;
  void *data = NULL;
  *count = 0;
  if (napi_get_typedarray_info(env, value, &type, count, &data, NULL, NULL) != napi_ok ||
      type != napi_float64_array)
    return NULL;
  return data != NULL ? data : &none;
}

static napi_value text_value(napi_env env, const char *text) {
  napi_value made;
  if (text == NULL)
    napi_get_null(env, &made);
  else
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &made);
  return made;
}

static napi_value number_value(napi_env env, double number) {
  napi_value made;
  napi_create_double(env, number, &made);
  return made;
}

static void set(napi_env env, napi_value object, const char *name, napi_value value) {
  napi_set_named_property(env, object, name, value);
}

static napi_value numbers_value(napi_env env, size_t count, double **data) {
  void *bytes = NULL;
  napi_value buffer;
  napi_value made = NULL;
  if (napi_create_arraybuffer(env, count * sizeof **data, &bytes, &buffer) != napi_ok) return NULL;
  napi_create_typedarray(env, napi_float64_array, count, buffer, 0, &made);
  *data = bytes;
  return made;
}

/* A decision as numbers, in the order that index.js knows. All are below 2^53. */
enum { DECISION_NUMBERS = 12 };

static void write_decision(const weir_decision *decision, weir_status status,
                           double numbers[DECISION_NUMBERS]) {
  const double all[DECISION_NUMBERS] = {
      decision->allowed,
      decision->source,
      decision->rule,
      (double)decision->limit,
      (double)decision->remaining,
      (double)decision->retry_after_us,
      (double)decision->reset_after_us,
      (double)decision->delay_us,
      (double)decision->cost,
      (double)decision->at_us,
      decision->store_status,
      status,
  };
  memcpy(numbers, all, sizeof all);
}

static weir_decision read_decision(const double numbers[DECISION_NUMBERS]) {
  return (weir_decision){.allowed = numbers[0] != 0,
                         .source = (weir_source)numbers[1],
                         .rule = (uint32_t)numbers[2],
                         .limit = (int64_t)numbers[3],
                         .remaining = (int64_t)numbers[4],
                         .retry_after_us = (int64_t)numbers[5],
                         .reset_after_us = (int64_t)numbers[6],
                         .delay_us = (int64_t)numbers[7],
                         .cost = (int64_t)numbers[8],
                         .at_us = (int64_t)numbers[9],
                         .store_status = (weir_status)numbers[10]};
}

/* --- stores, limiters, networks */

static thing *new_thing(thing *after) {
  thing *made = calloc(1, sizeof *made);
  if (made != NULL) *made = (thing){.users = 1, .after = use(after)};
  return made;
}

/* Ends the making of a thing. */
static napi_value made_or_failed(napi_env env, thing *made, weir_status status, const char *why) {
  if (status == WEIR_OK) return handle_of(env, made);
  drop(env, made);
  return fail(env, status, why);
}

/* openStore(url) */
static napi_value open_store(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  weir_message why = {""};
  size_t length;
  weir_status status = WEIR_NO_MEMORY;
  read_arguments(env, info, argument);
  char *url = bytes_of(env, argument[0], &length);
  thing *made = new_thing(NULL);
  if (url != NULL && made != NULL) status = weir_store_open(url, &made->store, &why);
  free(url);
  return made_or_failed(env, made, status, why.text);
}

/* In the order of index.js: policy, flags, and what has a number. */
enum { OPTION_NUMBERS = 12 };

static weir_limiter_options read_options(const double numbers[OPTION_NUMBERS]) {
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.fallback = (unsigned)numbers[0];
  options.flags = (unsigned)numbers[1];
  options.deadline_us = (int64_t)numbers[2];
  options.clock_error_us = (int64_t)numbers[3];
  options.memo_age_us = (int64_t)numbers[4];
  options.local_denial_us = (int64_t)numbers[5];
  options.least_ttl_us = (int64_t)numbers[6];
  options.longest_wait_us = (int64_t)numbers[7];
  options.processes = (uint32_t)numbers[8];
  options.memo_keys = (uint32_t)numbers[9];
  options.peers = (uint32_t)numbers[10];
  options.limits_us = (int64_t)numbers[11];
  return options;
}

/* createLimiter(store, rule, options) */
static napi_value create_limiter(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  weir_message why = {""};
  size_t length;
  weir_status status = WEIR_NO_MEMORY;
  read_arguments(env, info, argument);
  thing *store = thing_of(env, argument[0]);
  char *rule = bytes_of(env, argument[1], &length);
  const double *numbers = numbers_of(env, argument[2], &length);
  if (store == NULL || rule == NULL || numbers == NULL || length != OPTION_NUMBERS) {
    free(rule);
    return fail(env, WEIR_BAD_ARGUMENT, NULL);
  }
  const weir_limiter_options options = read_options(numbers);
  thing *made = new_thing(store);
  if (made != NULL)
    status = weir_limiter_create(store->store, rule, &options, &made->limiter, &why);
  free(rule);
  return made_or_failed(env, made, status, why.text);
}

/* createNetworks(text) */
static napi_value create_networks(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  weir_message why = {""};
  size_t length;
  weir_status status = WEIR_NO_MEMORY;
  read_arguments(env, info, argument);
  char *text = bytes_of(env, argument[0], &length);
  thing *made = new_thing(NULL);
  if (text != NULL && made != NULL) status = weir_http_networks_create(text, &made->networks, &why);
  free(text);
  return made_or_failed(env, made, status, why.text);
}

/* release(handle): JavaScript is done with it. */
static napi_value release(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  void *held = NULL;
  read_arguments(env, info, argument);
  napi_get_value_external(env, argument[0], &held);
  if (held != NULL) {
    drop(env, ((handle *)held)->of);
    ((handle *)held)->of = NULL;
  }
  return NULL;
}

/* --- one take, in this thread: for stores that answer at once */

/* take(limiter, key, cost, numbers) */
static napi_value take(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  char near_key[256];
  char *far_key = NULL;
  const char *key = near_key;
  size_t length = 0;
  size_t count;
  int64_t cost = 0;
  weir_decision decision;
  weir_message why = {""};
  read_arguments(env, info, argument);
  thing *limiter = thing_of(env, argument[0]);
  double *numbers = numbers_of(env, argument[3], &count);
  if (limiter == NULL || numbers == NULL || count != DECISION_NUMBERS)
    return fail(env, WEIR_BAD_ARGUMENT, NULL);
  /* Where it may not have fitted it is read again. */
  if (napi_get_value_string_utf8(env, argument[1], near_key, sizeof near_key, &length) != napi_ok ||
      length >= sizeof near_key - 4)
    key = far_key = bytes_of(env, argument[1], &length);
  if (key == NULL) return fail(env, WEIR_NO_MEMORY, NULL);
  napi_get_value_int64(env, argument[2], &cost);
  weir_status status = weir_limiter_take(limiter->limiter, key, length, cost, &decision, &why);
  free(far_key);
  if (status != WEIR_OK) return fail(env, status, why.text);
  write_decision(&decision, status, numbers);
  return NULL;
}

/* --- work on a thread of Node's */

typedef enum work_kind {
  BATCH,
  RESERVE,
  REFUND,
  RESET,
  RETURN_LEASES,
  CANCEL,
  CONNECT,
  SETTLE,
  SETTLE_RESERVATION,
  COMMIT,
  SET_LIMITS,
  READ_LIMIT,
  ALL
} work_kind;

/* What a request says of itself. */
typedef struct said {
  weir_extra extra;
  char *class_name;
  char *tenant;
} said;

/* From the call to the promise's end. */
typedef struct work {
  work_kind kind;
  size_t count;  /* requests */
  thing **users; /* count of them, at least 1 */
  weir_limiter **limiters;
  weir_request *requests;
  char **keys;               /* theirs */
  said *said;                /* by request; NULL: none says anything */
  const weir_extra **extras; /* the same as the library takes it */
  weir_limit *limits;        /* of these keys, to be set or read */
  char **texts;              /* of what has no decision */
  int64_t *costs;
  size_t cost_count;
  weir_decision decision; /* to refund or settle by */
  int64_t number;         /* cost of a refund or a settlement; patience of a connect */
  weir_reservation *reservation;
  size_t denied_by; /* of requests that are one decision */
  weir_status status;
  weir_message why;
  napi_deferred promise;
  napi_async_work task;
} work;

static void free_work(napi_env env, work *done) {
  for (size_t i = 0; i < done->count; i++) {
    if (done->users != NULL) drop(env, done->users[i]);
    if (done->keys != NULL) free(done->keys[i]);
    if (done->texts != NULL) free(done->texts[i]);
    if (done->said != NULL) free(done->said[i].class_name);
    if (done->said != NULL) free(done->said[i].tenant);
  }
  weir_reservation_destroy(done->reservation);
  free(done->users);
  free(done->limiters);
  free(done->requests);
  free(done->keys);
  free(done->texts);
  free(done->said);
  free(done->extras);
  free(done->limits);
  free(done->costs);
  free(done);
}

static work *new_work(napi_env env, work_kind kind, size_t count, size_t costs) {
  work *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->kind = kind;
  made->count = count;
  made->cost_count = costs;
  made->users = calloc(count + 1, sizeof *made->users);
  made->limiters = calloc(count + 1, sizeof *made->limiters);
  made->requests = calloc(count + 1, sizeof *made->requests);
  made->keys = calloc(count + 1, sizeof *made->keys);
  made->texts = calloc(count + 1, sizeof *made->texts);
  made->costs = calloc(costs + 1, sizeof *made->costs);
  if (made->users != NULL && made->limiters != NULL && made->requests != NULL &&
      made->keys != NULL && made->texts != NULL && made->costs != NULL)
    return made;
  free_work(env, made);
  return NULL;
}

/* Each request has four numbers: cost, longest wait, flags, and how many costs of its own it
 * has. */
enum { REQUEST_NUMBERS = 4 };

/* [class or undefined, limit or 0, tenant or undefined] */
static bool read_said(napi_env env, napi_value value, said *read) {
  napi_value each[3];
  napi_valuetype type = napi_undefined;
  for (uint32_t i = 0; i < 3; i++)
    napi_get_element(env, value, i, &each[i]);
  read->extra = (weir_extra)WEIR_EXTRA_INIT;
  napi_get_value_int64(env, each[1], &read->extra.limit);
  size_t length = 0;
  napi_typeof(env, each[0], &type);
  if (type != napi_undefined) {
    read->extra.class_name = read->class_name = bytes_of(env, each[0], &length);
    if (read->class_name == NULL) return false;
  }
  napi_typeof(env, each[2], &type);
  if (type == napi_undefined) return true;
  read->extra.tenant = read->tenant = bytes_of(env, each[2], &read->extra.tenant_length);
  return read->tenant != NULL;
}

/* What each request says, or null; undefined: none says anything. False: no memory. */
static bool read_all_said(napi_env env, napi_value value, work *made) {
  bool listed = false;
  if (napi_is_array(env, value, &listed) != napi_ok || !listed) return true;
  made->said = calloc(made->count, sizeof *made->said);
  made->extras = calloc(made->count, sizeof *made->extras);
  if (made->said == NULL || made->extras == NULL) return false;
  for (uint32_t i = 0; i < made->count; i++) {
    napi_value each;
    napi_valuetype type = napi_null;
    napi_get_element(env, value, i, &each);
    napi_typeof(env, each, &type);
    if (type != napi_object) continue;
    if (!read_said(env, each, &made->said[i])) return false;
    made->extras[i] = &made->said[i].extra;
  }
  return true;
}

/* Reads limiters, keys, numbers, costs and what they say, the arguments from the first on. NULL: an
 * exception waits. */
static work *read_requests(napi_env env, work_kind kind, const napi_value argument[5]) {
  uint32_t count = 0;
  size_t length;
  size_t cost_count;
  size_t next_cost = 0;
  napi_get_array_length(env, argument[0], &count);
  const double *numbers = numbers_of(env, argument[2], &length);
  const double *costs = numbers_of(env, argument[3], &cost_count);
  if (count == 0 || numbers == NULL || length != (size_t)count * REQUEST_NUMBERS || costs == NULL) {
    fail(env, WEIR_BAD_ARGUMENT, NULL);
    return NULL;
  }
  work *made = new_work(env, kind, count, cost_count);
  for (size_t i = 0; made != NULL && i < cost_count; i++)
    made->costs[i] = (int64_t)costs[i];
  for (uint32_t i = 0; made != NULL && i < count; i++, numbers += REQUEST_NUMBERS) {
    napi_value limiter;
    napi_value key;
    weir_request *request = &made->requests[i];
    napi_get_element(env, argument[0], i, &limiter);
    napi_get_element(env, argument[1], i, &key);
    made->users[i] = use(thing_of(env, limiter));
    request->key = made->keys[i] = bytes_of(env, key, &request->key_length);
    request->cost = (int64_t)numbers[0];
    request->longest_wait_us = (int64_t)numbers[1];
    request->flags = (unsigned)numbers[2];
    if (numbers[3] > 0) {
      request->costs = made->costs + next_cost;
      next_cost += (size_t)numbers[3];
    }
    if (made->users[i] == NULL || made->keys[i] == NULL || next_cost > cost_count) {
      free_work(env, made);
      fail(env, WEIR_BAD_ARGUMENT, NULL);
      return NULL;
    }
    made->limiters[i] = made->users[i]->limiter;
  }
  if (made != NULL && !read_all_said(env, argument[4], made)) {
    free_work(env, made);
    made = NULL;
  }
  if (made == NULL) fail(env, WEIR_NO_MEMORY, NULL);
  return made;
}

static char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  char *made = malloc(size);
  if (made != NULL) memcpy(made, text, size);
  return made;
}

/* "requests[3]: ..." without its beginning. */
static const char *behind_index(const char *text) {
  const char *end = strncmp(text, "requests[", 9) == 0 ? strstr(text, "]: ") : NULL;
  return end != NULL ? end + 3 : text;
}

/* A batch has one message, of its first fault. The others' faults in their arguments are told when
 * each is asked alone, which changes no count; a store has one reason for all. */
static void explain(work *done, size_t i) {
  char prefix[32];
  const char *text = done->why.text;
  weir_request again = done->requests[i];
  weir_message alone = {""};
  int length = snprintf(prefix, sizeof prefix, "requests[%zu]: ", i);
  if (done->count == 1) {
    done->texts[i] = copy_text(behind_index(text));
  } else if (strncmp(text, prefix, (size_t)length) == 0) {
    done->texts[i] = copy_text(text + length);
  } else if (weir_status_classify(again.status) == WEIR_CLASS_CALLER) {
    const weir_extra *extra = done->extras != NULL ? done->extras[i] : NULL;
    weir_decide_extra(&done->limiters[i], &again, &extra, 1, &alone);
    done->texts[i] = copy_text(behind_index(alone.text));
  }
}

/* Why the store did not decide: one reason for all. */
static void note_reason(work *asked, size_t i) {
  const weir_decision *decision = &asked->requests[i].decision;
  const char *why = behind_index(asked->why.text);
  if (decision->store_status == WEIR_OK)
    why = "what was admitted while the store was away still counts for this key";
  else if (why[0] == '\0')
    why = weir_status_text(decision->store_status);
  if (decision->source == WEIR_SOURCE_FALLBACK || decision->source == WEIR_SOURCE_LATE)
    asked->texts[i] = copy_text(why);
}

static void note_reasons(work *asked) {
  for (size_t i = 0; asked->status == WEIR_OK && i < asked->count; i++)
    note_reason(asked, i);
}

static void decide(work *asked) {
  asked->status = asked->count == 1 && asked->extras == NULL
                      ? weir_limiter_decide(asked->limiters[0], asked->requests, 1, &asked->why)
                      : weir_decide_extra(asked->limiters, asked->requests, asked->extras,
                                          asked->count, &asked->why);
  for (size_t i = 0; i < asked->count; i++) {
    if (asked->requests[i].status != WEIR_OK)
      explain(asked, i);
    else
      note_reason(asked, i);
  }
}

/* Settles by what its request said. */
static weir_status settle_as_said(work *asked, weir_limiter *limiter) {
  weir_request *request = &asked->requests[0];
  request->key = asked->keys[0];
  request->cost = asked->number;
  request->flags = WEIR_REQUEST_SETTLE;
  request->decision = asked->decision;
  weir_status status = weir_decide_extra(&limiter, request, asked->extras, 1, &asked->why);
  asked->decision = request->decision;
  return status;
}

/* Gives back or settles. A reservation's charge changes by the decision that it knows. */
static weir_status change_taken(work *asked, const thing *user) {
  if (asked->kind == SETTLE && asked->extras != NULL) return settle_as_said(asked, user->limiter);
  weir_limiter *limiter = user->reservation != NULL ? user->after->limiter : user->limiter;
  weir_decision *taken = user->reservation != NULL ? &user->request->decision : &asked->decision;
  weir_status status = (asked->kind == SETTLE ? weir_limiter_settle : weir_limiter_refund)(
      limiter, asked->keys[0], asked->requests[0].key_length, asked->number, taken, &asked->why);
  asked->decision = *taken;
  return status;
}

/* Touches nothing of JavaScript. */
static void execute(napi_env env, void *data) {
  work *asked = data;
  const thing *user = asked->users[0];
  const char *key = asked->keys[0];
  size_t length = asked->requests[0].key_length;
  weir_message *why = &asked->why;
  (void)env;
  switch (asked->kind) {
    case BATCH:
      decide(asked);
      break;
    case ALL:
      asked->status = weir_decide_all_extra(asked->limiters, asked->requests, asked->extras,
                                            asked->count, &asked->denied_by, why);
      note_reasons(asked);
      break;
    case RESERVE:
      asked->status = weir_reserve_extra(asked->limiters, asked->requests, asked->extras, 1,
                                         &asked->reservation, why);
      note_reasons(asked);
      break;
    case REFUND:
    case SETTLE:
      asked->status = change_taken(asked, user);
      break;
    case SETTLE_RESERVATION:
      asked->status = weir_reservation_settle(user->reservation, asked->costs, why);
      break;
    case SET_LIMITS:
      asked->status = weir_limiter_set_limits(user->limiter, asked->limits, asked->count, why);
      break;
    case READ_LIMIT:
      asked->status = weir_limiter_read_limit(user->limiter, asked->limits, why);
      break;
    case RESET:
      asked->status = weir_limiter_reset(user->limiter, key, length, why);
      break;
    case RETURN_LEASES:
      asked->status = weir_limiter_return_leases(user->limiter, why);
      break;
    case CANCEL:
      asked->status = weir_reservation_cancel(user->reservation, why);
      break;
    case COMMIT:
      asked->status = weir_reservation_commit(user->reservation, why);
      break;
    case CONNECT:
      asked->status = weir_store_connect(user->store, asked->number, why);
      break;
  }
}

/* {numbers, texts}: of each request its decision, and why there is none, or why the store did not make it. */
static napi_value decisions_value(napi_env env, work *done) {
  double *numbers = NULL;
  napi_value made;
  napi_value texts;
  napi_value all = numbers_value(env, done->count * DECISION_NUMBERS, &numbers);
  if (all == NULL) return NULL;
  napi_create_object(env, &made);
  napi_create_array(env, &texts);
  for (size_t i = 0; i < done->count; i++) {
    const weir_request *request = &done->requests[i];
    write_decision(&request->decision, request->status, numbers + i * DECISION_NUMBERS);
    if (done->texts[i] != NULL)
      napi_set_element(env, texts, (uint32_t)i, text_value(env, done->texts[i]));
  }
  set(env, made, "numbers", all);
  set(env, made, "texts", texts);
  return made;
}

static napi_value decision_value(napi_env env, const weir_decision *decision) {
  double *numbers = NULL;
  napi_value made = numbers_value(env, DECISION_NUMBERS, &numbers);
  if (made != NULL) write_decision(decision, WEIR_OK, numbers);
  return made;
}

/* {numbers, text, reservation}; without the last it was denied. */
static napi_value reservation_value(napi_env env, work *done) {
  napi_value made;
  napi_create_object(env, &made);
  set(env, made, "numbers", decision_value(env, &done->requests[0].decision));
  if (done->texts[0] != NULL) set(env, made, "text", text_value(env, done->texts[0]));
  if (done->reservation == NULL) return made;
  thing *kept = new_thing(done->users[0]);
  if (kept == NULL) return NULL;
  kept->reservation = done->reservation;
  kept->request = done->requests;
  done->reservation = NULL;
  done->requests = NULL;
  set(env, made, "reservation", handle_of(env, kept));
  return made;
}

/* [kind, number, text] */
static napi_value limit_value(napi_env env, const weir_limiter *limiter, const weir_limit *limit) {
  napi_value made;
  char text[WEIR_LIMIT_NAME_BYTES];
  weir_limiter_format_limit(limiter, limit, text);
  napi_create_array_with_length(env, 3, &made);
  napi_set_element(env, made, 0, number_value(env, limit->kind));
  napi_set_element(env, made, 1, number_value(env, (double)limit->limit));
  napi_set_element(env, made, 2, text_value(env, text));
  return made;
}

/* Of an error the first of them that was not set, where it is one. */
static void tell_index(napi_env env, const work *done, napi_value error) {
  for (size_t i = 0; i < done->count; i++) {
    if (done->limits[i].status == WEIR_OK) continue;
    set(env, error, "index", number_value(env, (double)i));
    return;
  }
}

static bool changes_decision(const work *done) {
  return done->kind == REFUND || done->kind == SETTLE;
}

static napi_value answer_of(napi_env env, work *done) {
  napi_value made = NULL;
  if (done->kind == BATCH) return decisions_value(env, done);
  if (done->kind == ALL) {
    made = decisions_value(env, done);
    if (made != NULL) set(env, made, "deniedBy", number_value(env, (double)done->denied_by));
    return made;
  }
  if (done->kind == RESERVE && done->status == WEIR_OK) return reservation_value(env, done);
  if (done->kind == READ_LIMIT) return limit_value(env, done->users[0]->limiter, done->limits);
  if (done->kind == SETTLE_RESERVATION) {
    double *numbers = NULL;
    made = numbers_value(env, done->cost_count, &numbers);
    for (size_t i = 0; made != NULL && i < done->cost_count; i++)
      numbers[i] = (double)done->costs[i];
  } else if (changes_decision(done)) {
    /* Also after an error: what is off is off. */
    napi_create_object(env, &made);
    set(env, made, "numbers", decision_value(env, &done->decision));
  } else {
    napi_get_undefined(env, &made);
  }
  return made;
}

static napi_value error_of(napi_env env, weir_status status, const char *text) {
  napi_value made;
  napi_create_error(env, text_value(env, weir_status_name(status)),
                    text_value(env, text[0] != '\0' ? text : weir_status_text(status)), &made);
  return made;
}

/* Where the environment is being torn down these calls fail, and no caller waits. */
static void finish(napi_env env, napi_status ended, void *data) {
  work *done = data;
  (void)ended;
  if (done->status == WEIR_OK || done->kind == BATCH || changes_decision(done)) {
    napi_value answer = answer_of(env, done);
    if (answer != NULL && changes_decision(done) && done->status != WEIR_OK)
      set(env, answer, "error", error_of(env, done->status, behind_index(done->why.text)));
    if (answer != NULL)
      napi_resolve_deferred(env, done->promise, answer);
    else
      napi_reject_deferred(env, done->promise, error_of(env, WEIR_NO_MEMORY, ""));
  } else {
    const char *text = done->kind == ALL ? done->why.text : behind_index(done->why.text);
    napi_value error = error_of(env, done->status, text);
    if (done->kind == SET_LIMITS) tell_index(env, done, error);
    napi_reject_deferred(env, done->promise, error);
  }
  napi_delete_async_work(env, done->task);
  free_work(env, done);
}

static napi_value start(napi_env env, work *asked) {
  napi_value promise = NULL;
  napi_value name;
  if (napi_create_promise(env, &asked->promise, &promise) == napi_ok &&
      napi_create_string_utf8(env, "weir", NAPI_AUTO_LENGTH, &name) == napi_ok &&
      napi_create_async_work(env, NULL, name, execute, finish, asked, &asked->task) == napi_ok &&
      napi_queue_async_work(env, asked->task) == napi_ok)
    return promise;
  free_work(env, asked);
  return fail(env, WEIR_NO_MEMORY, NULL);
}

/* decide(limiters, keys, numbers, costs, said): a promise; decideNow: the same in this thread. */
static napi_value decide_later(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  read_arguments(env, info, argument);
  work *asked = read_requests(env, BATCH, argument);
  return asked == NULL ? NULL : start(env, asked);
}

static napi_value decide_now(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  read_arguments(env, info, argument);
  work *asked = read_requests(env, BATCH, argument);
  if (asked == NULL) return NULL;
  decide(asked);
  napi_value answer = decisions_value(env, asked);
  free_work(env, asked);
  return answer;
}

/* decideAll(limiters, keys, numbers, costs, said): a promise of {numbers, texts, deniedBy}. */
static napi_value decide_all(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  read_arguments(env, info, argument);
  work *asked = read_requests(env, ALL, argument);
  return asked == NULL ? NULL : start(env, asked);
}

/* reserve([limiter], [key], numbers, costs, said) */
static napi_value reserve(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  read_arguments(env, info, argument);
  work *asked = read_requests(env, RESERVE, argument);
  return asked == NULL ? NULL : start(env, asked);
}

/* limits(kind, limiter, keys, numbers): SET_LIMITS, by kind, number and microseconds of each; READ_LIMIT,
 * of one key. */
static napi_value limits(napi_env env, napi_callback_info info) {
  enum { LIMIT_NUMBERS = 3 };
  napi_value argument[ARGUMENTS_MOST];
  uint32_t kind = 0;
  uint32_t count = 0;
  size_t length;
  read_arguments(env, info, argument);
  napi_get_value_uint32(env, argument[0], &kind);
  thing *limiter = thing_of(env, argument[1]);
  napi_get_array_length(env, argument[2], &count);
  const double *numbers = numbers_of(env, argument[3], &length);
  if (limiter == NULL || count == 0 || numbers == NULL || length != (size_t)count * LIMIT_NUMBERS)
    return fail(env, WEIR_BAD_ARGUMENT, NULL);
  work *asked = new_work(env, (work_kind)kind, count, 0);
  if (asked != NULL) asked->limits = calloc(count, sizeof *asked->limits);
  bool whole = asked != NULL && asked->limits != NULL;
  if (asked != NULL) asked->users[0] = use(limiter);
  for (uint32_t i = 0; whole && i < count; i++, numbers += LIMIT_NUMBERS) {
    napi_value key;
    weir_limit *limit = &asked->limits[i];
    napi_get_element(env, argument[2], i, &key);
    *limit = (weir_limit){
        .kind = (unsigned)numbers[0], .limit = (int64_t)numbers[1], .for_us = (int64_t)numbers[2]};
    limit->key = asked->keys[i] = bytes_of(env, key, &limit->key_length);
    whole = limit->key != NULL;
  }
  if (whole) return start(env, asked);
  if (asked != NULL) free_work(env, asked);
  return fail(env, WEIR_NO_MEMORY, NULL);
}

/* tier(limiter, name): the number of a tier of the rule; undefined: it has none of this name. */
static napi_value tier(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value made;
  size_t length = 0;
  weir_limit limit = {.kind = WEIR_KEY_LIMIT_NONE};
  read_arguments(env, info, argument);
  thing *limiter = thing_of(env, argument[0]);
  char *name = bytes_of(env, argument[1], &length);
  if (limiter == NULL || name == NULL) {
    free(name);
    return fail(env, limiter == NULL ? WEIR_BAD_ARGUMENT : WEIR_NO_MEMORY, NULL);
  }
  bool found = weir_limiter_parse_limit(limiter->limiter, name, length, &limit, NULL) == WEIR_OK &&
               limit.kind == WEIR_KEY_LIMIT_TIER;
  free(name);
  napi_get_undefined(env, &made);
  return found ? number_value(env, (double)limit.limit) : made;
}

/* call(kind, handle, key, number, numbers, said): REFUND and SETTLE, of the decision in the numbers;
 * SETTLE_RESERVATION, at these costs; RESET, RETURN_LEASES, CANCEL, CONNECT, COMMIT. */
static napi_value call(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  uint32_t kind = 0;
  size_t length;
  read_arguments(env, info, argument);
  napi_get_value_uint32(env, argument[0], &kind);
  thing *user = thing_of(env, argument[1]);
  const double *numbers = numbers_of(env, argument[4], &length);
  bool costs = kind == SETTLE_RESERVATION && numbers != NULL;
  work *asked = user == NULL ? NULL : new_work(env, (work_kind)kind, 1, costs ? length : 0);
  if (asked == NULL) return fail(env, user == NULL ? WEIR_BAD_ARGUMENT : WEIR_NO_MEMORY, NULL);
  asked->users[0] = use(user);
  asked->keys[0] = bytes_of(env, argument[2], &asked->requests[0].key_length);
  napi_get_value_int64(env, argument[3], &asked->number);
  for (size_t i = 0; costs && i < length; i++)
    asked->costs[i] = (int64_t)numbers[i];
  if (!costs && numbers != NULL && length == DECISION_NUMBERS)
    asked->decision = read_decision(numbers);
  if (read_all_said(env, argument[5], asked)) return start(env, asked);
  free_work(env, asked);
  return fail(env, WEIR_NO_MEMORY, NULL);
}

/* held(reservation): [whether it is, until when in microseconds, its token] */
static napi_value held(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value all;
  napi_value each;
  read_arguments(env, info, argument);
  const thing *reserved = thing_of(env, argument[0]);
  if (reserved == NULL) return fail(env, WEIR_BAD_ARGUMENT, NULL);
  int64_t until_us = weir_reservation_held_until_us(reserved->reservation);
  napi_create_array_with_length(env, 3, &all);
  napi_get_boolean(env, weir_reservation_held(reserved->reservation), &each);
  napi_set_element(env, all, 0, each);
  napi_set_element(env, all, 1,
                   number_value(env, until_us == INT64_MAX ? INFINITY : (double)until_us));
  napi_create_bigint_uint64(env, weir_reservation_token(reserved->reservation), &each);
  napi_set_element(env, all, 2, each);
  return all;
}

/* --- HTTP */

/* fields(limiter, name, numbers, style): [name, value, name, value] */
static napi_value fields(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  weir_http_field found[WEIR_HTTP_FIELDS_MOST];
  weir_message why = {""};
  size_t count = 0;
  size_t length;
  uint32_t style = 0;
  napi_value all;
  read_arguments(env, info, argument);
  thing *limiter = thing_of(env, argument[0]);
  const double *numbers = numbers_of(env, argument[2], &length);
  napi_get_value_uint32(env, argument[3], &style);
  if (limiter == NULL || numbers == NULL || length != DECISION_NUMBERS)
    return fail(env, WEIR_BAD_ARGUMENT, NULL);
  const weir_decision decision = read_decision(numbers);
  char *name = bytes_of(env, argument[1], &length);
  weir_status status = weir_http_write_fields(limiter->limiter, name != NULL ? name : "", &decision,
                                              style, found, &count, &why);
  free(name);
  if (status != WEIR_OK) return fail(env, status, why.text);
  napi_create_array_with_length(env, 2 * count, &all);
  for (size_t i = 0; i < count; i++) {
    napi_set_element(env, all, (uint32_t)(2 * i), text_value(env, found[i].name));
    napi_set_element(env, all, (uint32_t)(2 * i + 1), text_value(env, found[i].value));
  }
  return all;
}

/* contains(networks, address) */
static napi_value contains(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value made;
  size_t length;
  read_arguments(env, info, argument);
  thing *networks = thing_of(env, argument[0]);
  char *address = bytes_of(env, argument[1], &length);
  napi_get_boolean(env,
                   networks != NULL && address != NULL &&
                       weir_http_networks_contain(networks->networks, address),
                   &made);
  free(address);
  return made;
}

/* clientKey(networks or null, peer, forwarded or null, ipv4Bits, ipv6Bits) */
static napi_value client_key(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  char key[WEIR_HTTP_CLIENT_KEY_BYTES] = "";
  weir_message why = {""};
  size_t length;
  uint32_t bits[2] = {0, 0};
  read_arguments(env, info, argument);
  thing *trusted = thing_of(env, argument[0]);
  char *peer = bytes_of(env, argument[1], &length);
  char *forwarded = bytes_of(env, argument[2], &length);
  napi_get_value_uint32(env, argument[3], &bits[0]);
  napi_get_value_uint32(env, argument[4], &bits[1]);
  weir_status status =
      weir_http_client_key(trusted == NULL ? NULL : trusted->networks, peer == NULL ? "" : peer,
                           forwarded, bits[0], bits[1], key, &why);
  free(peer);
  free(forwarded);
  return status == WEIR_OK ? text_value(env, key) : fail(env, status, why.text);
}

/* --- what is known */

/* rules(limiter): an object for each. */
static napi_value rules(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value all;
  read_arguments(env, info, argument);
  thing *limiter = thing_of(env, argument[0]);
  if (limiter == NULL) return fail(env, WEIR_BAD_ARGUMENT, NULL);
  napi_create_array(env, &all);
  for (size_t i = 0; i < weir_limiter_rules(limiter->limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    napi_value made;
    if (weir_limiter_read_rule(limiter->limiter, i, &rule) != WEIR_OK) break;
    napi_create_object(env, &made);
    set(env, made, "text", text_value(env, rule.text));
    set(env, made, "algorithm", text_value(env, rule.algorithm));
    set(env, made, "name", text_value(env, rule.name));
    set(env, made, "limit", number_value(env, (double)rule.limit));
    set(env, made, "period", number_value(env, (double)rule.period_us / 1e6));
    set(env, made, "capacity", number_value(env, (double)rule.capacity));
    napi_set_element(env, all, (uint32_t)i, made);
  }
  return all;
}

/* warnings(limiter) */
static napi_value warnings(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value all;
  const char *text;
  read_arguments(env, info, argument);
  thing *limiter = thing_of(env, argument[0]);
  if (limiter == NULL) return fail(env, WEIR_BAD_ARGUMENT, NULL);
  napi_create_array(env, &all);
  for (uint32_t i = 0; (text = weir_limiter_warning_at(limiter->limiter, i)) != NULL; i++)
    napi_set_element(env, all, i, text_value(env, text));
  return all;
}

/* servers(store): an object for each. */
static napi_value servers(napi_env env, napi_callback_info info) {
  static const char *const breakers[] = {"closed", "open", "half-open"};
  napi_value argument[ARGUMENTS_MOST];
  napi_value all;
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  read_arguments(env, info, argument);
  thing *store = thing_of(env, argument[0]);
  if (store == NULL) return fail(env, WEIR_BAD_ARGUMENT, NULL);
  napi_create_array(env, &all);
  for (uint32_t i = 0; weir_store_read_server(store->store, i, &state) == WEIR_OK; i++) {
    napi_value made;
    napi_value answered;
    napi_create_object(env, &made);
    napi_get_boolean(env, state.answered, &answered);
    set(env, made, "name", text_value(env, state.name));
    set(env, made, "breaker", text_value(env, breakers[state.breaker]));
    set(env, made, "outages", number_value(env, (double)state.outages));
    set(env, made, "nextTry", number_value(env, (double)state.next_try_us / 1e6));
    set(env, made, "lastError", text_value(env, state.last_error.text));
    set(env, made, "answered", answered);
    napi_set_element(env, all, i, made);
  }
  return all;
}

/* connectTimeout(store): of its URL, in microseconds. */
static napi_value connect_timeout(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  read_arguments(env, info, argument);
  thing *store = thing_of(env, argument[0]);
  if (store == NULL || weir_store_read_times(store->store, &times) != WEIR_OK)
    return fail(env, WEIR_BAD_ARGUMENT, NULL);
  return number_value(env, (double)times.connect_timeout_us);
}

typedef struct text {
  char *bytes;
  size_t length;
} text;

static int append(void *context, const char *piece, size_t length) {
  text *all = context;
  char *grown = realloc(all->bytes, all->length + length + 1);
  if (grown == NULL) return 1;
  memcpy(grown + all->length, piece, length);
  all->bytes = grown;
  all->length += length;
  return 0;
}

/* metrics(names, handles): text for Prometheus. */
static napi_value metrics(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  napi_value made = NULL;
  weir_message why = {""};
  text all = {NULL, 0};
  uint32_t count = 0;
  size_t length;
  weir_status status = WEIR_NO_MEMORY;
  read_arguments(env, info, argument);
  napi_get_array_length(env, argument[0], &count);
  weir_monitor_source *sources = calloc(count + 1, sizeof *sources);
  char **names = calloc(count + 1, sizeof *names);
  if (sources != NULL && names != NULL) {
    for (uint32_t i = 0; i < count; i++) {
      napi_value name;
      napi_value held;
      napi_get_element(env, argument[0], i, &name);
      napi_get_element(env, argument[1], i, &held);
      const thing *source = thing_of(env, held);
      sources[i].name = names[i] = bytes_of(env, name, &length);
      if (source != NULL) sources[i].limiter = source->limiter;
      if (source != NULL) sources[i].store = source->store;
    }
    status = weir_monitor_prometheus(sources, count, append, &all, &why);
  }
  if (status == WEIR_OK)
    napi_create_string_utf8(env, all.bytes == NULL ? "" : all.bytes, all.length, &made);
  else
    fail(env, status, why.text);
  for (uint32_t i = 0; names != NULL && i < count; i++)
    free(names[i]);
  free(names);
  free(sources);
  free(all.bytes);
  return made;
}

/* statusName(number) */
static napi_value status_name(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  int32_t status = 0;
  read_arguments(env, info, argument);
  napi_get_value_int32(env, argument[0], &status);
  return text_value(env, weir_status_name((weir_status)status));
}

/* statusText(number) */
static napi_value status_text(napi_env env, napi_callback_info info) {
  napi_value argument[ARGUMENTS_MOST];
  int32_t status = 0;
  read_arguments(env, info, argument);
  napi_get_value_int32(env, argument[0], &status);
  return text_value(env, weir_status_text((weir_status)status));
}

static napi_value version(napi_env env, napi_callback_info info) {
  (void)info;
  return text_value(env, weir_version());
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {{"openStore", open_store},
                   {"createLimiter", create_limiter},
                   {"createNetworks", create_networks},
                   {"release", release},
                   {"take", take},
                   {"decide", decide_later},
                   {"decideNow", decide_now},
                   {"decideAll", decide_all},
                   {"reserve", reserve},
                   {"limits", limits},
                   {"tier", tier},
                   {"call", call},
                   {"held", held},
                   {"fields", fields},
                   {"contains", contains},
                   {"clientKey", client_key},
                   {"rules", rules},
                   {"warnings", warnings},
                   {"servers", servers},
                   {"connectTimeout", connect_timeout},
                   {"metrics", metrics},
                   {"statusName", status_name},
                   {"statusText", status_text},
                   {"version", version}};
  is_ending = false;
  napi_add_env_cleanup_hook(env, note_end, env); /* once for each that loads it */
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value made;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &made);
    set(env, exports, functions[i].name, made);
  }
  return exports;
}
