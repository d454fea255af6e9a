/* What the admin listener tells of places, and does about them. */
#ifndef WEIR_SERVE_HOLDERS_H
#define WEIR_SERVE_HOLDERS_H

#include <jansson.h>

#include "protocol/http/call.h"
#include "serve/client.h"

/* Of /status.json: how many places there are, and the keys with most of them, as far as those may be
 * shown. NULL: no memory. */
json_t *weir_holders_status(weir_service *service);

/* The figures of one limiter. */
json_t *weir_holders_row(const weir_limiter *limiter);

/* POST /places {"limiter","key"}: who holds it; POST /places/out {"limiter","key","place"}: it is released,
 * whatever its client does. False: *refusal is the answer. */
bool weir_holders_answer(weir_service *service, const weir_http_request *request, weir_bytes *out,
                         weir_http_refusal *refusal);

#endif
