/* How the operations of an exec come to their ends: one round trip, and more where a key must be
 * asked about or mended, and where a cluster sends them elsewhere. */
#include <stdatomic.h>
#include <string.h>

#include "redis/slots.h"
#include "redis/store.h"

/* Redirections of one exec, one after another. A cluster in order needs one, or two where a slot
 * moves; who needs more walks in a circle. */
enum { HOPS_MOST = 5 };

/* One `exec`. */
typedef struct weir_redis_call {
  weir_redis_store *store;
  weir_operation *operations;
  size_t count;
  int64_t deadline_us;
  weir_message *message;
  bool asks;         /* some addition asks whether its key has a TTL */
  bool routed;       /* the operations know their slots, and go to their owners */
  unsigned hops;     /* rounds that were redirected */
  int away, standby; /* who does not answer, and who is asked in its stead; -1: nobody */
  bool silent;       /* and it says nothing at all, not even that the cluster is down */
  bool introduced;   /* the map was read for strangers' sake, */
  weir_redis_map_answer introduction; /* with this answer */
} weir_redis_call;

static bool has(const weir_operation *operation, uint64_t notes) {
  return (operation->version_out & notes) != 0;
}

/* What the deciding command did stands; a question or repair is what still goes. */
static bool has_begun(const weir_operation *operation) {
  return has(operation, WEIR_NOTE_BARE | WEIR_NOTE_ASK | WEIR_NOTE_RENEW);
}

static uint64_t slot_note(const weir_operation *operation) {
  uint64_t slot = weir_redis_slot(operation->key + operation->home_offset, operation->home_length);
  return slot << WEIR_NOTE_SLOT_SHIFT;
}

static uint16_t slot_of(const weir_operation *operation) {
  return operation->version_out >> WEIR_NOTE_SLOT_SHIFT & (WEIR_REDIS_SLOTS - 1);
}

static void set_node(weir_operation *operation, unsigned node) {
  operation->version_out &= ~WEIR_NOTE_NODE;
  operation->version_out |= (uint64_t)node << WEIR_NOTE_NODE_SHIFT;
}

static unsigned node_of(const weir_operation *operation) {
  return operation->version_out >> WEIR_NOTE_NODE_SHIFT & (WEIR_REDIS_NODES_MOST - 1);
}

/* --- one round ---------------------------------------------------------------------------------
 */

/* The wires that a round uses, each once. */
typedef struct round_fleet {
  size_t count;
  unsigned nodes[WEIR_REDIS_NODES_MOST];
  weir_wire *wires[WEIR_REDIS_NODES_MOST];
  weir_wire_slot *slots[WEIR_REDIS_NODES_MOST];
} round_fleet;

/* The node's place in the fleet; most operations of a round go where the one before went. */
static size_t board(round_fleet *fleet, weir_redis_nodes *nodes, unsigned node) {
  for (size_t i = fleet->count; i-- > 0;)
    if (fleet->nodes[i] == node) return i;
  weir_wire *wire = weir_redis_nodes_hold(nodes, node);
  size_t place = fleet->count++;
  fleet->nodes[place] = node;
  fleet->wires[place] = wire;
  fleet->slots[place] = wire != NULL ? weir_wire_slot_take(wire) : NULL;
  return place;
}

static void leave(const round_fleet *fleet, weir_redis_nodes *nodes) {
  for (size_t i = 0; i < fleet->count; i++)
    if (fleet->wires[i] != NULL) weir_redis_nodes_release(nodes, fleet->nodes[i]);
}

/* The same for any number of operations: bits of slots. */
typedef struct slot_set {
  uint64_t words[WEIR_REDIS_SLOTS / 64];
} slot_set;

static void mark(slot_set *set, const weir_operation *operation) {
  set->words[slot_of(operation) / 64] |= UINT64_C(1) << slot_of(operation) % 64;
}

static bool is_marked(const slot_set *set, const weir_operation *operation) {
  return (set->words[slot_of(operation) / 64] >> slot_of(operation) % 64 & 1) != 0;
}

/* Within one slot, who was sent on by ASK goes to one node, and all others to its owner. A GET must
 * not overtake a write that goes to the other of the two: it waits for the next round. */
typedef struct slot_partings {
  slot_set owner, other; /* slots of which a write goes there */
} slot_partings;

static bool is_held_back(slot_partings *partings, const weir_operation *operation) {
  bool asked = has(operation, WEIR_NOTE_ASKED);
  if (operation->kind == WEIR_GET)
    return is_marked(asked ? &partings->owner : &partings->other, operation);
  mark(asked ? &partings->other : &partings->owner, operation);
  return false;
}

static unsigned choose_node(const weir_redis_call *call, const weir_operation *operation) {
  bool sent_there = has(operation, WEIR_NOTE_ASKED | WEIR_NOTE_ELSEWHERE);
  return sent_there ? node_of(operation)
                    : weir_redis_nodes_route(call->store->nodes, slot_of(operation));
}

/* Adds it to what leaves for its node. */
static void send_off(const weir_redis_call *call, weir_operation *operation, round_fleet *fleet) {
  unsigned node = call->routed ? choose_node(call, operation) : 0;
  weir_wire_slot *slot = fleet->slots[board(fleet, call->store->nodes, node)];
  uint8_t attempt = has_begun(operation) ? 1 : 0;
  if (has(operation, WEIR_NOTE_ASKED)) attempt |= WEIR_ATTEMPT_ASKING;
  if (call->routed) {
    operation->version_out &= ~(uint64_t)WEIR_NOTES_REDIRECTED;
    set_node(operation, node);
  }
  if (slot != NULL && weir_wire_slot_add(slot, operation, attempt)) return;
  operation->outcome = WEIR_NOT_SENT;
  operation->late = true;
  weir_message_set(call->message, "no memory, or too many unanswered requests");
}

/* Everything that is pending; `parts` is NULL in the first round. */
static void run_round(const weir_redis_call *call, slot_partings *parts) {
  round_fleet fleet;
  fleet.count = 0;
  const weir_wire_round round = {
      .connection = WEIR_WIRE_ANY_CONNECTION, .dialects = 1, .deadline_us = call->deadline_us};
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    bool goes = operation->outcome == WEIR_PENDING;
    if (goes && (parts == NULL || !is_held_back(parts, operation)))
      send_off(call, operation, &fleet);
  }
  weir_wire_fleet_run(fleet.wires, fleet.slots, fleet.count, &round, call->message);
  leave(&fleet, call->store->nodes);
}

/* --- between rounds ----------------------------------------------------------------------------
 */

/* A question or repair that was not sent leaves behind what the first attempt did. */
static void doubt_unmended(const weir_redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    if (operation->outcome == WEIR_NOT_SENT && has_begun(operation))
      operation->outcome = WEIR_UNKNOWN;
  }
}

/* --- redirections ------------------------------------------------------------------------------
 */

/* What the deciding command has not done is refused, what it has done is in doubt. */
static void give_up(const weir_redis_call *call, weir_operation *operation, const char *why) {
  char name[WEIR_REDIS_NAME_BYTES];
  weir_redis_nodes_show(call->store->nodes, node_of(operation), name);
  operation->outcome = has_begun(operation) ? WEIR_UNKNOWN : WEIR_REFUSED;
  weir_message_set(call->message, "%s: %s", name, why);
}

/* Who was asked in place of a node that does not answer names that node all the same. So there is
 * nobody else, and nothing was executed: it is as if the node had been asked alone. */
static bool is_nobodys_heir(const weir_redis_call *call, const weir_operation *operation) {
  return has(operation, WEIR_NOTE_MOVED) && call->silent && (int)node_of(operation) == call->away;
}

static void name_the_dead(const weir_redis_call *call, weir_operation *operation) {
  weir_server_state state = {.size = sizeof state};
  weir_wire *wire = weir_redis_nodes_hold(call->store->nodes, node_of(operation));
  operation->outcome = WEIR_NOT_SENT;
  if (wire == NULL) return;
  weir_wire_read_server(wire, &state);
  weir_message_set(call->message, "%s: not answering (last: %.300s), and the others name no heir",
                   state.name, state.last_error.text);
  weir_redis_nodes_release(call->store->nodes, node_of(operation));
}

/* The owner of the operation's slot does not answer, or says that the cluster is down: whether
 * another is to be asked who owns it by now. */
static bool find_standby(weir_redis_call *call, weir_operation *operation) {
  int away = (int)node_of(operation);
  if (call->hops >= HOPS_MOST) return false;
  call->silent = operation->outcome == WEIR_NOT_SENT;
  if (call->away != away) {
    call->away = away;
    call->standby = weir_redis_nodes_stand_in(call->store->nodes, (unsigned)away,
                                              slot_of(operation), weir_monotonic_us());
  }
  if (call->standby < 0 || call->standby == away) return false;
  operation->outcome = WEIR_PENDING;
  operation->version_out |= WEIR_NOTE_ELSEWHERE;
  set_node(operation, (unsigned)call->standby);
  return true;
}

/* Where an operation goes after this round; whether that is a hop more. */
static bool redirect(weir_redis_call *call, weir_operation *operation) {
  bool stood_in = has(operation, WEIR_NOTE_ELSEWHERE);
  bool down = operation->outcome == WEIR_PENDING && has(operation, WEIR_NOTE_DOWN);
  bool unsent = operation->outcome == WEIR_NOT_SENT && !operation->late;
  bool sent_on =
      operation->outcome == WEIR_PENDING && has(operation, WEIR_NOTE_MOVED | WEIR_NOTE_ASKED);
  operation->version_out &= ~(uint64_t)WEIR_NOTE_ELSEWHERE;
  if (unsent) return find_standby(call, operation);
  if (down && !stood_in && find_standby(call, operation)) return true;
  if (sent_on && is_nobodys_heir(call, operation)) {
    name_the_dead(call, operation);
  } else if (down) {
    give_up(call, operation,
            "the cluster is down: the slot has no owner, or the node cannot reach enough of the "
            "others");
  } else if (sent_on && call->hops == HOPS_MOST) {
    give_up(call, operation, "redirected too often: the nodes disagree who owns the slot");
  }
  return sent_on && operation->outcome == WEIR_PENDING;
}

/* The first MOVED makes it a cluster. */
static void learn_slots(weir_redis_call *call) {
  for (size_t i = 0; i < call->count; i++)
    call->operations[i].version_out |= slot_note(&call->operations[i]);
  call->routed = true;
}

static bool is_to_be_repeated(const weir_operation *write) {
  return write->outcome == WEIR_PENDING && write->kind != WEIR_GET &&
         (!has_begun(write) || weir_redis_owed(write) > 0);
}

/* After a round; whether there is another. Every GET behind a write of its home that was redirected
 * goes again, and so does one behind a write to which something is added: it may have read too
 * early. */
static bool settle(weir_redis_call *call) {
  slot_set behind = {0};
  bool more = false;
  bool hop = false;
  if (!call->routed && weir_redis_nodes_is_cluster(call->store->nodes)) learn_slots(call);
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    if (call->routed) hop |= redirect(call, operation);
    if (is_to_be_repeated(operation)) mark(&behind, operation);
    if (operation->kind == WEIR_GET && is_marked(&behind, operation))
      operation->outcome = WEIR_PENDING;
    more |= operation->outcome == WEIR_PENDING;
  }
  call->hops += hop;
  return more;
}

/* Whether a round has left anything to be settled. */
static bool is_open(const weir_redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    weir_outcome outcome = call->operations[i].outcome;
    if (outcome == WEIR_PENDING || (outcome == WEIR_NOT_SENT && call->routed)) return true;
  }
  return false;
}

/* --- strangers ---------------------------------------------------------------------------------
 */

/* Nothing was sent to it. That the map did not come in time says nothing of anybody. */
static void turn_away(const weir_redis_call *call, weir_operation *operation,
                      weir_redis_map_answer answer) {
  if (answer == WEIR_MAP_LEARNT || answer == WEIR_MAP_NO_CLUSTER) {
    give_up(call, operation,
            "a redirection names it and the cluster's own list does not, so it is not told the "
            "password");
  } else if (answer == WEIR_MAP_REFUSED) {
    give_up(call, operation,
            "a redirection names it, and who it is cannot be asked, so it is not told the "
            "password: let the user with ACL SETUSER <user> +cluster|slots, name it in the URL, "
            "or speak TLS with tls-ca= or tls-name=");
  } else {
    give_up(call, operation, "not told the password, as the cluster's list was not read in time");
    operation->outcome = has_begun(operation) ? WEIR_UNKNOWN : WEIR_NOT_SENT;
    operation->late = true;
  }
}

/* A redirection alone is no reason to tell a password. The cluster's own list is, which is read
 * once for all that a call meets. */
static void meet_strangers(weir_redis_call *call) {
  weir_redis_nodes *nodes = call->store->nodes;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    if (operation->outcome != WEIR_PENDING || !has(operation, WEIR_NOTE_MOVED | WEIR_NOTE_ASKED) ||
        !weir_redis_nodes_is_stranger(nodes, node_of(operation)))
      continue;
    if (!call->introduced) call->introduction = weir_redis_map_await(nodes, call->deadline_us);
    call->introduced = true;
    if (weir_redis_nodes_is_stranger(nodes, node_of(operation)))
      turn_away(call, operation, call->introduction);
  }
}

static void run_further_rounds(weir_redis_call *call) {
  while (settle(call)) {
    slot_partings parts = {0};
    meet_strangers(call);
    run_round(call, &parts);
  }
  doubt_unmended(call);
}

/* --- what is known of keys ---------------------------------------------------------------------
 */

/* Whoever writes over one key has often written over its neighbours: a quota has three. So after
 * one was met all keys are read with care for a while. */
enum { WARY_GETS = 4096 };

static bool is_wary(weir_redis_store *store) {
  if (atomic_load_explicit(&store->wary, memory_order_relaxed) <= 0) return false;
  atomic_fetch_sub_explicit(&store->wary, 1, memory_order_relaxed);
  return true;
}

static bool is_suspect(weir_redis_store *store, const weir_operation *operation) {
  return operation->kind == WEIR_GET && !operation->raised &&
         (is_wary(store) || weir_redis_seen_knows(store->suspects, operation)) &&
         !atomic_load_explicit(&store->barred, memory_order_relaxed);
}

/* Lets go of the question what needs none. */
static void recall(weir_redis_call *call) {
  call->routed = weir_redis_nodes_is_cluster(call->store->nodes) ||
                 weir_redis_nodes_seeds(call->store->nodes) > 1;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    operation->version_out = call->routed ? slot_note(operation) : 0;
    if (is_suspect(call->store, operation)) operation->version_out |= WEIR_NOTE_SHORT;
    if (!weir_redis_may_be_seen(operation)) continue;
    if (weir_redis_seen_use(call->store->seen, operation)) {
      operation->version_out |= WEIR_NOTE_SEEN;
    } else {
      call->asks = true;
    }
  }
}

/* A key that holds what is no integer is read with care until it was found in order: absent, or
 * added to. (A short GET that finds an integer proves nothing: it cannot tell zero bytes behind the
 * digits from the end.) So is one that was not answered for in time: a GET of it may be what kept
 * the server busy. */
static void suspect(const weir_redis_call *call) {
  weir_redis_store *store = call->store;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    bool counter =
        operation->kind == WEIR_GET || operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
    uint64_t notes = operation->version_out;
    operation->version_out = 0;
    if (!counter || operation->raised) continue;
    if ((notes & WEIR_NOTE_BARRED) != 0)
      atomic_store_explicit(&store->barred, true, memory_order_relaxed);
    bool foreign = (notes & WEIR_NOTE_FOREIGN) != 0;
    bool unanswered = operation->outcome == WEIR_UNKNOWN;
    if (foreign || (unanswered && operation->kind == WEIR_GET))
      atomic_store_explicit(&store->wary, WARY_GETS, memory_order_relaxed);
    if (foreign || unanswered)
      weir_redis_seen_note(store->suspects, operation);
    else if (operation->outcome == WEIR_ABSENT ||
             (operation->outcome == WEIR_DONE && operation->kind != WEIR_GET))
      weir_redis_seen_forget(store->suspects, operation);
  }
}

/* A sum that was answered was asked about, or mended, or needed neither. After a total of 0 the
 * next one is a delta again, and would cost a round trip to ask about. */
static void remember(const weir_redis_call *call) {
  weir_redis_seen *seen = call->store->seen;
  for (size_t i = 0; i < call->count; i++) {
    const weir_operation *operation = &call->operations[i];
    bool sum = operation->kind == WEIR_ADD || (operation->kind == WEIR_SUB && !operation->raised);
    bool stands = sum && operation->outcome == WEIR_DONE && operation->value != 0;
    if (stands && call->asks && weir_redis_may_be_seen(operation)) {
      weir_redis_seen_note(seen, operation);
    } else if (!stands && (sum || operation->kind == WEIR_DROP)) {
      weir_redis_seen_forget(seen, operation);
    }
  }
}

void weir_redis_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message) {
  weir_redis_call call = {.store = handle,
                          .operations = operations,
                          .count = count,
                          .deadline_us = deadline_us,
                          .message = message,
                          .away = -1,
                          .standby = -1};
  recall(&call);
  run_round(&call, NULL);
  if (is_open(&call)) run_further_rounds(&call);
  if (call.routed) weir_redis_map_renew(call.store->nodes);
  remember(&call);
  suspect(&call);
}
