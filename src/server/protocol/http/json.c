/* Bodies of JSON, by tables of their members. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/word.h>

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
  return wanted->text != NULL     ? wanted->needed ? "a string that is not empty" : "a string"
         : wanted->number != NULL ? "a whole number"
         : wanted->hits != NULL   ? "a whole number from 0 on"
         : wanted->flag != NULL   ? "true or false"
         : wanted->list != NULL   ? "a list of objects"
                                  : "an object";
}

static bool read_hits(const json_t *value, int64_t *hits) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  size_t digits = json_string_length(value);
  int64_t read = -1;
  if (json_is_integer(value)) read = json_integer_value(value);
  bool is_quoted = digits > 0 && digits <= 20 && strspn(text, "0123456789") == digits;
  if (is_quoted && !weir_ask_number(text, digits, &read)) read = INT64_MAX;
  if (read < 0) return false;
  *hits = read < WEIR_ASK_COST_MOST ? read : WEIR_ASK_COST_MOST;
  return true;
}

static bool are_objects(const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_object(json_array_get(list, i))) return false;
  return json_is_array(list);
}

static bool read_member(const weir_http_member *wanted, json_t *value) {
  if (wanted->text != NULL && json_is_string(value) &&
      (json_string_length(value) > 0 || !wanted->needed)) {
    *wanted->text = json_string_value(value);
    *wanted->length = json_string_length(value);
  } else if (wanted->number != NULL && json_is_integer(value)) {
    *wanted->number = json_integer_value(value);
  } else if (wanted->flag != NULL && json_is_boolean(value)) {
    *wanted->flag = json_is_true(value);
  } else if (wanted->list != NULL && are_objects(value)) {
    *wanted->list = value;
  } else if (wanted->object != NULL && json_is_object(value)) {
    *wanted->object = value;
  } else if (wanted->any != NULL) {
    *wanted->any = value;
  } else {
    return wanted->hits != NULL && read_hits(value, wanted->hits);
  }
  return true;
}

static bool is_called(const weir_http_member *member, const char *name) {
  return strcmp(name, member->name) == 0 ||
         (member->other != NULL && strcmp(name, member->other) == 0);
}

static const weir_http_member *find_member(const weir_http_member *members, size_t count,
                                           const char *name) {
  for (size_t i = 0; i < count; i++)
    if (is_called(&members[i], name)) return &members[i];
  if (count > 0 && members[count - 1].is_any_other) return &members[count - 1];
  return NULL;
}

static bool has(const json_t *object, const char *name) {
  const json_t *value = name != NULL ? json_object_get(object, name) : NULL;
  return value != NULL && !json_is_null(value);
}

static bool decline_member(const weir_http_member *members, size_t count, const char *where,
                           const char *name, weir_http_refusal *refusal) {
  char list[160] = "";
  for (size_t i = 0; i < count; i++)
    weir_word_list(list, sizeof list, members[i].name, i + 1 == count);
  return weir_http_decline(refusal, 400, "\"%s%.64s\" is no member that is known: accepted are %s",
                           where, name, list);
}

bool weir_http_read_object(json_t *object, const char *where, const weir_http_member *members,
                           size_t count, weir_http_refusal *refusal) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    const weir_http_member *wanted = find_member(members, count, name);
    if (wanted == NULL) return decline_member(members, count, where, name, refusal);
    if (!json_is_null(value) && !read_member(wanted, value))
      return weir_http_decline(refusal, 400, "%s%s: %s is accepted", where, name, accepted(wanted));
  }
  for (size_t i = 0; i < count; i++) {
    const weir_http_member *wanted = &members[i];
    bool spelt = has(object, wanted->name), spelt_otherwise = has(object, wanted->other);
    if (wanted->needed && !spelt && !spelt_otherwise)
      return weir_http_decline(refusal, 400, "\"%s%s\" is missing", where, wanted->name);
    if (spelt && spelt_otherwise)
      return weir_http_decline(refusal, 400, "%s%s: it stands there as %s too", where, wanted->name,
                               wanted->other);
  }
  return true;
}

static bool join_chunks(const weir_http_request *request, weir_bytes *joined,
                        weir_http_text *text) {
  weir_http_text chunk;
  for (size_t position = 0; weir_http_next_chunk(request, &position, &chunk);)
    weir_bytes_add(joined, chunk.bytes, chunk.length);
  *text = (weir_http_text){joined->data != NULL ? joined->data : "", joined->length};
  return !joined->failed;
}

bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal) {
  json_error_t error;
  weir_http_text text = request->body;
  if (request->is_chunked && !join_chunks(request, &call->text, &text))
    return weir_http_decline(refusal, 503, "the server is short of memory");
  call->body = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (call->body == NULL)
    return weir_http_decline(refusal, 400, "the body is no JSON: %s", error.text);
  if (!json_is_object(call->body))
    return weir_http_decline(refusal, 400, "the body is no JSON object");
  return weir_http_read_object(call->body, "", members, count, refusal);
}
