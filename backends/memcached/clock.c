/* Finds out what time it is for a server. Items that live for more than 30 days are stored with a
 * date, which the server holds against its own clock: that is asked for before the first such
 * command, and now and then after it. A memcached reads the clock of its machine when it starts,
 * and counts from there, so that one which started before that clock was set stays wrong. A proxy
 * hangs up on the question: then this machine's clock must do. */
#include "memcached/memcached.h"
#include "wire/exchange.h"

/* An answer is good for a minute, as is that of a proxy, which is none. Where none came in time another
 * request is held up for it a little later, and where what was written is gone at once, soon. */
enum { RENEW_US = 60000000, RETRY_US = 10000000, DOUBT_US = 1000000, ASK_LEAST_US = 1000 };

typedef struct clock_question {
  weir_exchange exchange; /* first */
  bool asked;
  int64_t ahead_s; /* INT64_MIN: not told */
} clock_question;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  static const char text[] = "stats\r\n";
  clock_question *question = (clock_question *)exchange;
  if (question->asked) return 0;
  question->asked = true;
  memcpy(say, text, sizeof text - 1);
  return sizeof text - 1;
}

/* Lines up to END, or an error. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  static const char start[] = "STAT time ";
  const size_t start_length = sizeof start - 1;
  clock_question *question = (clock_question *)exchange;
  int64_t ahead_s = INT64_MIN;
  weir_line line;
  uint64_t time_s;
  *taken = 0;
  do {
    line = weir_line_find(bytes + *taken, length - *taken);
    if (line.taken == 0) return false;
    *taken += line.taken;
    if (weir_line_starts(&line, start) &&
        weir_number_parse(line.text + start_length, line.length - start_length, &time_s) &&
        time_s <= INT32_MAX)
      ahead_s = (int64_t)time_s - exchange->received_unix_us / 1000000;
  } while (weir_line_starts(&line, "STAT "));
  question->ahead_s = ahead_s;
  return true;
}

/* A server that hangs up is not asked again on this occasion. */
static void lose(weir_exchange *exchange) {
  (void)exchange;
}

void weir_memcached_clock_tend(weir_memcached_clock *clock, weir_wire *wire,
                               const weir_memcached_login *login, int64_t deadline_us) {
  int64_t now_us = weir_monotonic_us();
  int64_t patience_us = (deadline_us - now_us) / 2;
  if (now_us < atomic_load(&clock->ask_at_us) || patience_us < ASK_LEAST_US ||
      weir_wire_is_away(wire) || atomic_exchange(&clock->is_asking, true))
    return;
  clock_question question = {.exchange = {.protocol = &weir_memcached_protocol,
                                          .settings = login,
                                          .ask = ask,
                                          .receive = receive,
                                          .lose = lose},
                             .ahead_s = INT64_MIN};
  bool finished = weir_wire_exchange(wire, &question.exchange, NULL, patience_us, NULL);
  if (question.ahead_s != INT64_MIN) weir_wire_set_clock(wire, question.ahead_s);
  atomic_store(&clock->ask_at_us, weir_monotonic_us() + (finished ? RENEW_US : RETRY_US));
  atomic_store(&clock->is_asking, false);
}

void weir_memcached_clock_doubt(weir_memcached_clock *clock) {
  int64_t soon_us = weir_monotonic_us() + DOUBT_US;
  if (atomic_load(&clock->ask_at_us) > soon_us) atomic_store(&clock->ask_at_us, soon_us);
}
