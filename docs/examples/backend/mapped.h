/* Counts in a file that the processes of one machine map: limits that they share without a server.
 *
 *     mapped:///dev/shm/limits?slots=65536
 *
 * slots: how many keys there is room for when the file is made, 16 to 16777216, 304 bytes each. */
#ifndef MAPPED_H
#define MAPPED_H

#include <weir/backend.h>

extern const weir_backend mapped_backend; /* for weir_store_open_backend() */

#endif
