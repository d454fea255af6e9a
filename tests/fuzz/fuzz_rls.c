/* Any bytes as messages of Envoy's rate limit service: what is read stands within its limits and its
 * own bytes, and every answer is read again as what it was. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "protocol/grpc/session.h"
#include "protocol/order.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Where it stands, and a sanitizer sees a byte too far. */
static void check_text(const char *text, size_t length, const char *bytes, size_t size) {
  require(length == 0 || (text >= bytes && text + length <= bytes + size));
}

static void check_request(const weir_envoy_request *request, const char *bytes, size_t size) {
  size_t entries = 0;
  require(request->domain_length > 0);
  require(request->count > 0 && request->count <= WEIR_ENVOY_DESCRIPTORS_MOST);
  check_text(request->domain, request->domain_length, bytes, size);
  for (size_t i = 0; i < request->count; i++) {
    const weir_envoy_descriptor *descriptor = &request->descriptors[i];
    require(descriptor->hits >= 0 && descriptor->hits <= WEIR_ORDER_COST_MOST);
    require(descriptor->entries == &request->entries[entries]);
    entries += descriptor->count;
    if (descriptor->has_limit)
      require(descriptor->unit >= WEIR_CONFIG_SECOND && descriptor->unit <= WEIR_CONFIG_YEAR &&
              descriptor->requests >= 0 && descriptor->requests <= WEIR_CONFIG_REQUESTS_MOST);
    for (size_t j = 0; j < descriptor->count; j++) {
      const weir_entry *entry = &descriptor->entries[j];
      require(entry->key_length > 0);
      check_text(entry->key, entry->key_length, bytes, size);
      check_text(entry->value, entry->value_length, bytes, size);
    }
  }
  require(entries == request->entry_count && entries <= WEIR_ENVOY_ENTRIES_MOST);
}

/* A response looks like a request to who knows no other message: statuses are descriptors, and
 * current_limit is the limit that they bring. So the writer is held against the reader. */
static void check_answer(const weir_envoy_request *request) {
  static weir_envoy_answer answer;
  static weir_envoy_request again;
  weir_bytes out = {0};
  weir_message why;
  answer.count = request->count;
  for (size_t i = 0; i < request->count; i++)
    answer.statuses[i] = (weir_envoy_status){.is_over = i % 2 == 0,
                                             .has_limit = request->descriptors[i].has_limit,
                                             .requests = request->descriptors[i].requests,
                                             .unit = request->descriptors[i].unit,
                                             .name = i % 3 == 0 ? "a name" : NULL,
                                             .remaining = request->descriptors[i].hits - 1,
                                             .reset_after_us = (int64_t)i * 700000 - 1};
  weir_bytes_add(&out,
                 "\x0a\x01"
                 "d",
                 3); /* a domain, which it lacks */
  weir_grpc_write_answer(&answer, &out);
  require(!out.failed);
  require(weir_grpc_read_request(out.data, out.length, &again, &why));
  require(again.count == request->count && again.domain_length == 1 && again.entry_count == 0);
  for (size_t i = 0; i < request->count; i++) {
    const weir_envoy_descriptor *told = &again.descriptors[i];
    require(told->has_limit == request->descriptors[i].has_limit && told->hits == 1);
    require(!told->has_limit || (told->requests == request->descriptors[i].requests &&
                                 told->unit == request->descriptors[i].unit));
  }
  weir_bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static weir_envoy_request request;
  weir_message why = {""};
  const char *service;
  size_t length;
  char *bytes = malloc(size > 0 ? size : 1);
  if (bytes == NULL) abort();
  if (size > 0) memcpy(bytes, data, size);
  if (weir_grpc_read_request(bytes, size, &request, &why)) {
    check_request(&request, bytes, size);
    check_answer(&request);
  } else {
    require_readable(&why);
  }
  if (weir_grpc_read_health(bytes, size, &service, &length, &why))
    check_text(service, length, bytes, size);
  free(bytes);
  return 0;
}
