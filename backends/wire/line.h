/* The parts of a wire. Its lock guards everything, save where noted. */
#ifndef WEIR_WIRE_LINE_H
#define WEIR_WIRE_LINE_H

#include "wire/connection.h"
#include "wire/tls.h"

enum {
  WEIR_WIRE_SLOTS_MOST = 4096, /* slots of one server, in use or pooled */
  WEIR_WIRE_WOKEN_MOST = 64,
  WEIR_WIRE_CHOICES = 64 /* threads that a wire tells apart; others share their choice */
};

/* The step that the leader of a connection is at: the thread that works it. */
typedef enum weir_worker {
  WEIR_WORKER_NONE,
  WEIR_WORKER_STEPPING,  /* it holds the lock */
  WEIR_WORKER_POLLING,   /* it waits for the socket; a follower may send meanwhile */
  WEIR_WORKER_LISTENING, /* the same inside a recv that waits, so it may hold bytes */
  WEIR_WORKER_RECEIVING,
  WEIR_WORKER_SENDING,
  WEIR_WORKER_CALLED, /* the same, and a follower has come who needs the leader for its own slot */
  WEIR_WORKER_SHAKING
} weir_worker;

/* A connection, its socket, and who works it. */
typedef struct weir_wire_line {
  weir_wire *wire;
  weir_connection *connection;
  int fd;                    /* -1: none */
  weir_tls_session *session; /* NULL while plain */
  weir_message fault;        /* of the last system call */

  _Atomic(weir_worker) worker; /* the leader; read without the lock for NONE */
  bool beside;                 /* a follower sends, while the leader waits for the socket */
  size_t sent;      /* LISTENING: bytes that went before, which the stream does not know of */
  bool tries;       /* LISTENING: it tries to receive before it waits, */
  int64_t yield_us; /* the longest of the yields in between, */
  bool lost;        /* and so was that of the last time: other work had the processor */
  size_t waiting;   /* threads that wait for a slot */
  uint64_t done;    /* slots that were done on it */
  weir_wire_leading leading;
} weir_wire_line;

/* The connection that a thread takes, and how often in a row that was busy and another free. */
typedef struct weir_choice {
  bool made;
  uint8_t number;
  uint8_t met;
} weir_choice;

/* Other work wants the processors: no thread yields for a while. */
typedef struct weir_pressure {
  bool felt;
  int64_t until_us;
  int64_t lasts_us; /* how long that is, or was */
} weir_pressure;

struct weir_wire {
  pthread_mutex_t lock;
  pthread_cond_t sent; /* a follower's send is over, for which a leader waits */
  char name[300];      /* for messages: "host:port" */
  weir_tls *tls;       /* NULL: plain */
  int64_t patience_us; /* weir_socket_patience_us() */
  int64_t awaited_us;  /* since when slots wait for the first connection that is being made */

  weir_wire_server server;
  weir_wire_line lines[WEIR_WIRE_CONNECTIONS];
  weir_choice choices[WEIR_WIRE_CHOICES];
  unsigned next_choice;
  size_t waiting;        /* threads that wait for a slot, at any connection */
  unsigned crowd;        /* so many slots more go by the first connection */
  int64_t took_us;       /* what the last answer took, once sent, in a crowd or to many commands */
  weir_pressure crowded; /* no thread yields in a crowd, */
  weir_pressure watched; /* nor while it tries to receive */

  weir_wire_slot *pool;
  _Atomic(weir_wire_slot *) spare; /* a pooled one, taken without the lock; NULL: none */
  size_t slot_count;
  weir_wire_slot *woken[WEIR_WIRE_WOKEN_MOST]; /* whose threads are told when the lock is free */
  size_t woken_count;
};

#endif
