#include "scale/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/virtual.h"

/* A message is sent at once, and has its answer. Its sender may have left when it lands. */
struct message {
  struct server *server;
  size_t count;
  bool sent; /* its way there is not over */
  bool left; /* the sender has */
  bool answered;
  weir_operation operations[];
};

void server_clean_up(struct server *server) {
  weir_slots_clean_up(server->places);
}

void server_forget(struct server *server) {
  weir_slots_clean_up(server->places);
}

/* --- the server --------------------------------------------------------------------------------
 */

/* As docs/redis-commands.md has them; memcached's are one each. */
static unsigned commands_of(const struct server *server, const weir_operation *operation) {
  if (!server->raises) return 1;
  switch (operation->kind) {
    case WEIR_RAISE:
      return operation->refresh ? 3 : 2;
    case WEIR_ADD:
      return 2;
    case WEIR_SUB:
      return operation->raised ? 1 : 3;
    default:
      return 1;
  }
}

static int64_t way_us(const struct server *server) {
  return server->way_us / 2 + virtual_below(server->way_us + 1);
}

static bool is_lost(const struct server *server) {
  return virtual_below(1000000) < server->lost_ppm;
}

static void deliver(void *subject) {
  struct message *message = subject;
  if (message->left) {
    free(message);
    return;
  }
  message->answered = true;
  virtual_wake(message);
}

/* One command at a time. Returns when it is done with these. */
static int64_t take_time(struct server *server, unsigned commands) {
  int64_t now_us = virtual_now_us();
  if (server->free_at_us < now_us) server->free_at_us = now_us;
  server->owed_ns += commands * server->command_ns;
  server->free_at_us += server->owed_ns / 1000;
  server->owed_ns %= 1000;
  server->commands += commands;
  return server->free_at_us;
}

/* A message that is lost on its way was not executed, and nobody hears of it. */
static void drop(struct message *message) {
  message->sent = false;
  if (message->left) free(message);
}

static void execute(void *subject) {
  struct message *message = subject;
  struct server *server = message->server;
  unsigned commands = 0;
  weir_slots_expire(server->places, virtual_now_us());
  for (size_t i = 0; i < message->count; i++) {
    weir_operation *operation = &message->operations[i];
    commands += commands_of(server, operation);
    if (weir_slots_execute(server->places, virtual_now_us(), ++server->version, operation))
      continue;
    perror("a counter");
    exit(2);
  }
  int64_t done_us = take_time(server, commands);
  if (is_lost(server))
    drop(message);
  else
    virtual_at(done_us + way_us(server), deliver, message);
}

/* --- a client's end ----------------------------------------------------------------------------
 */

static struct line *opening;

static weir_status open_line(const weir_url *url, int64_t timeout_us, void **handle,
                             weir_message *message) {
  (void)url;
  (void)timeout_us;
  (void)message;
  *handle = opening;
  return WEIR_OK;
}

static void close_line(void *handle) {
  (void)handle;
}

static void end_all(weir_operation *operations, size_t count, weir_outcome outcome,
                    const char *what, weir_message *why) {
  for (size_t i = 0; i < count; i++) {
    operations[i].outcome = outcome;
    operations[i].late = true; /* the server is there */
  }
  weir_message_set(why, "%s", what);
}

static struct message *send_message(const struct line *line, weir_operation *operations,
                                    size_t count) {
  struct message *sent = malloc(sizeof *sent + count * sizeof *operations);
  if (sent == NULL) {
    perror("a message");
    exit(2);
  }
  *sent = (struct message){.server = line->server, .count = count, .sent = true};
  memcpy(sent->operations, operations, count * sizeof *operations);
  return sent;
}

static void exec_line(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                      weir_message *why) {
  const struct line *line = handle;
  if (line->dead || virtual_now_us() >= deadline_us) {
    end_all(operations, count, WEIR_NOT_SENT, "no time was left", why);
    return;
  }
  struct message *sent = send_message(line, operations, count);
  bool lost = is_lost(line->server);
  if (lost)
    sent->sent = false;
  else
    virtual_at(virtual_now_us() + way_us(line->server), execute, sent);
  virtual_wait(sent, deadline_us);
  if (sent->answered) {
    memcpy(operations, sent->operations, count * sizeof *operations);
    free(sent);
    return;
  }
  end_all(operations, count, WEIR_UNKNOWN, "no answer in time", why);
  sent->left = true;
  if (!sent->sent) free(sent);
}

static const weir_scheme schemes[] = {{"scale", 0}, {NULL, 0}};
static const char *const no_options[] = {NULL};

static const weir_backend swapping = {.size = sizeof(weir_backend),
                                      .name = "scale",
                                      .schemes = schemes,
                                      .options = no_options,
                                      .traits = WEIR_TRAIT_SWAP,
                                      .open = open_line,
                                      .exec = exec_line,
                                      .close = close_line};
static const weir_backend raising = {.size = sizeof(weir_backend),
                                     .name = "scale",
                                     .schemes = schemes,
                                     .options = no_options,
                                     .traits = WEIR_TRAIT_RAISE,
                                     .open = open_line,
                                     .exec = exec_line,
                                     .close = close_line};

weir_status line_open(struct line *line, weir_store **store, weir_message *message) {
  opening = line;
  return weir_store_open_backend(line->server->raises ? &raising : &swapping, "scale:", store,
                                 message);
}
