/* What the files of this folder share. */
#ifndef WEIR_PROTOCOL_RESP_INTERNAL_H
#define WEIR_PROTOCOL_RESP_INTERNAL_H

#include <string.h>

#include "protocol/resp/command.h"

/* How an answer is worded: weir_ask.form. */
enum weir_resp_form { WEIR_RESP_FIELDS, WEIR_RESP_CL_THROTTLE, WEIR_RESP_THROTTLE };

/* One request on its way through the table. */
typedef struct weir_resp_call {
  weir_resp_session *session;
  const weir_resp_server *server;
  const weir_resp_argument *arguments; /* [0] is the command's name */
  size_t count;
  weir_bytes *out;
  weir_ask *ask;
} weir_resp_call;

/* Whether an argument is this word, in letters of either case. */
bool weir_resp_is(const weir_resp_argument *argument, const char *word);

weir_resp_outcome weir_resp_refuse(const weir_resp_call *call, const char *text);

/* "unknown command 'NAME'"; what stands behind the name may be a secret. */
weir_resp_outcome weir_resp_refuse_unknown(const weir_resp_call *call);

weir_resp_outcome weir_resp_run_auth(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_hello(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_client(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_select(const weir_resp_call *call);

/* Commands that ask for a decision. */
weir_resp_outcome weir_resp_run_take(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_peek(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_reset(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_cl_throttle(const weir_resp_call *call);
weir_resp_outcome weir_resp_run_throttle(const weir_resp_call *call);

#endif
