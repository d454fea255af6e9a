/* The bytes of answers: decisions by status, as JSON or as throttlecrab words them, RateLimitResponse as
 * proto3 has it in JSON, and problems of application/problem+json. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "protocol/http/call.h"

static const char *reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

/* "Date: Sat, 28 Nov 2026 18:24:00 GMT", made anew once a second by each thread, and in English everywhere. */
static void write_date(weir_bytes *out) {
  static const char days[] = "SunMonTueWedThuFriSat";
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  static _Thread_local char text[48];
  static _Thread_local time_t made;
  struct tm parts;
  time_t now = time(NULL);
  if (now != made && gmtime_r(&now, &parts) != NULL)
    snprintf(text, sizeof text, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
             days + 3 * parts.tm_wday, parts.tm_mday, months + 3 * parts.tm_mon,
             (parts.tm_year + 1900) % 10000, parts.tm_hour, parts.tm_min, parts.tm_sec);
  made = now;
  weir_bytes_text(out, text);
}

/* A status line, and what belongs to each status. */
static void begin(int status, unsigned format, weir_bytes *out) {
  weir_bytes_text(out, "HTTP/1.1 ");
  weir_bytes_number(out, status);
  weir_bytes_text(out, " ");
  weir_bytes_text(out, reason(status));
  weir_bytes_text(out, "\r\n");
  write_date(out);
  if (status == 401) weir_bytes_text(out, "WWW-Authenticate: Bearer\r\n");
  if (status == 405)
    weir_bytes_text(out, format & WEIR_HTTP_READS  ? "Allow: GET, HEAD\r\n"
                         : format & WEIR_HTTP_SETS ? "Allow: GET, PUT, DELETE\r\n"
                                                   : "Allow: POST\r\n");
}

/* Writes the rest of an answer behind its fields: type, length and body. */
static void end(const char *type, const weir_bytes *body, unsigned format, weir_bytes *out) {
  if (body->length > 0) {
    weir_bytes_text(out, "Content-Type: ");
    weir_bytes_text(out, type);
    weir_bytes_text(out, "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n");
  }
  weir_bytes_text(out, "Content-Length: ");
  weir_bytes_number(out, (int64_t)body->length);
  weir_bytes_text(out, format & WEIR_HTTP_CLOSES ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
  if (!(format & WEIR_HTTP_HEAD)) weir_bytes_add(out, body->data, body->length);
  out->failed |= body->failed;
}

void weir_http_text_answer(int status, const char *type, const weir_bytes *body, unsigned format,
                           weir_bytes *out) {
  begin(status, format, out);
  end(type, body, format, out);
}

/* --- decisions ----------------------------------------------------------------------------------
 */

/* Text that is valid UTF-8 or ASCII. */
static void write_string(weir_bytes *out, const char *text, size_t length) {
  weir_bytes_text(out, "\"");
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') weir_bytes_text(out, "\\");
    if (c < 0x20 || c == 0x7f)
      weir_bytes_format(out, "\\u%04x", c);
    else
      weir_bytes_add(out, &text[i], 1);
  }
  weir_bytes_text(out, "\"");
}

static void add_number(weir_bytes *out, const char *name, int64_t number) {
  weir_bytes_text(out, name);
  weir_bytes_number(out, number);
}

/* `violated`: the policy that denied; empty: it is about none. */
static void write_problem(const char *type, const char *title, int status, const char *detail,
                          weir_http_text violated, weir_bytes *out) {
  weir_bytes_text(out, "{\"type\":\"");
  weir_bytes_text(out, type);
  weir_bytes_text(out, "\",\"title\":\"");
  weir_bytes_text(out, title);
  add_number(out, "\",\"status\":", status);
  weir_bytes_text(out, ",\"detail\":");
  write_string(out, detail, strlen(detail));
  if (violated.length > 0) {
    weir_bytes_text(out, ",\"violated-policies\":[");
    write_string(out, violated.bytes, violated.length);
    weir_bytes_text(out, "]");
  }
  weir_bytes_text(out, "}\n");
}

/* The cost of a decision, or of each rule. */
static void add_cost(weir_bytes *out, const char *name, const weir_reply *reply) {
  if (reply->costs == NULL) {
    add_number(out, name, reply->decision->cost);
    return;
  }
  weir_bytes_text(out, name);
  for (size_t i = 0; i < reply->cost_count; i++)
    add_number(out, i == 0 ? "[" : ",", reply->costs[i]);
  weir_bytes_text(out, "]");
}

/* The place that is held. In JSON a number above 2^53 would not be the same everywhere. */
static void write_held(const weir_reply_held *held, weir_bytes *out) {
  weir_bytes_text(out, ",\"token\":\"");
  weir_bytes_number(out, (int64_t)held->token);
  add_number(out, "\",\"held_until_us\":", held->held_until_us);
}

/* The key, or that of each member. */
static void write_keys(const weir_reply *reply, weir_bytes *out) {
  const weir_reply_group *group = &reply->is.group;
  bool is_group = reply->kind == WEIR_REPLY_GROUP;
  weir_bytes_text(out, is_group ? ",\"keys\":[" : ",\"key\":");
  if (!is_group) write_string(out, reply->of.key, reply->of.key_length);
  for (size_t i = 0; is_group && i < group->member_count; i++) {
    if (i > 0) weir_bytes_text(out, ",");
    write_string(out, group->members[i].of.key, group->members[i].of.key_length);
  }
  if (is_group) weir_bytes_text(out, "]");
}

/* The members that weir take --json prints, with true or false for allowed. */
static void write_decision(const weir_order *order, const weir_reply *reply, weir_bytes *out) {
  const weir_decision *decision = reply->decision;
  bool charges = !weir_order_is(order, WEIR_VERB_LOOKS) && decision != NULL && decision->allowed;
  weir_bytes_text(out, "{\"limiter\":");
  write_string(out, reply->of.name, strlen(reply->of.name));
  write_keys(reply, out);
  if (decision == NULL) {
    weir_bytes_text(out, ",\"reset\":true}\n");
    return;
  }
  weir_bytes_text(out, decision->allowed ? ",\"allowed\":true" : ",\"allowed\":false");
  add_number(out, ",\"limit\":", decision->limit);
  add_number(out, ",\"remaining\":", decision->remaining);
  add_number(out, ",\"retry_after_us\":", decision->retry_after_us);
  add_number(out, ",\"reset_after_us\":", decision->reset_after_us);
  add_number(out, ",\"delay_us\":", decision->delay_us);
  weir_bytes_text(out, ",\"source\":\"");
  weir_bytes_text(out, weir_source_name(decision->source));
  add_number(out, "\",\"rule\":", decision->rule);
  add_cost(out, ",\"cost\":", reply);
  if (charges)
    add_cost(out, ",\"charged\":", reply);
  else
    weir_bytes_text(out, ",\"charged\":0");
  add_number(out, ",\"at_us\":", decision->at_us);
  if (reply->kind == WEIR_REPLY_GROUP && reply->is.group.denied_by != NULL) {
    weir_bytes_text(out, ",\"denied_by\":");
    write_string(out, reply->is.group.denied_by, strlen(reply->is.group.denied_by));
  }
  char stamps[WEIR_REPLY_STAMPS_BYTES];
  size_t stamps_length = weir_reply_write_stamps(reply, stamps);
  if (stamps_length > 0) {
    weir_bytes_text(out, ",\"stamp\":\"");
    weir_bytes_add(out, stamps, stamps_length);
    weir_bytes_text(out, "\"");
  }
  if (reply->kind == WEIR_REPLY_HELD) {
    char name[WEIR_PLACE_NAME_BYTES];
    weir_bytes_text(out, ",\"place\":\"");
    weir_bytes_add(out, name, weir_place_name_write(&reply->is.held.place, name));
    weir_bytes_text(out, "\"");
    write_held(&reply->is.held, out);
  }
  weir_bytes_text(out, "}\n");
}

/* The answer to a release: whether the place was held until then, and whether the store knows. */
static void write_place(const weir_order *order, const weir_reply *reply, weir_bytes *out) {
  weir_bytes_text(out, reply->is.held.is_held ? "{\"held\":true" : "{\"held\":false");
  if (weir_order_is(order, WEIR_VERB_RELEASES)) {
    weir_bytes_text(out, ",\"store\":\"");
    weir_bytes_text(out, weir_status_name(reply->is.held.store));
    weir_bytes_text(out, "\"");
  } else {
    write_held(&reply->is.held, out);
  }
  weir_bytes_text(out, "}\n");
}

/* A key of any bytes is no text of JSON: who asks knows it. */
static void write_limit(const weir_reply *reply, weir_bytes *out) {
  const weir_limit *limit = &reply->is.limit.limit;
  const char *text = reply->is.limit.text;
  weir_bytes_text(out, "{\"limiter\":");
  write_string(out, reply->of.name, strlen(reply->of.name));
  weir_bytes_text(out, ",\"limit\":");
  if (limit->kind == WEIR_KEY_LIMIT_NUMBER)
    weir_bytes_text(out, text);
  else
    write_string(out, text, strlen(text));
  weir_bytes_text(out, "}\n");
}

static void write_throttle(const weir_order *order, const weir_decision *decision,
                           weir_bytes *out) {
  bool allowed = decision->allowed || order->cost == 0;
  weir_bytes_text(out, allowed ? "{\"allowed\":true" : "{\"allowed\":false");
  add_number(out, ",\"limit\":", decision->limit);
  add_number(out, ",\"remaining\":", decision->remaining);
  add_number(out, ",\"reset_after\":", weir_seconds_up(decision->reset_after_us));
  add_number(out, ",\"retry_after\":", allowed ? 0 : weir_seconds_up(decision->retry_after_us));
  weir_bytes_text(out, "}\n");
}

void weir_http_refuse(const weir_http_refusal *refusal, unsigned format, weir_bytes *out) {
  weir_bytes body = {0};
  write_problem("about:blank", reason(refusal->status), refusal->status, refusal->why.text,
                (weir_http_text){"", 0}, &body);
  weir_http_text_answer(refusal->status, "application/problem+json", &body, format, out);
  weir_bytes_free(&body);
}

/* The policy's name: of the limiter, and of the class that was decided for. */
enum { POLICY_BYTES = WEIR_CONFIG_NAME_MOST + WEIR_CLASS_NAME_BYTES + 1 };
static void name_policy(const weir_reply *reply, char name[POLICY_BYTES]) {
  const char *class = reply->of.class_name;
  snprintf(name, POLICY_BYTES, "%s%s%s", reply->of.name != NULL ? reply->of.name : "throttle",
           class != NULL ? "/" : "", class != NULL ? class : "");
}

/* A limiter's fields: what its decision says. How many they are. */
static size_t make_fields(const weir_reply *reply, const weir_decision *decision,
                          weir_http_field fields[WEIR_HTTP_FIELDS_MOST]) {
  size_t count = 0;
  char name[POLICY_BYTES];
  unsigned style = reply->of.headers == WEIR_CONFIG_HEADERS_DRAFT_03 ? WEIR_HTTP_X_RATELIMIT
                                                                     : WEIR_HTTP_DRAFT_10;
  if (reply->of.headers == WEIR_CONFIG_HEADERS_OFF || reply->of.limiter == NULL || decision == NULL)
    return 0;
  /* A name of the configuration is one that fields accept. */
  name_policy(reply, name);
  bool is_good = weir_http_write_fields(reply->of.limiter, name, decision, style, fields, &count,
                                        NULL) == WEIR_OK;
  return is_good ? count : 0;
}

static void write_fields(const weir_http_field *fields, size_t count, weir_bytes *out) {
  for (size_t i = 0; i < count; i++) {
    weir_bytes_text(out, fields[i].name);
    weir_bytes_text(out, ": ");
    weir_bytes_text(out, fields[i].value);
    weir_bytes_text(out, "\r\n");
  }
}

/* The policies of all members as one list, and what else the member says that speaks. */
static void write_group_fields(const weir_reply *reply, weir_bytes *out) {
  static const weir_decision no_figures = {
      .allowed = true, .remaining = WEIR_NOT_KNOWN, .reset_after_us = WEIR_NOT_KNOWN};
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  const char *between = "RateLimit-Policy: ";
  for (size_t i = 0; i < reply->is.group.member_count; i++) {
    const weir_reply *member = &reply->is.group.members[i];
    const weir_decision *decision = member->decision != NULL ? member->decision : &no_figures;
    if (member->of.headers != WEIR_CONFIG_HEADERS_DRAFT_10 ||
        make_fields(member, decision, fields) == 0)
      continue;
    weir_bytes_text(out, between);
    weir_bytes_text(out, fields[0].value);
    between = ", ";
  }
  if (between[0] == ',') weir_bytes_text(out, "\r\n");
  const weir_reply *speaker = &reply->is.group.members[reply->is.group.speaker];
  size_t told = speaker->of.headers == WEIR_CONFIG_HEADERS_DRAFT_10; /* its policy */
  size_t count = make_fields(speaker, reply->decision, fields);
  if (count > told) write_fields(fields + told, count - told, out);
}

/* The policy that denied, by the name that it has in fields, whether these are sent or not: RateLimit begins
 * with it, in quotes. */
static weir_http_text find_violated(const weir_reply *reply,
                                    weir_http_field fields[WEIR_HTTP_FIELDS_MOST]) {
  const weir_reply *denies =
      reply->kind == WEIR_REPLY_GROUP ? &reply->is.group.members[reply->is.group.speaker] : reply;
  weir_http_text violated = {"", 0};
  size_t count = 0;
  char name[POLICY_BYTES];
  name_policy(denies, name);
  if (denies->of.limiter == NULL || denies->of.name == NULL ||
      weir_http_write_fields(denies->of.limiter, name, reply->decision, WEIR_HTTP_DRAFT_10, fields,
                             &count, NULL) != WEIR_OK)
    return violated;
  for (size_t i = 0; i < count; i++)
    if (strcmp(fields[i].name, "RateLimit") == 0)
      violated = (weir_http_text){fields[i].value + 1, strcspn(fields[i].value + 1, "\"")};
  return violated;
}

/* Fields of a check alone: in other answers the body has them. */
static void write_check_fields(const weir_reply *reply, weir_bytes *out) {
  char stamps[WEIR_REPLY_STAMPS_BYTES], name[WEIR_PLACE_NAME_BYTES];
  size_t stamps_length = weir_reply_write_stamps(reply, stamps);
  if (stamps_length > 0) {
    weir_bytes_text(out, "Weir-Stamp: ");
    weir_bytes_add(out, stamps, stamps_length);
    weir_bytes_text(out, "\r\n");
  }
  if (reply->decision != NULL && reply->kind == WEIR_REPLY_HELD) {
    weir_bytes_text(out, "Weir-Place: ");
    weir_bytes_add(out, name, weir_place_name_write(&reply->is.held.place, name));
    weir_bytes_text(out, "\r\n");
  }
}

void weir_http_answer(const weir_order *order, unsigned format,
                      const weir_config_listener *listener, const weir_reply *reply,
                      weir_bytes *out) {
  weir_bytes body = {0};
  if (reply->status != WEIR_OK) {
    bool is_callers = weir_status_classify(reply->status) == WEIR_CLASS_CALLER;
    weir_http_refusal refusal = {.status = is_callers ? 400 : 503};
    snprintf(refusal.why.text, sizeof refusal.why.text, "%s: %s", weir_status_name(reply->status),
             reply->why);
    weir_http_refuse(&refusal, format, out);
    return;
  }
  bool checks = order->form == WEIR_HTTP_CHECK;
  bool denies = checks && reply->decision != NULL && !reply->decision->allowed;
  int status = denies ? listener->denied_status : 200;
  begin(status, format, out);
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  if (reply->kind == WEIR_REPLY_GROUP)
    write_group_fields(reply, out);
  else
    write_fields(fields, make_fields(reply, reply->decision, fields), out);
  if (checks) write_check_fields(reply, out);
  if (denies)
    write_problem("https://iana.org/assignments/http-problem-types#quota-exceeded",
                  "Request cannot be satisfied as assigned quota has been exceeded", status,
                  reply->kind == WEIR_REPLY_GROUP && reply->is.group.denied_by != NULL
                      ? reply->is.group.denied_by
                      : reply->of.name,
                  find_violated(reply, fields), &body);
  else if (order->form == WEIR_HTTP_THROTTLE)
    write_throttle(order, reply->decision, &body);
  else if (reply->kind == WEIR_REPLY_LIMIT)
    write_limit(reply, &body);
  else if (!checks && weir_order_is(order, WEIR_VERB_OF_PLACE))
    write_place(order, reply, &body);
  else if (!checks)
    write_decision(order, reply, &body);
  end(checks ? "application/problem+json" : "application/json", &body, format, out);
  weir_bytes_free(&body);
}

/* --- Envoy's service ----------------------------------------------------------------------------
 */

static void write_code(weir_bytes *out, const char *name, bool is_over) {
  weir_bytes_format(out, "{\"%s\":\"%s\"", name, is_over ? "OVER_LIMIT" : "OK");
}

static void write_status(weir_bytes *out, const weir_envoy_status *status) {
  write_code(out, "code", status->is_over);
  if (status->has_limit) {
    add_number(out, ",\"currentLimit\":{\"requestsPerUnit\":", status->requests);
    weir_bytes_format(out, ",\"unit\":\"%s\"", weir_config_units[status->unit]);
    if (status->name != NULL) weir_bytes_text(out, ",\"name\":");
    if (status->name != NULL) write_string(out, status->name, strlen(status->name));
    weir_bytes_text(out, "}");
  }
  if (status->remaining >= 0) add_number(out, ",\"limitRemaining\":", status->remaining);
  if (status->reset_after_us >= 0) {
    add_number(out, ",\"durationUntilReset\":\"", weir_seconds_up(status->reset_after_us));
    weir_bytes_text(out, "s\"");
  }
  weir_bytes_text(out, "}");
}

void weir_http_answer_envoy(const weir_envoy_answer *answer, unsigned format, weir_bytes *out) {
  weir_bytes body = {0};
  write_code(&body, "overallCode", answer->is_over);
  for (size_t i = 0; i < answer->count; i++) {
    weir_bytes_text(&body, i == 0 ? ",\"statuses\":[" : ",");
    write_status(&body, &answer->statuses[i]);
  }
  for (size_t i = 0; i < answer->field_count; i++) {
    weir_bytes_text(&body, i == 0 ? "],\"responseHeadersToAdd\":[" : ",");
    weir_bytes_format(&body, "{\"key\":\"%s\",\"value\":", answer->fields[i].name);
    write_string(&body, answer->fields[i].value, strlen(answer->fields[i].value));
    weir_bytes_text(&body, "}");
  }
  weir_bytes_text(&body, "]}\n");
  begin(answer->is_over ? 429 : 200, format, out);
  end("application/json", &body, format, out);
  weir_bytes_free(&body);
}

void weir_http_word_envoy(const weir_envoy_refusal *refusal, weir_http_refusal *worded) {
  static const int statuses[] = {[WEIR_ENVOY_WELL] = 200,
                                 [WEIR_ENVOY_BAD_REQUEST] = 400,
                                 [WEIR_ENVOY_NO_FILES] = 404,
                                 [WEIR_ENVOY_UNAVAILABLE] = 503,
                                 [WEIR_ENVOY_EXPIRED] = 504};
  *worded = (weir_http_refusal){statuses[refusal->failure], refusal->why};
}
