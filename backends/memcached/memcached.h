#ifndef WEIR_MEMCACHED_MEMCACHED_H
#define WEIR_MEMCACHED_MEMCACHED_H

#include "memcached/codec.h"

/* memcached servers and proxies for them. Options: protocol=auto|meta|classic,
 * distribution=ketama-weighted|ketama|modula, discovery=on|off. */
extern const weir_backend weir_memcached_backend;

/* Asks the server that `wire` leads to what no operation shows, and reports. */
void weir_memcached_inspect(weir_wire *wire, const weir_memcached_login *login,
                            const weir_inspection *inspection);

#endif
