/* Feeds the reader of what a configuration endpoint answers, whole and byte by byte. */
#include <stdint.h>
#include <stdio.h>

#include "fuzz/require.h"
#include "memcached/memcached.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static weir_discovery discovery;

static void check_hosts(void) {
  require(discovery.host_count >= 1 && discovery.host_count <= WEIR_DISCOVERY_SERVERS_MOST);
  for (size_t i = 0; i < discovery.host_count; i++) {
    const weir_url_host *host = &discovery.hosts[i];
    size_t length = strlen(host->name);
    require(length >= 1 && length <= 253 && host->port >= 1 && host->weight == 1);
    for (size_t at = 0; at < length; at++)
      require(host->name[at] > ' ' && host->name[at] < 0x7f && host->name[at] != '|');
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weir_message message = {""};
  bool whole = false;
  if (size > WEIR_DISCOVERY_BYTES_MOST) return -1;
  discovery.length = 0;
  while (!whole && discovery.length < size) {
    discovery.answer[discovery.length] = (char)data[discovery.length];
    discovery.length++;
    whole = weir_discovery_is_whole(&discovery);
  }
  if (weir_discovery_read(&discovery, &message)) {
    require(whole);
    check_hosts();
  } else {
    require_readable(&message);
  }
  return 0;
}
