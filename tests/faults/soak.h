/* A mixed load on several stores at once, each of them failing now and then.
 *
 * soak.c starts the servers and makes them fail, soak_load.c is what the processes do, soak_check.c
 * what they hold against each answer. */
#ifndef TESTS_FAULTS_SOAK_H
#define TESTS_FAULTS_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weir/weir.h>

#include "fixture/servers.h"
#include "rule/rule.h"

enum {
  SOAK_PROCESSES = 3,
  SOAK_THREADS = 4, /* of each */
  SOAK_STORES = 8,
  SOAK_KEYS = 2,
  SOAK_CHECKED = 3 /* the first rules, whose bounds are held against all that was admitted */
};

/* A rule's requests. */
typedef struct soak_rule {
  const char *text;
  weir_fallback fallback;
  bool is_counted; /* what remains is the limit less a multiple of the key's own cost */
  bool refunds, resets, takes_less;
} soak_rule;

enum { SOAK_RULES = 8, SOAK_OWN = SOAK_RULES - 1 /* each thread has a key of its own */ };
extern const soak_rule soak_rules[SOAK_RULES];

/* Every request for a key has one cost, so that an answer meant for the other key is noticed. */
extern const int64_t soak_costs[SOAK_KEYS];

#define SOAK_DEADLINE_US INT64_C(20000)

typedef struct soak_admission {
  int64_t at_us;
  int16_t cost; /* less what was given back, or may have been */
  uint8_t store, rule, key;
  bool by_fallback;
} soak_admission;

/* All processes share this. */
typedef struct soak {
  char urls[SOAK_STORES][SERVER_URL_BYTES];
  uint64_t seed;
  int process; /* the number of the one that is started next */
  atomic_bool taken_up[SOAK_PROCESSES];
  _Atomic unsigned losses[SOAK_STORES]; /* odd: it is forgetting just now */
  atomic_bool stopped, quarter;         /* quarter: of the time is over */
  _Atomic uint64_t asked, decided, by_fallback, no_decision, certain, keys_lost, wrong;
  _Atomic int64_t longest_us;
  _Atomic size_t used;
  size_t room;
  soak_admission admissions[];
} soak;

/* A process of the load. */
void soak_run(void *mine);

/* Says what is wrong, once for each kind and process, and counts it. */
void soak_wrong(soak *mine, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One request and its answer. */
typedef struct soak_answer {
  int rule, key;
  int64_t cost;
  bool is_peek, may_be_less;
  int64_t begin_us, end_us; /* real time */
  weir_status status;
  weir_decision decision;
} soak_answer;

/* Whether it can be so. */
void soak_check(soak *mine, const soak_answer *answer);

/* The model of a key that only one thread asks for. */
typedef struct soak_model {
  int64_t window;      /* the number of the window that the rest is about */
  int64_t sure, maybe; /* charged; perhaps charged or perhaps given back as well */
  unsigned losses;     /* of its store, when the window began here */
} soak_model;

/* The request was for that key; `losses` is what the store had lost before it was asked. */
void soak_model_check(soak *mine, soak_model *model, int store, const soak_answer *answer,
                      unsigned losses);

/* Something of that window was given back, or perhaps. */
void soak_model_refund(soak_model *model, const weir_decision *taken, int64_t cost,
                       weir_status status);

#endif
