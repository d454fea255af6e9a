/* Holds both sides of a backend's exec to the contract of weir/backend.h. */
#include <string.h>

#include "store/process.h"
#include "store/store.h"

enum field {
  DELTA = 1 << 0,
  SEED = 1 << 1,
  FLOOR = 1 << 2,
  VALUE = 1 << 3,
  TTL = 1 << 4,
  VERSION = 1 << 5,
  BOUND = 1 << 6 /* the floor of an ADD */
};

#define BIT(outcome) (1U << (outcome))

/* The contract as a table: what an operation brings, what it needs, how it may end. */
static const struct kind {
  const char *name;
  unsigned fields;
  unsigned trait;
  unsigned outcomes;
} kinds[] = {
    [WEIR_ADD] = {"ADD", DELTA | SEED | BOUND | TTL, 0, BIT(WEIR_DONE) | BIT(WEIR_FULL)},
    [WEIR_SUB] = {"SUB", DELTA | SEED | TTL, 0, BIT(WEIR_DONE) | BIT(WEIR_ABSENT)},
    [WEIR_GET] = {"GET", 0, 0, BIT(WEIR_DONE) | BIT(WEIR_ABSENT)},
    [WEIR_CREATE] = {"CREATE", VALUE | TTL, 0, BIT(WEIR_DONE) | BIT(WEIR_CONFLICT)},
    [WEIR_SWAP] = {"SWAP", VALUE | TTL | VERSION, WEIR_TRAIT_SWAP,
                   BIT(WEIR_DONE) | BIT(WEIR_CONFLICT) | BIT(WEIR_ABSENT)},
    [WEIR_RAISE] = {"RAISE", DELTA | FLOOR | TTL, WEIR_TRAIT_RAISE,
                    BIT(WEIR_DONE) | BIT(WEIR_ABSENT)},
    [WEIR_PUT] = {"PUT", VALUE | TTL, 0, BIT(WEIR_DONE)},
    [WEIR_DROP] = {"DROP", 0, 0, BIT(WEIR_DONE) | BIT(WEIR_ABSENT)},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static const char *const outcome_names[] = {
    [WEIR_PENDING] = "PENDING",   [WEIR_DONE] = "DONE",         [WEIR_ABSENT] = "ABSENT",
    [WEIR_CONFLICT] = "CONFLICT", [WEIR_NOT_SENT] = "NOT_SENT", [WEIR_UNKNOWN] = "UNKNOWN",
    [WEIR_REFUSED] = "REFUSED",   [WEIR_FULL] = "FULL",
};
enum { OUTCOME_COUNT = sizeof outcome_names / sizeof outcome_names[0] };

static const unsigned always = BIT(WEIR_NOT_SENT) | BIT(WEIR_UNKNOWN) | BIT(WEIR_REFUSED);

#define FLOOR_MOST (INT64_C(1) << 52)
#define RAISED_DELTA_MOST (INT64_C(1) << 53) /* where a RAISE is exact */
#define TTL_LEAST_US INT64_C(1000)

/* The key is one that every server takes, and its home lies inside it.
 *
 * A byte below '!' or above '~' is not printable. Eight are looked at together: a borrow or carry
 * from one byte to the next begins in a byte that is outside itself, so it adds no false alarm. */
static const char *key_fault(const weir_operation *operation) {
  const uint64_t each = UINT64_MAX / 255;
  const char *key = operation->key;
  size_t length = operation->key_length;
  if (key == NULL || length < 1 || length > WEIR_STORE_KEY_MOST)
    return "key_length is outside 1 to 250, or there is no key";
  if (operation->home_length < 1 || operation->home_offset >= length ||
      operation->home_length > length - operation->home_offset)
    return "the home is empty or outside the key";
  uint64_t bad = 0;
  uint64_t word;
  size_t at = 0;
  for (; at + sizeof word <= length; at += sizeof word) {
    memcpy(&word, key + at, sizeof word);
    bad |= ((word - '!' * each) | (word + each) | word) & 0x80 * each;
  }
  for (; at < length; at++)
    bad |= key[at] < '!' || key[at] > '~';
  return bad == 0 ? NULL : "the key holds a byte that is not printable ASCII, or a space";
}

/* Each number that the kind brings is in its range. */
static const char *number_fault(const weir_operation *o, unsigned fields) {
  const struct {
    unsigned field;
    int64_t value, least, most;
    const char *fault;
  } numbers[] = {
      {DELTA, o->delta, 1, WEIR_VALUE_MOST, "delta is out of range"},
      {SEED, o->seed, 0, WEIR_VALUE_MOST, "seed is out of range"},
      {FLOOR, o->floor, 0, FLOOR_MOST, "floor is out of range"},
      {BOUND, o->floor, 0, WEIR_VALUE_MOST, "floor is out of range"},
      {VALUE, o->value, 0, WEIR_VALUE_MOST, "value is out of range"},
      {TTL, o->ttl_us, TTL_LEAST_US, WEIR_TTL_MOST_US, "ttl_us is out of range"},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (fields & numbers[i].field &&
        (numbers[i].value < numbers[i].least || numbers[i].value > numbers[i].most))
      return numbers[i].fault;
  return NULL;
}

/* The caller's mistake, or NULL. */
static const char *operation_fault(const weir_backend *backend, const weir_operation *o) {
  if ((unsigned)o->kind >= KIND_COUNT) return "kind is none of weir_operation_kind";
  const struct kind *kind = &kinds[o->kind];
  unsigned trait = kind->trait;
  bool named = (o->identity[0] | o->identity[1]) == 0;
  if (!named) trait |= WEIR_TRAIT_IDENTITY;
  if (o->raised) {
    trait |= WEIR_TRAIT_RAISE;
    if (o->kind != WEIR_GET && o->kind != WEIR_SUB) return "raised is for GET and SUB alone";
    if (o->kind == WEIR_SUB && o->delta > RAISED_DELTA_MOST)
      return "delta is out of range for a raised key";
  }
  if ((trait & backend->traits) != trait) return "the backend lacks the trait it needs";
  const char *fault = named ? key_fault(o) : NULL;
  if (fault != NULL) return fault;
  fault = number_fault(o, kind->fields);
  if (fault != NULL) return fault;
  if (kind->fields & VERSION && o->version == 0) return "version is 0, which no GET gives";
  return NULL;
}

static void refuse_all(weir_operation *operations, size_t count) {
  for (size_t i = 0; i < count; i++)
    operations[i].outcome = WEIR_REFUSED;
}

/* False when one of the operations must not reach the backend. Out of line, as is what holds the
 * backend to its side: of built-in stores only builds with assertions ask. */
__attribute__((noinline)) static bool check_operations(const weir_backend *backend,
                                                       const weir_operation *operations,
                                                       size_t count, weir_message *message) {
  if (count > WEIR_OPERATIONS_MOST) {
    weir_message_set(message, "bug in weir: %zu operations in one exec, accepted are %d", count,
                     WEIR_OPERATIONS_MOST);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    const char *fault = operation_fault(backend, &operations[i]);
    if (fault == NULL) continue;
    weir_message_set(
        message, "bug in weir: operation %zu (%s) for backend %s: %s", i,
        (unsigned)operations[i].kind < KIND_COUNT ? kinds[operations[i].kind].name : "?",
        backend->name, fault);
    return false;
  }
  return true;
}

/* A backend's mistake makes an outcome unknown. */
__attribute__((noinline)) static void check_outcomes(const weir_backend *backend,
                                                     weir_operation *operations, size_t count,
                                                     weir_message *message) {
  for (size_t i = 0; i < count; i++) {
    const struct kind *kind = &kinds[operations[i].kind];
    unsigned outcome = (unsigned)operations[i].outcome;
    bool versioned =
        operations[i].kind == WEIR_GET && outcome == WEIR_DONE && backend->traits & WEIR_TRAIT_SWAP;
    bool unbounded = operations[i].floor == 0 || !(backend->traits & WEIR_TRAIT_BOUND);
    const char *fault = NULL;
    if (outcome >= OUTCOME_COUNT)
      fault = "an outcome that does not exist";
    else if (!((kind->outcomes | always) & BIT(outcome)) || (outcome == WEIR_FULL && unbounded))
      fault = outcome_names[outcome];
    else if (versioned && operations[i].version_out == 0)
      fault = "DONE with version 0";
    if (fault == NULL) continue;
    weir_message_set(message, "backend %s broke its contract: operation %zu (%s) ended in %s",
                     backend->name, i, kind->name, fault);
    operations[i].outcome = WEIR_UNKNOWN;
  }
}

/* False: none of them may be executed, and each has its outcome. */
static bool begin(const weir_store *store, weir_operation *operations, size_t count,
                  weir_message *message) {
  message->text[0] = '\0';
  bool own = store->process == weir_process_number;
  if (!own) weir_process_check(store->process, "the store", message);
  if (!own || (store->checked && !check_operations(store->backend, operations, count, message))) {
    refuse_all(operations, count);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    operations[i].outcome = WEIR_PENDING;
    operations[i].late = operations[i].slow = false;
  }
  return count > 0;
}

void weir_store_exec(weir_store *store, weir_operation *operations, size_t count,
                     int64_t deadline_us, weir_message *message) {
  const weir_backend *backend = store->backend;
  weir_message unread;
  if (message == NULL) message = &unread;
  if (!begin(store, operations, count, message)) return;
  backend->exec(store->handle, operations, count, deadline_us, message);
  if (store->checked) check_outcomes(backend, operations, count, message);
}

void weir_store_exec_at(weir_store *store, weir_operation *operations, size_t count,
                        int64_t *now_us, weir_message *message) {
  const weir_backend *backend = store->backend;
  weir_message unread;
  if (message == NULL) message = &unread;
  if (!begin(store, operations, count, message)) return;
  if (WEIR_BACKEND_HAS(backend, exec_at)) {
    backend->exec_at(store->handle, operations, count, now_us, message);
  } else {
    backend->exec(store->handle, operations, count, INT64_MAX, message);
    *now_us = weir_monotonic_us();
  }
  if (store->checked) check_outcomes(backend, operations, count, message);
}
