/* A request of Envoy's service as its connection sees it, over HTTP and gRPC alike. */
#include "serve/protocols.h"

bool weir_serve_ask_envoy(weir_connection *connection, weir_envoy_request *request, unsigned note,
                          int64_t until_us, weir_envoy_refusal *refusal) {
  weir_envoy_added added;
  if (!weir_envoy_add(&connection->loop->turn, request, connection->port->config, note, until_us,
                      &added, refusal))
    return false;
  /* Each part is a request of what the connection may bring into a turn; one is counted by itself. */
  size_t more = request->count - 1;
  size_t rest = connection->share - 1;
  connection->share -= (uint32_t)(more < rest ? more : rest);
  if (added.is_last) connection->share = 1;
  weir_connection_queue(connection, added.answer);
  return true;
}
