#include "keep/places.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "random.h"

typedef struct wanted_key {
  const weir_limiter *limiter;
  const weir_hash_text *counted;
} wanted_key;

static bool is_key(const void *context, const void *item, const void *wanted) {
  const weir_kept_key *key = *(weir_kept_key *const *)item;
  const wanted_key *other = wanted;
  (void)context;
  return key->limiter == other->limiter &&
         weir_hash_text_is(other->counted, key->counted, key->length);
}

static bool is_name(const void *context, const void *item, const void *wanted) {
  const weir_kept *kept = *(weir_kept *const *)item;
  const weir_place_name *name = wanted;
  (void)context;
  return kept->name.server == name->server && kept->name.number == name->number;
}

void weir_kept_table_init(weir_kept_table *table) {
  unsigned char secret[16];
  weir_random_secret(secret);
  memcpy(&table->server, secret, sizeof table->server);
  memcpy(&table->chance, secret + 8, sizeof table->chance);
  weir_hash_table_init(&table->by_name, sizeof(weir_kept *), is_name, NULL);
  weir_hash_table_init(&table->by_key, sizeof(weir_kept_key *), is_key, NULL);
}

void weir_kept_table_clean_up(weir_kept_table *table) {
  weir_hash_table_clean_up(&table->by_name);
  weir_hash_table_clean_up(&table->by_key);
  free(table->ends.heap);
  free(table->limiters);
}

/* --- limiters and keys --------------------------------------------------------------------------
 */

/* Where the limiter stands, which stays as long as it has keys; SIZE_MAX: no memory. */
static size_t find_limiter(weir_kept_table *table, const weir_kept_wish *wish) {
  size_t at = 0;
  while (at < table->limiter_count && table->limiters[at].limiter != wish->limiter)
    at++;
  if (at < table->limiter_count) return at;
  for (at = 0; at < table->limiter_count && table->limiters[at].limiter != NULL;)
    at++;
  if (!weir_array_grow(&table->limiters, &table->limiter_room, at + 1, sizeof *table->limiters))
    return SIZE_MAX;
  if (at == table->limiter_count) table->limiter_count++;
  table->limiters[at] = (weir_kept_limiter){
      .limiter = wish->limiter, .shared = weir_registry_hold(wish->registry, wish->limiter)};
  return at;
}

weir_shared_limiter *weir_kept_table_take_limiter(weir_kept_table *table) {
  for (size_t i = 0; i < table->limiter_count; i++) {
    const weir_kept_limiter one = table->limiters[i];
    if (one.limiter == NULL || one.count > 0) continue;
    table->limiters[i] = (weir_kept_limiter){.limiter = NULL};
    return one.shared;
  }
  while (table->limiter_count > 0 && table->limiters[table->limiter_count - 1].limiter == NULL)
    table->limiter_count--;
  return NULL;
}

static weir_kept_key **find_key(const weir_kept_table *table, const weir_limiter *limiter,
                                const weir_hash_text *counted) {
  const wanted_key wanted = {limiter, counted};
  uint32_t mark = weir_hash_table_mark(&table->by_key, counted->bytes, counted->length);
  return weir_hash_table_find(&table->by_key, mark, &wanted);
}

weir_kept_key *weir_kept_table_find_key(const weir_kept_table *table, const weir_limiter *limiter,
                                        const weir_hash_text *counted) {
  weir_kept_key **found = find_key(table, limiter, counted);
  return found != NULL ? *found : NULL;
}

/* New, where it is not there. NULL: no memory. */
static weir_kept_key *use_key(weir_kept_table *table, const weir_kept_wish *wish) {
  const weir_hash_text counted = {wish->counted, wish->length};
  weir_kept_key **found = find_key(table, wish->limiter, &counted);
  if (found != NULL) return *found;
  size_t at = find_limiter(table, wish);
  weir_kept_key *key = at != SIZE_MAX ? calloc(1, sizeof *key + wish->length) : NULL;
  uint32_t mark = weir_hash_table_mark(&table->by_key, wish->counted, wish->length);
  found = key != NULL ? weir_hash_table_add(&table->by_key, mark) : NULL;
  if (found == NULL) {
    free(key);
    return NULL;
  }
  *found = key;
  key->limiter = wish->limiter;
  key->limiter_at = at;
  key->length = wish->length;
  key->prefix_length = wish->prefix_length;
  memcpy(key->counted, wish->counted, wish->length);
  table->limiters[at].count++;
  return key;
}

static void tidy_key(weir_kept_table *table, weir_kept_key *key) {
  const weir_hash_text counted = {key->counted, key->length};
  if (key->count > 0 || key->others > 0) return;
  weir_hash_table_remove(&table->by_key, find_key(table, key->limiter, &counted));
  table->limiters[key->limiter_at].count--;
  free(key);
}

/* --- clients ------------------------------------------------------------------------------------
 */

static void join_holder(weir_kept *kept) {
  weir_holder *holder = kept->holder;
  if (holder == NULL) return;
  kept->holder_previous = NULL;
  kept->holder_next = holder->first;
  if (holder->first != NULL) holder->first->holder_previous = kept;
  holder->first = kept;
  holder->count++;
}

void weir_kept_leave_holder(weir_kept *kept) {
  weir_holder *holder = kept->holder;
  if (holder == NULL) return;
  *(kept->holder_previous != NULL ? &kept->holder_previous->holder_next : &holder->first) =
      kept->holder_next;
  if (kept->holder_next != NULL) kept->holder_next->holder_previous = kept->holder_previous;
  holder->count--;
  kept->holder = NULL;
}

/* --- places -------------------------------------------------------------------------------------
 */

static uint32_t mark_of(const weir_kept_table *table, const weir_place_name *name) {
  const uint64_t words[2] = {name->server, name->number};
  return weir_hash_table_mark(&table->by_name, words, sizeof words);
}

static weir_kept **find_name(const weir_kept_table *table, const weir_place_name *name) {
  return weir_hash_table_find(&table->by_name, mark_of(table, name), name);
}

bool weir_kept_table_add(weir_kept_table *table, weir_kept *kept, const weir_kept_wish *wish) {
  if (!weir_ends_fit(&table->ends, table->ends.count + table->asked + 1)) return false;
  kept->name = (weir_place_name){.server = table->server,
                                 .number = ++table->number,
                                 .secret = (uint32_t)(weir_random_next(&table->chance) >> 32)};
  kept->key = use_key(table, wish);
  if (kept->key == NULL) return false;
  weir_kept **named = weir_hash_table_add(&table->by_name, mark_of(table, &kept->name));
  if (named == NULL) {
    tidy_key(table, kept->key);
    return false;
  }
  *named = kept;
  kept->key->others++;
  table->asked++;
  return true;
}

void weir_kept_table_enter(weir_kept_table *table, weir_kept *kept) {
  weir_kept_key *key = kept->key;
  table->asked--;
  key->others--;
  key->count++;
  key->cost += kept->cost;
  kept->previous = NULL;
  kept->next = key->first;
  *(key->first != NULL ? &key->first->previous : &key->last) = kept;
  key->first = kept;
  join_holder(kept);
  weir_ends_add(&table->ends, &kept->end);
}

void weir_kept_table_take_out(weir_kept_table *table, weir_kept *kept) {
  weir_kept_key *key = kept->key;
  weir_hash_table_remove(&table->by_name, find_name(table, &kept->name));
  *(kept->previous != NULL ? &kept->previous->next : &key->first) = kept->next;
  *(kept->next != NULL ? &kept->next->previous : &key->last) = kept->previous;
  key->count--;
  key->others++;
  key->cost -= kept->cost;
  weir_kept_leave_holder(kept);
  weir_ends_remove(&table->ends, &kept->end);
}

void weir_kept_table_drop(weir_kept_table *table, weir_kept *kept) {
  if (kept->reservation == NULL) { /* it was never entered, and so never taken out */
    weir_hash_table_remove(&table->by_name, find_name(table, &kept->name));
    table->asked--;
  }
  kept->key->others--;
  tidy_key(table, kept->key);
}

static weir_kept *find_held(const weir_kept_table *table, const weir_place_name *name) {
  weir_kept *const *found = find_name(table, name);
  return found != NULL && (*found)->reservation != NULL ? *found : NULL;
}

const weir_kept_key *weir_kept_table_key_of(const weir_kept_table *table,
                                            const weir_place_name *name) {
  const weir_kept *kept = find_held(table, name);
  return kept != NULL && kept->name.secret == name->secret ? kept->key : NULL;
}

weir_kept *weir_kept_table_find(const weir_kept_table *table, const weir_place_name *name,
                                const weir_hash_text *counted, weir_message *why) {
  weir_kept *kept = find_held(table, name);
  bool fits = kept != NULL && kept->name.secret == name->secret &&
              weir_hash_text_is(counted, kept->key->counted, kept->key->length);
  if (fits) return kept;
  if (kept != NULL)
    *why = (weir_message){"place: it is one of another limiter or key"};
  else if (name->server != table->server || name->number > table->number)
    *why = (weir_message){"place: it is one of another server"};
  else
    *why = (weir_message){""};
  return NULL;
}

/* --- when their time ends -----------------------------------------------------------------------
 */

bool weir_ends_fit(weir_ends *ends, size_t count) {
  return weir_array_grow(&ends->heap, &ends->room, count, sizeof(weir_end *));
}

static void put(weir_ends *ends, size_t at, weir_end *end) {
  ends->heap[at] = end;
  end->at = at;
}

static void sift_up(weir_ends *ends, size_t at, weir_end *end) {
  for (; at > 0 && ends->heap[(at - 1) / 2]->until_us > end->until_us; at = (at - 1) / 2)
    put(ends, at, ends->heap[(at - 1) / 2]);
  put(ends, at, end);
}

void weir_ends_add(weir_ends *ends, weir_end *end) {
  sift_up(ends, ends->count++, end);
}

/* The last one fills the gap: from there it goes down, and then up as far as it must. */
void weir_ends_remove(weir_ends *ends, weir_end *end) {
  weir_end *last = ends->heap[--ends->count];
  size_t at = end->at;
  if (last == end) return;
  for (size_t child; (child = 2 * at + 1) < ends->count; at = child) {
    if (child + 1 < ends->count && ends->heap[child + 1]->until_us < ends->heap[child]->until_us)
      child++;
    if (ends->heap[child]->until_us >= last->until_us) break;
    put(ends, at, ends->heap[child]);
  }
  sift_up(ends, at, last);
}
