/* Have files changed? Looks at what a name leads to: device, inode, size and time, so a symbolic
 * link that is turned elsewhere counts (mounted ConfigMaps), as do replaced and rewritten files. */
#ifndef WEIR_CONFIG_WATCH_H
#define WEIR_CONFIG_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

typedef struct weir_config_watch weir_config_watch;

/* Remembers config->watched as they are now: begin before the files are read, or look again after.
 * NULL: no memory. */
weir_config_watch *weir_config_watch_create(const weir_config *config);
void weir_config_watch_destroy(weir_config_watch *watch);

/* Whether any of them is another than at the last look; the first look compares with the moment the
 * configuration was read. A file that is gone counts once as changed. One stat() per file; call it
 * once a second, from one thread. */
bool weir_config_watch_look(weir_config_watch *watch);

#endif
