/* Any bytes as the text of a redirection: nothing is read beyond them, and what is read is a slot,
 * a port and a host that may stand in a URL. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "redis/refusal.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_redirect redirect;
  char *text = malloc(size + 1); /* of its own, so that reading past it is seen */
  if (text == NULL) return 0;
  memcpy(text, data, size);
  if (weir_redirect_read(text, size, &redirect)) {
    bool names = redirect.kind == WEIR_REDIRECT_MOVED || redirect.kind == WEIR_REDIRECT_ASK;
    require(redirect.slot < WEIR_REDIS_SLOTS);
    require(redirect.length <= WEIR_REDIS_HOST_MOST);
    require(!names || redirect.unknown || redirect.port > 0);
    for (size_t i = 0; i < redirect.length; i++)
      require(redirect.host[i] > ' ' && redirect.host[i] <= '~' && redirect.host[i] != '/' &&
              redirect.host[i] != '@');
    require(redirect.length == 0 ||
            (redirect.host >= text && redirect.host + redirect.length <= text + size));
  }
  free(text);
  return 0;
}
