/* What the files of the wire share. Everything here is guarded by weir_wire.lock, save where noted.
 */
#ifndef WEIR_WIRE_INTERNAL_H
#define WEIR_WIRE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire/breaker.h"
#include "wire/lookup.h"
#include "wire/socket.h"
#include "wire/wire.h"

enum {
  WEIR_WIRE_SLOTS_MOST = 4096, /* slots of one server, in use or pooled */
  WEIR_WIRE_WOKEN_MOST = 64,
  WEIR_WIRE_OUT_BYTES = 64 * 1024, /* both hold several of the longest commands and replies */
  WEIR_WIRE_IN_BYTES = 64 * 1024,
  /* memcached 1.6.18 forgets the rest of a TLS record from which it read the end of a value, or
   * which did not fit into its buffer of 16384 bytes. So a record holds whole commands, that is all
   * there is to send, and has half that size. */
  WEIR_WIRE_RECORD_BYTES = 8 * 1024,
  WEIR_WIRE_COMMANDS_KEPT = 4096, /* a pooled slot that grew beyond this gives its memory back */
  WEIR_WIRE_SECOND_PAUSE_US = 1000000, /* between attempts to make a second connection */
  WEIR_WIRE_IDLE_US = 5000             /* a connection idle for longer is looked at before use */
};

#define WEIR_WIRE_NO_HANDSHAKE \
  "no TLS handshake in time; a server that does not speak TLS here may never answer one"

struct weir_wire_slot {
  weir_wire_slot *next;                    /* in line, or in the pool */
  struct weir_wire_connection *connection; /* in whose line it stands, or stood last */
  weir_wire_command *commands;
  size_t count;
  size_t room;
  char *keys;
  size_t keys_length;
  size_t keys_room;
  size_t encoded;  /* commands in the output buffer or beyond */
  size_t answered; /* commands with all their replies */
  int64_t deadline_us;
  int64_t sent_us; /* when it began to be encoded */
  unsigned dialects;
  atomic_bool done; /* read without the lock by a waiter that yields */
  bool connects;    /* asks for a connection that may be used, and for nothing else */
  bool connected;   /* and got it */
  bool moved;       /* has already been carried over to a new connection */
  bool abandoned;
  bool missed;   /* without an answer in time, and the breaker knows; or it need not know */
  bool late;     /* it ended without an answer, and the server does not count as away */
  bool waiting;  /* a thread is inside weir_wire_finish for it */
  bool sleeping; /* and sleeps on `wake` */
  pthread_cond_t wake;
  weir_message message;
};

typedef enum weir_wire_state {
  WEIR_WIRE_CLOSED,
  WEIR_WIRE_CONNECTING,
  WEIR_WIRE_SECURING, /* shaking hands */
  WEIR_WIRE_GREETING,
  WEIR_WIRE_READY
} weir_wire_state;

/* A socket, and the line of those who want something sent on it. */
typedef struct weir_wire_connection {
  weir_wire *wire;
  weir_wire_slot *first; /* the line, oldest first */
  weir_wire_slot *last;
  weir_wire_slot *unsent; /* first slot with commands not yet encoded */

  size_t abandoned;    /* slots in line whose callers have left */
  size_t waiting;      /* threads that wait for a slot */
  atomic_bool leading; /* a thread leads; written under the lock */
  bool resting;        /* and waits for the socket, inside poll or recv */
  bool receiving;      /* it is inside recv, and may hold bytes that nobody has counted */
  bool patient;        /* the leader's next recv may wait */
  bool sending;        /* a follower sends, while the leader rests */

  weir_wire_state state;
  int fd;
  weir_tls_session *session; /* NULL while plain */
  bool demoted;              /* its server refuses to write, and is no proxy */
  bool leaving;              /* nothing more is sent on it; closed once all is answered */
  bool unread;               /* it may hold what the server sent, and poll would not say so */
  int64_t attempt_end_us;    /* when the present address is given up */
  int64_t active_us;         /* when the ready connection was last worked */
  weir_greeting greeting;
  weir_message why; /* the connection failed */
  const weir_wire_codec *codec;
  void *parser; /* NULL unless the protocol has them */
  uint32_t serial;

  uint64_t accepted; /* bytes of the stream that the kernel took */
  size_t out_start;  /* out[out_start, out_end) is yet to be sent */
  size_t out_end;
  size_t out_most; /* how much of `out` may be used */
  size_t in_start; /* in[in_start, in_end) is yet to be decoded */
  size_t in_end;
  uint64_t skip; /* bytes to drop as they come */
  char out[WEIR_WIRE_OUT_BYTES];
  char in[WEIR_WIRE_IN_BYTES];
} weir_wire_connection;

/* A server, and the connections to it.
 *
 * The first connection finds the address, and says whether the server can be reached at all. The
 * second (second.c) stands only beside a first that is ready, and leads to the same address. */
struct weir_wire {
  pthread_mutex_t lock;
  pthread_cond_t sent; /* a follower's send is over, for which a leader waits */
  const weir_wire_protocol *protocol;
  int64_t timeout_us;
  int64_t connect_us;       /* as the options have it */
  int64_t patience_us;      /* weir_socket_patience_us() */
  bool any_address;         /* as the options have it, */
  bool one_at_a_time;       /* and this too, */
  bool named_by_others;     /* and this */
  weir_addresses addresses; /* none: the name is not resolved yet, and `why` says so */
  size_t address;           /* index of the address in use; until there is one, of the first */
  size_t trying;            /* of that to which a connection stands, or is being made */
  size_t tried;             /* addresses tried since the line began to wait for a connection */
  weir_lookup *lookup;      /* under way; NULL: none */
  int64_t lookup_at_us;     /* when the next is due; INT64_MAX: never, as there is no name */
  int64_t looked_up_us;     /* when the last one began, or ended */
  weir_endpoint asked;      /* what is looked up, or was; its host is for the certificate */
  weir_resolver *resolver;  /* in place of a name; NULL: none; held */
  weir_message unresolved;  /* why there is no answer of it since then */
  int64_t answered_us;      /* when it was asked for what is known now, */
  int64_t answer_end_us;    /* and until when that may be connected by */
  int64_t lost_us;          /* when a connection was lost last, or could not be made */
  const weir_tls *tls;      /* NULL: plain */
  char name[300];           /* for messages: "host:port" */

  weir_breaker breaker;
  const char *unready; /* a deadline has passed while the first connection was being made, and the
                          message said this; NULL: none has, or it is made, or given up */
  int64_t awaited_us;  /* since when slots wait for the first connection that is being made */

  weir_wire_slot *pool;
  size_t slot_count;
  weir_wire_slot *woken[WEIR_WIRE_WOKEN_MOST]; /* whose threads are told when the lock is free */
  size_t woken_count;
  atomic_int dialect;

  bool wants_second;    /* somebody found the first connection busy, and no second */
  int64_t second_at_us; /* when the second is to be tried, or looked after, again */
  weir_wire_connection connections[WEIR_WIRE_CONNECTIONS];
};

/* leader.c: gives the lock back, then wakes those for whom there was news. A thread that is woken
 * under the lock would only wait for it. */
void weir_wire_unlock(weir_wire *wire);
/* leader.c: the leader has waited for the socket, and holds the lock again. */
void weir_wire_come_back(weir_wire_connection *connection);
/* There is news for the thread that sleeps on this slot. */
void weir_wire_rouse(weir_wire *wire, weir_wire_slot *slot);

/* wire.c: a wire that leads nowhere yet; NULL: no memory. */
weir_wire *weir_wire_make(const weir_wire_protocol *protocol, const void *settings,
                          const weir_tls *tls, const weir_wire_options *options);

/* slot.c: the end of a slot's life. */
/* Gives every unanswered command its outcome; one that starts below `accepted` was sent. */
void weir_wire_slot_mark(weir_wire_slot *slot, uint64_t accepted);
/* Says why, unless a reply already did. */
void weir_wire_slot_explain(weir_wire_slot *slot, const char *why);
/* Takes a slot out of line: done, or back to the pool if abandoned. */
void weir_wire_slot_end(weir_wire_connection *connection, weir_wire_slot *slot);
/* Copies the results to the callers' operations; whether one of them needs explaining. */
bool weir_wire_slot_collect(const weir_wire *wire, const weir_wire_slot *slot,
                            weir_message *message);
void weir_wire_slot_give(weir_wire *wire, weir_wire_slot *slot);
void weir_wire_slot_free(weir_wire_slot *slot);
void weir_wire_line_append(weir_wire_connection *connection, weir_wire_slot *slot);
void weir_wire_line_remove(weir_wire_connection *connection, weir_wire_slot *slot);

/* name.c: the addresses of a name. */
/* Looks it up for the first time, and waits for that until options->lookup_end_us. WEIR_OK also
 * where the resolver cannot say at present; WEIR_BAD_URL: there is no such name. */
weir_status weir_wire_name_open(weir_wire *wire, const weir_wire_place *place,
                                const weir_wire_options *options, weir_message *message);
/* Takes what a look-up has found, and begins the next where it is due. Never waits. For the leader,
 * and for others while nobody leads. */
void weir_wire_name_follow(weir_wire *wire, int64_t now_us);
/* The name may lead elsewhere by now: the next look-up is due soon. */
void weir_wire_name_doubt(weir_wire *wire);
/* Whether a resolver must answer before there is another connection: the server that was left may be
 * back as something else. */
bool weir_wire_name_is_stale(const weir_wire *wire, int64_t now_us);
/* Until when its answer is worth waiting for; 0: nobody is asked. */
int64_t weir_wire_name_due_us(const weir_wire *wire);

/* connection.c: what a look-up has found takes the place of the known addresses. The connection to
 * one that is not among them is left. */
void weir_wire_adopt(weir_wire *wire, weir_addresses *found);
/* connection.c: tells the breaker of requests that are without an answer in time, if there is
 * nothing left to be read. */
void weir_wire_find_misses(weir_wire_connection *connection, int64_t now_us);

/* connection.c: what a lost connection means for one slot: its end, or one more connection. */
void weir_wire_settle(weir_wire_connection *connection, weir_wire_slot *slot, int64_t now_us);
void weir_wire_drop_socket(weir_wire_connection *connection);
/* connection.c: also for closing. */
void weir_wire_parser_drop(weir_wire_connection *connection);

/* connect.c: towards a ready connection, for those in line. */
void weir_wire_step_towards_ready(weir_wire_connection *connection, short revents, int64_t now_us);
/* connect.c: begins an attempt. */
void weir_wire_try_address(weir_wire_connection *connection, int64_t now_us);
/* connect.c: goes on with one, until there is nothing to do but wait, or it has ended. */
void weir_wire_go_on(weir_wire_connection *connection, short revents, int64_t now_us);

/* second.c */
bool weir_wire_is_second(const weir_wire_connection *connection);
/* Takes the second a step on its way. Never waits. */
void weir_wire_push_second(weir_wire *wire, int64_t now_us);
/* Nothing more is sent on it; it is closed as soon as all is answered. */
void weir_wire_leave_second(weir_wire *wire);

/* connection.c: for the leader; the lock is let go around system calls. */
/* Does all that can be done without waiting. `revents` is what poll reported, 0 if not asked. */
void weir_wire_step(weir_wire_connection *connection, short revents, int64_t now_us);

/* Whether the connection is ready and only replies are missing. */
bool weir_wire_only_receives(const weir_wire_connection *connection);
/* What to poll connection->fd for, and when to step at the latest. */
short weir_wire_events(const weir_wire_connection *connection);
int64_t weir_wire_alarm_us(const weir_wire_connection *connection);
/* Whether a connection is being made: its callers may have left, and the next goes on with it. */
bool weir_wire_is_connecting(const weir_wire_connection *connection);
/* An attempt to connect ran out of time while nobody watched: it has failed, unless the server has
 * `spoken` meanwhile. Then it was not the server that took the time. */
void weir_wire_end_attempt(weir_wire_connection *connection, bool spoken, int64_t now_us);

/* transfer.c: the socket's calls, through TLS where the connection has it. */
ssize_t weir_wire_put(weir_wire_connection *connection, const char *bytes, size_t length);
ssize_t weir_wire_take(weir_wire_connection *connection, char *bytes, size_t room, bool wait);
/* After a read that got something: whether more may have come with it. TLS reads to the end of a
 * record. */
bool weir_wire_holds(const weir_wire_connection *connection);
/* Says why one of them failed. */
void weir_wire_explain(weir_wire_connection *connection, const char *what, int error);

/* transfer.c: whether there is something that may be sent. */
bool weir_wire_has_to_send(const weir_wire_connection *connection);

/* transfer.c: on a ready connection. False: it must be closed, its `why` says why. */
bool weir_wire_send(weir_wire_connection *connection, int64_t now_us);
bool weir_wire_receive(weir_wire_connection *connection);

#endif
