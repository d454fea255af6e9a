#ifndef WEIR_MEMCACHED_MEMCACHED_H
#define WEIR_MEMCACHED_MEMCACHED_H

#include <weir/backend.h>

/* memcached servers and proxies for them. Options: protocol=auto|meta|classic,
 * distribution=ketama-weighted|ketama|modula, discovery=on|off. */
extern const weir_backend weir_memcached_backend;

#endif
