/* The findings of `weir doctor`: what a store allows, and what cannot be promised on it.
 *
 * Backends tell findings. The functions that inspect are no part of the library, as no decision
 * needs them: they are in libweir_doctor.a, which is installed beside it and goes with the static
 * library (pkg-config weir-doctor). */
#ifndef WEIR_INSPECT_H
#define WEIR_INSPECT_H

#include <stdint.h>

#include <weir/limiter.h>
#include <weir/status.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weir_finding_level {
  WEIR_FINDING_FACT,    /* as it should be, or neither good nor bad */
  WEIR_FINDING_WARNING, /* decisions are made, and something is not promised */
  WEIR_FINDING_FAULT    /* decisions are not made there, or are wrong */
} weir_finding_level;

/* All of it lives until the function that is told returns. `text` is plain ASCII on one line;
 * nothing contains a password. */
typedef struct weir_finding {
  weir_finding_level level;
  const char *server; /* "host:port"; NULL: the store as a whole */
  const char *topic;  /* one word or two: "round trip" */
  const char *text;   /* one sentence, or less */
} weir_finding;

typedef void weir_tell(void *context, const weir_finding *finding);

/* Tries on every server of the store all that a limiter may ever ask for, with ordinary operations
 * on keys of its own (weir:[namespace:]doctor:{...}), which it deletes again; asks the servers what
 * they say of themselves; and tells each finding as it comes.
 *
 * timeout_us: the longest that one question may take, and all questions to one server together,
 * 1000 to 60000000; 0: 5 s, or the store's timeout where that is longer. Questions for which a slow
 * server leaves no time are left out, and that is a finding. Besides, it waits up to 5 s for a key
 * to expire.
 *
 * WEIR_OK however bad the findings are. WEIR_BAD_ARGUMENT, WEIR_NO_MEMORY, and WEIR_BROKEN_BACKEND
 * where the backend miscounts its servers: nothing was told. */
weir_status weir_store_inspect(weir_store *store, int64_t timeout_us, weir_tell *tell,
                               void *context, weir_message *message);

/* The same for what this limiter's rules need of its store, and what they promise there: what they
 * do not need is not tried, and no fault. Its deadline and clock error are what is compared with.
 */
weir_status weir_limiter_inspect(weir_limiter *limiter, int64_t timeout_us, weir_tell *tell,
                                 void *context, weir_message *message);

#ifdef __cplusplus
}
#endif

#endif
