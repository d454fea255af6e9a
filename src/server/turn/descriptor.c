/* From descriptors to requests of the turn, and from decisions to codes.
 *
 * Each descriptor of a request becomes a part, which is kept in the turn until its answer: the limit
 * that was found for it, or that it brought, and a request to that limit. The answer is over limit
 * where one part is. Where the domain says `together`, parts that can be over alone are a set of the
 * turn (group.c), all charged or none; what else was charged has gone back by then: parts.c. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "registry/registry.h"
#include "turn/turn.h"

enum { PARTS_MOST = WEIR_ENVOY_DESCRIPTORS_MOST };
static const char no_memory[] = "the server is short of memory";

static bool refuse(weir_envoy_refusal *refusal, weir_envoy_failure failure, const char *why) {
  refusal->failure = failure;
  snprintf(refusal->why.text, sizeof refusal->why.text, "%s", why);
  return false;
}

/* --- asking -------------------------------------------------------------------------------------
 */

/* The limit that a request brings. */
static bool find_override(weir_turn *turn, const weir_domain *domain,
                          const weir_envoy_descriptor *descriptor, weir_part *found,
                          weir_envoy_refusal *refusal) {
  found->is_limited = true;
  found->rate = (weir_config_rate){.requests = descriptor->requests, .unit = descriptor->unit};
  if (descriptor->requests == 0) return true;
  turn->uses_overrides = true;
  weir_status status =
      weir_throttle_find(weir_domain_throttle(domain, descriptor->unit), turn->loop, 0,
                         descriptor->requests, weir_config_unit_s(domain->config, descriptor->unit),
                         turn->now_us, &found->limiter, &refusal->why);
  refusal->failure = weir_status_classify(status) == WEIR_CLASS_CALLER ? WEIR_ENVOY_BAD_REQUEST
                                                                       : WEIR_ENVOY_UNAVAILABLE;
  return status == WEIR_OK;
}

/* A key that is too long is over its limit, whichever that is. Clients write keys, and Envoy lets a request
 * pass that was answered with an error. */
static bool deny_too_long(weir_part *found) {
  found->is_limited = true;
  found->rate = (weir_config_rate){.unit = WEIR_CONFIG_SECOND};
  found->limit = WEIR_SERVED_NO_LIMIT;
  found->limiter = NULL;
  found->shadow = found->quota = false;
  return true;
}

static size_t find_claim(const weir_config_domain *config, const weir_entry *entry) {
  for (size_t i = 0; i < WEIR_CONFIG_CLAIMS; i++) {
    size_t length = strlen(config->said_keys[i]);
    if (entry->key_length == length && memcmp(entry->key, config->said_keys[i], length) == 0)
      return i;
  }
  return WEIR_CONFIG_CLAIMS;
}

static bool read_claim(size_t which, const weir_entry *entry, weir_order_says *says) {
  weir_order_amount amount;
  weir_message why;
  switch (1 << which) {
    case WEIR_CONFIG_CLASS:
      return weir_order_read_class(says, entry->value, entry->value_length, &why);
    case WEIR_CONFIG_LIMIT:
      return weir_order_read_amount(entry->value, entry->value_length, &amount) &&
             weir_order_read_limit(says, &amount, &why);
    default:
      return weir_order_read_tenant(says, entry->value, entry->value_length, &why);
  }
}

/* Who names an entry so is Envoy's configuration: what neither listener nor domain knows is an error. */
static bool may_claim(unsigned claims, const weir_domain *domain,
                      const weir_config_listener *listener, weir_envoy_refusal *refusal) {
  const weir_config_domain *config = domain->config;
  refusal->failure = WEIR_ENVOY_BAD_REQUEST;
  if (!weir_order_may_say(claims, listener, &refusal->why)) return false;
  if (claims & WEIR_CONFIG_CLASS && config->classes == NULL)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST,
                  "class: the domain has none: classes: names some");
  if (claims & WEIR_CONFIG_LIMIT && config->most == 0)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST, "limit: the domain takes none: most: allows it");
  if (claims & WEIR_CONFIG_TENANT)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST, "tenant: no domain is shared by tenants");
  return true;
}

/* Takes the entries that say something of the request out of its descriptor: they are no part of its key.
 * *is_wrong: what stands there, which may be a client's, is none. */
static bool take_claims(weir_envoy_request *request, weir_envoy_descriptor *descriptor,
                        const weir_domain *domain, const weir_config_listener *listener,
                        weir_order_says *says, bool *is_wrong, weir_envoy_refusal *refusal) {
  size_t first = (size_t)(descriptor->entries - request->entries);
  unsigned claims = 0;
  size_t kept = 0;
  for (size_t i = 0; domain != NULL && i < descriptor->count; i++) {
    const weir_entry *entry = &descriptor->entries[i];
    size_t which = find_claim(domain->config, entry);
    if (which == WEIR_CONFIG_CLAIMS) {
      request->entries[first + kept++] = *entry;
      continue;
    }
    *is_wrong |= (claims >> which & 1) || !read_claim(which, entry, says);
    claims |= 1U << which;
  }
  if (claims == 0) return true;
  descriptor->count = kept;
  return may_claim(claims, domain, listener, refusal);
}

/* The date stands in the key where the domain says so. */
static bool add_date(weir_turn *turn, const weir_domain *domain, size_t most, weir_part *found) {
  if (!weir_config_is_dated(domain->config, found->rate.unit)) return true;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  weir_calendar date = weir_calendar_at(found->rate.unit, now.tv_sec);
  if (date.length > most - found->key_length) return deny_too_long(found);
  weir_bytes_add(&turn->bytes, date.text, date.length);
  found->key_length += date.length;
  found->left_us = (date.end_s - now.tv_sec) * 1000000 - now.tv_nsec / 1000;
  return true;
}

/* Finds the limit of a descriptor, and the key that it counts under. */
static bool find(weir_turn *turn, const weir_domain *domain,
                 const weir_envoy_descriptor *descriptor, weir_part *found,
                 weir_envoy_refusal *refusal) {
  size_t most = (size_t)turn->registry->config->limits.key_bytes;
  const weir_descriptor *node = NULL;
  *found = (weir_part){.limit = WEIR_SERVED_NO_LIMIT,
                       .request = WEIR_NO_REQUEST,
                       .extra = WEIR_NO_EXTRA,
                       .key = turn->bytes.length,
                       .hits = descriptor->hits,
                       .gives_back = descriptor->gives_back && descriptor->hits > 0};
  char *room = weir_bytes_room(&turn->bytes, most);
  if (room == NULL) return refuse(refusal, WEIR_ENVOY_UNAVAILABLE, "the server is short of memory");

  /* The key is written in place, of what the domain's tree or the request itself limits. */
  size_t length = 0;
  bool overrides = descriptor->has_limit && domain != NULL;
  for (size_t i = 0; i < descriptor->count; i++)
    length += descriptor->entries[i].key_length + descriptor->entries[i].value_length;
  bool fits = length <= most;
  if (fits && overrides)
    found->key_length =
        weir_domain_write_key(domain, descriptor->entries, descriptor->count, room, most);
  else if (fits && domain != NULL)
    node = weir_domain_find(domain, descriptor->entries, descriptor->count, room, most,
                            &found->key_length);
  if (domain != NULL && (!fits || found->key_length > most)) {
    found->key_length = 0;
    return deny_too_long(found);
  }
  turn->bytes.length += found->key_length;

  if (overrides) {
    if (domain->config->algorithm == WEIR_CONFIG_PLACES)
      return refuse(refusal, WEIR_ENVOY_BAD_REQUEST,
                    "a domain of in-flight has the limits of its files alone");
    if (!find_override(turn, domain, descriptor, found, refusal)) return false;
  } else if (node == NULL) {
    weir_serve_count(&turn->counts->unmatched, 1);
  } else {
    found->is_limited = true;
    found->rate = *node->config->rate;
    found->limit = node->limit;
    found->limiter = node->limiter;
    found->shadow = node->config->shadow;
    found->quota = node->config->quota;
    found->detail = weir_domain_detail(domain, node, descriptor->entries, descriptor->count);
  }
  return found->limiter == NULL || add_date(turn, domain, most, found);
}

/* The same of what a descriptor says of the request. A class that is none is over the limit, as a key that is too long.
 * What goes back goes off the count of all. */
static bool find_said(weir_turn *turn, const weir_domain *domain,
                      const weir_config_listener *listener, weir_envoy_request *request,
                      size_t index, weir_part *found, weir_envoy_refusal *refusal) {
  weir_envoy_descriptor *descriptor = &request->descriptors[index];
  weir_order_says says = {.limit = 0};
  weir_status status = WEIR_OK;
  bool is_wrong = false;
  if (!take_claims(request, descriptor, domain, listener, &says, &is_wrong, refusal) ||
      !find(turn, domain, descriptor, found, refusal))
    return false;
  if (weir_order_claims(&says) != 0 && found->limiter != NULL && !found->gives_back)
    status = weir_turn_add_extra(turn, &says, found->limiter, &found->extra, &refusal->why);
  if (status == WEIR_NO_MEMORY) return refuse(refusal, WEIR_ENVOY_UNAVAILABLE, no_memory);
  if ((is_wrong && !found->gives_back) || status != WEIR_OK) found->limiter = NULL;
  return true;
}

/* Unlimited ones stay, and one that is replaced still replaces. */
static void leave_out_replaced(weir_part *parts, size_t count) {
  bool goes[PARTS_MOST] = {false};
  for (size_t i = 0; i < count; i++) {
    const weir_config_rate *rate = &parts[i].rate;
    for (size_t j = 0; j < rate->replace_count; j++)
      for (size_t k = 0; k < count; k++) {
        const weir_config_rate *other = &parts[k].rate;
        if (other->name != NULL && strcmp(rate->replaces[j], other->name) == 0)
          goes[k] = !other->is_unlimited;
      }
  }
  for (size_t i = 0; i < count; i++)
    parts[i].is_limited &= !goes[i];
}

/* Why hits cannot go back to a limit; NULL: they can. The time of their charge is not known here. A
 * fixed window or a quota has one count at a time, so the time of now does; others need that of the
 * charge. */
static const char *why_kept(const weir_domain *domain) {
  const weir_config_domain *config = domain->config;
  if (config->algorithm == WEIR_CONFIG_PLACES) return NULL; /* those that are held here */
  if (config->counts_all) return "negative hits: count: all of the domain keeps what is charged";
  if (config->algorithm != WEIR_CONFIG_FIXED && config->algorithm != WEIR_CONFIG_QUOTA)
    return "negative hits: a fixed-window and a quota accept them";
  return NULL;
}

/* How a part is asked: by itself; or, where the domain says `together`, as one of the set, or behind it,
 * as what is in shadow mode is never over; or, where there is no set as another is over, as one of it would be looked
 * at. */
typedef enum part_role { ROLE_NONE, ROLE_ALONE, ROLE_LOOKED, ROLE_OF_SET, ROLE_BEHIND } part_role;

static bool can_be_over(const weir_part *part) {
  return part->is_limited && !part->rate.is_unlimited && !part->gives_back && !part->shadow;
}

static part_role role_of(const weir_part *part, bool shares_quota) {
  if (!part->is_limited || part->limiter == NULL) return ROLE_NONE;
  if (part->hits == 0 || part->gives_back || shares_quota) return ROLE_ALONE;
  return part->shadow ? ROLE_BEHIND : ROLE_OF_SET;
}

/* Where several have quota_mode none is over alone, so they are not of the set. Where one is over
 * whatever its store says, the set is only looked at. */
static void plan_set(const weir_domain *domain, weir_part *parts, size_t count,
                     part_role roles[PARTS_MOST]) {
  size_t quotas = 0, members = 0, behind = 0;
  bool together = domain != NULL && domain->config->together, is_over = false;
  for (size_t i = 0; i < count; i++)
    quotas += parts[i].quota && can_be_over(&parts[i]);
  for (size_t i = 0; i < count; i++) {
    const weir_part *part = &parts[i];
    bool shares_quota = part->quota && quotas > 1;
    roles[i] = role_of(part, shares_quota);
    members += roles[i] == ROLE_OF_SET;
    behind += roles[i] == ROLE_BEHIND;
    is_over |= can_be_over(part) && part->limiter == NULL && !shares_quota;
  }
  bool is_set = together && domain->config->algorithm != WEIR_CONFIG_PLACES && members > 0 &&
                members + behind > 1 && !is_over;
  bool looks = together && is_over;
  for (size_t i = 0; i < count && !is_set; i++) {
    if (roles[i] == ROLE_NONE || roles[i] == ROLE_ALONE) continue;
    roles[i] = looks && roles[i] == ROLE_OF_SET ? ROLE_LOOKED : ROLE_ALONE;
    parts[i].only_looks = looks;
  }
}

static bool says_the_same(const weir_turn *turn, const weir_part *one, const weir_part *other) {
  if (one->extra == WEIR_NO_EXTRA || other->extra == WEIR_NO_EXTRA)
    return one->extra == other->extra;
  const weir_order_says *says = &turn->extras[one->extra].says;
  const weir_order_says *said = &turn->extras[other->extra].says;
  return says->limit == said->limit && says->class_length == said->class_length &&
         memcmp(says->class_name, said->class_name, says->class_length) == 0;
}

/* Parts that count in the same place are one request of the set, or one look, of what all of them cost. One that says
 * something else of itself is asked by itself. */
static bool joins(weir_turn *turn, weir_part *parts, part_role *roles, size_t index) {
  weir_part *part = &parts[index];
  for (size_t i = 0; i < index; i++) {
    const weir_part *other = &parts[i];
    if (roles[i] != roles[index] || other->limiter != part->limiter ||
        other->key_length != part->key_length ||
        memcmp(turn->bytes.data + other->key, turn->bytes.data + part->key, part->key_length) != 0)
      continue;
    if (!says_the_same(turn, part, other)) {
      roles[index] = ROLE_ALONE;
      return true;
    }
    int64_t *cost = &turn->asked[other->request].request.cost;
    *cost = *cost < WEIR_ORDER_COST_MOST - part->hits ? *cost + part->hits : WEIR_ORDER_COST_MOST;
    part->request = other->request;
    return true;
  }
  return false;
}

/* A part's request: it is asked with the others of the turn. False: no memory, or no room for a place. */
static bool add_request(weir_turn *turn, const weir_domain *domain, int64_t until_us,
                        weir_part *part, weir_message *why) {
  bool is_place = domain->config->algorithm == WEIR_CONFIG_PLACES;
  bool has_hits = part->hits > 0 && !part->gives_back;
  bool peeks = !has_hits || part->only_looks;
  part->request = weir_turn_add_request(turn, (weir_turn_key){part->key, part->key_length},
                                        has_hits ? part->hits : 1, peeks ? WEIR_REQUEST_PEEK : 0U,
                                        part->limiter, domain->config->store);
  if (part->request == WEIR_NO_REQUEST) return false;
  turn->asked[part->request].extra = part->extra;
  weir_turn_set_end(turn, part->request, until_us);
  if (is_place && part->gives_back) return weir_turn_release(turn, part->request, part->hits);
  if (is_place && !peeks)
    return weir_turn_acquire(turn, part->request, turn->registry->config->places.for_us, why);
  return true;
}

/* The set, which is there, and what stands behind it; where too many wait, all of it is shed. */
static bool add_set(weir_turn *turn, const weir_part *parts, const part_role *roles, size_t count,
                    size_t *set, weir_envoy_refusal *refusal) {
  size_t first = SIZE_MAX, members = 0, behind = 0;
  for (size_t i = 0; i < count; i++) {
    if (roles[i] < ROLE_OF_SET || parts[i].request == WEIR_NO_REQUEST) continue;
    if (parts[i].request < first) first = parts[i].request;
    behind += roles[i] == ROLE_BEHIND;
  }
  if (first == SIZE_MAX) return true;
  members = turn->asked_count - first - behind;
  if (members > WEIR_ALL_MOST)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST,
                  "together: at most 16 descriptors are charged as one");
  bool is_whole = true;
  for (size_t i = first; i < turn->asked_count; i++)
    is_whole &= turn->asked[i].limiter != NULL;
  for (size_t i = first; i < turn->asked_count && !is_whole; i++)
    weir_turn_shed(turn, &turn->asked[i]);
  *set = weir_turn_add_set(turn, members, behind, true);
  return *set != WEIR_NO_SET || refuse(refusal, WEIR_ENVOY_UNAVAILABLE, no_memory);
}
_Static_assert((int)WEIR_ALL_MOST == 16, "as add_set() says");

/* The requests of all parts; those of the set stand side by side. */
static bool add_requests(weir_turn *turn, const weir_domain *domain, int64_t until_us,
                         weir_part *parts, size_t count, size_t *set, weir_envoy_refusal *refusal) {
  static const part_role order[] = {ROLE_OF_SET, ROLE_BEHIND, ROLE_LOOKED, ROLE_ALONE};
  part_role roles[PARTS_MOST];
  plan_set(domain, parts, count, roles);
  for (size_t each = 0; each < sizeof order / sizeof *order; each++) {
    if (order[each] == ROLE_LOOKED && !add_set(turn, parts, roles, count, set, refusal))
      return false;
    for (size_t i = 0; i < count; i++) {
      bool may_join = order[each] == ROLE_OF_SET || order[each] == ROLE_LOOKED;
      if (roles[i] != order[each] || (may_join && joins(turn, parts, roles, i))) continue;
      refuse(refusal, WEIR_ENVOY_UNAVAILABLE, no_memory);
      if (!add_request(turn, domain, until_us, &parts[i], &refusal->why)) return false;
      if (roles[i] == ROLE_ALONE && *set != WEIR_NO_SET) turn->sets[*set].has_mates = true;
    }
  }
  return true;
}

bool weir_envoy_add(weir_turn *turn, weir_envoy_request *request,
                    const weir_config_listener *listener, unsigned note, int64_t until_us,
                    weir_envoy_added *added, weir_envoy_refusal *refusal) {
  const weir_descriptors *descriptors = turn->registry->descriptors;
  const weir_domain *domain =
      weir_descriptors_find(descriptors, request->domain, request->domain_length);
  if (descriptors->count == 0)
    return refuse(refusal, WEIR_ENVOY_NO_FILES,
                  "there are no descriptor files: envoy.files names them");
  weir_part *parts = weir_turn_part_room(turn, request->count);
  if (parts == NULL) return refuse(refusal, WEIR_ENVOY_UNAVAILABLE, no_memory);
  for (size_t i = 0; i < request->count; i++)
    if (!find_said(turn, domain, listener, request, i, &parts[i], refusal)) return false;
  leave_out_replaced(parts, request->count);

  /* Hits go back in a round trip each, so few may, and only where they can. To a limit of 0 nothing is ever
   * charged. */
  size_t returns = 0;
  for (size_t i = 0; i < request->count; i++) {
    if (!weir_part_returns(&parts[i])) continue;
    const char *why = why_kept(domain);
    if (why != NULL) return refuse(refusal, WEIR_ENVOY_BAD_REQUEST, why);
    returns++;
  }
  if (returns > WEIR_ENVOY_RETURNS_MOST)
    return refuse(refusal, WEIR_ENVOY_BAD_REQUEST,
                  "negative hits: at most 8 descriptors have them");

  size_t set = WEIR_NO_SET;
  size_t first = turn->asked_count;
  bool is_added = add_requests(turn, domain, until_us, parts, request->count, &set, refusal);
  uint32_t answer =
      is_added ? weir_turn_add_parts(turn, request->count, domain, note) : WEIR_NO_ANSWER;
  if (answer == WEIR_NO_ANSWER) {
    weir_turn_leave_out(turn, first);
    return is_added ? refuse(refusal, WEIR_ENVOY_UNAVAILABLE, no_memory) : false;
  }
  turn->answers[answer].is.parts.set = set;
  turn->answers[answer].asked = first;
  turn->answers[answer].asked_count = turn->asked_count - first;

  *added = (weir_envoy_added){.answer = answer, .is_last = returns > 0 || set != WEIR_NO_SET};
  return true;
}

/* --- answering ----------------------------------------------------------------------------------
 */

/* How a request of one turn came out. */
typedef struct outcome {
  const weir_turn *turn;
  const weir_answer *slot;
  const weir_domain *domain;
  weir_served_protocol protocol;
  const weir_part *parts;
  weir_decision decisions[PARTS_MOST];
  weir_envoy_answer *answer;
  weir_status status; /* of the first part that has no decision, */
  weir_message why;   /* or of what could not go back; else empty */
  size_t over, quotas, quotas_over;
} outcome;

static void count(weir_served *served, const outcome *made, size_t index, weir_status status,
                  bool is_shadowed) {
  char name[WEIR_CONFIG_NAME_MOST + 1];
  weir_serve_counts *counts = &served->counts;
  const weir_part *asked = &made->parts[index];
  weir_decision answered = made->decisions[index];
  weir_served_name_domain(made->domain, name);
  const weir_reply reply = {.status = status,
                            .why = weir_status_text(status),
                            .decision = status == WEIR_OK ? &answered : NULL,
                            .of.limiter = asked->limiter,
                            .of.name = name,
                            .of.key = made->turn->bytes.data + asked->key,
                            .of.key_length = asked->key_length,
                            .of.id = made->turn->bytes.data + made->slot->id,
                            .of.id_length = made->slot->id_length,
                            .is_shadowed = is_shadowed,
                            .retry_after_us = answered.retry_after_us};
  if (is_shadowed) answered.allowed = true;
  weir_serve_count(status != WEIR_OK  ? &counts->none
                   : answered.allowed ? &counts->allowed
                                      : &counts->denied,
                   1);
  if (is_shadowed) weir_serve_count(&counts->shadow_denied, 1);
  int64_t used_up = asked->rate.requests * made->domain->config->near_percent / 100;
  const weir_served_part part = {.domain = made->domain,
                                 .limit = asked->limit,
                                 .detail = asked->detail,
                                 .hits = asked->hits,
                                 .is_near = answered.allowed && asked->hits > 0 &&
                                            answered.remaining >= 0 &&
                                            answered.remaining < asked->rate.requests - used_up};
  weir_served_note_part(served, &part, &reply, made->protocol, made->turn->now_us);
}

/* The limit is that of the request's class, or its own, where it said one. */
static void describe(const weir_part *asked, const weir_decision *decision,
                     weir_envoy_status *status) {
  bool has_own = asked->extra != WEIR_NO_EXTRA && decision->limit > 0;
  status->has_limit = true;
  status->requests = has_own ? decision->limit : asked->rate.requests;
  status->unit = asked->rate.unit;
  status->name = asked->rate.name;
  status->remaining = decision->remaining;
  status->reset_after_us = decision->reset_after_us;
}

static void settle(weir_served *served, outcome *made, size_t index) {
  const weir_part *asked = &made->parts[index];
  weir_decision *decision = &made->decisions[index];
  weir_envoy_status *status = &made->answer->statuses[index];
  *status = (weir_envoy_status){.remaining = WEIR_NOT_KNOWN, .reset_after_us = WEIR_NOT_KNOWN};
  if (!asked->is_limited) return;
  if (asked->rate.is_unlimited) {
    status->remaining = UINT32_MAX;
    return;
  }
  weir_status found = weir_part_read(made->turn, asked, decision);
  if (asked->gives_back) {
    describe(asked, decision, status);
    return;
  }
  bool over = weir_part_is_over(made->turn, asked, found, decision);
  bool denied = found == WEIR_OK && !decision->allowed;
  count(served, made, index, found, denied && !over);
  if (found != WEIR_OK && made->status == WEIR_OK) made->status = found;
  if (found != WEIR_OK) return;
  describe(asked, decision, status);
  if (status->remaining >= 0) status->remaining += asked->returned;
  status->is_over = over;
  made->quotas += asked->quota;
  made->quotas_over += asked->quota && status->is_over;
  made->over += !asked->quota && status->is_over;
}

/* Those of draft-03 have the names that the domain gives them. */
static void rename_fields(const weir_config_domain *domain, weir_envoy_answer *answer) {
  const struct {
    const char *from, *to;
  } names[] = {{"X-RateLimit-Limit", domain->limit_field},
               {"X-RateLimit-Remaining", domain->remaining_field},
               {"X-RateLimit-Reset", domain->reset_field}};
  for (size_t i = 0; i < answer->field_count; i++)
    for (size_t j = 0; j < sizeof names / sizeof *names; j++)
      if (names[j].to != NULL && strcmp(answer->fields[i].name, names[j].from) == 0) {
        answer->fields[i].name = names[j].to;
        break;
      }
}

/* Fields tell of one part: one that is over, else that with the least left. */
static void add_fields(const outcome *made) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  weir_envoy_answer *answer = made->answer;
  const weir_envoy_status *statuses = answer->statuses;
  size_t told = answer->count;
  answer->field_count = 0;
  for (size_t i = 0; i < answer->count; i++) {
    if (made->parts[i].request == WEIR_NO_REQUEST || made->parts[i].gives_back ||
        statuses[i].remaining < 0)
      continue;
    if (told == answer->count || (statuses[i].is_over && !statuses[told].is_over) ||
        (statuses[i].is_over == statuses[told].is_over &&
         statuses[i].remaining < statuses[told].remaining))
      told = i;
  }
  if (told == answer->count) return;
  const weir_config_domain *domain = made->domain->config;
  if (domain->headers == WEIR_CONFIG_HEADERS_OFF) return;

  /* A name of fields has fewer characters than one of a descriptor file. */
  char name[WEIR_HTTP_NAME_MOST + 1];
  const weir_part *part = &made->parts[told];
  const char *text = part->rate.name != NULL ? part->rate.name : domain->name;
  snprintf(name, sizeof name, "%s", text[0] != '\0' ? text : "_");
  for (char *at = name; *at != '\0'; at++)
    if (strchr(accepted, *at) == NULL) *at = '_';

  weir_decision decision = made->decisions[told];
  unsigned style =
      domain->headers == WEIR_CONFIG_HEADERS_DRAFT_03 ? WEIR_HTTP_X_RATELIMIT : WEIR_HTTP_DRAFT_10;
  if (!answer->is_over) decision.allowed = true;
  if (weir_http_write_fields(part->limiter, name, &decision, style, answer->fields,
                             &answer->field_count, NULL) != WEIR_OK)
    answer->field_count = 0;
  rename_fields(domain, answer);
}

bool weir_envoy_reply(const weir_turn *turn, weir_served *served, const weir_answer *slot,
                      weir_served_protocol protocol, weir_envoy_answer *answer,
                      weir_envoy_refusal *refusal) {
  outcome made = {.turn = turn,
                  .slot = slot,
                  .domain = slot->is.parts.domain,
                  .protocol = protocol,
                  .parts = turn->parts + slot->is.parts.first,
                  .answer = answer};
  answer->count = slot->is.parts.count;

  /* Before any is counted. */
  if (weir_parts_are_expired(turn, slot)) {
    weir_serve_count(&served->counts.expired, 1);
    return refuse(refusal, WEIR_ENVOY_EXPIRED, "the time for it was over before it was decided");
  }

  if (slot->is.parts.not_given != WEIR_OK) {
    made.status = slot->is.parts.not_given;
    snprintf(made.why.text, sizeof made.why.text, "%.*s", (int)slot->is.parts.why_length,
             turn->bytes.data + slot->is.parts.why);
  }
  for (size_t i = 0; i < answer->count; i++)
    settle(served, &made, i);
  answer->is_over = made.over > 0 || (made.quotas > 0 && made.quotas == made.quotas_over);
  add_fields(&made);
  if (made.status == WEIR_OK) return true;
  bool keeps = weir_status_classify(made.status) == WEIR_CLASS_CALLER && made.why.text[0] != '\0';
  refusal->failure = keeps ? WEIR_ENVOY_BAD_REQUEST : WEIR_ENVOY_UNAVAILABLE;
  snprintf(refusal->why.text, sizeof refusal->why.text, "%s: %.200s", weir_status_name(made.status),
           keeps ? made.why.text : weir_status_text(made.status));
  return false;
}
