#include "redis/reply.h"

#include <hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"

struct weir_redis_parser {
  const void *settings;
  redisReader *reader;
  weir_redis_reply reply;
};

static weir_redis_reply *reply_of(const redisReadTask *task) {
  return &((weir_redis_parser *)task->privdata)->reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t length) {
  weir_redis_reply *reply = reply_of(task);
  reply->kind = task->type == REDIS_REPLY_ERROR    ? WEIR_REPLY_ERROR
                : task->type == REDIS_REPLY_STATUS ? WEIR_REPLY_STATUS
                                                   : WEIR_REPLY_STRING;
  reply->length = length < WEIR_REPLY_TEXT_MOST ? length : WEIR_REPLY_TEXT_MOST;
  memcpy(reply->text, text, reply->length);
  reply->text[reply->length] = '\0';
  return reply;
}

static void *create_integer(const redisReadTask *task, long long integer) {
  weir_redis_reply *reply = reply_of(task);
  reply->kind = WEIR_REPLY_INTEGER;
  reply->integer = integer;
  return reply;
}

static void *create_nil(const redisReadTask *task) {
  weir_redis_reply *reply = reply_of(task);
  reply->kind = WEIR_REPLY_NIL;
  return reply;
}

/* No function for arrays: the one that a command here is answered with is taken apart before, and
 * for any other the reader answers with something that is not our reply. None to free: the reply is
 * part of the parser. */
static redisReplyObjectFunctions functions = {
    .createString = create_string, .createInteger = create_integer, .createNil = create_nil};

weir_redis_parser *weir_redis_parser_create(const void *settings) {
  weir_redis_parser *parser = calloc(1, sizeof *parser);
  if (parser == NULL) return NULL;
  parser->reader = redisReaderCreateWithFunctions(&functions);
  if (parser->reader == NULL) {
    free(parser);
    return NULL;
  }
  parser->reader->privdata = parser;
  parser->settings = settings;
  return parser;
}

const void *weir_redis_parser_settings(const weir_redis_parser *parser) {
  return parser->settings;
}

void weir_redis_parser_destroy(weir_redis_parser *parser) {
  if (parser == NULL) return;
  redisReaderFree(parser->reader);
  free(parser);
}

/* The one form in which a server writes an int64. */
static bool parse_number(const char *text, size_t length, int64_t *number) {
  bool negative = length > 0 && text[0] == '-';
  const char *digits = text + negative;
  size_t count = length - negative;
  uint64_t most = (uint64_t)INT64_MAX + negative;
  uint64_t sum = 0;
  if (count == 0 || count > 19 || (digits[0] == '0' && (count > 1 || negative))) return false;
  for (size_t i = 0; i < count; i++) { /* 19 digits are below 2^64 */
    if (digits[i] < '0' || digits[i] > '9') return false;
    sum = sum * 10 + (uint64_t)(digits[i] - '0');
  }
  if (sum > most) return false;
  *number = (int64_t)(negative ? 0 - sum : sum);
  return true;
}

/* A string of 1 to 99 bytes, as read_common() has it. */
static size_t read_short_string(weir_redis_reply *reply, const char *bytes, size_t length) {
  if (bytes[1] < '1' || bytes[1] > '9') return 0;
  size_t size = (size_t)(bytes[1] - '0'), at = 2; /* of one digit or two */
  if (bytes[at] >= '0' && bytes[at] <= '9') size = size * 10 + (size_t)(bytes[at++] - '0');
  if (length < at + size + 4 || memcmp(bytes + at, "\r\n", 2) != 0 ||
      memcmp(bytes + at + 2 + size, "\r\n", 2) != 0)
    return 0;
  reply->kind = WEIR_REPLY_STRING;
  reply->length = size;
  memcpy(reply->text, bytes + at + 2, size);
  reply->text[size] = '\0';
  return at + size + 4;
}

/* The whole replies that decisions are made of, without the way through hiredis: an integer, a
 * short string, nil, OK. Returns how long it is; 0: not one of these, not whole, or not in the form
 * in which a server writes them. */
static size_t read_common(weir_redis_reply *reply, const char *bytes, size_t length) {
  static const char nil[] = "$-1\r\n", ok[] = "+OK\r\n";
  enum { DIGITS_END = 19 }; /* of 18 at the most, without a sign: no overflow */
  if (length < 4) return 0;
  if (bytes[0] == ':') {
    bool negative = bytes[1] == '-';
    size_t first = negative ? 2 : 1;
    int64_t sum;
    const char *behind = weir_number_scan_long(
        bytes + first, bytes + (length < DIGITS_END ? length : DIGITS_END), &sum);
    size_t at = (size_t)(behind - bytes);
    bool plain = at > first && (bytes[first] != '0' || (at == first + 1 && !negative));
    if (!plain || length < at + 2 || bytes[at] != '\r' || bytes[at + 1] != '\n') return 0;
    reply->kind = WEIR_REPLY_INTEGER;
    reply->integer = negative ? -sum : sum;
    return at + 2;
  }
  if (length >= sizeof nil - 1 && memcmp(bytes, nil, sizeof nil - 1) == 0) {
    reply->kind = WEIR_REPLY_NIL;
    return sizeof nil - 1;
  }
  if (length >= sizeof ok - 1 && memcmp(bytes, ok, sizeof ok - 1) == 0) {
    reply->kind = WEIR_REPLY_STATUS;
    reply->length = 2;
    memcpy(reply->text, "OK", sizeof "OK");
    return sizeof ok - 1;
  }
  return bytes[0] == '$' ? read_short_string(reply, bytes, length) : 0;
}

static weir_reading parse(weir_redis_parser *parser, const char *bytes, size_t length) {
  void *object = NULL;
  if (length < 2 || memcmp(bytes + length - 2, "\r\n", 2) != 0) return WEIR_READING_BROKEN;
  if (redisReaderFeed(parser->reader, bytes, length) != REDIS_OK) return WEIR_READING_BROKEN;
  if (redisReaderGetReply(parser->reader, &object) != REDIS_OK) return WEIR_READING_BROKEN;
  return object == &parser->reply ? WEIR_READING_REPLY : WEIR_READING_BROKEN;
}

/* "*3\r\n", or "*2\r\n", then so many lines, each an integer. */
enum { ARRAY_HEAD_LENGTH = sizeof "*3\r\n" - 1 };

static bool opens_array(const char *bytes, size_t length) {
  return length >= ARRAY_HEAD_LENGTH && bytes[0] == '*' && (bytes[1] == '2' || bytes[1] == '3') &&
         bytes[2] == '\r' && bytes[3] == '\n';
}

static weir_reading read_array(weir_redis_parser *parser, const char *bytes, size_t length,
                               size_t *taken) {
  weir_redis_reply *reply = &parser->reply;
  size_t at = ARRAY_HEAD_LENGTH, count = (size_t)(bytes[1] - '0');
  for (size_t i = 0; i < count; i++) {
    size_t line = read_common(reply, bytes + at, length - at);
    weir_reading reading = WEIR_READING_REPLY;
    if (line == 0) {
      const char *end = memchr(bytes + at, '\n', length - at);
      if (end == NULL) return WEIR_READING_MORE;
      line = (size_t)(end - (bytes + at)) + 1;
      reading = parse(parser, bytes + at, line);
    }
    if (reading != WEIR_READING_REPLY || reply->kind != WEIR_REPLY_INTEGER)
      return WEIR_READING_BROKEN;
    reply->array[i] = reply->integer;
    at += line;
  }
  reply->kind = WEIR_REPLY_ARRAY;
  reply->length = count;
  *taken = at;
  return WEIR_READING_REPLY;
}

/* Where the reply ends: its line, and for a string what the line announces, unless that is $-1, nil. */
__attribute__((cold, noinline)) static weir_reading read_rare(weir_redis_parser *parser,
                                                              const char *bytes, size_t length,
                                                              size_t *taken) {
  if (opens_array(bytes, length)) return read_array(parser, bytes, length, taken);
  const char *end = memchr(bytes, '\n', length);
  if (end == NULL) return WEIR_READING_MORE;
  size_t line = (size_t)(end - bytes) + 1;
  size_t size = 0;
  bool text = bytes[0] == '$' && bytes[1] != '-';
  if (text && line < 4) return WEIR_READING_BROKEN; /* no digit */
  for (size_t i = 1; text && i + 2 < line; i++) {
    if (bytes[i] < '0' || bytes[i] > '9' || size > INT32_MAX / 10) return WEIR_READING_BROKEN;
    size = size * 10 + (size_t)(bytes[i] - '0');
  }
  *taken = line + (text ? size + 2 : 0);
  if (text && size + 2 > WEIR_REPLY_TEXT_MOST) {
    parser->reply.kind = WEIR_REPLY_LONG;
    return WEIR_READING_REPLY;
  }
  return length < *taken ? WEIR_READING_MORE : parse(parser, bytes, *taken);
}

weir_reading weir_redis_parser_read(weir_redis_parser *parser, const char *bytes, size_t length,
                                    size_t *taken, const weir_redis_reply **reply) {
  *reply = &parser->reply;
  *taken = read_common(&parser->reply, bytes, length);
  return *taken > 0 ? WEIR_READING_REPLY : read_rare(parser, bytes, length, taken);
}

weir_reading weir_redis_reply_opens(const char *bytes, size_t length, unsigned count,
                                    size_t *taken) {
  char expected[WEIR_NUMBER_DIGITS_MOST + 3] = "*";
  char *end = weir_number_write(expected + 1, count);
  memcpy(end, "\r\n", 2);
  size_t whole = (size_t)(end + 2 - expected);
  size_t common = length < whole ? length : whole;
  if (memcmp(bytes, expected, common) != 0) return WEIR_READING_BROKEN;
  if (length < whole) return WEIR_READING_MORE;
  *taken = whole;
  return WEIR_READING_REPLY;
}

bool weir_redis_parser_lacks_memory(const weir_redis_parser *parser) {
  return parser->reader->err == REDIS_ERR_OOM;
}

bool weir_redis_reply_starts(const weir_redis_reply *reply, const char *text) {
  return strncmp(reply->text, text, strlen(text)) == 0;
}

bool weir_redis_reply_is_ok(const weir_redis_reply *reply) {
  return reply->kind == WEIR_REPLY_STATUS && strcmp(reply->text, "OK") == 0;
}

bool weir_redis_reply_number(const weir_redis_reply *reply, int64_t *number) {
  return reply->kind == WEIR_REPLY_STRING && parse_number(reply->text, reply->length, number);
}

struct redisReply *weir_redis_reply_whole(const char *bytes, size_t length, bool *sound) {
  redisReader *reader = redisReaderCreate();
  void *reply = NULL;
  *sound = true;
  if (reader == NULL) return NULL;
  *sound = redisReaderFeed(reader, bytes, length) == REDIS_OK &&
           redisReaderGetReply(reader, &reply) == REDIS_OK;
  redisReaderFree(reader);
  return reply;
}
