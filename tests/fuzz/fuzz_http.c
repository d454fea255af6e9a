/* Any bytes as requests of HTTP: nothing is read beyond them, a cut anywhere changes nothing, what
 * is asked stands within its limits, and every answer is one of HTTP. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "protocol/http/call.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { REQUESTS_MOST = 16 };

static const weir_http_limits limits = {.header_bytes = 2048, .body_bytes = 1024};

static void check_answer(const weir_http_refusal *refusal) {
  weir_bytes out = {0};
  require(refusal->status >= 400 && refusal->status < 600 && refusal->why.text[0] != '\0');
  weir_http_refuse(refusal, 0, &out);
  require(out.length > 12 && memcmp(out.data, "HTTP/1.1 ", 9) == 0);
  weir_bytes_free(&out);
}

static void check_request(const weir_http_request *request) {
  static const weir_config_credential token = {NULL, "secret", 6};
  static const weir_config_key keys[] = {{WEIR_CONFIG_KEY_QUERY, "key"},
                                         {WEIR_CONFIG_KEY_HEADER, "X-Key"},
                                         {WEIR_CONFIG_KEY_CLIENT, NULL}};
  const weir_config_listener listener = {.denied_status = 429};
  weir_http_refusal refusal = {0};
  weir_http_call call = {0};
  weir_http_text shown;
  size_t position = 0;
  while (weir_http_next_field(request, "Authorization", &position, &shown))
    weir_http_is_token(shown, &token, 1);
  bool good = weir_http_read_call(request, &call, &refusal);
  if (!good) check_answer(&refusal);
  if (good) require(call.order.cost >= 0 && call.order.cost <= WEIR_ORDER_COST_MOST);
  if (good && call.order.costs != NULL)
    require(call.order.costs->count > 1 && call.order.costs->count <= WEIR_ORDER_COSTS_MOST);
  if (good && call.envoy != NULL) require(call.envoy->count > 0);
  good &= call.envoy == NULL;
  if (good && call.order.form != WEIR_HTTP_CHECK)
    require((call.order.keys != NULL) != (call.order.key_length > 0));
  require(call.order.key_count <= WEIR_CONFIG_MEMBERS_MOST);
  for (size_t i = 0; good && i < call.order.key_count; i++)
    require(call.order.keys[i].length > 0 && call.order.keys[i].bytes != NULL);
  for (size_t i = 0; good && call.order.form == WEIR_HTTP_CHECK && i < 3; i++) {
    weir_bytes_free(&call.text);
    refusal = (weir_http_refusal){0};
    if (weir_http_read_key(request, &listener, &keys[i], "192.0.2.7", &call, &refusal))
      require(call.order.key_length > 0);
    else
      check_answer(&refusal);
  }
  weir_http_call_free(&call);
}

static void check_origin(const weir_http_request *request) {
  const char *hosts[] = {"limits.example"};
  const weir_config_listener listener = {.hosts = hosts, .host_count = 1};
  const struct sockaddr_storage own = {.ss_family = AF_INET6};
  weir_http_refusal refusal = {0};
  if (!weir_http_is_from_here(request, &listener, &own, true, &refusal)) check_answer(&refusal);
}

static void check_cut(const char *bytes, size_t used, size_t cut) {
  weir_http_parser parser = {0};
  weir_http_request request;
  const char *why = NULL;
  int status = 0;
  size_t taken = 0;
  char *part = malloc(cut + 1); /* so that a byte too far is noticed */
  if (part == NULL) abort();
  memcpy(part, bytes, cut);
  require(weir_http_parse(&parser, &limits, part, cut, &taken, &request, &status, &why) ==
          WEIR_HTTP_MORE);
  free(part);
  require(weir_http_parse(&parser, &limits, bytes, used, &taken, &request, &status, &why) ==
          WEIR_HTTP_REQUEST);
  require(taken == used);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_http_request request;
  const char *why = NULL;
  size_t at = 0;
  char *bytes = malloc(size > 0 ? size : 1);
  if (bytes == NULL) abort();
  if (size > 0) memcpy(bytes, data, size);
  for (int i = 0; i < REQUESTS_MOST && at < size; i++) {
    weir_http_parser parser = {0};
    int status = 0;
    size_t used = 0;
    weir_http_reading reading =
        weir_http_parse(&parser, &limits, bytes + at, size - at, &used, &request, &status, &why);
    require((reading == WEIR_HTTP_BROKEN) == (why != NULL));
    if (reading != WEIR_HTTP_REQUEST) break;
    size_t body_most = request.is_chunked ? 3 * limits.body_bytes + 2048 : limits.body_bytes;
    require(used > 0 && used <= 2 + limits.header_bytes + body_most && used <= size - at);
    check_origin(&request);
    check_request(&request);
    for (size_t cut = 0; cut < used && used < 256; cut++)
      check_cut(bytes + at, used, cut);
    at += used;
  }
  free(bytes);
  return 0;
}
