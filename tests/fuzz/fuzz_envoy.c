/* Any bytes as the body of POST /json: what is read stands within its limits, and every answer is
 * JSON again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "protocol/http/call.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* A sanitizer sees a byte too far. */
static void check_text(const char *text, size_t length) {
  require(text != NULL && (length == 0 || memchr(text, text[length - 1], length) != NULL));
}

static void check_request(const weir_envoy_request *request) {
  size_t entries = 0;
  require(request->domain_length > 0 && request->count > 0);
  require(request->count <= WEIR_ENVOY_DESCRIPTORS_MOST);
  check_text(request->domain, request->domain_length);
  for (size_t i = 0; i < request->count; i++) {
    const weir_envoy_descriptor *descriptor = &request->descriptors[i];
    require(descriptor->hits >= 0 && descriptor->hits <= WEIR_ORDER_COST_MOST);
    require(descriptor->entries == &request->entries[entries]);
    entries += descriptor->count;
    if (descriptor->has_limit)
      require(descriptor->unit != WEIR_CONFIG_UNIT_UNKNOWN && descriptor->requests >= 0 &&
              descriptor->requests <= WEIR_CONFIG_REQUESTS_MOST);
    for (size_t j = 0; j < descriptor->count; j++) {
      require(descriptor->entries[j].key_length > 0);
      check_text(descriptor->entries[j].key, descriptor->entries[j].key_length);
      check_text(descriptor->entries[j].value, descriptor->entries[j].value_length);
    }
  }
  require(entries == request->entry_count && entries <= WEIR_ENVOY_ENTRIES_MOST);
}

/* The body of an answer behind its fields. */
static json_t *body_of(const weir_bytes *out) {
  require(!out->failed && out->length > 9 && memcmp(out->data, "HTTP/1.1 ", 9) == 0);
  weir_bytes text = {0};
  weir_bytes_add(&text, out->data, out->length);
  weir_bytes_add(&text, "", 1);
  const char *body = strstr(text.data, "\r\n\r\n");
  require(body != NULL);
  json_t *value = json_loads(body + 4, 0, NULL);
  require(value != NULL);
  weir_bytes_free(&text);
  return value;
}

/* As if each had been decided, one way or another. */
static void check_answer(const weir_envoy_request *request) {
  weir_envoy_answer answer = {.count = request->count};
  weir_bytes out = {0};
  for (size_t i = 0; i < request->count; i++)
    answer.statuses[i] = (weir_envoy_status){.is_over = i % 2 == 0,
                                             .has_limit = request->descriptors[i].has_limit,
                                             .requests = request->descriptors[i].requests,
                                             .unit = request->descriptors[i].unit,
                                             .name = i % 3 == 0 ? request->domain : NULL,
                                             .remaining = (int64_t)i - 1,
                                             .reset_after_us = request->descriptors[i].hits - 1};
  weir_http_answer_envoy(&answer, 0, &out);
  json_t *body = body_of(&out);
  require(json_array_size(json_object_get(body, "statuses")) == request->count);
  json_decref(body);
  weir_bytes_free(&out);
}

static void check_refusal(const weir_http_refusal *refusal) {
  weir_bytes out = {0};
  require(refusal->status == 400);
  require_readable(&refusal->why);
  weir_http_refuse(refusal, 0, &out);
  json_decref(body_of(&out));
  weir_bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_http_call call = {0};
  weir_http_refusal refusal = {0};
  static const char type[] = "Content-Type: application/json\r\n";
  weir_http_request http = {.method = {"POST", 4},
                            .path = {"/json", 5},
                            .fields = {type, sizeof type - 1},
                            .body = {(const char *)data, size}};
  if (weir_http_read_call(&http, &call, &refusal)) {
    check_request(call.envoy);
    check_answer(call.envoy);
  } else {
    check_refusal(&refusal);
  }
  weir_http_call_free(&call);
  return 0;
}
