/* Counts by the values of requests, for descriptors whose file asks so (detailed_metric,
 * value_to_metric). All loops share them; they are those of one snapshot. Any thread. */
#ifndef WEIR_REGISTRY_DETAILS_H
#define WEIR_REGISTRY_DETAILS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
  WEIR_DETAILS_MOST = 1000, /* paths of one domain; what comes then is "other" */
  WEIR_DETAIL_BYTES = 512   /* of one path; a longer one is "other", too */
};

typedef struct weir_detail {
  _Atomic uint64_t within, over, shadow, none;
  _Atomic uint64_t near; /* of those within: more than four fifths are used up */
  size_t length;
  char path[]; /* ends with a NUL */
} weir_detail;

typedef struct weir_details weir_details; /* of one domain */

weir_details *weir_details_create(void);          /* NULL: no memory */
void weir_details_destroy(weir_details *details); /* NULL is fine */

/* Never NULL: for what finds no room it is "other". It stays until all are destroyed. */
weir_detail *weir_details_find(weir_details *details, const char *path, size_t length);

/* The first is "other"; NULL: there are no more. */
const weir_detail *weir_details_at(const weir_details *details, size_t index);

#endif
