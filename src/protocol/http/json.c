/* Bodies of JSON, by tables of their members. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol/http/internal.h"

/* What a client has sent stands in it, and may have been cut within a character. */
bool weir_http_decline(weir_http_refusal *refusal, int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(refusal->why.text, sizeof refusal->why.text, format, arguments);
  va_end(arguments);
  for (char *c = refusal->why.text; *c != '\0'; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  refusal->status = status;
  return false;
}

static const char *accepted(const weir_http_member *wanted) {
  return wanted->text != NULL     ? "a string that is not empty"
         : wanted->number != NULL ? "a whole number"
         : wanted->flag != NULL   ? "true or false"
                                  : "a list";
}

static bool read_member(const weir_http_member *wanted, const json_t *value,
                        weir_http_refusal *refusal) {
  if (wanted->text != NULL && json_is_string(value) && json_string_length(value) > 0) {
    *wanted->text = json_string_value(value);
    *wanted->length = json_string_length(value);
  } else if (wanted->number != NULL && json_is_integer(value)) {
    *wanted->number = json_integer_value(value);
  } else if (wanted->flag != NULL && json_is_boolean(value)) {
    *wanted->flag = json_is_true(value);
  } else if (wanted->list != NULL && json_is_array(value)) {
    *wanted->list = value;
  } else if (wanted->any != NULL) {
    *wanted->any = value;
  } else {
    return weir_http_decline(refusal, 400, "%s: %s is accepted", wanted->name, accepted(wanted));
  }
  return true;
}

static const weir_http_member *find_member(const weir_http_member *members, size_t count,
                                           const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(members[i].name, name) == 0) return &members[i];
  return NULL;
}

static bool decline_member(const weir_http_member *members, size_t count, const char *name,
                           weir_http_refusal *refusal) {
  weir_message list = {""};
  size_t length = 0;
  for (size_t i = 0; i < count && length < sizeof list.text; i++)
    length += (size_t)snprintf(list.text + length, sizeof list.text - length, "%s%s",
                               i == 0 ? "" : ", ", members[i].name);
  return weir_http_decline(
      refusal, 400, "\"%.64s\" is no member that is known: accepted are %.160s", name, list.text);
}

bool weir_http_read_object(json_t *object, const weir_http_member *members, size_t count,
                           weir_http_refusal *refusal) {
  const char *name;
  json_t *value;
  if (!json_is_object(object)) return weir_http_decline(refusal, 400, "an object is accepted");
  json_object_foreach(object, name, value) {
    const weir_http_member *wanted = find_member(members, count, name);
    if (wanted == NULL) return decline_member(members, count, name, refusal);
    if (!read_member(wanted, value, refusal)) return false;
  }
  for (size_t i = 0; i < count; i++)
    if (members[i].needed && json_object_get(object, members[i].name) == NULL)
      return weir_http_decline(refusal, 400, "\"%s\" is missing", members[i].name);
  return true;
}

bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal) {
  json_error_t error;
  call->body = json_loadb(request->body.bytes, request->body.length,
                          JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (call->body == NULL)
    return weir_http_decline(refusal, 400, "the body is no JSON: %s", error.text);
  if (!json_is_object(call->body))
    return weir_http_decline(refusal, 400, "the body is no JSON object");
  return weir_http_read_object(call->body, members, count, refusal);
}
