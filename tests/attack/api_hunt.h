/* Every public function under attack: what the files of api_hunt share. Besides what makes servers and a
 * store of its own, they see the installed headers alone. */
#ifndef TESTS_ATTACK_API_HUNT_H
#define TESTS_ATTACK_API_HUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/weir.h>

enum {
  API_STORES = 4, /* memory, memcached, Redis, and one of the hunt's own that fails by chance */
  API_RULES = 22, /* a limiter for each of them on each store */
  API_LIMITERS = API_STORES * API_RULES,
  API_THREADS = 4,
  API_KEPT = 24,      /* decisions and reservations that a thread keeps */
  API_BATCH_MOST = 12 /* of ordinary batches */
};

/* All threads of a round share this. */
typedef struct api_world {
  const char *urls[API_STORES];
  weir_store *stores[API_STORES];
  weir_limiter *limiters[API_LIMITERS];
  bool has_policy[API_LIMITERS]; /* one that answers for its store */
  bool is_shared[API_LIMITERS];  /* a window of tenants */
} api_world;

/* A request and what came of it. It stays where it is: reservations know their request's decision by its
 * place. */
typedef struct api_kept {
  weir_limiter *limiter; /* NULL: nothing is kept */
  weir_reservation *reservation;
  weir_request request;
  int64_t costs[16];
  char key[16];
} api_kept;

typedef struct api_thread {
  const api_world *world;
  unsigned number;
  uint32_t seed;
  uint64_t steps;
  _Atomic(const char *) calling; /* the function; for who looks on */
  _Atomic int64_t since_us;
  int64_t waits_us; /* what the call was told to wait at most, beside its deadline */
  weir_message message;
  api_kept kept[API_KEPT];
} api_thread;

/* One public function: its name, and what calls it once. */
typedef struct api_call {
  const char *name;
  unsigned weight; /* how often, beside others */
  void (*run)(api_thread *thread);
} api_call;

extern const api_call api_decisions[], api_reservations[], api_others[]; /* end with a NULL name */

/* --- chance ------------------------------------------------------------------------------------
 */

uint32_t api_chance(api_thread *thread, uint32_t of);

/* What so many requests say beside themselves, right or wrong: `extras`, or NULL. Those of shared windows
 * mostly name a tenant. */
const weir_extra *const *api_extras(api_thread *thread, weir_limiter *const *limiters,
                                    const weir_extra *extras[], size_t count);
int64_t api_edge(api_thread *thread); /* a number that is often at some end, or beyond */
int64_t api_small_or_edge(api_thread *thread, uint32_t most);
int64_t api_patience(api_thread *thread,
                     int64_t least_us); /* how long to wait: short, or refused */
weir_limiter *api_limiter(api_thread *thread);
weir_limiter *api_shared_limiter(api_thread *thread);
bool api_is_shared(const api_thread *thread, const weir_limiter *limiter);
weir_store *api_store(api_thread *thread);
weir_message *api_message(api_thread *thread); /* NULL by chance */

/* Writes a request with a key of its own memory; arguments may be wrong. */
void api_request(api_thread *thread, const weir_limiter *limiter, api_kept *kept);

/* An empty place to keep something in, made empty if there is none. */
api_kept *api_place(api_thread *thread);
void api_let_go(api_kept *kept);

/* Something that is kept, of which `wanted` says what; NULL: there is none. */
typedef enum api_wanted { API_ANY, API_DECISION, API_RESERVATION } api_wanted;
api_kept *api_find(api_thread *thread, api_wanted wanted);

/* --- what must hold ----------------------------------------------------------------------------
 */

/* Ends the program: which seed, thread, step and function, and what was wrong. */
_Noreturn void api_fail(const api_thread *thread, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define API_STATUS(name) (1U << WEIR_##name)
enum {
  API_REFUSED = 1 << WEIR_BAD_ARGUMENT | 1 << WEIR_BAD_KEY | 1 << WEIR_BAD_COST,
  API_STORE_AWAY = 1 << WEIR_TIMEOUT | 1 << WEIR_CONTENDED | 1 << WEIR_UNAVAILABLE |
                   1 << WEIR_UNKNOWN_OUTCOME | 1 << WEIR_REFUSED_BY_STORE,
  API_ASKED = 1 << WEIR_OK | API_REFUSED | API_STORE_AWAY,
  API_ENDED = API_ASKED | 1 << WEIR_PLACE_LOST /* of what was reserved */
};

/* `status` is one of `accepted`, and the message says why, where it is not WEIR_OK. */
void api_check_status(api_thread *thread, weir_status status, unsigned accepted,
                      const weir_message *message);
void api_check_decision(api_thread *thread, const weir_limiter *limiter,
                        const weir_decision *decision);

/* A request that was answered: its status, and its decision where it has one. */
void api_check_request(api_thread *thread, const weir_limiter *limiter,
                       const weir_request *request);

/* --- parts -------------------------------------------------------------------------------------
 */

extern const weir_backend api_backend; /* "own:" */
extern const char *const api_rules[API_RULES];

#endif
