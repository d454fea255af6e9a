#include "limiter/relay.h"

#include <ctype.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENT, SERVER, STOP, SIDES };

static void count_commands(relay *mine, const char *bytes, ssize_t length) {
  for (ssize_t i = 0; i < length; i++) {
    if (!mine->inside_line && isalpha((unsigned char)bytes[i]))
      atomic_fetch_add(&mine->commands, 1);
    mine->inside_line = bytes[i] != '\n';
  }
}

/* Passes on what can be read; false when that side has hung up. */
static bool pass(relay *mine, int from, int to, bool client_speaks) {
  char bytes[65536];
  ssize_t length = recv(from, bytes, sizeof bytes, 0);
  if (client_speaks) count_commands(mine, bytes, length);
  for (ssize_t sent = 0; sent < length;) {
    ssize_t more = send(to, bytes + sent, (size_t)(length - sent), MSG_NOSIGNAL);
    if (more < 0) return false;
    sent += more;
  }
  return length > 0;
}

/* One connection, until either side ends it. False: stop. */
static bool serve(relay *mine, int client, int server) {
  struct pollfd fds[SIDES] = {{.fd = client, .events = POLLIN},
                              {.fd = server, .events = POLLIN},
                              {.fd = mine->stop[0], .events = POLLIN}};
  bool client_speaks = false;
  mine->inside_line = false;
  while (poll(fds, SIDES, -1) > 0) {
    if (fds[STOP].revents != 0) return false;
    if (fds[SERVER].revents != 0) {
      client_speaks = false;
      if (!pass(mine, server, client, false)) return true;
    }
    if (fds[CLIENT].revents != 0) {
      if (!client_speaks) atomic_fetch_add(&mine->round_trips, 1);
      client_speaks = true;
      if (!pass(mine, client, server, true)) return true;
    }
  }
  return false;
}

static void *run(void *context) {
  relay *mine = context;
  struct pollfd fds[] = {{.fd = mine->listener, .events = POLLIN},
                         {.fd = mine->stop[0], .events = POLLIN}};
  for (bool go_on = true; go_on;) {
    if (poll(fds, 2, -1) < 1 || fds[1].revents != 0) break;
    int client = accept(mine->listener, NULL, NULL);
    int server = server_connect(mine->server);
    go_on = client >= 0 && server >= 0 && serve(mine, client, server);
    close(client);
    close(server);
  }
  return NULL;
}

bool relay_start(relay *made, const struct server *server) {
  int yes = 1;
  *made = (relay){.server = server};
  if (address_take_port(&made->address, SERVER_IPV4) != 0) return false;
  made->listener = socket(AF_INET, SOCK_STREAM, 0);
  return setsockopt(made->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
         bind(made->listener, &made->address.socket.any, made->address.socket_bytes) == 0 &&
         listen(made->listener, 8) == 0 && pipe(made->stop) == 0 &&
         pthread_create(&made->thread, NULL, run, made) == 0;
}

void relay_stop(relay *done) {
  close(done->stop[1]);
  pthread_join(done->thread, NULL);
  close(done->stop[0]);
  close(done->listener);
  address_release(&done->address);
}
