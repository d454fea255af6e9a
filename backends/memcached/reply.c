/* What both dialects share in reading replies. */
#include "memcached/codec.h"
#include "memcached/version.h"

/* SERVER_ERROR covers "did nothing" as well as "lost the answer": a proxy reports a request that
 * timed out behind it in the same words. Only these are known to come before execution. */
static bool surely_not_executed(const weir_line *line) {
  static const char *const texts[] = {"SERVER_ERROR out of memory", "SERVER_ERROR Out of memory",
                                      "SERVER_ERROR object too large",
                                      "SERVER_ERROR Connection refused"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    if (weir_line_starts(line, texts[i])) return true;
  }
  return false;
}

bool weir_reply_is_error(weir_operation *operation, const weir_line *line, bool stores, bool *stray,
                         weir_message *message) {
  const size_t shown_most = 200;
  bool server = weir_line_starts(line, "SERVER_ERROR ");
  bool client = weir_line_starts(line, "CLIENT_ERROR ") || weir_line_is(line, "ERROR");
  if (!server && !client) return false;
  bool executed = server && operation->kind != WEIR_GET && !surely_not_executed(line);
  operation->outcome = executed ? WEIR_UNKNOWN : WEIR_REFUSED;
  /* A storage command that is refused for its line leaves its data to be read as a command. */
  *stray = client && stores;
  weir_message_set(message, "%.*s", (int)(line->length < shown_most ? line->length : shown_most),
                   line->text);
  return true;
}

weir_reading weir_touch_read(weir_operation *operation, const weir_line *line, const char *touched,
                             const char *absent, weir_message *message) {
  weir_operation touch = *operation;
  bool stray = false;
  if (weir_line_is(line, touched) || weir_line_is(line, absent)) return WEIR_READING_DONE;
  if (!weir_reply_is_error(&touch, line, false, &stray, message)) return WEIR_READING_BROKEN;
  if (operation->outcome == WEIR_DONE) operation->outcome = WEIR_UNKNOWN;
  return WEIR_READING_DONE;
}

void weir_version_read(weir_wire_command *command, uint64_t cas, weir_message *message) {
  weir_operation *operation = &command->operation;
  operation->version_out = weir_version_of_cas(command, cas);
  if (cas != 0 || operation->outcome != WEIR_DONE) return;
  operation->outcome = WEIR_REFUSED;
  weir_message_set(message, "the server keeps no CAS ids: start memcached without -C");
}
