/* The protocols that clients speak, and what those of one form share: HTTP's requests, for decisions
 * or for admin, and Envoy's rate limit service, which comes over HTTP and gRPC. */
#ifndef WEIR_SERVE_PROTOCOLS_H
#define WEIR_SERVE_PROTOCOLS_H

#include "protocol/http/call.h"
#include "serve/client.h"

extern const weir_protocol weir_protocol_resp, weir_protocol_http, weir_protocol_grpc,
    weir_protocol_admin;

/* --- HTTP ---------------------------------------------------------------------------------------
 */

/* To a client that comes when there are too many. */
#define WEIR_SERVE_HTTP_FULL \
  "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

/* Whether a request needs no token. */
typedef bool weir_serve_opens(const weir_http_request *request);

/* Reads a request and looks at its token: WEIR_READ_ONE has one to be answered, and *is_known says
 * whether it shows a token that its listener asks for. Anything else is what the protocol's read()
 * returns; of a request that is broken the answer is queued already. `opens` may be
 * NULL: none does without. */
weir_read_result weir_serve_read_http(weir_connection *connection, const char *bytes, size_t length,
                                      size_t *used, weir_serve_opens *opens,
                                      weir_http_request *request, bool *is_known);

/* enum weir_http_format of the answer to this request. */
unsigned weir_serve_http_format(const weir_http_request *request);

/* Queues a refusal, and another answer. */
void weir_serve_refuse_http(weir_connection *connection, const weir_http_refusal *refusal,
                            unsigned format);
void weir_serve_answer_http(weir_connection *connection, int status, const char *type,
                            const weir_bytes *body, unsigned format);

/* weir_http_is_from_here() of the connection's listener; what is not is counted. */
bool weir_serve_is_from_here(weir_connection *connection, const weir_http_request *request,
                             bool may_be_opened, weir_http_refusal *refusal);

/* Whether the value of "authorization" shows a token that the listener asks for. NULL: there is none. */
typedef enum weir_serve_standing {
  WEIR_SERVE_KNOWN,
  WEIR_SERVE_STRANGER,
  WEIR_SERVE_HELD /* it is not looked at yet: WEIR_READ_HELD */
} weir_serve_standing;
weir_serve_standing weir_serve_look_at_credential(weir_connection *connection,
                                                  const weir_http_text *shown);

/* --- Envoy's service: a request of several descriptors, decided in one turn and answered as one ---- */

/* Queues the answer; or false: *refusal is the answer. `until_us`: when it is not worth deciding any
 * more, or WEIR_TURN_NO_END. */
bool weir_serve_ask_envoy(weir_connection *connection, weir_envoy_request *request, unsigned note,
                          int64_t until_us, weir_envoy_refusal *refusal);

/* --- the admin listener's page /metrics: the main thread writes it, and waits for no store ------------ */

/* How many limiters are listed by name. Those behind them in the file count in the totals alone. */
enum { WEIR_STATUS_LIMITERS_MOST = 512 };

/* Clients' connections that are open. */
int64_t weir_serve_open_connections(const weir_served_all *all);

/* All counts, in the text format of Prometheus. */
void weir_serve_write_metrics(weir_service *service, weir_bytes *out);

#endif
