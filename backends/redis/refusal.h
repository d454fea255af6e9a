/* Why a server refused a command, and what that says about the operation. */
#ifndef WEIR_REDIS_REFUSAL_H
#define WEIR_REDIS_REFUSAL_H

#include "redis/reply.h"

/* REFUSED when the server, or a proxy, surely did not execute the command, else UNKNOWN. *cause is
 * for weir_redis_refusal_explain(). */
weir_outcome weir_redis_refusal_judge(const weir_redis_reply *error, unsigned *cause);

/* One sentence for the cause. `name` is the command's as ACL rules spell it; `operation` may be
 * NULL (on a new connection), `error` too (no longer known). */
void weir_redis_refusal_explain(unsigned cause, const char *name, const weir_operation *operation,
                                const weir_redis_reply *error, weir_message *message);

#endif
