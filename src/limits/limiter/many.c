/* Many requests at once, of one limiter or of several: each has an answer of its own. all.c asks its members
 * in the same sets.
 *
 *     party ──> the requests of one limiter
 *     set ────> the parties of one store that have one deadline: their calls are one list, and what
 *               they ask leaves together
 *
 *     set ──> begin each ──> join each ──> run ──> end each ──> the next set
 *
 * One set is asked after another, and joins the lines of its keys only when its turn comes: no call
 * leads a key and does something else meanwhile.
 */
#include "limiter/many.h"

#include <string.h>

#include <weir/backend.h>

#include "hash.h"
#include "limiter/end.h"

/* --- sets --------------------------------------------------------------------------------------
 */

weir_party *weir_party_take_set(weir_party **list) {
  const weir_limiter *limiter = (*list)->limiter;
  weir_party *set = NULL;
  weir_party **end = &set;
  while (*list != NULL) {
    weir_party *party = *list;
    if (weir_limiter_goes_with(party->limiter, limiter)) {
      *list = party->next;
      end = weir_party_append(end, party);
    } else {
      list = &party->next;
    }
  }
  return set;
}

void weir_set_run(weir_call *first) {
  for (weir_call *call = first; call != NULL; call = call->also) {
    for (size_t n = 0; n < call->ask_count; n++) {
      weir_waiting *state = &call->batch[n];
      if (atomic_load_explicit(&state->standing, memory_order_relaxed) != WEIR_STANDING_DONE)
        weir_call_join(&call, call->limiter, state, call->at);
    }
  }
  if (first != NULL) weir_call_run(first);
}

void weir_speak(weir_speaker *speaker, weir_status status, size_t index, const char *why) {
  bool alike = (status == WEIR_OK) == (speaker->status == WEIR_OK);
  if (alike ? index >= speaker->index : status == WEIR_OK) return;
  speaker->status = status;
  speaker->index = index;
  weir_message_set(&speaker->why, "%s", why[0] != '\0' ? why : weir_status_text(status));
}

/* --- each: what is decided ----------------------------------------------------------------------
 */

/* Most are plain. */
static weir_status begin_request(weir_limiter *limiter, const weir_request *request,
                                 const weir_extra *extra, weir_waiting *state,
                                 weir_message *message) {
  if (extra == NULL && weir_request_is_take(limiter, request)) {
    weir_waiting_begin(state, WEIR_TAKE, request->key, request->key_length, request->cost);
    return WEIR_OK;
  }
  weir_status status = weir_request_check_all(limiter, request, extra, message);
  if (status == WEIR_OK) weir_request_begin(limiter, request, extra, state);
  return status;
}

static weir_status begin_decision(const weir_one *one, weir_message *message) {
  return begin_request(one->limiter, one->request, one->extra, one->state, message);
}

static weir_status end_decision(const weir_one *one, weir_message *message) {
  (void)message;
  weir_request_tell(one->request, &one->state->claim.verdict);
  return one->state->claim.verdict.status;
}

static const weir_deed decides = {"requests", false, begin_decision, end_decision};

/* What settles may stand among what is decided; others refuse it. */
static const weir_deed *deed_of(const weir_many *many, const weir_request *request) {
  bool settles = many->deed == &decides && request->flags & WEIR_REQUEST_SETTLE;
  return settles ? &weir_settle_deed : many->deed;
}

/* --- each: a set after another -----------------------------------------------------------------
 */

void weir_many_begin(weir_many *many, const weir_deed *deed, weir_party *parties,
                     weir_request *requests, size_t count) {
  many->deed = deed;
  many->requests = requests;
  many->extras = NULL;
  many->statuses = NULL;
  many->own = NULL;
  many->count = many->speaker.index = count;
  many->speaker.status = WEIR_OK;
  many->parties = many->latest = parties;
  many->party_count = 0;
}

/* Requests of one limiter often stand side by side. */
void weir_many_add(weir_many *many, size_t index, weir_limiter *limiter) {
  weir_party *end = many->parties + many->party_count;
  weir_party *party = many->latest;
  if (party == end || party->limiter != limiter)
    for (party = many->parties; party < end && party->limiter != limiter;)
      party++;
  if (party < end) {
    many->next[party->last] = (uint16_t)index;
  } else {
    *party = (weir_party){.limiter = limiter, .first = (uint16_t)index};
    many->party_count++;
  }
  party->last = (uint16_t)index;
  party->count++;
  many->next[index] = (uint16_t)many->count;
  many->latest = party;
}

static void point_to(weir_one *one, const weir_many *many, size_t i) {
  one->index = i;
  one->extra = weir_extra_of(many->extras, i);
  one->request = many->requests != NULL ? &many->requests[i] : NULL;
  one->status = one->request != NULL ? &one->request->status : &many->statuses[i];
}

static weir_status ready(weir_party *party, weir_message *message) {
  weir_status status = weir_limiter_check_process(party->limiter, message);
  if (status != WEIR_OK) return status;
  party->call = weir_call_acquire(party->limiter, party->count);
  if (party->call == NULL) return weir_no_memory(message);
  weir_call_begin(party->call, party->call->batch, 0, weir_limiter_moment(party->limiter));
  return WEIR_OK;
}

/* Those that fail their check are not asked, and do not keep the others from being decided: each
 * has a status of its own. */
static void begin_each(weir_many *many, weir_party *party) {
  weir_message why;
  why.text[0] = '\0';
  weir_status all = ready(party, &why);
  weir_call *call = party->call;
  weir_one one = {.limiter = party->limiter, .call = call, .own = many->own};
  for (size_t i = party->first; i < many->count; i = many->next[i]) {
    weir_status status = all;
    point_to(&one, many, i);
    if (status == WEIR_OK) {
      one.state = &call->batch[call->ask_count];
      status = deed_of(many, one.request)->begin(&one, &why);
    }
    *one.status = status;
    if (status == WEIR_OK)
      call->ask_count++;
    else
      weir_speak(&many->speaker, status, i, why.text);
  }
}

/* The store's answer, or the policy's. */
static weir_status end_one(weir_many *many, const weir_deed *deed, const weir_one *one) {
  weir_call *call = one->call;
  weir_waiting *state = one->state;
  bool explained = state == call->explained;
  weir_message own;
  weir_message *why = explained ? &call->explanation : &own;
  own.text[0] = '\0';
  if (!deed->settles && weir_limiter_has_answer(one->limiter, state, state->claim.verdict.status))
    weir_limiter_fall_back(one->limiter, state, explained ? why : NULL);
  weir_status status = deed->end(one, why);
  if (status != WEIR_OK || (explained && !deed->settles))
    weir_speak(&many->speaker, status, one->index, why->text);
  return status;
}

/* Most are takes that the store has decided: they are counted together. */
static void end_each(weir_many *many, const weir_party *party) {
  weir_counts *counts = party->limiter->counts;
  unsigned decided[] = {[false] = 0, [true] = 0};
  weir_waiting *state = party->call != NULL ? party->call->batch : NULL;
  weir_one one = {.limiter = party->limiter, .call = party->call, .own = many->own};
  for (size_t i = party->first; i < many->count; i = many->next[i]) {
    point_to(&one, many, i);
    const weir_deed *deed = deed_of(many, one.request);
    weir_status status = *one.status;
    if (status == WEIR_OK) {
      one.state = state++;
      status = *one.status = end_one(many, deed, &one);
    }
    bool takes = !deed->settles && !(one.request->flags & WEIR_REQUEST_PEEK);
    const weir_decision *decision = takes ? &one.request->decision : NULL;
    if (status == WEIR_OK && takes && decision->source == WEIR_SOURCE_STORE)
      decided[decision->allowed]++;
    else
      weir_counts_add(counts, status, decision);
  }
  for (int allowed = 0; allowed <= 1; allowed++)
    if (decided[allowed] > 0) weir_counts_add_decided(counts, allowed, decided[allowed]);
}

static void ask_each(weir_many *many, weir_party *set) {
  weir_call *first = NULL;
  weir_call **link = &first;
  for (weir_party *party = set; party != NULL; party = party->next) {
    begin_each(many, party);
    if (party->call != NULL) link = weir_call_list(&first, link, party->call);
  }
  weir_set_run(first);
  for (weir_party *party = set; party != NULL; party = party->next) {
    end_each(many, party);
    if (party->call != NULL) weir_call_release(party->call);
  }
}

/* The message names a request by its place in the caller's array, unless it is about the only
 * limiter. */
weir_status weir_many_run(weir_many *many, weir_message *message) {
  const weir_speaker *speaker = &many->speaker;
  weir_party *list = NULL;
  weir_party **end = &list;
  for (size_t i = 0; i < many->party_count; i++)
    end = weir_party_append(end, &many->parties[i]);
  while (list != NULL)
    ask_each(many, weir_party_take_set(&list));
  if (speaker->index == many->count) return WEIR_OK;
  weir_message_set(message, "%s", speaker->why.text);
  bool of_limiter = many->party_count == 1 && many->parties[0].call == NULL;
  if (many->count > 1 && !of_limiter)
    weir_message_prefix(message, "%s[%zu]: ", many->deed->array, speaker->index);
  return speaker->status;
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
  weir_many many;
  weir_party all = {.limiter = limiter, .count = (uint16_t)count};
  weir_status status = weir_check_many(NULL, count, WEIR_BATCH_MOST, message);
  if (status != WEIR_OK) return status;
  if (count == 1) return decide_alone(limiter, requests, NULL, message);
  weir_many_begin(&many, &decides, &all, requests, count);
  many.party_count = 1;
  for (size_t i = 0; i < count; i++)
    many.next[i] = (uint16_t)(i + 1);
  return weir_many_run(&many, message);
}

weir_status weir_decide_extra(weir_limiter *const *limiters, weir_request *requests,
                              const weir_extra *const *extras, size_t count,
                              weir_message *message) {
  weir_many many;
  weir_party parties[WEIR_BATCH_MOST];
  weir_status status = weir_check_many(limiters, count, WEIR_BATCH_MOST, message);
  if (status != WEIR_OK) return status;
  if (count == 1) return decide_alone(limiters[0], requests, weir_extra_of(extras, 0), message);
  weir_many_begin(&many, &decides, parties, requests, count);
  many.extras = extras;
  for (size_t i = 0; i < count; i++)
    weir_many_add(&many, i, limiters[i]);
  return weir_many_run(&many, message);
}

weir_status weir_decide_together(weir_limiter *const *limiters, weir_request *requests,
                                 size_t count, weir_message *message) {
  return weir_decide_extra(limiters, requests, NULL, count, message);
}

/* --- each: what is known -----------------------------------------------------------------------
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
  weir_waiting state;
  if (request->flags & WEIR_REQUEST_SETTLE) return false;
  weir_status status = begin_request(limiter, request, extra, &state, NULL);
  if (status == WEIR_OK) {
    weir_key key;
    weir_limiter_find(limiter, &state.claim.ask, &key);
    if (!weir_know(limiter, &state, &key, at, WEIR_LOCKED, NULL)) return false;
    weir_request_tell(request, &state.claim.verdict);
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
