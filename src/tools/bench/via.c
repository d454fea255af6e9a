/* RESP, HTTP/1.1 and gRPC as a client of a server of weir speaks them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <weir/backend.h>

#include "bench/raw.h"

/* Words, fields and their ends around the parts whose length a URL decides. */
enum {
  FRAME_MOST = 160,
  REQUEST_MOST =
      WEIR_BENCH_LIMITER_BYTES + WEIR_BENCH_KEY_BYTES + WEIR_BENCH_HOST_BYTES + FRAME_MOST
};
_Static_assert(WEIR_BATCH_MOST *REQUEST_MOST <= WEIR_BENCH_OUT_BYTES,
               "a batch leaves in one write");

bool weir_bench_via_begin(const weir_bench_target *target, weir_bench_wire *wire,
                          weir_message *message) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) return weir_bench_grpc_begin(wire, message);
#endif
  (void)target, (void)wire, (void)message;
  return true;
}

void weir_bench_via_end(weir_bench_wire *wire) {
#ifdef WEIR_HAS_SERVE
  weir_bench_grpc_end(wire);
#endif
  (void)wire;
}

/* --- asking ------------------------------------------------------------------------------------
 */

void weir_bench_via_say(const weir_bench_target *target, const weir_bench_key *key,
                        weir_bench_wire *wire) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) {
    weir_bench_grpc_say(target, key, wire);
    return;
  }
#endif
  if (target->via == WEIR_BENCH_RESP) {
    weir_bench_wire_say_text(wire, "*3\r\n$9\r\nWEIR.TAKE\r\n");
    weir_bench_wire_say_word(wire, target->limiter, strlen(target->limiter));
    weir_bench_wire_say_word(wire, key->text, key->length);
    return;
  }
  weir_bench_wire_say_text(wire, "GET /check/");
  weir_bench_wire_say_text(wire, target->limiter);
  weir_bench_wire_say_text(wire, "?key=");
  weir_bench_wire_say(wire, key->text, key->length);
  weir_bench_wire_say_text(wire, " HTTP/1.1\r\nHost: weir\r\n");
  if (target->password[0] != '\0') {
    weir_bench_wire_say_text(wire, "Authorization: Bearer ");
    weir_bench_wire_say_text(wire, target->password);
    weir_bench_wire_say_text(wire, "\r\n");
  }
  weir_bench_wire_say_text(wire, "\r\n");
}

/* --- what is answered --------------------------------------------------------------------------
 */

static weir_status refuse(const char *line, weir_message *message) {
  weir_message_set(message, "the server answers \"%.100s\"", line);
  return WEIR_UNAVAILABLE;
}

/* Whether an error is that of a decision which the store did not make. */
static bool is_late(const char *line) {
  if (strncmp(line, "-ERR ", 5) != 0) return false;
  for (int status = WEIR_OK + 1; status < WEIR_STATUSES_MOST; status++) {
    const char *name = weir_status_name((weir_status)status);
    weir_status_class class = weir_status_classify((weir_status)status);
    if (class != WEIR_CLASS_TRANSIENT && class != WEIR_CLASS_STORE) continue;
    if (strncmp(line + 5, name, strlen(name)) == 0) return true;
  }
  return false;
}

/* Names and values: "allowed" is the first. */
static weir_status read_resp(weir_bench_wire *wire, weir_bench_answers *answers,
                             weir_message *message) {
  const char *line = weir_bench_wire_line(wire, message);
  if (line == NULL) return WEIR_UNAVAILABLE;
  if (is_late(line)) {
    answers->late++;
    return WEIR_OK;
  }
  if (line[0] != '*') return refuse(line, message);
  long items = strtol(line + 1, NULL, 10);
  for (long i = 0; i < items; i++) {
    line = weir_bench_wire_line(wire, message);
    if (line != NULL && line[0] == '$') line = weir_bench_wire_line(wire, message);
    if (line == NULL) return WEIR_UNAVAILABLE;
    if (i == 1) answers->allowed += strcmp(line, ":1") == 0;
  }
  return WEIR_OK;
}

/* 200 is allowed, 503 no decision; with any other status the body tells a denial from an error. */
static weir_status read_http(weir_bench_wire *wire, weir_bench_answers *answers,
                             weir_message *message) {
  static const char version[] = "HTTP/1.1 ", length_name[] = "Content-Length:";
  const char *line = weir_bench_wire_line(wire, message);
  if (line == NULL) return WEIR_UNAVAILABLE;
  if (strncmp(line, version, sizeof version - 1) != 0) return refuse(line, message);
  char first[64], body[256];
  snprintf(first, sizeof first, "%s", line);
  long status = strtol(line + sizeof version - 1, NULL, 10);
  size_t length = 0;
  while ((line = weir_bench_wire_line(wire, message)) != NULL && line[0] != '\0')
    if (strncasecmp(line, length_name, sizeof length_name - 1) == 0)
      length = strtoul(line + sizeof length_name - 1, NULL, 10);
  if (line == NULL || !weir_bench_wire_read(wire, length, body, sizeof body, message))
    return WEIR_UNAVAILABLE;
  bool denied = strstr(body, "quota-exceeded") != NULL;
  if (status != 200 && status != 503 && !denied) return refuse(first, message);
  answers->allowed += status == 200;
  answers->late += status == 503 && !denied;
  return WEIR_OK;
}

weir_status weir_bench_via_read(const weir_bench_target *target, weir_bench_wire *wire,
                                weir_bench_answers *answers, weir_message *message) {
#ifdef WEIR_HAS_SERVE
  if (target->via == WEIR_BENCH_GRPC) return weir_bench_grpc_read(wire, answers, message);
#endif
  return (target->via == WEIR_BENCH_HTTP ? read_http : read_resp)(wire, answers, message);
}
