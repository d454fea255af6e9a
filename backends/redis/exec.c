/* How the operations of an exec come to their ends: one round trip, and more where a key must be
 * asked about or mended, and where a cluster sends them elsewhere.
 *
 *     begin      what is known of the keys: which need not be asked about, which are read with care,
 *                which together
 *     run_round  all that is pending leaves, each operation for its node, and the answers come
 *     settle     who goes where next? Until nothing is pending, or the hops are used up
 *     end        what the answers say of the keys
 *
 * What each operation has been through is its weir_redis_attempt, which the wire takes to the codec
 * and brings back. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster.h"
#include "redis/probe.h"
#include "redis/store.h"

enum {
  /* Redirections of one exec, one after another. A cluster in order needs one, or two where a slot
   * moves; an operation that needs more walks in a circle. */
  HOPS_MOST = 5,
  /* A program that writes over one key has often written over its neighbours: a quota has three. So
   * after one was met this many GETs of any key are done with care. */
  WARY_GETS = 4096,
  ATTEMPTS_FEW = 64 /* of an exec without memory of its own for them */
};

/* One `exec`. */
typedef struct weir_redis_call {
  weir_redis_store *store;
  weir_operation *operations;
  weir_redis_attempt *attempts; /* of each */
  size_t count;
  int64_t deadline_us;
  weir_message *message;
  bool bounds;       /* some node has INCREX, or had */
  bool routed;       /* the operations know their slots, and go to their owners */
  unsigned hops;     /* rounds that were redirected */
  int away, standby; /* who does not answer, and who is asked in its stead; -1: none */
  bool silent;       /* and it says nothing at all, not even that the cluster is down */
  bool introduced;   /* the map was read for strangers' sake, */
  weir_redis_map_answer introduction; /* with this answer */
} weir_redis_call;

/* What the deciding command did stands; a question or repair is what still goes. */
static bool has_begun(const weir_redis_attempt *attempt) {
  return attempt->stage == WEIR_STAGE_ASK_TTL || attempt->stage == WEIR_STAGE_MEND;
}

static uint16_t slot_of(const weir_operation *operation) {
  return weir_redis_slot(operation->key + operation->home_offset, operation->home_length);
}

static void not_sent(const weir_redis_call *call, weir_operation *operation) {
  operation->outcome = WEIR_NOT_SENT;
  operation->late = operation->slow = true;
  weir_message_set(call->message, "no memory, or too many unanswered requests");
}

/* Marks of keys, by which most are told apart. */
enum { MARK_BITS = 12 };
typedef struct marked_keys {
  uint64_t words[(1 << MARK_BITS) / 64];
} marked_keys;

static unsigned mark_of(const weir_operation *operation) {
  const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t sum = operation->key_length, word;
  size_t at = 0;
  for (; at + sizeof word <= operation->key_length; at += sizeof word) {
    memcpy(&word, operation->key + at, sizeof word);
    sum = (sum ^ word) * odd;
    sum ^= sum >> 32;
  }
  for (; at < operation->key_length; at++)
    sum = (sum ^ (unsigned char)operation->key[at]) * odd;
  return (unsigned)(sum * odd >> (64 - MARK_BITS));
}

static bool is_written_behind(const weir_redis_call *call, size_t read) {
  const weir_operation *operation = &call->operations[read];
  for (size_t i = read + 1; i < call->count; i++) {
    const weir_operation *other = &call->operations[i];
    if (other->kind != WEIR_GET && other->key_length == operation->key_length &&
        memcmp(other->key, operation->key, operation->key_length) == 0)
      return true;
  }
  return false;
}

/* Which GETs may be one MGET. What this process has lately added to is a string, of which that says all
 * that GET would. Nothing may be written to it behind the GET: one that is asked for again would see it. */
static void find_joined(weir_redis_call *call) {
  weir_redis_store *store = call->store;
  marked_keys written = {0};
  bool any_written = false;
  for (size_t i = call->count; i-- > 0;) {
    const weir_operation *operation = &call->operations[i];
    weir_redis_attempt *attempt = &call->attempts[i];
    if (operation->kind == WEIR_GET) {
      attempt->joins = !operation->raised && attempt->facts == 0 &&
                       weir_redis_seen_knows(store->seen, operation);
      if (!attempt->joins || !any_written) continue;
      unsigned mark = mark_of(operation);
      if ((written.words[mark / 64] >> mark % 64 & 1) != 0)
        attempt->joins = !is_written_behind(call, i);
    } else if (i > 0) {
      unsigned mark = mark_of(operation);
      written.words[mark / 64] |= UINT64_C(1) << mark % 64;
      any_written = true;
    }
  }
}

/* A refused INCREX goes again behind all the rest of its exec. A write of its key that goes in
 * another form would then come before it, so where there is one the sum goes plainly as well. With a seed
 * each may be refused alone. */
static void keep_order(const weir_redis_call *call) {
  marked_keys written = {0};
  bool any_written = false;
  for (size_t i = call->count; i-- > 0;) {
    const weir_operation *operation = &call->operations[i];
    if (operation->kind == WEIR_GET || operation->kind == WEIR_RAISE || operation->raised) continue;
    bool bounded = weir_redis_may_be_bounded(operation);
    if (bounded && operation->seed == 0 && !any_written) continue;
    unsigned mark = mark_of(operation);
    if (bounded && (written.words[mark / 64] >> mark % 64 & 1) != 0)
      call->attempts[i].facts |= WEIR_FACT_PLAIN;
    if (bounded && operation->seed == 0) continue;
    written.words[mark / 64] |= UINT64_C(1) << mark % 64;
    any_written = true;
  }
}

/* Lets go of the question what needs none. */
static void begin(weir_redis_call *call) {
  weir_redis_store *store = call->store;
  size_t gets = 0;
  call->bounds = weir_redis_nodes_are_bounded(store->nodes);
  call->routed =
      weir_redis_nodes_is_cluster(store->nodes) || weir_redis_nodes_seeds(store->nodes) > 1;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    weir_redis_attempt *attempt = &call->attempts[i];
    *attempt = (weir_redis_attempt){.slot = call->routed ? slot_of(operation) : 0};
    operation->version_out = 0; /* Redis has no versions */
    if (operation->kind == WEIR_GET && !operation->raised) {
      bool wary = atomic_load_explicit(&store->wary, memory_order_relaxed) > 0;
      if (wary) atomic_fetch_sub_explicit(&store->wary, 1, memory_order_relaxed);
      if ((wary || weir_redis_seen_knows(store->suspects, operation)) &&
          !atomic_load_explicit(&store->barred, memory_order_relaxed))
        attempt->facts = WEIR_FACT_SHORT;
      else
        gets++;
    } else if (weir_redis_may_be_seen(operation)) {
      bool seen = weir_redis_seen_use(store->seen, operation);
      if (seen) attempt->facts = WEIR_FACT_SEEN;
    }
  }

  if (call->bounds && call->count > 1) keep_order(call);
  if (gets >= 2 && !atomic_load_explicit(&store->unjoined, memory_order_relaxed)) find_joined(call);
}

/* --- one round ---------------------------------------------------------------------------------
 */

/* GETs at the end of a node's slot that are one MGET, or may become one. */
typedef struct get_run {
  size_t count;
  size_t bytes;
  uint16_t slot; /* of a cluster: an MGET has keys of one */
} get_run;

/* The wires that a round uses, each once. */
typedef struct round_fleet {
  size_t count;
  unsigned nodes[WEIR_REDIS_NODES_MOST];
  get_run runs[WEIR_REDIS_NODES_MOST];
  weir_wire *wires[WEIR_REDIS_NODES_MOST];
  weir_wire_slot *slots[WEIR_REDIS_NODES_MOST];
  bool bounded[WEIR_REDIS_NODES_MOST]; /* they have INCREX */
} round_fleet;

/* The node's place in the fleet; most operations of a round go where the one before went. */
static size_t place_in_fleet(round_fleet *fleet, weir_redis_nodes *nodes, unsigned node,
                             const weir_operation *operation) {
  for (size_t i = fleet->count; i-- > 0;)
    if (fleet->nodes[i] == node) return i;
  weir_wire *wire = weir_redis_nodes_hold(nodes, node);
  size_t place = fleet->count++;
  fleet->nodes[place] = node;
  fleet->runs[place].count = 0;
  fleet->wires[place] = wire;
  fleet->slots[place] = wire != NULL ? weir_wire_slot_take(wire) : NULL;
  fleet->bounded[place] = wire != NULL && weir_redis_probe_use(nodes, node, operation);
  return place;
}

/* The same for any number of operations: bits of slots. */
typedef struct slot_set {
  uint64_t words[WEIR_REDIS_SLOTS / 64];
} slot_set;

static void mark(slot_set *set, uint16_t slot) {
  set->words[slot / 64] |= UINT64_C(1) << slot % 64;
}

static bool is_marked(const slot_set *set, uint16_t slot) {
  return (set->words[slot / 64] >> slot % 64 & 1) != 0;
}

/* Within one slot, what was sent on by ASK goes to one node, and all else to its owner. A GET must
 * not overtake a write that goes to the other of the two: it waits for the next round. */
typedef struct slot_partings {
  slot_set owner, other; /* slots of which a write goes there */
} slot_partings;

static bool is_held_back(slot_partings *partings, const weir_operation *operation,
                         const weir_redis_attempt *attempt) {
  bool once = attempt->route == WEIR_ROUTE_ONCE;
  if (operation->kind == WEIR_GET)
    return is_marked(once ? &partings->owner : &partings->other, attempt->slot);
  mark(once ? &partings->other : &partings->owner, attempt->slot);
  return false;
}

/* The operation was added to the slot last: joins it to the GETs before it, of which it may be one. */
static void join(weir_wire_slot *slot, get_run *run, const weir_operation *operation,
                 uint16_t slot_of_home) {
  size_t bytes = operation->key_length + WEIR_REDIS_MGET_KEY_BYTES;
  if (run->count == 0 || run->slot != slot_of_home || run->bytes + bytes > WEIR_WIRE_COMMAND_MOST) {
    *run = (get_run){1, WEIR_REDIS_MGET_BYTES + bytes, slot_of_home};
    return;
  }
  weir_wire_slot_join(slot, run->count);
  run->count++;
  run->bytes += bytes;
}

static void choose_form(const weir_operation *operation, weir_redis_attempt *attempt,
                        bool bounded) {
  bool may = attempt->stage == WEIR_STAGE_FIRST && (attempt->facts & WEIR_FACT_PLAIN) == 0 &&
             weir_redis_may_be_bounded(operation);
  attempt->facts &= ~(uint32_t)WEIR_FACT_BOUNDED;
  if (bounded && may) attempt->facts |= WEIR_FACT_BOUNDED;
}

/* Everything that is pending; `partings` is NULL in the first round, the one in which GETs are
 * joined: what goes again does so for a reason of its own. */
static void run_round(const weir_redis_call *call, slot_partings *partings) {
  weir_redis_nodes *nodes = call->store->nodes;
  round_fleet fleet;
  fleet.count = 0;
  fleet.wires[0] = NULL; /* gcc does not see that only `count` of these are read */
  fleet.slots[0] = NULL;
  const weir_wire_round round = {.dialects = 1, .deadline_us = call->deadline_us};
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    weir_redis_attempt *attempt = &call->attempts[i];
    if (operation->outcome != WEIR_PENDING) continue;
    if (partings != NULL && is_held_back(partings, operation, attempt)) continue;
    attempt->told = WEIR_TOLD_NOTHING;
    if (call->routed && attempt->route == WEIR_ROUTE_OWNER)
      attempt->node = (uint16_t)weir_redis_nodes_route(nodes, attempt->slot);
    size_t place = place_in_fleet(&fleet, nodes, attempt->node, operation);
    weir_wire_slot *slot = fleet.slots[place];
    if (slot == NULL || !weir_wire_slot_add(slot, operation, 0)) {
      not_sent(call, operation);
      continue;
    }
    if (call->bounds) choose_form(operation, attempt, fleet.bounded[place]);
    attempt->plan = (uint8_t)weir_redis_plan_of(operation, attempt);
    weir_wire_slot_keep_notes(slot, attempt);
    if (!attempt->joins || partings != NULL)
      fleet.runs[place].count = 0;
    else
      join(slot, &fleet.runs[place], operation, attempt->slot);
  }
  weir_wire_fleet_run(fleet.wires, fleet.slots, fleet.count, &round, call->message);
  for (size_t i = 0; i < fleet.count; i++)
    if (fleet.wires[i] != NULL) weir_redis_nodes_release(nodes, fleet.nodes[i]);
}

/* --- redirections ------------------------------------------------------------------------------
 */

/* What the deciding command has not done is refused, what it has done is in doubt. */
static void give_up(const weir_redis_call *call, size_t i, const char *why) {
  const weir_redis_attempt *attempt = &call->attempts[i];
  char name[WEIR_REDIS_NAME_BYTES];
  weir_redis_nodes_show(call->store->nodes, attempt->node, name);
  call->operations[i].outcome = has_begun(attempt) ? WEIR_UNKNOWN : WEIR_REFUSED;
  weir_message_set(call->message, "%s: %s", name, why);
}

/* The owner of the operation's slot does not answer, or says that the cluster is down: whether
 * another is to be asked who owns it by now. */
static bool find_standby(weir_redis_call *call, size_t i) {
  weir_redis_attempt *attempt = &call->attempts[i];
  int away = attempt->node;
  if (call->hops >= HOPS_MOST) return false;
  call->silent = call->operations[i].outcome == WEIR_NOT_SENT;
  if (call->away != away) {
    call->away = away;
    call->standby = weir_redis_nodes_stand_in(call->store->nodes, attempt->node, attempt->slot,
                                              weir_monotonic_us());
  }
  if (call->standby < 0 || call->standby == away) return false;
  call->operations[i].outcome = WEIR_PENDING;
  attempt->route = WEIR_ROUTE_STAND_IN;
  attempt->node = (uint16_t)call->standby;
  return true;
}

/* The node that was asked in place of one that does not answer names that one all the same. So no
 * other is there, and nothing was executed: it is as if the node had been asked alone. */
static void end_without_heir(const weir_redis_call *call, size_t i) {
  weir_redis_nodes *nodes = call->store->nodes;
  unsigned node = call->attempts[i].node;
  weir_server_state state = {.size = sizeof state};
  weir_wire *wire = weir_redis_nodes_hold(nodes, node);
  call->operations[i].outcome = WEIR_NOT_SENT;
  if (wire == NULL) return;
  weir_wire_read_server(wire, &state);
  weir_message_set(call->message, "%s: not answering (last: %.300s), and the others name no heir",
                   state.name, state.last_error.text);
  weir_redis_nodes_release(nodes, node);
}

/* Where an operation goes after this round; whether that is a hop more. */
static bool redirect(weir_redis_call *call, size_t i) {
  weir_operation *operation = &call->operations[i];
  weir_redis_attempt *attempt = &call->attempts[i];
  bool pending = operation->outcome == WEIR_PENDING;
  bool stood_in = attempt->route == WEIR_ROUTE_STAND_IN;
  if (pending && attempt->told == WEIR_TOLD_PLAIN) return false; /* to the same node */
  bool down = attempt->told == WEIR_TOLD_DOWN, moved = attempt->told == WEIR_TOLD_MOVED;
  bool sent_on = moved || attempt->told == WEIR_TOLD_ASK;
  attempt->route = attempt->told == WEIR_TOLD_ASK ? WEIR_ROUTE_ONCE : WEIR_ROUTE_OWNER;
  if (!pending)
    return operation->outcome == WEIR_NOT_SENT && !operation->late && find_standby(call, i);
  if (down && !stood_in && find_standby(call, i)) return true;
  if (moved && call->silent && attempt->node == call->away) {
    end_without_heir(call, i);
  } else if (down) {
    give_up(call, i,
            "the cluster is down: the slot has no owner, or the node cannot reach enough of the "
            "others");
  } else if (sent_on && call->hops == HOPS_MOST) {
    give_up(call, i, "redirected too often: the nodes disagree who owns the slot");
  }
  return sent_on && operation->outcome == WEIR_PENDING;
}

/* After a round; whether there is another. Every GET behind a write of its home that was redirected
 * goes again, and so does one behind a write to which something is added: it may have read too
 * early. */
__attribute__((noinline)) static bool settle(weir_redis_call *call) {
  slot_set behind = {0};
  bool more = false;
  bool hop = false;
  if (!call->routed && weir_redis_nodes_is_cluster(call->store->nodes)) {
    call->routed = true; /* the first MOVED makes it a cluster */
    for (size_t i = 0; i < call->count; i++)
      call->attempts[i].slot = slot_of(&call->operations[i]);
  }
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    weir_redis_attempt *attempt = &call->attempts[i];
    if (call->routed) hop |= redirect(call, i);
    if (operation->kind != WEIR_GET) {
      bool repeated = !has_begun(attempt) || weir_redis_owed(operation, attempt) > 0;
      if (operation->outcome == WEIR_PENDING && repeated) mark(&behind, attempt->slot);
    } else if (is_marked(&behind, attempt->slot)) {
      operation->outcome = WEIR_PENDING;
      weir_redis_go_again(attempt);
    }
    more |= operation->outcome == WEIR_PENDING;
  }
  call->hops += hop;
  return more;
}

/* A redirection alone is no reason to tell a password. The cluster's own list is, which is read
 * once for all that a call meets. */
__attribute__((noinline)) static void meet_strangers(weir_redis_call *call) {
  weir_redis_nodes *nodes = call->store->nodes;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    const weir_redis_attempt *attempt = &call->attempts[i];
    bool sent_on = attempt->told == WEIR_TOLD_MOVED || attempt->told == WEIR_TOLD_ASK;
    if (operation->outcome != WEIR_PENDING || !sent_on ||
        !weir_redis_nodes_is_stranger(nodes, attempt->node))
      continue;
    if (!call->introduced) call->introduction = weir_redis_map_await(nodes, call->deadline_us);
    call->introduced = true;
    if (!weir_redis_nodes_is_stranger(nodes, attempt->node)) continue;
    /* Nothing was sent to it. That the map did not come in time says nothing of any node. */
    switch (call->introduction) {
      case WEIR_MAP_LEARNT:
      case WEIR_MAP_NO_CLUSTER:
        give_up(call, i,
                "a redirection names it and the cluster's own list does not, so it is not told the "
                "password");
        break;
      case WEIR_MAP_REFUSED:
        give_up(call, i,
                "a redirection names it, and who it is cannot be asked, so it is not told the "
                "password: let the user with ACL SETUSER <user> +cluster|slots, name it in the "
                "URL, or speak TLS with tls-ca= or tls-name=");
        break;
      case WEIR_MAP_UNANSWERED:
        give_up(call, i, "not told the password, as the cluster's list was not read in time");
        operation->outcome = has_begun(attempt) ? WEIR_UNKNOWN : WEIR_NOT_SENT;
        operation->late = true;
        break;
    }
  }
}

/* --- an exec -----------------------------------------------------------------------------------
 */

/* A sum that was answered was asked about, or mended, or needed neither: its key has a TTL. After a
 * total of 0 the next one is a delta again, and would cost a round trip to ask about. */
static void note_lifetime(weir_redis_store *store, const weir_operation *operation,
                          const weir_redis_attempt *attempt) {
  bool stands = operation->outcome == WEIR_DONE && operation->value != 0;
  if (stands && (attempt->facts & WEIR_FACT_SEEN) == 0 && weir_redis_may_be_seen(operation))
    weir_redis_seen_note(store->seen, operation);
  else if (!stands && operation->outcome != WEIR_FULL)
    weir_redis_seen_forget(store->seen, operation);
}

/* Of a GET that was asked for in an MGET, and then alone. */
static void note_parting(weir_redis_store *store, const weir_operation *operation,
                         const weir_redis_attempt *attempt) {
  if (attempt->unjoined) atomic_store_explicit(&store->unjoined, true, memory_order_relaxed);
  if (operation->outcome != WEIR_DONE) weir_redis_seen_forget(store->seen, operation);
}

/* A key that holds what is no integer is read with care until it was found in order: absent, or
 * added to. (A short GET that finds an integer proves nothing: it cannot tell zero bytes behind
 * the digits from the end.) So is one that was not answered for in time: a GET of it may be
 * what kept the server busy. */
static void note_type(weir_redis_store *store, const weir_operation *operation,
                      const weir_redis_attempt *attempt) {
  weir_outcome outcome = operation->outcome;
  bool get = operation->kind == WEIR_GET;
  bool foreign = (attempt->facts & WEIR_FACT_FOREIGN) != 0;
  bool unanswered = outcome == WEIR_UNKNOWN;
  if ((attempt->facts & WEIR_FACT_BARRED) != 0)
    atomic_store_explicit(&store->barred, true, memory_order_relaxed);
  if (foreign || (unanswered && get))
    atomic_store_explicit(&store->wary, WARY_GETS, memory_order_relaxed);
  if (foreign || unanswered)
    weir_redis_seen_note(store->suspects, operation);
  else if (outcome == WEIR_ABSENT || outcome == WEIR_FULL || (outcome == WEIR_DONE && !get))
    weir_redis_seen_forget(store->suspects, operation);
}

/* What is known of the keys from now on. */
static void end(const weir_redis_call *call) {
  weir_redis_store *store = call->store;
  for (size_t i = 0; i < call->count; i++) {
    const weir_operation *operation = &call->operations[i];
    const weir_redis_attempt *attempt = &call->attempts[i];
    if (operation->raised) continue;
    switch (operation->kind) {
      case WEIR_ADD:
      case WEIR_SUB:
        note_lifetime(store, operation, attempt);
        note_type(store, operation, attempt);
        break;
      case WEIR_GET:
        if (attempt->parted) note_parting(store, operation, attempt);
        note_type(store, operation, attempt);
        break;
      case WEIR_DROP:
        weir_redis_seen_forget(store->seen, operation);
        break;
      default: /* of their keys nothing is kept */
        break;
    }
  }
}

void weir_redis_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message) {
  weir_redis_attempt few[ATTEMPTS_FEW];
  weir_redis_call call = {.store = handle,
                          .operations = operations,
                          .attempts = few,
                          .count = count,
                          .deadline_us = deadline_us,
                          .message = message,
                          .away = -1,
                          .standby = -1};
  if (count > ATTEMPTS_FEW) call.attempts = malloc(count * sizeof *call.attempts);
  if (call.attempts == NULL) {
    for (size_t i = 0; i < count; i++)
      not_sent(&call, &operations[i]);
    return;
  }
  begin(&call);
  run_round(&call, NULL);
  bool open = false; /* has it left anything to be settled? */
  for (size_t i = 0; i < count && !open; i++)
    open = operations[i].outcome == WEIR_PENDING ||
           (operations[i].outcome == WEIR_NOT_SENT && call.routed);
  while (open && settle(&call)) {
    slot_partings partings = {0};
    meet_strangers(&call);
    run_round(&call, &partings);
  }
  /* A question or repair that was not sent leaves behind what the first attempt did. */
  for (size_t i = 0; i < count && open; i++)
    if (operations[i].outcome == WEIR_NOT_SENT && has_begun(&call.attempts[i]))
      operations[i].outcome = WEIR_UNKNOWN;
  if (call.routed) weir_redis_map_renew(call.store->nodes);
  end(&call);
  if (call.attempts != few) free(call.attempts);
}
