/* Any bytes as the answers of a memcached to a new connection: it ends up speaking the dialect that
 * was asked for, or says why not, without the credentials; and cutting the bytes changes nothing.
 *
 * Input: m (meta), c (classic) or a (auto), or M, C, A to log in first; a newline (not looked at);
 * what the server says. */
#include <ctype.h>

#include "fuzz/greeting.h"
#include "memcached/codec.h"

#define SECRET "Zq7-Xw9_Kp4"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER_BYTES = 2 };

static weir_memcached_dialect dialect_of(uint8_t letter) {
  if (tolower(letter) == 'm') return WEIR_DIALECT_META;
  return tolower(letter) == 'c' ? WEIR_DIALECT_CLASSIC : WEIR_DIALECT_AUTO;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER_BYTES) return 0;
  bool logs_in = isupper(data[0]) != 0;
  weir_memcached_dialect wanted = dialect_of(data[0]);
  weir_memcached_login login;
  require(weir_memcached_login_write(&login, wanted, logs_in ? "limiter" : NULL,
                                     logs_in ? SECRET : NULL));
  fuzz_talk talk = fuzz_greet_in_every_cut(&weir_memcached_protocol, &login,
                                           (const char *)data + HEADER_BYTES, size - HEADER_BYTES);
  require(!logs_in || talk.said >= login.length);
  require(!logs_in || strstr(talk.message.text, SECRET) == NULL);
  if (talk.answer != WEIR_GREETING_READY) return 0;
  require(talk.dialect == WEIR_DIALECT_META || talk.dialect == WEIR_DIALECT_CLASSIC);
  require(wanted == WEIR_DIALECT_AUTO || talk.dialect == (unsigned)wanted);
  return 0;
}
