/* Commands that ask for a decision, and how their answers are worded. */
#include <stdio.h>

#include "protocol/resp/internal.h"

/* --- what is asked ---------------------------------------------------------------------------- */

static bool take_key(const weir_resp_call *call, const weir_resp_argument *key) {
  if (key->length == 0 || key->length > call->server->key_most) {
    weir_bytes_format(call->out, "-ERR the key has %zu bytes: 1 to %zu are accepted\r\n",
                      key->length, call->server->key_most);
    return false;
  }
  call->ask->key = key->bytes;
  call->ask->key_length = key->length;
  return true;
}

static weir_resp_outcome ask_limiter(const weir_resp_call *call, weir_ask_verb verb) {
  const weir_resp_argument *arguments = call->arguments;
  *call->ask = (weir_ask){.verb = verb,
                          .form = WEIR_RESP_FIELDS,
                          .limiter = arguments[1].bytes,
                          .limiter_length = arguments[1].length};
  if (!take_key(call, &arguments[2])) return WEIR_RESP_ANSWERED;
  for (size_t i = 3; i < call->count; i++) {
    if (weir_resp_is(&arguments[i], "UPTO")) {
      call->ask->up_to = true;
    } else if (weir_resp_is(&arguments[i], "COST") && i + 1 < call->count) {
      const weir_resp_argument *cost = &arguments[++i];
      bool read = weir_number_read(cost->bytes, cost->length, &call->ask->cost);
      if (!read || call->ask->cost < 1 || call->ask->cost > WEIR_ASK_COST_MOST)
        return weir_resp_refuse(call, "COST: 1 to 2147483648 is accepted");
    } else {
      return weir_resp_refuse(call, "COST N and UPTO are accepted behind the key");
    }
  }
  return WEIR_RESP_ASKS;
}

weir_resp_outcome weir_resp_run_take(const weir_resp_call *call) {
  return ask_limiter(call, WEIR_ASK_TAKE);
}

weir_resp_outcome weir_resp_run_peek(const weir_resp_call *call) {
  return ask_limiter(call, WEIR_ASK_PEEK);
}

weir_resp_outcome weir_resp_run_reset(const weir_resp_call *call) {
  return ask_limiter(call, WEIR_ASK_RESET);
}

/* COMMAND key max_burst count period [quantity]. `spare`: how much more than max_burst a full
 * bucket holds. A quantity of 0 looks and takes nothing. */
static weir_resp_outcome ask_with_rule(const weir_resp_call *call, unsigned form, int64_t spare) {
  int64_t figures[4] = {0, 0, 0, 1};
  weir_ask *ask = call->ask;
  *ask = (weir_ask){.form = form, .brings_rule = true};
  if (!take_key(call, &call->arguments[1])) return WEIR_RESP_ANSWERED;
  for (size_t i = 2; i < call->count; i++) {
    const weir_resp_argument *figure = &call->arguments[i];
    if (!weir_number_read(figure->bytes, figure->length, &figures[i - 2]))
      return weir_resp_refuse(call, "value is not an integer or out of range");
  }
  ask->burst = figures[0] + spare;
  ask->count = figures[1];
  ask->period_s = figures[2];
  int64_t quantity = figures[3];
  if (figures[0] < 0) return weir_resp_refuse(call, "max_burst: 0 or more is accepted");
  if (ask->count == 0 || ask->period_s == 0)
    return weir_resp_refuse(call, "Zero rates are not supported");
  if (ask->count < 0 || ask->period_s < 0)
    return weir_resp_refuse(call, "count and period: 1 or more is accepted");
  if (quantity < 0 || quantity > WEIR_ASK_COST_MOST)
    return weir_resp_refuse(call, "quantity: 0 to 2147483648 is accepted; nothing is given back");
  ask->verb = quantity == 0 ? WEIR_ASK_PEEK : WEIR_ASK_TAKE;
  ask->cost = quantity;
  return WEIR_RESP_ASKS;
}

weir_resp_outcome weir_resp_run_cl_throttle(const weir_resp_call *call) {
  if (!call->server->throttle)
    return weir_resp_refuse(call, "CL.THROTTLE is off: throttle.enabled");
  return ask_with_rule(call, WEIR_RESP_CL_THROTTLE, 1);
}

weir_resp_outcome weir_resp_run_throttle(const weir_resp_call *call) {
  if (!call->server->throttlecrab) return weir_resp_refuse_unknown(call);
  return ask_with_rule(call, WEIR_RESP_THROTTLE, 0);
}

/* --- what is answered ------------------------------------------------------------------------- */

static void write_integer(weir_bytes *out, int64_t number) {
  weir_bytes_text(out, ":");
  weir_bytes_number(out, number);
  weir_bytes_text(out, "\r\n");
}

static void write_five(weir_bytes *out, const int64_t figures[5]) {
  weir_bytes_text(out, "*5\r\n");
  for (size_t i = 0; i < 5; i++)
    write_integer(out, figures[i]);
}

/* limited, limit, remaining, retry_after (-1 when allowed), reset_after. As redis-cell has it, these
 * are rounded up from whole milliseconds: 3 at 3 per 2 s are 2 s, not a microsecond more. Only who
 * waits for the whole bucket waits as long as it takes to be full. */
static void write_cl_throttle(weir_bytes *out, bool looked, const weir_decision *decision) {
  bool allowed = decision->allowed || looked;
  int64_t reset_us = decision->reset_after_us;
  int64_t reset = weir_seconds_up(reset_us < 0 ? reset_us : reset_us / 1000 * 1000);
  int64_t retry = weir_seconds_up(decision->retry_after_us);
  if (retry > reset && reset > 0) retry = reset;
  write_five(out, (const int64_t[5]){!allowed, decision->limit, decision->remaining,
                                     allowed ? -1 : retry, reset});
}

/* allowed, limit, remaining, reset_after, retry_after (0 when allowed) */
static void write_throttle(weir_bytes *out, bool looked, const weir_decision *decision) {
  bool allowed = decision->allowed || looked;
  write_five(out, (const int64_t[5]){allowed, decision->limit, decision->remaining,
                                     weir_seconds_up(decision->reset_after_us),
                                     allowed ? 0 : weir_seconds_up(decision->retry_after_us)});
}

static void write_fields(weir_bytes *out, const weir_decision *decision) {
  const struct {
    const char *name;
    int64_t value;
  } fields[] = {{"allowed", decision->allowed},
                {"limit", decision->limit},
                {"remaining", decision->remaining},
                {"retry_after_us", decision->retry_after_us},
                {"reset_after_us", decision->reset_after_us},
                {"delay_us", decision->delay_us},
                {"cost", decision->cost}};
  weir_bytes_text(out, "*18\r\n");
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    weir_resp_bulk(out, fields[i].name, strlen(fields[i].name));
    write_integer(out, fields[i].value);
  }
  const char *source = weir_source_name(decision->source);
  weir_bytes_text(out, "$6\r\nsource\r\n");
  weir_resp_bulk(out, source, strlen(source));
  weir_bytes_text(out, "$4\r\nrule\r\n");
  write_integer(out, decision->rule);
}

void weir_resp_answer(const weir_ask *ask, const weir_reply *reply, weir_bytes *out) {
  bool looked = ask->brings_rule && ask->cost == 0;
  if (reply->status != WEIR_OK) {
    weir_message text;
    snprintf(text.text, sizeof text.text, "%s %s", weir_status_name(reply->status), reply->why);
    weir_resp_error(out, text.text);
  } else if (ask->verb == WEIR_ASK_RESET) {
    weir_bytes_text(out, "+OK\r\n");
  } else if (ask->form == WEIR_RESP_CL_THROTTLE) {
    write_cl_throttle(out, looked, reply->decision);
  } else if (ask->form == WEIR_RESP_THROTTLE) {
    write_throttle(out, looked, reply->decision);
  } else {
    write_fields(out, reply->decision);
  }
}
