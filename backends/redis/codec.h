/* How redis is spoken: pure functions of bytes. */
#ifndef WEIR_REDIS_CODEC_H
#define WEIR_REDIS_CODEC_H

#include "redis/commands.h"

/* What a new connection says first: AUTH and SELECT if the URL asks for them, then PING. */
enum { WEIR_LOGIN_MOST = 3 };
typedef struct weir_redis_login {
  const char *names[WEIR_LOGIN_MOST]; /* the commands, in order */
  size_t count;
  bool selects;   /* one of them is SELECT */
  size_t ping_at; /* where in the text the last of them, PING, begins */
  size_t length;
  char text[WEIR_WIRE_GREETING_MOST];

  /* They learn from its server's redirections; NULL: these are refusals. */
  struct weir_redis_nodes *nodes;
  unsigned node;                /* the server's number among them */
  struct weir_redis_form *form; /* of the server; NULL: nobody asks */
} weir_redis_login;

/* False: user and password are too long. `user` and `password` may be NULL. */
bool weir_redis_login_write(weir_redis_login *login, const char *user, const char *password,
                            int64_t database);

extern const weir_wire_codec weir_redis_codec;

/* After the last reply of an attempt: what the replies add up to. The outcome is PENDING where the
 * operation is not settled. */
void weir_redis_conclude(weir_operation *operation, weir_redis_attempt *attempt,
                         weir_message *message);

/* The operation goes again as a whole. That SET has created the key stays true. */
void weir_redis_go_again(weir_redis_attempt *attempt);

/* Its settings are a weir_redis_login. */
extern const weir_wire_protocol weir_redis_protocol;

#endif
