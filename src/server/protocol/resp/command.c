/* The table of commands, and those that need no more than their arguments. */
#include "protocol/resp/command.h"

#include <stdio.h>
#include <strings.h>

#include "protocol/resp/internal.h"

bool weir_resp_is(const weir_resp_argument *argument, const char *word) {
  return strlen(word) == argument->length &&
         strncasecmp(argument->bytes, word, argument->length) == 0;
}

void weir_resp_error(weir_bytes *out, const char *text) {
  weir_bytes_text(out, "-ERR ");
  size_t begin = out->length;
  weir_bytes_text(out, text);
  for (size_t i = begin; i < out->length; i++)
    if (out->data[i] < 0x20 || out->data[i] > 0x7e) out->data[i] = '?';
  weir_bytes_text(out, "\r\n");
}

void weir_resp_bulk(weir_bytes *out, const char *bytes, size_t length) {
  weir_bytes_text(out, "$");
  weir_bytes_number(out, (int64_t)length);
  weir_bytes_text(out, "\r\n");
  weir_bytes_add(out, bytes, length);
  weir_bytes_text(out, "\r\n");
}

weir_resp_outcome weir_resp_refuse(const weir_resp_call *call, const char *text) {
  weir_resp_error(call->out, text);
  return WEIR_RESP_ANSWERED;
}

weir_resp_outcome weir_resp_refuse_unknown(const weir_resp_call *call) {
  enum { SHOWN_MOST = 64 };
  char text[SHOWN_MOST + 32];
  const weir_resp_argument *name = &call->arguments[0];
  snprintf(text, sizeof text, "unknown command '%.*s'",
           name->length < SHOWN_MOST ? (int)name->length : SHOWN_MOST, name->bytes);
  return weir_resp_refuse(call, text);
}

static weir_resp_outcome run_ping(const weir_resp_call *call) {
  if (call->count == 1)
    weir_bytes_text(call->out, "+PONG\r\n");
  else
    weir_resp_bulk(call->out, call->arguments[1].bytes, call->arguments[1].length);
  return WEIR_RESP_ANSWERED;
}

static weir_resp_outcome run_quit(const weir_resp_call *call) {
  weir_bytes_text(call->out, "+OK\r\n");
  return WEIR_RESP_LEAVES;
}

static weir_resp_outcome run_command(const weir_resp_call *call) {
  weir_bytes_text(call->out, "*0\r\n");
  return WEIR_RESP_ANSWERED;
}

static weir_resp_outcome run_info(const weir_resp_call *call) {
  (void)call;
  return WEIR_RESP_INFO;
}

/* A browser was talked into sending this: what follows are its fields and what it was made to send.
 */
static weir_resp_outcome run_http(const weir_resp_call *call) {
  weir_resp_error(call->out, "this is RESP, not HTTP");
  return WEIR_RESP_LEAVES;
}

typedef struct command {
  const char *name;
  weir_resp_outcome (*run)(const weir_resp_call *call);
  size_t least, most; /* arguments, its name included */
  bool anybody;       /* also without a credential */
} command;

static const command commands[] = {
    {"CL.THROTTLE", weir_resp_run_cl_throttle, 5, 6, false},
    {"WEIR.TAKE", weir_resp_run_take, 3, 6, false},
    {"WEIR.PEEK", weir_resp_run_peek, 3, 6, false},
    {"WEIR.RESET", weir_resp_run_reset, 3, 3, false},
    {"PING", run_ping, 1, 2, false},
    {"THROTTLE", weir_resp_run_throttle, 5, 6, false},
    {"ECHO", run_ping, 2, 2, false},
    {"AUTH", weir_resp_run_auth, 2, 3, true},
    {"HELLO", weir_resp_run_hello, 1, WEIR_RESP_ARGUMENTS_MOST, true},
    {"QUIT", run_quit, 1, 1, true},
    {"SELECT", weir_resp_run_select, 2, 2, false},
    {"CLIENT", weir_resp_run_client, 2, WEIR_RESP_ARGUMENTS_MOST, false},
    {"COMMAND", run_command, 1, WEIR_RESP_ARGUMENTS_MOST, false},
    {"INFO", run_info, 1, WEIR_RESP_ARGUMENTS_MOST, false},
    {"POST", run_http, 1, WEIR_RESP_ARGUMENTS_MOST, true},
    {"HOST:", run_http, 1, WEIR_RESP_ARGUMENTS_MOST, true},
};

static const command *find_command(const weir_resp_argument *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (weir_resp_is(name, commands[i].name)) return &commands[i];
  return NULL;
}

bool weir_resp_shows_credential(const weir_resp_request *request) {
  const weir_resp_argument *name = &request->arguments[0];
  return weir_resp_is(name, "AUTH") || (weir_resp_is(name, "HELLO") && request->count > 2);
}

weir_resp_outcome weir_resp_run(weir_resp_session *session, const weir_resp_server *server,
                                const weir_resp_request *request, weir_bytes *out, weir_ask *ask) {
  const weir_resp_call call = {session, server, request->arguments, request->count, out, ask};
  const command *found = find_command(&request->arguments[0]);
  if (!session->known && server->credential_count == 0) session->known = true;
  if (!session->known && (found == NULL || !found->anybody)) {
    weir_bytes_text(out, "-NOAUTH Authentication required.\r\n");
    return WEIR_RESP_ANSWERED;
  }
  if (found == NULL) return weir_resp_refuse_unknown(&call);
  if (call.count < found->least || call.count > found->most) {
    weir_bytes_format(out, "-ERR wrong number of arguments for '%s' command\r\n", found->name);
    return WEIR_RESP_ANSWERED;
  }
  return found->run(&call);
}
