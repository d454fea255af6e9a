/* The raw loop and its socket: which server a URL names, how it is greeted, and one increment after
 * another. */
#include "bench/raw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "bench/via.h"
#include "bench/wire.h"
#include "store/store.h"
#include "store/url.h"

enum {
  AT_ONCE = 256, /* commands in one write while preparing */
  MEMCACHED_PORT = 11211,
  REDIS_PORT = 6379
};

struct weir_bench_raw {
  const weir_bench_target *target;
  weir_bench_wire wire;
};

static void say(weir_bench_raw *raw, const char *text, size_t length) {
  weir_bench_wire_say(&raw->wire, text, length);
}

static void say_text(weir_bench_raw *raw, const char *text) {
  weir_bench_wire_say_text(&raw->wire, text);
}

static void say_word(weir_bench_raw *raw, const char *word, size_t length) {
  weir_bench_wire_say_word(&raw->wire, word, length);
}

static bool flush(weir_bench_raw *raw, weir_message *message) {
  return weir_bench_wire_flush(&raw->wire, message);
}

static const char *read_line(weir_bench_raw *raw, weir_message *message) {
  return weir_bench_wire_line(&raw->wire, message);
}

/* --- which servers -----------------------------------------------------------------------------
 */

void weir_bench_copy(char *to, const char *from) {
  snprintf(to, WEIR_BENCH_HOST_BYTES, "%s", from != NULL ? from : "");
}

static void note_hosts(const weir_url *url, weir_bench_target *target) {
  uint16_t port = target->redis ? REDIS_PORT : MEMCACHED_PORT;
  if (url->host_count == 0 && url->path != NULL) {
    weir_bench_copy(target->hosts[0].name, url->path);
    target->host_count = 1;
    return;
  }
  for (size_t i = 0; i < url->host_count && i < WEIR_BENCH_HOSTS_MOST; i++) {
    weir_bench_copy(target->hosts[i].name, url->hosts[i].name);
    target->hosts[i].port = url->hosts[i].port != 0 ? url->hosts[i].port : port;
    target->host_count++;
  }
}

weir_status weir_bench_target_read(const char *url, weir_bench_target *target,
                                   weir_message *message) {
  weir_parsed_url parsed;
  weir_status status = weir_url_parse(url, weir_builtin_backends, &parsed, message);
  if (status != WEIR_OK) return status;
  const char *scheme = parsed.url.scheme;
  *target = (weir_bench_target){.redis = strncmp(scheme, "redis", 5) == 0};
  target->raw = (target->redis || strncmp(scheme, "memcached", 9) == 0) &&
                strncmp(scheme, "rediss", 6) != 0 && strncmp(scheme, "memcacheds", 10) != 0;
  note_hosts(&parsed.url, target);
  weir_bench_copy(target->user, parsed.url.user);
  weir_bench_copy(target->password, parsed.url.password);
  weir_url_clear(&parsed);
  return WEIR_OK;
}

/* --- what is asked -----------------------------------------------------------------------------
 */

static void say_create(weir_bench_raw *raw, const weir_bench_key *key) {
  if (raw->target->redis) {
    say_text(raw, "*5\r\n$3\r\nSET\r\n");
    say_word(raw, key->text, key->length);
    say_text(raw, "$1\r\n0\r\n$2\r\nEX\r\n$3\r\n600\r\n");
  } else {
    say_text(raw, "set ");
    say(raw, key->text, key->length);
    say_text(raw, " 0 600 1\r\n0\r\n");
  }
}

static void say_add(weir_bench_raw *raw, const weir_bench_key *key) {
  if (raw->target->via == WEIR_BENCH_RESP) {
    say_text(raw, "*1\r\n$4\r\nPING\r\n");
  } else if (raw->target->redis) {
    say(raw, "*3\r\n$6\r\nINCRBY\r\n", 16);
    say_word(raw, key->text, key->length);
    say(raw, "$1\r\n1\r\n", 7);
  } else {
    say(raw, "incr ", 5);
    say(raw, key->text, key->length);
    say(raw, " 1\r\n", 4);
  }
}

static bool log_in(weir_bench_raw *raw, weir_message *message) {
  const weir_bench_target *target = raw->target;
  if (target->password[0] == '\0' || target->via == WEIR_BENCH_HTTP ||
      target->via == WEIR_BENCH_GRPC)
    return true;
  if (target->redis) {
    bool named = target->user[0] != '\0';
    say_text(raw, named ? "*3\r\n$4\r\nAUTH\r\n" : "*2\r\n$4\r\nAUTH\r\n");
    if (named) say_word(raw, target->user, strlen(target->user));
    say_word(raw, target->password, strlen(target->password));
  } else {
    char header[64];
    size_t length = strlen(target->user) + 1 + strlen(target->password);
    snprintf(header, sizeof header, "set auth 0 0 %zu\r\n", length);
    say_text(raw, header);
    say_text(raw, target->user);
    say_text(raw, " ");
    say_text(raw, target->password);
    say_text(raw, "\r\n");
  }
  const char *line = flush(raw, message) ? read_line(raw, message) : NULL;
  if (line == NULL) return false;
  if (strcmp(line, "+OK") == 0 || strcmp(line, "STORED") == 0) return true;
  weir_message_set(message, "the server refuses the credentials");
  return false;
}

weir_bench_raw *weir_bench_raw_open(const weir_bench_target *target, size_t host,
                                    weir_message *message) {
  const struct weir_bench_host *at = &target->hosts[host];
  weir_bench_raw *raw = calloc(1, sizeof *raw);
  if (raw == NULL) {
    weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
    return NULL;
  }
  raw->target = target;
  if (weir_bench_wire_open(&raw->wire, at->name, at->port, message) &&
      weir_bench_via_begin(target, &raw->wire, message) && log_in(raw, message))
    return raw;
  weir_bench_raw_close(raw);
  return NULL;
}

void weir_bench_raw_close(weir_bench_raw *raw) {
  if (raw == NULL) return;
  weir_bench_via_end(&raw->wire);
  weir_bench_wire_close(&raw->wire);
  free(raw);
}

/* --- the loop ----------------------------------------------------------------------------------
 */

static bool is_good(const weir_bench_raw *raw, const char *line) {
  if (raw->target->redis) return line[0] == ':' || line[0] == '+';
  return (line[0] >= '0' && line[0] <= '9') || strcmp(line, "STORED") == 0;
}

static bool read_answers(weir_bench_raw *raw, unsigned count, weir_message *message) {
  for (unsigned i = 0; i < count; i++) {
    const char *line = read_line(raw, message);
    if (line == NULL) return false;
    if (is_good(raw, line)) continue;
    weir_message_set(message, "the server answers \"%.100s\"", line);
    return false;
  }
  return true;
}

bool weir_bench_raw_prepare(weir_bench_raw *raw, const weir_bench_key *keys, uint32_t count,
                            weir_message *message) {
  bool needed = raw->target->via == WEIR_BENCH_STORE;
  for (uint32_t i = 0; needed && i < count;) {
    unsigned part = count - i < AT_ONCE ? (unsigned)(count - i) : AT_ONCE;
    for (unsigned j = 0; j < part; j++)
      say_create(raw, &keys[i + j]);
    if (!flush(raw, message) || !read_answers(raw, part, message)) return false;
    i += part;
  }
  return true;
}

bool weir_bench_raw_add(weir_bench_raw *raw, const weir_bench_key *const *keys, unsigned count,
                        weir_message *message) {
  for (unsigned i = 0; i < count; i++)
    say_add(raw, keys[i]);
  return flush(raw, message) && read_answers(raw, count, message);
}

/* --- what servers have done --------------------------------------------------------------------
 */

/* The number behind `name` in a line, or 0. */
static uint64_t number_in(const char *line, const char *name) {
  size_t length = strlen(name);
  return strncmp(line, name, length) == 0 ? strtoull(line + length, NULL, 10) : 0;
}

static bool count_memcached(weir_bench_raw *raw, weir_bench_served *served, weir_message *message) {
  static const char *const counted[] = {
      "STAT cmd_get ",     "STAT cmd_set ",       "STAT cmd_touch ",
      "STAT incr_misses ", "STAT incr_hits ",     "STAT decr_hits ",
      "STAT decr_misses ", "STAT delete_misses ", "STAT delete_hits ",
  };
  say_text(raw, "stats\r\n");
  const char *line = flush(raw, message) ? read_line(raw, message) : NULL;
  bool known = line != NULL && strncmp(line, "STAT ", 5) == 0;
  for (; line != NULL && strncmp(line, "STAT ", 5) == 0; line = read_line(raw, message)) {
    served->meta += number_in(line, "STAT cmd_meta ");
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
      served->commands += number_in(line, counted[i]);
  }
  return known && line != NULL;
}

static bool count_redis(weir_bench_raw *raw, weir_bench_served *served, weir_message *message) {
  say_text(raw, "*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n");
  const char *line = flush(raw, message) ? read_line(raw, message) : NULL;
  if (line == NULL || line[0] != '$') return false;
  while ((line = read_line(raw, message)) != NULL) {
    uint64_t total = number_in(line, "total_commands_processed:");
    if (total == 0) continue;
    served->commands += total;
    return true; /* the rest goes with the connection */
  }
  return false;
}

bool weir_bench_served_read(const weir_bench_target *target, weir_bench_served *served) {
  weir_message ignored;
  *served = (weir_bench_served){0};
  if (target->via != WEIR_BENCH_STORE) return false; /* it counts no commands */
  for (size_t i = 0; target->raw && i < target->host_count; i++) {
    weir_bench_raw *raw = weir_bench_raw_open(target, i, &ignored);
    bool known = raw != NULL && (target->redis ? count_redis(raw, served, &ignored)
                                               : count_memcached(raw, served, &ignored));
    weir_bench_raw_close(raw);
    if (!known) return false;
  }
  return target->raw && target->host_count > 0;
}

uint64_t weir_bench_served_between(const weir_bench_served *before,
                                   const weir_bench_served *after) {
  uint64_t meta = after->meta - before->meta;
  return meta > 0 ? meta : after->commands - before->commands;
}

/* --- decisions of a server ---------------------------------------------------------------------
 */

static weir_status ask_together(weir_bench_raw *raw, const weir_bench_key *const *keys,
                                unsigned count, weir_bench_tally *tally, weir_message *message) {
  for (unsigned i = 0; i < count; i++)
    weir_bench_via_say(raw->target, keys[i], &raw->wire);
  if (!flush(raw, message)) return WEIR_UNAVAILABLE;
  for (unsigned i = 0; i < count; i++) {
    weir_status status = weir_bench_via_read(raw->target, &raw->wire, tally, message);
    if (status != WEIR_OK) return status;
  }
  return WEIR_OK;
}

weir_status weir_bench_raw_ask(weir_bench_raw *raw, const weir_bench_key *const *keys,
                               unsigned count, weir_bench_tally *tally, weir_message *message) {
  unsigned most = weir_bench_via_most(raw->target);
  weir_status status = WEIR_OK;
  for (unsigned i = 0; i < count && status == WEIR_OK; i += most)
    status = ask_together(raw, keys + i, count - i < most ? count - i : most, tally, message);
  return status;
}
