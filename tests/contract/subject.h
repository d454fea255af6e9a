/* The contract suite runs against these: every store that the environment names, and short ways to
 * put operations to one. */
#ifndef TESTS_CONTRACT_SUBJECT_H
#define TESTS_CONTRACT_SUBJECT_H

#include <weir/backend.h>

enum { SUBJECTS_MOST = 32, SUBJECT_URL_BYTES = 1024, SUBJECT_KEY_BYTES = WEIR_STORE_KEY_MOST + 1 };

#define SECOND_US INT64_C(1000000)
#define DAY_US (INT64_C(86400) * SECOND_US)
#define MINUTE_US (60 * SECOND_US)

typedef struct subject {
  const char *name; /* of its variable: "WEIR_TEST_MEMCACHED_META" */
  char url[SUBJECT_URL_BYTES];
  weir_store *store;
} subject;

extern subject subjects[SUBJECTS_MOST];
extern size_t subject_count;

/* Opens a store for every variable WEIR_TEST_*. False, with a message on stderr, when there is none
 * or one does not open. */
bool subjects_open(void);
void subjects_close(void);

bool subject_has(const subject *subject_of, enum weir_trait trait);

/* A key of no other test. Keys with equal `home` share it; a home is never reused by two calls of
 * subject_new_home(). */
typedef struct key {
  char text[SUBJECT_KEY_BYTES];
  uint16_t length, home_offset, home_length;
} key;

unsigned subject_new_home(void);
key subject_key(unsigned home, unsigned number);

/* A key with nobody near it. */
key subject_lone_key(void);

/* Operations, ready for exec. The key must stay. */
weir_operation op_add(const key *at, int64_t delta);
weir_operation op_add_seed(const key *at, int64_t seed, int64_t delta);
weir_operation op_sub(const key *at, int64_t delta);
weir_operation op_get(const key *at);
weir_operation op_create(const key *at, int64_t value);
weir_operation op_swap(const key *at, uint64_t version, int64_t value);
weir_operation op_raise(const key *at, int64_t floor, int64_t delta);
weir_operation op_put(const key *at, int64_t value);
weir_operation op_drop(const key *at);
weir_operation lasting(weir_operation wanted, int64_t ttl_us);

/* Executes within 30 s: a machine under load is no fault of the store's. */
void subject_exec(const subject *on, weir_operation *operations, size_t count,
                  weir_message *message);
weir_operation subject_do(const subject *on, weir_operation wanted);

/* Executes one and fails the test unless it ends like this. */
weir_operation expect_end(const subject *on, weir_operation wanted, weir_outcome outcome);
void expect_total(const subject *on, weir_operation wanted, int64_t value);

#endif
