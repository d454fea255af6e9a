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

void weir_cli_session_close(weir_cli_session *session);

#endif
