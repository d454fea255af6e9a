/* One connection to a server, as a machine that only computes: it has no lock, no clock and makes no
 * system call. It is told what happened, and answers what is to be done next.
 *
 *   CLOSED -> CONNECTING -> SECURING -> GREETING -> READY -> DRAINING -> CLOSED
 *                     `------(plain)------^            |
 *      ^                                               | lost
 *      `--- an attempt failed: the next address -------'
 *
 *   CLOSED      no socket. With slots in line it asks for a look-up, then for the next address.
 *   CONNECTING  a connect is under way.        SECURING  a TLS handshake is.
 *   GREETING    the protocol's greet() talks to the server, until it knows the dialect.
 *   READY       slots are encoded and sent, replies decoded.
 *   DRAINING    nothing more is begun on it; it closes once all that was sent is answered.
 *
 * wire/line.c does what is asked: it alone has the lock, the socket and the time. After an answer
 * other than WAIT and NOTHING the next event says what came of it. Slots that leave the line stand in
 * `left` until line.c takes them: done, abandoned, or, from a further connection, queued anew.
 *
 * All of a server's connections are guarded by its wire's lock. */
#ifndef WEIR_WIRE_CONNECTION_H
#define WEIR_WIRE_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire/breaker.h"
#include "wire/endpoint.h"

enum {
  WEIR_WIRE_OUT_BYTES = 64 * 1024, /* both hold several of the longest commands and replies */
  WEIR_WIRE_IN_BYTES = 64 * 1024,
  /* memcached 1.6.18 forgets the rest of a TLS record from which it read the end of a value, or
   * which did not fit into its buffer of 16384 bytes. So a record holds whole commands, that is all
   * there is to send, and has half that size. */
  WEIR_WIRE_RECORD_BYTES = 8 * 1024,
  WEIR_WIRE_TURNS = 16, /* system calls in a row before the other direction is looked at again */
  WEIR_WIRE_FURTHER_PAUSE_US = 1000000, /* between attempts to make a further connection */
  WEIR_WIRE_IDLE_US = 5000              /* a connection idle for longer is looked at before use */
};

#define WEIR_WIRE_NO_HANDSHAKE \
  "no TLS handshake in time; a server that does not speak TLS here may never answer one"

/* --- slots ----------------------------------------------------------------------------------- */

typedef enum weir_slot_state {
  WEIR_SLOT_POOLED,   /* or in its caller's hands, who has not submitted it yet */
  WEIR_SLOT_QUEUED,   /* in line, and nothing of it is encoded */
  WEIR_SLOT_SENT,     /* in line; at least a part of it is in the output buffer or beyond */
  WEIR_SLOT_DONE,     /* its caller takes the results */
  WEIR_SLOT_ABANDONED /* in line, sent; its caller has left */
} weir_slot_state;

typedef enum weir_slot_waiter {
  WEIR_WAITER_NONE,
  WEIR_WAITER_AWAKE, /* a thread is inside weir_wire_finish for it */
  WEIR_WAITER_ASLEEP /* and sleeps on `wake` */
} weir_slot_waiter;

struct weir_wire_slot {
  /* What is asked, and the results. */
  weir_wire_command *commands;
  size_t count;
  size_t room;
  char *keys;
  size_t keys_length;
  size_t keys_room;
  weir_message message;
  bool connects; /* asks for a connection that may be used, and for nothing else */
  unsigned dialects;
  int64_t deadline_us;

  /* How far it is. */
  _Atomic(weir_slot_state) state;     /* read without the lock, for DONE */
  weir_wire_slot *next;               /* in line, in `left`, or in the pool */
  struct weir_connection *connection; /* in whose line it stands, or stood last */
  size_t encoded;                     /* commands in the output buffer or beyond */
  size_t answered;                    /* commands with all their replies */
  int64_t sent_us;                    /* when it began to be encoded */
  bool connected;                     /* it asked for a connection, and got it */
  bool moved;                         /* has already been carried over to a new connection */
  bool missed; /* without an answer in time, and the breaker knows; or it need not know */
  bool late;   /* it ended without an answer, and the server does not count as away */
  bool slow;   /* it ended without an answer, and nothing but time speaks against the server */

  /* Its thread. */
  weir_slot_waiter waiter;
  pthread_cond_t wake;
};

/* --- connections ----------------------------------------------------------------------------- */

typedef enum weir_connection_state {
  WEIR_CONNECTION_CLOSED,
  WEIR_CONNECTION_CONNECTING,
  WEIR_CONNECTION_SECURING,
  WEIR_CONNECTION_GREETING,
  WEIR_CONNECTION_READY,
  WEIR_CONNECTION_DRAINING
} weir_connection_state;

typedef enum weir_connection_ask {
  WEIR_ASK_NOTHING, /* nothing is to be done, nothing is due */
  WEIR_ASK_WAIT,    /* for the socket, or for a look-up without one, until wait_until_us */
  WEIR_ASK_LOOK_UP, /* take in and begin what is due; do not wait */
  WEIR_ASK_CONNECT, /* begin with addresses.list[trying]; or finish what was begun */
  WEIR_ASK_SHAKE,
  WEIR_ASK_SEND,   /* out[out_start, out_end) */
  WEIR_ASK_RECEIVE /* to the end of `in` */
} weir_connection_ask;

typedef enum weir_draining {
  WEIR_DRAINING_MOVED,   /* another server may be meant by now */
  WEIR_DRAINING_DEMOTED, /* its server refuses to write, and is no proxy */
  WEIR_DRAINING_FURTHER  /* a further one goes with the first */
} weir_draining;

typedef struct weir_connection {
  struct weir_wire_server *server;
  uint8_t number; /* 0: the first */
  weir_connection_state state;
  weir_draining draining; /* why, while it is */

  /* The line, oldest first, and those that have left it since line.c looked. */
  weir_wire_slot *first;
  weir_wire_slot *last;
  weir_wire_slot *unsent; /* first slot with commands not yet encoded */
  size_t abandoned;       /* slots in line whose callers have left */
  weir_wire_slot *left;
  weir_wire_slot *left_last;

  /* How it is worked. */
  int64_t wait_until_us;  /* with WAIT */
  int64_t attempt_end_us; /* when the present address is given up */
  int64_t heard_us;       /* while it is being made: the last sign of life, or when that began */
  int64_t active_us;      /* when the ready connection was last worked */
  int64_t unix_s;         /* as the last event had it */
  unsigned turns;         /* system calls since the last wait */
  bool overslept;         /* the attempt was over before a thread came by */
  bool read_out;          /* nothing has come since the last wait that was not taken in */
  bool unread;            /* it may hold what the server sent, and poll would not say so */
  bool failing;           /* it cannot send, but what was answered before still counts */
  weir_message why;       /* the connection failed */

  /* What the server speaks. */
  weir_greeting greeting;
  const weir_wire_codec *codec;
  void *parser; /* NULL unless the protocol has them */
  uint32_t serial;
  bool is_known;         /* it is used: it leads to the process that the first leads to, */
  uint32_t known_serial; /* as the first has answered this command or a later one */

  /* The streams. */
  uint64_t accepted; /* bytes of the stream that the kernel took */
  size_t out_start;  /* out[out_start, out_end) is yet to be sent */
  size_t out_end;
  size_t out_most; /* how much of `out` may be used */
  size_t in_start; /* in[in_start, in_end) is yet to be decoded */
  size_t in_end;
  uint64_t skip; /* bytes to drop as they come */
  char out[WEIR_WIRE_OUT_BYTES];
  char in[WEIR_WIRE_IN_BYTES];
} weir_connection;

/* A server, and the connections to it. The first finds the address, and says whether the server can
 * be reached at all. The further ones stand only beside a first that is ready, lead to the same address,
 * and what goes wrong with them says nothing of the server. */
typedef struct weir_wire_server {
  const weir_wire_protocol *protocol;
  int64_t timeout_us; /* as the options have it, */
  int64_t connect_us; /* and this too, */
  bool one_at_a_time; /* and this */
  bool secure;        /* it speaks TLS */
  weir_destination destination;
  weir_breaker breaker;
  uint64_t refusals;    /* slots with an operation that it refused, */
  weir_message refusal; /* and what it said the last time */
  const char *unready;  /* a deadline has passed while the first connection was being made, and the
                           message said this; NULL: none has, or it is made, or given up */
  _Atomic int64_t clock_ahead_s; /* of this machine's, where it was asked for */
  atomic_int dialect;            /* of the newest connection that got one, or -1 */
  bool wants_further;    /* a thread found its connection busy, and there may be more of them */
  int64_t further_at_us; /* when a further one is to be tried, or looked after, again */
  bool awaits_known;     /* a further one is ready, and not known to lead to the same process */
  weir_connection connections[WEIR_WIRE_CONNECTIONS];
} weir_wire_server;

typedef enum weir_event_kind {
  WEIR_EVENT_LOOK,       /* a thread comes by; nothing is known of the socket */
  WEIR_EVENT_OPEN,       /* a further connection is wanted */
  WEIR_EVENT_LOOKED_UP,  /* the destination says what is known by now */
  WEIR_EVENT_CONNECTING, /* the socket is on its way, or connected */
  WEIR_EVENT_CONNECTED,
  WEIR_EVENT_SHAKING, /* the handshake waits for the server */
  WEIR_EVENT_SHAKEN,
  WEIR_EVENT_SENT,     /* `amount` bytes; 0: the kernel takes none at present */
  WEIR_EVENT_RECEIVED, /* `amount` bytes, to the end of `in`; 0: nothing is there */
  WEIR_EVENT_HUNG_UP,  /* by the server */
  WEIR_EVENT_FAILED,   /* with `error`, and what TLS says of it */
  WEIR_EVENT_SOCKET,   /* a wait ended as the socket reports something */
  WEIR_EVENT_TIME      /* a wait ended without */
} weir_event_kind;

/* Members that a kind does not name mean nothing with it. */
typedef struct weir_event {
  weir_event_kind kind;
  size_t amount;     /* SENT, RECEIVED */
  bool readable;     /* SOCKET: there may be something to receive */
  bool more;         /* RECEIVED: TLS holds more that poll knows nothing of */
  int error;         /* FAILED */
  bool sending;      /* FAILED: it was to send */
  const char *fault; /* FAILED and HUNG_UP: for people; "": errno says it all */
  int64_t unix_s;    /* LOOK, OPEN, SOCKET and TIME */
} weir_event;

/* The next step. Whenever the state is CLOSED thereafter, a socket that was there is to be closed. */
weir_connection_ask weir_connection_step(weir_connection *connection, const weir_event *event,
                                         int64_t now_us);

/* The address in use is no longer one of the server's. Not while a thread works the first. */
void weir_server_move(weir_wire_server *server);

/* Whether a connection is being made. */
static inline bool weir_connection_is_on_its_way(const weir_connection *connection) {
  return connection->state >= WEIR_CONNECTION_CONNECTING &&
         connection->state <= WEIR_CONNECTION_GREETING;
}

static inline bool weir_connection_is_open(const weir_connection *connection) {
  return connection->state >= WEIR_CONNECTION_READY;
}

/* Whether a slot whose caller has left is without an answer in time, and the breaker does not know;
 * and tells it, if all that has come was taken in. A caller who waits tells by itself. */
bool weir_connection_has_miss(const weir_connection *connection, int64_t now_us);
void weir_connection_tell_misses(weir_connection *connection, int64_t now_us);

/* --- stream.c: slots in line, and their bytes ------------------------------------------------- */

static inline void weir_slot_become(weir_wire_slot *slot, weir_slot_state state) {
  atomic_store_explicit(&slot->state, state, memory_order_release);
}

/* Whether the kernel took a byte of it. */
static inline bool weir_slot_is_touched(const weir_wire_slot *slot) {
  return slot->encoded > 0 && slot->commands[0].start < slot->connection->accepted;
}

/* Puts it in line; QUEUED. */
void weir_line_append(weir_connection *connection, weir_wire_slot *slot);

/* Takes it out of line, into `left`. */
void weir_line_leave(weir_connection *connection, weir_wire_slot *slot);

/* Gives every unanswered command its outcome; one that starts below `accepted` was sent. */
void weir_slot_mark(weir_wire_slot *slot, uint64_t accepted);

/* Says why, unless a reply already did. */
void weir_slot_explain(weir_wire_slot *slot, const char *why);

/* Ends a slot in line: into `left`, DONE unless it is ABANDONED. */
void weir_slot_end(weir_connection *connection, weir_wire_slot *slot);

/* The slot that is encoded next; NULL: none at present. On a connection that is to be left only
 * what has begun is sent to its end. */
static inline weir_wire_slot *weir_stream_next(const weir_connection *connection) {
  weir_wire_slot *next = connection->unsent;
  if (next == NULL) return NULL;
  if (connection->state == WEIR_CONNECTION_DRAINING && next->encoded == 0) return NULL;
  return connection->server->one_at_a_time && next != connection->first ? NULL : next;
}

/* Whether there is something that may be sent. */
static inline bool weir_stream_has_to_send(const weir_connection *connection) {
  return connection->out_start < connection->out_end || weir_stream_next(connection) != NULL;
}

/* Encodes as much of the line as the buffer holds, for a connection that is open. Returns how many
 * bytes are to be sent. */
size_t weir_stream_fill(weir_connection *connection, int64_t unix_s, int64_t now_us);

/* The kernel took some. */
void weir_stream_accept(weir_connection *connection, size_t amount);

/* Decodes what has come; `amount` is new. False: the connection must be closed, `why` says why. */
bool weir_stream_decode(weir_connection *connection, size_t amount);

/* The first is lost or left: the further ones are left with it. */
void weir_server_leave_further(weir_wire_server *server);

#endif
