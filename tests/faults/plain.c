#include "faults/plain.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "faults/ground.h"
#include "fixture/server.h"

enum { PATIENCE_S = 60, LINE_BYTES = 1024 };

bool plain_is_redis(const struct server *server) {
  return strncmp(server->scheme, "redis", 5) == 0;
}

/* --- a conversation ----------------------------------------------------------------------------
 */

typedef struct talk {
  int socket;
  FILE *from;
} talk;

static talk talk_to(const struct server *server) {
  talk made = {.socket = server_connect(server)};
  struct timeval patience = {.tv_sec = PATIENCE_S};
  if (made.socket < 0) give_up("cannot connect to %s: %s", server->host, strerror(errno));
  setsockopt(made.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  made.from = fdopen(made.socket, "r");
  if (made.from == NULL) give_up("no memory");
  return made;
}

static void end_talk(talk *done) {
  fclose(done->from);
}

static void say(const talk *with, const char *text, size_t length) {
  for (ssize_t sent; length > 0; text += sent, length -= (size_t)sent) {
    sent = send(with->socket, text, length, MSG_NOSIGNAL);
    if (sent < 0) give_up("a server hung up: %s", strerror(errno));
  }
}

static void say_line(const talk *with, const char *text) {
  char line[LINE_BYTES];
  int length = snprintf(line, sizeof line, "%s\r\n", text);
  say(with, line, (size_t)length);
}

/* Without its end. */
static bool hear(const talk *with, char line[LINE_BYTES]) {
  if (fgets(line, LINE_BYTES, with->from) == NULL) return false;
  line[strcspn(line, "\r\n")] = '\0';
  return true;
}

static void expect(const talk *with, const char *start) {
  char line[LINE_BYTES] = "";
  if (!hear(with, line) || strncmp(line, start, strlen(start)) != 0)
    give_up("a server answered '%s' in place of '%s'", line, start);
}

/* --- keys --------------------------------------------------------------------------------------
 */

void plain_flush(const struct server *server) {
  talk with = talk_to(server);
  say_line(&with, plain_is_redis(server) ? "FLUSHALL" : "flush_all");
  expect(&with, plain_is_redis(server) ? "+OK" : "OK");
  end_talk(&with);
}

static int digit(char c) {
  return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* memcached writes keys as URLs do, up to the next space. */
static void decode(const char *text, plain_key key) {
  size_t length = 0;
  for (; *text != '\0' && *text != ' ' && length + 1 < PLAIN_KEY_BYTES; text++) {
    bool coded =
        text[0] == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2]);
    key[length++] = coded ? (char)(digit(text[1]) * 16 + digit(text[2])) : *text;
    if (coded) text += 2;
  }
  key[length] = '\0';
}

/* A crawl that somebody else began makes it busy. */
static size_t list_memcached(const talk *with, plain_key *keys, size_t most) {
  char line[LINE_BYTES];
  size_t count = 0;
  for (bool asked = false; asked || (say_line(with, "lru_crawler metadump all"), true);) {
    asked = true;
    if (!hear(with, line)) give_up("a memcached does not list its keys");
    if (strncmp(line, "BUSY", 4) == 0) {
      sleep_us(MS_US);
      asked = false;
    }
    if (strcmp(line, "END") == 0) return count;
    if (strncmp(line, "key=", 4) != 0 || count == most) continue;
    decode(line + 4, keys[count]);
    count += strncmp(keys[count], "weir:", 5) == 0;
  }
  return count;
}

static size_t list_redis(const talk *with, plain_key *keys, size_t most) {
  char line[LINE_BYTES];
  size_t count = 0;
  say_line(with, "KEYS weir:*");
  if (!hear(with, line) || line[0] != '*') give_up("a Redis does not list its keys");
  for (long lines = 2 * strtol(line + 1, NULL, 10); lines > 0; lines--) {
    if (!hear(with, line)) give_up("a Redis does not list its keys");
    if (line[0] != '$' && count < most) snprintf(keys[count++], PLAIN_KEY_BYTES, "%.255s", line);
  }
  return count;
}

size_t plain_list(const struct server *server, plain_key *keys, size_t most) {
  talk with = talk_to(server);
  size_t count =
      plain_is_redis(server) ? list_redis(&with, keys, most) : list_memcached(&with, keys, most);
  end_talk(&with);
  return count;
}

void plain_drop(const struct server *server, plain_key *keys, size_t count) {
  char line[LINE_BYTES];
  talk with = talk_to(server);
  for (size_t i = 0; i < count; i++) {
    snprintf(line, sizeof line, "%s %s", plain_is_redis(server) ? "DEL" : "delete", keys[i]);
    say_line(&with, line);
    if (!hear(&with, line)) give_up("a server does not delete a key");
  }
  end_talk(&with);
}

static void spoil(const talk *with, bool is_redis, const char *key) {
  char line[LINE_BYTES];
  if (is_redis) {
    snprintf(line, sizeof line, "DEL %s\r\nRPUSH %s foreign", key, key);
    say_line(with, line);
    expect(with, ":");
    expect(with, ":");
  } else {
    snprintf(line, sizeof line, "set %s 0 0 7\r\nforeign", key);
    say_line(with, line);
    expect(with, "STORED");
  }
}

void plain_spoil(const struct server *server, plain_key *keys, size_t count) {
  talk with = talk_to(server);
  for (size_t i = 0; i < count; i++)
    spoil(&with, plain_is_redis(server), keys[i]);
  end_talk(&with);
}

/* --- eviction ----------------------------------------------------------------------------------
 */

static void press(void *context) {
  enum { BURST = 100, PAUSE_US = 5000, ENTRY_BYTES = 200 };
  static char burst[BURST * 2 * ENTRY_BYTES];
  static const char filling[] =
      "0123456789012345678901234567890123456789012345678901234567890123456789";
  pressure *on = context;
  talk with = talk_to(on->server);
  bool is_redis = plain_is_redis(on->server);
  if (is_redis) say_line(&with, "CLIENT REPLY OFF");
  for (unsigned long number = 0; !atomic_load(&on->stopped); sleep_us(PAUSE_US)) {
    size_t used = 0;
    for (int i = 0; i < BURST; i++, number++)
      used += (size_t)snprintf(burst + used, sizeof burst - used,
                               is_redis ? "SET p%lu %s\r\n" : "set p%lu 0 0 70 noreply\r\n%s\r\n",
                               number, filling);
    say(&with, burst, used);
  }
  say_line(&with, is_redis ? "CLIENT REPLY ON" : "version");
  expect(&with, is_redis ? "+OK" : "VERSION"); /* all of it is done */
  end_talk(&with);
}

pid_t plain_press(pressure *on) {
  return start_process(press, on);
}

static void note(eviction_watch *watch, const char *key, int64_t from_us, int64_t to_us) {
  size_t place = watch->count;
  if (place == EVICTIONS_MOST) give_up("more evictions than there is room to note");
  snprintf(watch->seen[place].key, PLAIN_KEY_BYTES, "%.255s", key);
  watch->seen[place].when = (loss){from_us, to_us};
  watch->count = place + 1;
}

/* "ts=SECONDS.MICROSECONDS gid=... type=eviction key=... ...", where the microseconds are a plain
 * number. */
static void watch_memcached(eviction_watch *watch, const talk *with) {
  char line[LINE_BYTES];
  say_line(with, "watch evictions");
  expect(with, "OK");
  for (watch->ready = true; hear(with, line);) {
    char *rest = line;
    const char *key = strstr(line, " key=");
    if (strstr(line, "skipped") != NULL) watch->missed = true;
    if (strncmp(line, "ts=", 3) != 0 || key == NULL) continue;
    int64_t at_us = strtoll(line + 3, &rest, 10) * SECOND_US;
    at_us += strtoll(rest + 1, NULL, 10);
    plain_key name;
    decode(key + 5, name);
    if (strncmp(name, "weir:", 5) == 0) note(watch, name, at_us, at_us);
    watch->reported_us = at_us;
  }
}

/* Redis does not say when. Between the answers to two pings, then: what comes after the answer to
 * one happened after that was sent. */
static void watch_redis(eviction_watch *watch, const talk *with) {
  char line[LINE_BYTES];
  say_line(with, "PSUBSCRIBE __keyevent@*__:evicted");
  for (int64_t sent_us = real_time_us();; sleep_us(MS_US)) {
    int64_t after_us = sent_us;
    bool answered = false;
    sent_us = real_time_us();
    snprintf(line, sizeof line, "PING at%lld", (long long)sent_us);
    say_line(with, line);
    while (!answered && hear(with, line)) {
      if (strncmp(line, "weir:", 5) == 0) note(watch, line, after_us, real_time_us());
      answered = strncmp(line, "at", 2) == 0;
    }
    if (!answered) return;
    watch->reported_us = sent_us;
    watch->ready = true;
  }
}

static void watch_evictions(void *context) {
  eviction_watch *watch = context;
  talk with = talk_to(watch->server);
  if (plain_is_redis(watch->server))
    watch_redis(watch, &with);
  else
    watch_memcached(watch, &with);
  give_up("a server tells no more evictions");
}

pid_t plain_watch(eviction_watch *watch) {
  pid_t process = start_process(watch_evictions, watch);
  while (!atomic_load(&watch->ready))
    sleep_us(MS_US);
  return process;
}
