/* One client as its protocol sees it, and what stands around it: its loop and its listener's port, and
 * the service, which all loops share.
 *
 * A protocol is the functions of a weir_protocol. The loop (loop.c) calls them with a client's bytes and
 * with its answers; they call what stands at the end of this file, the turn, and nothing of the loop. */
#ifndef WEIR_SERVE_CLIENT_H
#define WEIR_SERVE_CLIENT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>

#include "keep/addresses.h"
#include "protocol/bytes.h"
#include "protocol/grpc/session.h"
#include "protocol/http/call.h"
#include "protocol/resp/command.h"
#include "serve/asker.h"
#include "serve/listen.h"
#include "turn/turn.h"

typedef struct weir_loop weir_loop;
typedef struct weir_connection weir_connection;

/* Shared by all loops, and told by the admin pages. */
typedef struct weir_service {
  weir_clients *clients;
  weir_guesses guesses;
  weir_denial_log denials;
  atomic_int files; /* that the process may have open */
  weir_keeper keeper;
  weir_socket *sockets; /* of each listener that it began with */
  size_t socket_count;
  pthread_mutex_t tls_lock;
  weir_serve_tls **tls;            /* of each; NULL: none */
  _Atomic(weir_registry *) anchor; /* the last snapshot that has every listener */
  weir_loop *front;                /* the main thread's: signals, admin */
  /* From here on for the main thread alone. */
  weir_served_all served; /* by all loops */
  int64_t began_us;       /* of CLOCK_MONOTONIC */
  uint64_t reloads, reload_failures;
  bool is_serving; /* it listens to clients */
  bool is_draining;
} weir_service;

/* One thread with its event loop, connections and turn. */
struct weir_loop {
  weir_service *service;
  unsigned index;
  struct event_base *base;
  weir_registry_mailbox mailbox;
  weir_turn turn; /* of this turn; its registry is the snapshot in use */
  weir_askers askers;
  size_t pending_count;
  size_t outdated;          /* pendings with an older snapshot; */
  _Atomic bool is_outdated; /* whether there are any, for others */
  weir_served served;
  _Atomic(weir_registry *) in_use; /* the turn's registry, for others to compare with */
  struct weir_port *ports;
  size_t port_count;
  weir_connection *connections, *touched, *resumed;
  size_t connection_count;
  uint64_t connections_made; /* for ids */
  char *buffer;              /* what is received at once, of whichever connection */
  size_t buffer_bytes;
  weir_bytes reply; /* and what is answered at once; before that, what a protocol words */
  struct event wakes, sweeps;
  int wake_fd;   /* eventfd: another thread wants something */
  bool has_time; /* turn.now_us is of this turn */
  bool is_draining;
  bool accepts_paused;
  int last_fd; /* of a client */
  int64_t drain_since_us;
  _Atomic bool must_drain;
  _Atomic bool has_stopped; /* to listen */
  _Atomic bool is_done;     /* nothing runs here any more */
};

/* The outcome of reading a request. */
typedef enum weir_read_result {
  WEIR_READ_MORE, /* the request's end has not come */
  WEIR_READ_ONE,  /* *used bytes were one */
  WEIR_READ_TURN, /* the same, and enough for this turn */
  WEIR_READ_HELD, /* the same, and it waits: see weir_connection_may_show() */
  WEIR_READ_ENDS  /* nothing more is read: the connection ends when its answers are sent */
} weir_read_result;

/* How a protocol is spoken. */
typedef struct weir_protocol {
  const char *name;
  const char *full; /* to a client that comes when there are too many; no TLS there */
  size_t full_length;
  /* Reads one request, and queues its answer. */
  weir_read_result (*read)(weir_connection *connection, const char *bytes, size_t length,
                           size_t *used);
  /* Words an answer of this turn that is no text; NULL: there are none. */
  void (*answer)(weir_connection *connection, const weir_turn *turn, const weir_answer *answer,
                 weir_bytes *out);
  /* Those that follow may be NULL. A new connection, all zeroes; and its end. */
  void (*begin)(weir_connection *connection);
  void (*end)(weir_connection *connection);
  /* Looks at what was held after its bytes were used. False: it still has to wait. */
  bool (*go_on)(weir_connection *connection);
  /* Writes the bytes to be sent behind all answers. False: that is the end. */
  bool (*flush)(weir_connection *connection, weir_bytes *out);
  /* Tells the peer to leave, which ends the connection without losing a request. False: it knows. */
  bool (*leave)(weir_connection *connection);
  /* Once a second. */
  void (*sweep)(weir_connection *connection);
} weir_protocol;

/* A listener as a loop has it: what holds for its connections. */
typedef struct weir_port {
  weir_loop *loop;
  const weir_protocol *protocol;
  const weir_config_listener *config; /* of the loop's snapshot, or of the first one */
  size_t index;                       /* of the listener */
  int fd;
  bool is_shared; /* with other loops: fd is closed by the server */
  struct event accepts;
} weir_port;

typedef enum weir_client_state {
  WEIR_CONNECTION_OPEN,
  WEIR_CONNECTION_ENDING, /* reads no more; ends when all is sent */
  WEIR_CONNECTION_ENDED   /* has said so; what comes is thrown away until the peer ends too */
} weir_client_state;

struct weir_connection {
  weir_loop *loop;
  weir_port *port;
  weir_client_address address;
  /* The loop's lists: all; those with answers in this turn; those with more requests than their share
   * of a turn. */
  weir_connection *previous, *next;
  weir_connection *next_touched;
  weir_connection *next_resumed;
  weir_transport transport;
  struct event readable, writable;
  struct event pause; /* until a credential that is held is looked at */
  weir_client_state state;
  bool is_touched, is_resumed;
  bool is_parked;       /* has more requests, which wait until it has taken its answers */
  bool is_held;         /* the same until its pause is over: see weir_connection_may_show() */
  bool is_leaving;      /* the peer is told to leave */
  bool has_shown;       /* a good token, in the last request that had one */
  bool has_guessed;     /* a wrong one, once */
  uint64_t refusing;    /* the mark of a wrong one whose refusal is paused; 0: none is */
  bool has_read;        /* a whole request, once */
  bool is_broken;       /* it has been counted as one that sent what it may not */
  bool goes_on_sending; /* after its end was said */
  uint32_t share;       /* requests it may still bring into this turn */
  uint32_t first_answer, last_answer;
  weir_pending *pending; /* its answers wait for a store: until they are sent nothing is read */
  weir_bytes input;      /* of a request that is not whole */
  weir_bytes output;     /* what the peer has not taken yet */
  int64_t since_us;      /* the last progress: see is_late() of the loop */
  int64_t arrived_us;    /* when the last bytes were received */
  weir_holder holder;    /* what its end releases */
  bool may_hold;         /* has asked for a place, once */
  union {
    struct {
      weir_resp_session session;
      weir_resp_parser parser;
    } resp;
    weir_http_parser http;
    struct {
      weir_grpc_session *session;
      weir_grpc_call held;
      bool has_held;
      int64_t began_us;
      int64_t parts;   /* its share of the greatest age */
      int64_t told_us; /* when its age was the reason to tell it to leave; 0: never */
    } grpc;
  } speaks;
};

/* A loop's limits now. */
static inline const weir_config_limits *weir_loop_limits(const weir_loop *loop) {
  return &loop->turn.registry->config->limits;
}

/* The configuration of a listener that the server began with, as this snapshot has it; where it has it
 * no longer, as the last had that did. */
const weir_config_listener *weir_service_listener(const weir_service *service,
                                                  const weir_registry *registry, size_t index);

/* --- for protocols ------------------------------------------------------------------------------
 */

/* An answer's place in this connection's answers. WEIR_NO_ANSWER: no memory, which ends it. */
void weir_connection_queue(weir_connection *connection, uint32_t answer);
void weir_connection_queue_text(weir_connection *connection, const char *text, size_t length);

/* The client's description for operators: its address, and the name that it goes by, unless that is
 * "". */
void weir_connection_describe(const weir_connection *connection, const char *name,
                              char text[WEIR_KEPT_CLIENT_BYTES]);

/* The same, in `text`, told to who notes the reply, where that is about the limit of a key. */
void weir_connection_tell_client(const weir_connection *connection, const char *name,
                                 char text[WEIR_KEPT_CLIENT_BYTES], weir_reply *reply);

/* It has something to send in this turn. */
void weir_connection_touch(weir_connection *connection);

/* It has sent what it may not: counted once. */
void weir_connection_note_broken(weir_connection *connection);

/* Whether a credential that it shows, by its mark, is looked at now. False: the connection is held, and
 * reads this request again, or the bytes behind it, later. */
bool weir_connection_may_show(weir_connection *connection, uint64_t mark);

/* It has shown a wrong one. True: it is told so now; false: it is held as above, and then told so. */
bool weir_connection_may_refuse(weir_connection *connection, uint64_t mark);

#endif
