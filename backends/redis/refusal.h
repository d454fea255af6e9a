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

/* The same, or that it is not known with such arguments. */
bool weir_redis_refusal_lacks(const weir_redis_reply *error);

/* Whether it says that the key holds a text that is no integer. */
bool weir_redis_refusal_is_foreign(const weir_redis_reply *error);

/* No server's: the text of an error that stands for a redirection to one node too many. */
#define WEIR_REDIS_TABLE_IS_FULL "(one node too many)"

/* --- where to instead ----------------------------------------------------------------------------
 */

/* What a node of a cluster answers when it does not execute a command. */
enum { WEIR_REDIS_SLOTS = 16384, WEIR_REDIS_HOST_MOST = 255 };

/* After each of them the command was not executed, and may go again. */
typedef enum weir_redirect_kind {
  WEIR_REDIRECT_MOVED,      /* that node owns the slot */
  WEIR_REDIRECT_ASK,        /* that node may have the key, for now; the owner stays */
  WEIR_REDIRECT_TRYAGAIN,   /* the same node, a little later */
  WEIR_REDIRECT_CLUSTERDOWN /* this node knows no owner, or cannot reach enough of the others */
} weir_redirect_kind;

/* slot, host and port: of MOVED and ASK. */
typedef struct weir_redirect {
  weir_redirect_kind kind;
  uint16_t slot;
  bool unknown; /* the node knows no name for the other: "?" */
  uint16_t port;
  const char *host; /* in the text, without brackets */
  size_t length;    /* 0: where you asked */
} weir_redirect;

/* Reads the text of an error. False: it is none of these, or not in a form that a node writes.
 * Taken as well: a prefix "ERR ", IPv6 with brackets and without, white space at the end. */
bool weir_redirect_read(const char *text, size_t length, weir_redirect *redirect);

#endif
