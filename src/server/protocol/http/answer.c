/* The bytes of answers. */
#include <stdio.h>
#include <string.h>

#include "protocol/http/call.h"
#include "protocol/http/internal.h"

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

void weir_http_begin(int status, weir_bytes *out) {
  weir_bytes_text(out, "HTTP/1.1 ");
  weir_bytes_number(out, status);
  weir_bytes_text(out, " ");
  weir_bytes_text(out, reason(status));
  weir_bytes_text(out, "\r\n");
  if (status == 401) weir_bytes_text(out, "WWW-Authenticate: Bearer\r\n");
  if (status == 405) weir_bytes_text(out, "Allow: POST\r\n");
}

static void end(const char *type, const char *body, size_t length, unsigned format,
                weir_bytes *out) {
  if (length > 0) {
    weir_bytes_text(out, "Content-Type: ");
    weir_bytes_text(out, type);
    weir_bytes_text(out, "\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n");
  }
  weir_bytes_text(out, "Content-Length: ");
  weir_bytes_number(out, (int64_t)length);
  weir_bytes_text(out, format & WEIR_HTTP_CLOSES ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n");
  if (!(format & WEIR_HTTP_HEAD)) weir_bytes_add(out, body, length);
}

void weir_http_end(const char *type, const weir_bytes *body, unsigned format, weir_bytes *out) {
  end(type, body->data, body->length, format, out);
  out->failed |= body->failed;
}

void weir_http_text_answer(int status, const char *type, const char *body, size_t length,
                           unsigned format, weir_bytes *out) {
  weir_http_begin(status, out);
  end(type, body, length, format, out);
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

void weir_http_write_string(weir_bytes *out, const char *text, size_t length) {
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

static void write_problem(const char *type, const char *title, int status, const char *detail,
                          weir_bytes *out) {
  weir_bytes_text(out, "{\"type\":\"");
  weir_bytes_text(out, type);
  weir_bytes_text(out, "\",\"title\":\"");
  weir_bytes_text(out, title);
  add_number(out, "\",\"status\":", status);
  weir_bytes_text(out, ",\"detail\":");
  weir_http_write_string(out, detail, strlen(detail));
  weir_bytes_text(out, "}\n");
}

/* What weir take --json prints, with true or false for allowed. */
static void write_decision(const weir_ask *ask, const weir_reply *reply, weir_bytes *out) {
  const weir_decision *decision = reply->decision;
  bool charges = ask->verb == WEIR_ASK_TAKE && decision->allowed;
  weir_bytes_text(out, "{\"limiter\":");
  weir_http_write_string(out, reply->name, strlen(reply->name));
  weir_bytes_text(out, ",\"key\":");
  weir_http_write_string(out, reply->key, reply->key_length);
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
  add_number(out, ",\"cost\":", decision->cost);
  add_number(out, ",\"charged\":", charges ? decision->cost : 0);
  add_number(out, ",\"at_us\":", decision->at_us);
  weir_bytes_text(out, "}\n");
}

static void write_throttle(const weir_ask *ask, const weir_decision *decision, weir_bytes *out) {
  bool allowed = decision->allowed || ask->cost == 0;
  weir_bytes_text(out, allowed ? "{\"allowed\":true" : "{\"allowed\":false");
  add_number(out, ",\"limit\":", decision->limit);
  add_number(out, ",\"remaining\":", decision->remaining);
  add_number(out, ",\"reset_after\":", weir_seconds_up(decision->reset_after_us));
  add_number(out, ",\"retry_after\":", allowed ? 0 : weir_seconds_up(decision->retry_after_us));
  weir_bytes_text(out, "}\n");
}

/* --- answers ------------------------------------------------------------------------------------
 */

void weir_http_refuse(const weir_http_refusal *refusal, unsigned format, weir_bytes *out) {
  weir_bytes body = {0};
  write_problem("about:blank", reason(refusal->status), refusal->status, refusal->why.text, &body);
  weir_http_text_answer(refusal->status, "application/problem+json", body.data, body.length, format,
                        out);
  out->failed |= body.failed;
  weir_bytes_free(&body);
}

static void write_fields(const weir_reply *reply, weir_config_headers headers, weir_bytes *out) {
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  size_t count = 0;
  unsigned style =
      headers == WEIR_CONFIG_HEADERS_DRAFT_03 ? WEIR_HTTP_X_RATELIMIT : WEIR_HTTP_DRAFT_10;
  if (headers == WEIR_CONFIG_HEADERS_OFF || reply->limiter == NULL || reply->decision == NULL)
    return;
  /* A name of the configuration is one that fields accept. */
  if (weir_http_write_fields(reply->limiter, reply->name != NULL ? reply->name : "throttle",
                             reply->decision, style, fields, &count, NULL) != WEIR_OK)
    return;
  for (size_t i = 0; i < count; i++) {
    weir_bytes_text(out, fields[i].name);
    weir_bytes_text(out, ": ");
    weir_bytes_text(out, fields[i].value);
    weir_bytes_text(out, "\r\n");
  }
}

static void answer_check(unsigned format, int status, const weir_reply *reply, weir_bytes *out) {
  weir_bytes body = {0};
  if (!reply->decision->allowed)
    write_problem("https://iana.org/assignments/http-problem-types#quota-exceeded",
                  "Request cannot be satisfied as assigned quota has been exceeded", status,
                  reply->name, &body);
  weir_http_end("application/problem+json", &body, format, out);
  weir_bytes_free(&body);
}

static void answer_json(const weir_ask *ask, unsigned format, const weir_reply *reply,
                        weir_bytes *out) {
  weir_bytes body = {0};
  if (ask->form == WEIR_HTTP_THROTTLE)
    write_throttle(ask, reply->decision, &body);
  else
    write_decision(ask, reply, &body);
  weir_http_end("application/json", &body, format, out);
  weir_bytes_free(&body);
}

/* Whose mistake a status is. */
static int status_of(weir_status status) {
  return weir_status_classify(status) == WEIR_CLASS_CALLER ? 400 : 503;
}

void weir_http_answer(const weir_ask *ask, unsigned format, const weir_config_listener *listener,
                      weir_config_headers headers, const weir_reply *reply, weir_bytes *out) {
  if (reply->status != WEIR_OK) {
    weir_http_refusal refusal = {.status = status_of(reply->status)};
    snprintf(refusal.why.text, sizeof refusal.why.text, "%s: %s", weir_status_name(reply->status),
             reply->why);
    weir_http_refuse(&refusal, format, out);
    return;
  }
  bool checks = ask->form == WEIR_HTTP_CHECK;
  int status = checks && !reply->decision->allowed ? listener->denied_status : 200;
  weir_http_begin(status, out);
  write_fields(reply, headers, out);
  if (checks)
    answer_check(format, status, reply, out);
  else
    answer_json(ask, format, reply, out);
}
