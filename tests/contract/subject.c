#include "contract/subject.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"

extern char **environ;

subject subjects[SUBJECTS_MOST];
size_t subject_count;

static const char prefix[] = "WEIR_TEST_";

/* The suite for one backend that does not come with the library, or for those that do. */
#ifdef SUBJECT_BACKEND
extern const weir_backend SUBJECT_BACKEND;
static const weir_backend *const own_backend = &SUBJECT_BACKEND;
#else
static const weir_backend *const own_backend = NULL;
#endif

static weir_status open_store(const char *url, weir_store **store, weir_message *message) {
  weir_status status = own_backend == NULL
                           ? weir_store_open(url, store, message)
                           : weir_store_open_backend(own_backend, url, store, message);
  if (status == WEIR_OK) (*store)->checked = true; /* whatever the build */
  return status;
}

/* With a timeout that a busy machine keeps: the suite is about what a store does, not how fast. */
static bool open_one(char *variable) {
  weir_message message = {""};
  char *equals = strchr(variable, '=');
  subject *made = &subjects[subject_count];
  *equals = '\0'; /* the environment is this program's own copy */
  made->name = variable;
  snprintf(made->url, sizeof made->url, "%s%ctimeout=5s", equals + 1,
           strchr(equals + 1, '?') != NULL ? '&' : '?');
  if (open_store(made->url, &made->store, &message) != WEIR_OK) {
    fprintf(stderr, "%s: cannot open %s: %s\n", made->name, made->url, message.text);
    return false;
  }
  subject_count++;
  return true;
}

bool subjects_open(void) {
  for (char **variable = environ; *variable != NULL; variable++) {
    if (strncmp(*variable, prefix, sizeof prefix - 1) != 0 || strchr(*variable, '=') == NULL)
      continue;
    if (subject_count == SUBJECTS_MOST) {
      fprintf(stderr, "more than %d stores in WEIR_TEST_*\n", SUBJECTS_MOST);
      return false;
    }
    if (!open_one(*variable)) return false;
  }
  if (subject_count == 0)
    fputs("no store in any WEIR_TEST_*: run this with with_servers\n", stderr);
  return subject_count > 0;
}

void subjects_close(void) {
  while (subject_count > 0)
    weir_store_close(subjects[--subject_count].store);
}

bool subject_has(const subject *subject_of, enum weir_trait trait) {
  return (subject_of->store->backend->traits & (unsigned)trait) != 0;
}

unsigned subject_new_home(void) {
  static _Atomic unsigned homes;
  return ++homes;
}

key subject_key(unsigned home, unsigned number) {
  key made;
  int before = snprintf(made.text, sizeof made.text, "weir:contract:{");
  int middle = snprintf(made.text + before, sizeof made.text - (size_t)before, "home-%u", home);
  int all = before + middle;
  all += snprintf(made.text + all, sizeof made.text - (size_t)all, "}:%u", number);
  made.length = (uint16_t)all;
  made.home_offset = (uint16_t)before;
  made.home_length = (uint16_t)middle;
  return made;
}

key subject_lone_key(void) {
  return subject_key(subject_new_home(), 0);
}

static weir_operation operation(weir_operation_kind kind, const key *at) {
  return (weir_operation){.kind = kind,
                          .key = at->text,
                          .key_length = at->length,
                          .home_offset = at->home_offset,
                          .home_length = at->home_length,
                          .ttl_us = MINUTE_US};
}

weir_operation op_add(const key *at, int64_t delta) {
  return op_add_seed(at, 0, delta);
}

weir_operation op_add_seed(const key *at, int64_t seed, int64_t delta) {
  weir_operation made = operation(WEIR_ADD, at);
  made.seed = seed;
  made.delta = delta;
  return made;
}

weir_operation op_sub(const key *at, int64_t delta) {
  weir_operation made = operation(WEIR_SUB, at);
  made.delta = delta;
  return made;
}

weir_operation op_get(const key *at) {
  return operation(WEIR_GET, at);
}

weir_operation op_create(const key *at, int64_t value) {
  weir_operation made = operation(WEIR_CREATE, at);
  made.value = value;
  return made;
}

weir_operation op_swap(const key *at, uint64_t version, int64_t value) {
  weir_operation made = operation(WEIR_SWAP, at);
  made.version = version;
  made.value = value;
  return made;
}

weir_operation op_raise(const key *at, int64_t floor, int64_t delta) {
  weir_operation made = operation(WEIR_RAISE, at);
  made.refresh = true;
  made.floor = floor;
  made.delta = delta;
  return made;
}

weir_operation op_put(const key *at, int64_t value) {
  weir_operation made = operation(WEIR_PUT, at);
  made.value = value;
  return made;
}

weir_operation op_drop(const key *at) {
  return operation(WEIR_DROP, at);
}

weir_operation lasting(weir_operation wanted, int64_t ttl_us) {
  wanted.ttl_us = ttl_us;
  return wanted;
}

void subject_exec(const subject *on, weir_operation *operations, size_t count,
                  weir_message *message) {
  weir_store_exec(on->store, operations, count, weir_monotonic_us() + 30 * SECOND_US, message);
}

weir_operation subject_do(const subject *on, weir_operation wanted) {
  subject_exec(on, &wanted, 1, NULL);
  return wanted;
}

weir_operation expect_end(const subject *on, weir_operation wanted, weir_outcome outcome) {
  weir_message message = {""};
  subject_exec(on, &wanted, 1, &message);
  if (wanted.outcome != outcome)
    fail_msg("kind %d on %.*s: outcome %d instead of %d; %s", (int)wanted.kind,
             (int)wanted.key_length, wanted.key, (int)wanted.outcome, (int)outcome, message.text);
  return wanted;
}

void expect_total(const subject *on, weir_operation wanted, int64_t value) {
  wanted = expect_end(on, wanted, WEIR_DONE);
  if (wanted.value != value)
    fail_msg("kind %d on %.*s: value %" PRId64 " instead of %" PRId64, (int)wanted.kind,
             (int)wanted.key_length, wanted.key, wanted.value, value);
}
