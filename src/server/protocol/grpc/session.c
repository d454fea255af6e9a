/* gRPC on nghttp2. Frames are handed to it one by one, each when it is whole, so that what comes of
 * one is known before the next.
 *
 * A stream is a call: its fields and its one message come through the callbacks, it is handed out
 * when it is whole, and its answer is given back under its number. It is dropped when nghttp2
 * closes it. A client's costless work is counted on the way: frames before nghttp2 sees them, bytes
 * of messages as they come, resets when a stream closes. All of it is one story, as the callbacks
 * and the answers work on the same streams. */
#include "protocol/grpc/session.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char weir_grpc_service[] = "envoy.service.ratelimit.v3.RateLimitService";

/* SETTINGS with nothing in it, then GOAWAY of no stream with ENHANCE_YOUR_CALM (11). */
const char weir_grpc_full[] =
    "\0\0\0\4\0\0\0\0\0"
    "\0\0\x8\7\0\0\0\0\0"
    "\0\0\0\0\0\0\0\xb";
_Static_assert(sizeof weir_grpc_full == WEIR_GRPC_FULL_BYTES + 1, "a NUL behind it");

enum { PREFACE_BYTES = 24, HEAD_BYTES = 9, FRAME_MOST = 16384, PREFIX_BYTES = 5 };
enum { SPARE_MOST = 16, SPARE_BYTES = 1024, CREDENTIAL_MOST = 8192, CONTINUATIONS_MOST = 8 };

/* A client may do so many things for nothing at once, and one more in each of so many microseconds.
 * Frames that ask for nothing (PING, SETTINGS, WINDOW_UPDATE, ...), of which every call pays for a
 * few; and calls that are reset before their answer. */
enum { IDLE_FRAMES = 1000, IDLE_FRAME_US = 10000, FRAMES_OF_CALL = 8 };
enum { RESETS = 1000, RESET_US = 10000 };

typedef struct stream stream;
struct stream {
  int32_t id;
  stream *previous, *next; /* of all, oldest first */
  int64_t began_us;
  size_t header_bytes;
  weir_grpc_method method;
  bool is_post, is_grpc, is_compressed;
  bool is_coming;   /* not whole: its message counts as unfinished */
  bool is_too_long; /* nothing more is kept of it */
  bool is_watching;
  bool is_answered; /* something is submitted for it */
  bool is_noted;
  bool is_cut;  /* answered before it was whole: nothing more of it is wanted */
  bool is_last; /* nothing follows what is in `body` */
  uint32_t note;
  int64_t timeout_us;
  weir_grpc_status status; /* of its trailers */
  weir_bytes credential;
  bool has_credential, has_id;
  char id_text[WEIR_ORDER_ID_MOST];
  size_t id_length;
  weir_bytes body; /* the request's, prefix and message; then the answer's */
  size_t sent;
};

struct weir_grpc_session {
  nghttp2_session *http2;
  weir_grpc_limits limits;
  void (*gone)(void *owner, uint32_t note);
  void *owner;
  bool has_preface;
  bool is_broken;
  bool is_leaving;
  bool has_asked, is_heard; /* whether the client knows that; and it does */
  bool is_over;             /* the last is said */
  unsigned continuations;
  int64_t now_us;
  int64_t frames_until_us, resets_until_us; /* as GCRA's theoretical time of arrival */
  stream *first, *last;
  size_t unfinished, unfinished_bytes; /* streams that are not whole, and what they hold */
  stream *ready;                       /* whole, and not yet handed out */
  stream *spare;
  size_t spare_count;
};

/* nghttp2 takes what it does not change as if it did. Names and `value` outlive the session. */
static nghttp2_nv field(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                      strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

/* The same of a value that does not. */
static nghttp2_nv text_field(const char *name, const char *value, size_t length) {
  return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), length,
                      NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* --- streams ------------------------------------------------------------------------------------
 */

static void free_stream(stream *one) {
  weir_bytes_free(&one->credential);
  weir_bytes_free(&one->body);
  free(one);
}

static void finish_request(weir_grpc_session *session, stream *one) {
  if (!one->is_coming) return;
  one->is_coming = false;
  session->unfinished--;
  session->unfinished_bytes -= one->body.length;
}

static stream *find_stream(weir_grpc_session *session, int32_t id) {
  return nghttp2_session_get_stream_user_data(session->http2, id);
}

/* --- what a client may do for nothing -----------------------------------------------------------
 */

static void break_off(weir_grpc_session *session) {
  session->is_broken = true;
  nghttp2_session_terminate_session(session->http2, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* False: more than `most` of them. */
static bool spend(int64_t *until_us, int64_t now_us, int64_t each_us, int64_t most) {
  if (*until_us < now_us) *until_us = now_us;
  *until_us += each_us;
  return *until_us - now_us <= most * each_us;
}

/* Up to eight digits and a unit; what is no such thing is no limit of time. */
static int64_t read_timeout(const uint8_t *value, size_t length) {
  static const struct {
    char unit;
    int64_t us;
  } units[] = {{'H', INT64_C(3600000000)}, {'M', 60000000}, {'S', 1000000}, {'m', 1000}, {'u', 1}};
  int64_t number;
  if (length < 2 || length > 9 || value[0] == '-' ||
      !weir_order_number((const char *)value, length - 1, &number))
    return INT64_MAX;
  char unit = (char)value[length - 1];
  if (unit == 'n') return number / 1000;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (units[i].unit == unit) return number * units[i].us;
  return INT64_MAX;
}

/* --- a request ----------------------------------------------------------------------------------
 */

/* A stream begins: one of those at hand, whose buffers were kept, or a new one. */
static int on_begin(nghttp2_session *http2, const nghttp2_frame *frame, void *self) {
  weir_grpc_session *session = self;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  stream *made = session->spare;
  if (made != NULL) {
    session->spare = made->next;
    session->spare_count--;
  } else {
    made = calloc(1, sizeof *made);
    if (made == NULL) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  made->id = frame->hd.stream_id;
  made->began_us = session->now_us;
  made->timeout_us = INT64_MAX;
  made->is_coming = true;
  session->unfinished++;
  made->previous = session->last;
  made->next = NULL;
  *(session->last != NULL ? &session->last->next : &session->first) = made;
  session->last = made;
  nghttp2_session_set_stream_user_data(http2, made->id, made);
  return 0;
}

static bool is(const uint8_t *bytes, size_t length, const char *word) {
  return length == strlen(word) && memcmp(bytes, word, length) == 0;
}

/* application/grpc, with or without +proto. */
static bool is_grpc_type(const uint8_t *type, size_t length) {
  static const char word[] = "application/grpc", proto[] = "+proto";
  const size_t whole = sizeof word - 1, more = sizeof proto - 1;
  if (length < whole || memcmp(type, word, whole) != 0) return false;
  type += whole;
  length -= whole;
  if (length >= more && memcmp(type, proto, more) == 0) {
    type += more;
    length -= more;
  }
  return length == 0 || type[0] == ';';
}

static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *self) {
  static const char *const paths[] = {
      [WEIR_GRPC_SHOULD_RATE_LIMIT] =
          "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
      [WEIR_GRPC_CHECK] = "/grpc.health.v1.Health/Check",
      [WEIR_GRPC_WATCH] = "/grpc.health.v1.Health/Watch"};
  const weir_grpc_session *session = self;
  stream *one = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
  (void)flags;
  if (one == NULL) return 0;
  one->header_bytes += name_length + length + 32;
  one->is_too_long |= one->header_bytes > session->limits.header_bytes;
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0; /* trailers say nothing to us */
  if (is(name, name_length, ":path")) {
    one->method = WEIR_GRPC_NO_METHOD;
    for (int i = WEIR_GRPC_SHOULD_RATE_LIMIT; i <= WEIR_GRPC_WATCH; i++)
      if (is(value, length, paths[i])) one->method = (weir_grpc_method)i;
  } else if (is(name, name_length, ":method")) {
    one->is_post = is(value, length, "POST");
  } else if (is(name, name_length, "content-type")) {
    one->is_grpc = is_grpc_type(value, length);
  } else if (is(name, name_length, "grpc-encoding")) {
    one->is_compressed = !is(value, length, "identity");
  } else if (is(name, name_length, "grpc-timeout")) {
    one->timeout_us = read_timeout(value, length);
  } else if (is(name, name_length, "authorization") && length <= CREDENTIAL_MOST) {
    one->has_credential = true;
    one->credential.length = 0;
    weir_bytes_add(&one->credential, value, length);
  } else if (is(name, name_length, "x-request-id")) {
    /* One that comes twice names nothing. */
    bool is_good = !one->has_id && weir_order_is_id((const char *)value, length);
    one->id_length = is_good ? length : 0;
    memcpy(one->id_text, value, one->id_length);
    one->has_id = true;
  }
  return 0;
}

static int on_data(nghttp2_session *http2, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t length, void *self) {
  weir_grpc_session *session = self;
  stream *one = nghttp2_session_get_stream_user_data(http2, id);
  (void)flags;
  if (one == NULL || !one->is_coming) return 0; /* it has its answer already */
  size_t all_most = WEIR_GRPC_UNFINISHED * session->limits.message_bytes;
  one->is_too_long |= one->body.length + length > session->limits.message_bytes + PREFIX_BYTES ||
                      session->unfinished_bytes + length > all_most;
  if (one->is_too_long) {
    session->unfinished_bytes -= one->body.length;
    weir_bytes_free(&one->body);
    return 0;
  }
  weir_bytes_add(&one->body, data, length);
  if (one->body.failed) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  session->unfinished_bytes += length;
  return 0;
}

/* One message, whole and not compressed. */
static bool check_body(const stream *one, weir_grpc_status *status, const char **why) {
  const unsigned char *prefix = (const unsigned char *)one->body.data;
  *status = WEIR_GRPC_INTERNAL;
  *why = "the request has no message";
  if (one->body.length < PREFIX_BYTES) return false;
  uint32_t length =
      (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
  *why = "the request has more or less than one message";
  if (length != one->body.length - PREFIX_BYTES) return false;
  *status = WEIR_GRPC_UNIMPLEMENTED;
  *why = "messages are accepted as they are: not compressed";
  if (prefix[0] != 0 || one->is_compressed) return false;
  *status = WEIR_GRPC_OK;
  return true;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *self) {
  weir_grpc_session *session = self;
  bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
    session->is_heard |= session->has_asked;
  if (!ends || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)) return 0;
  stream *one = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
  if (one == NULL || !one->is_coming) return 0;

  /* The request is whole: it is handed out, or refused at once. */
  weir_grpc_status status;
  const char *why;
  finish_request(session, one);
  if (one->is_answered) return 0;
  if (!one->is_post || !one->is_grpc) {
    const nghttp2_nv fields[] = {field(":status", "415")};
    one->is_answered = true;
    nghttp2_submit_response(session->http2, one->id, fields, 1, NULL);
  } else if (one->method == WEIR_GRPC_NO_METHOD) {
    weir_grpc_refuse(
        session, one->id, WEIR_GRPC_UNIMPLEMENTED,
        "there are ShouldRateLimit of envoy.service.ratelimit.v3.RateLimitService, and "
        "Check and Watch of grpc.health.v1.Health");
  } else if (!one->is_too_long && !check_body(one, &status, &why)) {
    weir_grpc_refuse(session, one->id, status, why);
  } else { /* its method answers too long a call */
    session->ready = one;
  }
  return 0;
}

/* Two things must wait until another frame has gone: PING would overtake GOAWAY, and a stream that
 * is reset has no answer. */
static int on_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *self) {
  weir_grpc_session *session = self;
  if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
    session->is_broken = true; /* nghttp2 itself has found what the client may not do */
  if (frame->hd.type == NGHTTP2_GOAWAY && session->is_leaving && !session->has_asked) {
    session->has_asked = true;
    nghttp2_submit_ping(http2, NGHTTP2_FLAG_NONE, NULL);
  }
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  const stream *one = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
  if (one != NULL && one->is_cut)
    nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
  return 0;
}

static int on_close(nghttp2_session *http2, int32_t id, uint32_t error, void *self) {
  weir_grpc_session *session = self;
  stream *one = nghttp2_session_get_stream_user_data(http2, id);
  (void)error;
  if (one == NULL) return 0;
  if (one->is_noted && !one->is_answered) session->gone(session->owner, one->note);
  if (!one->is_answered && !spend(&session->resets_until_us, session->now_us, RESET_US, RESETS))
    break_off(session);

  /* Its buffers are kept for another one, unless they have grown large. */
  finish_request(session, one);
  *(one->previous != NULL ? &one->previous->next : &session->first) = one->next;
  *(one->next != NULL ? &one->next->previous : &session->last) = one->previous;
  if (session->ready == one) session->ready = NULL;
  weir_bytes body = one->body;
  weir_bytes credential = one->credential;
  if (session->spare_count == SPARE_MOST || body.capacity > SPARE_BYTES ||
      credential.capacity > SPARE_BYTES || body.failed || credential.failed) {
    free_stream(one);
    return 0;
  }
  body.length = credential.length = 0;
  *one = (stream){.body = body, .credential = credential, .next = session->spare};
  session->spare = one;
  session->spare_count++;
  return 0;
}

/* --- life ---------------------------------------------------------------------------------------
 */

weir_grpc_session *weir_grpc_open(const weir_grpc_limits *limits,
                                  void (*gone)(void *owner, uint32_t note), void *owner) {
  weir_grpc_session *session = calloc(1, sizeof *session);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->streams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  if (session == NULL) return NULL;
  session->limits = *limits;
  session->gone = gone;
  session->owner = owner;
  nghttp2_session_callbacks *callbacks = NULL;
  nghttp2_option *option = NULL;
  bool good = nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0;
  if (good) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_closed_streams(option, 1);
    good = nghttp2_session_server_new2(&session->http2, callbacks, session, option) == 0 &&
           nghttp2_submit_settings(session->http2, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0;
  }
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  if (good) return session;
  weir_grpc_close(session);
  return NULL;
}

/* nghttp2 does not tell of streams that end with it. */
void weir_grpc_close(weir_grpc_session *session) {
  if (session == NULL) return;
  stream *const rows[] = {session->first, session->spare};
  for (size_t i = 0; i < 2; i++)
    for (stream *next, *one = rows[i]; one != NULL; one = next) {
      next = one->next;
      free_stream(one);
    }
  nghttp2_session_del(session->http2);
  free(session);
}

bool weir_grpc_is_broken(const weir_grpc_session *session) {
  return session->is_broken;
}

/* --- reading ------------------------------------------------------------------------------------
 */

static bool feed(weir_grpc_session *session, const char *bytes, size_t length) {
  ssize_t got = nghttp2_session_mem_recv(session->http2, (const uint8_t *)bytes, length);
  if (got < 0) session->is_broken = true;
  return got >= 0 && nghttp2_session_want_read(session->http2) != 0;
}

/* How many bytes are one frame that is there in whole; 0: more must come. *good: it may come, and nothing
 * ended by it. A frame that is too long is refused by its head. */
static size_t read_frame(weir_grpc_session *session, const char *bytes, size_t length, bool *good) {
  const unsigned char *head = (const unsigned char *)bytes;
  *good = true;
  if (length < HEAD_BYTES) return 0;
  size_t payload = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
  size_t all = HEAD_BYTES + (payload <= FRAME_MOST ? payload : 0);
  if (length < all) return 0;

  /* Frames that ask for something are paid for by their calls; of others a client has some. */
  unsigned type = head[3];
  bool ends = (head[4] & NGHTTP2_FLAG_END_STREAM) != 0;
  bool asks = type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION ||
              (type == NGHTTP2_DATA && (payload > 0 || ends));
  session->continuations = type == NGHTTP2_CONTINUATION ? session->continuations + 1 : 0;
  *good = session->continuations <= CONTINUATIONS_MOST &&
          (asks || spend(&session->frames_until_us, session->now_us, IDLE_FRAME_US, IDLE_FRAMES));
  if (*good)
    *good = feed(session, bytes, all);
  else
    break_off(session);
  return all;
}

weir_grpc_reading weir_grpc_read(weir_grpc_session *session, const char *bytes, size_t length,
                                 int64_t now_us, size_t *used, weir_grpc_call *call) {
  bool good = true;
  *used = 0;
  session->now_us = now_us;
  while (good && *used < length) {
    size_t rest = length - *used;
    size_t one;
    if (session->has_preface) {
      one = read_frame(session, bytes + *used, rest, &good);
    } else { /* what every client of HTTP/2 says first; else it is none */
      one = rest < PREFACE_BYTES ? rest : PREFACE_BYTES;
      good = memcmp(bytes, NGHTTP2_CLIENT_MAGIC, one) == 0;
      if (good && one < PREFACE_BYTES) break;
      session->has_preface = true;
      session->is_broken = !good;
      good = good && feed(session, bytes, PREFACE_BYTES);
    }
    if (one == 0) break;
    *used += one;
    if (!good) return WEIR_GRPC_ENDS;
    if (session->ready == NULL) continue;
    const stream *ready = session->ready;
    session->ready = NULL;
    session->frames_until_us -= FRAMES_OF_CALL * IDLE_FRAME_US;
    *call = (weir_grpc_call){.stream = ready->id,
                             .method = ready->method,
                             .credential = ready->has_credential ? ready->credential.data : NULL,
                             .credential_length = ready->credential.length,
                             .id = ready->id_text,
                             .id_length = ready->id_length,
                             .timeout_us = ready->timeout_us,
                             .is_too_long = ready->is_too_long,
                             .message = ""};
    if (!ready->is_too_long) {
      call->message = ready->body.data + PREFIX_BYTES;
      call->length = ready->body.length - PREFIX_BYTES;
    }
    return WEIR_GRPC_CALL;
  }
  return *used > 0 ? WEIR_GRPC_READ : WEIR_GRPC_MORE;
}

/* --- answers ------------------------------------------------------------------------------------
 */

static size_t write_status(weir_grpc_status status, char text[4]) {
  return (size_t)snprintf(text, 4, "%d", (int)status);
}

static ssize_t read_body(nghttp2_session *http2, int32_t id, uint8_t *room, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *self) {
  stream *one = source->ptr;
  size_t left = one->body.length - one->sent;
  size_t length = left < size ? left : size;
  (void)id;
  (void)self;
  if (left == 0 && !one->is_last) return NGHTTP2_ERR_DEFERRED;
  memcpy(room, one->body.data + one->sent, length);
  one->sent += length;
  if (length < left || !one->is_last) return (ssize_t)length;
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  char text[4];
  size_t text_length = write_status(one->status, text);
  const nghttp2_nv fields[] = {text_field("grpc-status", text, text_length)};
  nghttp2_submit_trailer(http2, one->id, fields, 1);
  return (ssize_t)length;
}

bool weir_grpc_is_open(weir_grpc_session *session, int32_t id) {
  const stream *one = find_stream(session, id);
  return one != NULL && !one->is_answered;
}

void weir_grpc_note(weir_grpc_session *session, int32_t id, uint32_t note) {
  stream *one = find_stream(session, id);
  if (one == NULL) return;
  one->is_noted = true;
  one->note = note;
}

static void begin_message(weir_bytes *body) {
  static const char prefix[PREFIX_BYTES];
  weir_bytes_add(body, prefix, sizeof prefix);
}

/* Its length stands before it. */
static void end_message(weir_bytes *body, size_t begin) {
  size_t length = body->length - begin - PREFIX_BYTES;
  for (unsigned i = 0; i < 4; i++)
    body->data[begin + 1 + i] = (char)(length >> (24 - 8 * i) & 0xff);
}

static void submit_body(weir_grpc_session *session, stream *one) {
  const nghttp2_nv fields[] = {field(":status", "200"), field("content-type", "application/grpc")};
  const nghttp2_data_provider provider = {.source = {.ptr = one}, .read_callback = read_body};
  one->is_answered = true;
  nghttp2_submit_response(session->http2, one->id, fields, 2, &provider);
}

weir_bytes *weir_grpc_begin_answer(weir_grpc_session *session, int32_t id) {
  stream *one = find_stream(session, id);
  if (one == NULL || one->is_answered) return NULL;
  one->body.length = 0;
  begin_message(&one->body);
  return one->body.failed ? NULL : &one->body;
}

void weir_grpc_end_answer(weir_grpc_session *session, int32_t id) {
  stream *one = find_stream(session, id);
  if (one == NULL) return;
  if (one->body.failed) {
    weir_grpc_refuse(session, id, WEIR_GRPC_UNAVAILABLE, "the server is short of memory");
    return;
  }
  end_message(&one->body, 0);
  one->is_last = true;
  submit_body(session, one);
}

void weir_grpc_refuse(weir_grpc_session *session, int32_t id, weir_grpc_status status,
                      const char *why) {
  stream *one = find_stream(session, id);
  char number[4];
  size_t length = write_status(status, number);
  weir_bytes message = {0};
  if (one == NULL || one->is_answered) return;
  one->is_cut = one->is_coming;
  finish_request(session, one);
  /* Percent-encoded, as grpc-message is. */
  for (const char *at = why; *at != '\0'; at++)
    if (*at >= ' ' && *at <= '~' && *at != '%')
      weir_bytes_add(&message, at, 1);
    else
      weir_bytes_format(&message, "%%%02X", (unsigned char)*at);
  const nghttp2_nv fields[] = {field(":status", "200"), field("content-type", "application/grpc"),
                               text_field("grpc-status", number, length),
                               text_field("grpc-message", message.data, message.length)};
  one->is_answered = true;
  nghttp2_submit_response(session->http2, id, fields, message.failed ? 3 : 4, NULL);
  weir_bytes_free(&message);
}

/* --- health -------------------------------------------------------------------------------------
 */

static void add_health(stream *one, weir_grpc_health health) {
  size_t begin = one->body.length;
  begin_message(&one->body);
  weir_grpc_write_health(health, &one->body);
  if (!one->body.failed) end_message(&one->body, begin);
}

void weir_grpc_watch(weir_grpc_session *session, int32_t id, weir_grpc_health health) {
  stream *one = find_stream(session, id);
  if (one == NULL || one->is_answered) return;
  one->body.length = 0;
  one->is_watching = true;
  add_health(one, health);
  submit_body(session, one);
}

/* --- time and end -------------------------------------------------------------------------------
 */

size_t weir_grpc_expire(weir_grpc_session *session, int64_t before_us) {
  size_t count = 0;
  if (session->unfinished == 0) return 0;
  for (stream *one = session->first; one != NULL && one->began_us < before_us; one = one->next) {
    if (!one->is_coming) continue;
    weir_grpc_refuse(session, one->id, WEIR_GRPC_DEADLINE_EXCEEDED,
                     "the request did not come in time");
    count++;
  }
  return count;
}

void weir_grpc_leave(weir_grpc_session *session) {
  if (session->is_leaving) return;
  session->is_leaving = true;
  nghttp2_submit_shutdown_notice(session->http2);
  for (stream *one = session->first; one != NULL; one = one->next) {
    if (!one->is_watching) continue;
    add_health(one, WEIR_GRPC_NOT_SERVING);
    one->is_watching = false;
    one->is_last = true;
    one->status = WEIR_GRPC_UNAVAILABLE;
    nghttp2_session_resume_data(session->http2, one->id);
  }
}

bool weir_grpc_is_leaving(const weir_grpc_session *session) {
  return session->is_leaving;
}

void weir_grpc_dismiss(weir_grpc_session *session) {
  nghttp2_session_terminate_session(session->http2, NGHTTP2_NO_ERROR);
}

/* Whether the last may be said: the answer to its PING comes behind all that the client began before it
 * had heard. */
static bool is_due(const weir_grpc_session *session) {
  return session->is_heard && !session->is_over && session->first == NULL;
}

bool weir_grpc_is_quiet(weir_grpc_session *session) {
  return !is_due(session) && nghttp2_session_want_write(session->http2) == 0;
}

bool weir_grpc_write(weir_grpc_session *session, weir_bytes *out) {
  do {
    const uint8_t *bytes;
    ssize_t length;
    while ((length = nghttp2_session_mem_send(session->http2, &bytes)) > 0)
      weir_bytes_add(out, bytes, (size_t)length);
    if (length < 0) return false;
    if (is_due(session)) {
      session->is_over = true;
      nghttp2_session_terminate_session(session->http2, NGHTTP2_NO_ERROR);
    }
  } while (nghttp2_session_want_write(session->http2) != 0 && session->is_over);
  return nghttp2_session_want_read(session->http2) != 0 ||
         nghttp2_session_want_write(session->http2) != 0;
}
