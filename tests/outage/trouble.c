#include "outage/trouble.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "faults/ground.h"
#include "scale/virtual.h"
#include "store/store.h"

enum { TIMEOUT_US = 20000, PROBE_US = 500000, WIRES_MOST = 512, RESOLUTION = 1 << 30 };

/* Of a machine with twenty busy loops. */
static const struct trouble usual = {.run_us = 30000, .pause_us = 15000};

enum state { UP, STOPPED, DEAD };

/* What is sent at once, and its answer. It is kept by whoever still looks at it: its sender, its way, and
 * who looks whether it is a miss. */
struct message {
  struct message *next, *before; /* of all */
  struct message *held;          /* the next that came while the server was stopped */
  struct wire *wire;
  uint64_t life;
  unsigned users;
  int64_t miss_us;
  bool answered, lost, missed;
  size_t count;
  char *texts;
  weir_operation *operations;
};

struct server {
  struct trouble trouble;
  enum state state;
  uint64_t life;
  bool is_over;
  int busy;
  weir_store *kept;
  struct message all; /* the head */
  struct message *held, **last_held;
  int64_t paused_until_us;
  struct wire *wires[WIRES_MOST];
  size_t wire_count;
  void (*before)(void *context);
  void *context;
};

static int64_t draw_exponential(int64_t mean_us) {
  double part = (double)(virtual_below(RESOLUTION) + 1) / RESOLUTION;
  return mean_us > 0 ? (int64_t)(-log(part) * (double)mean_us) : 0;
}

/* --- messages ----------------------------------------------------------------------------------
 */

static void leave(struct message *message) {
  if (--message->users > 0) return;
  message->next->before = message->before;
  message->before->next = message->next;
  free(message->texts);
  free(message->operations);
  free(message);
}

static struct message *make_message(struct wire *wire, const weir_operation *operations,
                                    size_t count) {
  struct message *made = malloc(sizeof *made);
  weir_operation *copies = malloc(count * sizeof *copies);
  char *texts = malloc(count * WEIR_STORE_KEY_MOST);
  if (made == NULL || copies == NULL || texts == NULL) give_up("no memory for a message");
  struct message *head = &wire->server->all;
  *made = (struct message){.next = head->next,
                           .before = head,
                           .wire = wire,
                           .users = 1,
                           .count = count,
                           .texts = texts,
                           .operations = copies};
  head->next->before = made;
  head->next = made;
  memcpy(copies, operations, count * sizeof *copies);
  for (size_t i = 0; i < count; i++)
    copies[i].key =
        memcpy(texts + i * WEIR_STORE_KEY_MOST, operations[i].key, operations[i].key_length);
  return made;
}

static void lose(struct message *message) {
  message->lost = true;
  weir_breaker_miss(&message->wire->breaker, message, "the connection is lost", virtual_now_us());
  virtual_wake(message);
}

static void lose_connection(struct wire *wire) {
  struct message *head = &wire->server->all;
  wire->life = 0;
  for (struct message *message = head->next; message != head; message = message->next)
    if (message->wire == wire && message->life != 0 && !message->answered && !message->lost)
      lose(message);
}

static void deliver(void *subject) {
  struct message *message = subject;
  if (!message->lost) {
    message->answered = true;
    if (message->missed)
      weir_breaker_answered_late(&message->wire->breaker);
    else
      weir_breaker_answered(&message->wire->breaker);
    virtual_wake(message);
  }
  leave(message);
}

/* A thread that is held up looks later, and at the socket first. */
static void look(void *subject) {
  struct message *message = subject;
  struct wire *wire = message->wire;
  if (virtual_now_us() < wire->paused_until_us) {
    virtual_at(wire->paused_until_us + 1, look, message);
    return;
  }
  if (!message->answered && !message->lost) {
    message->missed = true;
    weir_breaker_miss(&wire->breaker, message, "no answer", virtual_now_us());
  }
  leave(message);
}

/* --- who is held up ----------------------------------------------------------------------------
 */

struct pauses {
  struct server *server;
  int64_t *until_us;
};

static void pause_some(void *subject) {
  struct pauses *pauses = subject;
  const struct server *server = pauses->server;
  const struct trouble *means = server->trouble.pause_us > 0 ? &server->trouble : &usual;
  if (server->is_over || server->busy == 0) {
    free(pauses);
    return;
  }
  int64_t until_us = virtual_now_us() + draw_exponential(means->pause_us);
  *pauses->until_us = until_us;
  virtual_at(until_us + draw_exponential(means->run_us), pause_some, pauses);
}

static void begin_pauses(struct server *server, int64_t *until_us) {
  struct pauses *made = malloc(sizeof *made);
  if (made == NULL) give_up("no memory for pauses");
  *made = (struct pauses){server, until_us};
  virtual_at(virtual_now_us() + draw_exponential(usual.run_us), pause_some, made);
}

/* --- the server --------------------------------------------------------------------------------
 */

static int64_t draw_way(const struct server *server) {
  return server->trouble.way_us / 2 + virtual_below(server->trouble.way_us + 1);
}

static void execute(struct server *server, struct message *message) {
  weir_message why;
  weir_store_exec(server->kept, message->operations, message->count, INT64_MAX, &why);
}

static void answer(struct server *server, struct message *message) {
  struct wire *wire = message->wire;
  bool resets = virtual_below(1000000) < server->trouble.reset_ppm;
  if (!resets || virtual_below(2) == 0) execute(server, message);
  if (resets) {
    lose_connection(wire);
    leave(message);
    return;
  }
  int64_t at_us = virtual_now_us() + draw_way(server) + draw_exponential(server->trouble.tail_us);
  if (at_us > wire->back_us) wire->back_us = at_us;
  virtual_at(wire->back_us, deliver, message);
}

static void arrive(void *subject) {
  struct message *message = subject;
  struct server *server = message->wire->server;
  if (message->lost || message->life != server->life) {
    leave(message);
  } else if (server->state == STOPPED) {
    *server->last_held = message;
    server->last_held = &message->held;
  } else if (virtual_now_us() < server->paused_until_us) {
    virtual_at(server->paused_until_us, arrive, message);
  } else {
    answer(server, message);
  }
}

static void start(struct server *server) {
  weir_message why = {""};
  if (weir_store_open("memory:", &server->kept, &why) != WEIR_OK) give_up("%s", why.text);
  server->life++;
  server->state = UP;
}

void server_stop(struct server *server) {
  if (server->before != NULL) server->before(server->context);
  server->state = STOPPED;
}

void server_continue(struct server *server) {
  struct message *held = server->held;
  server->state = UP;
  server->held = NULL;
  server->last_held = &server->held;
  while (held != NULL) {
    struct message *next = held->held;
    held->held = NULL;
    arrive(held);
    held = next;
  }
}

void server_kill(struct server *server) {
  if (server->before != NULL) server->before(server->context);
  server->state = DEAD;
  server->life++;
  weir_store_close(server->kept);
  server->kept = NULL;
  for (size_t i = 0; i < server->wire_count; i++)
    lose_connection(server->wires[i]);
}

void server_restart(struct server *server) {
  start(server);
}

struct server *trouble_begin(const struct trouble *trouble) {
  struct server *made = calloc(1, sizeof *made);
  if (made == NULL) give_up("no memory for a server");
  made->trouble = *trouble;
  made->all.next = made->all.before = &made->all;
  made->last_held = &made->held;
  made->busy = trouble->pause_us > 0;
  start(made);
  if (made->busy > 0) begin_pauses(made, &made->paused_until_us);
  return made;
}

void trouble_end(struct server *server) {
  if (server->all.next != &server->all) give_up("messages are left");
  weir_store_close(server->kept);
  free(server);
}

void trouble_tell(struct server *server, void (*before)(void *context), void *context) {
  server->before = before;
  server->context = context;
}

/* --- a busy machine ----------------------------------------------------------------------------
 */

void trouble_busy(struct server *server, bool is_busy) {
  server->busy += is_busy ? 1 : -1;
  if (!is_busy || server->busy > 1) return;
  begin_pauses(server, &server->paused_until_us);
  for (size_t i = 0; i < server->wire_count; i++)
    begin_pauses(server, &server->wires[i]->paused_until_us);
}

void trouble_over(struct server *server) {
  server->is_over = true;
}

void wire_pass_pauses(struct wire *wire) {
  while (virtual_now_us() < wire->paused_until_us)
    virtual_wait(&wire, wire->paused_until_us);
}

/* --- a process's end ---------------------------------------------------------------------------
 */

static void end_all(const struct wire *wire, weir_operation *operations, size_t count,
                    weir_outcome outcome, bool only_time, weir_message *why) {
  bool is_closed = wire->breaker.state == WEIR_BREAKER_CLOSED;
  for (size_t i = 0; i < count; i++) {
    operations[i].outcome = outcome;
    operations[i].late = is_closed;
    operations[i].slow = is_closed && only_time;
  }
  weir_message_set(why, "no answer");
}

/* A connection that is there already, or a new one, which takes a round trip. */
static bool connect_wire(struct wire *wire, int64_t deadline_us) {
  const struct server *server = wire->server;
  if (wire->life == server->life) return true;
  if (server->state == DEAD) {
    weir_breaker_fail(&wire->breaker, "refused", virtual_now_us());
    return false;
  }
  int64_t ready_us = virtual_now_us() + 2 * draw_way(server);
  bool in_time = server->state == UP && ready_us < deadline_us;
  virtual_wait(&ready_us, in_time ? ready_us : deadline_us);
  if (in_time && server->state == UP) wire->life = server->life;
  return wire->life == server->life;
}

static void send_message(struct wire *wire, struct message *message, int64_t deadline_us) {
  int64_t now_us = virtual_now_us();
  int64_t at_us = now_us + draw_way(wire->server);
  message->life = wire->life;
  message->users += 2; /* its way, and who looks */
  message->miss_us = now_us + TIMEOUT_US < deadline_us ? deadline_us : now_us + TIMEOUT_US;
  virtual_at(message->miss_us, look, message);
  if (at_us > wire->there_us) wire->there_us = at_us;
  virtual_at(wire->there_us, arrive, message);
}

/* Whoever is held up at its deadline finds its answer afterwards. */
static void exec_wire(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                      weir_message *why) {
  struct wire *wire = handle;
  weir_breaker *breaker = &wire->breaker;
  wire_pass_pauses(wire);
  struct message *message = make_message(wire, operations, count);
  bool admitted = breaker->state == WEIR_BREAKER_CLOSED ||
                  weir_breaker_admits(breaker, message, virtual_now_us());
  if (!admitted || !connect_wire(wire, deadline_us) || virtual_now_us() >= deadline_us) {
    if (admitted) weir_breaker_end(breaker, message, virtual_now_us());
    end_all(wire, operations, count, WEIR_NOT_SENT, true, why);
    leave(message);
    return;
  }
  send_message(wire, message, deadline_us);
  if (!message->answered && !message->lost) virtual_wait(message, deadline_us);
  wire_pass_pauses(wire);
  for (size_t i = 0; message->answered && i < count; i++) {
    const char *key = operations[i].key;
    operations[i] = message->operations[i];
    operations[i].key = key;
  }
  if (!message->answered) end_all(wire, operations, count, WEIR_UNKNOWN, !message->lost, why);
  leave(message);
}

static struct wire *opening;

static weir_status open_wire(const weir_url *url, int64_t timeout_us, void **handle,
                             weir_message *message) {
  (void)url;
  (void)timeout_us;
  (void)message;
  *handle = opening;
  return WEIR_OK;
}

static void close_wire(void *handle) {
  (void)handle;
}

static const weir_backend backend = {
    .size = sizeof(weir_backend),
    .name = "trouble",
    .schemes = (const weir_scheme[]){{"trouble", 0}, {NULL, 0}},
    .options = (const char *const[]){NULL},
    .traits = WEIR_TRAIT_SWAP,
    .open = open_wire,
    .exec = exec_wire,
    .close = close_wire,
};

void wire_begin(struct wire *wire, struct server *server, weir_store **store) {
  weir_message why = {""};
  *wire = (struct wire){.server = server};
  weir_breaker_init(&wire->breaker, TIMEOUT_US, PROBE_US, (uint64_t)virtual_below(RESOLUTION));
  if (server->wire_count == WIRES_MOST) give_up("too many processes");
  server->wires[server->wire_count++] = wire;
  if (server->busy > 0) begin_pauses(server, &wire->paused_until_us);
  opening = wire;
  if (weir_store_open_backend(&backend, "trouble:", store, &why) != WEIR_OK)
    give_up("%s", why.text);
}
