#include "cluster/parting.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster/load.h"

#define SOURCE "127.0.0.2"
enum { HEARD_MS = 60000 };

__attribute__((format(printf, 3, 4))) static void tell(const parting *self, size_t node,
                                                       const char *format, ...) {
  char text[TEXT_BYTES];
  va_list words;
  va_start(words, format);
  vsnprintf(text, sizeof text, format, words);
  va_end(words);
  cluster_do(self->nodes, node, text);
}

/* Where node 0 comes from must not become its address, so that is said first; nor is it what servers
 * without a password take for this machine. */
static void announce(parting *self) {
  const cluster *nodes = self->nodes;
  for (size_t i = 0; i < nodes->count; i++) {
    tell(self, i, "CONFIG SET cluster-announce-ip 127.0.0.1");
    tell(self, i, "CONFIG SET protected-mode no");
  }
  tell(self, 0, "CONFIG SET bind-source-addr " SOURCE);
  tell(self, 0, "CONFIG SET cluster-announce-port %u", (unsigned)proxy_port(&self->clients));
  for (size_t i = 0; i < nodes->count; i++)
    tell(self, i, "CONFIG SET cluster-announce-bus-port %u", (unsigned)proxy_port(&self->buses[i]));
}

static void await_announced(parting *self) {
  char address[TEXT_BYTES];
  for (size_t i = 0; i < self->nodes->count; i++) {
    unsigned port = i == 0 ? proxy_port(&self->clients) : cluster_port(self->nodes, i);
    fixture_write(address, "127.0.0.1:%u@%u", port, (unsigned)proxy_port(&self->buses[i]));
    for (size_t asked = 0; asked < self->nodes->count; asked++)
      if (!cluster_await_known(self->nodes, asked, address, HEARD_MS))
        load_fail("node %zu does not hear that node %zu is at %s", asked, i, address);
  }
}

void parting_start(parting *made, const cluster *nodes) {
  memset(made, 0, sizeof *made);
  made->nodes = nodes;
  for (size_t i = 0; i < nodes->count; i++) {
    made->behind[i] = (struct server){.address = nodes->buses[i]};
    proxy_start(&made->buses[i], &made->behind[i], PROXY_OPEN);
  }
  proxy_start(&made->clients, nodes->nodes[0], PROXY_OPEN);
  announce(made);
  await_announced(made);
  cluster_await_agreement(nodes, 0);
  cluster_await_ok(nodes, 0);
}

static void set(parting *self, proxy_mode mode, in_addr_t parted) {
  for (size_t i = 1; i < self->nodes->count; i++) {
    atomic_store(&self->buses[i].parted, parted);
    proxy_set(&self->buses[i], PROXY_OPEN);
  }
  proxy_set(&self->buses[0], mode);
  proxy_set(&self->clients, mode);
}

void parting_cut(parting *self) {
  set(self, PROXY_SILENT, inet_addr(SOURCE));
}

void parting_heal(parting *self) {
  set(self, PROXY_OPEN, 0);
}

void parting_stop(parting *done) {
  for (size_t i = 0; i < done->nodes->count; i++)
    proxy_stop(&done->buses[i]);
  proxy_stop(&done->clients);
}
