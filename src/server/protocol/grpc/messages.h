/* The messages of Envoy's rate limit service and of gRPC's health service, as protobuf writes them.
 * docs/decisions/grpc-is-read-where-it-stands.md says why they are read by hand. */
#ifndef WEIR_PROTOCOL_GRPC_MESSAGES_H
#define WEIR_PROTOCOL_GRPC_MESSAGES_H

#include "protocol/ask.h"
#include "protocol/bytes.h"

/* RateLimitRequest. Its texts point into `bytes`: any bytes, as keys of weir are. Fields that are not
 * known are passed over. False: *why says what is wrong. */
bool weir_grpc_read_request(const char *bytes, size_t length, weir_envoy_request *request,
                            weir_message *why);

/* RateLimitResponse. */
void weir_grpc_write_answer(const weir_envoy_answer *answer, weir_bytes *out);

/* HealthCheckRequest: which service is asked for, empty for all of the server. */
bool weir_grpc_read_health(const char *bytes, size_t length, const char **service,
                           size_t *service_length, weir_message *why);

/* Numbered as on the wire. */
typedef enum weir_grpc_health {
  WEIR_GRPC_SERVING = 1,
  WEIR_GRPC_NOT_SERVING = 2,
  WEIR_GRPC_SERVICE_UNKNOWN = 3
} weir_grpc_health;

/* HealthCheckResponse. */
void weir_grpc_write_health(weir_grpc_health health, weir_bytes *out);

#endif
