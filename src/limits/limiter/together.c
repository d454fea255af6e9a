/* Many requests at once, of one limiter or of several.
 *
 *     parts ──> the requests of each limiter
 *     set ────> the parts of one store that have one deadline: their calls are one list, and what
 *               they ask leaves together
 *
 * One set is decided after another, and joins the lines of its keys only when its turn comes: no
 * call leads a key and does something else meanwhile.
 *
 * Those that need no store can be decided without the others.
 *
 * Reservations are made together in the same way, and released.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "hash.h"
#include "limiter/end.h"
#include "limiter/limiter.h"

/* The requests of one limiter. As small as can be: there may be many, and they are on the stack. */
typedef struct weir_part {
  weir_limiter *limiter;
  weir_call *call;
  weir_status status; /* but for WEIR_OK that of all its requests: nothing can be asked */
  uint16_t count;     /* of its requests; of those that passed their check ... */
  uint16_t answered;  /* ... so many have been */
  bool taken;         /* into a set */
  bool current;       /* into the one that is being decided */
} weir_part;

/* Who speaks for all: the first request that failed, else the first that a policy answered. */
typedef struct weir_speaker {
  weir_status status;
  size_t index; /* in the caller's array; their number: none has to */
  weir_message why;
} weir_speaker;

typedef enum weir_verb { WEIR_DECIDES, WEIR_RESERVES, WEIR_RELEASES } weir_verb;

/* What is released, in the order of keys: so those of one key stand side by side, and ride together. */
typedef struct weir_leaver {
  weir_reservation *reservation;
  size_t index; /* as the caller has it */
} weir_leaver;

typedef struct weir_together {
  weir_verb verb;
  weir_request *requests;          /* of releases their statuses alone */
  const weir_extra *const *extras; /* what they say beside; NULL: nothing */
  weir_reservation **made; /* what is reserved, and later whether: NULL where not; or is released */
  weir_reservation **reservations; /* out, of what is reserved */
  const weir_leaver *leavers;      /* of releases: in whose order all else stands */
  size_t count;
  size_t part_count;
  weir_speaker speaker;
  uint16_t part_of[WEIR_BATCH_MOST]; /* by request */
  weir_part *parts;                  /* there is room for as many as there can be */
} weir_together;

/* --- parts -------------------------------------------------------------------------------------
 */

/* Requests of one limiter often stand side by side. */
static void add_to_part(weir_together *all, size_t i, weir_limiter *limiter) {
  size_t part = i > 0 ? all->part_of[i - 1] : 0;
  if (i == 0 || all->parts[part].limiter != limiter)
    for (part = 0; part < all->part_count && all->parts[part].limiter != limiter;)
      part++;
  if (part == all->part_count) all->parts[all->part_count++] = (weir_part){.limiter = limiter};
  all->parts[part].count++;
  all->part_of[i] = (uint16_t)part;
}

/* Readies a part to be asked; one that cannot be says so in its status. */
static void ready(weir_part *part) {
  part->status = weir_limiter_check_process(part->limiter, NULL);
  if (part->status != WEIR_OK) return;
  part->call = weir_call_acquire(part->limiter, part->count);
  if (part->call == NULL) part->status = WEIR_NO_MEMORY;
  if (part->call != NULL)
    weir_call_begin(part->call, part->call->batch, 0, weir_limiter_moment(part->limiter));
}

/* Takes the parts that go with parts[from], and lists their calls. NULL: none can be asked. */
static weir_call *take_set(weir_together *all, size_t from) {
  weir_call *first = NULL;
  weir_call **link = &first;
  for (size_t i = from; i < all->part_count; i++) {
    weir_part *part = &all->parts[i];
    const weir_limiter *limiter = part->limiter;
    part->current = !part->taken && limiter->store == all->parts[from].limiter->store &&
                    limiter->deadline_us == all->parts[from].limiter->deadline_us;
    if (!part->current) continue;
    part->taken = true;
    ready(part);
    if (part->call == NULL) continue;
    *link = part->call;
    part->call->head = first;
    part->call->waiter = first->own_waiter;
    link = &part->call->also;
  }
  return first;
}

/* --- asking ------------------------------------------------------------------------------------
 */

/* The settlement of the same key that stands before this one with no other request of that between
 * them. NULL: there is none near by. */
static weir_settlement *find_carrier(weir_call *call, const weir_waiting *state) {
  enum { LOOKS_MOST = 64 };
  const weir_waiting *before = state;
  for (int n = 0; n < LOOKS_MOST && before > call->batch; n++) {
    before--;
    if (before->claim.ask.key_length != state->claim.ask.key_length ||
        memcmp(before->claim.ask.key, state->claim.ask.key, state->claim.ask.key_length) != 0)
      continue;
    if (before->claim.ask.settlement == NULL) return NULL;
    weir_settlement *settlement = weir_call_settlement(call, before);
    if (settlement->carrier != NULL) return settlement->carrier;
    if (settlement->request != NULL) return settlement;
  }
  return NULL;
}

/* A server's turn settles many requests of one key: they are asked for as one. */
static void begin_settlement(weir_part *part, weir_request *request, const weir_extra *extra,
                             weir_waiting *state) {
  weir_settlement *settlement = weir_call_settlement(part->call, state);
  if (settlement == NULL) {
    request->status = WEIR_NO_MEMORY;
    part->call->ask_count--;
    return;
  }
  weir_settle_ask(part->limiter, request, extra, settlement, state);
  if (!weir_settlement_begin(part->limiter, settlement, state)) return;
  weir_settlement *carrier = find_carrier(part->call, state);
  if (carrier != NULL) weir_settlement_ride(part->limiter, carrier, settlement);
}

/* What this process has already is not asked for. */
static void begin_reservation(weir_together *all, weir_part *part, size_t i, weir_waiting *state) {
  weir_request *request = &all->requests[i];
  if (!weir_reserve_at_once(all->made[i], request, &all->reservations[i])) {
    *state = weir_reserve_ask(all->made[i], request, weir_extra_of(all->extras, i));
    weir_call_join(&part->call, part->limiter, state, part->call->at);
    return;
  }
  *state = (weir_waiting){.claim.verdict.decision = request->decision};
  atomic_store_explicit(&state->standing, WEIR_STANDING_DONE, memory_order_relaxed);
}

/* It stops believing. What it has paid for is known only then, and a payment that is under way may be
 * waited for: so no call of ours leads a key yet, which that may stand in line for. */
static void begin_release(weir_together *all, weir_part *part, size_t i, weir_waiting *state) {
  weir_settlement *settlement = weir_call_settlement(part->call, state);
  if (settlement == NULL) {
    all->requests[i].status = WEIR_NO_MEMORY;
    part->call->ask_count--;
    return;
  }
  if (!weir_release_begin(all->made[i], settlement, state)) return;
  weir_settlement *carrier = find_carrier(part->call, state);
  if (carrier != NULL) weir_settlement_ride(part->limiter, carrier, settlement);
}

/* Whether the store has to be asked: by another settlement it is asked for several. */
static bool has_to_join(weir_call *call, const weir_waiting *state) {
  if (state->claim.ask.settlement == NULL) return true;
  const weir_settlement *settlement = weir_call_settlement(call, state);
  return settlement->request != NULL && settlement->carrier == NULL;
}

/* Where something is settled, all are begun before the first joins: from then on other threads read
 * what it asks for. */
static void join_begun(weir_together *all) {
  for (size_t i = 0; i < all->part_count; i++) {
    weir_part *part = &all->parts[i];
    if (!part->current || part->call == NULL) continue;
    for (size_t n = 0; n < part->call->ask_count; n++) {
      weir_waiting *state = &part->call->batch[n];
      if (has_to_join(part->call, state))
        weir_call_join(&part->call, part->limiter, state, part->call->at);
      else
        atomic_store_explicit(&state->standing, WEIR_STANDING_DONE, memory_order_relaxed);
    }
  }
}

static weir_status check(const weir_together *all, const weir_part *part, size_t i,
                         weir_message *message) {
  const weir_request *request = &all->requests[i];
  const weir_extra *extra = weir_extra_of(all->extras, i);
  if (all->verb == WEIR_DECIDES) return weir_request_check(part->limiter, request, extra, message);
  if (all->verb == WEIR_RELEASES) return weir_release_check(all->made[i], message);
  return weir_reserve_begin(part->limiter, request, extra, &all->made[i], message);
}

/* A reservation of what settles is refused, and all others of its batch are joined as they are begun. */
static bool settles(const weir_together *all, size_t i) {
  return all->verb == WEIR_RELEASES ||
         (all->verb == WEIR_DECIDES && all->requests[i].flags & WEIR_REQUEST_SETTLE);
}

/* Those that fail their check are not asked, and do not keep the others from being decided: each
 * has a status of its own. */
static void join_all(weir_together *all) {
  bool some_settle = false;
  for (size_t i = 0; i < all->count; i++)
    some_settle = some_settle || settles(all, i);
  for (size_t i = 0; i < all->count; i++) {
    weir_part *part = &all->parts[all->part_of[i]];
    weir_request *request = &all->requests[i];
    if (!part->current) continue;
    request->status = part->status;
    if (request->status == WEIR_OK) request->status = check(all, part, i, NULL);
    if (request->status != WEIR_OK) continue;
    weir_waiting *state = &part->call->batch[part->call->ask_count++];
    if (all->verb == WEIR_RESERVES) {
      begin_reservation(all, part, i, state);
    } else if (all->verb == WEIR_RELEASES) {
      begin_release(all, part, i, state);
    } else if (settles(all, i)) {
      begin_settlement(part, request, weir_extra_of(all->extras, i), state);
    } else {
      weir_request_begin(part->limiter, request, weir_extra_of(all->extras, i), state);
      if (!some_settle) weir_call_join(&part->call, part->limiter, state, part->call->at);
    }
  }
  if (some_settle) join_begun(all);
}

/* --- answering ---------------------------------------------------------------------------------
 */

static size_t index_of(const weir_together *all, size_t i) {
  return all->verb == WEIR_RELEASES ? all->leavers[i].index : i;
}

static bool may_speak(const weir_together *all, weir_status status, size_t i) {
  const weir_speaker *speaker = &all->speaker;
  if ((status == WEIR_OK) != (speaker->status == WEIR_OK)) return status != WEIR_OK;
  return index_of(all, i) < speaker->index;
}

static void speak(weir_together *all, weir_status status, size_t i, const char *why) {
  weir_speaker *speaker = &all->speaker;
  if (!may_speak(all, status, i)) return;
  speaker->status = status;
  speaker->index = index_of(all, i);
  weir_message_set(&speaker->why, "%s", why);
}

/* Nothing was asked for it. What was refused for its time may be in time by now. */
static void explain_refused(weir_together *all, const weir_part *part, size_t i) {
  weir_request *request = &all->requests[i];
  weir_message why;
  if (!may_speak(all, request->status, i)) return;
  weir_message_set(&why, "%s", weir_status_text(request->status));
  if (request->status == WEIR_NO_MEMORY)
    weir_no_memory(&why);
  else
    check(all, part, i, &why);
  speak(all, request->status, i, why.text);
}

/* What it came to, or why it was not made. */
static void answer_settlement(weir_together *all, weir_part *part, size_t i) {
  weir_request *request = &all->requests[i];
  weir_waiting *state = &part->call->batch[part->answered++];
  weir_settlement *settlement = weir_call_settlement(part->call, state);
  weir_message why;
  bool explained = state == part->call->explained;
  weir_message_set(
      &why, "%s",
      explained ? part->call->explanation.text : weir_status_text(state->claim.verdict.status));
  if (all->verb == WEIR_RELEASES) {
    request->status = weir_release_end(all->made[i], settlement, state, &why);
  } else {
    request->status = weir_settlement_end(part->limiter, settlement, state, &why);
    weir_settle_tell(part->limiter, request, settlement, state);
  }
  if (request->status != WEIR_OK) speak(all, request->status, i, why.text);
}

/* What was had at once needs no answer. What the store did not decide its policy has. */
static void answer_reservation(weir_together *all, weir_part *part, size_t i) {
  weir_request *request = &all->requests[i];
  weir_waiting *state = &part->call->batch[part->answered++];
  bool explained = state == part->call->explained;
  weir_message *why = &part->call->explanation;
  weir_message own;
  if (all->reservations[i] != NULL) return;
  if (weir_limiter_has_answer(part->limiter, state, state->claim.verdict.status))
    weir_limiter_fall_back(part->limiter, state, explained ? why : NULL);
  weir_message_set(&own, "%s",
                   explained ? why->text : weir_status_text(state->claim.verdict.status));
  request->status = weir_reserve_end(all->made[i], request, state, &all->reservations[i], &own);
  if (explained || request->status != WEIR_OK) speak(all, request->status, i, own.text);
}

/* The store's answer, or the policy's. */
static void answer(weir_together *all, weir_part *part, size_t i) {
  weir_request *request = &all->requests[i];
  weir_waiting *state = &part->call->batch[part->answered++];
  if (weir_limiter_has_answer(part->limiter, state, state->claim.verdict.status))
    weir_limiter_fall_back(part->limiter, state,
                           state == part->call->explained ? &part->call->explanation : NULL);
  request->status = state->claim.verdict.status;
  if (request->status == WEIR_OK) request->decision = state->claim.verdict.decision;
  if (request->status == WEIR_OK && request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
  if (state == part->call->explained) speak(all, request->status, i, part->call->explanation.text);
}

static void answer_all(weir_together *all) {
  for (size_t i = 0; i < all->count; i++) {
    weir_part *part = &all->parts[all->part_of[i]];
    weir_request *request = &all->requests[i];
    if (!part->current) continue;
    if (request->status != WEIR_OK)
      explain_refused(all, part, i);
    else if (all->verb == WEIR_RESERVES)
      answer_reservation(all, part, i);
    else if (settles(all, i))
      answer_settlement(all, part, i);
    else
      answer(all, part, i);
    if (all->verb == WEIR_RESERVES) {
      weir_reserve_count(part->limiter, request);
      continue;
    }
    bool peeks = request->flags & WEIR_REQUEST_PEEK;
    weir_counts_add(part->limiter->counts, request->status,
                    settles(all, i) || peeks ? NULL : &request->decision);
  }
}

/* --- sets --------------------------------------------------------------------------------------
 */

static void decide_set(weir_together *all, size_t from) {
  weir_call *first = take_set(all, from);
  join_all(all);
  if (first != NULL) weir_call_run(first);
  answer_all(all);
  for (size_t i = from; i < all->part_count; i++) {
    weir_part *part = &all->parts[i];
    if (part->current && part->call != NULL) weir_call_release(part->call);
    part->current = false;
  }
}

/* The message names a request by its place in the caller's array, unless it is about the only
 * limiter. */
static weir_status decide(weir_together *all, weir_message *message) {
  const weir_speaker *speaker = &all->speaker;
  for (size_t i = 0; i < all->part_count; i++)
    if (!all->parts[i].taken) decide_set(all, i);
  if (speaker->index == all->count) return WEIR_OK;
  weir_message_set(message, "%s", speaker->why.text);
  bool of_request = all->part_count > 1 || all->parts[0].status == WEIR_OK;
  const char *name = all->verb == WEIR_RELEASES ? "reservations" : "requests";
  if (all->count > 1 && of_request) weir_message_prefix(message, "%s[%zu]: ", name, speaker->index);
  return speaker->status;
}

static weir_status check_count(size_t count, weir_message *message) {
  if (count > 0 && count <= WEIR_BATCH_MOST) return WEIR_OK;
  weir_message_set(message, "a batch of %zu requests: accepted are 1 to %d", count,
                   WEIR_BATCH_MOST);
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_each(weir_limiter *const *limiters, size_t count, weir_message *message) {
  for (size_t i = 0; i < count; i++) {
    if (limiters[i] != NULL) continue;
    weir_message_set(message, "limiters[%zu] is NULL: accepted are limiters", i);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

static weir_status check_limiters(weir_limiter *const *limiters, size_t count,
                                  weir_message *message) {
  weir_status status = check_count(count, message);
  return status == WEIR_OK ? check_each(limiters, count, message) : status;
}

/* Only what is used is written. */
static void begin(weir_together *all, weir_part *parts, weir_request *requests,
                  const weir_extra *const *extras, size_t count) {
  all->verb = WEIR_DECIDES;
  all->parts = parts;
  all->requests = requests;
  all->extras = extras;
  all->count = all->speaker.index = count;
  all->part_count = 0;
  all->speaker.status = WEIR_OK;
}

static weir_status decide_alone(weir_limiter *limiter, weir_request *request,
                                const weir_extra *extra, weir_message *message) {
  if (extra == NULL && weir_request_is_take(limiter, request))
    return request->status = weir_limiter_take(limiter, request->key, request->key_length,
                                               request->cost, &request->decision, message);
  return request->flags & WEIR_REQUEST_SETTLE
             ? weir_settle_request(limiter, request, extra, message)
             : weir_request_decide(limiter, request, extra, message);
}

weir_status weir_limiter_decide(weir_limiter *limiter, weir_request *requests, size_t count,
                                weir_message *message) {
  weir_together all;
  weir_part part;
  weir_status status = check_count(count, message);
  if (status != WEIR_OK) return status;
  if (count == 1) return decide_alone(limiter, requests, NULL, message);
  begin(&all, &part, requests, NULL, count);
  for (size_t i = 0; i < count; i++)
    add_to_part(&all, i, limiter);
  return decide(&all, message);
}

weir_status weir_decide_extra(weir_limiter *const *limiters, weir_request *requests,
                              const weir_extra *const *extras, size_t count,
                              weir_message *message) {
  weir_together all;
  weir_part parts[WEIR_BATCH_MOST];
  weir_status status = check_limiters(limiters, count, message);
  if (status != WEIR_OK) return status;
  if (count == 1) return decide_alone(limiters[0], requests, weir_extra_of(extras, 0), message);
  begin(&all, parts, requests, extras, count);
  for (size_t i = 0; i < count; i++)
    add_to_part(&all, i, limiters[i]);
  return decide(&all, message);
}

weir_status weir_decide_together(weir_limiter *const *limiters, weir_request *requests,
                                 size_t count, weir_message *message) {
  return weir_decide_extra(limiters, requests, NULL, count, message);
}

/* --- what is known ------------------------------------------------------------------------------
 */

/* The keys that are left to the store, by some bits of a hash: of keys that share theirs all are. */
enum { LEFT_BITS = 8192, WORD_BITS = 64 };
typedef struct weir_left {
  bool some;
  uint64_t words[LEFT_BITS / WORD_BITS];
} weir_left;

static bool is_left(const weir_left *left, uint64_t hash) {
  return (left->words[hash / WORD_BITS % (LEFT_BITS / WORD_BITS)] >> hash % WORD_BITS & 1U) != 0;
}

static void leave(weir_left *left, uint64_t hash) {
  if (!left->some) memset(left->words, 0, sizeof left->words);
  left->some = true;
  left->words[hash / WORD_BITS % (LEFT_BITS / WORD_BITS)] |= UINT64_C(1) << hash % WORD_BITS;
}

static uint64_t hash_key(const weir_limiter *limiter, const weir_request *request) {
  if (request->key == NULL) return 0; /* it is refused */
  return weir_hash_64(limiter->store->secret, request->key, request->key_length);
}

/* What settles is charged or goes back, mostly in the store. */
static bool know(weir_limiter *limiter, weir_request *request, const weir_extra *extra,
                 weir_moment at) {
  if (request->flags & WEIR_REQUEST_SETTLE) return false;
  weir_status status = weir_request_check(limiter, request, extra, NULL);
  if (status == WEIR_OK) {
    weir_waiting state;
    weir_request_begin(limiter, request, extra, &state);
    weir_key key;
    weir_limiter_find(limiter, &state.claim.ask, &key);
    if (!weir_know(limiter, &state, &key, at, WEIR_LOCKED, NULL)) return false;
    request->decision = state.claim.verdict.decision;
    if (request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
  }
  request->status = status;
  weir_counts_add(limiter->counts, status,
                  request->flags & WEIR_REQUEST_PEEK ? NULL : &request->decision);
  return true;
}

weir_status weir_decide_known_extra(weir_limiter *const *limiters, weir_request *requests,
                                    const weir_extra *const *extras, size_t count, bool *known,
                                    weir_message *message) {
  weir_left left;
  weir_moment at = {0};
  weir_status status = check_each(limiters, count, message);
  if (status != WEIR_OK) return status;
  left.some = false;
  for (size_t i = 0; i < count; i++) {
    weir_limiter *limiter = limiters[i];
    if (i == 0 || limiter != limiters[i - 1]) at = weir_limiter_moment(limiter);
    known[i] = !(left.some && is_left(&left, hash_key(limiter, &requests[i]))) &&
               know(limiter, &requests[i], weir_extra_of(extras, i), at);
    if (!known[i]) leave(&left, hash_key(limiter, &requests[i]));
  }
  return WEIR_OK;
}

weir_status weir_decide_known(weir_limiter *const *limiters, weir_request *requests, size_t count,
                              bool *known, weir_message *message) {
  return weir_decide_known_extra(limiters, requests, NULL, count, known, message);
}

/* --- reservations ------------------------------------------------------------------------------
 */

weir_status weir_reserve_extra(weir_limiter *const *limiters, weir_request *requests,
                               const weir_extra *const *extras, size_t count,
                               weir_reservation **reservations, weir_message *message) {
  weir_together all;
  weir_part parts[WEIR_BATCH_MOST];
  weir_reservation *made[WEIR_BATCH_MOST];
  weir_status status = check_limiters(limiters, count, message);
  if (status != WEIR_OK) return status;
  if (count == 1)
    return weir_reserve_one(limiters[0], requests, weir_extra_of(extras, 0), reservations, message);
  begin(&all, parts, requests, extras, count);
  all.verb = WEIR_RESERVES;
  all.made = made;
  all.reservations = reservations;
  for (size_t i = 0; i < count; i++) {
    add_to_part(&all, i, limiters[i]);
    made[i] = reservations[i] = NULL;
  }
  status = decide(&all, message);
  for (size_t i = 0; i < count; i++)
    if (reservations[i] == NULL) weir_reservation_destroy(made[i]);
  return status;
}

weir_status weir_reserve_together(weir_limiter *const *limiters, weir_request *requests,
                                  size_t count, weir_reservation **reservations,
                                  weir_message *message) {
  return weir_reserve_extra(limiters, requests, NULL, count, reservations, message);
}

static int by_key(const void *one, const void *other) {
  const weir_leaver *a = one;
  const weir_leaver *b = other;
  int order = weir_release_order(a->reservation, b->reservation);
  return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

/* The limiter of each is in it, which is why none may be NULL. */
weir_status weir_release_together(weir_reservation *const *reservations, size_t count,
                                  weir_status *statuses, weir_message *message) {
  weir_together all;
  weir_part parts[WEIR_BATCH_MOST];
  weir_reservation *released[WEIR_BATCH_MOST];
  weir_status status = check_count(count, message);
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    if (reservations[i] != NULL) continue;
    weir_message_set(message, "reservations[%zu] is NULL: accepted are reservations", i);
    status = WEIR_BAD_ARGUMENT;
  }
  if (status != WEIR_OK) return status;
  weir_request *requests = calloc(count, sizeof *requests);
  weir_leaver *leavers = calloc(count, sizeof *leavers);
  if (requests == NULL || leavers == NULL) {
    free(requests);
    free(leavers);
    return weir_no_memory(message);
  }
  for (size_t i = 0; i < count; i++)
    leavers[i] = (weir_leaver){reservations[i], i};
  qsort(leavers, count, sizeof *leavers, by_key);
  begin(&all, parts, requests, NULL, count);
  all.verb = WEIR_RELEASES;
  all.made = released;
  all.leavers = leavers;
  for (size_t i = 0; i < count; i++) {
    released[i] = leavers[i].reservation;
    add_to_part(&all, i, weir_release_limiter(released[i]));
  }
  status = decide(&all, message);
  for (size_t i = 0; i < count && statuses != NULL; i++)
    statuses[leavers[i].index] = requests[i].status;
  free(requests);
  free(leavers);
  return status;
}
