/* Replies of the Redis protocol, read by hiredis from bytes that the wire received. */
#ifndef WEIR_REDIS_REPLY_H
#define WEIR_REDIS_REPLY_H

#include "wire/wire.h"

enum { WEIR_REPLY_TEXT_MOST = 255, WEIR_REPLY_ARRAY_LENGTH = 3 };

typedef enum weir_redis_reply_kind {
  WEIR_REPLY_STATUS,
  WEIR_REPLY_INTEGER,
  WEIR_REPLY_STRING,
  WEIR_REPLY_LONG, /* a string longer than any that weir stores; its text was not read */
  WEIR_REPLY_NIL,
  WEIR_REPLY_ARRAY, /* of integers: three are what BITFIELD answers with here, two what INCREX does */
  WEIR_REPLY_ERROR
} weir_redis_reply_kind;

typedef struct weir_redis_reply {
  weir_redis_reply_kind kind;
  int64_t integer;
  int64_t array[WEIR_REPLY_ARRAY_LENGTH];
  size_t length;                       /* of text, or of the array */
  char text[WEIR_REPLY_TEXT_MOST + 1]; /* STATUS, STRING, ERROR; cut when longer; ends with NUL */
} weir_redis_reply;

/* A hiredis reader and the one reply that it fills, so that no reply is allocated. NULL: no memory.
 * `settings` are its wire's, for a codec that is given the parser. */
typedef struct weir_redis_parser weir_redis_parser;
weir_redis_parser *weir_redis_parser_create(const void *settings);
const void *weir_redis_parser_settings(const weir_redis_parser *parser);
void weir_redis_parser_destroy(weir_redis_parser *parser);

/* The reply at the front of `bytes`: REPLY, with *taken as for weir_wire_codec.decode, MORE or
 * BROKEN. The parser is given whole replies only, so nothing stays in it. *reply lives until the
 * next call. */
weir_reading weir_redis_parser_read(weir_redis_parser *parser, const char *bytes, size_t length,
                                    size_t *taken, const weir_redis_reply **reply);

/* The beginning of an array of so many replies, which then come one by one: REPLY, MORE or BROKEN. */
weir_reading weir_redis_reply_opens(const char *bytes, size_t length, unsigned count,
                                    size_t *taken);

/* Whether the last reading was BROKEN for want of memory. */
bool weir_redis_parser_lacks_memory(const weir_redis_parser *parser);

bool weir_redis_reply_starts(const weir_redis_reply *reply, const char *text);
bool weir_redis_reply_is_ok(const weir_redis_reply *reply);

/* The text as an int64 in the one form that INCRBY accepts; false for all else. */
bool weir_redis_reply_number(const weir_redis_reply *reply, int64_t *number);

/* All that has come to a question that can have only one answer, as hiredis reads it: for
 * freeReplyObject(). NULL where it is not whole yet, there is no memory, or it is not `sound`: no
 * answer of a Redis. */
struct redisReply *weir_redis_reply_whole(const char *bytes, size_t length, bool *sound);

#endif
