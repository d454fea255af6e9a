#include "memo/lease.h"

#include <string.h>

#include "algorithm/bucket.h"
#include "algorithm/plan.h"
#include "algorithm/view.h"

/* Less is not worth a lot. */
enum { WISH_LEAST = 4 };

/* A bucket's lot that ends unused is lost to all: it was charged, and drains. So a process may lose
 * of all that it admits one part in so many; and as much of a full bucket, as a loss is felt only
 * when all of that was admitted. */
enum { RISK_PARTS = 256 };

/* A refill is asked for so many trips to the store before it is needed, as they take longer and shorter
 * times; at least as long as a thread may take to wake; and no more than a part of a lease. */
enum { LEAD_TRIPS = 3, LEAD_LEAST_US = 1000, LEAD_PARTS = 4 };

/* There is hardly room left in what has less than one part in so many. To wait for a store that is not
 * this far away is better than to be denied what may fit.
 *
 * One rule in place of all of them, room for less than 16 refills, has as few wait at the limit, but takes a
 * burst for the end of a bucket: of 6,015 requests that fit 1,015 were admitted. Room for less than one refill
 * has one request in nine wait, and what was denied last up to half of them (five sites, 80 ms away). */
enum { TIGHT_PARTS = 32, EASED_TIMES = 4, FAR_US = 1000 };

/* What counts as asked at the most. Times a lease it is below 2^51. */
#define ASKED_MOST WEIR_LIMIT_MOST

/* What drains of a bucket in such a time; all, where it is long. */
static int64_t drains_in(const weir_rule *rule, int64_t us) {
  int64_t cost = weir_bucket_units(rule, us) / rule->token_units;
  return cost < rule->capacity ? cost : rule->capacity;
}

void weir_lease_init(weir_lease *lease, const weir_stack *stack, const weir_settings *settings) {
  *lease = (weir_lease){.stack = stack,
                        .settings = settings,
                        .life_us = stack->rules[0].lease_us,
                        .by_windows = true,
                        .drained_most = INT64_MAX,
                        .burst = INT64_MAX};
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (rule->lease_us < lease->life_us) lease->life_us = rule->lease_us;
    if (weir_rule_slides(rule) || weir_rule_moves_in_time(rule)) lease->by_windows = false;
    if (weir_rule_moves_in_time(rule))
      lease->drains = true;
    else
      lease->gives_back = true;
  }
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (!weir_rule_moves_in_time(rule)) continue;
    int64_t drained = drains_in(rule, lease->life_us);
    if (rule->capacity < lease->burst) lease->burst = rule->capacity;
    if (drained >= lease->drained_most && lease->drained_most != INT64_MAX) continue;
    lease->drained_most = drained;
    lease->slowest = i;
    lease->way = drains_in(rule, 4 * settings->clock_error_us);
    if (lease->way > rule->capacity / 2) lease->way = rule->capacity / 2;
  }
  lease->pause_most_us = settings->local_denial_us;
}

size_t weir_stock_bytes(const weir_stack *stack) {
  return sizeof(weir_stock) + WEIR_LOTS_IN_ALL * stack->count * sizeof(int64_t);
}

/* --- lots --------------------------------------------------------------------------------------
 */

static int64_t *places_of(weir_stock *stock, const weir_lease *lease, size_t lot) {
  return stock->places + lot * lease->stack->count;
}

static bool is_usable(const weir_lot *lot, int64_t now_us) {
  return lot->left > 0 && now_us >= lot->from_us && now_us < lot->until_us;
}

static bool is_for(const weir_lot *lot, unsigned class) {
  return weir_class_is_within(lot->class, class);
}

/* Where among lots[first .. end) one has room: where none is, or beside the one that was charged to the same places
 * for the same class, of several the one that ends last. `end`: there is neither. */
static size_t find_lot(weir_stock *stock, const weir_lease *lease, size_t first, size_t end,
                       const weir_lot *lot, const int64_t *places) {
  size_t at = end;
  for (size_t i = first; i < end; i++) {
    const weir_lot *one = &stock->lots[i];
    if (one->left == 0) return i;
    bool same = one->class == lot->class && memcmp(places_of(stock, lease, i), places,
                                                   lease->stack->count * sizeof *places) == 0;
    if (same && (at == end || one->until_us > stock->lots[at].until_us)) at = i;
  }
  return at;
}

/* Adds a lot there: what comes together may be used as long as either of them might. False: there is no room. */
static bool add_lot(weir_stock *stock, const weir_lease *lease, size_t first, size_t end,
                    const weir_lot *lot, const int64_t *places) {
  size_t at = find_lot(stock, lease, first, end, lot, places);
  if (at == end) return false;
  weir_lot *into = &stock->lots[at];
  memmove(places_of(stock, lease, at), places, lease->stack->count * sizeof *places);
  if (into->left == 0) {
    *into = *lot;
    return true;
  }
  into->left += lot->left;
  if (lot->stamp_us < into->stamp_us) into->stamp_us = lot->stamp_us;
  if (lot->from_us > into->from_us) into->from_us = lot->from_us;
  if (lot->until_us < into->until_us) into->until_us = lot->until_us;
  return true;
}

void weir_stock_owe(weir_stock *stock, const weir_lease *lease, const weir_lot *lot,
                    const int64_t *places) {
  if (!lease->gives_back || !add_lot(stock, lease, WEIR_LOTS_OWED, WEIR_LOTS_IN_ALL, lot, places))
    stock->lost += lot->left;
}

static void end_lot(weir_stock *stock, const weir_lease *lease, size_t lot) {
  if (lease->drains) stock->debt += stock->lots[lot].left * RISK_PARTS;
  if (stock->lots[lot].left > 0)
    weir_stock_owe(stock, lease, &stock->lots[lot], places_of(stock, lease, lot));
  stock->lots[lot].left = 0;
}

/* What has ended is owed. */
static void end_lots_before(weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  for (size_t i = 0; i < WEIR_LOTS; i++)
    if (now_us >= stock->lots[i].until_us) end_lot(stock, lease, i);
}

/* Lots of two places live side by side where a clock opened a quota ahead of the others: the one
 * that was there first makes room. */
static void add_live(weir_stock *stock, const weir_lease *lease, const weir_lot *lot,
                     const int64_t *places) {
  if (add_lot(stock, lease, 0, WEIR_LOTS, lot, places)) return;
  end_lot(stock, lease, 0);
  add_lot(stock, lease, 0, WEIR_LOTS, lot, places);
}

/* --- using -------------------------------------------------------------------------------------
 */

void weir_stock_count(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost) {
  int64_t half_us = lease->life_us / 2;
  int64_t since_us = now_us - stock->half_us;
  if (since_us < 0 || since_us >= half_us) {
    stock->asked_before = since_us >= 0 && since_us < 2 * half_us ? stock->asked : 0;
    stock->asked = 0;
    stock->half_us = since_us >= 0 && since_us < 2 * half_us ? stock->half_us + half_us : now_us;
  }
  stock->asked = cost < ASKED_MOST - stock->asked ? stock->asked + cost : ASKED_MOST;
}

/* --- risking -----------------------------------------------------------------------------------
 */

/* What is earned lasts for no more than one lot of the largest kind. */
static void earn(weir_stock *stock, const weir_lease *lease, int64_t admitted) {
  if (!lease->drains) return;
  int64_t least = lease->burst - lease->drained_most * RISK_PARTS;
  if (least > 0) least = 0;
  stock->debt = stock->debt - admitted > least ? stock->debt - admitted : least;
}

static weir_view view_of(const weir_lease *lease, const weir_memo *memo, int64_t now_us) {
  return (weir_view){lease->stack, lease->settings, memo, now_us};
}

/* For a class, by what is known; false: too little is. */
static bool room_of(const weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                    size_t i, int64_t now_us, unsigned class, int64_t *room) {
  weir_ask plain = {.kind = WEIR_TAKE, .cost = 1, .class = class};
  if (weir_rule_is_shared(&lease->stack->rules[i])) {
    plain.tenant_number = stock->tenant_number;
    plain.weight = stock->weight;
  }
  const weir_view view = view_of(lease, memo, now_us);
  return weir_view_recall(&view, i, &plain, 1, room, NULL);
}

/* Where nothing was ahead of the charge in any bucket, what had been lost has drained without being
 * missed. */
void weir_stock_earn(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                     int64_t stamp_us, int64_t admitted, int64_t charged) {
  bool empty = stock->debt > 0;
  for (size_t i = 0; i < lease->stack->count && empty; i++) {
    const weir_rule *rule = &lease->stack->rules[i];
    int64_t room;
    if (!weir_rule_moves_in_time(rule)) continue;
    empty = room_of(stock, lease, memo, i, stamp_us, 0, &room) && room >= rule->capacity - charged;
  }
  if (empty) stock->debt = 0;
  earn(stock, lease, admitted);
}

/* --- looking -----------------------------------------------------------------------------------
 */

bool weir_stock_is_ahead(const weir_stock *stock, int64_t now_us) {
  for (size_t i = 0; i < WEIR_LOTS; i++)
    if (stock->lots[i].left > 0 && now_us < stock->lots[i].from_us) return true;
  return false;
}

int64_t weir_stock_room(const weir_stock *stock, int64_t now_us, unsigned class) {
  int64_t room = 0;
  for (size_t i = 0; i < WEIR_LOTS; i++)
    if (is_usable(&stock->lots[i], now_us) && is_for(&stock->lots[i], class))
      room += stock->lots[i].left;
  return room;
}

/* Of those that are usable for a class the lot of the lowest, of these the one that ends first; NULL: there is
 * none. Most of the time one of both is. */
static inline weir_lot *first_usable(weir_stock *stock, int64_t now_us, unsigned class) {
  weir_lot *one = stock->lots, *other = one + 1;
  bool has_other = is_usable(other, now_us) && is_for(other, class);
  if (!is_usable(one, now_us) || !is_for(one, class)) return has_other ? other : NULL;
  if (!has_other) return one;
  bool sooner =
      one->class == other->class ? other->until_us < one->until_us : is_for(other, one->class);
  return sooner ? other : one;
}
_Static_assert(WEIR_LOTS == 2, "first_usable() knows of two");

void weir_stock_places(weir_stock *stock, const weir_lease *lease, int64_t now_us,
                       int64_t places[WEIR_RULES_MOST], unsigned class) {
  const weir_lot *lot = first_usable(stock, now_us, class);
  if (lot == NULL) return;
  memcpy(places, places_of(stock, lease, (size_t)(lot - stock->lots)),
         lease->stack->count * sizeof *places);
}

static inline void use_of(weir_lot *lot, const weir_lease *lease, int64_t cost, int64_t *at_us) {
  if (lease->drains && lot->stamp_us < *at_us) *at_us = lot->stamp_us;
  lot->left -= cost;
}

/* Out of more than one lot, which have room for it together. */
__attribute__((noinline)) static void use_several(weir_stock *stock, const weir_lease *lease,
                                                  int64_t now_us, int64_t cost, int64_t *at_us,
                                                  unsigned class) {
  while (cost > 0) {
    weir_lot *lot = first_usable(stock, now_us, class);
    int64_t taken = lot->left < cost ? lot->left : cost;
    use_of(lot, lease, taken, at_us);
    cost -= taken;
  }
}

bool weir_stock_use(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                    int64_t *at_us, unsigned class) {
  weir_lot *lot = first_usable(stock, now_us, class);
  if (lot == NULL || (lot->left < cost && weir_stock_room(stock, now_us, class) < cost))
    return false;
  *at_us = now_us;
  earn(stock, lease, cost);
  if (lot->left >= cost)
    use_of(lot, lease, cost, at_us);
  else
    use_several(stock, lease, now_us, cost, at_us, class);
  return true;
}

/* Whether a charge with this stamp stands where the lot was charged, under every rule. */
static bool has_places_of(const weir_lease *lease, const int64_t *places, int64_t at_us) {
  for (size_t i = 0; i < lease->stack->count; i++) {
    const weir_rule *rule = &lease->stack->rules[i];
    bool opens = weir_rule_opens_windows(rule);
    bool same = opens ? at_us >= places[i] && at_us - places[i] < rule->period_us
                      : at_us / rule->cell_us == places[i];
    if (!same) return false;
  }
  return true;
}

bool weir_stock_put_back(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                         int64_t at_us, unsigned class) {
  for (size_t i = 0; i < WEIR_LOTS && !lease->drains; i++) {
    weir_lot *lot = &stock->lots[i];
    bool higher = weir_class_rank(lot->class) >= weir_class_rank(class);
    if (!is_usable(lot, now_us) || !higher ||
        !has_places_of(lease, places_of(stock, lease, i), at_us))
      continue;
    lot->left += cost;
    return true;
  }
  return false;
}

/* --- a group -----------------------------------------------------------------------------------
 */

/* What is held is one lot: of two places, or for two classes, only the first is taken. */
int64_t weir_stock_hold(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                        unsigned class) {
  int64_t held = 0;
  weir_lot *lot;
  while (held < cost && (lot = first_usable(stock, now_us, class)) != NULL) {
    int64_t *places = places_of(stock, lease, (size_t)(lot - stock->lots));
    weir_lot part = *lot;
    if (part.left > cost - held) part.left = cost - held;
    if (!add_lot(stock, lease, WEIR_LOT_HELD, WEIR_LOT_HELD + 1, &part, places)) break;
    lot->left -= part.left;
    held += part.left;
  }
  return held;
}

bool weir_stock_holds(const weir_stock *stock, int64_t at_us) {
  return is_usable(&stock->lots[WEIR_LOT_HELD], at_us);
}

void weir_stock_spend(weir_stock *stock, int64_t cost) {
  stock->lots[WEIR_LOT_HELD].left -= cost;
}

void weir_stock_release(weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  weir_lot *held = &stock->lots[WEIR_LOT_HELD];
  end_lots_before(stock, lease, now_us);
  if (held->left > 0 && now_us < held->until_us)
    add_live(stock, lease, held, places_of(stock, lease, WEIR_LOT_HELD));
  else
    end_lot(stock, lease, WEIR_LOT_HELD);
  held->left = 0;
}

static int64_t lead_us(const weir_stock *stock, const weir_lease *lease) {
  int64_t lead = LEAD_TRIPS * stock->trip_us;
  if (lead < LEAD_LEAST_US) lead = LEAD_LEAST_US;
  return lead < lease->life_us / LEAD_PARTS ? lead : lease->life_us / LEAD_PARTS;
}

/* What is still there when a refill has come. What ends with its cell does so whatever is charged. */
static int64_t lasting_room(const weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  int64_t lead = lead_us(stock, lease);
  int64_t room = 0;
  for (size_t i = 0; i < WEIR_LOTS; i++) {
    const weir_lot *lot = &stock->lots[i];
    bool cut = lot->until_us < lot->stamp_us + lease->life_us;
    if (is_usable(lot, now_us) && is_for(lot, stock->class) &&
        (cut || now_us < lot->until_us - lead))
      room += lot->left;
  }
  return room;
}

/* What was asked in the last half of a lease: all of this half, and what still lies in it of the one
 * before, as if that had been asked evenly. */
static int64_t asked_lately(const weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  int64_t half_us = lease->life_us / 2;
  int64_t left_us = half_us - (now_us - stock->half_us);
  if (left_us > half_us) left_us = half_us;
  return stock->asked + (left_us > 0 ? stock->asked_before * left_us / half_us : 0);
}

/* Whether a class has room for lots, by what is known. */
static bool has_room(const weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                     int64_t now_us, unsigned class) {
  int64_t processes = lease->settings->processes > 1 ? lease->settings->processes : 1;
  for (size_t i = 0; i < lease->stack->count; i++) {
    int64_t room;
    if (!room_of(stock, lease, memo, i, now_us, class, &room)) return false;
    if (!weir_rule_moves_in_time(&lease->stack->rules[i])) room /= processes;
    if (room < WISH_LEAST) return false;
  }
  return true;
}

/* What was asked, and how scarce it was, is not the same for another class. */
void weir_stock_serve(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                      int64_t now_us, unsigned class) {
  unsigned rank = weir_class_rank(class), served = weir_class_rank(stock->class);
  if (rank == served || has_room(stock, lease, memo, now_us, stock->class) == (rank > served))
    return;
  if (rank < served && !has_room(stock, lease, memo, now_us, class)) return;
  stock->class = class;
  stock->asked = stock->asked_before = 0;
  stock->paused_until_us = 0;
  stock->tight_us = stock->scarce_us = stock->low = stock->need = 0;
}

/* What may be lost of a bucket, less what is held and may be lost, too. */
static int64_t risk_left(const weir_stock *stock, const weir_lease *lease) {
  int64_t risk = (lease->burst - stock->debt) / RISK_PARTS;
  if (risk > lease->drained_most) risk = lease->drained_most;
  for (size_t i = 0; i <= WEIR_LOT_HELD; i++)
    risk -= stock->lots[i].left;
  return risk > 0 ? risk : 0;
}

/* What is counted in windows is shared by all processes. In a bucket the process that comes first
 * may have all that it may risk: it is asked for again soon, and one that got too little gives way.
 *
 * Of what is asked in a half lease so much is held already; of `want` that, and what was meant to last
 * for horizon_us, the rest is charged. */
static int64_t wish(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                    int64_t now_us, int64_t cost, int64_t most, int64_t want, int64_t horizon_us) {
  int64_t processes = lease->settings->processes > 1 ? lease->settings->processes : 1;
  int64_t most_left = most - cost;
  stock->wanted = 0;
  if (lease->drains) {
    int64_t risk = risk_left(stock, lease);
    if (want > risk) want = risk;
  }
  for (size_t i = 0; i < lease->stack->count; i++) {
    const weir_rule *rule = &lease->stack->rules[i];
    int64_t room;
    if (!room_of(stock, lease, memo, i, now_us, stock->class, &room)) return 0;
    room = room > cost ? room - cost : 0;
    if (weir_rule_moves_in_time(rule)) {
      if (room < most_left) most_left = room;
      continue;
    }
    if (!weir_rule_opens_windows(rule)) { /* what can be used before the cell of a window ends */
      int64_t cell_left_us = rule->cell_us - now_us % rule->cell_us;
      if (cell_left_us < horizon_us) want = want * cell_left_us / horizon_us;
    }
    if (want > room / processes) want = room / processes;
  }
  if (want >= WISH_LEAST) stock->wanted = want;
  int64_t wished = want < most_left ? want : most_left;
  return wished >= WISH_LEAST ? wished : 0;
}

/* Half of what there will be at the most, where that is less than what is needed: then one refill follows
 * another. What was charged to the next window is there when no other charge may be. */
static void set_low(weir_stock *stock, int64_t now_us, int64_t held, int64_t wished) {
  for (size_t i = 0; i < WEIR_LOTS; i++)
    if (now_us < stock->lots[i].from_us) wished += stock->lots[i].left;
  int64_t most = (held + wished) / 2;
  stock->low = wished == 0 ? 0 : stock->need < most ? stock->need : most;
}

int64_t weir_stock_wish(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                        int64_t now_us, int64_t cost, int64_t most) {
  int64_t half_us = lease->life_us / 2;
  int64_t asked = asked_lately(stock, lease, now_us);
  int64_t held = weir_stock_room(stock, now_us, stock->class);
  stock->need = asked * lead_us(stock, lease) / half_us;
  int64_t wished = wish(stock, lease, memo, now_us, cost, most, asked - held, half_us);
  set_low(stock, now_us, held, wished);
  return wished;
}

int64_t weir_stock_wish_refill(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                               int64_t now_us, int64_t most, bool *looks) {
  int64_t half_us = lease->life_us / 2;
  int64_t lead = lead_us(stock, lease);
  int64_t asked = asked_lately(stock, lease, now_us);
  int64_t held = lasting_room(stock, lease, now_us);
  stock->need = asked * lead / half_us;
  int64_t want = asked + stock->need - held;
  int64_t wished = wish(stock, lease, memo, now_us, 0, most, want, half_us + lead);
  set_low(stock, now_us, held, wished);
  *looks = wished == 0 && want >= WISH_LEAST && most >= WISH_LEAST &&
           weir_stock_is_tight(stock, lease, now_us);
  if (*looks) stock->wanted = wished = WISH_LEAST;
  return wished;
}

/* --- refilling ---------------------------------------------------------------------------------
 */

bool weir_stock_is_low(const weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  return stock->low > 0 && lasting_room(stock, lease, now_us) < stock->low &&
         !weir_stock_is_paused(stock, lease, now_us);
}

/* The last answer said that there is hardly room, and too little is held for the time of a refill. */
bool weir_stock_is_tight(const weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  int64_t since_us = now_us - stock->tight_us;
  int64_t due_us = stock->due_us > 0 ? now_us - stock->due_us : 0;
  return stock->tight_us > 0 && since_us >= 0 && since_us < lease->settings->memo_age_us &&
         due_us >= 0 && due_us < lease->settings->ahead_us && stock->trip_us >= FAR_US &&
         lasting_room(stock, lease, now_us) < stock->need;
}

/* Some rule has hardly any room, and has not had several times that again. A bucket gives its whole rate as
 * long as it is not full: so it also has hardly any where it has less than is asked until the next answer;
 * and it is scarce only when that is so for a lease, as a burst may have all of it. */
static bool is_scarce(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                      int64_t now_us) {
  bool little = false, eased = true, drains = false;
  for (size_t i = 0; i < lease->stack->count; i++) {
    const weir_rule *rule = &lease->stack->rules[i];
    bool moves = weir_rule_moves_in_time(rule);
    int64_t capacity = weir_rule_capacity_of(rule, stock->class);
    int64_t least = capacity / TIGHT_PARTS;
    int64_t room;
    if (!room_of(stock, lease, memo, i, now_us, stock->class, &room)) return false;
    if (moves && least < stock->need)
      least = stock->need < capacity / 2 ? stock->need : capacity / 2;
    if (room < least) little = true;
    if (room >= EASED_TIMES * least || room > capacity / 4 * 3) continue;
    eased = false;
    drains = drains || moves;
  }
  if (eased) stock->scarce_us = 0;
  if (little && stock->scarce_us == 0) stock->scarce_us = now_us;
  return stock->scarce_us > 0 && (!drains || now_us - stock->scarce_us >= lease->life_us);
}

/* A trip that took longer counts at once, one that took less a part. */
static void learn(weir_stock *stock, const weir_lease *lease, const weir_memo *memo, int64_t now_us,
                  const weir_harvest *harvest) {
  int64_t trip_us = harvest->trip_us > 0 ? harvest->trip_us : 0;
  int64_t less_us = stock->trip_us - trip_us;
  stock->trip_us = less_us > 0 ? stock->trip_us - (less_us + 7) / 8 : trip_us;
  stock->tight_us = is_scarce(stock, lease, memo, now_us) ? now_us : 0;
}

/* A lot lives inside the cells and the quotas that were charged, and no longer than a lease. */
void weir_stock_grant(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t stamp_us,
                      int64_t cost, const int64_t *places, unsigned class) {
  weir_lot lot = {.left = cost,
                  .class = class,
                  .stamp_us = stamp_us,
                  .from_us = stamp_us,
                  .until_us = stamp_us + lease->life_us};
  if (cost == 0) return;
  for (size_t i = 0; i < lease->stack->count; i++) {
    const weir_rule *rule = &lease->stack->rules[i];
    if (weir_rule_moves_in_time(rule)) continue;
    int64_t end_us = weir_rule_opens_windows(rule) ? places[i] + rule->period_us
                                                   : (places[i] + 1) * rule->cell_us;
    if (end_us < lot.until_us) lot.until_us = end_us;
  }
  end_lots_before(stock, lease, now_us < stamp_us ? now_us : stamp_us);
  add_live(stock, lease, &lot, places);
}

/* In a bucket that is almost used up a clock that is ahead sees all room first. So who was charged
 * waits for as many turns as there may be processes, each as long as what it got takes to drain; but
 * not longer than until the bucket, if no other took of it, has room that all clocks see.
 *
 * Without turns, swaps of one bucket meet too often: 8 processes of 4 threads left some without a decision
 * (hot_bucket), and 500 us away 2.2 % of requests in place of 0.1 %; with clocks 10 ms off Jain's index fell
 * from 0.83 to 0.29. */
static int64_t turns_us(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                        int64_t now_us, int64_t charged) {
  const weir_rule *rule = &lease->stack->rules[lease->slowest];
  int64_t room;
  if (!lease->drains) return 0;
  const weir_share *share = &memo->expected[lease->slowest].share;
  bool alone = share->mine >= share->all - share->all / 16; /* lately all of it was our own */
  if (alone || !room_of(stock, lease, memo, lease->slowest, now_us, stock->class, &room) ||
      room >= lease->way)
    return 0;

  /* A burst may have all of the bucket: it is short of room only when it has been so for a while. */
  int64_t since_seen_us = now_us - stock->short_seen_us;
  if (since_seen_us < 0 || since_seen_us > 2 * lease->pause_most_us) stock->short_since_us = now_us;
  stock->short_seen_us = now_us;
  if (now_us - stock->short_since_us < lease->pause_most_us) return 0;
  int64_t cost = lease->way - room;
  if (charged < cost / lease->settings->processes) cost = charged * lease->settings->processes;
  return weir_bucket_us(rule, cost * rule->token_units);
}

void weir_stock_pace(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                     int64_t now_us, const weir_harvest *harvest) {
  bool alone = lease->settings->processes <= 1;
  learn(stock, lease, memo, now_us, harvest);
  if (stock->wanted == 0 || alone) return;
  bool enough = harvest->got >= stock->wanted - harvest->got;
  int64_t pause_us = lease->life_us / 4;
  for (unsigned n = 0; n < harvest->conflicts && pause_us < lease->pause_most_us; n++)
    pause_us *= 2;
  stock->wanted = 0;
  int64_t way_us = turns_us(stock, lease, memo, now_us, harvest->charged);
  if (!enough && way_us < pause_us) way_us = pause_us;
  if (way_us > lease->pause_most_us) way_us = lease->pause_most_us;
  if (way_us > 0) stock->paused_until_us = now_us + way_us / 2 + harvest->random % (way_us / 2 + 1);
}

bool weir_stock_is_paused(const weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  return now_us < stock->paused_until_us && stock->paused_until_us - now_us <= lease->pause_most_us;
}

/* --- the next window ---------------------------------------------------------------------------
 */

/* A quota takes three trips to open. */
static int64_t next_lead_us(const weir_stock *stock, const weir_lease *lease) {
  return 2 * lead_us(stock, lease);
}

int64_t weir_stock_next(const weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                        int64_t now_us) {
  if (!lease->by_windows || stock->trip_us < FAR_US) return 0;
  const weir_view view = view_of(lease, memo, now_us);
  int64_t next_us = weir_view_next(&view);
  return next_us != stock->next_us && next_us - now_us <= next_lead_us(stock, lease) ? next_us : 0;
}

int64_t weir_stock_wish_next(weir_stock *stock, const weir_lease *lease, int64_t now_us,
                             int64_t next_us, int64_t most) {
  int64_t processes = lease->settings->processes > 1 ? lease->settings->processes : 1;
  int64_t asked = asked_lately(stock, lease, now_us);
  int64_t need = asked * lead_us(stock, lease) / (lease->life_us / 2);
  int64_t room = weir_stack_least_of_class(lease->stack, stock->class) / processes;
  int64_t wished = asked + need;
  if (wished > room) wished = room;
  if (wished > most) wished = most;
  stock->next_us = next_us;
  stock->need = need;
  if (stock->low < need && stock->low < wished / 2)
    stock->low = need < wished / 2 ? need : wished / 2;
  return wished >= WISH_LEAST ? wished : 0;
}

void weir_stock_plan_next(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                          int64_t now_us) {
  if (!lease->by_windows) return;
  stock->next_from_us = 0;
  if (stock->trip_us < FAR_US) return;
  weir_view view = view_of(lease, memo, now_us);
  int64_t next_us = weir_view_next(&view);
  if (next_us > 0 && next_us == stock->next_us) {
    view.now_us = next_us;
    next_us = weir_view_next(&view);
  }
  if (next_us > 0) stock->next_from_us = next_us - next_lead_us(stock, lease);
}

/* --- giving back -------------------------------------------------------------------------------
 */

bool weir_stock_owes(weir_stock *stock, const weir_lease *lease, int64_t now_us) {
  end_lots_before(stock, lease, now_us);
  for (size_t i = WEIR_LOTS_OWED; i < WEIR_LOTS_IN_ALL; i++)
    if (stock->lots[i].left > 0) return true;
  return false;
}

void weir_stock_end(weir_stock *stock, const weir_lease *lease) {
  if (lease->gives_back) weir_stock_drop(stock, lease);
}

void weir_stock_drop(weir_stock *stock, const weir_lease *lease) {
  for (size_t i = 0; i < WEIR_LOTS; i++)
    end_lot(stock, lease, i);
}

bool weir_stock_take_owed(weir_stock *stock, const weir_lease *lease, weir_lot *lot,
                          int64_t places[WEIR_RULES_MOST]) {
  for (size_t i = WEIR_LOTS_OWED; i < WEIR_LOTS_IN_ALL; i++) {
    if (stock->lots[i].left == 0) continue;
    *lot = stock->lots[i];
    memcpy(places, places_of(stock, lease, i), lease->stack->count * sizeof *places);
    stock->lots[i].left = 0;
    return true;
  }
  return false;
}

void weir_lease_let_go(const weir_lease *lease, weir_memo *memo, int64_t cost,
                       const int64_t *places) {
  memo->denied_cost = 0; /* it may fit now */
  for (size_t i = 0; i < lease->stack->count; i++)
    weir_memo_doubt(lease->stack, memo, i, places[i], cost);
}

void weir_stock_empty(weir_stock *stock, const weir_lease *lease) {
  int64_t lost = stock->lost;
  for (size_t i = 0; i < WEIR_LOTS_IN_ALL; i++)
    lost += stock->lots[i].left;
  memset(stock, 0, weir_stock_bytes(lease->stack));
  stock->lost = lost;
}
