/* A store: opened by its URL, connected ahead of the first decision, closed; where threads sleep that
 * wait for its answers, and which limiters count under which tag in it. */
#include "store/store.h"

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "condition.h"
#include "hash.h"
#include "store/process.h"

#define TIMEOUT_LEAST_US INT64_C(1000)
#define TIMEOUT_MOST_US INT64_C(60000000)
#define TIMEOUT_DEFAULT_US INT64_C(20000)
#define CONNECT_DEFAULT_US INT64_C(1000000)

extern const weir_backend weir_memory_backend;
extern const weir_backend weir_memcached_backend;
extern const weir_backend weir_redis_backend;

const weir_backend *const weir_builtin_backends[] = {
    &weir_memory_backend,
#ifdef WEIR_WITH_MEMCACHED
    &weir_memcached_backend,
#endif
#ifdef WEIR_WITH_REDIS
    &weir_redis_backend,
#endif
    NULL,
};

/* --- waiters -------------------------------------------------------------------------------------
 */

static void put_back_waiters(weir_store *store, weir_waiter *first, weir_waiter *last) {
  last->next = atomic_load_explicit(&store->waiters, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&store->waiters, &last->next, first)) {
  }
}

static weir_waiter *create_waiter(void) {
  weir_waiter *waiter = calloc(1, sizeof *waiter);
  if (waiter == NULL) return NULL;
  if (!weir_condition_init(&waiter->changed)) goto no_condition;
  if (pthread_mutex_init(&waiter->mutex, NULL) != 0) goto no_mutex;
  return waiter;

no_mutex:
  pthread_cond_destroy(&waiter->changed);
no_condition:
  free(waiter);
  return NULL;
}

/* All are taken off at once, which no other thread can disturb, and those that are left put back. */
weir_waiter *weir_store_take_waiter(weir_store *store) {
  weir_waiter *taken = atomic_exchange(&store->waiters, NULL);
  if (taken == NULL) return create_waiter();
  weir_waiter *last = taken->next;
  while (last != NULL && last->next != NULL)
    last = last->next;
  if (last != NULL) put_back_waiters(store, taken->next, last);
  return taken;
}

void weir_store_keep_waiter(weir_store *store, weir_waiter *waiter) {
  put_back_waiters(store, waiter, waiter);
}

static void free_waiters(weir_store *store) {
  for (weir_waiter *waiter = store->waiters, *next; waiter != NULL; waiter = next) {
    next = waiter->next;
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->mutex);
    free(waiter);
  }
}

/* --- opened and closed --------------------------------------------------------------------------
 */

/* The fault of a backend of the caller's own, or NULL. One that was built with a newer header is
 * larger, and fine; `close` was the last member of the first. */
static const char *backend_fault(const weir_backend *backend) {
  if (backend->size < offsetof(weir_backend, close) + sizeof backend->close)
    return "size is less than that of the first weir_backend";
  if (backend->name == NULL) return "name is NULL";
  if (backend->schemes == NULL || backend->schemes[0].name == NULL) return "schemes is empty";
  if (backend->options == NULL) return "options is NULL; a list of none holds one NULL";
  if (backend->open == NULL) return "open is NULL";
  if (backend->exec == NULL) return "exec is NULL";
  if (backend->close == NULL) return "close is NULL";
  return NULL;
}

static weir_status read_namespace(const weir_url *url, weir_store *store, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const char *text = weir_url_find(url, "namespace");
  if (text == NULL) return WEIR_OK;
  size_t length = strlen(text);
  if (length > WEIR_NAMESPACE_MOST || strspn(text, accepted) != length) {
    weir_message_set(message, "namespace=%.80s: accepted are 1 to %d of A-Z a-z 0-9 _ . -", text,
                     WEIR_NAMESPACE_MOST);
    return WEIR_BAD_URL;
  }
  memcpy(store->namespace_text, text, length + 1);
  return WEIR_OK;
}

/* Reads connect-timeout= of a URL that is good. A backend of the caller's own may have an option of
 * this name that is no duration. */
static int64_t read_connect_us(const weir_url *url, int64_t timeout_us) {
  int64_t otherwise_us = timeout_us > CONNECT_DEFAULT_US ? timeout_us : CONNECT_DEFAULT_US;
  int64_t us;
  weir_status status = weir_url_duration(url, "connect-timeout", TIMEOUT_LEAST_US, TIMEOUT_MOST_US,
                                         otherwise_us, &us, NULL);
  return status == WEIR_OK ? us : otherwise_us;
}

static weir_status open_handle(const weir_url *url, weir_store *store, weir_message *message) {
  weir_status status = read_namespace(url, store, message);
  if (status == WEIR_OK)
    status = weir_url_duration(url, "timeout", TIMEOUT_LEAST_US, TIMEOUT_MOST_US,
                               TIMEOUT_DEFAULT_US, &store->timeout_us, message);
  if (status == WEIR_OK)
    status = store->backend->open(url, store->timeout_us, &store->handle, message);
  if (status == WEIR_OK) store->connect_us = read_connect_us(url, store->timeout_us);
  bool plain = status == WEIR_OK || status == WEIR_NO_MEMORY || status == WEIR_UNAVAILABLE;
  if (plain) return status;
  if (status == WEIR_BAD_URL) {
    weir_message_prefix(message, "store URL: ");
    return status;
  }
  weir_message_set(message, "backend %s broke its contract: open answered %s", store->backend->name,
                   weir_status_name(status));
  return WEIR_BROKEN_BACKEND;
}

static weir_status open_store(const weir_backend *const *backends, const char *text,
                              weir_store **store, weir_message *message) {
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(text, backends, &parsed, message);
  if (status != WEIR_OK) return status;
  weir_store *made = calloc(1, sizeof *made);
  if (made == NULL || sodium_init() < 0 || !weir_process_watch()) {
    status = WEIR_NO_MEMORY;
    goto done;
  }
  made->backend = parsed.backend;
  made->process = weir_process_number;
#ifdef NDEBUG
  made->checked = backends != weir_builtin_backends;
#else
  made->checked = true;
#endif
  randombytes_buf(made->secret, sizeof made->secret);
  pthread_mutex_init(&made->uses_lock, NULL); /* allocates nothing, and cannot fail so */
  status = open_handle(&parsed.url, made, message);
  if (status == WEIR_OK) {
    *store = made;
    made = NULL;
  }

done:
  free(made);
  weir_url_clear(&parsed);
  return status;
}

/* Every status has a message, of a backend of the caller's own, too. */
static weir_status explain(weir_status status, weir_message *message) {
  if (status == WEIR_NO_MEMORY) weir_message_set(message, "%s", weir_status_text(status));
  return status;
}

weir_status weir_store_open(const char *url, weir_store **store, weir_message *message) {
  *store = NULL;
  return explain(open_store(weir_builtin_backends, url, store, message), message);
}

weir_status weir_store_open_backend(const weir_backend *backend, const char *url,
                                    weir_store **store, weir_message *message) {
  *store = NULL;
  if (backend == NULL) {
    weir_message_set(message, "backend is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  const char *fault = backend_fault(backend);
  if (fault != NULL) {
    weir_message_set(message, "the backend's %s", fault);
    return WEIR_BROKEN_BACKEND;
  }
  const weir_backend *const backends[] = {backend, NULL};
  return explain(open_store(backends, url, store, message), message);
}

void weir_store_close(weir_store *store) {
  if (store == NULL) return;
  store->backend->close(store->handle);
  free_waiters(store);
  sodium_memzero(store->secret, sizeof store->secret);
  free(store);
}

/* --- asked --------------------------------------------------------------------------------------
 */

/* Copies as much as fits into a caller's structure, and 0 behind what this version knows; `size`
 * stays. */
static void copy_out(void *out, size_t size, const void *known, size_t known_bytes) {
  if (size > known_bytes) memset((char *)out + known_bytes, 0, size - known_bytes);
  memcpy(out, known, size < known_bytes ? size : known_bytes);
}

/* By `call` of the backend, where it has that. */
static weir_status read_files(weir_store *store, weir_status (*call)(void *, weir_message *),
                              weir_message *message) {
  if (weir_process_check(store->process, "the store", message) != WEIR_OK) return WEIR_BAD_ARGUMENT;
  if (call == NULL) return WEIR_OK;
  weir_status status = call(store->handle, message);
  if (status == WEIR_BAD_URL) weir_message_prefix(message, "store URL: ");
  return explain(status, message);
}

weir_status weir_store_prepare_files(weir_store *store, weir_message *message) {
  const weir_backend *backend = store->backend;
  bool has = WEIR_BACKEND_HAS(backend, prepare);
  return read_files(store, has ? backend->prepare : NULL, message);
}

weir_status weir_store_renew_files(weir_store *store, weir_message *message) {
  const weir_backend *backend = store->backend;
  bool has = WEIR_BACKEND_HAS(backend, renew);
  return read_files(store, has ? backend->renew : NULL, message);
}

int64_t weir_store_certificate_end_s(const weir_store *store) {
  bool tells = WEIR_BACKEND_HAS(store->backend, certificate_end_s) &&
               weir_process_check(store->process, "the store", NULL) == WEIR_OK;
  return tells ? store->backend->certificate_end_s(store->handle) : 0;
}

weir_status weir_store_read_times(const weir_store *store, weir_store_times *times) {
  const weir_store_times read = {times->size, store->timeout_us, store->connect_us};
  if (times->size < sizeof times->size) return WEIR_BAD_ARGUMENT;
  copy_out(times, times->size, &read, sizeof read);
  return WEIR_OK;
}

weir_status weir_store_read_server(const weir_store *store, size_t index,
                                   weir_server_state *state) {
  static const char home[] = "0";
  const weir_backend *backend = store->backend;
  weir_server_state read = {.size = sizeof read, .answered = true};
  size_t size = state->size;
  size_t count = 1;
  if (size < sizeof size || weir_process_check(store->process, "the store", NULL) != WEIR_OK)
    return WEIR_BAD_ARGUMENT;
  if (WEIR_BACKEND_HAS(backend, locate))
    backend->locate(store->handle, home, strlen(home), &count, &read.name);
  if (index >= count) return WEIR_BAD_ARGUMENT;
  if (count > 1) read.name = NULL; /* of another server */
  if (WEIR_BACKEND_HAS(backend, read_server)) backend->read_server(store->handle, index, &read);
  read.size = size;
  copy_out(state, size, &read, sizeof read);
  return WEIR_OK;
}

weir_status weir_store_connect(weir_store *store, int64_t timeout_us, weir_message *message) {
  weir_message why = {""};
  bool ready;
  if (store == NULL) {
    weir_message_set(message, "the store is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  if (timeout_us < TIMEOUT_LEAST_US || timeout_us > TIMEOUT_MOST_US) {
    weir_message_set(message, "timeout_us is %lld: accepted are %lld to %lld",
                     (long long)timeout_us, (long long)TIMEOUT_LEAST_US,
                     (long long)TIMEOUT_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_process_check(store->process, "the store", message);
  if (status != WEIR_OK) return status;
  int64_t deadline_us = weir_monotonic_us() + timeout_us;
  if (WEIR_BACKEND_HAS(store->backend, connect)) {
    ready = store->backend->connect(store->handle, deadline_us, &why);
  } else { /* does it answer at all? */
    static const char key[] = "weir:connect";
    weir_operation read = {
        .kind = WEIR_GET, .key = key, .key_length = sizeof key - 1, .home_length = sizeof key - 1};
    weir_store_exec(store, &read, 1, deadline_us, &why);
    ready = read.outcome == WEIR_DONE || read.outcome == WEIR_ABSENT;
  }
  if (ready) return WEIR_OK;
  weir_message_set(message, "%s", why.text);
  return WEIR_UNAVAILABLE;
}

/* --- uses ---------------------------------------------------------------------------------------
 *
 *     bucket of the tag ──> first ──> first ──> ...   of any meanings, the newest first
 *                             ╵ └──> equal ──> equal    a ring: the same tag and meaning
 *
 * Entering looks at the first ones of a bucket only until one has the same tag and another meaning:
 * that one is told to the limiter that enters. So it takes no longer where there are many.
 */

static void put_first(weir_store_use **link, weir_store_use *use) {
  use->next = *link;
  if (use->next != NULL) use->next->link = &use->next;
  use->link = link;
  *link = use;
}

bool weir_store_enter(weir_store *store, weir_store_use *use,
                      void (*tell)(void *context, const weir_store_use *other), void *context) {
  uint64_t hash = weir_hash_64(store->secret, use->tag, strlen(use->tag));
  weir_store_use **bucket = &store->uses[hash % WEIR_STORE_USE_BUCKETS];
  const weir_store_use *differs = NULL;
  use->link = NULL;
  use->equal = use->equal_before = use;
  pthread_mutex_lock(&store->uses_lock);
  for (weir_store_use *found = *bucket; found != NULL && differs == NULL; found = found->next) {
    if (strcmp(found->tag, use->tag) != 0) continue;
    if (strcmp(found->meaning, use->meaning) != 0) {
      differs = found;
    } else if (use->equal == use) { /* joins its ring */
      use->equal = found->equal;
      use->equal_before = found;
      use->equal->equal_before = use;
      found->equal = use;
    }
  }
  if (use->equal == use) put_first(bucket, use);
  if (differs != NULL) tell(context, differs);
  pthread_mutex_unlock(&store->uses_lock);
  return differs != NULL;
}

/* At the fork, a thread of the parent may have held the lock. */
void weir_store_leave(weir_store *store, weir_store_use *use) {
  if (store->process != weir_process_number) return;
  pthread_mutex_lock(&store->uses_lock);
  if (use->link != NULL) {
    *use->link = use->next;
    if (use->next != NULL) use->next->link = use->link;
    if (use->equal != use) put_first(use->link, use->equal);
  }
  use->equal->equal_before = use->equal_before;
  use->equal_before->equal = use->equal;
  pthread_mutex_unlock(&store->uses_lock);
}
