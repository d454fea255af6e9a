/* Any bytes as a line of a trace: a request within its ranges, or a message, which quotes the bytes
 * as they are: the program spells them out where it shows them. */
#include <stdint.h>
#include <string.h>

#include "fuzz/require.h"
#include "logs/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  weir_trace_request request;
  weir_message message = {{0}};
  if (!weir_trace_line_parse(text, size, &request, &message)) {
    require(message.text[0] != '\0' && memchr(message.text, '\0', sizeof message.text) != NULL);
    return 0;
  }
  require(message.text[0] == '\0');
  require(request.time_ms >= 0 && request.time_ms <= WEIR_TRACE_TIME_MOST_MS);
  require(request.leaves + request.estimates + request.settles <= 1);
  require(request.leaves ? request.cost == 0 : request.cost >= (request.settles ? 0 : 1));
  require(request.cost <= WEIR_TRACE_COST_MOST);
  require(request.key > text && request.key_length >= 1);
  require(request.key + request.key_length <= text + size);
  require(memchr(request.key, '\0', request.key_length) == NULL);
  require(memchr(request.key, ' ', request.key_length) == NULL);
  require(memchr(request.key, '\t', request.key_length) == NULL);
  return 0;
}
