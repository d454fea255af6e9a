/* From a request to what it asks. */
#include "protocol/http/call.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/http/internal.h"

void weir_http_call_free(weir_http_call *call) {
  json_decref(call->body);
  free(call->envoy);
  weir_bytes_free(&call->text);
}

bool weir_http_is_token(weir_http_text shown, const weir_config_credential *tokens, size_t count) {
  static const char scheme[] = "Bearer ";
  bool found = count == 0;
  if (shown.length >= sizeof scheme &&
      weir_http_is((weir_http_text){shown.bytes, sizeof scheme - 1}, scheme)) {
    shown.bytes += sizeof scheme - 1;
    shown.length -= sizeof scheme - 1;
  } else {
    shown.length = 0;
  }
  for (size_t i = 0; i < count; i++)
    found |=
        weir_secret_equals(tokens[i].secret, tokens[i].secret_length, shown.bytes, shown.length);
  return found;
}

/* --- checks -------------------------------------------------------------------------------------
 */

static int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/* Percent-decodes; in a query "+" is a blank. False: a percent sign without two digits. */
static bool decode(weir_http_text text, weir_bytes *out) {
  for (size_t i = 0; i < text.length; i++) {
    char c = text.bytes[i] == '+' ? ' ' : text.bytes[i];
    if (c == '%') {
      if (i + 2 >= text.length) return false;
      int high = hex_value(text.bytes[i + 1]);
      int low = hex_value(text.bytes[i + 2]);
      if (high < 0 || low < 0) return false;
      c = (char)(high * 16 + low);
      i += 2;
    }
    weir_bytes_add(out, &c, 1);
  }
  return true;
}

/* The value of an argument of the query, as sent. How often it is there. */
static size_t find_argument(weir_http_text query, const char *name, weir_http_text *value) {
  size_t count = 0;
  size_t name_length = strlen(name);
  for (size_t i = 0; i < query.length;) {
    const char *part = query.bytes + i;
    const char *end = memchr(part, '&', query.length - i);
    size_t length = end != NULL ? (size_t)(end - part) : query.length - i;
    if (length > name_length && part[name_length] == '=' && memcmp(part, name, name_length) == 0) {
      *value = (weir_http_text){part + name_length + 1, length - name_length - 1};
      count++;
    }
    i += length + 1;
  }
  return count;
}

/* What "cost" was found to be. */
static bool check_cost(int64_t cost, weir_http_refusal *refusal) {
  if (cost >= 1 && cost <= WEIR_ASK_COST_MOST) return true;
  return weir_http_decline(refusal, 400, "cost: 1 to 2147483648 is accepted");
}

static bool read_check(const weir_http_request *request, weir_http_call *call,
                       weir_http_refusal *refusal) {
  static const char prefix[] = "/check/";
  weir_http_text cost;
  weir_ask *ask = &call->ask;
  ask->form = WEIR_HTTP_CHECK;
  ask->limiter = request->path.bytes + sizeof prefix - 1;
  ask->limiter_length = request->path.length - (sizeof prefix - 1);
  size_t costs = find_argument(request->query, "cost", &cost);
  if (costs > 1) return weir_http_decline(refusal, 400, "cost: one is accepted");
  if (costs == 0) return true;
  if (!weir_ask_number(cost.bytes, cost.length, &ask->cost)) ask->cost = 0;
  return check_cost(ask->cost, refusal);
}

/* Several fields are one list. */
static bool join_forwarded(const weir_http_request *request, char *joined, size_t size) {
  size_t length = 0;
  weir_http_text value;
  joined[0] = '\0';
  for (size_t position = 0; weir_http_next_field(request, "X-Forwarded-For", &position, &value);) {
    if (value.length + 2 > size - length) return false;
    if (length > 0) joined[length++] = ',';
    memcpy(joined + length, value.bytes, value.length);
    length += value.length;
    joined[length] = '\0';
  }
  return true;
}

static bool read_client(const weir_http_request *request, const weir_config_listener *listener,
                        const char *peer, weir_http_call *call, weir_http_refusal *refusal) {
  char forwarded[WEIR_HTTP_TEXT_MOST];
  char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  if (!join_forwarded(request, forwarded, sizeof forwarded))
    return weir_http_decline(refusal, 431, "X-Forwarded-For is too long");
  weir_status status = weir_http_client_key(listener->trusted, peer, forwarded, listener->ipv4_bits,
                                            listener->ipv6_bits, key, &refusal->why);
  if (status != WEIR_OK) {
    refusal->status = 400;
    return false;
  }
  weir_bytes_text(&call->text, key);
  return true;
}

bool weir_http_read_key(const weir_http_request *request, const weir_config_listener *listener,
                        const weir_config_key *where, const char *peer, weir_http_call *call,
                        weir_http_refusal *refusal) {
  weir_http_text value = {"", 0};
  weir_http_text second;
  size_t position = 0;
  switch (where->kind) {
    case WEIR_CONFIG_KEY_CLIENT:
      if (!read_client(request, listener, peer, call, refusal)) return false;
      break;
    case WEIR_CONFIG_KEY_HEADER:
      if (!weir_http_next_field(request, where->name, &position, &value) || value.length == 0)
        return weir_http_decline(refusal, 400, "the request has no key: send the header %s",
                                 where->name);
      if (weir_http_next_field(request, where->name, &position, &second))
        return weir_http_decline(refusal, 400, "the header %s is there twice: once is accepted",
                                 where->name);
      weir_bytes_add(&call->text, value.bytes, value.length);
      break;
    case WEIR_CONFIG_KEY_QUERY:
      if (find_argument(request->query, where->name, &value) != 1 || value.length == 0)
        return weir_http_decline(refusal, 400, "the request has no key: send one argument %s=KEY",
                                 where->name);
      if (!decode(value, &call->text))
        return weir_http_decline(refusal, 400, "%s: a percent sign needs two hexadecimal digits",
                                 where->name);
      break;
  }
  if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  call->ask.key = call->text.data;
  call->ask.key_length = call->text.length;
  return true;
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

static bool read_decision(const weir_http_request *request, weir_ask_verb verb,
                          weir_http_call *call, weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const weir_http_member members[] = {
      {.name = "limiter", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "key", .text = &ask->key, .length = &ask->key_length, .needed = true},
      {.name = "cost", .number = &ask->cost},
      {.name = "up_to", .flag = &ask->up_to},
  };
  size_t count = verb == WEIR_ASK_RESET ? 2 : 4;
  ask->verb = verb;
  ask->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, count, call, refusal)) return false;
  return !json_is_integer(json_object_get(call->body, "cost")) || check_cost(ask->cost, refusal);
}

/* The figures of CL.THROTTLE, with throttlecrab's meaning: its burst is max_burst, and what it does not
 * know it does not look at. */
static bool read_throttle(const weir_http_request *request, weir_http_call *call,
                          weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  int64_t quantity = 1;
  const json_t *ignored = NULL;
  const weir_http_member members[] = {
      {.name = "key", .text = &ask->key, .length = &ask->key_length, .needed = true},
      {.name = "max_burst", .number = &ask->burst, .needed = true},
      {.name = "count_per_period", .number = &ask->count, .needed = true},
      {.name = "period", .number = &ask->period_s, .needed = true},
      {.name = "quantity", .number = &quantity},
      {.name = "", .any = &ignored, .is_any_other = true},
  };
  ask->form = WEIR_HTTP_THROTTLE;
  ask->brings_rule = true;
  if (!weir_http_read_body(request, members, sizeof members / sizeof *members, call, refusal))
    return false;
  if (ask->burst < 1 || ask->count < 1 || ask->period_s < 1)
    return weir_http_decline(refusal, 400,
                             "max_burst, count_per_period and period: 1 or more is accepted");
  if (quantity < 0 || quantity > WEIR_ASK_COST_MOST)
    return weir_http_decline(refusal, 400, "quantity: 0 to 2147483648 is accepted");
  ask->verb = quantity == 0 ? WEIR_ASK_PEEK : WEIR_ASK_TAKE;
  ask->cost = quantity;
  return true;
}

/* --- all ----------------------------------------------------------------------------------------
 */

static bool begins(weir_http_text text, const char *prefix) {
  size_t length = strlen(prefix);
  return text.length > length && memcmp(text.bytes, prefix, length) == 0;
}

static bool is_same(weir_http_text text, const char *word) {
  return text.length == strlen(word) && memcmp(text.bytes, word, text.length) == 0;
}

static bool read_take(const weir_http_request *request, weir_http_call *call,
                      weir_http_refusal *refusal) {
  return read_decision(request, WEIR_ASK_TAKE, call, refusal);
}

static bool read_peek(const weir_http_request *request, weir_http_call *call,
                      weir_http_refusal *refusal) {
  return read_decision(request, WEIR_ASK_PEEK, call, refusal);
}

static bool read_reset(const weir_http_request *request, weir_http_call *call,
                       weir_http_refusal *refusal) {
  return read_decision(request, WEIR_ASK_RESET, call, refusal);
}

bool weir_http_is_check(const weir_http_request *request) {
  return begins(request->path, "/check/");
}

bool weir_http_read_call(const weir_http_request *request, weir_http_call *call,
                         weir_http_refusal *refusal) {
  static const struct {
    const char *path;
    bool (*read)(const weir_http_request *, weir_http_call *, weir_http_refusal *);
  } posts[] = {{"/take", read_take},
               {"/peek", read_peek},
               {"/reset", read_reset},
               {"/throttle", read_throttle},
               {"/json", weir_http_read_envoy}};
  if (weir_http_is_check(request)) return read_check(request, call, refusal);
  for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
    if (!is_same(request->path, posts[i].path)) continue;
    if (!is_same(request->method, "POST"))
      return weir_http_decline(refusal, 405, "POST is accepted here");
    return weir_http_is_json(request, refusal) && posts[i].read(request, call, refusal);
  }
  return weir_http_decline(
      refusal, 404,
      "there is /check/LIMITER, and for POST /take, /peek, /reset, /throttle and /json");
}
