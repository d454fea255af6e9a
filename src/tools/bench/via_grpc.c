/* Frames of HTTP/2 by hand, so that a client costs as little as one can: only the fields of
 * answers, which are compressed, are read by nghttp2. */
#include "bench/raw.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

enum { HEAD_BYTES = 9, PREFIX_BYTES = 5, PAYLOAD_MOST = 16384, BLOCK_MOST = 640, BODY_MOST = 320 };
enum { WINDOW_STEP = 1 << 30, LAST_STREAM = 0x7ffffffd };

struct weir_bench_http2 {
  uint32_t stream;   /* of the next call */
  uint32_t received; /* bytes of DATA since the window was opened last */
  nghttp2_hd_inflater *fields;
  char payload[PAYLOAD_MOST + 1];
};

static void put_number(char *to, uint32_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    to[i] = (char)(number >> (8 * (bytes - 1 - i)) & 0xff);
}

static void say_frame(weir_bench_wire *wire, uint8_t type, uint8_t flags, uint32_t stream,
                      const char *payload, size_t length) {
  char head[HEAD_BYTES];
  put_number(head, (uint32_t)length, 3);
  head[3] = (char)type;
  head[4] = (char)flags;
  put_number(head + 5, stream, 4);
  weir_bench_wire_say(wire, head, sizeof head);
  weir_bench_wire_say(wire, payload, length);
}

static void open_window(weir_bench_wire *wire, uint32_t more) {
  char bytes[4];
  put_number(bytes, more, sizeof bytes);
  say_frame(wire, NGHTTP2_WINDOW_UPDATE, 0, 0, bytes, sizeof bytes);
}

bool weir_bench_grpc_begin(weir_bench_wire *wire, weir_message *message) {
  wire->http2 = calloc(1, sizeof *wire->http2);
  if (wire->http2 == NULL || nghttp2_hd_inflate_new(&wire->http2->fields) != 0) {
    weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
    return false;
  }
  wire->http2->stream = 1;
  weir_bench_wire_say_text(wire, NGHTTP2_CLIENT_MAGIC);
  say_frame(wire, NGHTTP2_SETTINGS, 0, 0, "", 0);
  open_window(wire, INT32_MAX - NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE);
  return true;
}

void weir_bench_grpc_end(weir_bench_wire *wire) {
  if (wire->http2 != NULL) nghttp2_hd_inflate_del(wire->http2->fields);
  free(wire->http2);
  wire->http2 = NULL;
}

/* --- asking ------------------------------------------------------------------------------------
 */

/* Bytes that grow at their end; their room is reckoned. */
typedef struct row {
  char bytes[BLOCK_MOST];
  size_t length;
} row;

static void add(row *to, const char *bytes, size_t length) {
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

/* A length as protobuf has it, and as HPACK has it above 127 with this first byte. */
static void add_length(row *to, size_t length) {
  for (; length >= 0x80; length >>= 7)
    to->bytes[to->length++] = (char)(length | 0x80);
  to->bytes[to->length++] = (char)length;
}

/* A string of HPACK that is not compressed. */
static void add_text(row *to, const char *text) {
  size_t length = strlen(text);
  if (length < 0x7f) {
    to->bytes[to->length++] = (char)length;
  } else {
    to->bytes[to->length++] = 0x7f;
    add_length(to, length - 0x7f);
  }
  add(to, text, length);
}

/* Names are those of HPACK's static table: 3 :method POST, 6 :scheme http, 4 :path, 1 :authority,
 * 31 content-type, 23 authorization. */
static void add_fields(row *to, const weir_bench_target *target) {
  add(to, "\x83\x86\x04", 3);
  add_text(to, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
  add(to, "\x01", 1);
  add_text(to, "weir");
  add(to, "\x0f\x10", 2);
  add_text(to, "application/grpc");
  add(to, "\x00", 1);
  add_text(to, "te");
  add_text(to, "trailers");
  if (target->password[0] == '\0') return;
  char token[WEIR_BENCH_HOST_BYTES + 8] = "Bearer ";
  memcpy(token + 7, target->password, strlen(target->password) + 1);
  add(to, "\x0f\x08", 2);
  add_text(to, token);
}

static void add_field(row *to, char number, const char *bytes, size_t length) {
  to->bytes[to->length++] = (char)(number << 3 | 2);
  add_length(to, length);
  add(to, bytes, length);
}

void weir_bench_grpc_say(const weir_bench_target *target, const weir_bench_key *key,
                         weir_bench_wire *wire) {
  row fields = {.length = 0}, body = {.length = PREFIX_BYTES};
  row entry = {.length = 0}, descriptor = {.length = 0};
  uint32_t stream = wire->http2->stream;
  wire->http2->stream += 2;
  add_fields(&fields, target);
  say_frame(wire, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, fields.bytes, fields.length);

  /* RateLimitRequest; target->limiter is DOMAIN/KEY. */
  const char *slash = strchr(target->limiter, '/');
  add_field(&entry, 1, slash + 1, strlen(slash + 1));
  add_field(&entry, 2, key->text, key->length);
  add_field(&descriptor, 1, entry.bytes, entry.length);
  add_field(&body, 1, target->limiter, (size_t)(slash - target->limiter));
  add_field(&body, 2, descriptor.bytes, descriptor.length);
  body.bytes[0] = 0; /* not compressed */
  put_number(body.bytes + 1, (uint32_t)(body.length - PREFIX_BYTES), 4);
  say_frame(wire, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream, body.bytes, body.length);
}

/* --- what is answered --------------------------------------------------------------------------
 */

typedef struct frame {
  uint8_t type, flags;
  size_t length;
} frame;

static bool read_frame(weir_bench_wire *wire, frame *read, weir_message *message) {
  char head[HEAD_BYTES + 1];
  if (!weir_bench_wire_read(wire, HEAD_BYTES, head, sizeof head, message)) return false;
  const unsigned char *bytes = (const unsigned char *)head;
  read->length = (size_t)bytes[0] << 16 | (size_t)bytes[1] << 8 | bytes[2];
  read->type = bytes[3];
  read->flags = bytes[4];
  char *payload = wire->http2->payload;
  if (read->length <= PAYLOAD_MOST)
    return weir_bench_wire_read(wire, read->length, payload, PAYLOAD_MOST + 1, message);
  weir_message_set(message, "the server does not speak HTTP/2");
  return false;
}

/* The value of grpc-status; -1: it has none; -2: it cannot be read. Every block must be read, as
 * later ones build on it. */
static long read_status(struct weir_bench_http2 *http2, size_t length) {
  const uint8_t *at = (const uint8_t *)http2->payload;
  long status = -1;
  int flags = 0;
  while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
    nghttp2_nv field;
    ssize_t used = nghttp2_hd_inflate_hd2(http2->fields, &field, &flags, at, length, 1);
    if (used < 0) return -2;
    at += used;
    length -= (size_t)used;
    bool is_status = (flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && field.namelen == 11 &&
                     memcmp(field.name, "grpc-status", 11) == 0;
    if (is_status) status = strtol((const char *)field.value, NULL, 10);
    if (length == 0 && (flags & NGHTTP2_HD_INFLATE_EMIT) == 0) break;
  }
  nghttp2_hd_inflate_end_headers(http2->fields);
  return status;
}

weir_status weir_bench_grpc_read(weir_bench_wire *wire, weir_bench_answers *answers,
                                 weir_message *message) {
  enum { DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14 };
  struct weir_bench_http2 *http2 = wire->http2;
  const char *answer = http2->payload + PREFIX_BYTES;
  frame read;
  if (wire->http2->stream > LAST_STREAM) {
    weir_message_set(message, "the connection has no more streams: measure for a shorter time");
    return WEIR_UNAVAILABLE;
  }
  while (read_frame(wire, &read, message)) {
    bool is_ack = (read.flags & NGHTTP2_FLAG_ACK) != 0;
    long status;
    switch (read.type) {
      case NGHTTP2_DATA:
        /* The first field of RateLimitResponse is its code, and 1 of it is OK. */
        answers->allowed += read.length >= PREFIX_BYTES + 2 && answer[0] == 0x08 && answer[1] == 1;
        http2->received += (uint32_t)read.length;
        if (http2->received >= WINDOW_STEP) {
          open_window(wire, http2->received);
          http2->received = 0;
        }
        break;
      case NGHTTP2_HEADERS:
        status = read_status(http2, read.length);
        if ((read.flags & NGHTTP2_FLAG_END_STREAM) == 0) break;
        if (status == 0) return WEIR_OK;
        if (status == DEADLINE_EXCEEDED || status == UNAVAILABLE) {
          answers->late++;
          return WEIR_OK;
        }
        weir_message_set(message, "the server answers with status %ld of gRPC", status);
        return WEIR_UNAVAILABLE;
      case NGHTTP2_SETTINGS:
        if (!is_ack) say_frame(wire, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0);
        break;
      case NGHTTP2_PING:
        if (is_ack) break;
        say_frame(wire, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, wire->http2->payload, read.length);
        if (!weir_bench_wire_flush(wire, message)) return WEIR_UNAVAILABLE;
        break;
      case NGHTTP2_GOAWAY:
      case NGHTTP2_RST_STREAM:
        weir_message_set(message, "the server ends the connection or a call of it");
        return WEIR_UNAVAILABLE;
      default:
        break;
    }
  }
  return WEIR_UNAVAILABLE;
}
