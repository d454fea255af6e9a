/* The raw loop and its socket: how a server is greeted, one increment after another, and what the
 * server has counted meanwhile. */
#include "bench/raw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

enum { AT_ONCE = 256 }; /* commands in one write while preparing */

struct weir_bench_raw {
  const weir_bench_target *target;
  weir_bench_wire wire;
};

/* --- connections -------------------------------------------------------------------------------
 */

static bool log_in(weir_bench_raw *raw, weir_message *message) {
  const weir_bench_target *target = raw->target;
  if (target->password[0] == '\0' || target->via == WEIR_BENCH_HTTP ||
      target->via == WEIR_BENCH_GRPC)
    return true;
  if (target->redis) {
    bool named = target->user[0] != '\0';
    weir_bench_wire_say_text(&raw->wire, named ? "*3\r\n$4\r\nAUTH\r\n" : "*2\r\n$4\r\nAUTH\r\n");
    if (named) weir_bench_wire_say_word(&raw->wire, target->user, strlen(target->user));
    weir_bench_wire_say_word(&raw->wire, target->password, strlen(target->password));
  } else {
    char header[64];
    size_t length = strlen(target->user) + 1 + strlen(target->password);
    snprintf(header, sizeof header, "set auth 0 0 %zu\r\n", length);
    weir_bench_wire_say_text(&raw->wire, header);
    weir_bench_wire_say_text(&raw->wire, target->user);
    weir_bench_wire_say_text(&raw->wire, " ");
    weir_bench_wire_say_text(&raw->wire, target->password);
    weir_bench_wire_say_text(&raw->wire, "\r\n");
  }
  const char *line =
      weir_bench_wire_flush(&raw->wire, message) ? weir_bench_wire_line(&raw->wire, message) : NULL;
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

static bool read_answers(weir_bench_raw *raw, unsigned count, weir_message *message) {
  for (unsigned i = 0; i < count; i++) {
    const char *line = weir_bench_wire_line(&raw->wire, message);
    if (line == NULL) return false;
    bool is_good = raw->target->redis
                       ? line[0] == ':' || line[0] == '+' || strcmp(line, "$-1") == 0
                       : (line[0] >= '0' && line[0] <= '9') || strcmp(line, "STORED") == 0;
    if (is_good) continue;
    weir_message_set(message, "the server answers \"%.100s\"", line);
    return false;
  }
  return true;
}

bool weir_bench_raw_prepare(weir_bench_raw *raw, const weir_bench_key *keys, uint32_t count,
                            weir_message *message) {
  weir_bench_wire *wire = &raw->wire;
  bool needed = raw->target->via == WEIR_BENCH_STORE;
  for (uint32_t i = 0; needed && i < count;) {
    unsigned part = count - i < AT_ONCE ? (unsigned)(count - i) : AT_ONCE;
    for (const weir_bench_key *key = &keys[i]; key < &keys[i + part]; key++) {
      if (raw->target->redis) {
        weir_bench_wire_say_text(wire, "*5\r\n$3\r\nSET\r\n");
        weir_bench_wire_say_word(wire, key->text, key->length);
        weir_bench_wire_say_text(wire, "$1\r\n0\r\n$2\r\nEX\r\n$3\r\n600\r\n");
      } else {
        weir_bench_wire_say_text(wire, "set ");
        weir_bench_wire_say(wire, key->text, key->length);
        weir_bench_wire_say_text(wire, " 0 600 1\r\n0\r\n");
      }
    }
    if (!weir_bench_wire_flush(wire, message) || !read_answers(raw, part, message)) return false;
    i += part;
  }
  return true;
}

bool weir_bench_raw_add(weir_bench_raw *raw, const weir_bench_key *const *keys, unsigned count,
                        bool pair, weir_message *message) {
  weir_bench_wire *wire = &raw->wire;
  for (unsigned i = 0; i < count; i++) {
    if (raw->target->via == WEIR_BENCH_RESP) {
      weir_bench_wire_say(wire, "*1\r\n$4\r\nPING\r\n", 14);
    } else if (raw->target->redis) {
      if (pair) {
        weir_bench_wire_say(wire, "*6\r\n$3\r\nSET\r\n", 13);
        weir_bench_wire_say_word(wire, keys[i]->text, keys[i]->length);
        weir_bench_wire_say_text(wire, "$1\r\n0\r\n$2\r\nPX\r\n$6\r\n600000\r\n$2\r\nNX\r\n");
      }
      weir_bench_wire_say(wire, "*3\r\n$6\r\nINCRBY\r\n", 16);
      weir_bench_wire_say_word(wire, keys[i]->text, keys[i]->length);
      weir_bench_wire_say(wire, "$1\r\n1\r\n", 7);
    } else {
      weir_bench_wire_say(wire, "incr ", 5);
      weir_bench_wire_say(wire, keys[i]->text, keys[i]->length);
      weir_bench_wire_say(wire, " 1\r\n", 4);
    }
  }
  return weir_bench_wire_flush(wire, message) &&
         read_answers(raw, pair ? 2 * count : count, message);
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
  weir_bench_wire_say_text(&raw->wire, "stats\r\n");
  const char *line =
      weir_bench_wire_flush(&raw->wire, message) ? weir_bench_wire_line(&raw->wire, message) : NULL;
  bool known = line != NULL && strncmp(line, "STAT ", 5) == 0;
  for (; line != NULL && strncmp(line, "STAT ", 5) == 0;
       line = weir_bench_wire_line(&raw->wire, message)) {
    served->meta += number_in(line, "STAT cmd_meta ");
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
      served->commands += number_in(line, counted[i]);
  }
  return known && line != NULL;
}

static bool count_redis(weir_bench_raw *raw, weir_bench_served *served, weir_message *message) {
  weir_bench_wire_say_text(&raw->wire, "*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n");
  const char *line =
      weir_bench_wire_flush(&raw->wire, message) ? weir_bench_wire_line(&raw->wire, message) : NULL;
  if (line == NULL || line[0] != '$') return false;
  while ((line = weir_bench_wire_line(&raw->wire, message)) != NULL) {
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

weir_status weir_bench_raw_ask(weir_bench_raw *raw, const weir_bench_key *const *keys,
                               unsigned count, weir_bench_answers *answers, weir_message *message) {
  unsigned most = raw->target->via == WEIR_BENCH_GRPC ? WEIR_BENCH_GRPC_MOST : WEIR_BATCH_MOST;
  for (unsigned first = 0; first < count; first += most) {
    unsigned end = count - first < most ? count : first + most;
    for (unsigned i = first; i < end; i++)
      weir_bench_via_say(raw->target, keys[i], &raw->wire);
    if (!weir_bench_wire_flush(&raw->wire, message)) return WEIR_UNAVAILABLE;
    for (unsigned i = first; i < end; i++) {
      weir_status status = weir_bench_via_read(raw->target, &raw->wire, answers, message);
      if (status != WEIR_OK) return status;
    }
  }
  return WEIR_OK;
}
