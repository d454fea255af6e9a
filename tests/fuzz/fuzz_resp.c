/* Any bytes as RESP requests: nothing is read beyond them, a cut anywhere changes nothing, and what
 * every command answers is one reply. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "protocol/resp/command.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { REQUESTS_MOST = 64 };

static const weir_resp_limits limits = {.arguments = 16, .request_bytes = 4096};

static void check_costs(const weir_order_amount *amount, int64_t least) {
  int64_t most = 0;
  require(amount->count > 1 && amount->count <= WEIR_ORDER_COSTS_MOST);
  for (size_t i = 0; i < amount->count; i++) {
    require(amount->each[i] >= 0 && amount->each[i] <= WEIR_ORDER_COST_MOST);
    if (amount->each[i] > most) most = amount->each[i];
  }
  require(most >= least);
}

/* The amount taken is a cost, and a stamp is one that is written alike. */
static void check_settlement(const weir_order *order) {
  require((order->costs == NULL) == (order->takens == NULL));
  if (order->costs != NULL) {
    require(order->costs->count == order->takens->count);
    check_costs(order->costs, 0);
    check_costs(order->takens, 1);
  } else {
    require(order->taken >= 1 && order->taken <= WEIR_ORDER_COST_MOST);
  }
  if (!order->has_stamp) return;
  char text[WEIR_STAMP_BYTES];
  weir_take_stamp again;
  size_t length = weir_stamp_write(&order->stamp, text);
  require(length < sizeof text && weir_stamp_read(text, length, &again));
  require(again.at_us == order->stamp.at_us && again.mark == order->stamp.mark &&
          again.source == order->stamp.source && again.is_idle == order->stamp.is_idle);
}

/* A place is one that is written alike, and a time is one. */
static void check_place(const weir_order *order) {
  char text[WEIR_PLACE_NAME_BYTES];
  weir_place_name again;
  require(!weir_order_is(order, WEIR_VERB_HOLDS) || order->for_us >= 0);
  if (!weir_order_is(order, WEIR_VERB_OF_PLACE)) return;
  size_t length = weir_place_name_write(&order->place, text);
  require(length < sizeof text && weir_place_name_read(text, length, &again));
  require(again.is_none == order->place.is_none && again.server == order->place.server &&
          again.number == order->place.number && again.secret == order->place.secret);
}

/* A name with a digit in front is a group of so many. */
static size_t count_keys(const void *context, const char *name, size_t length) {
  (void)context;
  return length > 0 && name[0] > '1' && name[0] <= '8' ? (size_t)(name[0] - '0') : 1;
}

static void check_keys(const weir_order *order) {
  size_t wanted = count_keys(NULL, order->limiter, order->limiter_length);
  require(weir_order_is(order, WEIR_VERB_GROUPS));
  require(order->key_count == wanted && wanted <= WEIR_CONFIG_MEMBERS_MOST);
  for (size_t i = 0; i < order->key_count; i++)
    require(order->keys[i].length >= 1 && order->keys[i].length <= 64 &&
            order->keys[i].bytes != NULL);
}

/* Figures that a client has brought before change nothing. */
static void check_figures(const weir_resp_server *server, const weir_resp_request *request,
                          weir_resp_figures *before) {
  weir_resp_session fresh = {.id = 7}, lasting = {.id = 7, .figures = *before};
  weir_bytes out = {0}, same = {0};
  weir_order order, again;
  weir_order_room room;
  weir_resp_outcome outcome = weir_resp_run(&fresh, server, request, &out, &order, &room);
  require(weir_resp_run(&lasting, server, request, &same, &again, &room) == outcome);
  require(out.length == same.length &&
          (out.length == 0 || memcmp(out.data, same.data, out.length) == 0));
  if (outcome == WEIR_RESP_ASKS && order.brings_rule)
    require(again.brings_rule && again.verb == order.verb && again.cost == order.cost &&
            again.burst == order.burst && again.count == order.count &&
            again.period_s == order.period_s);
  *before = lasting.figures;
  weir_bytes_free(&out);
  weir_bytes_free(&same);
}

static void check_request(const weir_resp_request *request, const char *bytes, size_t used,
                          weir_resp_figures *figures) {
  static const weir_config_credential one = {"default", "secret", 6};
  const weir_resp_server open = {.throttle = true,
                                 .throttlecrab = true,
                                 .sets_limits = true,
                                 .key_most = 64,
                                 .count_keys = count_keys};
  const weir_resp_server guarded = {.credentials = &one, .credential_count = 1, .key_most = 64};
  weir_bytes out = {0};
  weir_order order = {.key_length = 1};
  weir_order_room room;
  for (size_t i = 0; i < request->count; i++)
    require(request->arguments[i].bytes >= bytes &&
            request->arguments[i].bytes + request->arguments[i].length <= bytes + used);
  for (int i = 0; i < 2; i++) {
    weir_resp_session session = {.id = 7};
    out.length = 0;
    weir_resp_outcome outcome =
        weir_resp_run(&session, i == 0 ? &open : &guarded, request, &out, &order, &room);
    bool says = outcome == WEIR_RESP_ANSWERED || outcome == WEIR_RESP_STRANGER ||
                outcome == WEIR_RESP_LEAVES;
    require(says == (out.length > 0));
    require(!says || memcmp(out.data + out.length - 2, "\r\n", 2) == 0);
    if (outcome == WEIR_RESP_ASKS) require(order.key_length >= 1 && order.key_length <= 64);
    if (outcome == WEIR_RESP_ASKS) require(order.cost >= 0 && order.cost <= WEIR_ORDER_COST_MOST);
    if (outcome == WEIR_RESP_ASKS) check_place(&order);
    if (outcome == WEIR_RESP_ASKS && weir_order_is(&order, WEIR_VERB_SETS_LIMIT))
      require(order.value_length <= WEIR_ORDER_VALUE_MOST);
    require(outcome != WEIR_RESP_ASKS || i == 0 || !weir_order_is(&order, WEIR_VERB_OF_LIMIT));
    if (outcome == WEIR_RESP_ASKS && order.keys != NULL) check_keys(&order);
    if (outcome == WEIR_RESP_ASKS && weir_order_is(&order, WEIR_VERB_SETTLES))
      check_settlement(&order);
    else if (outcome == WEIR_RESP_ASKS && order.costs != NULL)
      check_costs(order.costs, 1);
  }
  check_figures(&open, request, figures);
  weir_bytes_free(&out);
}

/* The same request, when its first `cut` bytes come before the rest. */
static void check_cut(const weir_resp_request *whole, const char *bytes, size_t used, size_t cut) {
  weir_resp_parser parser = {0};
  static weir_resp_request request;
  const char *why = NULL;
  size_t taken = 0;
  char *part = malloc(cut + 1); /* so that a byte too far is noticed */
  if (part == NULL) abort();
  memcpy(part, bytes, cut);
  require(weir_resp_parse(&parser, &limits, part, cut, &taken, &request, &why) == WEIR_RESP_MORE);
  free(part);
  require(weir_resp_parse(&parser, &limits, bytes, used, &taken, &request, &why) ==
          WEIR_RESP_REQUEST);
  require(taken == used && request.count == whole->count);
  for (size_t i = 0; i < request.count; i++)
    require(request.arguments[i].bytes == whole->arguments[i].bytes &&
            request.arguments[i].length == whole->arguments[i].length);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_resp_request request;
  weir_resp_figures figures = {0};
  char *bytes = malloc(size + 1);
  const char *why = NULL;
  size_t at = 0;
  if (bytes == NULL) abort();
  memcpy(bytes, data, size);
  bytes = realloc(bytes, size > 0 ? size : 1);
  for (int i = 0; i < REQUESTS_MOST && at < size; i++) {
    weir_resp_parser parser = {0};
    size_t used = 0;
    weir_resp_reading reading =
        weir_resp_parse(&parser, &limits, bytes + at, size - at, &used, &request, &why);
    require((reading == WEIR_RESP_BROKEN) == (why != NULL));
    if (reading != WEIR_RESP_REQUEST) break;
    require(used > 0 && used <= limits.request_bytes && used <= size - at);
    if (request.count > 0) check_request(&request, bytes + at, used, &figures);
    for (size_t cut = 0; cut < used && used < 128; cut++)
      check_cut(&request, bytes + at, used, cut);
    at += used;
  }
  free(bytes);
  return 0;
}
