/* What both kinds of reports are made of. */
#ifndef WEIR_MONITOR_SOURCES_H
#define WEIR_MONITOR_SOURCES_H

#include <stdbool.h>

#include <weir/monitor.h>

/* WEIR_OK, or which source is not accepted and why. */
weir_status weir_monitor_check(const weir_monitor_source *sources, size_t count,
                               weir_message *message);

/* Reads a server; false: the store has no such server. The name of one that has none is its index,
 * written to `text`. */
enum { WEIR_SERVER_INDEX_BYTES = 24 };
bool weir_monitor_read_server(const weir_store *store, size_t index, weir_server_state *state,
                              char text[WEIR_SERVER_INDEX_BYTES]);

#endif
