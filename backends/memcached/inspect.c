/* Asks a memcached, or what stands in front of it, what no operation shows.
 *
 * A proxy hangs up on "stats". Behind one, keys with one home may still be spread over servers:
 * every server counts its CAS ids by itself, so ids that are read by turns from two keys that are
 * written by turns rise strictly only on one server. */
#include <stdio.h>

#include "memcached/memcached.h"
#include "wire/exchange.h"

enum { WORD_BYTES = 32 };

/* One that evicts while less of its memory is used lacks room for items of one size alone. */
enum { CALCIFIED_PERCENT = 50 };

/* From "stats" and "stats settings"; -1, or an empty word: not told. */
typedef struct memcached_statistics {
  char version[WORD_BYTES];
  int64_t uptime_s, time_s, items, bytes, limit_bytes, evictions;
  int evicts;   /* "evictions on" */
  int has_auth; /* "auth_enabled_ascii": a file, or "no" */
} memcached_statistics;

enum question { START, ASK_META, ASK_STATISTICS, ASK_SETTINGS, ASK_HOMES, ASKED_ALL };

/* Eight pairs of keys; each is written and read, one key after the other, then once more: that many
 * commands a pair. */
enum { PAIRS = 8, STEPS_OF_PAIR = 8, HOME_STEPS = PAIRS * STEPS_OF_PAIR };

typedef struct memcached_questions {
  weir_exchange exchange; /* first */
  const weir_memcached_login *login;
  const char *key;
  enum question now;
  int home_step;
  uint64_t newest_cas;
  memcached_statistics statistics;
  int64_t before_us, after_us; /* between which the server's clock was read */
  bool knows_meta;
  bool is_proxy;
  bool is_spread; /* keys of one home are on several servers */
} memcached_questions;

/* To the next question that applies. */
static void go_on(memcached_questions *questions) {
  do
    questions->now++;
  while ((questions->now == ASK_META && questions->login->wanted != WEIR_DIALECT_CLASSIC) ||
         (questions->now == ASK_HOMES && !questions->is_proxy));
}

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  static const char *const texts[] = {
      [ASK_META] = "mn\r\n", [ASK_STATISTICS] = "stats\r\n", [ASK_SETTINGS] = "stats settings\r\n"};
  memcached_questions *questions = (memcached_questions *)exchange;
  if (questions->now == ASKED_ALL) return 0;
  if (questions->now == ASK_HOMES) {
    /* A pair's keys differ so far from the end that no hash of all of a key leaves them close
     * together. */
    int step = questions->home_step % STEPS_OF_PAIR;
    const char *format =
        step % 2 == 0 ? "set %s%d.%d.apart 0 60 1\r\n1\r\n" : "gets %s%d.%d.apart\r\n";
    return (size_t)snprintf(say, WEIR_WIRE_GREETING_MOST, format, questions->key,
                            questions->home_step / STEPS_OF_PAIR, step / 2 % 2);
  }
  const char *text = texts[questions->now];
  memcpy(say, text, strlen(text));
  return strlen(text);
}

/* "VALUE key flags length cas". */
static void note_cas(memcached_questions *questions, const weir_line *line) {
  size_t at = line->length;
  uint64_t cas;
  while (at > 0 && line->text[at - 1] != ' ')
    at--;
  if (!weir_number_parse(line->text + at, line->length - at, &cas)) return;
  questions->is_spread |= questions->home_step % STEPS_OF_PAIR > 1 && cas <= questions->newest_cas;
  questions->newest_cas = cas;
}

static int64_t read_number(const char *text, size_t length) {
  uint64_t number;
  bool whole = weir_number_parse(text, length, &number) && number <= INT64_MAX;
  return whole ? (int64_t)number : -1;
}

static bool is(const char *text, size_t length, const char *word) {
  return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* One line "STAT name value". */
static void read_statistic(memcached_statistics *statistics, const weir_line *line) {
  static const char start[] = "STAT ";
  const struct {
    const char *name;
    int64_t *number;
  } numbers[] = {{"uptime", &statistics->uptime_s},
                 {"time", &statistics->time_s},
                 {"curr_items", &statistics->items},
                 {"bytes", &statistics->bytes},
                 {"limit_maxbytes", &statistics->limit_bytes}};
  if (!weir_line_starts(line, start)) return;
  const char *name = line->text + strlen(start);
  const char *blank = memchr(name, ' ', line->length - strlen(start));
  if (blank == NULL) return;
  size_t name_length = (size_t)(blank - name);
  const char *value = blank + 1;
  size_t length = (size_t)(line->text + line->length - value);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (is(name, name_length, numbers[i].name)) *numbers[i].number = read_number(value, length);
  if (is(name, name_length, "auth_enabled_ascii")) statistics->has_auth = !is(value, length, "no");
  if (is(name, name_length, "version"))
    snprintf(statistics->version, WORD_BYTES, "%.*s", (int)length, value);
  if (!is(name, name_length, "evictions")) return;
  /* A count in one list and a switch in the other. */
  if (is(value, length, "on") || is(value, length, "off"))
    statistics->evicts = is(value, length, "on");
  else
    statistics->evictions = read_number(value, length);
}

/* Whether it is the last of an answer. */
static bool is_end(enum question question, const weir_line *line) {
  return question == ASK_META || weir_line_is(line, "END") || weir_line_is(line, "STORED") ||
         weir_line_is(line, "NOT_STORED") || weir_line_is(line, "ERROR") ||
         weir_line_starts(line, "CLIENT_ERROR") || weir_line_starts(line, "SERVER_ERROR");
}

static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  memcached_questions *questions = (memcached_questions *)exchange;
  weir_line line;
  size_t used = 0;
  do { /* nothing is read before the answer is whole */
    line = weir_line_find(bytes + used, length - used);
    if (line.taken == 0) return false;
    used += line.taken;
  } while (!is_end(questions->now, &line));
  *taken = used;
  for (used = 0; used < *taken; used += line.taken) {
    line = weir_line_find(bytes + used, *taken - used);
    if (questions->now == ASK_META) questions->knows_meta = weir_line_is(&line, "MN");
    if (questions->now == ASK_HOMES && weir_line_starts(&line, "VALUE "))
      note_cas(questions, &line);
    if (questions->now == ASK_STATISTICS || questions->now == ASK_SETTINGS)
      read_statistic(&questions->statistics, &line);
  }
  if (questions->now == ASK_STATISTICS) {
    questions->before_us = questions->exchange.asked_unix_us;
    questions->after_us = questions->exchange.received_unix_us;
  }
  if (questions->now != ASK_HOMES || ++questions->home_step >= HOME_STEPS) go_on(questions);
  return true;
}

static void lose(weir_exchange *exchange) {
  memcached_questions *questions = (memcached_questions *)exchange;
  if (questions->now == ASK_STATISTICS) {
    questions->is_proxy = true;
    questions->now = ASK_SETTINGS; /* which it would not like better */
  } else if (questions->now == ASK_HOMES) {
    questions->home_step = HOME_STEPS;
  }
  go_on(questions);
}

/* --- what is reported --------------------------------------------------------------------------
 */

static void report_dialect(const memcached_questions *questions,
                           const weir_inspection *inspection) {
  static const char several[] = "an addition takes up to three commands";
  if (questions->exchange.dialect == WEIR_DIALECT_META) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "dialect",
                     "meta commands: an addition is one command");
  } else if (questions->is_proxy) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "dialect",
                     "classic commands, as the proxy knows no others: %s", several);
  } else if (questions->knows_meta) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "dialect",
                     "classic commands, as protocol=classic asks for: %s; the server knows meta "
                     "commands, so leave it out",
                     several);
  } else {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "dialect",
                     "classic commands: %s; a memcached from 1.6 on knows better", several);
  }
}

/* Of a server that tells all of it: others that speak the protocol may not. */
static void report_memory(const memcached_questions *questions, const weir_inspection *inspection) {
  const memcached_statistics *statistics = &questions->statistics;
  if (statistics->items < 0 || statistics->limit_bytes < 0 || statistics->evictions < 0) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "memory",
                     "it does not tell how much of it is used, nor what it has evicted: each item "
                     "evicted may be a counter whose limit is then admitted once more");
    return;
  }
  double percent = statistics->limit_bytes > 0 && statistics->bytes >= 0
                       ? (double)statistics->bytes * 100 / (double)statistics->limit_bytes
                       : 0;
  weir_wire_report(inspection, WEIR_FINDING_FACT, "memory", "%lld items, %.0f %% of %.0f MB",
                   (long long)statistics->items, percent,
                   (double)statistics->limit_bytes / (1 << 20));
  if (statistics->evicts == 0) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "switched off (-M): when memory is full nothing new is counted, and requests "
                     "for new keys get no decision");
  } else if (statistics->evictions > 0 && statistics->limit_bytes > 0 &&
             percent < CALCIFIED_PERCENT) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "%lld items since it started, though only %.0f %% of its memory is used: its "
                     "slabs belong to items of other sizes (calcification), and each may be a "
                     "counter whose limit is then admitted once more; give counters a memcached of "
                     "their own, or restart this one",
                     (long long)statistics->evictions, percent);
  } else if (statistics->evictions > 0) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "%lld items since it started: each may be a counter whose limit is then "
                     "admitted once more; give it more memory",
                     (long long)statistics->evictions);
  } else {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "eviction",
                     "none so far; when memory is full it is allowed, and then a lost counter "
                     "admits its limit once more");
  }
}

/* The server tells whole seconds, of a clock that it looks at once a second and that began with its
 * own start in whole seconds; a busy one is later. So nothing is said of what is nearer. */
static void report_clock(const memcached_questions *questions, const weir_inspection *inspection) {
  static const int64_t second_us = 1000000, error_s = 3, day_s = INT64_C(24) * 3600;
  if (questions->statistics.time_s <= 0) return;
  int64_t half_us = (questions->after_us - questions->before_us) / 2;
  int64_t server_us = questions->statistics.time_s * second_us + second_us / 2;
  int64_t ahead_us = server_us - questions->before_us - half_us;
  if (ahead_us > (day_s - error_s) * second_us && weir_ttl_is_date(inspection->ttl_us)) {
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "clock",
                     "its clock is %.1f days ahead of this machine's: what lives for more than 30 "
                     "days is stored with a date, and is gone at once or too early where that date "
                     "is not the server's; weir goes by the server's clock while \"stats\" tells "
                     "it, other clients do not: set the clock of its machine, and start memcached "
                     "again, which reads it when it starts",
                     (double)ahead_us / (double)(day_s * second_us));
  } else {
    weir_wire_report_clock(inspection, ahead_us, half_us + error_s * second_us);
  }
}

static void report_server(const memcached_questions *questions, const weir_inspection *inspection) {
  const memcached_statistics *statistics = &questions->statistics;
  char age[WEIR_AGE_BYTES];
  if (statistics->version[0] == '\0') return;
  weir_wire_report(inspection, WEIR_FINDING_FACT, "server", "memcached %s, up %s",
                   statistics->version, weir_wire_age(statistics->uptime_s, age));
  report_memory(questions, inspection);
  report_clock(questions, inspection);
}

/* A name is one server to weir; who has several behind one wants to know. */
static void report_name(weir_wire *wire, const weir_inspection *inspection) {
  weir_wire_choice choice = weir_wire_read_choice(wire);
  if (choice.any || choice.alike < 2) return;
  weir_wire_report(inspection, WEIR_FINDING_WARNING, "name",
                   "it has %zu addresses, of which the first alone is used while it accepts: list "
                   "several memcached as memcached://HOST,HOST, of a headless service its pods "
                   "(cache-0.cache,cache-1.cache); where each is a proxy in front of the same "
                   "servers, write addresses=any",
                   choice.alike);
}

void weir_memcached_inspect(weir_wire *wire, const weir_memcached_login *login,
                            const weir_inspection *inspection) {
  weir_message why = {""};
  memcached_questions questions = {.exchange = {.protocol = &weir_memcached_protocol,
                                                .settings = login,
                                                .ask = ask,
                                                .receive = receive,
                                                .lose = lose},
                                   .login = login,
                                   .key = inspection->key,
                                   .now = START,
                                   .statistics = {.uptime_s = -1,
                                                  .time_s = -1,
                                                  .items = -1,
                                                  .bytes = -1,
                                                  .limit_bytes = -1,
                                                  .evictions = -1,
                                                  .evicts = -1,
                                                  .has_auth = -1}};
  report_name(wire, inspection);
  if (!inspection->answers) return;
  go_on(&questions);
  weir_wire_report_security(wire, inspection);
  if (!weir_wire_exchange(wire, &questions.exchange, inspection->key, inspection->timeout_us,
                          &why)) {
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "questions",
                     "not all were answered in time: %s", why.text);
    return;
  }
  if (login->length > 0 && questions.statistics.has_auth == 0)
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "access",
        "the server takes anybody: it was started without -Y, and the user and password "
        "of the URL are of no use");
  else if (login->length > 0)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "access",
                     "the user and password of the URL are accepted");
  report_dialect(&questions, inspection);
  if (questions.is_proxy) weir_wire_report_proxy(inspection, questions.is_spread);
  weir_wire_report_any(wire, inspection, questions.is_proxy);
  report_server(&questions, inspection);
}
