/* Stands for a node of a cluster, in front of a server that is none: a test judges each command,
 * and what it lets pass is executed by the server. Nodes that share a server are a cluster whose
 * slots may move at any moment, and its counters say what was executed, and how often. */
#ifndef TESTS_REDIS_RELAY_H
#define TESTS_REDIS_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "redis/plain.h"

enum { RELAY_CLIENTS = 16, RELAY_BYTES = 16384, RELAY_TEXT = 256 };

typedef struct relay relay;

/* A command as it was said: its words with a space after each. */
typedef struct relay_command {
  const char *words;
  bool asking; /* ASKING stood before it */
} relay_command;

/* Writes the error that the command is answered with, without "-", or lets it pass: false. Called
 * by the node's own thread. */
typedef bool relay_judge(relay *self, const relay_command *command, char error[RELAY_TEXT]);

typedef struct relay_client {
  int fd;
  size_t length;
  bool asking;
  char bytes[RELAY_BYTES];
} relay_client;

struct relay {
  _Atomic(relay_judge *) judge; /* NULL: all may pass */
  atomic_int seen;              /* commands on keys */
  atomic_int passed;            /* of these */
  atomic_int asked;             /* ASKING */
  atomic_int maps;              /* CLUSTER SLOTS, each of which is refused, unless there is: */
  _Atomic(const char *) map;    /* what is answered, as it is sent; NULL: nothing */
  atomic_int logins;            /* AUTH, which any password satisfies */
  atomic_int visits;            /* connections */
  bool gone;                    /* relay_hang_up() */
  struct address address;
  int listener;
  int wake[2];
  pthread_t thread;
  redisContext *behind;
  size_t count;
  relay_client clients[RELAY_CLIENTS];
};

/* In a thread of this process. An error ends the process. */
void relay_start(relay *made, const struct server *behind, relay_judge *judge);
void relay_stop(relay *done);

/* From now on connecting to it is refused, and who was connected is not any more. */
void relay_hang_up(relay *self);

/* From now on it judges so, and counts from 0. */
void relay_set(relay *self, relay_judge *judge);

#endif
