/* Statuses and messages: what a call answers when it has no decision.
 *
 * A denied request is a decision, never an error: see weir_decision in weir/limiter.h.
 */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one who can do something about a status. */
typedef enum weir_status_class {
  WEIR_CLASS_NONE,   /* nothing is wrong */
  WEIR_CLASS_CALLER, /* the arguments are wrong; the same call fails again; no count was changed */
  WEIR_CLASS_TRANSIENT, /* there was no time or memory; a later call may succeed */
  WEIR_CLASS_STORE,     /* the store could not be reached, or did not do what was asked */
  WEIR_CLASS_BUG        /* weir or a backend broke its own contract */
} weir_status_class;

/* X(suffix, class, text). Append only: the numbers are part of the ABI. */
#define WEIR_STATUS_MAP(X)                                                                  \
  X(OK, NONE, "ok")                                                                         \
  X(BAD_ARGUMENT, CALLER, "an argument is outside its range")                               \
  X(BAD_RULE, CALLER, "the rule text cannot be used")                                       \
  X(BAD_URL, CALLER, "the store URL cannot be used")                                        \
  X(BAD_KEY, CALLER, "the key is empty")                                                    \
  X(BAD_COST, CALLER, "a cost is outside what is accepted")                                 \
  X(NO_MEMORY, TRANSIENT, "there is not enough memory")                                     \
  X(TIMEOUT, TRANSIENT, "the deadline passed before anything was charged")                  \
  X(CONTENDED, TRANSIENT, "others kept writing the key until the deadline")                 \
  X(UNAVAILABLE, STORE, "the store cannot be reached; nothing was charged")                 \
  X(UNKNOWN_OUTCOME, STORE, "the store did not answer; what was sent may or may not count") \
  X(REFUSED_BY_STORE, STORE,                                                                \
    "the store refused an operation or holds something else under the key")                 \
  X(BROKEN_BACKEND, BUG, "the backend broke the contract of weir/backend.h")                \
  X(PLACE_LOST, TRANSIENT, "the place was lost before it was left; others may have entered")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(suffix, class_suffix, text) WEIR_##suffix,
  WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
      WEIR_STATUS_COUNT
} weir_status;

/* The name without prefix ("BAD_RULE"), the sentence above, the class. Any int is accepted; one
 * that is no status gives "UNKNOWN", "not a weir status", WEIR_CLASS_BUG. Thread-safe. */
WEIR_EXPORT const char *weir_status_name(weir_status status);
WEIR_EXPORT const char *weir_status_text(weir_status status);
WEIR_EXPORT weir_status_class weir_status_classify(weir_status status);

/* Room for one explanation, owned by the caller; every call that takes one accepts NULL. It is
 * written when the call does not answer WEIR_OK, and when a limiter's policy gave the answer (the
 * source is WEIR_SOURCE_FALLBACK or WEIR_SOURCE_LATE): then it says why the store did not decide.
 * Else it is left as it was. For a batch it is about one request, whose index it names first
 * ("requests[3]: ..."): the first whose status is not WEIR_OK, else the first that a policy
 * answered. It is one line of printable ASCII, cut when too long, shows 16 bytes of a key at most,
 * and never contains credentials. */
enum { WEIR_MESSAGE_BYTES = 512 };

typedef struct weir_message {
  char text[WEIR_MESSAGE_BYTES];
} weir_message;

#ifdef __cplusplus
}
#endif

#endif
