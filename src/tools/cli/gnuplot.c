/* Runs gnuplot, and feeds it. */
#include "gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

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
