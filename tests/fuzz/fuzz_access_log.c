/* Any bytes as a line of an access log: a time and a key within the line, or a message. */
#include <stdint.h>
#include <string.h>

#include "cli/access_log.h"
#include "fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t size, weir_access_key key) {
  static const int64_t most_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  weir_access access;
  weir_message message = {{0}};
  if (!weir_access_log_parse(text, size, key, &access, &message)) {
    require_readable(&message);
    return;
  }
  require(message.text[0] == '\0');
  require(access.time_us >= 0 && access.time_us <= most_us);
  if (access.key_length == 0) return;
  require(access.key >= text && access.key + access.key_length <= text + size);
  require(memchr(access.key, '\0', access.key_length) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse((const char *)data, size, WEIR_ACCESS_CLIENT);
  parse((const char *)data, size, WEIR_ACCESS_USER);
  parse((const char *)data, size, WEIR_ACCESS_PATH);
  return 0;
}
