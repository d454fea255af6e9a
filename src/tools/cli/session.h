/* A store and a limiter on it, as the options describe them. */
#ifndef WEIR_CLI_SESSION_H
#define WEIR_CLI_SESSION_H

#include <weir/weir.h>

#include "options.h"

typedef struct weir_cli_session {
  weir_store *store;
  weir_limiter *limiter;
} weir_cli_session;

/* Connects to nothing yet; prints what the limiter warns of to stderr, unless --quiet. The limiter
 * leases nothing. On error, which is the library's, nothing is left open. */
weir_status weir_cli_session_open(const weir_cli_options *options,
                                  const weir_limiter_options *limiter_options,
                                  weir_cli_session *session, weir_message *message);

/* Makes the limiter anew with this deadline, which no other process counts on; prints no warning
 * again. */
weir_status weir_cli_session_extend(weir_cli_session *session, const weir_cli_options *options,
                                    const weir_limiter_options *limiter_options,
                                    int64_t deadline_us, weir_message *message);

/* Connects ahead, so that the first decision has its whole deadline for itself: for the store's
 * connect-timeout= at most, and not where those that are not ready refuse at once. A server that is
 * not ready by then is left to the decision, which may not need it. */
void weir_cli_session_connect(const weir_cli_session *session);

/* After a request for `key` was left without a decision: where the store answers, but its round
 * trips are too long for the deadline, puts before the message how long they are, and what deadline
 * all processes need. Asks the store; changes no count. */
void weir_cli_session_explain(const weir_cli_session *session, const weir_cli_options *options,
                              const char *key, weir_status status, weir_message *message);

/* The shortest period of a limiter's rules whose places are held; 0: nothing is held under any of them. */
int64_t weir_cli_held_us(const weir_limiter *limiter);

void weir_cli_session_close(weir_cli_session *session);

#endif
