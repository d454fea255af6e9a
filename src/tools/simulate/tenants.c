/* Each rule divides its limit by its own machine, and by the ways that it is held against. */
#include "simulate/tenants.h"

#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "algorithm/shared.h"
#include "array.h"
#include "wide.h"

/* --- a window of the last N cells, with the one that has begun ---------------------------------- */

typedef struct weir_cell_window {
  int64_t last; /* cell */
  int64_t sum;
  int64_t counts[WEIR_SHARED_CELLS_MOST]; /* of cell c at c modulo N */
} weir_cell_window;

static void move_on(weir_cell_window *window, int cells, int64_t cell) {
  int64_t from = window->last < cell - cells ? cell - cells : window->last;
  for (int64_t i = from + 1; i <= cell; i++) {
    window->sum -= window->counts[i % cells];
    window->counts[i % cells] = 0;
  }
  window->last = cell;
}

static bool take(weir_cell_window *window, int cells, int64_t cell, int64_t cost, int64_t limit) {
  move_on(window, cells, cell);
  if (cost > limit - window->sum) return false;
  window->sum += cost;
  window->counts[cell % cells] += cost;
  return true;
}

/* --- a pool under one rule ---------------------------------------------------------------------- */

enum { LONG_PAST = -1000 /* of an epoch */ };

/* Who asked in the cell that is not over. */
typedef struct asking {
  uint32_t tenant;
  double weight;
  double each; /* what it asked, for a weight of 1 */
} asking;

typedef struct weir_pool_state {
  weir_slots places[WEIR_PLACES];
  weir_memo *memo; /* of the process, for all tenants */
  weir_stamps admitted;
  weir_cell_window first_come, others_split;
  int64_t cell, epoch;
  int64_t seen, seen_before; /* of others=, in this epoch and in the one before */
  asking *asking;
  size_t count, room;
} weir_pool_state;

static bool is_other(const weir_rule *rule, const weir_tenant_share *share) {
  return share->weight == 0 && rule->others > 0;
}

static int compare_asking(const void *a, const void *b) {
  const asking *one = a, *other = b;
  if (one->each != other->each) return one->each < other->each ? -1 : 1;
  return one->tenant < other->tenant ? -1 : one->tenant > other->tenant;
}

/* Of a tenant a cell is over. Within its floor it asked for that much at the most, however often it did. */
static void close_share(weir_division *division, weir_tenant_share *share) {
  int64_t within = share->asked_in_cell < share->floor ? share->asked_in_cell : share->floor;
  division->floor_asked += within;
  for (int way = 0; way < WEIR_WAYS; way++) {
    weir_way_sum *sum = &share->ways[way];
    int64_t lacking = within - sum->admitted_in_cell;
    if (lacking > sum->denied_in_cell) lacking = sum->denied_in_cell;
    if (lacking > 0) sum->floor_denied += lacking;
    sum->admitted_in_cell = sum->denied_in_cell = 0;
  }
  share->asked_in_cell = 0;
}

/* Weighs all that asked in a cell. The sum of their weights. */
static double weigh(const weir_division *division, weir_pool_state *pool) {
  const weir_rule *rule = &division->driver.stack.rules[0];
  double sum = 0, others = 0;
  for (size_t i = 0; i < pool->count; i++)
    others += is_other(rule, &division->shares[pool->asking[i].tenant]);
  for (size_t i = 0; i < pool->count; i++) {
    asking *one = &pool->asking[i];
    const weir_tenant_share *share = &division->shares[one->tenant];
    one->weight = share->weight > 0 ? (double)share->weight : 1;
    if (is_other(rule, share)) one->weight = (double)rule->others / others;
    one->each = (double)share->asked_in_cell / one->weight;
    sum += one->weight;
  }
  return sum;
}

/* A cell is over: fills it level by level, and begins anew. */
static void close_cell(weir_division *division, weir_pool_state *pool) {
  const weir_rule *rule = &division->driver.stack.rules[0];
  double left = (double)rule->limit / rule->cells, weights = weigh(division, pool);
  if (pool->count > 0) qsort(pool->asking, pool->count, sizeof *pool->asking, compare_asking);
  for (size_t i = 0; i < pool->count; i++) {
    weir_tenant_share *share = &division->shares[pool->asking[i].tenant];
    double weight = pool->asking[i].weight, level = left / weights;
    double got = pool->asking[i].each < level ? (double)share->asked_in_cell : level * weight;
    share->fair += got;
    left -= got;
    weights -= weight;
    close_share(division, share);
  }
  pool->count = 0;
}

/* How many of others= were there in the epoch before is counted here, as the process may know it late. Who
 * was not has no floor that is promised. */
static int64_t floor_of(const weir_rule *rule, weir_pool_state *pool, weir_tenant_share *share) {
  if (!is_other(rule, share)) return weir_rule_floor(rule, share->weight);
  if (share->epoch != pool->epoch) {
    share->was_seen = share->epoch == pool->epoch - 1;
    share->epoch = pool->epoch;
    pool->seen++;
  }
  return share->was_seen ? weir_other_floor(rule, pool->seen_before) : 0;
}

/* The pool is in this cell, and the tenant among those that ask there. False: not enough memory. */
static bool enter_cell(weir_division *division, weir_pool_state *pool, int64_t cell,
                       uint32_t tenant, int64_t cost) {
  weir_tenant_share *share = &division->shares[tenant];
  int64_t epoch = cell / WEIR_EPOCH_CELLS;
  if (cell != pool->cell) close_cell(division, pool);
  if (epoch != pool->epoch) {
    pool->seen_before = epoch == pool->epoch + 1 ? pool->seen : 0;
    pool->seen = 0;
  }
  pool->cell = cell;
  pool->epoch = epoch;
  if (share->asked_in_cell == 0) {
    if (!weir_array_grow(&pool->asking, &pool->room, pool->count + 1, sizeof *pool->asking))
      return false;
    pool->asking[pool->count++].tenant = tenant;
    share->floor = floor_of(&division->driver.stack.rules[0], pool, share);
    share->floors += share->floor;
    share->cells++;
  }
  share->asked_in_cell += cost;
  return true;
}

/* --- one request -------------------------------------------------------------------------------- */

static void note(weir_tenant_share *share, weir_way way, int64_t cost, bool admitted) {
  weir_way_sum *sum = &share->ways[way];
  if (admitted) {
    sum->admitted += cost;
    sum->admitted_in_cell += cost;
  } else if (sum->admitted_in_cell + cost <= share->floor) {
    sum->denied_in_cell += cost;
  }
}

static weir_status decide(weir_division *division, weir_pool_state *pool, uint32_t tenant,
                          int64_t now_us, const weir_tenant_request *asked, weir_message *message) {
  weir_tenant_share *share = &division->shares[tenant];
  const weir_rule *rule = &division->driver.stack.rules[0];
  weir_driven_key key = {pool->places, share->memo, pool->memo};
  weir_claim request = {.ask = {.kind = WEIR_TAKE,
                                .cost = asked->cost,
                                .tenant_number = (int64_t)tenant + 1,
                                .weight = share->weight}};
  weir_status status = weir_driver_decide(&division->driver, &key, now_us, &request, message);
  if (status != WEIR_OK) return status;
  bool allowed = request.verdict.decision.allowed;
  note(share, WEIR_BY_RULE, asked->cost, allowed);

  weir_stamps_slide(&pool->admitted, now_us, rule->period_us);
  if (allowed && !weir_stamps_add(&pool->admitted, now_us, asked->cost, asked->cost))
    return WEIR_NO_MEMORY;
  if (pool->admitted.admitted > division->most) {
    division->most = pool->admitted.admitted;
    division->most_us = now_us;
  }
  return WEIR_OK;
}

static weir_status divide(weir_division *division, uint32_t pool_number, uint32_t tenant,
                          int64_t now_us, const weir_tenant_request *asked, weir_message *message) {
  weir_pool_state *pool = &division->pools[pool_number];
  weir_tenant_share *share = &division->shares[tenant];
  const weir_rule *rule = &division->driver.stack.rules[0];
  bool other = is_other(rule, share);
  int64_t cell = now_us / rule->cell_us, cost = asked->cost;
  int64_t weight = other ? rule->others : share->weight;
  int64_t part = (int64_t)((weir_wide)rule->limit * weight / rule->weight_of_all);
  weir_cell_window *split = other ? &pool->others_split : share->split;
  if (!enter_cell(division, pool, cell, tenant, cost)) return WEIR_NO_MEMORY;
  weir_status status = decide(division, pool, tenant, now_us, asked, message);
  note(share, WEIR_BY_SPLIT, cost, take(split, rule->cells, cell, cost, part));
  note(share, WEIR_BY_ORDER, cost, take(&pool->first_come, rule->cells, cell, cost, rule->limit));
  return status;
}

/* --- tenants ------------------------------------------------------------------------------------ */

typedef struct wanted {
  const char *texts;
  size_t pool_length, length;
} wanted;

static bool is_tenant(const void *context, const void *item, const void *key) {
  const weir_tenant *tenant = &((const weir_tenants *)context)->tenants[*(const uint32_t *)item];
  const wanted *want = key;
  return tenant->pool_length == want->pool_length &&
         tenant->pool_length + tenant->name_length == want->length &&
         memcmp(tenant->texts, want->texts, want->length) == 0;
}

/* A pool is named by the first of its tenants. */
static bool is_pool(const void *context, const void *item, const void *key) {
  const weir_tenant *tenant = &((const weir_tenants *)context)->tenants[*(const uint32_t *)item];
  const wanted *want = key;
  return tenant->pool_length == want->pool_length &&
         memcmp(tenant->texts, want->texts, want->pool_length) == 0;
}

static bool add_share(weir_division *division, size_t number, const weir_tenant *tenant) {
  const weir_rule *rule = &division->driver.stack.rules[0];
  if (!weir_array_grow(&division->shares, &division->share_room, number + 1,
                       sizeof *division->shares))
    return false;
  weir_tenant_share *share = &division->shares[number];
  int64_t weight = weir_rule_weight(rule, weir_tenant_name(tenant), tenant->name_length);
  *share = (weir_tenant_share){.weight = weight,
                               .epoch = LONG_PAST,
                               .memo = calloc(1, division->driver.memo_bytes),
                               .split = calloc(1, sizeof *share->split)};
  if (share->memo != NULL && share->split != NULL) return true;
  free(share->memo);
  free(share->split);
  return false;
}

static bool add_pool_state(weir_division *division, uint32_t number) {
  if (!weir_array_grow(&division->pools, &division->pool_room, (size_t)number + 1,
                       sizeof *division->pools))
    return false;
  weir_pool_state *pool = &division->pools[number];
  *pool = (weir_pool_state){
      .memo = calloc(1, division->driver.memo_bytes), .cell = -1, .epoch = LONG_PAST};
  return pool->memo != NULL;
}

static bool add_pool(weir_tenants *tenants, uint32_t mark, uint32_t first) {
  uint32_t number = (uint32_t)tenants->pool_count;
  size_t added = 0;
  while (added < tenants->rule_count && add_pool_state(&tenants->divisions[added], number))
    added++;
  uint32_t *place =
      added == tenants->rule_count ? weir_hash_table_add(&tenants->pools, mark) : NULL;
  if (place != NULL) {
    *place = first;
    tenants->tenants[first].pool = number;
    tenants->pool_count++;
    return true;
  }
  while (added-- > 0)
    free(tenants->divisions[added].pools[number].memo);
  return false;
}

/* The last one becomes known, by its mark, to all rules and to its pool. */
static bool make_known(weir_tenants *tenants, uint32_t mark, const wanted *want) {
  uint32_t number = (uint32_t)tenants->count;
  weir_tenant *tenant = &tenants->tenants[number];
  uint32_t pool_mark = weir_hash_table_mark(&tenants->pools, want->texts, want->pool_length);
  const uint32_t *first = weir_hash_table_find(&tenants->pools, pool_mark, want);
  if (first != NULL)
    tenant->pool = tenants->tenants[*first].pool;
  else if (!add_pool(tenants, pool_mark, number))
    return false;
  size_t added = 0;
  while (added < tenants->rule_count && add_share(&tenants->divisions[added], number, tenant))
    added++;
  uint32_t *place =
      added == tenants->rule_count ? weir_hash_table_add(&tenants->by_name, mark) : NULL;
  if (place != NULL) {
    *place = number;
    return true;
  }
  while (added-- > 0) {
    free(tenants->divisions[added].shares[number].memo);
    free(tenants->divisions[added].shares[number].split);
  }
  return false;
}

/* A new one. False: not enough memory, which ends a simulation. */
static bool add_tenant(weir_tenants *tenants, uint32_t mark, const wanted *want) {
  if (!weir_array_grow(&tenants->tenants, &tenants->room, tenants->count + 1,
                       sizeof *tenants->tenants))
    return false;
  char *texts = malloc(want->length);
  if (texts == NULL) return false;
  memcpy(texts, want->texts, want->length);
  tenants->tenants[tenants->count] = (weir_tenant){.texts = texts,
                                                   .pool_length = want->pool_length,
                                                   .name_length = want->length - want->pool_length};
  if (!make_known(tenants, mark, want)) {
    free(texts);
    return false;
  }
  tenants->count++;
  return true;
}

static weir_status find_tenant(weir_tenants *tenants, const weir_tenant_request *request,
                               uint32_t *number, weir_message *message) {
  const size_t length = request->pool_length + request->name_length;
  if (!weir_array_grow(&tenants->scratch, &tenants->scratch_room, length, 1)) return WEIR_NO_MEMORY;
  memcpy(tenants->scratch, request->pool, request->pool_length);
  memcpy(tenants->scratch + request->pool_length, request->name, request->name_length);
  const wanted want = {tenants->scratch, request->pool_length, length};
  uint32_t mark = weir_hash_table_mark(&tenants->by_name, want.texts, want.length);
  const uint32_t *found = weir_hash_table_find(&tenants->by_name, mark, &want);
  *number = found != NULL ? *found : (uint32_t)tenants->count;
  if (found != NULL) return WEIR_OK;
  if (tenants->count == WEIR_TENANTS_MOST) {
    weir_message_set(message, "one tenant too many: accepted are up to %d of all keys together",
                     WEIR_TENANTS_MOST);
    return WEIR_BAD_ARGUMENT;
  }
  return add_tenant(tenants, mark, &want) ? WEIR_OK : WEIR_NO_MEMORY;
}

/* --- all of them -------------------------------------------------------------------------------- */

weir_status weir_tenants_init(weir_tenants *tenants, const char *const *rules, size_t rule_count,
                              const weir_limiter_options *options, weir_message *message) {
  *tenants = (weir_tenants){0};
  weir_hash_table_init(&tenants->by_name, sizeof(uint32_t), is_tenant, tenants);
  weir_hash_table_init(&tenants->pools, sizeof(uint32_t), is_pool, tenants);
  for (size_t i = 0; i < rule_count; i++) {
    weir_division *division = &tenants->divisions[i];
    division->text = rules[i];
    tenants->rule_count = i + 1;
    weir_status status = weir_driver_init_shared(&division->driver, rules[i], options, message);
    if (status == WEIR_OK) continue;
    weir_tenants_clean_up(tenants);
    return status;
  }
  return WEIR_OK;
}

static void clean_up_division(weir_division *division, size_t tenant_count, size_t pool_count) {
  for (size_t i = 0; i < tenant_count; i++) {
    free(division->shares[i].memo);
    free(division->shares[i].split);
  }
  for (size_t i = 0; i < pool_count; i++) {
    weir_slots_clean_up(division->pools[i].places);
    weir_stamps_clean_up(&division->pools[i].admitted);
    free(division->pools[i].asking);
    free(division->pools[i].memo);
  }
  free(division->shares);
  free(division->pools);
  weir_driver_clean_up(&division->driver);
}

void weir_tenants_clean_up(weir_tenants *tenants) {
  for (size_t i = 0; i < tenants->rule_count; i++)
    clean_up_division(&tenants->divisions[i], tenants->count, tenants->pool_count);
  for (size_t i = 0; i < tenants->count; i++)
    free(tenants->tenants[i].texts);
  free(tenants->tenants);
  free(tenants->scratch);
  weir_hash_table_clean_up(&tenants->by_name);
  weir_hash_table_clean_up(&tenants->pools);
  *tenants = (weir_tenants){0};
}

weir_status weir_tenants_request(weir_tenants *tenants, const weir_tenant_request *request,
                                 weir_message *message) {
  uint32_t number;
  weir_status status = find_tenant(tenants, request, &number, message);
  if (status != WEIR_OK) return status;
  if (tenants->requests++ == 0) tenants->first_us = tenants->now_us = request->time_us;
  int64_t late_us = tenants->now_us - request->time_us;
  tenants->out_of_order += late_us > 0;
  if (late_us > tenants->furthest_us) tenants->furthest_us = late_us;
  if (late_us < 0) tenants->now_us = request->time_us;

  weir_tenant *tenant = &tenants->tenants[number];
  tenant->requests++;
  tenant->asked += request->cost;
  tenants->cost += request->cost;
  if (request->cost > tenants->cost_most) tenants->cost_most = request->cost;
  for (size_t i = 0; status == WEIR_OK && i < tenants->rule_count; i++)
    status =
        divide(&tenants->divisions[i], tenant->pool, number, tenants->now_us, request, message);
  return status;
}

/* Of a tenant with a fair part of few requests, one of them would be much. */
enum { FEW = 20 };

void weir_tenants_finish(weir_tenants *tenants) {
  for (size_t i = 0; i < tenants->rule_count; i++) {
    weir_division *division = &tenants->divisions[i];
    for (size_t j = 0; j < tenants->pool_count; j++)
      close_cell(division, &division->pools[j]);
    for (int way = 0; way < WEIR_WAYS; way++)
      division->worst[way] = 1;
    for (size_t j = 0; j < tenants->count; j++) {
      const weir_tenant_share *share = &division->shares[j];
      division->fair += share->fair;
      for (int way = 0; way < WEIR_WAYS; way++) {
        double part = share->fair > 0 ? (double)share->ways[way].admitted / share->fair : 1;
        division->admitted[way] += share->ways[way].admitted;
        division->floor_denied[way] += share->ways[way].floor_denied;
        bool tells = share->fair > (double)(FEW * tenants->cost_most);
        if (tells && part < division->worst[way]) division->worst[way] = part;
      }
    }
  }
}

static int compare_texts(const char *one, size_t length, const char *other, size_t other_length) {
  int order = memcmp(one, other, length < other_length ? length : other_length);
  return order != 0 ? order : (length > other_length) - (length < other_length);
}

static bool ranks_before(const weir_tenant *one, const weir_tenant *other) {
  if (one->asked != other->asked) return one->asked > other->asked;
  int order = compare_texts(one->texts, one->pool_length, other->texts, other->pool_length);
  if (order == 0)
    order = compare_texts(weir_tenant_name(one), one->name_length, weir_tenant_name(other),
                          other->name_length);
  return order < 0;
}

size_t weir_tenants_top(const weir_tenants *tenants, size_t *top, size_t most) {
  size_t count = 0;
  for (size_t i = 0; i < tenants->count; i++) {
    size_t at = count < most ? count++ : most;
    for (; at > 0 && ranks_before(&tenants->tenants[i], &tenants->tenants[top[at - 1]]); at--)
      if (at < most) top[at] = top[at - 1];
    if (at < most) top[at] = i;
  }
  return count;
}
