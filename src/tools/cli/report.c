/* How a command speaks to people, on stderr and on terminals. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { PROGRESS_FIRST_AFTER_MS = 1000, PROGRESS_EVERY_MS = 200 };

/* --- errors ---------------------------------------------------------------------------------- */

void weir_cli_error(const char *format, ...) {
  char text[2 * WEIR_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);

  fprintf(stderr, "%sweir:%s ", weir_cli_colour_on(stderr, WEIR_CLI_RED),
          weir_cli_colour_on(stderr, WEIR_CLI_PLAIN));
  for (const char *c = text; *c != '\0'; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte < 0x20 || byte >= 0x7f)
      fprintf(stderr, "\\x%02x", byte);
    else
      fputc(byte, stderr);
  }
  fputc('\n', stderr);
}

int weir_cli_fail(const char *place, weir_status status, const weir_message *message) {
  bool caller = weir_status_classify(status) == WEIR_CLASS_CALLER;
  bool explained = message->text[0] != '\0';
  /* Whether something was charged stands in the status; what a caller got wrong, in the message. */
  if (caller && explained)
    weir_cli_error("%s%s", place, message->text);
  else
    weir_cli_error("%s%s%s%s", place, weir_status_text(status), explained ? ": " : "",
                   message->text);
  return caller ? WEIR_EXIT_USAGE : WEIR_EXIT_NO_DECISION;
}

int weir_cli_fail_memory(void) {
  return weir_cli_fail("", WEIR_NO_MEMORY, &(weir_message){""});
}

int weir_cli_flush(void) {
  if (!ferror(stdout) && fflush(stdout) == 0) return 0;
  weir_cli_error("the output cannot be written: %s", strerror(errno));
  return WEIR_EXIT_NO_DECISION;
}

/* --- what stood in the input ------------------------------------------------------------------ */

void weir_cli_print_key(FILE *out, const char *key, size_t length, size_t most) {
  size_t shown = length < most ? length : most;
  for (size_t at = 0; at < shown;) {
    size_t end = at;
    while (end < shown && key[end] > ' ' && key[end] < 0x7f && key[end] != '\\')
      end++;
    fwrite(key + at, 1, end - at, out); /* most keys are all plain */
    if (end < shown) fprintf(out, "\\x%02x", (unsigned char)key[end++]);
    at = end;
  }
  if (shown < length) fputs("...", out);
}

weir_cli_shown weir_cli_show(const char *argument) {
  weir_cli_shown shown;
  const char *at = strrchr(argument, '@'), *colon = strchr(argument, ':');
  /* A store URL may hold a password, also one that lacks its slashes, its scheme or its '@'. Other
   * arguments may hold an '@' (keys, names of files), but no ':' before it. */
  bool store = strncmp(argument, "redis", 5) == 0 || strncmp(argument, "memcached", 9) == 0;
  bool secret = strstr(argument, "://") != NULL || (store && (at != NULL || colon != NULL)) ||
                (at != NULL && colon != NULL && colon < at);
  if (secret) {
    size_t scheme = strspn(argument, "abcdefghijklmnopqrstuvwxyz+"); /* which is no secret */
    scheme = strncmp(argument + scheme, "://", 3) == 0 ? scheme + 3 : 0;
    snprintf(shown.text, sizeof shown.text, "%.*s***", (int)scheme, argument);
  } else {
    snprintf(shown.text, sizeof shown.text, "%.*s%s", WEIR_CLI_SHOWN_MOST, argument,
             strlen(argument) > WEIR_CLI_SHOWN_MOST ? "..." : "");
  }
  return shown;
}

void weir_cli_format_time(int64_t time_us, char text[WEIR_CLI_TIME_BYTES]) {
  time_t seconds = (time_t)(time_us / 1000000);
  struct tm parts = {0};
  gmtime_r(&seconds, &parts);
  size_t end = strftime(text, WEIR_CLI_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &parts);
  int ms = (int)(time_us / 1000 % 1000);
  if (ms != 0) snprintf(text + end, WEIR_CLI_TIME_BYTES - end, ".%03d", ms);
}

/* --- terminals ------------------------------------------------------------------------------- */

const char *weir_cli_colour_on(FILE *stream, weir_cli_colour colour) {
  static const char *const sequences[] = {[WEIR_CLI_PLAIN] = "\033[0m",
                                          [WEIR_CLI_BOLD] = "\033[1m",
                                          [WEIR_CLI_GREEN] = "\033[32m",
                                          [WEIR_CLI_YELLOW] = "\033[33m",
                                          [WEIR_CLI_RED] = "\033[31m"};
  const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");
  if (refused != NULL && refused[0] != '\0') return "";
  if (terminal == NULL || strcmp(terminal, "dumb") == 0) return "";
  return isatty(fileno(stream)) ? sequences[colour] : "";
}

static int64_t monotonic_ms(void) {
  return weir_clock_us(CLOCK_MONOTONIC) / 1000;
}

void weir_cli_progress_begin(weir_cli_progress *progress, bool quiet, bool prints) {
  bool shows_itself = prints && isatty(STDOUT_FILENO);
  *progress = (weir_cli_progress){.enabled = !quiet && !shows_itself && isatty(STDERR_FILENO)};
  if (!progress->enabled) return;
  progress->begin_ms = monotonic_ms();
  progress->next_ms = progress->begin_ms + PROGRESS_FIRST_AFTER_MS;
}

bool weir_cli_progress_is_due(weir_cli_progress *progress) {
  if (!progress->enabled) return false;
  int64_t now_ms = monotonic_ms();
  if (now_ms < progress->next_ms) return false;
  progress->next_ms = now_ms + PROGRESS_EVERY_MS;
  return true;
}

void weir_cli_progress_show(weir_cli_progress *progress, uint64_t lines_done, double share) {
  /* at least PROGRESS_FIRST_AFTER_MS have passed, so the divisor is not 0 */
  int64_t passed_ms = monotonic_ms() - progress->begin_ms;
  progress->shown = true;
  double left_s = share > 0 ? (double)passed_ms / 1000 * (1 - share) / share : 0;
  bool long_yet = left_s >= 120;
  char left[64] = "";
  if (share > 0)
    snprintf(left, sizeof left, ", %.0f%%, %.0f %s left", share * 100,
             long_yet ? left_s / 60 : left_s, long_yet ? "min" : "s");
  fprintf(stderr, "\r%" PRIu64 " lines, %" PRIu64 " lines/s%s\033[K", lines_done,
          lines_done * 1000 / (uint64_t)passed_ms, left);
}

void weir_cli_progress_end(weir_cli_progress *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
}
