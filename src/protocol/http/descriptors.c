/* POST /json: requests and answers of Envoy's rate limit service, version 3, in JSON. Its domain is
 * the name of a limiter, and each of its descriptors a key. */
#include <stdlib.h>
#include <string.h>

#include "protocol/http/internal.h"

/* --- what is asked ---------------------------------------------------------------------------- */

/* Entries are told apart whatever they hold: what means something between them is escaped. */
static void add_escaped(weir_bytes *key, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\\' || text[i] == '=' || text[i] == ',') weir_bytes_text(key, "\\");
    weir_bytes_add(key, text + i, 1);
  }
}

/* "KEY=VALUE" behind what there is of a descriptor; KEY alone where there is no value. */
static bool add_entry(json_t *entry, bool is_first, weir_bytes *key, weir_http_refusal *refusal) {
  const char *name = NULL;
  size_t name_length = 0;
  const json_t *value = NULL;
  const weir_http_member members[] = {
      {.name = "key", .text = &name, .length = &name_length, .needed = true},
      {.name = "value", .any = &value},
  };
  if (!weir_http_read_object(entry, members, 2, refusal)) return false;
  if (value != NULL && !json_is_string(value))
    return weir_http_decline(refusal, 400, "value: a string is accepted");
  if (!is_first) weir_bytes_text(key, ",");
  add_escaped(key, name, name_length);
  if (json_string_length(value) == 0) return true;
  weir_bytes_text(key, "=");
  add_escaped(key, json_string_value(value), json_string_length(value));
  return true;
}

/* A number, or one in quotes as JSON has those of 64 bits. More than a limiter can be asked for is
 * the most that it can. Nothing: as it was. */
static bool read_hits(const json_t *value, int64_t *hits, weir_http_refusal *refusal) {
  if (value == NULL || json_is_null(value)) return true;
  bool is_number = json_is_integer(value);
  if (is_number) *hits = json_integer_value(value);
  if (json_is_string(value))
    is_number = weir_number_read(json_string_value(value), json_string_length(value), hits);
  if (!is_number || *hits < 0)
    return weir_http_decline(refusal, 400, "hitsAddend: a whole number from 0 on is accepted");
  if (*hits > WEIR_ASK_COST_MOST) *hits = WEIR_ASK_COST_MOST;
  return true;
}

/* Its key goes behind the others; where that begins, as more may move them. */
static bool read_descriptor(json_t *descriptor, weir_http_call *call, weir_ask *ask,
                            weir_http_refusal *refusal) {
  const json_t *entries = NULL;
  const json_t *hits = NULL;
  const weir_http_member members[] = {
      {.name = "entries", .list = &entries, .needed = true},
      {.name = "hitsAddend", .any = &hits},
      {.name = "hits_addend", .any = &hits},
  };
  size_t begin = call->text.length;
  int64_t own = -1;
  if (!weir_http_read_object(descriptor, members, sizeof members / sizeof *members, refusal) ||
      !read_hits(hits, &own, refusal))
    return false;
  if (json_array_size(entries) == 0)
    return weir_http_decline(refusal, 400, "entries: one or more are accepted");
  for (size_t i = 0; i < json_array_size(entries); i++)
    if (!add_entry(json_array_get(entries, i), i == 0, &call->text, refusal)) return false;
  *ask = call->ask;
  ask->key_length = call->text.length - begin;
  if (own == 0) ask->verb = WEIR_ASK_PEEK;
  if (own >= 0) ask->cost = own;
  return true;
}

static bool read_all(const json_t *list, weir_http_call *call, weir_http_refusal *refusal) {
  size_t count = json_array_size(list);
  if (count < 1 || count > WEIR_HTTP_DESCRIPTORS_MOST)
    return weir_http_decline(refusal, 400, "descriptors: 1 to %d are accepted",
                             WEIR_HTTP_DESCRIPTORS_MOST);
  call->descriptors = calloc(count, sizeof *call->descriptors);
  if (call->descriptors == NULL)
    return weir_http_decline(refusal, 503, "the server is short of memory");
  for (; call->descriptor_count < count; call->descriptor_count++) {
    weir_ask *ask = &call->descriptors[call->descriptor_count];
    if (!read_descriptor(json_array_get(list, call->descriptor_count), call, ask, refusal))
      return false;
  }
  if (call->text.failed) return weir_http_decline(refusal, 503, "the server is short of memory");
  const char *key = call->text.data;
  for (size_t i = 0; i < count; i++) {
    call->descriptors[i].key = key;
    call->descriptors[i].form = i == 0 ? WEIR_HTTP_DESCRIPTOR : WEIR_HTTP_DESCRIPTOR_MORE;
    key += call->descriptors[i].key_length;
  }
  call->ask = call->descriptors[0];
  return true;
}

bool weir_http_read_descriptors(const weir_http_request *request, weir_http_call *call,
                                weir_http_refusal *refusal) {
  weir_ask *ask = &call->ask;
  const json_t *list = NULL;
  const json_t *hits = NULL;
  const weir_http_member members[] = {
      {.name = "domain", .text = &ask->limiter, .length = &ask->limiter_length, .needed = true},
      {.name = "descriptors", .list = &list, .needed = true},
      {.name = "hitsAddend", .any = &hits},
      {.name = "hits_addend", .any = &hits},
  };
  ask->form = WEIR_HTTP_DESCRIPTOR;
  return weir_http_read_body(request, members, sizeof members / sizeof *members, call, refusal) &&
         read_hits(hits, &ask->cost, refusal) && read_all(list, call, refusal);
}

/* --- what is answered ------------------------------------------------------------------------- */

static const char *unit_of(int64_t period_us) {
  static const struct {
    int64_t seconds;
    const char *name;
  } units[] = {{1, "SECOND"},    {60, "MINUTE"},     {3600, "HOUR"},    {86400, "DAY"},
               {604800, "WEEK"}, {2592000, "MONTH"}, {31536000, "YEAR"}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (period_us == units[i].seconds * 1000000) return units[i].name;
  return NULL;
}

/* The rule whose figures the answer has; a period that has no name there is left out. */
static void add_limit(const weir_reply *reply, weir_bytes *out) {
  weir_rule_info rule = WEIR_RULE_INFO_INIT;
  if (reply->limiter == NULL ||
      weir_limiter_read_rule(reply->limiter, reply->decision->rule, &rule) != WEIR_OK)
    return;
  const char *unit = unit_of(rule.period_us);
  weir_bytes_text(out, ",\"currentLimit\":{\"requestsPerUnit\":");
  weir_bytes_number(out, rule.limit);
  if (unit != NULL) weir_bytes_format(out, ",\"unit\":\"%s\"", unit);
  if (rule.name[0] != '\0') weir_bytes_format(out, ",\"name\":\"%s\"", rule.name);
  weir_bytes_text(out, "}");
}

static void add_status(const weir_reply *reply, weir_bytes *out) {
  const weir_decision *decision = reply->decision;
  const int64_t unlimited = UINT32_MAX;
  bool is_free = reply->limiter == NULL && decision->allowed;
  int64_t remaining = is_free ? unlimited : decision->remaining;
  weir_bytes_text(out, "{\"code\":");
  weir_bytes_text(out, decision->allowed ? "\"OK\"" : "\"OVER_LIMIT\"");
  add_limit(reply, out);
  if (remaining >= 0) {
    weir_bytes_text(out, ",\"limitRemaining\":");
    weir_bytes_number(out, remaining < unlimited ? remaining : unlimited);
  }
  if (reply->limiter != NULL && decision->reset_after_us >= 0)
    weir_bytes_format(out, ",\"durationUntilReset\":\"%lld.%06llds\"",
                      (long long)decision->reset_after_us / 1000000,
                      (long long)decision->reset_after_us % 1000000);
  weir_bytes_text(out, "}");
}

/* Whoever waits so long is not denied by any of them; negative: that is never. */
static int64_t longest_wait(const weir_reply *replies, size_t count) {
  int64_t longest = 0;
  for (size_t i = 0; i < count; i++) {
    const weir_decision *decision = replies[i].decision;
    if (decision->allowed || longest < 0) continue;
    bool is_longer = decision->retry_after_us < 0 || decision->retry_after_us > longest;
    if (is_longer) longest = decision->retry_after_us;
  }
  return weir_seconds_up(longest);
}

void weir_http_answer_descriptors(unsigned manner, weir_config_headers headers,
                                  const weir_reply *replies, size_t count, weir_bytes *out) {
  weir_bytes body = {0};
  bool over = false;
  for (size_t i = 0; i < count; i++)
    over |= !replies[i].decision->allowed;
  weir_bytes_text(&body, over ? "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":["
                              : "{\"overallCode\":\"OK\",\"statuses\":[");
  for (size_t i = 0; i < count; i++) {
    if (i > 0) weir_bytes_text(&body, ",");
    add_status(&replies[i], &body);
  }
  weir_bytes_text(&body, "]}\n");
  int64_t wait_s = longest_wait(replies, count);
  weir_http_begin(over ? 429 : 200, out);
  if (over && wait_s >= 0 && headers != WEIR_CONFIG_HEADERS_OFF)
    weir_bytes_format(out, "Retry-After: %lld\r\n", (long long)wait_s);
  weir_http_end("application/json", &body, manner, out);
  weir_bytes_free(&body);
}
