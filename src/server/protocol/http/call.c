/* Who sends a request, and what it asks.
 *
 * A browser may be talked into sending a request that its user does not mean. It adds Origin,
 * Sec-Fetch-Site and Host, which no page can change: by them a page of another origin is told from a
 * program that means this server. What is asked stands in the path of a check, or in a body of JSON. */
#include "protocol/http/call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

enum { ADDRESS_TEXT_BYTES = 64 };

void weir_http_call_free(weir_http_call *call) {
  json_decref(call->body);
  free(call->envoy);
  weir_bytes_free(&call->text);
}

/* --- who sends it -------------------------------------------------------------------------------
 */

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

static bool is_same(weir_http_text a, weir_http_text b) {
  return a.length == b.length && strncasecmp(a.bytes, b.bytes, a.length) == 0;
}

/* Whether the host that a request names is one of this server's: loopback, one of its hosts, or the
 * address where it listens. A server that listens at all of its host's addresses has each of them: no
 * name is turned to another address there, as a name could be. */
static bool is_host(weir_http_text host, const weir_config_listener *listener,
                    const struct sockaddr_storage *own) {
  const struct sockaddr_in *own_v4 = (const void *)own;
  const struct sockaddr_in6 *own_v6 = (const void *)own;
  if (own->ss_family != AF_INET && own->ss_family != AF_INET6)
    return true; /* no browser gets there */

  /* Without its port, and an address of IPv6 without its brackets. */
  bool is_v6 = host.length > 0 && host.bytes[0] == '[';
  const char *end = memchr(host.bytes, is_v6 ? ']' : ':', host.length);
  weir_http_text name = host;
  if (end != NULL) name.length = (size_t)(end - host.bytes);
  if (is_v6) name = (weir_http_text){name.bytes + 1, name.length - 1};
  if (weir_http_is(name, "localhost")) return true;
  for (size_t i = 0; i < listener->host_count; i++)
    if (weir_http_is(name, listener->hosts[i])) return true;

  char text[ADDRESS_TEXT_BYTES];
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (name.length >= sizeof text) return false;
  memcpy(text, name.bytes, name.length);
  text[name.length] = '\0';
  bool reads_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
  bool reads_v6 = !reads_v4 && inet_pton(AF_INET6, text, &v6.sin6_addr) == 1;
  if (!reads_v4 && !reads_v6) return false;
  const void *asked = reads_v4 ? (const void *)&v4 : &v6;
  if (weir_config_is_local(asked)) return true;
  if (own->ss_family == AF_INET)
    return own_v4->sin_addr.s_addr == htonl(INADDR_ANY) ||
           (reads_v4 && v4.sin_addr.s_addr == own_v4->sin_addr.s_addr);
  return IN6_IS_ADDR_UNSPECIFIED(&own_v6->sin6_addr) ||
         (reads_v6 && memcmp(&v6.sin6_addr, &own_v6->sin6_addr, sizeof v6.sin6_addr) == 0);
}

/* That of a page which this server has sent: behind a proxy it may have come by https. */
static bool is_own(weir_http_text origin, weir_http_text host) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < 2; i++) {
    size_t length = strlen(schemes[i]);
    if (origin.length <= length || strncasecmp(origin.bytes, schemes[i], length) != 0) continue;
    return is_same((weir_http_text){origin.bytes + length, origin.length - length}, host);
  }
  return false;
}

bool weir_http_is_from_here(const weir_http_request *request, const weir_config_listener *listener,
                            const struct sockaddr_storage *own, bool may_be_opened,
                            weir_http_refusal *refusal) {
  weir_http_text host = request->host, value, mode = {"", 0}, to = {"", 0};
  bool is_in_target = host.length > 0; /* Host says nothing then */
  for (size_t position = 0;
       is_in_target || weir_http_next_field(request, "Host", &position, &host);) {
    if (!is_host(host, listener, own))
      return weir_http_decline(refusal, 403, "Host \"%.*s\" is not known here: see hosts",
                               host.length < 64 ? (int)host.length : 64, host.bytes);
    if (is_in_target) break;
  }
  for (size_t position = 0; weir_http_next_field(request, "Origin", &position, &value);)
    if (!is_own(value, host))
      return weir_http_decline(refusal, 403, "a page of another origin has sent this");
  /* A person has followed a link, or typed the address, and will see what comes: no page reads it. */
  size_t first = 0, second = 0;
  weir_http_next_field(request, "Sec-Fetch-Mode", &first, &mode);
  weir_http_next_field(request, "Sec-Fetch-Dest", &second, &to);
  bool is_opened = may_be_opened && weir_http_is(request->method, "GET") &&
                   weir_http_is(mode, "navigate") && weir_http_is(to, "document");
  for (size_t position = 0; weir_http_next_field(request, "Sec-Fetch-Site", &position, &value);)
    if (!weir_http_is(value, "same-origin") && !weir_http_is(value, "none") && !is_opened)
      return weir_http_decline(refusal, 403, "a page of another site has sent this");
  return true;
}

/* No page may send this type to another origin before that has agreed, which nothing here does. */
bool weir_http_is_json(const weir_http_request *request, weir_http_refusal *refusal) {
  static const weir_http_text prefix = {"application/", 12}, suffix = {"+json", 5};
  weir_http_text type = {"", 0}, second;
  size_t position = 0;
  weir_http_next_field(request, "Content-Type", &position, &type);
  bool is_one = !weir_http_next_field(request, "Content-Type", &position, &second);
  const char *end = memchr(type.bytes, ';', type.length);
  if (end != NULL) type.length = (size_t)(end - type.bytes);
  while (type.length > 0 &&
         (type.bytes[type.length - 1] == ' ' || type.bytes[type.length - 1] == '\t'))
    type.length--;
  bool named =
      type.length > prefix.length + suffix.length &&
      is_same((weir_http_text){type.bytes, prefix.length}, prefix) &&
      is_same((weir_http_text){type.bytes + type.length - suffix.length, suffix.length}, suffix);
  if (is_one && (named || weir_http_is(type, "application/json"))) return true;
  return weir_http_decline(refusal, 415, "Content-Type: application/json is accepted");
}

/* --- checks -------------------------------------------------------------------------------------
 */

/* Percent-decodes; in a query "+" is a blank. False: a percent sign without two digits. */
static bool decode(weir_http_text text, weir_bytes *out) {
  for (size_t i = 0; i < text.length; i++) {
    char c = text.bytes[i] == '+' ? ' ' : text.bytes[i];
    if (c == '%') {
      if (i + 2 >= text.length) return false;
      int high = weir_http_hex_value(text.bytes[i + 1]);
      int low = weir_http_hex_value(text.bytes[i + 2]);
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
static bool take_cost(weir_http_call *call, weir_http_refusal *refusal) {
  refusal->status = 400;
  weir_ask_set_cost(&call->ask, &call->cost);
  return weir_ask_check_amount(&call->cost, "cost", 1, &refusal->why);
}

/* /check/LIMITER?cost=2, and the cost of a place. */
static bool read_cost(const weir_http_request *request, weir_http_call *call,
                      weir_http_refusal *refusal) {
  weir_http_text cost;
  size_t costs = find_argument(request->query, "cost", &cost);
  if (costs > 1) return weir_http_decline(refusal, 400, "cost: one is accepted");
  if (costs == 0) return true;
  if (!weir_ask_read_amount(cost.bytes, cost.length, &call->cost))
    return weir_http_decline(refusal, 400, "cost: 1 to 2147483648 is accepted");
  return take_cost(call, refusal);
}

/* /acquire/LIMITER?for=30s&cost=2 */
static bool read_acquire_path(const weir_http_request *request, weir_http_call *call,
                              weir_http_refusal *refusal) {
  weir_http_text value;
  size_t times = find_argument(request->query, "for", &value);
  if (times > 1) return weir_http_decline(refusal, 400, "for: one is accepted");
  refusal->status = 400;
  if (times == 1 && !weir_ask_read_time(&call->ask, value.bytes, value.length, &refusal->why))
    return false;
  return read_cost(request, call, refusal);
}

/* /release/LIMITER?place=TEXT */
static bool read_release_path(const weir_http_request *request, weir_http_call *call,
                              weir_http_refusal *refusal) {
  weir_http_text value;
  if (find_argument(request->query, "place", &value) != 1)
    return weir_http_decline(refusal, 400, "place: one argument place=TEXT is needed");
  refusal->status = 400;
  return weir_ask_read_place(&call->ask, value.bytes, value.length, &refusal->why);
}

/* What was taken and what it cost have been read: both there, or the refusal says so. */
static bool take_settlement(weir_http_call *call, const char *taken_name,
                            weir_http_refusal *refusal) {
  refusal->status = 400;
  return weir_ask_check_amount(&call->taken, taken_name, 1, &refusal->why) &&
         weir_ask_check_amount(&call->cost, "real", 0, &refusal->why) &&
         weir_ask_set_settlement(&call->ask, &call->taken, &call->cost, &refusal->why);
}

/* /settle/LIMITER?estimate=480&real=300&stamp=TEXT */
static bool read_settle_path(const weir_http_request *request, weir_http_call *call,
                             weir_http_refusal *refusal) {
  static const char *const names[] = {"estimate", "real"};
  weir_ask_amount *amounts[] = {&call->taken, &call->cost};
  weir_http_text value;
  for (size_t i = 0; i < 2; i++) {
    if (find_argument(request->query, names[i], &value) != 1)
      return weir_http_decline(refusal, 400, "%s: one argument %s=N is needed", names[i], names[i]);
    if (!weir_ask_read_amount(value.bytes, value.length, amounts[i]))
      *amounts[i] = (weir_ask_amount){1, {-1}};
  }
  if (!take_settlement(call, "estimate", refusal)) return false;
  size_t stamps = find_argument(request->query, "stamp", &value);
  if (stamps > 1) return weir_http_decline(refusal, 400, "stamp: one is accepted");
  return stamps == 0 || weir_ask_read_stamp(&call->ask, value.bytes, value.length, &refusal->why);
}

/* The key of the client that asks, found behind the proxies that the listener trusts. */
static bool read_client(const weir_http_request *request, const weir_config_listener *listener,
                        const char *peer, weir_http_call *call, weir_http_refusal *refusal) {
  char forwarded[WEIR_HTTP_TEXT_MOST] = ""; /* several fields are one list */
  char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  size_t length = 0;
  weir_http_text value;
  for (size_t position = 0; weir_http_next_field(request, "X-Forwarded-For", &position, &value);) {
    if (value.length + 2 > sizeof forwarded - length)
      return weir_http_decline(refusal, 431, "X-Forwarded-For is too long");
    if (length > 0) forwarded[length++] = ',';
    memcpy(forwarded + length, value.bytes, value.length);
    length += value.length;
    forwarded[length] = '\0';
  }
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
  size_t begin = call->text.length;
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
  call->ask.key = call->text.data + begin;
  call->ask.key_length = call->text.length - begin;
  return true;
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

/* One key of a limiter, or several of a group. */
static bool has_keys(const weir_ask *ask, weir_http_refusal *refusal) {
  if (ask->key == NULL && ask->key_count == 0)
    return weir_http_decline(refusal, 400, "\"key\" is missing");
  if (ask->key != NULL && ask->key_count > 0)
    return weir_http_decline(refusal, 400, "key, or of a group keys: one of them is accepted");
  return ask->key_count > 0 || ask->key_length > 0 ||
         weir_http_decline(refusal, 400, "key: a string that is not empty is accepted");
}

/* /take, /peek and /reset: the verb is known. */
static bool read_decision(const weir_http_request *request, weir_http_call *call,
                          weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const weir_http_member members[] = {
      {.name = "limiter", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "key", .text = &ask->key, .length = &ask->key_length},
      {.name = "keys", .texts = call->keys, .length = &ask->key_count},
      {.name = "cost", .amount = &call->cost},
      {.name = "up_to", .flag = &ask->up_to},
  };
  size_t count = ask->verb == WEIR_ASK_RESET ? 2 : 5;
  ask->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, count, call, refusal) || !has_keys(ask, refusal))
    return false;
  if (ask->key_count > 0) ask->keys = call->keys;
  if (call->cost.count > 0 && !take_cost(call, refusal)) return false;
  if (!ask->up_to || ask->costs == NULL) return true;
  return weir_http_decline(refusal, 400, "up_to: one cost for every rule is accepted");
}

/* /acquire */
static bool read_acquire(const weir_http_request *request, weir_http_call *call,
                         weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const char *time = NULL;
  size_t time_length = 0;
  const weir_http_member members[] = {
      {.name = "limiter", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "key", .text = &ask->key, .length = &ask->key_length, .needed = true},
      {.name = "cost", .amount = &call->cost},
      {.name = "for", .text = &time, .length = &time_length},
  };
  ask->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, sizeof members / sizeof *members, call, refusal))
    return false;
  refusal->status = 400;
  if (time != NULL && !weir_ask_read_time(ask, time, time_length, &refusal->why)) return false;
  return call->cost.count == 0 || take_cost(call, refusal);
}

/* /release and /held */
static bool read_place(const weir_http_request *request, weir_http_call *call,
                       weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const char *place = NULL;
  size_t place_length = 0;
  const weir_http_member members[] = {
      {.name = "limiter", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "key", .text = &ask->key, .length = &ask->key_length, .needed = true},
      {.name = "place", .text = &place, .length = &place_length, .needed = true},
  };
  ask->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, sizeof members / sizeof *members, call, refusal))
    return false;
  refusal->status = 400;
  return weir_ask_read_place(ask, place, place_length, &refusal->why);
}

/* /settle and /refund, which is to settle nothing in place of its cost. */
static bool read_settlement(const weir_http_request *request, weir_http_call *call,
                            weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const char *stamp = NULL;
  size_t stamp_length = 0;
  bool gives_back = weir_http_is_path(request, "/refund");
  const char *taken_name = gives_back ? "cost" : "estimate";
  weir_http_member members[] = {
      {.name = "limiter", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "key", .text = &ask->key, .length = &ask->key_length, .needed = true},
      {.name = taken_name, .amount = &call->taken, .needed = true},
      {.name = "stamp", .text = &stamp, .length = &stamp_length},
      {.name = "real", .amount = &call->cost, .needed = true},
  };
  size_t count = sizeof members / sizeof *members - gives_back;
  ask->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, count, call, refusal)) return false;
  if (gives_back) call->cost.count = call->taken.count;
  if (!take_settlement(call, taken_name, refusal)) return false;
  return stamp == NULL || weir_ask_read_stamp(ask, stamp, stamp_length, &refusal->why);
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

typedef bool read_request(const weir_http_request *, weir_http_call *, weir_http_refusal *);

/* PREFIX and the limiter's name. */
typedef struct check_path {
  const char *prefix;
  read_request *read;
  weir_ask_verb verb;
} check_path;

/* NULL: it is another path. */
static const check_path *find_check(const weir_http_request *request) {
  static const check_path paths[] = {{"/check/", read_cost, WEIR_ASK_TAKE},
                                     {"/settle/", read_settle_path, WEIR_ASK_SETTLE},
                                     {"/acquire/", read_acquire_path, WEIR_ASK_ACQUIRE},
                                     {"/release/", read_release_path, WEIR_ASK_RELEASE}};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    size_t length = strlen(paths[i].prefix);
    if (request->path.length > length && memcmp(request->path.bytes, paths[i].prefix, length) == 0)
      return &paths[i];
  }
  return NULL;
}

bool weir_http_is_check(const weir_http_request *request) {
  return find_check(request) != NULL;
}

bool weir_http_read_call(const weir_http_request *request, weir_http_call *call,
                         weir_http_refusal *refusal) {
  static const struct {
    const char *path;
    read_request *read;
    weir_ask_verb verb;
  } posts[] = {{"/take", read_decision, WEIR_ASK_TAKE},
               {"/peek", read_decision, WEIR_ASK_PEEK},
               {"/reset", read_decision, WEIR_ASK_RESET},
               {"/settle", read_settlement, WEIR_ASK_SETTLE},
               {"/refund", read_settlement, WEIR_ASK_SETTLE},
               {"/throttle", read_throttle, WEIR_ASK_TAKE},
               {"/acquire", read_acquire, WEIR_ASK_ACQUIRE},
               {"/release", read_place, WEIR_ASK_RELEASE},
               {"/held", read_place, WEIR_ASK_HELD},
               {"/json", weir_http_read_envoy, WEIR_ASK_TAKE}};
  const check_path *path = find_check(request);
  if (path != NULL) {
    weir_ask *ask = &call->ask;
    ask->verb = path->verb;
    ask->form = WEIR_HTTP_CHECK;
    ask->limiter = request->path.bytes + strlen(path->prefix);
    ask->limiter_length = request->path.length - strlen(path->prefix);
    return path->read(request, call, refusal);
  }
  for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
    if (!weir_http_is_path(request, posts[i].path)) continue;
    if (request->method.length != 4 || memcmp(request->method.bytes, "POST", 4) != 0)
      return weir_http_decline(refusal, 405, "POST is accepted here");
    call->ask.verb = posts[i].verb;
    return weir_http_is_json(request, refusal) && posts[i].read(request, call, refusal);
  }
  return weir_http_decline(
      refusal, 404,
      "there are /check/LIMITER, /settle/, /acquire/ and /release/ alike, and for POST /take, "
      "/peek, /reset, /settle, /refund, /acquire, /release, /held, /throttle and /json");
}
