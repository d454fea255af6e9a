/* Where a server is: the endpoint that a URL, another server or a resolver names, the look-ups that
 * find its addresses, and which of these comes next.
 *
 * A name is looked up when the wire is opened, and again while it is used, in a thread that no
 * decision waits for: getaddrinfo cannot be given a deadline nor be called off. One at a time: a
 * system's resolver that hangs holds one thread of a wire, however long. */
#ifndef WEIR_WIRE_ENDPOINT_H
#define WEIR_WIRE_ENDPOINT_H

#include <netdb.h>
#include <sys/socket.h>

#include "wire/wire.h"

/* --- addresses ------------------------------------------------------------------------------- */

typedef struct weir_address {
  struct sockaddr_storage bytes;
  socklen_t length;
} weir_address;

/* Sorted, each once: IPv4 before IPv6, then by the bytes of the address, then by port. Resolvers
 * give any order, and often another each time; processes that went by it would count on different
 * servers. IPv4 is first as most servers have it, also where a name such as localhost has both. */
typedef struct weir_addresses {
  weir_address *list;
  size_t count;
} weir_addresses;

/* Of what getaddrinfo found, which stays the caller's. False: no memory. */
bool weir_addresses_sort(const struct addrinfo *found, weir_addresses *addresses);

bool weir_addresses_equal(const weir_addresses *one, const weir_addresses *other);

/* Where in the list it stands; the count: nowhere. */
size_t weir_addresses_find(const weir_addresses *addresses, const weir_address *address);

/* How many are of one family, of the one that has more. */
size_t weir_addresses_alike(const weir_addresses *addresses);

void weir_addresses_free(weir_addresses *addresses);

/* --- look-ups -------------------------------------------------------------------------------- */

typedef struct weir_lookup weir_lookup;

/* Of names that servers `told` only so many are looked up at a time in this process, as one that
 * hangs outlives its store. */
enum { WEIR_LOOKUP_TOLD_MOST = 4 };

/* Looks `asked` up. NULL: no memory; with another errno, no thread; with EBUSY, too many that were
 * told. */
weir_lookup *weir_lookup_start(const weir_endpoint *asked, bool told);

/* The same of what a resolver says, which is asked first. */
weir_lookup *weir_lookup_start_resolver(weir_resolver *resolver, bool in_doubt);

/* Whether the answer is there; never waits. */
bool weir_lookup_is_done(const weir_lookup *lookup);

/* The same, and waits for it until `end_us`. */
bool weir_lookup_await(weir_lookup *lookup, int64_t end_us);

/* Takes the answer of one that is done, and frees it. *addresses is the caller's with FOUND, and
 * *asked says whose they are; the reason is told otherwise. */
weir_lookup_result weir_lookup_take(weir_lookup *lookup, weir_endpoint *asked,
                                    weir_addresses *addresses, weir_message *why);

/* Lets go of one that is done or not; waits for nothing, not in a child of its process either. NULL
 * is fine. */
void weir_lookup_leave(weir_lookup *lookup);

/* An address in digits needs no look-up: WEIR_OK or WEIR_NO_MEMORY; WEIR_BAD_URL: it is a name. */
weir_status weir_lookup_digits(const char *host, uint16_t port, weir_addresses *addresses);

/* --- destinations ---------------------------------------------------------------------------- */

/* Where a wire leads. Guarded by the wire's lock; nothing here waits. */
typedef struct weir_destination {
  const char *name;        /* for messages */
  weir_endpoint asked;     /* what is looked up, or was; its host is for the certificate */
  weir_resolver *resolver; /* in place of a name; NULL: none; held */
  bool named_by_others;    /* a server told the name */
  bool any_address;        /* every address is right */

  weir_addresses addresses; /* none: the name is not resolved yet, and `why` says so */
  size_t address;           /* index of the address in use; until there is one, of the first */
  size_t trying;            /* of that to which a connection stands, or is being made */
  size_t tried;             /* addresses tried since slots began to wait for a connection */

  weir_lookup *lookup;   /* under way; NULL: none */
  int64_t lookup_at_us;  /* when the next is due; INT64_MAX: never, as there is no name */
  int64_t looked_up_us;  /* when the last one began, or ended */
  int64_t answered_us;   /* when it was asked for what is known now, */
  int64_t answer_end_us; /* and until when a resolver's answer may be connected by */
  int64_t lost_us;       /* when a connection was lost last, or could not be made */
  weir_message why;      /* why there is no address, or no answer of the resolver since then */
} weir_destination;

/* Finds the addresses for the first time, and waits for that until options->lookup_end_us. WEIR_OK
 * also where there is no such name, as there may be one in a moment, or the resolver cannot say;
 * WEIR_BAD_URL: the path is too long, or the resolver knows no such name. `name` must outlive the
 * destination. */
weir_status weir_destination_open(weir_destination *destination, const char *name,
                                  const weir_wire_place *place, const weir_wire_options *options,
                                  weir_message *message);

/* What is known to another, and nothing of its look-ups. False: no memory. */
bool weir_destination_copy(const weir_destination *from, weir_destination *to);

void weir_destination_close(weir_destination *destination);

typedef enum weir_destination_news {
  WEIR_DESTINATION_SAME,
  WEIR_DESTINATION_RENEWED,  /* worth another try: there are others, or a resolver says it anew */
  WEIR_DESTINATION_ELSEWHERE /* the same, and the address in use is not among them */
} weir_destination_news;

/* Takes in what a look-up has found, and begins the next where it is due. `in_use`: a connection
 * to addresses.list[trying] stands or is being made. */
weir_destination_news weir_destination_follow(weir_destination *destination, bool in_use,
                                              int64_t now_us);

/* The name may lead elsewhere by now: the next look-up is due soon. */
void weir_destination_doubt(weir_destination *destination);

/* Whether a resolver must answer before there is another connection: the server that was left may
 * be back as something else. */
bool weir_destination_is_stale(const weir_destination *destination, int64_t now_us);

/* Until when its answer is worth waiting for; 0: there is no question to it. */
int64_t weir_destination_due_us(const weir_destination *destination);

/* Sets `trying` to the address that comes next. */
void weir_destination_try(weir_destination *destination);

/* None took the connection. */
void weir_destination_end_round(weir_destination *destination);

#endif
