/* The operations of weir/backend.h on a table. */
#ifndef WEIR_MEMORY_OPERATIONS_H
#define WEIR_MEMORY_OPERATIONS_H

#include <weir/backend.h>

#include "memory/table.h"

/* Executes one operation at now_us. An entry that it writes gets `version`, which no entry had
 * before. */
void weir_memory_execute(weir_memory_table *table, weir_memory_fingerprint fingerprint,
                         int64_t now_us, uint64_t version, weir_operation *operation,
                         weir_message *message);

#endif
