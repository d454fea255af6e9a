/* Have files changed? Looks at what a name leads to: device, inode, size and time, so a symbolic
 * link that is turned elsewhere counts (mounted ConfigMaps), as do replaced and rewritten files. */
#ifndef WEIR_CONFIG_WATCH_H
#define WEIR_CONFIG_WATCH_H

#include <stdbool.h>

#include "config/config.h"

typedef struct weir_config_watch weir_config_watch;

/* Watches config->files, from the moment each was read. NULL: no memory. */
weir_config_watch *weir_config_watch_create(const weir_config *config);
void weir_config_watch_destroy(weir_config_watch *watch);

/* Whether any of them is another than at the last look. One that is gone counts once. One stat() a
 * file; call it once a second. One thread at a time. */
bool weir_config_watch_look(weir_config_watch *watch);

/* Sets what the name leads to now; whether that is another than before. */
bool weir_config_file_look(weir_config_file *file);

#endif
