/* One client: its bytes, its place in the tick, and how long it may take. */
#ifndef WEIR_SERVE_CONNECTION_H
#define WEIR_SERVE_CONNECTION_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>

#include "protocol/bytes.h"
#include "protocol/grpc/session.h"
#include "protocol/http/parse.h"
#include "protocol/resp/command.h"
#include "serve/addresses.h"
#include "serve/tick.h"
#include "serve/transport.h"

typedef struct weir_loop weir_loop;
typedef struct weir_connection weir_connection;

typedef enum weir_progress {
  WEIR_PROGRESS_MORE, /* the request's end has not come */
  WEIR_PROGRESS_READ, /* *used bytes were one */
  WEIR_PROGRESS_TURN, /* the same, and enough for this tick */
  WEIR_PROGRESS_HELD, /* the same, and it waits: see weir_connection_is_held() */
  WEIR_PROGRESS_ENDS  /* nothing more is read: the connection ends when its answers are sent */
} weir_progress;

/* How a protocol is spoken. */
typedef struct weir_speech {
  const char *name;
  /* A new connection. */
  void (*begin)(weir_connection *connection);
  /* Reads one request, and adds the slot of its answer. */
  weir_progress (*read)(weir_connection *connection, const char *bytes, size_t length,
                        size_t *used);
  /* Words the answer of a slot that is no text. */
  void (*answer)(weir_connection *connection, const weir_slot *slot, weir_bytes *out);
  const char *full; /* to one who comes when there are too many; no TLS there */
  size_t full_length;
  /* What follows may be NULL. It is closed. */
  void (*end)(weir_connection *connection);
  /* Looks at what was held after its bytes were used. False: it still has to wait. */
  bool (*go_on)(weir_connection *connection);
  /* What is to be sent behind all answers. False: that is the end. */
  bool (*flush)(weir_connection *connection, weir_bytes *out);
  /* Tells the peer to leave, which ends the connection without losing a request. False: it knows. */
  bool (*leave)(weir_connection *connection);
  /* Once a second. */
  void (*sweep)(weir_connection *connection);
} weir_speech;

extern const weir_speech weir_speech_resp, weir_speech_http, weir_speech_grpc, weir_speech_admin;

/* A listener as a loop has it: what holds for its connections. */
typedef struct weir_port {
  weir_loop *loop;
  const weir_speech *speech;
  const weir_config_listener *config; /* of the loop's snapshot, or of the first one */
  size_t index;                       /* of the listener */
  int fd;
  bool is_shared; /* with other loops: fd is closed by the server */
  struct event accepts;
} weir_port;

typedef enum weir_connection_state {
  WEIR_CONNECTION_OPEN,
  WEIR_CONNECTION_ENDING, /* reads no more; ends when all is sent */
  WEIR_CONNECTION_ENDED   /* has said so; what comes is thrown away until the peer ends too */
} weir_connection_state;

struct weir_connection {
  weir_loop *loop;
  weir_port *port;
  weir_connection *previous, *next; /* all of the loop */
  weir_connection *next_touched;    /* those with answers in this tick */
  weir_connection *next_resumed;    /* those with more requests than their share of a tick */
  weir_transport transport;
  struct event readable, writable;
  struct event pause; /* until a credential that is held is looked at */
  weir_client_address peer;
  weir_connection_state state;
  bool is_touched, is_resumed;
  bool is_parked;   /* has more requests, which wait until it has taken its answers */
  bool is_held;     /* the same until its pause is over */
  bool is_leaving;  /* the peer is told to leave */
  bool has_shown;   /* a good token, in the last request that had one */
  bool has_guessed; /* a wrong one, once */
  bool has_read;    /* a whole request, once */
  uint32_t share;   /* requests it may still bring into this tick */
  uint32_t first_slot, last_slot;
  weir_bytes input;   /* of a request that is not whole */
  weir_bytes output;  /* what the peer has not taken yet */
  int64_t since_us;   /* the last progress: see weir_connection_is_late() */
  int64_t arrived_us; /* when the last bytes were received */
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
    } grpc;
  } speaks;
};

/* Takes the socket over; closes it where there is no memory. */
void weir_connection_open(weir_port *port, int fd, const weir_client_address *peer,
                          weir_serve_tls *tls);
void weir_connection_close(weir_connection *connection);

/* A slot's place in this connection's answers. WEIR_NO_SLOT: no memory, which ends it. */
void weir_connection_queue(weir_connection *connection, uint32_t slot);
void weir_connection_queue_text(weir_connection *connection, const char *text, size_t length);

/* It has something to send in this turn. */
void weir_connection_touch(weir_connection *connection);

/* Whether a credential that it shows has to wait. It then reads this request again, or the bytes
 * behind it, later. */
bool weir_connection_is_held(weir_connection *connection);

/* It has shown a wrong one. */
void weir_connection_note_guess(weir_connection *connection);

/* Goes on with the requests that were too many for the last tick. */
void weir_connection_resume(weir_connection *connection);

/* Words what is in its slots, and sends what the peer takes. It may be gone then. */
void weir_connection_answer(weir_connection *connection);

/* Sends what is left, then says the end. It may be gone then. */
void weir_connection_end(weir_connection *connection);

/* The same, once the peer knows, where the protocol can tell: so none of its requests is lost. In no
 * list of the tick; it may be gone then. */
void weir_connection_leave(weir_connection *connection);

/* Whether all it has sent in whole requests has been decided. */
bool weir_connection_is_at_rest(const weir_connection *connection);

/* Closes it, whatever it still expects: at once, or at the end of the tick. */
void weir_connection_drop(weir_connection *connection);

/* Whether it is slower, or idle for longer, than the limits say; and what becomes of it then. */
bool weir_connection_is_late(const weir_connection *connection, int64_t now_us);
void weir_connection_expire(weir_connection *connection);

#endif
