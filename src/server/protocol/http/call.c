/* Finds who sends a request, and what it asks.
 *
 * A browser may be talked into sending a request that its user does not mean. It adds Origin,
 * Sec-Fetch-Site and Host, which no page can change: by them a page of another origin is told from
 * a program that means this server. The question stands in the path of a check, or in a body of
 * JSON. */
#include "protocol/http/call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <weir/word.h>

enum { ADDRESS_TEXT_BYTES = 64, PATHS_BYTES = 192 };

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

/* The host without its port, and an address of IPv6 without its brackets. */
static weir_http_text host_name(weir_http_text host) {
  bool is_v6 = host.length > 0 && host.bytes[0] == '[';
  const char *end = memchr(host.bytes, is_v6 ? ']' : ':', host.length);
  weir_http_text name = host;
  if (end != NULL) name.length = (size_t)(end - host.bytes);
  return is_v6 ? (weir_http_text){name.bytes + 1, name.length - 1} : name;
}

/* Whether an address is `own`, or that is all of the host's. */
static bool is_own_address(const char *text, const struct sockaddr_storage *own) {
  const struct sockaddr_in *own_v4 = (const void *)own;
  const struct sockaddr_in6 *own_v6 = (const void *)own;
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  bool reads_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
  bool reads_v6 = !reads_v4 && inet_pton(AF_INET6, text, &v6.sin6_addr) == 1;
  if (!reads_v4 && !reads_v6) return false;
  if (weir_config_is_local(reads_v4 ? (const void *)&v4 : &v6)) return true;
  if (own->ss_family == AF_INET)
    return own_v4->sin_addr.s_addr == htonl(INADDR_ANY) ||
           (reads_v4 && v4.sin_addr.s_addr == own_v4->sin_addr.s_addr);
  return IN6_IS_ADDR_UNSPECIFIED(&own_v6->sin6_addr) ||
         (reads_v6 && memcmp(&v6.sin6_addr, &own_v6->sin6_addr, sizeof v6.sin6_addr) == 0);
}

/* Whether the host that a request names is one of this server's: loopback, one of its hosts, or the
 * address where it listens. A server that listens at all of its host's addresses has each of them: no
 * name is turned to another address there, as a name could be. */
static bool is_host(weir_http_text host, const weir_config_listener *listener,
                    const struct sockaddr_storage *own) {
  if (own->ss_family != AF_INET && own->ss_family != AF_INET6)
    return true; /* no browser gets there */
  weir_http_text name = host_name(host);
  if (weir_http_is(name, "localhost")) return true;
  for (size_t i = 0; i < listener->host_count; i++)
    if (weir_http_is(name, listener->hosts[i])) return true;

  char text[ADDRESS_TEXT_BYTES];
  if (name.length >= sizeof text) return false;
  memcpy(text, name.bytes, name.length);
  text[name.length] = '\0';
  return is_own_address(text, own);
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

/* Percent-decodes; in a query "+" is a `blank`. False: a percent sign without two digits. */
static bool decode(weir_http_text text, char blank, weir_bytes *out) {
  for (size_t i = 0; i < text.length; i++) {
    char c = text.bytes[i] == '+' ? blank : text.bytes[i];
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

/* An argument that is there, and of an amount has been read. */
static bool take_argument(weir_http_call *call, weir_arg arg, const weir_said *said,
                          weir_http_refusal *refusal) {
  refusal->status = 400;
  return weir_args[arg].read(&call->order, &call->room, said, &refusal->why);
}

/* As it is sent in a query. How often it is there. */
static size_t read_argument(const weir_http_request *request, weir_arg arg, weir_http_call *call,
                            weir_said *said) {
  const weir_arg_row *row = &weir_args[arg];
  weir_http_text value = {NULL, 0};
  size_t count = find_argument(request->query, row->query, &value);
  *said = (weir_said){row->query, value.bytes, value.length, false};
  if (count > 0 && weir_arg_is_amount(row))
    weir_arg_read_amount(arg, &call->room, value.bytes, value.length);
  return count;
}

/* A name that was escaped, behind what call->text holds, until it is taken. False: it is wrong. */
static bool decode_name(weir_http_call *call, weir_said *said, weir_http_refusal *refusal) {
  size_t begin = call->text.length;
  if (!decode((weir_http_text){said->text, said->length}, ' ', &call->text))
    return weir_http_decline(refusal, 400, "%s: a percent sign needs two hexadecimal digits",
                             said->name);
  if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  said->text = said->length > 0 ? call->text.data + begin : "";
  said->length = call->text.length - begin;
  return true;
}

/* What a verb accepts and does not need. */
static bool read_options(const weir_http_request *request, const weir_verb_row *verb,
                         weir_http_call *call, weir_http_refusal *refusal) {
  weir_said said;
  for (size_t i = WEIR_ARGS; i-- > WEIR_ARG_KEYS + 1;) {
    if (weir_verb_needs(verb, i) || !weir_verb_accepts(verb, i) || weir_args[i].query == NULL)
      continue;
    size_t count = read_argument(request, (weir_arg)i, call, &said);
    if (count > 1) return weir_http_decline(refusal, 400, "%s: one is accepted", said.name);
    size_t begin = call->text.length;
    bool is_name = count == 1 && weir_args[i].kind == WEIR_ARG_IS_NAME;
    if (is_name && !decode_name(call, &said, refusal)) return false;
    if (count == 1 && !take_argument(call, (weir_arg)i, &said, refusal)) return false;
    call->text.length = begin;
  }
  return true;
}

/* /settle/LIMITER?estimate=480&real=300&stamp=TEXT: all but the key, which stands where the limiter says. */
static bool read_query(const weir_http_request *request, const weir_verb_row *verb,
                       weir_http_call *call, weir_http_refusal *refusal) {
  weir_said said[WEIR_ARGS];
  for (size_t i = WEIR_ARG_KEYS + 1; i < WEIR_ARGS; i++)
    if (weir_verb_needs(verb, i) && read_argument(request, (weir_arg)i, call, &said[i]) != 1)
      return weir_http_decline(refusal, 400, "%s: one argument %s=%s is needed", said[i].name,
                               said[i].name, weir_args[i].sample);
  for (size_t i = WEIR_ARG_KEYS + 1; i < WEIR_ARGS; i++)
    if (weir_verb_needs(verb, i) && !take_argument(call, (weir_arg)i, &said[i], refusal))
      return false;
  return read_options(request, verb, call, refusal);
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

/* Writes what stands there behind call->text; *is_there: something does. */
static bool read_place(const weir_http_request *request, const weir_config_listener *listener,
                       const weir_config_key *where, const char *peer, weir_http_call *call,
                       bool *is_there, weir_http_refusal *refusal) {
  weir_http_text value = {"", 0};
  weir_http_text second;
  size_t position = 0;
  switch (where->kind) {
    case WEIR_CONFIG_KEY_CLIENT:
      *is_there = true;
      if (!read_client(request, listener, peer, call, refusal)) return false;
      break;
    case WEIR_CONFIG_KEY_HEADER:
      *is_there = weir_http_next_field(request, where->name, &position, &value);
      if (*is_there && weir_http_next_field(request, where->name, &position, &second))
        return weir_http_decline(refusal, 400, "the header %s is there twice: once is accepted",
                                 where->name);
      *is_there = *is_there && value.length > 0;
      weir_bytes_add(&call->text, value.bytes, value.length);
      break;
    case WEIR_CONFIG_KEY_QUERY:
      *is_there = find_argument(request->query, where->name, &value) == 1 && value.length > 0;
      if (*is_there && !decode(value, ' ', &call->text))
        return weir_http_decline(refusal, 400, "%s: a percent sign needs two hexadecimal digits",
                                 where->name);
      break;
  }
  if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  return true;
}

bool weir_http_read_key(const weir_http_request *request, const weir_config_listener *listener,
                        const weir_config_key *where, const char *peer, weir_http_call *call,
                        weir_http_refusal *refusal) {
  bool is_there = false;
  size_t begin = call->text.length;
  if (!read_place(request, listener, where, peer, call, &is_there, refusal)) return false;
  if (!is_there)
    return weir_http_decline(refusal, 400,
                             where->kind == WEIR_CONFIG_KEY_HEADER
                                 ? "the request has no key: send the header %s"
                                 : "the request has no key: send one argument %s=KEY",
                             where->name);
  call->order.key = call->text.data + begin;
  call->order.key_length = call->text.length - begin;
  return true;
}

bool weir_http_read_given(const weir_http_request *request, const weir_config_listener *listener,
                          const weir_config_limiter *limiter, const char *peer,
                          weir_http_call *call, weir_http_refusal *refusal) {
  const weir_order_says *said = call->order.says;
  const struct {
    bool is_wanted;
    const weir_config_key *where;
    bool (*read)(weir_order_says *says, const char *text, size_t length, weir_message *why);
  } all[] = {{limiter->has_class && (said == NULL || said->class_length == 0), &limiter->class_of,
              weir_order_read_class},
             {limiter->has_tenant && (said == NULL || said->tenant_length == 0),
              &limiter->tenant_of, weir_order_read_tenant}};
  for (size_t i = 0; i < 2; i++) {
    size_t begin = call->text.length;
    bool is_there = false;
    weir_http_text value;
    if (!all[i].is_wanted) continue;
    if (all[i].where->kind == WEIR_CONFIG_KEY_QUERY &&
        find_argument(request->query, all[i].where->name, &value) > 1)
      return weir_http_decline(refusal, 400, "%s: one is accepted", all[i].where->name);
    if (!read_place(request, listener, all[i].where, peer, call, &is_there, refusal)) return false;
    weir_order_says *says = is_there ? weir_order_say(&call->order, &call->room) : NULL;
    refusal->status = 400;
    if (is_there &&
        !all[i].read(says, call->text.data + begin, call->text.length - begin, &refusal->why))
      return false;
    if (is_there) *(i == 0 ? &says->class_is_given : &says->tenant_is_given) = true;
    call->text.length = begin;
  }
  return true;
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

/* One key of a limiter, or several of a group. */
static bool has_keys(const weir_order *order, weir_http_refusal *refusal) {
  if (order->key == NULL && order->key_count == 0)
    return weir_http_decline(refusal, 400, "\"key\" is missing");
  if (order->key != NULL && order->key_count > 0)
    return weir_http_decline(refusal, 400, "key, or of a group keys: one of them is accepted");
  return order->key_count > 0 || order->key_length > 0 ||
         weir_http_decline(refusal, 400, "key: a string that is not empty is accepted");
}

/* The member that an argument is. */
static weir_http_member describe(const weir_verb_row *verb, weir_arg arg, weir_http_call *call,
                                 weir_said *said) {
  const weir_arg_row *row = &weir_args[arg];
  weir_order *order = &call->order;
  weir_http_member member = {.name = row->json, .needed = weir_verb_needs(verb, arg)};
  *said = (weir_said){.name = row->json};
  if (arg == WEIR_ARG_KEY) {
    member.text = &order->key;
    member.length = &order->key_length;
  } else if (arg == WEIR_ARG_KEYS) {
    member.texts = call->room.keys;
    member.length = &order->key_count;
  } else if (weir_arg_is_amount(row)) {
    member.amount = weir_arg_amount(arg, &call->room);
    member.is_one = row->kind == WEIR_ARG_IS_NUMBER;
  } else if (row->kind == WEIR_ARG_IS_FLAG) {
    member.flag = &said->is_set;
  } else {
    member.text = &said->text;
    member.length = &said->length;
  }
  return member;
}

/* Whether it was sent, and means something. */
static bool is_there(weir_arg arg, const weir_said *said, weir_http_call *call) {
  const weir_arg_row *row = &weir_args[arg];
  return weir_arg_is_amount(row)         ? weir_arg_amount(arg, &call->room)->count > 0
         : row->kind == WEIR_ARG_IS_FLAG ? said->is_set
                                         : said->text != NULL;
}

/* An object of JSON: the limiter, and a member for each argument of the verb. */
static bool read_members(const weir_http_request *request, const weir_verb_row *verb,
                         weir_http_call *call, weir_http_refusal *refusal) {
  weir_order *order = &call->order;
  weir_said said[WEIR_ARGS];
  weir_http_member members[WEIR_ARGS + 1] = {{.name = "limiter",
                                              .text = &order->limiter,
                                              .length = &order->limiter_length,
                                              .needed = true}};
  size_t count = 1;
  for (size_t i = 0; i < WEIR_ARGS; i++)
    if (weir_verb_accepts(verb, i)) members[count++] = describe(verb, (weir_arg)i, call, &said[i]);
  order->form = WEIR_HTTP_DECISION;
  if (!weir_http_read_body(request, members, count, call, refusal)) return false;
  if (!weir_verb_needs(verb, WEIR_ARG_KEY) && !has_keys(order, refusal)) return false;
  if (order->key_count > 0) order->keys = call->room.keys;
  for (size_t i = WEIR_ARG_KEYS + 1; i < WEIR_ARGS; i++)
    if (weir_verb_needs(verb, i) && !take_argument(call, (weir_arg)i, &said[i], refusal))
      return false;
  for (size_t i = WEIR_ARGS; i-- > WEIR_ARG_KEYS + 1;)
    if (weir_verb_accepts(verb, i) && !weir_verb_needs(verb, i) &&
        is_there((weir_arg)i, &said[i], call) &&
        !take_argument(call, (weir_arg)i, &said[i], refusal))
      return false;
  if (!order->up_to || order->costs == NULL) return true;
  return weir_http_decline(refusal, 400, "up_to: one cost for every rule is accepted");
}

/* The figures of CL.THROTTLE, with throttlecrab's meaning: its burst is max_burst, and what it does not
 * know it does not look at. */
static bool read_throttle(const weir_http_request *request, weir_http_call *call,
                          weir_http_refusal *refusal) {
  weir_order *order = &call->order;
  int64_t quantity = 1;
  const json_t *ignored = NULL;
  const weir_http_member members[] = {
      {.name = "key", .text = &order->key, .length = &order->key_length, .needed = true},
      {.name = "max_burst", .number = &order->burst, .needed = true},
      {.name = "count_per_period", .number = &order->count, .needed = true},
      {.name = "period", .number = &order->period_s, .needed = true},
      {.name = "quantity", .number = &quantity},
      {.name = "", .any = &ignored, .is_any_other = true},
  };
  order->form = WEIR_HTTP_THROTTLE;
  order->brings_rule = true;
  if (!weir_http_read_body(request, members, sizeof members / sizeof *members, call, refusal))
    return false;
  if (order->burst < 1 || order->count < 1 || order->period_s < 1)
    return weir_http_decline(refusal, 400,
                             "max_burst, count_per_period and period: 1 or more is accepted");
  if (quantity < 0 || quantity > WEIR_ORDER_COST_MOST)
    return weir_http_decline(refusal, 400, "quantity: 0 to 2147483648 is accepted");
  order->verb = &weir_verbs[quantity == 0 ? WEIR_VERB_PEEK : WEIR_VERB_TAKE];
  order->cost = quantity;
  return true;
}

/* --- limits of keys -----------------------------------------------------------------------------
 */

bool weir_http_is_limit(const weir_http_request *request) {
  size_t length = strlen(WEIR_VERB_LIMITS);
  return request->path.length >= length &&
         memcmp(request->path.bytes, WEIR_VERB_LIMITS, length) == 0;
}

/* A body is the limit as text, or the same as a string of JSON. */
static bool read_value(const weir_http_request *request, weir_http_call *call,
                       weir_http_refusal *refusal) {
  weir_http_text text = request->body;
  json_error_t error;
  while (text.length > 0 && memchr(" \t\r\n", text.bytes[text.length - 1], 4) != NULL)
    text.length--;
  if (text.length > 0 && text.bytes[0] == '"') {
    call->body = json_loadb(text.bytes, text.length, JSON_DECODE_ANY, &error);
    text = (weir_http_text){call->body != NULL ? json_string_value(call->body) : "",
                            json_string_length(call->body)};
  }
  const weir_said said = {.text = text.bytes, .length = text.length};
  return take_argument(call, WEIR_ARG_VALUE, &said, refusal);
}

/* PUT, GET and DELETE of /limits/LIMITER/KEY?for=30d. A key may have "/" in it. */
static bool read_limit(const weir_http_request *request, weir_http_call *call,
                       weir_http_refusal *refusal) {
  weir_order *order = &call->order;
  size_t row = 0;
  while (row < WEIR_VERBS &&
         (weir_verbs[row].method == NULL || !weir_http_is(request->method, weir_verbs[row].method)))
    row++;
  if (row == WEIR_VERBS) return weir_http_decline(refusal, 405, "PUT, GET and DELETE are accepted");
  order->verb = &weir_verbs[row];
  order->form = WEIR_HTTP_DECISION;
  order->limiter = request->path.bytes + strlen(WEIR_VERB_LIMITS);
  const char *end = request->path.bytes + request->path.length;
  const char *slash = memchr(order->limiter, '/', (size_t)(end - order->limiter));
  if (slash == NULL || slash == order->limiter || slash + 1 == end)
    return weir_http_decline(refusal, 404, "/limits/LIMITER/KEY is accepted");
  order->limiter_length = (size_t)(slash - order->limiter);
  if (!decode((weir_http_text){slash + 1, (size_t)(end - slash - 1)}, '+', &call->text))
    return weir_http_decline(refusal, 400, "the key: a percent sign needs two hexadecimal digits");
  if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  order->key_length = call->text.length;
  if (weir_verb_needs(order->verb, WEIR_ARG_VALUE) && !read_value(request, call, refusal))
    return false;
  if (!read_options(request, order->verb, call, refusal)) return false;
  order->key = call->text.data; /* what is read behind it may move it */
  return true;
}

/* --- all ----------------------------------------------------------------------------------------
 */

/* The verb whose path begins so, with a limiter's name behind it. NULL: it is another path. */
static const weir_verb_row *find_check(const weir_http_request *request) {
  for (size_t i = 0; i < WEIR_VERBS; i++) {
    const char *path = weir_verbs[i].path;
    size_t length = path != NULL ? strlen(path) : 0;
    if (length > 0 && request->path.length > length &&
        memcmp(request->path.bytes, path, length) == 0)
      return &weir_verbs[i];
  }
  return NULL;
}

bool weir_http_is_check(const weir_http_request *request) {
  return find_check(request) != NULL;
}

/* Paths that are asked by POST and are no verb of weir. */
static const struct {
  const char *path;
  bool (*read)(const weir_http_request *, weir_http_call *, weir_http_refusal *);
} others[] = {{"/throttle", read_throttle}, {"/json", weir_http_read_envoy}};
enum { OTHERS = sizeof others / sizeof *others };

static bool decline_path(weir_http_refusal *refusal) {
  char paths[PATHS_BYTES] = "", posts[PATHS_BYTES] = "";
  size_t last = 0;
  for (size_t i = 0; i < WEIR_VERBS; i++)
    if (weir_verbs[i].path != NULL) last = i;
  for (size_t i = 0; i <= last; i++) {
    char first[32];
    if (weir_verbs[i].path == NULL) continue;
    snprintf(first, sizeof first, "%s%s", weir_verbs[i].path, paths[0] == '\0' ? "LIMITER" : "");
    weir_word_list(paths, sizeof paths, first, i == last);
  }
  for (size_t i = 0; i < WEIR_VERBS + OTHERS; i++) {
    const char *post = i < WEIR_VERBS ? weir_verbs[i].post : others[i - WEIR_VERBS].path;
    if (post != NULL) weir_word_list(posts, sizeof posts, post, i + 1 == WEIR_VERBS + OTHERS);
  }
  return weir_http_decline(refusal, 404, "there are %s alike, %sLIMITER/KEY, and for POST %s",
                           paths, WEIR_VERB_LIMITS, posts);
}

bool weir_http_read_call(const weir_http_request *request, weir_http_call *call,
                         weir_http_refusal *refusal) {
  const weir_verb_row *row = find_check(request);
  size_t other = 0;
  if (weir_http_is_limit(request)) return read_limit(request, call, refusal);
  if (row != NULL) {
    weir_order *order = &call->order;
    size_t length = strlen(row->path);
    order->verb = row;
    order->form = WEIR_HTTP_CHECK;
    order->limiter = request->path.bytes + length;
    order->limiter_length = request->path.length - length;
    return read_query(request, row, call, refusal);
  }
  for (size_t i = 0; row == NULL && i < WEIR_VERBS; i++)
    if (weir_verbs[i].post != NULL && weir_http_is_path(request, weir_verbs[i].post))
      row = &weir_verbs[i];
  while (row == NULL && other < OTHERS && !weir_http_is_path(request, others[other].path))
    other++;
  if (other == OTHERS) return decline_path(refusal);
  if (request->method.length != 4 || memcmp(request->method.bytes, "POST", 4) != 0)
    return weir_http_decline(refusal, 405, "POST is accepted here");
  call->order.verb = row;
  if (!weir_http_is_json(request, refusal)) return false;
  return row != NULL ? read_members(request, row, call, refusal)
                     : others[other].read(request, call, refusal);
}
