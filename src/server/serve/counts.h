/* What a loop has seen. Its thread alone adds; anybody may read. */
#ifndef WEIR_SERVE_COUNTS_H
#define WEIR_SERVE_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* X(member, series, labels, help): what /metrics says of it. */
#define WEIR_SERVE_COUNTERS(X)                                                                 \
  X(accepted, "weir_serve_connections_total", "", "Connections that were accepted")            \
  X(refused, "weir_serve_connections_refused_total", "", "Connections above a limit, closed")  \
  X(accept_pauses, "weir_serve_accept_pauses_total", "",                                       \
    "Times that nothing was accepted for a second, for want of descriptors or memory")         \
  X(timeouts, "weir_serve_timeouts_total", "", "Connections closed as too slow, or idle")      \
  X(received_bytes, "weir_serve_received_bytes_total", "", "Bytes received")                   \
  X(sent_bytes, "weir_serve_sent_bytes_total", "", "Bytes sent")                               \
  X(resp, "weir_serve_requests_total", "{protocol=\"resp\"}", "Requests that were read")       \
  X(http, "weir_serve_requests_total", "{protocol=\"http\"}", NULL)                            \
  X(grpc, "weir_serve_requests_total", "{protocol=\"grpc\"}", NULL)                            \
  X(admin, "weir_serve_requests_total", "{protocol=\"admin\"}", NULL)                          \
  X(broken, "weir_serve_broken_total", "", "Input that could not be read as a request")        \
  X(unauthorized, "weir_serve_unauthorized_total", "",                                         \
    "HTTP requests without a good token, and wrong passwords")                                 \
  X(held, "weir_serve_guesses_held_total", "",                                                 \
    "Passwords and tokens that had to wait, after wrong ones of their address")                \
  X(foreign, "weir_serve_foreign_total", "",                                                   \
    "HTTP requests that a page of another origin may have sent, refused")                      \
  X(allowed, "weir_serve_answers_total", "{decision=\"allowed\"}", "Decisions, as answered")   \
  X(denied, "weir_serve_answers_total", "{decision=\"denied\"}", NULL)                         \
  X(none, "weir_serve_answers_total", "{decision=\"none\"}", NULL)                             \
  X(shadow_denied, "weir_serve_shadow_denied_total", "",                                       \
    "Denials that were answered as allowed, as a limiter is in shadow mode")                   \
  X(unmatched, "weir_serve_unmatched_total", "",                                               \
    "Descriptors of requests that no descriptor file limits")                                  \
  X(expired, "weir_serve_expired_total", "",                                                   \
    "Requests whose own time was over before they were decided, not charged")                  \
  X(cancelled, "weir_serve_cancelled_total", "",                                               \
    "Requests that their client took back before they were decided, not charged")              \
  X(shed, "weir_serve_shed_total", "", "Requests answered without the store: too many waited") \
  X(ticks, "weir_serve_ticks_total", "", "Turns of the loops that decided something")

typedef struct weir_serve_counts {
#define WEIR_SERVE_COUNTER(member, series, labels, help) _Atomic uint64_t member;
  WEIR_SERVE_COUNTERS(WEIR_SERVE_COUNTER)
#undef WEIR_SERVE_COUNTER
  _Atomic uint64_t tick_us; /* spent deciding */
  _Atomic int64_t open;     /* connections now */
} weir_serve_counts;

/* One writer, so no locked instruction. */
static inline void weir_serve_count(_Atomic uint64_t *count, uint64_t more) {
  uint64_t now = atomic_load_explicit(count, memory_order_relaxed);
  atomic_store_explicit(count, now + more, memory_order_relaxed);
}

#endif
