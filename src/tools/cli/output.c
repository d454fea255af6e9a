/* Runs gnuplot, and feeds it; and prints JSON. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

/* --- pictures -----------------------------------------------------------------------------------
 */

extern char **environ;

bool weir_cli_gnuplot_check(const char *path) {
  int picture = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool made = picture >= 0;
  if (!made && errno == EEXIST) picture = open(path, O_WRONLY | O_CLOEXEC);
  if (picture < 0) {
    weir_cli_error("--plot %s: %s", weir_cli_show(path).text, strerror(errno));
    return false;
  }
  close(picture);
  if (made) unlink(path);
  return true;
}

FILE *weir_cli_gnuplot_begin(void) {
  FILE *script = tmpfile();
  if (script == NULL)
    weir_cli_error("no temporary file for the plot's script: %s", strerror(errno));
  return script;
}

void weir_cli_gnuplot_page(FILE *script, int width, int height) {
  fprintf(script,
          "set terminal svg size %d,%d font 'sans,13' background '#ffffff' noenhanced\n"
          "set encoding utf8\nset grid ytics lc rgb '#dddddd'\nset border 3\nset tics nomirror\n",
          width, height);
}

/* Within single quotes, where gnuplot takes everything but a quote as it is; quotes of either kind
 * are spelled out, because a doubled one at the begin of a string ends it. */
void weir_cli_gnuplot_quote(FILE *script, const char *text, size_t length) {
  fputc('\'', script);
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\'' || text[i] == '`')
      fprintf(script, "\\x%02x", (unsigned)text[i]);
    else if (text[i] == ' ')
      fputc(' ', script);
    else
      weir_cli_print_key(script, text + i, 1, 1);
  }
  fputc('\'', script);
}

/* Its stdin is the script, its stdout the picture; 0, or an errno. */
static int start_gnuplot(FILE *script, int picture, pid_t *child) {
  static char name[] = "gnuplot", dash[] = "-";
  char *arguments[] = {name, dash, NULL};
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, picture, STDOUT_FILENO);
  if (error == 0) error = posix_spawnp(child, name, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static int draw(FILE *script, const char *path) {
  pid_t child;
  int status;
  if (fflush(script) != 0 || lseek(fileno(script), 0, SEEK_SET) != 0) {
    weir_cli_error("the plot's script cannot be written: %s", strerror(errno));
    return WEIR_EXIT_NO_DECISION;
  }
  int picture = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (picture < 0) {
    weir_cli_error("--plot %s: %s", weir_cli_show(path).text, strerror(errno));
    return WEIR_EXIT_USAGE;
  }
  int error = start_gnuplot(script, picture, &child);
  close(picture);
  if (error != 0) {
    weir_cli_error("gnuplot, which draws the plot, cannot be started: %s", strerror(error));
    unlink(path);
    return WEIR_EXIT_NO_DECISION;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  weir_cli_error("gnuplot failed to draw %s", weir_cli_show(path).text);
  return WEIR_EXIT_NO_DECISION;
}

int weir_cli_gnuplot_draw(FILE *script, const char *path) {
  int exit_status = draw(script, path);
  fclose(script);
  return exit_status;
}

/* --- JSON ---------------------------------------------------------------------------------------
 *
 * Prints JSON: one object a line, numbers with as many digits as they mean. */

enum { NAME_BYTES = 64 };

static char *encode_base64(const unsigned char *bytes, size_t length, size_t *text_length) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  *text_length = (length + 2) / 3 * 4; /* bytes in memory are far below SIZE_MAX / 2 */
  char *text = malloc(*text_length + 1);
  if (text == NULL) return NULL;
  char *out = text;
  for (size_t i = 0; i < length; i += 3) {
    size_t present = length - i < 3 ? length - i : 3;
    unsigned group = (unsigned)bytes[i] << 16;
    if (present > 1) group |= (unsigned)bytes[i + 1] << 8;
    if (present > 2) group |= bytes[i + 2];
    *out++ = digits[group >> 18];
    *out++ = digits[group >> 12 & 63];
    *out++ = present > 1 ? digits[group >> 6 & 63] : '=';
    *out++ = present > 2 ? digits[group & 63] : '=';
  }
  *out = '\0';
  return text;
}

bool weir_cli_json_set_bytes(json_t *object, const char *name, const char *bytes, size_t length) {
  json_t *value = json_stringn(bytes, length);
  if (value != NULL) return json_object_set_new(object, name, value) == 0;
  char base64_name[NAME_BYTES];
  size_t text_length;
  char *text = encode_base64((const unsigned char *)bytes, length, &text_length);
  if (text == NULL) return false;
  snprintf(base64_name, sizeof base64_name, "%s_base64", name);
  bool set = json_object_set_new(object, base64_name, json_stringn(text, text_length)) == 0;
  free(text);
  return set;
}

bool weir_cli_json_print(FILE *out, const json_t *object, unsigned digits) {
  if (object == NULL) return false;
  char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits));
  if (text == NULL) return false;
  for (const char *at = text; *at != '\0';) {
    size_t plain = strcspn(at, "\x7f"); /* the one control byte that JSON lets stand */
    fwrite(at, 1, plain, out);
    at += plain;
    if (*at != '\0') fputs("\\u007f", out);
    at += *at != '\0';
  }
  fputc('\n', out); /* a lost write stays visible in ferror(out) */
  free(text);
  return true;
}
