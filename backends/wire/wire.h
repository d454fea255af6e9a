/* The private transport of the network backends: at most four shared connections per server.
 *
 * Few threads have a socket each; more of them share one, which is non-blocking.
 * A slot's commands all go by one of them, in order. A backend brings a protocol: pure functions
 * that turn an operation into bytes and bytes into an outcome. The wire brings the socket, the
 * deadline, pipelining across threads, and the rule that nothing is sent twice.
 *
 * The life of a slot
 *
 *   A slot is one request: copies of a caller's operations, for one server, in its own memory.
 * Slots are pooled; once the pool has warmed up nothing is allocated.
 *
 *                  submit              leader encodes            last reply decoded
 *        POOLED ------------> QUEUED ----------------> SENT ---------------------> DONE
 *          ^                    |                       |                           |
 *          |  deadline:         |       deadline:       |                           | finish copies
 *          |  NOT_SENT          |       UNKNOWN         v                           | the results
 *          +--------------------+                   ABANDONED ---> replies          |
 *          |                                            counted off, or the         |
 *          +------------------------------------------- connection closed           |
 *          +------------------------------------------------------------------------+
 *
 *   When a connection closes, a command of which the kernel took a byte is UNKNOWN, any other
 *   NOT_SENT; a slot of which no byte was taken goes to one more connection first. Results are
 *   decoded into the slot and copied to the caller's operations by the caller's own thread, so
 *   nothing is ever written to a caller that has gone.
 *
 * The parts
 *
 *   wire.c, exchange.c        opening, closing; several servers at once; questions beside
 *        |
 *      line.c                 the lock, the slots' memory, who leads and who waits
 *        |        `---------- socket.c, tls.c: the system calls
 *   connection.c              what is to be done next: a machine that only computes
 *        |
 *   stream.c                  operations become bytes, bytes outcomes
 *        |
 *   endpoint.c, breaker.c     where the server is, and whether it answers
 *
 * The roles
 *
 *   Slots of a connection stand in one line. A thread that waits for a slot and finds no leader
 *   leads: it encodes and sends what is queued, polls, reads, decodes, and marks slots done from the
 *   front. The others sleep on the condition variable of their own slot; in a crowd they yield the
 *   processor some times before. A leader whose own slot is done stops; the first waiter in line
 *   takes over. Only threads that wait at this connection lead it, so none is held up by a thread
 *   that is busy elsewhere.
 *
 *   The lock guards everything and is let go around send, recv and poll of the leader, which alone
 *   touches the socket. One exception: while the leader waits for the socket, a follower may send
 *   what is queued; a leader that comes back waits for the end of that. A leader whose slot is alone
 *   in line goes from send to recv without the lock, unless a follower has called it meanwhile.
 *
 * A connection closes on a protocol error, when the server closes it, and when its oldest slot is
 * overdue: unanswered for two of the store's timeouts after it was a miss. It is left, that is closed
 * once all that was sent is answered, when its name leads elsewhere, and when the server refuses to
 * write because another is the primary by now.
 *
 * A server that does not answer
 *
 *   Its breaker (wire/breaker.h) opens when it cannot be connected to and greeted, and after two
 * misses. A miss is a slot without an answer within the longer of the store's timeout and its own
 * deadline: one that was abandoned before is found by the next thread that comes by after that.
 * Slots in line keep their deadlines; those that are submitted later are done at once, NOT_SENT, save
 * for the probe. The same goes for slots that are submitted while a connection is being made, once a
 * deadline has passed: one at a time waits for it. */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include <stdatomic.h>
#include <weir/backend.h>

#include "wire/tls.h"

enum {
  WEIR_WIRE_CONNECTIONS = 4,     /* to one server at the most */
  WEIR_WIRE_COMMAND_MOST = 1280, /* bytes one encoded command may take */
  WEIR_WIRE_GREETING_MOST = 512, /* bytes of one step of a greeting */
  WEIR_WIRE_NOTES_BYTES = 16,
  WEIR_WIRE_REPLY_MOST = 4096 /* bytes a codec may ask to see before it takes any */
};

/* One operation inside a slot, and its result. */
typedef struct weir_wire_command {
  weir_operation operation; /* a copy, key in the slot's memory; a codec writes its results here */
  weir_operation *caller;   /* the original; touched by the caller's thread alone */
  void *kept;               /* the caller's copy of the notes, touched as `caller` is; NULL: none */
  void *parser;             /* of its connection, see weir_wire_protocol */
  uint64_t start;           /* where in the stream its first byte stands, once encoded */
  /* What the codec knows of the operation besides its result, in a form of its own; zero bytes
   * unless the caller keeps them. */
  unsigned char notes[WEIR_WIRE_NOTES_BYTES];
  uint32_t serial; /* counts them by connection, joined ones as one; free for the codec to send */
  uint8_t attempt; /* 0, then one more each time the codec asked for another */
  uint8_t replies; /* for codecs whose commands have several: how many were taken */
  /* Commands may be joined: the first is encoded for all of them, and each takes its own reply, save
   * where one reply answers those behind it as well. */
  uint8_t followers; /* so many right behind it are joined to it */
  bool follows;      /* it is one of those */
  uint8_t shared;    /* set by the codec: the reply answered so many behind it */
  bool demoted; /* set by the codec: the server refused to write, as another is the primary now */
} weir_wire_command;

typedef enum weir_reading {
  WEIR_READING_MORE,  /* not a whole reply yet: nothing taken */
  WEIR_READING_REPLY, /* took a reply; the command needs another */
  WEIR_READING_DONE, /* took the last reply: results are set, or PENDING: one more attempt is needed
                      */
  WEIR_READING_LAST, /* as DONE, and nothing after it on this connection can be trusted */
  WEIR_READING_BROKEN /* not what the protocol allows */
} weir_reading;

/* A dialect as pure functions of bytes. */
typedef struct weir_wire_codec {
  const char *name;
  /* Writes a command, and what is joined to it, which stands right behind it in memory: at most
   * WEIR_WIRE_COMMAND_MOST bytes; returns how many. `unix_s` is by the server's clock where that was
   * asked for, else by this machine's. */
  size_t (*encode)(const weir_wire_command *command, int64_t unix_s, char *out);
  /* Takes one reply to `command` from the front of `bytes`. *taken may exceed `length`: the rest is
   * skipped when it comes. Texts for people go to `message`. */
  weir_reading (*decode)(weir_wire_command *command, const char *bytes, size_t length,
                         size_t *taken, weir_message *message);
} weir_wire_codec;

typedef enum weir_greeting_answer {
  WEIR_GREETING_MORE,      /* wait for more bytes */
  WEIR_GREETING_SAY,       /* send what was written to `say`, then listen */
  WEIR_GREETING_READY,     /* *dialect is set */
  WEIR_GREETING_RECONNECT, /* connect to the same address again and go on from *step */
  WEIR_GREETING_FAILED     /* this server is not one for us; `message` says why */
} weir_greeting_answer;

/* What is at the other end, as far as the protocol can tell. */
typedef enum weir_server_kind {
  WEIR_SERVER_UNKNOWN,
  WEIR_SERVER_ITSELF,
  WEIR_SERVER_PROXY /* in front of several servers: what one of them refuses says nothing of the rest
                   */
} weir_server_kind;

/* What is exchanged on a new connection before anything else. Called when connected (length 0),
 * whenever bytes have come, and with `closed` when the peer hung up. */
typedef struct weir_greeting {
  const void *settings;  /* the protocol's */
  unsigned step;         /* 0 on a new connection, then the function's own */
  bool asks_kind;        /* in: it matters what the server is, as one refused to write */
  weir_server_kind kind; /* out: as long as the connection stands */
  unsigned dialect;      /* out: index into codecs */
  size_t taken;          /* out: bytes of the answer used up */
  size_t say_length;     /* out, with SAY */
  char say[WEIR_WIRE_GREETING_MOST];
} weir_greeting;

typedef struct weir_wire_protocol {
  const weir_wire_codec *const *codecs;
  weir_greeting_answer (*greet)(weir_greeting *greeting, const char *bytes, size_t length,
                                bool closed, weir_message *message);
  /* For a codec that reads with a library's parser, which each connection then has of its own; NULL
   * for others. Between two calls of decode it must hold nothing of the stream, only what is fixed
   * for the connection: create is told the wire's settings, and the parser of the first connection
   * to the same process of the server, which stays as long as the new one is used; NULL: this is the
   * first. NULL from create: no memory. */
  void *(*create_parser)(const void *settings, const void *first);
  void (*destroy_parser)(void *parser);
  const char *silence; /* for people: what else keeps silent when greeted; NULL: nothing known */
} weir_wire_protocol;

typedef struct weir_wire weir_wire;
typedef struct weir_wire_slot weir_wire_slot;

/* A host as a name or in digits, and a port. */
typedef struct weir_endpoint {
  char host[256];
  uint16_t port;
} weir_endpoint;

typedef enum weir_lookup_result {
  WEIR_LOOKUP_FOUND,
  WEIR_LOOKUP_NO_SUCH_NAME, /* for certain */
  WEIR_LOOKUP_FAILED,       /* the resolver cannot say at present */
  WEIR_LOOKUP_NO_MEMORY
} weir_lookup_result;

/* What says where a server is at present: which host of several has the part of another. It is
 * followed as a name is, and asked before each new connection besides. Asked in a thread of its
 * own, which may outlive the wire: the last that holds it has it destroyed. */
typedef struct weir_resolver weir_resolver;
struct weir_resolver {
  /* `in_doubt`: what it said last led nowhere. One thread at a time. */
  weir_lookup_result (*ask)(weir_resolver *resolver, bool in_doubt, weir_endpoint *found,
                            weir_message *why);
  void (*destroy)(weir_resolver *resolver);
  atomic_int holders;
};

/* NULL is fine. */
void weir_resolver_leave(weir_resolver *resolver);

/* Where a server is: a host and a port, or the path of a unix socket; or what knows. */
typedef struct weir_wire_place {
  const char *host;        /* with a resolver: for people, as its name */
  weir_resolver *resolver; /* NULL: none */
  uint16_t port;
  const char *path;
  weir_tls *tls; /* how to speak TLS there, to a host; NULL: not. Must outlive the wire */
} weir_wire_place;

/* What a store's URL and its caller want of all its wires. */
typedef struct weir_wire_options {
  int64_t timeout_us;    /* the store's timeout option */
  int64_t connect_us;    /* how long one attempt to connect may take, greeting included; it outlives
                            the deadline of the slot that began it */
  int64_t probe_us;      /* its probe option: the longest pause before a silent server is asked */
  int64_t lookup_end_us; /* how long opening waits for all of a store's names together */
  bool any_address;      /* every address of a name is right, as behind each is the same */
  bool named_by_others;  /* not the URL, but a server told the host: of such names few are
                            looked up at a time, however many are told */
  bool one_at_a_time;    /* a slot is sent when that before it is answered: no pipelining across
                            threads, for measuring what it is worth */
} weir_wire_options;

/* The URL's options of the wire, which a backend lists as its own. */
#define WEIR_WIRE_OPTIONS "probe", "pipelining", "addresses", "connect-timeout"

/* Reads them. */
weir_status weir_wire_read_options(const weir_url *url, int64_t timeout_us,
                                   weir_wire_options *options, weir_message *message);

/* Looks the host up; does not connect. A name that is not found, or that the resolver cannot tell at
 * present, is looked up again when the wire is used. `settings` must outlive the wire. WEIR_BAD_URL:
 * the path is too long. */
weir_status weir_wire_open(const weir_wire_place *place, const weir_wire_protocol *protocol,
                           const void *settings, const weir_wire_options *options, weir_wire **wire,
                           weir_message *message);

/* Another wire to where `wire` leads, of which nothing is shared but what was looked up. */
weir_status weir_wire_clone(weir_wire *wire, const weir_wire_protocol *protocol,
                            const void *settings, int64_t timeout_us, weir_wire **clone);

/* For people: "host:port". Lives as long as the wire. */
const char *weir_wire_name(const weir_wire *wire);

/* How many addresses its name has now, and of one family; whether any of them will do. */
typedef struct weir_wire_choice {
  size_t count;
  size_t alike;
  bool any;
} weir_wire_choice;

weir_wire_choice weir_wire_read_choice(weir_wire *wire);

/* How it speaks TLS; NULL: not. */
weir_tls *weir_wire_tls(const weir_wire *wire);

/* No slot may be in use. NULL is fine. */
void weir_wire_close(weir_wire *wire);

/* What its breaker knows; `size` stays. */
void weir_wire_read_server(weir_wire *wire, weir_server_state *state);

/* Its member `outages` alone, of a wire that no other thread uses any more: so it takes no lock. */
uint64_t weir_wire_outages(const weir_wire *wire);

/* By how much the server's clock is ahead of this machine's: commands are encoded by it from now on. */
void weir_wire_set_clock(weir_wire *wire, int64_t ahead_s);

/* Whether its breaker turns callers away. */
bool weir_wire_is_away(weir_wire *wire);

/* The dialect of the newest connection that got one, or -1. Any thread. */
int weir_wire_dialect(const weir_wire *wire);

/* An empty slot, or NULL when memory or the connection's share of slots is used up. */
weir_wire_slot *weir_wire_slot_take(weir_wire *wire);

/* Adds a copy of `operation` as its given attempt. False: no memory, nothing was added. */
bool weir_wire_slot_add(weir_wire_slot *slot, weir_operation *operation, uint8_t attempt);

/* For the operation that was added last: the codec's notes of it begin as the WEIR_WIRE_NOTES_BYTES at
 * `notes`, and are copied back there with the results. */
void weir_wire_slot_keep_notes(weir_wire_slot *slot, void *notes);

static inline bool weir_wire_is_joined(const weir_wire_command *command) {
  return (command->followers | (uint8_t)command->follows) != 0;
}

/* Joins the operation that was added last to the `before` before it, of which the first is encoded for
 * all: in at most WEIR_WIRE_COMMAND_MOST bytes, and at most 255 behind it. */
void weir_wire_slot_join(weir_wire_slot *slot, size_t before);

/* Puts the slot in line. `dialects` is a set of bits: on a connection that speaks another, nothing is
 * sent. Never blocks. A slot that the breaker turns away is done at once. */
void weir_wire_submit(weir_wire *wire, weir_wire_slot *slot, unsigned dialects,
                      int64_t deadline_us);

/* Connects to all of them, and tries again until all may be used or the time is over. Where not,
 * the message is about the first that is not. */
bool weir_wire_connect_all(weir_wire *const *wires, size_t count, int64_t deadline_us,
                           weir_message *message);

/* Sends what is queued, as far as that goes without waiting. For callers with slots at several
 * connections; weir_wire_finish does it too. */
void weir_wire_flush(weir_wire *wire);

/* Waits until the slot is done, or until `end_us` or its deadline; whether it is done. For callers
 * with slots at several connections: a server that keeps silent must not hold up the others. */
bool weir_wire_wait(weir_wire *wire, weir_wire_slot *slot, int64_t end_us);

/* Waits until the slot is done or its deadline has passed, writes outcomes, values and versions
 * into the callers' operations and gives the slot back. An operation that must be tried anew stays
 * PENDING. Writes `message` when an outcome asks for one, and returns whether it did. */
bool weir_wire_finish(weir_wire *wire, weir_wire_slot *slot, weir_message *message);

/* How the slots of one round go; the members are those of weir_wire_submit(). */
typedef struct weir_wire_round {
  unsigned dialects;
  int64_t deadline_us;
} weir_wire_round;

/* Submits and finishes one slot. */
bool weir_wire_run(weir_wire *wire, weir_wire_slot *slot, const weir_wire_round *round,
                   weir_message *message);

/* Submits, sends, waits for and finishes one slot for each of `count` wires, all at once; a slot
 * that is NULL, and its wire, are passed over. Returns whether `message` was written: the first
 * explanation stays. */
bool weir_wire_fleet_run(weir_wire *const *wires, weir_wire_slot *const *slots, size_t count,
                         const weir_wire_round *round, weir_message *message);

/* How threads led its connections while others waited there, since it was opened: a leader that
 * serves many others for long is one that starves. */
enum { WEIR_WIRE_LEADING_BINS = 12 };

typedef struct weir_wire_leading {
  uint64_t times; /* a thread led so */
  /* The same by how many of the others' slots were done: 0, 1, 2 to 3, 4 to 7 and so on. */
  uint64_t bins[WEIR_WIRE_LEADING_BINS];
  uint64_t served;    /* slots of other threads that were done meanwhile */
  uint64_t most;      /* of them in one time */
  int64_t led_us;     /* in all, */
  int64_t longest_us; /* and the longest time */
} weir_wire_leading;

weir_wire_leading weir_wire_read_leading(weir_wire *wire);

/* Runs it in a thread of its own, which is not joined and takes no signal that the program has handlers for.
 * False, with errno: it could not be started. */
bool weir_wire_detach(void *(*run)(void *context), void *context);

#endif
