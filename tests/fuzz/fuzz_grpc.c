/* Any frames of HTTP/2 from a client, in pieces of any size: every call is one that may be answered,
 * what is answered goes out, and nothing is told of a call that has its answer. The first byte says how
 * long pieces are, and what becomes of calls. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "protocol/grpc/session.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { CALLS_MOST = 4096 };

typedef struct client {
  weir_grpc_session *session;
  bool waits[CALLS_MOST]; /* noted and not answered */
  uint32_t noted;
  int32_t later; /* a call that is answered with the next piece; 0: none */
  weir_bytes sent;
  bool is_over;
} client;

static void forget(void *owner, uint32_t note) {
  client *self = owner;
  require(note < self->noted && self->waits[note]);
  self->waits[note] = false;
}

/* A sanitizer sees a byte too far. */
static void check_call(const weir_grpc_call *call) {
  weir_bytes copy = {0};
  require(call->stream > 0 && call->stream % 2 == 1);
  require(call->method != WEIR_GRPC_NO_METHOD && call->timeout_us >= 0);
  weir_bytes_add(&copy, call->message, call->length);
  if (call->credential != NULL) weir_bytes_add(&copy, call->credential, call->credential_length);
  require(!copy.failed);
  weir_bytes_free(&copy);
}

static void answer(client *self, int32_t stream) {
  weir_bytes *message = weir_grpc_begin_answer(self->session, stream);
  require((message != NULL) == weir_grpc_is_open(self->session, stream));
  if (message != NULL) weir_grpc_write_health(WEIR_GRPC_SERVING, message);
  weir_grpc_end_answer(self->session, stream);
}

static void take_call(client *self, const weir_grpc_call *call, unsigned choice) {
  check_call(call);
  require(weir_grpc_is_open(self->session, call->stream));
  if (call->method == WEIR_GRPC_WATCH) {
    weir_grpc_watch(self->session, call->stream, WEIR_GRPC_SERVING);
  } else if (choice == 0) {
    weir_grpc_refuse(self->session, call->stream, WEIR_GRPC_UNAVAILABLE, "100 % \n\xff");
  } else if (choice == 1 && self->noted < CALLS_MOST) {
    self->waits[self->noted] = true;
    weir_grpc_note(self->session, call->stream, self->noted++);
    if (self->later == 0) self->later = call->stream; /* the others are never answered */
  } else {
    answer(self, call->stream);
  }
  require(call->method == WEIR_GRPC_WATCH || choice == 1 ||
          !weir_grpc_is_open(self->session, call->stream));
}

static void feed(client *self, const char *bytes, size_t length, unsigned choice, int64_t now_us) {
  size_t at = 0;
  weir_grpc_call call;
  while (at < length && !self->is_over) {
    size_t used = 0;
    weir_grpc_reading reading =
        weir_grpc_read(self->session, bytes + at, length - at, now_us, &used, &call);
    require(used <= length - at && (used > 0 || reading == WEIR_GRPC_MORE));
    at += used;
    if (reading == WEIR_GRPC_CALL) take_call(self, &call, choice);
    self->is_over = reading == WEIR_GRPC_ENDS;
    if (reading == WEIR_GRPC_MORE) break;
  }
  if (!self->is_over) weir_bytes_drop(&self->sent, at);
  if (self->later > 0) answer(self, self->later);
  self->later = 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static const weir_grpc_limits limits = {8, 512, 256};
  static client self;
  weir_bytes out = {0};
  if (size == 0) return 0;
  size_t piece = 1 + (data[0] & 0x3fU) * 8U;
  memset(&self, 0, sizeof self);
  self.session = weir_grpc_open(&limits, forget, &self);
  require(self.session != NULL);
  weir_bytes_text(&self.sent, preface);
  for (size_t at = 1; at < size && !self.is_over; at += piece) {
    int64_t now_us = (int64_t)at * 100;
    weir_bytes_add(&self.sent, data + at, size - at < piece ? size - at : piece);
    char *bytes = malloc(self.sent.length); /* of this length, so that a byte too far is noticed */
    require(bytes != NULL);
    memcpy(bytes, self.sent.data, self.sent.length);
    feed(&self, bytes, self.sent.length, data[0] >> 6, now_us);
    free(bytes);
    weir_grpc_expire(self.session, now_us - 10000);
    if (at > 2000) weir_grpc_leave(self.session);
    bool goes_on = weir_grpc_write(self.session, &out);
    require(!out.failed && weir_grpc_is_quiet(self.session));
    self.is_over |= !goes_on;
    out.length = 0;
  }
  weir_grpc_close(self.session);
  weir_bytes_free(&self.sent);
  weir_bytes_free(&out);
  return 0;
}
