#include "store/builtin.h"

#include <stddef.h>

extern const weir_backend weir_memory_backend;
extern const weir_backend weir_memcached_backend;
extern const weir_backend weir_redis_backend;

const weir_backend *const weir_builtin_backends[] = {
    &weir_memory_backend,
#ifdef WEIR_WITH_MEMCACHED
    &weir_memcached_backend,
#endif
#ifdef WEIR_WITH_REDIS
    &weir_redis_backend,
#endif
    NULL,
};
