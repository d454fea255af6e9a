/* TLS between the wire and its socket: what a store accepts and shows, and the session of one
 * connection. TLS 1.2 or newer; chain and name are verified unless the URL says otherwise.
 *
 * Nothing here waits. A session is touched as its socket is: by the leader, and by a follower while
 * the leader is inside poll. */
#ifndef WEIR_WIRE_TLS_H
#define WEIR_WIRE_TLS_H

#include <sys/types.h>
#include <weir/backend.h>

/* For a backend's list of options. */
#define WEIR_TLS_OPTIONS "tls-ca", "tls-cert", "tls-key", "tls-name", "tls-verify"

/* Shared by all connections of a store. */
typedef struct weir_tls weir_tls;

/* Reads the options above and the files they name. With `secure` false the scheme has no TLS: *tls
 * is NULL, and any of them an error. */
weir_status weir_tls_open(const weir_url *url, bool secure, weir_tls **tls, weir_message *message);

/* Reads the files anew and keeps what they say for weir_tls_renew(), from which on sessions use it. That
 * reads them itself where nothing is prepared, and else cannot fail: so several are renewed, or none. On
 * an error, whose message says which file, all stays as it was, and nothing is prepared. NULL is fine.
 * Any thread. */
weir_status weir_tls_prepare(weir_tls *tls, weir_message *message);
weir_status weir_tls_renew(weir_tls *tls, weir_message *message);

/* When the client certificate ends, in seconds since 1970; 0: none is shown. NULL is fine. Any thread. */
int64_t weir_tls_certificate_end_s(weir_tls *tls);

/* Whether chain and name are verified. */
bool weir_tls_verifies(const weir_tls *tls);

/* After the last session. NULL is fine. */
void weir_tls_close(weir_tls *tls);

typedef struct weir_tls_session weir_tls_session;

/* On a connected socket, which stays the caller's. `host` is verified and sent unless the URL names
 * another. NULL: no memory. */
weir_tls_session *weir_tls_session_start(weir_tls *tls, const char *host, int fd);

/* Says nothing to the peer. NULL is fine. */
void weir_tls_session_end(weir_tls_session *session);

typedef enum weir_tls_hands {
  WEIR_TLS_SHAKEN,
  WEIR_TLS_SHAKING, /* weir_tls_session_events() says what for */
  WEIR_TLS_REFUSED  /* by either side; `message` says why */
} weir_tls_hands;

weir_tls_hands weir_tls_session_shake(weir_tls_session *session, weir_message *message);

/* As weir_socket_send and weir_socket_receive. The kernel has taken all that send says it took; of
 * what it did not, the peer can read nothing, as no part of a TLS record can be read. */
ssize_t weir_tls_session_send(weir_tls_session *session, const char *bytes, size_t length);
ssize_t weir_tls_session_receive(weir_tls_session *session, char *bytes, size_t room);

/* What the last of the functions above failed for besides its errno; "" for nothing. */
const char *weir_tls_session_fault(const weir_tls_session *session);

/* Whether there may be bytes to receive that poll knows nothing of. */
bool weir_tls_session_holds(const weir_tls_session *session);

/* What to poll for before the next receive, and with `sends` before the next send. */
short weir_tls_session_events(const weir_tls_session *session, bool sends);

/* Whether a server's first bytes are an alert: it speaks TLS and was not spoken to in it. */
bool weir_tls_is_alert(const char *bytes, size_t length);

#endif
