#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "decision.h"
#include "report.h"
#include "request.h"
#include "session.h"

typedef weir_status decide_function(weir_limiter *limiter, const void *key, size_t key_length,
                                    int64_t cost, weir_decision *decision, weir_message *message);

static bool read_request(const weir_cli_options *options, weir_cli_request *request) {
  const char *key = options->arguments[0];
  *request = (weir_cli_request){
      .time_ms = WEIR_CLI_NO_TIME, .key = key, .key_length = strlen(key), .cost = options->cost};
  if (request->key_length > 0) return true;
  weir_cli_error("KEY is empty: one byte or more is accepted");
  return false;
}

static bool print_decision(const weir_cli_options *options, const weir_cli_request *request,
                           const weir_decision *decision) {
  bool several_rules = strchr(options->rule, ';') != NULL;
  if (!options->json)
    weir_cli_decision_text(stdout, decision, several_rules);
  else if (!weir_cli_decision_json(stdout, request, decision)) {
    weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){{0}});
    return false;
  }
  return weir_cli_flush();
}

static int decide(const weir_cli_options *options, decide_function *function) {
  weir_cli_request request;
  weir_cli_session session;
  weir_decision decision;
  weir_message message = {{0}};
  if (!read_request(options, &request)) return WEIR_EXIT_USAGE;
  weir_status status = weir_cli_session_open(options, &options->limiter, &session, &message);
  if (status == WEIR_OK)
    status = function(session.limiter, request.key, request.key_length, request.cost, &decision,
                      &message);
  weir_cli_session_close(&session);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  if (!print_decision(options, &request, &decision)) return WEIR_EXIT_NO_DECISION;
  return decision.allowed ? WEIR_EXIT_ALLOWED : WEIR_EXIT_DENIED;
}

int weir_cli_take(const weir_cli_options *options) {
  return decide(options, weir_limiter_take);
}

int weir_cli_peek(const weir_cli_options *options) {
  return decide(options, weir_limiter_peek);
}

int weir_cli_reset(const weir_cli_options *options) {
  weir_cli_request request;
  weir_cli_session session;
  weir_message message = {{0}};
  if (!read_request(options, &request)) return WEIR_EXIT_USAGE;
  weir_status status = weir_cli_session_open(options, &options->limiter, &session, &message);
  if (status == WEIR_OK)
    status = weir_limiter_reset(session.limiter, request.key, request.key_length, &message);
  weir_cli_session_close(&session);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  if (!options->json)
    fputs("reset\n", stdout);
  else if (!weir_cli_reset_json(stdout, &request))
    return weir_cli_fail("", WEIR_NO_MEMORY, &message);
  return weir_cli_flush() ? 0 : WEIR_EXIT_NO_DECISION;
}
