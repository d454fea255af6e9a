/* with_cluster COMMAND [ARGUMENT...]: runs it beside a real cluster of three masters, whose store
 * URL is in WEIR_TEST_CLUSTER. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture/cluster.h"

int main(int count, char **arguments) {
  static cluster nodes;
  char url[SERVER_URL_BYTES];
  int status = 0;
  if (count < 2) {
    fputs("usage: with_cluster COMMAND [ARGUMENT...]\n", stderr);
    return 2;
  }
  cluster_start(&nodes, &(cluster_options){.replicas = 0}, false);
  cluster_url(&nodes, NULL, url);
  setenv("WEIR_TEST_CLUSTER", url, 1);
  pid_t child = fork();
  if (child == 0) {
    execvp(arguments[1], arguments + 1);
    perror(arguments[1]);
    _exit(127);
  }
  bool ended = child > 0 && waitpid(child, &status, 0) == child;
  cluster_stop(&nodes);
  return ended && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
