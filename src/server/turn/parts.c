#include "turn/turn.h"

#include <string.h>

/* Whether the part is asked of the store, or could be. */
static bool is_decided(const weir_part *part) {
  return part->is_limited && !part->rate.is_unlimited;
}

weir_status weir_part_read(const weir_turn *turn, const weir_part *part, weir_decision *decision) {
  *decision = (weir_decision){.source = WEIR_SOURCE_LOCAL,
                              .cost = part->hits,
                              .retry_after_us = WEIR_NEVER,
                              .reset_after_us = WEIR_NOT_KNOWN};
  if (part->request == WEIR_NO_REQUEST) return WEIR_OK;
  const weir_request *request = &turn->asked[part->request].request;
  *decision = request->decision;
  if (turn->asked[part->request].is_of_set && request->status == WEIR_OK)
    decision->allowed = decision->allowed || decision->retry_after_us == 0;
  if (part->left_us > 0 && decision->reset_after_us > part->left_us)
    decision->reset_after_us = part->left_us;
  if (part->left_us > 0 && decision->retry_after_us > part->left_us)
    decision->retry_after_us = part->left_us;
  return request->status;
}

bool weir_part_is_over(const weir_turn *turn, const weir_part *part, weir_status status,
                       const weir_decision *decision) {
  bool shadow = part->shadow || turn->registry->config->shadow;
  return status == WEIR_OK && !decision->allowed && !shadow;
}

bool weir_part_returns(const weir_part *part) {
  return part->gives_back && part->limiter != NULL && is_decided(part);
}

bool weir_parts_are_expired(const weir_turn *turn, const weir_answer *answer) {
  const weir_part *parts = turn->parts + answer->is.parts.first;
  for (size_t i = 0; i < answer->is.parts.count; i++)
    if (parts[i].request != WEIR_NO_REQUEST && weir_turn_is_over(turn, parts[i].request))
      return true;
  return false;
}

/* --- giving back --------------------------------------------------------------------------------
 */

/* Whether all have to be one, so that nothing stays taken where the answer is a denial. */
static bool is_joined(const weir_domain *domain) {
  return domain->config->together || domain->config->algorithm == WEIR_CONFIG_PLACES;
}

static bool is_denied(const weir_turn *turn, const weir_answer *answer) {
  const weir_part *parts = turn->parts + answer->is.parts.first;
  size_t over = 0;
  size_t quotas = 0;
  size_t quotas_over = 0;
  if (answer->is.parts.not_given != WEIR_OK) return true;
  for (size_t i = 0; i < answer->is.parts.count; i++) {
    weir_decision decision;
    if (!is_decided(&parts[i]) || parts[i].gives_back) continue;
    weir_status status = weir_part_read(turn, &parts[i], &decision);
    if (status != WEIR_OK) return true;
    bool is_over = weir_part_is_over(turn, &parts[i], status, &decision);
    quotas += parts[i].quota;
    quotas_over += parts[i].quota && is_over;
    over += !parts[i].quota && is_over;
  }
  return over > 0 || (quotas > 0 && quotas == quotas_over);
}

/* Whether it was charged beside the set, or in vain with it, as all with quota_mode are over. */
static bool is_useless(const weir_turn *turn, const weir_answer *answer, const weir_part *part,
                       weir_decision *taken) {
  if (!is_decided(part) || part->request == WEIR_NO_REQUEST || part->hits == 0 ||
      part->gives_back || part->only_looks || weir_part_read(turn, part, taken) != WEIR_OK ||
      !taken->allowed)
    return false;
  return !turn->asked[part->request].is_of_set || turn->sets[answer->is.parts.set].is_charged;
}

bool weir_parts_may_return(const weir_turn *turn, const weir_answer *answer) {
  const weir_domain *domain = answer->is.parts.domain;
  const weir_part *parts = turn->parts + answer->is.parts.first;
  bool may_return = false;
  bool is_useful = true;
  if (domain == NULL || answer->is.parts.is_returned || answer->is.parts.is_cancelled ||
      weir_parts_are_expired(turn, answer))
    return false;
  for (size_t i = 0; i < answer->is.parts.count; i++) {
    weir_decision taken;
    may_return = may_return || weir_part_returns(&parts[i]);
    is_useful = is_useful && !is_useless(turn, answer, &parts[i], &taken);
  }
  return may_return || (!is_useful && is_joined(domain) && is_denied(turn, answer));
}

/* Gives back at most what counts, so that no count falls below 0. Where others give back at the same
 * time there is less than was seen: a second look says how much. */
static weir_status return_hits(const weir_turn *turn, const weir_part *asked, weir_decision *seen,
                               weir_message *why) {
  const char *key = turn->bytes.data + asked->key;
  for (int tries = 2;; tries--) {
    int64_t counted = asked->rate.requests - (seen->remaining > 0 ? seen->remaining : 0);
    int64_t hits = asked->hits < counted ? asked->hits : counted;
    weir_decision taken = {.allowed = true, .cost = hits, .at_us = seen->at_us};
    if (hits == 0) return WEIR_OK;
    weir_status status =
        weir_limiter_refund(asked->limiter, key, asked->key_length, hits, &taken, why);
    if (status == WEIR_OK && seen->remaining >= 0) seen->remaining += hits;
    if (status != WEIR_BAD_COST) return status;
    if (tries == 0) return WEIR_OK; /* each time others were faster: what they gave back is back */
    weir_decision look;
    status = weir_limiter_peek(asked->limiter, key, asked->key_length, 1, &look, why);
    if (status == WEIR_OK && weir_source_is_policy(look.source)) status = look.store_status;
    if (status != WEIR_OK) return status;
    seen->remaining = look.remaining;
    seen->at_us = look.at_us;
  }
}

/* Nobody knows what these hits were charged for, so they go off what counts now. It is no decision,
 * and not counted as one. */
static void return_part(weir_turn *turn, weir_answer *answer, const weir_part *part) {
  weir_request *request = &turn->asked[part->request].request;
  weir_message why = {""};
  weir_status given = request->status;
  if (given == WEIR_OK && weir_source_is_policy(request->decision.source))
    given = request->decision.store_status;
  bool held = answer->is.parts.domain->config->algorithm ==
              WEIR_CONFIG_PLACES; /* released before this look */
  if (given == WEIR_OK && !held) given = return_hits(turn, part, &request->decision, &why);
  if (given == WEIR_OK || answer->is.parts.not_given != WEIR_OK) return;
  answer->is.parts.not_given = given;
  size_t length = strlen(why.text);
  if (weir_bytes_room(&turn->bytes, length) == NULL) return; /* the status says it, too */
  answer->is.parts.why = turn->bytes.length;
  answer->is.parts.why_length = length;
  weir_bytes_add(&turn->bytes, why.text, length);
}

/* Gives back charges that others' denial made useless. Charges that cannot go back stay. */
static void give_back(weir_turn *turn, const weir_answer *answer) {
  weir_part *parts = turn->parts + answer->is.parts.first;
  for (size_t i = 0; i < answer->is.parts.count; i++) {
    weir_part *part = &parts[i];
    weir_decision taken;
    if (!is_useless(turn, answer, part, &taken)) continue;
    int64_t cost = part->hits;
    if (answer->is.parts.domain->config->algorithm == WEIR_CONFIG_PLACES)
      weir_turn_give_back(turn, part->request);
    else if (weir_limiter_refund(part->limiter, turn->bytes.data + part->key, part->key_length,
                                 cost, &taken, NULL) == WEIR_OK)
      part->returned = cost;
  }
}

void weir_parts_return(weir_turn *turn, weir_answer *answer) {
  const weir_part *parts = turn->parts + answer->is.parts.first;
  for (size_t i = 0; i < answer->is.parts.count; i++)
    if (weir_part_returns(&parts[i])) return_part(turn, answer, &parts[i]);
  if (is_joined(answer->is.parts.domain) && is_denied(turn, answer)) give_back(turn, answer);
  answer->is.parts.is_returned = true;
}
