/* take, peek, refund, settle and reset: one request about one key. Each is a function that asks the
 * limiter; how the limiter is reached is alike for all, and how the answer is shown for some. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "decision.h"
#include "options.h"
#include "report.h"
#include "session.h"

/* A command's question to the open limiter; `decision` may stay as it is. */
typedef weir_status ask_function(const weir_cli_options *options, const weir_cli_request *request,
                                 weir_limiter *limiter, weir_decision *decision,
                                 weir_message *message);

/* Exits with `unknown` where the store may have been changed, and gave no answer. */
static int run(const weir_cli_options *options, ask_function *ask, int unknown,
               weir_cli_request *request, weir_decision *decision) {
  const char *key = options->arguments[0];
  weir_cli_session session;
  weir_message message = {{0}};
  *request = (weir_cli_request){
      .peek = request->peek,
      .lists = request->lists,
      .time_ms = WEIR_CLI_NO_TIME,
      .key = key,
      .key_length = strlen(key),
      .cost = options->costs[0],
      .costs = options->cost_count > 1 ? options->costs : NULL,
      .cost_count = options->cost_count,
  };
  if (request->key_length == 0) {
    weir_cli_error("KEY is empty: one byte or more is accepted");
    return WEIR_EXIT_USAGE;
  }
  weir_status status = weir_cli_session_open(options, &options->limiter, &session, &message);
  int rules = status == WEIR_OK ? (int)weir_limiter_rules(session.limiter) : 0;
  if (status == WEIR_OK && options->cost_count != 1 && options->cost_count != rules) {
    snprintf(message.text, sizeof message.text,
             "--cost names %d costs: one, or one for each of the %d rules, is accepted",
             options->cost_count, rules);
    status = WEIR_BAD_COST;
  }
  if (status == WEIR_OK) {
    weir_cli_session_connect(&session);
    status = ask(options, request, session.limiter, decision, &message);
    weir_cli_session_explain(&session, options, request->key, status, &message);
  }
  weir_cli_session_close(&session);
  if (status == WEIR_OK) return 0;
  int failed = weir_cli_fail("", status, &message);
  return status == WEIR_UNKNOWN_OUTCOME ? unknown : failed;
}

/* A place needs a process that lives as long as it is held: take and refund charge once, and
 * end. */
static bool check_not_held(const weir_limiter *limiter, weir_message *message) {
  if (weir_cli_held_us(limiter) == 0) return true;
  snprintf(message->text, sizeof message->text,
           "the places of an in-flight rule are held: \"weir run\" holds one while a command runs; "
           "peek and reset are accepted");
  return false;
}

/* --- take and peek --------------------------------------------------------------------------- */

static weir_status decide_one(const weir_cli_options *options, weir_limiter *limiter,
                              weir_request *one, weir_message *message) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra};
  extra.class_name = options->class_name;
  extra.limit = options->own_limit;
  extra.tenant = options->tenant;
  extra.tenant_length = options->tenant != NULL ? strlen(options->tenant) : 0;
  return weir_decide_extra(&limiter, one, extras, 1, message);
}

static weir_status ask_decision(const weir_cli_options *options, const weir_cli_request *request,
                                weir_limiter *limiter, weir_decision *decision,
                                weir_message *message) {
  if (!request->peek && !check_not_held(limiter, message)) return WEIR_BAD_RULE;
  if (!request->peek && weir_cli_given(options, WEIR_CLI_WAIT))
    return weir_limiter_wait(limiter, request->key, request->key_length, request->cost,
                             options->wait_us, decision, message);
  weir_request one = {
      .key = request->key,
      .key_length = request->key_length,
      .cost = request->cost,
      .costs = request->costs,
      .flags = (request->peek ? (unsigned)WEIR_REQUEST_PEEK : 0U) |
               (weir_cli_given(options, WEIR_CLI_UP_TO) ? (unsigned)WEIR_REQUEST_UP_TO : 0U),
  };
  weir_status status = decide_one(options, limiter, &one, message);
  *decision = one.decision;
  return status;
}

static int decide(const weir_cli_options *options, bool peek) {
  weir_cli_request request = {.peek = peek};
  weir_decision decision = {0};
  bool up_to = weir_cli_given(options, WEIR_CLI_UP_TO);
  int exit_status = run(options, ask_decision, WEIR_EXIT_NO_DECISION, &request, &decision);
  if (exit_status != 0) return exit_status;
  if (!options->quiet) {
    if (!options->json)
      weir_cli_decision_text(stdout, &decision, strchr(options->rule, ';') != NULL, up_to);
    else if (!weir_cli_decision_json(stdout, &request, &decision))
      return weir_cli_fail_memory();
    int lost = weir_cli_flush();
    if (lost != 0) return lost;
  }
  return decision.allowed ? WEIR_EXIT_ALLOWED : WEIR_EXIT_DENIED;
}

int weir_cli_take(const weir_cli_options *options) {
  bool waits = weir_cli_given(options, WEIR_CLI_WAIT);
  if (waits && (options->cost_count > 1 || weir_cli_given(options, WEIR_CLI_UP_TO))) {
    weir_cli_error("--wait needs one cost for every rule, and all of it: leave out %s",
                   options->cost_count > 1 ? "the list of costs" : "--up-to");
    return WEIR_EXIT_USAGE;
  }
  const char *beside = options->class_name != NULL ? "--class"
                       : options->tenant != NULL   ? "--tenant"
                       : options->own_limit != 0   ? "--limit"
                                                   : NULL;
  if (waits && beside != NULL) {
    weir_cli_error("--wait and %s: one of them is accepted", beside);
    return WEIR_EXIT_USAGE;
  }
  return decide(options, false);
}

int weir_cli_peek(const weir_cli_options *options) {
  return decide(options, true);
}

/* --- refund, settle and reset ---------------------------------------------------------------- */

/* When it was taken, as far as it is known. */
static int64_t taken_at(const weir_cli_options *options) {
  return weir_cli_given(options, WEIR_CLI_AT) ? options->at_us : weir_clock_us(CLOCK_REALTIME);
}

static weir_status ask_refund(const weir_cli_options *options, const weir_cli_request *request,
                              weir_limiter *limiter, weir_decision *decision,
                              weir_message *message) {
  if (!check_not_held(limiter, message)) return WEIR_BAD_RULE;
  *decision = (weir_decision){.allowed = true, .cost = request->cost, .at_us = taken_at(options)};
  return weir_limiter_refund(limiter, request->key, request->key_length, request->cost, decision,
                             message);
}

static weir_status ask_settle(const weir_cli_options *options, const weir_cli_request *request,
                              weir_limiter *limiter, weir_decision *decision,
                              weir_message *message) {
  int64_t *lists = request->lists;
  size_t bytes = (size_t)request->cost_count * sizeof *lists;
  memcpy(lists, options->reals, bytes);
  memcpy(lists + request->cost_count, options->costs, bytes);
  weir_request one = {
      .key = request->key,
      .key_length = request->key_length,
      .cost = options->reals[0],
      .costs = request->costs != NULL ? lists : NULL,
      .flags = WEIR_REQUEST_SETTLE,
      .decision = {.allowed = true,
                   .remaining = WEIR_NOT_KNOWN,
                   .reset_after_us = WEIR_NOT_KNOWN,
                   .cost = request->costs != NULL ? WEIR_OWN_COSTS : request->cost,
                   .at_us = taken_at(options)},
  };
  weir_status status = decide_one(options, limiter, &one, message);
  *decision = one.decision;
  return status;
}

static weir_status ask_reset(const weir_cli_options *options, const weir_cli_request *request,
                             weir_limiter *limiter, weir_decision *decision,
                             weir_message *message) {
  (void)options;
  (void)decision;
  return weir_limiter_reset(limiter, request->key, request->key_length, message);
}

static int run_change(const weir_cli_options *options, ask_function *ask, const char *done) {
  weir_cli_request request = {.peek = false};
  weir_decision decision;
  int exit_status = run(options, ask, WEIR_EXIT_UNKNOWN, &request, &decision);
  if (exit_status != 0 || options->quiet) return exit_status;
  if (!options->json)
    printf("%s\n", done);
  else if (!weir_cli_done_json(stdout, &request, done))
    return weir_cli_fail_memory();
  return weir_cli_flush();
}

int weir_cli_refund(const weir_cli_options *options) {
  if (options->cost_count == 1) return run_change(options, ask_refund, "refunded");
  weir_cli_error("refund: --cost names %d costs; one is accepted", options->cost_count);
  return WEIR_EXIT_USAGE;
}

int weir_cli_settle(const weir_cli_options *options) {
  int64_t lists[2 * WEIR_CLI_COSTS_MOST];
  weir_cli_request request = {.lists = lists};
  weir_decision decision = {0};
  if (options->real_count != options->cost_count) {
    weir_cli_error(options->real_count == 0
                       ? "settle: --real N is needed: what it cost in truth, 0 to 2147483648"
                       : "settle: --real names %d numbers and --cost %d: as many are accepted",
                   options->real_count, options->cost_count);
    return WEIR_EXIT_USAGE;
  }
  int exit_status = run(options, ask_settle, WEIR_EXIT_UNKNOWN, &request, &decision);
  if (exit_status != 0 || options->quiet) return exit_status;
  const weir_cli_settled settled = {
      .reals = options->reals,
      .charged = options->cost_count > 1 ? lists + options->cost_count : &decision.cost,
      .count = options->cost_count,
      .decision = &decision};
  if (!options->json)
    weir_cli_settled_text(stdout, &settled);
  else if (!weir_cli_settled_json(stdout, &request, &settled))
    return weir_cli_fail_memory();
  return weir_cli_flush();
}

int weir_cli_reset(const weir_cli_options *options) {
  return run_change(options, ask_reset, "reset");
}
