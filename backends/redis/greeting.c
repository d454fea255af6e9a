/* What a new connection says first. The URL's wishes and a PING leave in one write; nothing is said
 * that the URL does not ask for, as a proxy closes the connection on SELECT and on AUTH with a
 * user. */
#include <stdio.h>
#include <string.h>

#include "redis/codec.h"
#include "redis/refusal.h"

static bool add_text(weir_redis_hello *hello, const char *format, size_t number, const char *text) {
  size_t room = sizeof hello->text - hello->length;
  int used = snprintf(hello->text + hello->length, room, format, number, text);
  if (used < 0 || (size_t)used >= room) return false;
  hello->length += (size_t)used;
  return true;
}

/* `arguments` ends with NULL. */
static bool add_command(weir_redis_hello *hello, const char *name, const char *const *arguments) {
  size_t count = 0;
  while (arguments[count] != NULL)
    count++;
  bool fits = add_text(hello, "*%zu\r\n%s", 1 + count, "");
  fits = fits && add_text(hello, "$%zu\r\n%s\r\n", strlen(name), name);
  for (size_t i = 0; i < count; i++) {
    fits = fits && add_text(hello, "$%zu\r\n%s\r\n", strlen(arguments[i]), arguments[i]);
  }
  hello->names[hello->count++] = name;
  return fits;
}

bool weir_redis_hello_write(weir_redis_hello *hello, const char *user, const char *password,
                            int64_t database) {
  char number[24];
  *hello = (weir_redis_hello){0};
  snprintf(number, sizeof number, "%lld", (long long)database);
  const char *const both[] = {user, password, NULL};
  const char *const *credentials = user != NULL ? both : both + 1;
  const char *const databases[] = {number, NULL};
  bool fits = true;
  if (password != NULL) fits = add_command(hello, "auth", credentials);
  if (database != 0) fits = fits && add_command(hello, "select", databases);
  return fits && add_command(hello, "ping", databases + 1);
}

/* A status or an error; what is neither reads as an empty status. */
static void read_line(const char *bytes, size_t length, weir_redis_reply *reply) {
  *reply = (weir_redis_reply){.kind = bytes[0] == '-' ? WEIR_REPLY_ERROR : WEIR_REPLY_STATUS};
  if (length < 3 || (bytes[0] != '-' && bytes[0] != '+')) return;
  reply->length = length - 3 < WEIR_REPLY_TEXT_MOST ? length - 3 : WEIR_REPLY_TEXT_MOST;
  memcpy(reply->text, bytes + 1, reply->length);
}

static weir_greeting_answer hear(const char *name, const weir_redis_reply *reply,
                                 weir_message *message) {
  bool ping = strcmp(name, "ping") == 0;
  bool auth = strcmp(name, "auth") == 0; /* an error may repeat its arguments */
  unsigned cause;
  if (reply->kind == WEIR_REPLY_ERROR) {
    weir_redis_refusal_judge(reply, &cause);
    weir_redis_refusal_explain(cause, name, NULL, auth ? NULL : reply, message);
    return WEIR_GREETING_FAILED;
  }
  const char *wanted = ping ? "PONG" : "OK";
  if (reply->length == strlen(wanted) && memcmp(reply->text, wanted, reply->length) == 0)
    return ping ? WEIR_GREETING_READY : WEIR_GREETING_MORE;
  weir_message_set(message, "the server does not answer \"%s\" as Redis does", name);
  return WEIR_GREETING_FAILED;
}

static weir_greeting_answer say(weir_greeting *greeting) {
  const weir_redis_hello *hello = greeting->settings;
  memcpy(greeting->say, hello->text, hello->length);
  greeting->say_length = hello->length;
  greeting->step = 1;
  return WEIR_GREETING_SAY;
}

/* Steps above 0 count the replies that have come, plus one. */
static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  const weir_redis_hello *hello = greeting->settings;
  weir_greeting_answer answer = WEIR_GREETING_MORE;
  if (greeting->step == 0) return say(greeting);
  if (greeting->step == 1 && weir_tls_is_alert(bytes, length)) {
    weir_message_set(message, "the server speaks TLS: write rediss://");
    return WEIR_GREETING_FAILED;
  }
  while (answer == WEIR_GREETING_MORE && greeting->taken < length) {
    const char *line = bytes + greeting->taken;
    const char *end = memchr(line, '\n', length - greeting->taken);
    if (end == NULL) break;
    weir_redis_reply reply;
    read_line(line, (size_t)(end - line) + 1, &reply);
    greeting->taken += (size_t)(end - line) + 1;
    answer = hear(hello->names[greeting->step++ - 1], &reply, message);
  }
  if (answer != WEIR_GREETING_MORE || !closed) return answer;
  weir_message_set(message,
                   "the server hung up instead of answering \"%s\"; a proxy may not know it, and "
                   "where TLS is spoken, write rediss://",
                   hello->names[greeting->step - 1]);
  return WEIR_GREETING_FAILED;
}

static const weir_wire_codec *const codecs[] = {&weir_redis_codec};

static void *create_parser(void) {
  return weir_redis_parser_create();
}

static void destroy_parser(void *parser) {
  weir_redis_parser_destroy(parser);
}

const weir_wire_protocol weir_redis_protocol = {.codecs = codecs,
                                                .greet = greet,
                                                .create_parser = create_parser,
                                                .destroy_parser = destroy_parser};
