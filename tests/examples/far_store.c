/* far_store MS COMMAND [ARGUMENT...]: runs a command with a private memcached whose answers take so
 * many milliseconds, named by WEIR_TEST_FAR, and exits as the command does. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture/proxy.h"
#include "fixture/servers.h"

int main(int argc, char **argv) {
  static proxy between;
  char url[64];
  int status = -1;
  if (argc < 3) return 2;
  proxy_start(&between, server_start_memcached(SERVER_IPV4, NULL), PROXY_OPEN);
  between.delay_ms = (int)strtol(argv[1], NULL, 10);
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u", proxy_port(&between));
  setenv("WEIR_TEST_FAR", url, 1);
  pid_t pid = fork();
  if (pid == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  if (pid > 0) waitpid(pid, &status, 0);
  proxy_stop(&between);
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
