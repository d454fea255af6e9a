/* What a new connection says first. The URL's wishes and a PING leave in one write; nothing is said
 * that the URL does not ask for, as a proxy closes the connection on SELECT and on AUTH with a
 * user.
 *
 * That tells a proxy from a server, once it matters: then SELECT of the database that is selected
 * anyway stands before the PING, and what hangs up on it, or does not know it, is a proxy. */
#include <stdio.h>
#include <string.h>

#include "redis/codec.h"
#include "redis/form.h"
#include "redis/refusal.h"

/* Of a line that is told as it came. */
enum { SHOWN_MOST = 200 };

static bool add_text(weir_redis_login *login, const char *format, size_t number, const char *text) {
  size_t room = sizeof login->text - login->length;
  int used = snprintf(login->text + login->length, room, format, number, text);
  if (used < 0 || (size_t)used >= room) return false;
  login->length += (size_t)used;
  return true;
}

/* `arguments` ends with NULL. */
static bool add_command(weir_redis_login *login, const char *name, const char *const *arguments) {
  size_t count = 0;
  while (arguments[count] != NULL)
    count++;
  bool fits = add_text(login, "*%zu\r\n%s", 1 + count, "");
  fits = fits && add_text(login, "$%zu\r\n%s\r\n", strlen(name), name);
  for (size_t i = 0; i < count; i++) {
    fits = fits && add_text(login, "$%zu\r\n%s\r\n", strlen(arguments[i]), arguments[i]);
  }
  login->names[login->count++] = name;
  return fits;
}

static const char select_first[] = "*2\r\n$6\r\nselect\r\n$1\r\n0\r\n";

bool weir_redis_login_write(weir_redis_login *login, const char *user, const char *password,
                            int64_t database) {
  char number[24];
  *login = (weir_redis_login){0};
  snprintf(number, sizeof number, "%lld", (long long)database);
  const char *const both[] = {user, password, NULL};
  const char *const *credentials = user != NULL ? both : both + 1;
  const char *const databases[] = {number, NULL};
  bool fits = true;
  if (password != NULL) fits = add_command(login, "auth", credentials);
  login->selects = database != 0;
  if (login->selects) fits = fits && add_command(login, "select", databases);
  login->ping_at = login->length;
  fits = fits && add_command(login, "ping", databases + 1);
  return fits && login->length + strlen(select_first) <= sizeof login->text;
}

/* Whether a SELECT is said that the URL does not ask for. */
static bool is_asking(const weir_greeting *greeting) {
  const weir_redis_login *login = greeting->settings;
  return greeting->asks_kind && !login->selects && greeting->kind != WEIR_SERVER_PROXY;
}

/* The command whose reply comes next: steps above 0 count the replies that have come, plus one. */
static const char *expected(const weir_greeting *greeting) {
  const weir_redis_login *login = greeting->settings;
  if (greeting->step < login->count) return login->names[greeting->step - 1];
  return greeting->step == login->count && is_asking(greeting) ? "select" : "ping";
}

/* A status or an error; what is neither reads as an empty status. */
static weir_redis_reply read_line(const char *line, size_t length) {
  bool error = line[0] == '-';
  weir_redis_reply reply = {.kind = error ? WEIR_REPLY_ERROR : WEIR_REPLY_STATUS};
  if (length >= 3 && (error || line[0] == '+')) {
    reply.length = length - 3 < WEIR_REPLY_TEXT_MOST ? length - 3 : WEIR_REPLY_TEXT_MOST;
    memcpy(reply.text, line + 1, reply.length);
  }
  return reply;
}

/* What one line of the server's says of the command that it answers. */
static weir_greeting_answer receive(weir_greeting *greeting, const char *line, size_t length,
                                    weir_message *message) {
  const weir_redis_login *login = greeting->settings;
  const char *name = expected(greeting);
  bool ping = strcmp(name, "ping") == 0;
  bool asked = is_asking(greeting) && greeting->step == login->count;
  weir_redis_reply reply = read_line(line, length);
  bool error = reply.kind == WEIR_REPLY_ERROR;
  greeting->step++;
  if (asked) { /* a server knows SELECT, whether or not this user may say it */
    bool knows = !error || weir_redis_reply_starts(&reply, "NOPERM");
    greeting->kind = knows ? WEIR_SERVER_ITSELF : WEIR_SERVER_PROXY;
    return WEIR_GREETING_MORE;
  }
  if (error) {
    unsigned cause;
    bool auth = strcmp(name, "auth") == 0; /* an error may repeat its arguments */
    weir_redis_refusal_classify(&reply, &cause);
    weir_redis_refusal_explain(cause, name, NULL, auth ? NULL : &reply, message);
    return WEIR_GREETING_FAILED;
  }
  if (strcmp(name, "select") == 0) greeting->kind = WEIR_SERVER_ITSELF;
  const char *wanted = ping ? "PONG" : "OK";
  if (reply.length == strlen(wanted) && memcmp(reply.text, wanted, reply.length) == 0) {
    if (ping && login->form != NULL) weir_redis_form_greet(login->form);
    return ping ? WEIR_GREETING_READY : WEIR_GREETING_MORE;
  }
  bool guarded = strcmp(login->names[0], "auth") == 0; /* it may repeat what it was told */
  size_t shown = guarded ? 0 : strcspn(line, "\r\n");
  weir_message_set(message, "the server does not answer \"%s\" as Redis does%s%.*s%s", name,
                   shown > 0 ? ", but with \"" : "", (int)(shown < SHOWN_MOST ? shown : SHOWN_MOST),
                   line, shown > 0 ? "\"" : "");
  return WEIR_GREETING_FAILED;
}

static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  const weir_redis_login *login = greeting->settings;
  if (greeting->step == 0) {
    /* All at once; what is asked besides stands before the PING. */
    size_t before = is_asking(greeting) ? login->ping_at : 0;
    size_t asked = is_asking(greeting) ? strlen(select_first) : 0;
    memcpy(greeting->say, login->text, before);
    memcpy(greeting->say + before, select_first, asked);
    memcpy(greeting->say + before + asked, login->text + before, login->length - before);
    greeting->say_length = login->length + asked;
    greeting->step = 1;
    return WEIR_GREETING_SAY;
  }
  if (greeting->step == 1 && weir_tls_is_alert(bytes, length)) {
    weir_message_set(message, "the server speaks TLS: write rediss://");
    return WEIR_GREETING_FAILED;
  }

  weir_greeting_answer answer = WEIR_GREETING_MORE;
  while (answer == WEIR_GREETING_MORE && greeting->taken < length) {
    const char *line = bytes + greeting->taken;
    const char *end = memchr(line, '\n', length - greeting->taken);
    if (end == NULL) break;
    size_t whole = (size_t)(end - line) + 1;
    greeting->taken += whole;
    answer = receive(greeting, line, whole, message);
  }
  if (answer != WEIR_GREETING_MORE || !closed) return answer;

  /* It hung up instead of answering. */
  if (is_asking(greeting) && greeting->step <= login->count) {
    greeting->kind = WEIR_SERVER_PROXY;
    greeting->step = 0;
    return WEIR_GREETING_RECONNECT;
  }
  weir_message_set(message,
                   "the server hung up instead of answering \"%s\"; a proxy may not know it or "
                   "have no server, and where TLS is spoken, write rediss://",
                   expected(greeting));
  return WEIR_GREETING_FAILED;
}

static const weir_wire_codec *const codecs[] = {&weir_redis_codec};

static void *create_parser(const void *settings, const void *first) {
  (void)first;
  return weir_redis_parser_create(settings);
}

static void destroy_parser(void *parser) {
  weir_redis_parser_destroy(parser);
}

const weir_wire_protocol weir_redis_protocol = {.codecs = codecs,
                                                .greet = greet,
                                                .create_parser = create_parser,
                                                .destroy_parser = destroy_parser};
