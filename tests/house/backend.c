/* A third party's backend and its caller, written with the installed headers only. The store is one
 * counter that forgets nothing and holds whatever key comes first: enough for a fixed window. */
#include <stdio.h>
#include <string.h>
#include <weir/backend.h>
#include <weir/weir.h>

typedef struct single {
  char key[WEIR_STORE_KEY_MOST];
  size_t key_length; /* 0: nothing is stored */
  int64_t value;
  int exec_calls;
} single;

static single the_store;

static weir_status single_open(const weir_url *url, int64_t timeout_us, void **handle,
                               weir_message *message) {
  (void)url;
  (void)timeout_us;
  (void)message;
  *handle = &the_store;
  return WEIR_OK;
}

static void add(single *store, weir_operation *operation) {
  if (store->key_length == 0) {
    memcpy(store->key, operation->key, operation->key_length);
    store->key_length = operation->key_length;
    store->value = operation->seed;
  }
  store->value += operation->delta;
}

static void execute(single *store, weir_operation *operation, weir_message *message) {
  bool present = store->key_length == operation->key_length &&
                 memcmp(store->key, operation->key, store->key_length) == 0;
  operation->outcome = present ? WEIR_DONE : WEIR_ABSENT;
  switch (operation->kind) {
    case WEIR_ADD:
      if (!present && store->key_length != 0) {
        operation->outcome = WEIR_REFUSED;
        weir_message_set(message, "there is room for one key only");
        return;
      }
      add(store, operation);
      operation->outcome = WEIR_DONE;
      break;
    case WEIR_SUB:
      store->value -= present ? operation->delta : 0;
      break;
    case WEIR_GET:
      break;
    default:
      operation->outcome = WEIR_REFUSED;
      weir_message_set(message, "only ADD, SUB and GET are known");
      return;
  }
  operation->value = store->value;
}

static void single_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                        weir_message *message) {
  single *store = handle;
  (void)deadline_us;
  store->exec_calls++;
  for (size_t i = 0; i < count; i++) {
    execute(store, &operations[i], message);
  }
}

static void single_close(void *handle) {
  ((single *)handle)->key_length = 0;
}

static const weir_backend single_backend = {
    .size = sizeof(weir_backend),
    .name = "single",
    .schemes = (const weir_scheme[]){{"single", 0}, {NULL, 0}},
    .options = (const char *const[]){NULL},
    .open = single_open,
    .exec = single_exec,
    .close = single_close,
};

/* Whether three requests under a limit of two get what they should. */
static bool limits(weir_limiter *limiter, weir_message *message) {
  for (int request = 1; request <= 3; request++) {
    weir_decision decision;
    weir_status status = weir_limiter_take(limiter, "someone", 7, 1, &decision, message);
    if (status != WEIR_OK) {
      return false;
    }
    if (decision.allowed != (request <= 2) || decision.source != WEIR_SOURCE_STORE) {
      weir_message_set(message, "request %d: allowed %d, source %d", request, decision.allowed,
                       (int)decision.source);
      return false;
    }
  }
  return true;
}

int main(void) {
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_message message = {""};
  bool right =
      weir_store_open_backend(&single_backend, "single:", &store, &message) == WEIR_OK &&
      weir_limiter_create(store, "fixed-window:2/400d", NULL, &limiter, &message) == WEIR_OK &&
      limits(limiter, &message);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  printf("%s; exec was called %d times\n", right ? "as expected" : message.text,
         the_store.exec_calls);
  return right && the_store.exec_calls > 0 ? 0 : 1;
}
