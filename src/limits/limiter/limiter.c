/* A limiter's own life: made of rule text and options, and destroyed. */
#include "limiter/limiter.h"

#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "limiter/floor.h"
#include "limiter/lease.h"
#include "limiter/place.h"
#include "limiter/record.h"
#include "store/process.h"

/* A thousand limiters are a thousand customers: most have one rule, and room for as many takes more than all
 * else. */
static size_t bytes_of(size_t rules) {
  return offsetof(weir_limiter, stack.rules) + rules * sizeof(weir_rule);
}

weir_limiter *weir_limiter_allocate(size_t rules) {
  return calloc(1, bytes_of(rules));
}

/* What all keys of a rule begin with never changes. False: no memory. */
static bool prepare_prefixes(weir_limiter *limiter) {
  char texts[WEIR_RULES_MOST * WEIR_KEY_PREFIX_MOST];
  size_t used = 0;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    weir_prefix *prefix = &limiter->prefixes[i];
    prefix->length =
        weir_key_prefix(limiter->store->namespace_text, limiter->stack.rules[i].tag, texts + used);
    weir_key_hash(limiter->store->secret, texts + used, prefix->length, prefix->hash);
    used += prefix->length;
  }
  limiter->prefix_texts = malloc(used);
  if (limiter->prefix_texts == NULL) return false;
  memcpy(limiter->prefix_texts, texts, used);
  used = 0;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    limiter->prefixes[i].text = limiter->prefix_texts + used;
    used += limiter->prefixes[i].length;
  }
  return true;
}

size_t weir_limiter_rules(const weir_limiter *limiter) {
  return limiter->stack.count;
}

weir_status weir_limiter_read_rule(const weir_limiter *limiter, size_t index,
                                   weir_rule_info *info) {
  size_t size = info->size;
  if (index >= limiter->stack.count) return WEIR_BAD_ARGUMENT;
  const weir_rule *rule = &limiter->stack.rules[index];
  const weir_rule_info read = {
      .size = size,
      .text = limiter->texts[index],
      .algorithm = weir_rule_kind_name(rule->kind),
      .name = rule->name,
      .limit = rule->limit,
      .period_us = rule->period_us,
      .capacity = weir_rule_capacity(rule),
      .tag = rule->tag,
  };
  if (size > sizeof read) memset((char *)info + sizeof read, 0, size - sizeof read);
  memcpy(info, &read, size < sizeof read ? size : sizeof read);
  return WEIR_OK;
}

weir_status weir_limiter_read_class(const weir_limiter *limiter, size_t index,
                                    char name[WEIR_CLASS_NAME_BYTES]) {
  return weir_stack_read_class(&limiter->stack, index, name) ? WEIR_OK : WEIR_BAD_ARGUMENT;
}
_Static_assert(WEIR_CLASS_NAME_BYTES == WEIR_NAME_MOST + 1, "room for each name");

/* The least of all rules. */
static uint64_t least_share(const weir_limiter *limiter) {
  weir_pool pools[WEIR_RULES_MOST];
  uint32_t least = WEIR_SHARE_WHOLE;
  weir_table_read_pools(limiter->table, pools);
  for (size_t i = 0; i < limiter->stack.count; i++) {
    uint32_t share = weir_account_process_share(&pools[i], limiter->peers.count);
    if (pools[i].charges > 0 && share < least) least = share;
  }
  return pools[0].charges > 0 ? least : WEIR_SHARE_WHOLE / limiter->peers.count;
}

/* What the caller's structure has beyond ours is 0; what ours has beyond the caller's is left out.
 */
void weir_limiter_read_counts(const weir_limiter *limiter, weir_limiter_counts *counts) {
  size_t size = counts->size;
  weir_limiter_counts sum = {
      .size = size,
      .clock_steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed)};
  weir_counts_read(limiter->counts, &sum);
  weir_decided decided = weir_table_decided(limiter->table);
  uint64_t count = decided.denied + decided.allowed;
  sum.denied += decided.denied;
  sum.allowed += decided.allowed;
  sum.lease_used += decided.lease_used;
  *(limiter->leases ? &sum.by_local : &sum.by_store) += count;
  sum.statuses[WEIR_OK] += count;
  if (!limiter->leases) sum.round_trips += count;
  sum.share = least_share(limiter);
  if (limiter->places != NULL) sum.places_held = weir_places_held(limiter->places);
  if (limiter->leases)
    sum.lease_lost += (uint64_t)atomic_load_explicit(&limiter->leased.lost, memory_order_relaxed);
  if (size > sizeof sum) memset((char *)counts + sizeof sum, 0, size - sizeof sum);
  memcpy(counts, &sum, size < sizeof sum ? size : sizeof sum);
}

/* A store inside this process says how many keys it keeps. One key of the limiter's has several of
 * them there, and is worth remembering as long as the store may. */
static size_t keys_worth_remembering(const weir_limiter *limiter) {
  const weir_store *store = limiter->store;
  size_t keys =
      WEIR_BACKEND_HAS(store->backend, keys_most) ? store->backend->keys_most(store->handle) : 0;
  keys /= weir_machine_operations_most(&limiter->stack);
  if (keys < WEIR_MEMO_KEYS_DEFAULT) keys = WEIR_MEMO_KEYS_DEFAULT;
  return keys < WEIR_MEMO_KEYS_MOST ? keys : WEIR_MEMO_KEYS_MOST;
}

static void begin_leased(weir_memo_entry *entry, void *behind) {
  entry->leased = behind;
  entry->leased->entry = entry;
  entry->leased->stock = (weir_stock *)(entry->leased + 1);
  weir_memo_entry_mark(entry, WEIR_KNOWS, true);
}

static weir_parting let_go(void *of, weir_memo_entry *entry, bool last) {
  weir_limiter *limiter = of;
  const weir_stand_in *known = limiter->known;
  weir_parting parting = known->let_go != NULL ? known->let_go(limiter, entry, last) : WEIR_GOES;
  if (parting != WEIR_STAYS && entry->stand_ins & WEIR_DIVERTS)
    limiter->other->let_go(limiter, entry, last);
  return parting;
}

/* The lots stand behind the key's record. */
static void begin_leased_and_limited(weir_memo_entry *entry, void *behind) {
  begin_leased(entry, (weir_record *)behind + 1);
}

static weir_table *create_table(weir_limiter *limiter) {
  weir_table_owner owner = {.limiter = limiter, .let_go = let_go};
  bool reads = limiter->limits_us > 0;
  if (reads) owner.bytes = sizeof(weir_record);
  if (limiter->leases) {
    owner.bytes += weir_leased_bytes(&limiter->stack);
    owner.awake = true;
    owner.begin = reads ? begin_leased_and_limited : begin_leased;
    if (reads) owner.shard_bytes = weir_key_lease_bytes(&limiter->stack);
  }
  if (limiter->shared) owner.bytes += sizeof(weir_floor_used);
  return weir_table_create(limiter->memo_keys, weir_memo_bytes(&limiter->stack),
                           limiter->stack.count, &owner, limiter->store->secret);
}

/* No request is plain, as each names a tenant. A denial is told to the pool, so that none is repeated here. */
static void prepare_shared(weir_limiter *made) {
  made->plain_cost_most = 0;
  made->settings.local_denial = false;
}

/* Of a limiter that reads records: what costs more than the largest limit holds never fits, whatever the
 * record says. */
static bool widen(weir_limiter *limiter) {
  limiter->limited = true;
  limiter->limited_most = calloc(1, sizeof *limiter->limited_most);
  if (limiter->limited_most == NULL) return false;
  weir_stack_set_limit(&limiter->stack, limiter->stack.rules[limiter->steered].most,
                       limiter->limited_most);
  limiter->widest = limiter->limited_most;
  return true;
}

/* Rules that share a log count the same requests: one of them cannot be left out. */
static bool may_spare(const weir_stack *stack, size_t steered) {
  bool shares = false;
  for (size_t i = 0; i < stack->count; i++)
    shares = shares || (i != steered && weir_rule_takes_one(&stack->rules[i]));
  return steered < stack->count && !(shares && weir_rule_takes_one(&stack->rules[steered]));
}

/* What the rules say of all requests: what one may cost, and which go together. */
static void derive_from_rules(weir_limiter *made) {
  made->steered = weir_stack_steered(&made->stack);
  made->widest = &made->stack;
  if (made->steered < made->stack.count)
    made->limit_least = weir_rule_limit_least(&made->stack.rules[made->steered]);
  made->may_spare = may_spare(&made->stack, made->steered);
  made->capacity_least = weir_stack_least_capacity(&made->stack);
  made->group_most = made->stack.count_all ? WEIR_VALUE_MOST : made->capacity_least;
  made->plain_cost_most = WEIR_COST_MOST;
  made->hands_on = made->stack.class_count == 0;
  for (size_t i = 0; i < made->stack.count; i++) {
    bool one_by_one = weir_rule_takes_one(&made->stack.rules[i]);
    bool held = weir_rule_is_held(&made->stack.rules[i]);
    made->cost_most[i] = held ? 0 : one_by_one ? 1 : WEIR_COST_MOST;
    if (made->cost_most[i] < made->plain_cost_most) made->plain_cost_most = made->cost_most[i];
    made->shared = made->shared || weir_rule_is_shared(&made->stack.rules[i]);
    made->held = made->held || held;
    made->hands_on = made->hands_on && held;
    made->one_by_one = made->one_by_one || one_by_one;
  }
  if (made->shared) prepare_shared(made);
}

/* By which ways requests come to their answers: from lots, directly, or by the line; and what a thread of
 * ours does meanwhile. Lots and refills that there is no memory for are left out. */
static void choose_ways(weir_limiter *made) {
  bool immediate = made->settings.traits & WEIR_TRAIT_IMMEDIATE;
  made->leases = made->leases && made->stack.rules[0].lease_us > 0 && !made->held;
  made->direct = !made->leases && made->limits_us == 0 && !made->shared && immediate &&
                 made->settings.traits & WEIR_TRAIT_IDENTITY;
  made->refills = made->leases && !made->shared && !immediate;
  made->renews = (made->refills || made->held) && weir_renewer_init(&made->renewer);
  made->refills = made->refills && made->renews;
  if (made->leases) weir_lease_init(&made->lease, &made->stack, &made->settings);
  if (made->leases && !weir_leased_line_init(&made->leased, &made->lease)) made->leases = false;
  made->known = made->leases ? &weir_lease_stand_in : &weir_denial_stand_in;
  made->other = &weir_account_stand_in;
  made->bare_groups = made->known->wrap == NULL && made->limits_us == 0 && !made->shared;
}

weir_status weir_limiter_finish(weir_limiter *made, weir_message *message) {
  made->process = weir_process_number;
  derive_from_rules(made);
  bool prepared = prepare_prefixes(made);
  weir_limiter_guard_clock(made);
  choose_ways(made);
  if (made->memo_keys == 0) made->memo_keys = keys_worth_remembering(made);
  made->table = create_table(made);
  if (made->table != NULL) made->denials = weir_table_denials(made->table);
  bool widened = made->limits_us == 0 || widen(made);
  made->counts = weir_counts_create();
  if (pthread_mutex_init(&made->reserved_mutex, NULL) == 0 && prepared && widened &&
      made->table != NULL && made->counts != NULL && weir_limiter_warn_of_short_cells(made))
    return WEIR_OK;
  weir_limiter_destroy(made);
  return weir_no_memory(message);
}

/* In this order: what the options say decides how the rules are read, and both what the store must
 * be able to do. */
static weir_status read_and_check(weir_limiter *made, const char *rules,
                                  const weir_limiter_options *options, weir_message *message) {
  uint32_t processes;
  weir_status status =
      weir_limiter_configure(made, options, made->store->timeout_us, &processes, message);
  if (status != WEIR_OK) return status;
  made->text = strdup(rules);
  if (made->text == NULL) return weir_no_memory(message);
  status = weir_stack_parse(made->text, processes, &made->stack, message);
  if (status == WEIR_OK) status = weir_limiter_check_store(made, message);
  if (status == WEIR_OK) status = weir_limiter_check_limits(made, message);
  return status;
}

/* Others on the store learn of it last, once it could decide. */
weir_status weir_limiter_create(weir_store *store, const char *rules,
                                const weir_limiter_options *options, weir_limiter **limiter,
                                weir_message *message) {
  weir_status status;
  *limiter = NULL;
  if (store == NULL || rules == NULL) {
    weir_message_set(message, "%s is NULL", store == NULL ? "the store" : "the rule text");
    return WEIR_BAD_ARGUMENT;
  }
  status = weir_process_check(store->process, "the store", message);
  if (status != WEIR_OK) return status;
  weir_limiter *made = weir_limiter_allocate(WEIR_RULES_MOST);
  if (made == NULL) return weir_no_memory(message);
  made->store = store;
  status = read_and_check(made, rules, options, message);
  weir_limiter *fitted = NULL; /* nobody has seen it yet */
  if (status == WEIR_OK) fitted = realloc(made, bytes_of(made->stack.count));
  if (status == WEIR_OK && fitted == NULL) status = weir_no_memory(message);
  if (status != WEIR_OK) {
    free(made->text);
    free(made);
    return status;
  }
  made = fitted;
  status = weir_limiter_finish(made, message);
  if (status != WEIR_OK) return status;
  if (made->held && made->renews) made->places = weir_places_create(&made->renewer);
  if ((made->held && made->places == NULL) || !weir_limiter_enter_store(made) ||
      !weir_limiter_warn_of_short_leases(made) || !weir_limiter_warn_of_long_deadline(made)) {
    weir_limiter_destroy(made);
    return weir_no_memory(message);
  }
  *limiter = made;
  return WEIR_OK;
}

/* In a child of the process that created it, nothing here waits for a lock that a thread of the
 * parent may have held at the fork. */
void weir_limiter_destroy(weir_limiter *limiter) {
  if (limiter == NULL) return;
  bool in_child = weir_limiter_check_process(limiter, NULL) != WEIR_OK;
  if (limiter->renews && !in_child) weir_renewer_stop(&limiter->renewer);
  weir_places_destroy(limiter->places, in_child);
  if (limiter->renews && !in_child) weir_renewer_clean_up(&limiter->renewer);
  weir_limiter_leave_store(limiter);
  weir_limiter_destroy_local(limiter);
  if (pthread_mutex_trylock(&limiter->reserved_mutex) == 0) {
    pthread_mutex_unlock(&limiter->reserved_mutex);
    pthread_mutex_destroy(&limiter->reserved_mutex);
  }
  weir_idle_destroy(limiter->idle);
  weir_direct_clean_up(limiter);
  weir_table_destroy(limiter->table);
  if (limiter->leases) weir_leased_line_clean_up(&limiter->leased);
  weir_counts_destroy(limiter->counts);
  weir_limiter_clean_up_warnings(limiter);
  free(limiter->text);
  free(limiter->prefix_texts);
  free(limiter->limited_most);
  free(limiter);
}
