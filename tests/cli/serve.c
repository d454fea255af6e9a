/* serve KIND [ARGUMENT...]: one private server for a test in another language. Prints its store
 * URL; then obeys the lines "stop", "continue", "kill" and "restart" (in the same place, with
 * nothing remembered), and answers each with "done", until its input ends.
 *
 *   memcached|redis ARGUMENT...               with these on its command line
 *   memcached-tls|redis-tls ARGUMENT...
 *   memcached-proxy|redis-proxy LINE...       a twemproxy with these settings, before three */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture/server.h"

enum { BEHIND = 3 };

static const char *const none[] = {NULL};

static struct server *start_proxy(bool redis, char **lines) {
  struct server *behind[BEHIND];
  for (size_t i = 0; i < BEHIND; i++)
    behind[i] =
        redis ? server_start_redis(SERVER_IPV4, none) : server_start_memcached(SERVER_IPV4, none);
  struct server *proxy = fixture_make(SERVER_IPV4, behind[0]->scheme, behind[0]->probe);
  char path[TEXT_BYTES];
  char port[TEXT_BYTES];
  fixture_write(path, "%s/%u.yml", fixture_folder(), fixture_count());
  if (address_take_port(&proxy->monitor, SERVER_IPV4) != 0) fixture_fail("no free port");
  fixture_write(port, "%u", (unsigned)address_port(&proxy->monitor));
  FILE *file = fopen(path, "w");
  if (file == NULL) fixture_fail("cannot write %s", path);
  fprintf(file, "weir:\n  listen: %s\n  distribution: ketama\n  timeout: 5000\n  redis: %s\n",
          proxy->host, redis ? "true" : "false");
  for (; *lines != NULL; lines++)
    fprintf(file, "  %s\n", *lines);
  fputs("  servers:\n", file);
  for (size_t i = 0; i < BEHIND; i++)
    fprintf(file, "   - %s:1\n", behind[i]->host);
  if (fclose(file) != 0) fixture_fail("cannot write %s", path);
  fixture_add_arguments(proxy,
                        (const char *const[]){"nutcracker", "-c", path, "-o", proxy->log_path, "-a",
                                              "127.0.0.1", "-s", port, NULL});
  fixture_launch(proxy);
  return proxy;
}

static struct server *start(const char *kind, char **arguments, bool *secure) {
  const char *const *given = (const char *const *)arguments;
  *secure = strstr(kind, "-tls") != NULL;
  if (strcmp(kind, "memcached") == 0) return server_start_memcached(SERVER_IPV4, given);
  if (strcmp(kind, "redis") == 0) return server_start_redis(SERVER_IPV4, given);
  if (strcmp(kind, "memcached-tls") == 0)
    return server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER, given);
  if (strcmp(kind, "redis-tls") == 0)
    return server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, given);
  if (strcmp(kind, "memcached-proxy") == 0) return start_proxy(false, arguments);
  if (strcmp(kind, "redis-proxy") == 0) return start_proxy(true, arguments);
  fixture_fail("no kind of server: %s", kind);
}

static void obey(struct server *server, const char *order) {
  if (strcmp(order, "stop\n") == 0)
    server_stop(server);
  else if (strcmp(order, "continue\n") == 0)
    server_continue(server);
  else if (strcmp(order, "kill\n") == 0)
    server_kill(server);
  else if (strcmp(order, "restart\n") == 0)
    server_restart(server);
  else
    fixture_fail("no order: %s", order);
  puts("done");
}

int main(int count, char **arguments) {
  bool secure;
  char query[SERVER_URL_BYTES];
  char url[SERVER_URL_BYTES];
  char line[TEXT_BYTES];
  if (count < 2) fixture_fail("usage: serve KIND [ARGUMENT...]");
  struct server *server = start(arguments[1], arguments + 2, &secure);
  if (secure) snprintf(query, sizeof query, "tls-ca=%s", certificate_file(CERTIFICATE_CA));
  server_url(&server, 1, secure ? query : NULL, url);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts(url);
  while (fgets(line, sizeof line, stdin) != NULL)
    obey(server, line);
  return 0;
}
