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

/* One of many. */
typedef struct weir_one {
  weir_limiter *limiter;
  weir_request *request;
  const weir_extra *extra;
  weir_waiting *state;            /* what it asks for; ... */
  weir_settlement *settlement;    /* ... of what settles, the change that is asked for */
  weir_reservation **made;        /* what is reserved, and later whether; or is released */
  weir_reservation **reservation; /* out, of what is reserved */
} weir_one;

/* What is done with each of them. */
typedef struct weir_verb {
  const char *array; /* the caller's, in messages */
  bool settles;      /* what was charged before is changed, for which no policy answers */
  weir_status (*check)(const weir_one *one, weir_message *message);
  bool (*begin)(const weir_one *one); /* writes what it asks for; false: it has its answer */

  /* Writes what came of it; the message gets what the store cannot say. */
  weir_status (*end)(const weir_one *one, weir_message *message);
  void (*count)(const weir_one *one);
} weir_verb;

/* What is released, in the order of keys: so those of one key stand side by side, and ride together. */
typedef struct weir_leaver {
  weir_reservation *reservation;
  size_t index; /* as the caller has it */
} weir_leaver;

typedef struct weir_together {
  const weir_verb *verb;
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
    part->current = !part->taken && weir_limiter_goes_with(part->limiter, all->parts[from].limiter);
    if (!part->current) continue;
    part->taken = true;
    ready(part);
    if (part->call != NULL) link = weir_call_list(&first, link, part->call);
  }
  return first;
}

/* --- what is done ------------------------------------------------------------------------------
 */

static weir_status check_request(const weir_one *one, weir_message *message) {
  return weir_request_check(one->limiter, one->request, one->extra, message);
}

static bool begin_decision(const weir_one *one) {
  weir_request_begin(one->limiter, one->request, one->extra, one->state);
  return true;
}

static weir_status end_decision(const weir_one *one, weir_message *message) {
  (void)message;
  weir_request_tell(one->request, &one->state->claim.verdict);
  return one->state->claim.verdict.status;
}

static void count_decision(const weir_one *one) {
  bool peeks = one->request->flags & WEIR_REQUEST_PEEK;
  weir_counts_add(one->limiter->counts, one->request->status,
                  peeks ? NULL : &one->request->decision);
}

static bool begin_settlement(const weir_one *one) {
  weir_settle_ask(one->limiter, one->request, one->extra, one->settlement, one->state);
  return weir_settlement_begin(one->limiter, one->settlement, one->state);
}

static weir_status end_settlement(const weir_one *one, weir_message *message) {
  weir_status status = weir_settlement_end(one->limiter, one->settlement, one->state, message);
  weir_settle_tell(one->limiter, one->request, one->settlement, one->state);
  return status;
}

static void count_end(const weir_one *one) {
  weir_counts_add(one->limiter->counts, one->request->status, NULL);
}

static weir_status check_reservation(const weir_one *one, weir_message *message) {
  return weir_reserve_begin(one->limiter, one->request, one->extra, one->made, message);
}

/* What this process has already is not asked for. */
static bool begin_reservation(const weir_one *one) {
  bool at_once = weir_reserve_at_once(*one->made, one->request, one->reservation);
  *one->state =
      at_once ? (weir_waiting){0} : weir_reserve_ask(*one->made, one->request, one->extra);
  return !at_once;
}

static weir_status end_reservation(const weir_one *one, weir_message *message) {
  if (*one->reservation != NULL) return WEIR_OK;
  return weir_reserve_end(*one->made, one->request, one->state, one->reservation, message);
}

static void count_reservation(const weir_one *one) {
  weir_reserve_count(one->limiter, one->request);
}

static weir_status check_release(const weir_one *one, weir_message *message) {
  return weir_release_check(*one->made, message);
}

/* It stops believing. What it has paid for is known only then, and a payment that is under way may be
 * waited for: so no call of ours may lead a key yet, which that may stand in line for. */
static bool begin_release(const weir_one *one) {
  return weir_release_begin(*one->made, one->settlement, one->state);
}

static weir_status end_release(const weir_one *one, weir_message *message) {
  return weir_release_end(*one->made, one->settlement, one->state, message);
}

static const weir_verb decides = {"requests",     false,        check_request,
                                  begin_decision, end_decision, count_decision};
static const weir_verb settles = {"requests",       true,           check_request,
                                  begin_settlement, end_settlement, count_end};
static const weir_verb reserves = {"requests",        false,           check_reservation,
                                   begin_reservation, end_reservation, count_reservation};
static const weir_verb releases = {"reservations", true,        check_release,
                                   begin_release,  end_release, count_end};

/* A reservation of what settles is refused. */
static const weir_verb *verb_of(const weir_together *all, size_t i) {
  bool is_settlement = all->verb == &decides && all->requests[i].flags & WEIR_REQUEST_SETTLE;
  return is_settlement ? &settles : all->verb;
}

/* Of requests that are only decided no more is written. */
static inline weir_one one_of(const weir_together *all, const weir_part *part, size_t i) {
  weir_one one = {.limiter = part->limiter,
                  .request = &all->requests[i],
                  .extra = weir_extra_of(all->extras, i)};
  if (all->made == NULL) return one;
  one.made = &all->made[i];
  if (all->reservations != NULL) one.reservation = &all->reservations[i];
  return one;
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
static bool rides(const weir_part *part, const weir_one *one) {
  weir_settlement *carrier = find_carrier(part->call, one->state);
  return carrier != NULL && weir_settlement_ride(part->limiter, carrier, one->settlement);
}

/* Those that fail their check are not asked, and do not keep the others from being decided: each
 * has a status of its own. */
static void begin_each(weir_together *all) {
  for (size_t i = 0; i < all->count; i++) {
    weir_part *part = &all->parts[all->part_of[i]];
    if (!part->current) continue;
    const weir_verb *verb = verb_of(all, i);
    weir_one one = one_of(all, part, i);
    weir_status *status = &one.request->status;
    *status = part->status;
    if (*status == WEIR_OK) *status = verb->check(&one, NULL);
    if (*status != WEIR_OK) continue;
    one.state = &part->call->batch[part->call->ask_count];
    if (verb->settles) one.settlement = weir_call_settlement(part->call, one.state);
    if (verb->settles && one.settlement == NULL) *status = WEIR_NO_MEMORY;
    if (*status != WEIR_OK) continue;
    part->call->ask_count++;
    if (!verb->begin(&one) || (verb->settles && rides(part, &one)))
      atomic_store_explicit(&one.state->standing, WEIR_STANDING_DONE, memory_order_relaxed);
  }
}

/* All are begun before the first joins: from then on other threads read what it asks for. */
static void join_each(weir_together *all) {
  for (size_t i = 0; i < all->part_count; i++) {
    weir_part *part = &all->parts[i];
    if (!part->current || part->call == NULL) continue;
    for (size_t n = 0; n < part->call->ask_count; n++) {
      weir_waiting *state = &part->call->batch[n];
      if (atomic_load_explicit(&state->standing, memory_order_relaxed) != WEIR_STANDING_DONE)
        weir_call_join(&part->call, part->limiter, state, part->call->at);
    }
  }
}

/* --- answering ---------------------------------------------------------------------------------
 */

static size_t index_of(const weir_together *all, size_t i) {
  return all->leavers != NULL ? all->leavers[i].index : i;
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
  weir_message_set(&speaker->why, "%s", why[0] != '\0' ? why : weir_status_text(status));
}

/* Nothing was asked for it. What was refused for its time may be in time by now. */
static void explain_refused(weir_together *all, const weir_one *one, size_t i) {
  weir_status status = one->request->status;
  weir_message why = {""};
  if (!may_speak(all, status, i)) return;
  if (status != WEIR_NO_MEMORY) verb_of(all, i)->check(one, &why);
  speak(all, status, i, why.text);
}

/* The store's answer, or the policy's. */
static void answer(weir_together *all, weir_part *part, const weir_verb *verb, weir_one *one,
                   size_t i) {
  weir_call *call = part->call;
  weir_waiting *state = one->state = &call->batch[part->answered++];
  bool explained = state == call->explained;
  weir_message own;
  weir_message *why = explained ? &call->explanation : &own;
  own.text[0] = '\0';
  if (verb->settles)
    one->settlement = weir_call_settlement(call, state);
  else if (weir_limiter_has_answer(part->limiter, state, state->claim.verdict.status))
    weir_limiter_fall_back(part->limiter, state, explained ? why : NULL);
  one->request->status = verb->end(one, why);
  if (one->request->status != WEIR_OK || (explained && !verb->settles))
    speak(all, one->request->status, i, why->text);
}

static void answer_each(weir_together *all) {
  for (size_t i = 0; i < all->count; i++) {
    weir_part *part = &all->parts[all->part_of[i]];
    if (!part->current) continue;
    const weir_verb *verb = verb_of(all, i);
    weir_one one = one_of(all, part, i);
    if (one.request->status == WEIR_OK)
      answer(all, part, verb, &one, i);
    else
      explain_refused(all, &one, i);
    verb->count(&one);
  }
}

/* --- sets --------------------------------------------------------------------------------------
 */

static void decide_set(weir_together *all, size_t from) {
  weir_call *first = take_set(all, from);
  begin_each(all);
  join_each(all);
  if (first != NULL) weir_call_run(first);
  answer_each(all);
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
  if (all->count > 1 && of_request)
    weir_message_prefix(message, "%s[%zu]: ", all->verb->array, speaker->index);
  return speaker->status;
}

static weir_status check_count(size_t count, weir_message *message) {
  if (count > 0 && count <= WEIR_BATCH_MOST) return WEIR_OK;
  weir_message_set(message, "a batch of %zu requests: accepted are 1 to %d", count,
                   WEIR_BATCH_MOST);
  return WEIR_BAD_ARGUMENT;
}

weir_status weir_limiters_check(weir_limiter *const *limiters, size_t count,
                                weir_message *message) {
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
  return status == WEIR_OK ? weir_limiters_check(limiters, count, message) : status;
}

/* Only what is used is written. */
static void begin(weir_together *all, weir_part *parts, weir_request *requests,
                  const weir_extra *const *extras, size_t count) {
  all->verb = &decides;
  all->parts = parts;
  all->requests = requests;
  all->extras = extras;
  all->count = all->speaker.index = count;
  all->part_count = 0;
  all->made = all->reservations = NULL;
  all->leavers = NULL;
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
    weir_request_tell(request, &state.claim.verdict);
  }
  request->status = status;
  count_decision(&(weir_one){.limiter = limiter, .request = request});
  return true;
}

weir_status weir_decide_known_extra(weir_limiter *const *limiters, weir_request *requests,
                                    const weir_extra *const *extras, size_t count, bool *known,
                                    weir_message *message) {
  weir_left left;
  weir_moment at = {0};
  weir_status status = weir_limiters_check(limiters, count, message);
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
  all.verb = &reserves;
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
  all.verb = &releases;
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
