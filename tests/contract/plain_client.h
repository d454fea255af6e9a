/* A client of its own, one blocking socket, that speaks just enough to look behind a store's back.
 */
#ifndef TESTS_CONTRACT_PLAIN_CLIENT_H
#define TESTS_CONTRACT_PLAIN_CLIENT_H

#include "contract/subject.h"

enum { PLAIN_PLACES_MOST = 8, PLAIN_REPLY_BYTES = 512 };

/* Whether the store is one that this client can talk to, and is not hidden behind a proxy. */
bool plain_speaks(const subject *on);
bool plain_sees_servers(const subject *on);

/* Stores `text` under the key on every server of the store's URL. Fails the test if one does not.
 */
void plain_set_everywhere(const subject *on, const key *at, const char *text);

/* How long the key will live, in seconds, on the server that has it. -1: for ever, -2: it is
 * nowhere. */
int64_t plain_ttl_s(const subject *on, const key *at);

#endif
