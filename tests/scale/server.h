/* A server in virtual time, and the network before it: one server, which executes what arrives in
 * that order, for as many clients as there are. The counters are those of src/tools/simulate/driver.c. */
#ifndef TESTS_SCALE_SERVER_H
#define TESTS_SCALE_SERVER_H

#include <weir/backend.h>

#include "simulate/driver.h"

struct server {
  weir_slots places[WEIR_PLACES];
  uint64_t version;
  int64_t free_at_us; /* done with all that has arrived */
  int64_t owed_ns;    /* of its time, below a microsecond */
  uint64_t commands;

  /* Settings. */
  bool raises;        /* as Redis does; else it swaps, as memcached does */
  int64_t command_ns; /* of its time */
  int64_t way_us;     /* of a message, in the mean: each takes half of that to one and a half */
  int64_t lost_ppm;   /* of questions, and of answers */
};

/* A client's end of it. */
struct line {
  struct server *server;
  bool dead; /* its process is: nothing leaves any more */
};

void server_clean_up(struct server *server);

/* It is started anew, empty. */
void server_forget(struct server *server);

/* A store handle whose operations go that way. */
weir_status line_open(struct line *line, weir_store **store, weir_message *message);

#endif
