/* Any bytes as the answers of a Redis to a new connection: it is ready once everything was answered
 * as Redis does, or says why not, without the credentials; and cutting the bytes changes nothing.
 *
 * Input: a digit, 1 to log in, 2 with a user's name as well, 4 to select a database, or their sum;
 * a newline (not looked at); what the server says. */
#include <stdio.h>

#include "fuzz/greeting.h"
#include "redis/codec.h"

#define SECRET "Zq7-Xw9_Kp4"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER_BYTES = 2, PASSWORD = 1, USER = 2, DATABASE = 4 };

/* How many lines, at the least, a server has to say before it is taken for a Redis. */
static size_t count_lines(const char *bytes, size_t size) {
  size_t count = 0;
  for (size_t at = 0; at < size; at++)
    count += bytes[at] == '\n';
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER_BYTES) return 0;
  const char *bytes = (const char *)data + HEADER_BYTES;
  bool logs_in = (data[0] & PASSWORD) != 0;
  weir_redis_login login;
  require(weir_redis_login_write(&login, logs_in && (data[0] & USER) != 0 ? "limiter" : NULL,
                                 logs_in ? SECRET : NULL, (data[0] & DATABASE) != 0 ? 7 : 0));
  fuzz_talk talk =
      fuzz_greet_in_every_cut(&weir_redis_protocol, &login, bytes, size - HEADER_BYTES);
  require(talk.connections == 1);
  if (talk.answer == WEIR_GREETING_READY) {
    require(talk.dialect == 0);
    require(count_lines(bytes, size - HEADER_BYTES) >= login.count);
  }
  /* A server may repeat what it does not understand. */
  if (strncmp(talk.message.text, "auth", 4) == 0)
    require(strstr(talk.message.text, SECRET) == NULL);
  return 0;
}
