/* A scripted memcached that speaks TLS and does what real ones do not do on demand. */
#ifndef TESTS_WIRE_TLS_PEER_H
#define TESTS_WIRE_TLS_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct tls_peer;

typedef enum tls_peer_end {
  TLS_PEER_ANSWERS,       /* and waits for the next request */
  TLS_PEER_HANGS_UP,      /* half-way through the answer, without a farewell */
  TLS_PEER_SAYS_FAREWELL, /* half-way, and says so */
  TLS_PEER_CORRUPTS,      /* one bit of what is encrypted */
  TLS_PEER_TALKS_PLAINLY  /* from then on */
} tls_peer_end;

typedef struct tls_peer_script {
  int version;       /* TLS1_2_VERSION, say: nothing newer and nothing older; 0: any */
  bool byte_by_byte; /* a record for every byte; all records of an answer still leave at once */
  bool renews_keys;  /* in the middle of each answer, and wants the client to do so too */
  unsigned padding;  /* spaces behind the value */
  tls_peer_end end;
} tls_peer_script;

/* It shows CERTIFICATE_SERVER and answers every request with the value 7. */
struct tls_peer *tls_peer_start(tls_peer_script script);
uint16_t tls_peer_port(const struct tls_peer *peer);

/* The name that the newest client sent in the clear; "" for none. */
const char *tls_peer_heard_name(struct tls_peer *peer);

void tls_peer_stop(struct tls_peer *peer);

#endif
