/* Text from anywhere, made fit for a terminal. */
#include "shown.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(char byte) {
  return byte > ' ' && byte < 0x7f && byte != '\\';
}

void weir_cli_print_key(FILE *out, const char *key, size_t length, size_t most) {
  size_t shown = length < most ? length : most;
  for (size_t at = 0; at < shown;) {
    size_t end = at;
    while (end < shown && is_plain(key[end]))
      end++;
    fwrite(key + at, 1, end - at, out); /* most keys are all plain */
    if (end < shown) fprintf(out, "\\x%02x", (unsigned char)key[end++]);
    at = end;
  }
  if (shown < length) fputs("...", out);
}

/* A scheme is no secret. */
static size_t scheme_length(const char *argument) {
  size_t length = strspn(argument, "abcdefghijklmnopqrstuvwxyz+");
  return strncmp(argument + length, "://", 3) == 0 ? length + 3 : 0;
}

/* A store URL, also one that lacks its slashes, its scheme or its '@'. Other arguments may hold an
 * '@' (keys, names of files), but no ':' before it. */
static bool may_hold_a_password(const char *argument) {
  const char *at = strrchr(argument, '@');
  const char *colon = strchr(argument, ':');
  bool store = strncmp(argument, "redis", 5) == 0 || strncmp(argument, "memcached", 9) == 0;
  return strstr(argument, "://") != NULL || (store && (at != NULL || colon != NULL)) ||
         (at != NULL && colon != NULL && colon < at);
}

weir_cli_shown weir_cli_show(const char *argument) {
  weir_cli_shown shown;
  if (may_hold_a_password(argument))
    snprintf(shown.text, sizeof shown.text, "%.*s***", (int)scheme_length(argument), argument);
  else
    snprintf(shown.text, sizeof shown.text, "%.*s%s", WEIR_CLI_SHOWN_MOST, argument,
             strlen(argument) > WEIR_CLI_SHOWN_MOST ? "..." : "");
  return shown;
}
