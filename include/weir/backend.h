/* For authors of backends: the code that implements a store.
 *
 * A backend executes batches of small operations, each on one key and each atomic by itself. It
 * knows nothing of rules. The library's own backends are written with this header alone; a program
 * can bring another and open it with weir_store_open_backend().
 */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/inspect.h>
#include <weir/status.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits that every caller of `exec` keeps and every backend may rely on. */
enum {
  WEIR_STORE_KEY_MOST = 250,    /* bytes of a key: printable ASCII without space */
  WEIR_OPERATIONS_MOST = 131072 /* operations in one `exec` */
};
#define WEIR_VALUE_MOST (INT64_C(1) << 62)   /* delta, seed, value: at most this */
#define WEIR_STAKE_WHOLE (UINT32_C(1) << 30) /* weir_operation.stake: a whole limit */
#define WEIR_TTL_MOST_US (INT64_C(2100) * 24 * 3600 * 1000000) /* longest ttl_us; at least 1 ms */

/* Every value is an int64. A key that holds anything else is refused, never guessed at.
 *
 * ttl_us is a promise of life, not of death: the key must live at least that long and should be
 * gone soon after (a server with whole seconds rounds up). No decision depends on when it goes. A
 * key is never, not for an instant, without a TTL.
 *
 * Result members are `outcome`, `value` and `version_out`; they mean something only as stated here.
 * An outcome not listed for an operation must not be given to it, except NOT_SENT, UNKNOWN and
 * REFUSED, which every operation may end in.
 *
 * `late` belongs to NOT_SENT and UNKNOWN; it is false when `exec` is called. False: the server is
 * away, that is, it cannot be connected to, refuses to serve, or has had two requests a timeout
 * apart and answered neither in time; or there is no connection to it yet. True: the operation ran
 * out of its own time, and the server does not count as away. In doubt it is late.
 *
 * `slow` belongs to the same; it is false when `exec` is called. True: nothing but time speaks
 * against the server. It has not refused, and no connection to it was lost; or the first that this
 * process makes is under way. Requests that are admitted in its stead hold nothing back afterwards.
 * In doubt it is false. */
typedef enum weir_operation_kind {
  /* Absent: creates the key with seed + delta, ttl_us. Present: adds delta; with `refresh` the TTL
   * becomes ttl_us, without it stays. One atomic addition, exactly once.
   * DONE: value is the new total. FULL, with WEIR_TRAIT_BOUND alone: that would have reached `floor`, which is
   * above 0; nothing was added, and value is what is there, of an absent key 0. With a seed an absent key is
   * never FULL: it is created, as others must find the seed. */
  WEIR_ADD,
  /* Present: subtracts delta, below zero too, TTL untouched. Absent: creates nothing, or, where the
   * store can only subtract from what it creates, the seed, which lives ttl_us.
   * DONE: value is the new total, negative where more was taken than was there. ABSENT: there is no
   * key; one that holds 0 is there. */
  WEIR_SUB,
  /* DONE: value, and version_out where the backend has WEIR_TRAIT_SWAP. ABSENT. */
  WEIR_GET,
  /* Stores `value` with ttl_us only if the key is absent.
   * DONE: version_out is the new version, or 0 where the store does not tell. CONFLICT: present. */
  WEIR_CREATE,
  /* Needs WEIR_TRAIT_SWAP. Stores `value` with ttl_us only if the key's version still is `version`.
   * DONE: version_out as for CREATE. CONFLICT: changed since. ABSENT. */
  WEIR_SWAP,
  /* Needs WEIR_TRAIT_RAISE. Raises the value to at least `floor`, then adds delta. With `refresh`:
   * absent: to floor, and in the end the TTL becomes ttl_us. Without: the TTL stays, and an absent
   * key stays absent, at every instant, so that nothing without a TTL is ever made.
   * DONE: value is the new total, exact below 2^53. ABSENT: nothing was added; with `refresh` the
   * key was lost in between: start again.
   * Other operations but DROP take such a key only with `raised`; SUB then never creates it, and
   * its delta is at most 2^53. */
  WEIR_RAISE,
  /* Stores `value` with ttl_us, whatever was there. DONE. */
  WEIR_PUT,
  /* Deletes the key. DONE, or ABSENT. */
  WEIR_DROP
} weir_operation_kind;

typedef enum weir_outcome {
  WEIR_PENDING, /* set by the caller; a backend that leaves it breaks the contract */
  WEIR_DONE,
  WEIR_ABSENT,
  WEIR_CONFLICT,
  WEIR_NOT_SENT, /* certainly not executed: no connection, or no time left before the first byte */
  WEIR_UNKNOWN,  /* sent, and no trustworthy answer: executed, or not, or later. Never send it again
                  */
  WEIR_REFUSED,  /* the server answered that it did not execute it, or the key holds no integer */
  WEIR_FULL      /* executed, and nothing was written: its bound is met */
} weir_outcome;

/* Which of its counters the caller means by an operation: the caller's own. A backend does not look
 * at it, only at the key. */
typedef struct weir_counter {
  uint32_t rule;  /* of several */
  uint32_t place; /* of the rule's keys: with index and entry one of them */
  int64_t index;
  int64_t entry;
} weir_counter;

typedef struct weir_operation {
  weir_operation_kind kind;
  bool refresh;         /* ADD, RAISE: renews the TTL */
  bool raised;          /* GET, SUB: the key is one that RAISE made; needs WEIR_TRAIT_RAISE */
  uint16_t key_length;  /* 1 to WEIR_STORE_KEY_MOST */
  uint16_t home_offset; /* the part of the key that alone picks the server: the text between the */
  uint16_t home_length; /* braces; the same for all keys whose order matters; at least 1 byte */
  bool late;            /* out, with NOT_SENT and UNKNOWN: the server does not count as away */
  bool slow;            /* out, with these: nothing but time speaks against the server */
  const char *key;      /* not terminated; valid until `exec` returns; NULL with `identity` */
  int64_t delta;        /* ADD, SUB, RAISE: 1 to WEIR_VALUE_MOST */
  int64_t seed;         /* ADD, SUB: 0 to WEIR_VALUE_MOST */
  int64_t floor;        /* RAISE: 0 to 2^52. ADD: 0, or what the total must stay below, to
                           WEIR_VALUE_MOST; a backend may ignore it */
  int64_t ttl_us;       /* ADD, SUB, CREATE, SWAP, RAISE, PUT: 1000 to WEIR_TTL_MOST_US */
  uint64_t version;     /* SWAP */
  weir_outcome outcome; /* out */
  uint32_t stake;       /* for WEIR_TRAIT_STAKE: which part of its limit rests on the key, 0 (also:
                           not known) to WEIR_STAKE_WHOLE. ADD, SUB: what is added, taken off;
                           CREATE, SWAP, PUT: the whole; GET: the least. A store that evicts the key with
                           the least admits least anew */
  int64_t value; /* in for CREATE, SWAP, PUT: 0 to WEIR_VALUE_MOST; out for ADD, SUB, GET, RAISE */
  uint64_t version_out; /* out: never 0 for a GET that is DONE on a backend with WEIR_TRAIT_SWAP */
  weir_counter counter; /* the caller's own; a backend need not copy it, nor what follows unless it
                           has WEIR_TRAIT_IDENTITY */
  uint64_t identity[2]; /* for WEIR_TRAIT_IDENTITY: the counter; {0, 0}: it is named by `key` */
} weir_operation;

/* Abilities of a backend beyond the operations that all must have. */
enum weir_trait {
  WEIR_TRAIT_SWAP = 1 << 0,
  WEIR_TRAIT_RAISE = 1 << 1,
  WEIR_TRAIT_STAKE = 1 << 2, /* it evicts by weir_operation.stake, and may be told of it by a GET */

  /* `exec` waits for nothing but other threads of this process in the middle of a short step: no
   * network, no disk, no sleep. It ends where it began in time, so a caller need not read its clock
   * again after it, and what ended is certain: no outcome is UNKNOWN, and NOT_SENT only says that
   * the deadline had passed before `exec` began. */
  WEIR_TRAIT_IMMEDIATE = 1 << 3,

  /* It takes operations that name their counter by 128 bits and not by a text: then `key` is NULL,
   * its lengths are 0, and no time was spent on writing a text, nor need any be on hashing it. All
   * bits depend on a secret of the open store and on all that tells one counter from another, so
   * that clients cannot choose keys that are alike in some of them, with one exception: the low 16
   * bits of identity[1] are the same for all counters of one home. A store that keeps counters in
   * parts, by these bits, has all that a request needs in one part.
   *
   * Within one open store an identity is the same counter at any time, for every caller. It means
   * nothing in another store, process or run: only a store that lives and dies with its handle can
   * have this trait. Operations with a `key` must work too, but need not reach a counter that has
   * an identity, nor the other way round: limiters on a store with this trait never name a counter
   * of theirs by its text, and a caller that does (doctor, a test) uses keys of its own. */
  WEIR_TRAIT_IDENTITY = 1 << 4,

  /* It may keep an ADD below its bound, at any time or never: an ADD that is DONE above it is none the less
   * one that callers expect. */
  WEIR_TRAIT_BOUND = 1 << 5
};

/* A store URL, taken apart. Everything is percent-decoded, lives as long as the call to `open`, and
 * absent text is NULL. The library has checked syntax, ranges and option names. */
typedef struct weir_url_host {
  const char *name; /* without brackets for IPv6 */
  uint16_t port;    /* 0: not given */
  uint32_t weight;  /* 1 unless given */
} weir_url_host;

typedef struct weir_url_option {
  const char *name;
  const char *value;
} weir_url_option;

typedef struct weir_url {
  const char *scheme;
  const char *user;
  const char *password;
  const weir_url_host *hosts;
  size_t host_count;
  const char *path; /* from the slash on */
  const weir_url_option *options;
  size_t option_count;
} weir_url;

/* The option's value, or NULL where the URL has none of this name. */
WEIR_EXPORT const char *weir_url_find(const weir_url *url, const char *name);

/* Option values. A missing option gives `otherwise`; one that does not parse or is out of range
 * gives WEIR_BAD_URL and a message that names the option, what was found and what is accepted.
 * Durations: "250ms", "10s", as in rules. `words` ends with NULL; *index is the place found. */
WEIR_EXPORT weir_status weir_url_duration(const weir_url *url, const char *name, int64_t least_us,
                                          int64_t most_us, int64_t otherwise_us, int64_t *us,
                                          weir_message *message);
WEIR_EXPORT weir_status weir_url_integer(const weir_url *url, const char *name, int64_t least,
                                         int64_t most, int64_t otherwise, int64_t *value,
                                         weir_message *message);
WEIR_EXPORT weir_status weir_url_word(const weir_url *url, const char *name,
                                      const char *const *words, size_t otherwise, size_t *index,
                                      weir_message *message);

/* Parts of a URL, besides its options, that a backend accepts. */
enum weir_url_part {
  WEIR_URL_HOST = 1 << 0,  /* needs one host */
  WEIR_URL_HOSTS = 1 << 1, /* needs one host or more */
  WEIR_URL_PATH = 1 << 2,  /* needs a path; beside a host, may hold one */
  WEIR_URL_USER = 1 << 3   /* may hold user and password */
};

/* One scheme of a backend: "memcached", "memcached+unix". */
typedef struct weir_scheme {
  const char *name;
  unsigned parts; /* enum weir_url_part */
} weir_scheme;

/* Subjects of an inspection: a bit for each kind of operation, and two for keys of RAISE. */
enum weir_need {
  WEIR_NEED_ADD = 1 << WEIR_ADD,
  WEIR_NEED_SUB = 1 << WEIR_SUB,
  WEIR_NEED_GET = 1 << WEIR_GET,
  WEIR_NEED_CREATE = 1 << WEIR_CREATE,
  WEIR_NEED_SWAP = 1 << WEIR_SWAP,
  WEIR_NEED_RAISE = 1 << WEIR_RAISE,
  WEIR_NEED_PUT = 1 << WEIR_PUT,
  WEIR_NEED_DROP = 1 << WEIR_DROP,
  WEIR_NEED_RAISED_GET = 1 << 8,
  WEIR_NEED_RAISED_SUB = 1 << 9
};

/* The arguments of a backend's `inspect`; all of it lives until it returns. */
typedef struct weir_inspection {
  size_t server;          /* which, as `locate` counts them; 0 where there is no `locate` */
  const char *name;       /* of the server, for findings; NULL where there is no `locate` */
  bool answers;           /* operations are executed there; if not, nothing need be asked */
  unsigned needs;         /* enum weir_need; what is not among them may be missing */
  const char *key;        /* a key of this server that has no other use; ends with NUL */
  const char *pattern;    /* what all keys of this store begin with, then '*': "weir:*" */
  int64_t timeout_us;     /* for the whole of `inspect` */
  int64_t clock_error_us; /* clocks that differ by more are worth a warning */
  weir_tell *tell;
  void *context;

  /* Raised to how far the server's clock is off from this machine's at least. */
  int64_t *clock_off_us;
  int64_t ttl_us; /* the longest TTL that operations have */
} weir_inspection;

/* A backend is a constant: names, capabilities, functions. Members are only ever appended. */
typedef struct weir_backend {
  size_t size;                /* sizeof(weir_backend) */
  const char *name;           /* for people: "memcached" */
  const weir_scheme *schemes; /* ends with a NULL name */
  const char *const
      *options;    /* its own option names, ends with NULL; namespace and timeout are not listed */
  unsigned traits; /* enum weir_trait */

  /* Makes a handle. May look names up; must not need a server to be there, unless the URL asks for
   * what only one can tell: then WEIR_UNAVAILABLE. timeout_us is the store's timeout option. Else
   * WEIR_OK, WEIR_BAD_URL or WEIR_NO_MEMORY; on error nothing is left behind. */
  weir_status (*open)(const weir_url *url, int64_t timeout_us, void **handle,
                      weir_message *message);

  /* Executes `count` operations and gives each its outcome, by deadline_us (weir_monotonic_us()) at
   * the latest.
   *
   * Operations on one key run in their order. A GET reads a state no older than every ADD before it
   * with the same home, even where an ADD takes the backend several tries; it may then also see
   * what stands behind it.
   * Nothing is atomic across operations. All that can leave together leaves together: one round
   * trip per server, save for retries that an operation's own protocol needs. After one operation
   * fails, the rest still get outcomes of their own. Nothing that may have been executed is sent
   * again.
   *
   * Writes one explanation into message (never NULL) when some outcome is NOT_SENT, UNKNOWN or
   * REFUSED. Called by any number of threads at once. Does not touch operations after it returned.
   */
  void (*exec)(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
               weir_message *message);

  /* Frees the handle. No `exec` is under way; but in a child of the process that opened it one may
   * have been, at the fork: closing then waits for no lock and says nothing to a server. */
  void (*close)(void *handle);

  /* Which of a store's servers keeps the keys with this home, from 0 on, how many servers there are
   * (1 to 1024), and the name of that one, which lives as long as the handle. NULL: there is one,
   * without a name. */
  size_t (*locate)(void *handle, const char *home, size_t home_length, size_t *count,
                   const char **name);

  /* Asks one server what only the backend can know, and tells what it found. All that an `exec`
   * would show is tried elsewhere. Keys that it writes are gone after a minute. NULL: nothing. */
  void (*inspect)(void *handle, const weir_inspection *inspection);

  /* The backend's knowledge of one of the servers that `locate` counts, for
   * weir_store_read_server(): writes the members of *state that it knows and that state->size has
   * room for; before, `answered` is true, and all others but `size` are 0. Any thread, at any time
   * between `open` and `close`. NULL: nothing is known but names. */
  void (*read_server)(void *handle, size_t server, weir_server_state *state);

  /* Makes every server ready to be used at once, for weir_store_connect(): tries until all are, or
   * until deadline_us. Whether they are; if not, the message names the first that is not. Any
   * thread, as `exec`. NULL: one key without another use is read instead. */
  bool (*connect)(void *handle, int64_t deadline_us, weir_message *message);

  /* How many keys the store keeps at the most, before it forgets one for another: a limiter
   * remembers as many as that is worth. Any thread. NULL, or 0: it is not known. */
  size_t (*keys_most)(void *handle);

  /* `exec` of operations of one home that have identities, for a caller who has read the clock before:
   * *now_us, of weir_monotonic_us(). If nothing of that home was executed at a later time so far, these operations
   * are the same as if they had been executed at that time, however long the caller's thread was held
   * up since. Else the store reads the clock once more, and *now_us becomes when they are executed.
   * There is no deadline, as the caller sees how late it is. Only for stores with
   * WEIR_TRAIT_IMMEDIATE and WEIR_TRAIT_IDENTITY. NULL: the caller uses `exec`, and reads the clock
   * after it. */
  void (*exec_at)(void *handle, weir_operation *operations, size_t count, int64_t *now_us,
                  weir_message *message);

  /* Reads the files anew that the URL names, for weir_store_renew_files(), or uses what `prepare`
   * has read; connections from then on use them. On an error, with a message, all stays as it was.
   * Any thread. NULL: there are none. */
  weir_status (*renew)(void *handle, weir_message *message);

  /* When the certificate ends that the store shows its servers, in seconds since 1970; 0: it shows
   * none. Any thread. NULL: it does not. */
  int64_t (*certificate_end_s)(void *handle);

  /* Reads the files as `renew` does and keeps what they say for the next `renew`, which then cannot
   * fail, for weir_store_prepare_files(). Called again, it is the last that counts. Any thread.
   * NULL: only `renew` finds out whether they can be used. */
  weir_status (*prepare)(void *handle, weir_message *message);
} weir_backend;

/* weir_store_open() with a backend of the caller's own; the URL's scheme must be one of its
 * schemes. */
WEIR_EXPORT weir_status weir_store_open_backend(const weir_backend *backend, const char *url,
                                                weir_store **store, weir_message *message);

/* CLOCK_MONOTONIC in microseconds: the time of every deadline. */
WEIR_EXPORT int64_t weir_monotonic_us(void);

/* Writes a message, or puts text before one that a lower layer wrote; cuts what does not fit. Every
 * byte that is no printable ASCII is spelled out, as "\x1b": arguments may come from anywhere. NULL
 * is fine. */
WEIR_EXPORT void weir_message_set(weir_message *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
WEIR_EXPORT void weir_message_prefix(weir_message *message, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The operation's key as a message may show it: the caller's part of it, between the braces, is cut
 * after WEIR_HOME_SHOWN_MOST bytes and then ends in "...". Such a part may be an address, a name or
 * a token, and messages end in logs. Returns `text`. */
enum { WEIR_HOME_SHOWN_MOST = 16, WEIR_KEY_SHOWN_BYTES = WEIR_STORE_KEY_MOST + 4 };
WEIR_EXPORT const char *weir_operation_show_key(const weir_operation *operation,
                                                char text[WEIR_KEY_SHOWN_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
