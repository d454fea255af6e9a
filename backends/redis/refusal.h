/* Why a server refused a command, and what that says about the operation. */
#ifndef WEIR_REDIS_REFUSAL_H
#define WEIR_REDIS_REFUSAL_H

#include "redis/reply.h"

/* REFUSED when the server, or a proxy, surely did not execute the command, else UNKNOWN. *cause is
 * for weir_redis_refusal_explain(). */
weir_outcome weir_redis_refusal_classify(const weir_redis_reply *error, unsigned *cause);

/* Whether the server is not, or no longer, the one to write to. */
bool weir_redis_refusal_is_demotion(const weir_redis_reply *error);

/* One sentence for the cause. `name` is the command's as ACL rules spell it; `operation` may be
 * NULL (on a new connection), `error` too (no longer known). */
void weir_redis_refusal_explain(unsigned cause, const char *name, const weir_operation *operation,
                                const weir_redis_reply *error, weir_message *message);

/* Whether it says that this command is not to be had at all: no right to it, or not known. */
bool weir_redis_refusal_bars(const weir_redis_reply *error);

/* Whether it says that the key holds a text that is no integer. */
bool weir_redis_refusal_is_foreign(const weir_redis_reply *error);

/* No server's: the text of an error that stands for a redirection to one node too many. */
#define WEIR_REDIS_TABLE_IS_FULL "(one node too many)"

#endif
