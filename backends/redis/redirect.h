/* What a node of a cluster answers when it does not execute a command: pure functions of text. */
#ifndef WEIR_REDIS_REDIRECT_H
#define WEIR_REDIS_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
