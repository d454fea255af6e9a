/* Counts by limiter, and the keys that are denied most or cost most.
 *
 * A loop's table has a row for each name of its snapshot. A newer snapshot gets a table of its own, into
 * which the counts of the same names are added. The pages sum the tables of all loops in the same way,
 * into one for the main thread's snapshot: while loops differ in theirs, rows are found by name.
 *
 * Then denials, as they may be told: how a key is shown, the log of them, and the sketch of the keys of
 * which there is most. It holds heavy hitters as in Metwally, Agrawal, El Abbadi, "Efficient computation
 * of frequent and top-k elements in data streams" (2005); merging as in Agarwal et al., "Mergeable
 * summaries" (2012). */
#include "serve/served.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/log.h"

/* --- tables ------------------------------------------------------------------------------------
 */

void weir_served_name_domain(const weir_domain *domain, char name[WEIR_CONFIG_NAME_MOST + 1]) {
  snprintf(name, WEIR_CONFIG_NAME_MOST + 1, "/%s", domain->config->name);
}
_Static_assert((int)WEIR_CONFIG_DOMAIN_MOST < (int)WEIR_CONFIG_NAME_MOST, "room for the '/'");

static weir_served_table *make_table(const weir_registry *registry) {
  const weir_descriptors *descriptors = registry->descriptors;
  size_t named = registry->named_count;
  size_t groups = registry->group_count;
  size_t domains = descriptors->count;
  size_t count = named + groups + domains + 1;
  weir_served_table *table = calloc(1, sizeof *table + count * sizeof table->rows[0]);
  if (table == NULL) return NULL;
  table->count = count;
  for (size_t i = 0; i < named; i++)
    snprintf(table->rows[i].name, sizeof table->rows[i].name, "%s",
             registry->named[i].config->name);
  for (size_t i = 0; i < groups; i++)
    snprintf(table->rows[named + i].name, sizeof table->rows[named + i].name, "%s",
             registry->groups[i].name);
  for (size_t i = 0; i < domains; i++)
    weir_served_name_domain(&descriptors->domains[i], table->rows[named + groups + i].name);
  strcpy(table->rows[count - 1].name, WEIR_SERVED_THROTTLE);
  return table;
}

static size_t first_domain(const weir_registry *registry) {
  return registry->named_count + registry->group_count;
}

/* The row of the same name; of another snapshot it may stand in another place. */
static weir_served_row *find_row(const weir_registry *registry, weir_served_table *table,
                                 const char *name, size_t hint) {
  if (hint < table->count && strcmp(table->rows[hint].name, name) == 0) return &table->rows[hint];
  if (strcmp(name, WEIR_SERVED_THROTTLE) == 0) return &table->rows[table->count - 1];
  if (name[0] == '/') {
    const weir_domain *domain =
        weir_descriptors_find(registry->descriptors, name + 1, strlen(name + 1));
    if (domain == NULL) return NULL;
    return &table->rows[first_domain(registry) + domain->index];
  }
  const weir_named_group *group = weir_registry_find_group(registry, name, strlen(name));
  if (group != NULL) return &table->rows[registry->named_count + group->index];
  const weir_named *named = weir_registry_find(registry, name, strlen(name));
  return named != NULL ? &table->rows[named->index] : NULL;
}

/* All behind a row's name are counts. */
static void add_table(const weir_registry *registry, weir_served_table *to,
                      const weir_served_table *from) {
  enum { FIRST = offsetof(weir_served_row, by) };
  for (size_t i = 0; from != NULL && i < from->count; i++) {
    weir_served_row *row = find_row(registry, to, from->rows[i].name, i);
    if (row == NULL) continue;
    _Atomic uint64_t *counts = (_Atomic uint64_t *)(void *)((char *)row + FIRST);
    const _Atomic uint64_t *more =
        (const _Atomic uint64_t *)(const void *)((const char *)&from->rows[i] + FIRST);
    for (size_t j = 0; j < (sizeof *row - FIRST) / sizeof *counts; j++)
      weir_serve_count(&counts[j], atomic_load_explicit(&more[j], memory_order_relaxed));
  }
}
_Static_assert((sizeof(weir_served_row) - offsetof(weir_served_row, by)) % sizeof(uint64_t) == 0,
               "counts alone behind the name");

/* --- life ------------------------------------------------------------------------------------- */

void weir_served_init(weir_served *served, const weir_registry *registry, weir_denial_log *log) {
  served->log = log;
  pthread_mutex_init(&served->lock, NULL);
  weir_served_follow(served, registry);
}

void weir_served_free(weir_served *served) {
  free(served->table);
  free(served->limits);
  pthread_mutex_destroy(&served->lock);
}

/* Whether the configuration still lets every key be shown as it stands there. */
static bool may_keep(const weir_registry *registry, const weir_sketch *sketch) {
  for (size_t i = 0; i < sketch->count; i++) {
    const weir_sketch_key *key = &sketch->entries[i].key;
    const weir_named *named = weir_registry_find(registry, key->limiter, strlen(key->limiter));
    if (named == NULL || named->config->log_keys != key->log_keys) return false;
  }
  return true;
}

void weir_served_follow(weir_served *served, const weir_registry *registry) {
  weir_served_table *old = served->table;
  weir_served_limits *old_limits = served->limits;
  weir_served_table *table = make_table(registry);
  size_t count = registry->descriptors->limits;
  weir_served_limits *limits = calloc(1, sizeof *limits + count * sizeof limits->rows[0]);
  if (limits != NULL) limits->registry = registry;
  if (table != NULL) add_table(registry, table, old);
  if (table == NULL || limits == NULL)
    weir_serve_log("there is not enough memory to count by limiter");
  pthread_mutex_lock(&served->lock);
  served->registry = registry;
  served->table = table;
  served->limits = limits;
  for (size_t i = 0; i < WEIR_SERVED_KEYS; i++)
    for (size_t j = 0; j < 2; j++)
      if (!may_keep(registry, &served->keys[i][j])) served->keys[i][j] = (weir_sketch){0};
  pthread_mutex_unlock(&served->lock);
  free(old);
  free(old_limits);
}

/* --- adding ------------------------------------------------------------------------------------
 */

/* Where the key of what is told may be shown, it goes into the sketch of this window. */
static void note_key(weir_served *served, weir_served_keys kind, weir_denial_line *told,
                     uint64_t amount, int64_t now_us) {
  int64_t window = now_us / (WEIR_SERVED_WINDOW_S * INT64_C(1000000));
  if (told->log_keys == WEIR_CONFIG_LOG_KEYS_OFF) return;
  told->hash = weir_denial_log_hash(served->log, told->reply);
  pthread_mutex_lock(&served->lock);
  for (size_t i = 0; window != served->window && i < WEIR_SERVED_KEYS; i++) {
    weir_sketch *sketches = served->keys[i];
    sketches[0] = window == served->window + 1 ? sketches[1] : (weir_sketch){0};
    sketches[1] = (weir_sketch){0};
  }
  served->window = window;
  weir_sketch_key *key = weir_sketch_add(&served->keys[kind][1], told->hash, amount);
  if (key != NULL) {
    key->log_keys = told->log_keys;
    snprintf(key->limiter, sizeof key->limiter, "%s", told->reply->of.name);
    weir_denial_line_show(told, WEIR_DENIAL_ON_PAGE, key->text);
  }
  pthread_mutex_unlock(&served->lock);
}

/* Logs a denial, and notes its key. */
static void note_denial(weir_served *served, const weir_reply *reply, weir_config_log_keys log_keys,
                        weir_served_protocol protocol, int64_t now_us) {
  static const char *const names[] = {"resp", "http", "grpc"};
  weir_reply told = *reply;
  weir_denial_line denial = {.protocol = names[protocol], .reply = &told, .log_keys = log_keys};
  if (told.of.name == NULL) told.of.name = WEIR_SERVED_THROTTLE;
  note_key(served, WEIR_SERVED_DENIED, &denial, 1, now_us);
  weir_denial_log_add(served->log, &denial, now_us,
                      served->registry->config->limits.logged_denials);
}

/* By its name, as an answer that has waited for a store may be of an older snapshot. NULL: no such limiter is
 * there any more, or no memory. */
static weir_served_row *row_of(const weir_served *served, const char *name, size_t hint) {
  if (served->table == NULL) return NULL;
  return find_row(served->registry, served->table, name, hint);
}

/* Whether it is a denial, which is noted further. */
static bool note_row(weir_served_row *row, const weir_reply *reply, weir_served_protocol protocol) {
  const weir_decision *decision = reply->decision;
  if (row != NULL) {
    weir_serve_count(decision == NULL    ? &row->by[protocol].none
                     : decision->allowed ? &row->by[protocol].allowed[decision->source]
                                         : &row->by[protocol].denied[decision->source],
                     1);
    if (reply->is_shadowed) weir_serve_count(&row->shadow_denied, 1);
  }
  return decision != NULL && (!decision->allowed || reply->is_shadowed);
}

/* A settlement, which is no decision. */
static void note_settlement(weir_served *served, const weir_named *named, const weir_reply *reply,
                            int64_t now_us) {
  const weir_reply_settled *came = &reply->is.settled; /* of what is not settled it is zero */
  int64_t overrun = came->up + came->cut;
  weir_denial_line told = {.reply = reply, .log_keys = named->config->log_keys};
  weir_served_row *row = row_of(served, named->config->name, named->index);
  if (row != NULL) {
    weir_serve_count(&row->settled_up, (uint64_t)came->up);
    weir_serve_count(&row->settled_down, (uint64_t)came->down);
    weir_serve_count(&row->settled_cut, (uint64_t)came->cut);
  }
  if (overrun > 0) note_key(served, WEIR_SERVED_OVERRUN, &told, (uint64_t)overrun, now_us);
}

void weir_served_note(weir_served *served, const weir_named *named, const weir_verb_row *verb,
                      const weir_reply *reply, weir_served_protocol protocol, int64_t now_us) {
  if (verb->flags & WEIR_VERB_SETTLES) note_settlement(served, named, reply, now_us);
  if (!(verb->flags & WEIR_VERB_DECIDES)) return;
  const weir_served_table *table = served->table;
  weir_served_row *row = named != NULL   ? row_of(served, named->config->name, named->index)
                         : table != NULL ? &served->table->rows[table->count - 1]
                                         : NULL;
  weir_config_log_keys log_keys =
      named != NULL ? named->config->log_keys : WEIR_CONFIG_LOG_KEYS_OFF;
  if (note_row(row, reply, protocol) && !(verb->flags & WEIR_VERB_LOOKS))
    note_denial(served, reply, log_keys, protocol, now_us);
}

void weir_served_note_group(weir_served *served, const weir_named_group *group,
                            const weir_verb_row *verb, const weir_group_reply *told,
                            weir_served_protocol protocol, int64_t now_us) {
  size_t hint = served->registry->named_count + group->index;
  note_row(row_of(served, group->name, hint), &told->whole, protocol);
  for (size_t i = 0; i < group->member_count; i++)
    if (told->counts[i])
      weir_served_note(served, group->members[i], verb, &told->members[i], protocol, now_us);
}

void weir_served_note_part(weir_served *served, const weir_served_part *part,
                           const weir_reply *reply, weir_served_protocol protocol, int64_t now_us) {
  const weir_decision *decision = reply->decision;
  size_t hint = first_domain(served->registry) + part->domain->index;
  bool is_denied = note_row(row_of(served, reply->of.name, hint), reply, protocol);
  bool is_near = part->is_near && !reply->is_shadowed;
  const weir_descriptors *descriptors = served->registry->descriptors;
  bool is_current = part->domain->index < descriptors->count &&
                    part->domain == &descriptors->domains[part->domain->index];
  weir_limit_outcome outcome = decision == NULL     ? WEIR_LIMIT_NONE
                               : reply->is_shadowed ? WEIR_LIMIT_SHADOW
                               : decision->allowed  ? WEIR_LIMIT_WITHIN
                                                    : WEIR_LIMIT_OVER;
  if (served->limits != NULL && is_current && part->limit != WEIR_SERVED_NO_LIMIT) {
    weir_limit_counts *row = &served->limits->rows[part->limit];
    weir_serve_count(&row->requests[outcome], 1);
    weir_serve_count(&row->hits[outcome], (uint64_t)part->hits);
    weir_serve_count(&row->near, is_near);
  }
  if (is_denied && part->hits > 0)
    note_denial(served, reply, WEIR_CONFIG_LOG_KEYS_OFF, protocol, now_us);
  if (part->detail == NULL) return;
  /* Other loops count there as well. */
  weir_limit_counts *counts = &part->detail->counts;
  atomic_fetch_add_explicit(&counts->requests[outcome], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&counts->hits[outcome], (uint64_t)part->hits, memory_order_relaxed);
  if (is_near) atomic_fetch_add_explicit(&counts->near, 1, memory_order_relaxed);
}

void weir_served_tick(weir_served *served, size_t requests, int64_t us) {
  size_t batch = 0;
  size_t wait = 0;
  while (batch + 1 < WEIR_SERVED_BATCHES && requests > (size_t)1 << batch)
    batch++;
  while (us > weir_wait_bound_us(wait))
    wait++;
  weir_serve_count(&served->counts.ticks, 1);
  weir_serve_count(&served->counts.tick_us, (uint64_t)us);
  weir_serve_count(&served->batches[batch], 1);
  weir_serve_count(&served->batched, requests);
  weir_serve_count(&served->waits[wait], 1);
}

/* --- of all loops -------------------------------------------------------------------------------
 */

uint64_t weir_served_total(const weir_served_all *all, size_t offset) {
  uint64_t sum = 0;
  for (unsigned i = 0; i <= all->count; i++) {
    const weir_served *one = i < all->count ? all->loops[i] : all->front;
    const _Atomic uint64_t *count = (const void *)((const char *)one + offset);
    sum += atomic_load_explicit(count, memory_order_relaxed);
  }
  return sum;
}

weir_served_table *weir_served_sum(const weir_served_all *all) {
  const weir_registry *registry = all->front->registry;
  weir_served_table *sum = make_table(registry);
  for (unsigned i = 0; sum != NULL && i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    add_table(registry, sum, served->table);
    pthread_mutex_unlock(&served->lock);
  }
  return sum;
}

weir_limit_counts *weir_served_sum_limits(const weir_served_all *all) {
  const weir_registry *registry = all->front->registry;
  size_t count = registry->descriptors->limits;
  weir_limit_counts *sum = calloc(count + 1, sizeof *sum);
  for (unsigned i = 0; sum != NULL && i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    bool is_same = served->limits != NULL && served->limits->registry == registry;
    for (size_t j = 0; is_same && j < count; j++) {
      const weir_limit_counts *from = &served->limits->rows[j];
      for (size_t k = 0; k < WEIR_LIMIT_OUTCOMES; k++) {
        weir_serve_count(&sum[j].requests[k], from->requests[k]);
        weir_serve_count(&sum[j].hits[k], from->hits[k]);
      }
      weir_serve_count(&sum[j].near, from->near);
    }
    pthread_mutex_unlock(&served->lock);
  }
  return sum;
}

void weir_served_merge(const weir_served_all *all, weir_served_keys kind, int64_t now_us,
                       weir_sketch *merged) {
  int64_t window = now_us / (WEIR_SERVED_WINDOW_S * INT64_C(1000000));
  *merged = (weir_sketch){0};
  for (unsigned i = 0; i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    if (window <= served->window + 1) weir_sketch_merge(merged, &served->keys[kind][1]);
    if (window <= served->window) weir_sketch_merge(merged, &served->keys[kind][0]);
    pthread_mutex_unlock(&served->lock);
  }
  weir_sketch_sort(merged);
}

/* --- how a key may be shown ---------------------------------------------------------------------
 */

_Static_assert(WEIR_DENIAL_SECRET_BYTES == crypto_shorthash_KEYBYTES, "of SipHash");

bool weir_denial_log_init(weir_denial_log *log) {
  if (sodium_init() < 0) return false;
  randombytes_buf(log->secret, sizeof log->secret);
  return true;
}

static uint64_t hash_bytes(const weir_denial_log *log, const void *bytes, size_t length) {
  uint64_t hash;
  crypto_shorthash((unsigned char *)&hash, bytes, length, log->secret);
  return hash;
}

uint64_t weir_denial_log_hash(const weir_denial_log *log, const weir_reply *reply) {
  const uint64_t both[2] = {hash_bytes(log, reply->of.name, strlen(reply->of.name)),
                            hash_bytes(log, reply->of.key, reply->of.key_length)};
  return hash_bytes(log, both, sizeof both);
}

/* Bytes of the character of UTF-8 that stands there, and which it is. 0: none does. */
static size_t read_character(const unsigned char *at, size_t length, uint32_t *character) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  if (bytes == 0 || bytes > length || at[0] > 0xf4) return 0;
  *character = bytes == 1 ? at[0] : at[0] & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    *character = *character << 6 | (at[i] & 0x3f);
  }
  bool is_surrogate = *character >= 0xd800 && *character < 0xe000;
  return *character < least[bytes] || *character > 0x10ffff || is_surrogate ? 0 : bytes;
}

/* Characters that are not seen, or that change how those beside them stand: with them one key could
 * look like another. */
static bool is_hidden(uint32_t character) {
  static const uint32_t ranges[][2] = {
      {0, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},
      {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x2000, 0x200f},   {0x2028, 0x202f},
      {0x205f, 0x206f}, {0x3000, 0x3000}, {0x3164, 0x3164}, {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},
      {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xffff}, {0xe0000, 0x10ffff}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (character >= ranges[i][0] && character <= ranges[i][1]) return true;
  return false;
}

void weir_denial_line_show(const weir_denial_line *denial, weir_denial_form form,
                           char text[WEIR_DENIAL_KEY_BYTES]) {
  enum { LONGEST = 4, MORE = 3 }; /* "\xff", "..." */
  const unsigned char *key = (const unsigned char *)denial->reply->of.key;
  size_t length = denial->reply->of.key_length;
  char *end = text;
  *end = '\0';
  if (denial->log_keys == WEIR_CONFIG_LOG_KEYS_HASHED)
    snprintf(text, WEIR_DENIAL_KEY_BYTES, "%016" PRIx64, denial->hash);
  if (denial->log_keys != WEIR_CONFIG_LOG_KEYS_PLAIN) return;
  for (size_t i = 0; i < length;) {
    uint32_t character;
    size_t plain = 0; /* bytes that may stand as they are; 0: the first one is spelled out */
    if (end + LONGEST + MORE >= text + WEIR_DENIAL_KEY_BYTES) {
      end += sprintf(end, "...");
      break;
    }
    if (key[i] == '\\')
      plain = 0;
    else if (form == WEIR_DENIAL_LOGGED)
      plain = key[i] >= ' ' && key[i] <= '~' && key[i] != '"';
    else
      plain = read_character(key + i, length - i, &character);
    if (plain > 0 && form == WEIR_DENIAL_ON_PAGE && is_hidden(character)) plain = 0;
    memcpy(end, key + i, plain);
    end += plain > 0 ? (int)plain : sprintf(end, "\\x%02x", key[i]);
    i += plain > 0 ? plain : 1;
  }
  *end = '\0';
}

/* --- the log of denials -------------------------------------------------------------------------
 */

/* Loops' clocks differ by a tick: one that is behind counts in the second that has begun. */
static bool may_log(weir_denial_log *log, int64_t now_us, uint64_t most) {
  uint64_t before = atomic_load_explicit(&log->logged, memory_order_relaxed);
  uint64_t after;
  do {
    uint64_t second = (uint64_t)now_us / 1000000;
    if (second < before >> 32) second = before >> 32;
    uint64_t used = second == before >> 32 ? before & UINT32_MAX : 0;
    if (used >= most) return false;
    after = second << 32 | (used + 1);
  } while (!atomic_compare_exchange_weak_explicit(&log->logged, &before, after,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

void weir_denial_log_add(weir_denial_log *log, const weir_denial_line *denial, int64_t now_us,
                         int64_t most) {
  char key[WEIR_DENIAL_KEY_BYTES];
  char id[WEIR_ASK_ID_MOST + 1];
  const weir_reply *reply = denial->reply;
  const weir_decision *decision = reply->decision;
  if (most == 0) return;
  if (!may_log(log, now_us, (uint64_t)most)) {
    atomic_fetch_add_explicit(&log->left_out, 1, memory_order_relaxed);
    return;
  }
  weir_denial_line_show(denial, WEIR_DENIAL_LOGGED, key);
  weir_log_field fields[8] = {{.name = "limiter", .text = reply->of.name}};
  size_t count = 1;
  if (reply->of.group != NULL)
    fields[count++] = (weir_log_field){.name = "group", .text = reply->of.group};
  if (key[0] != '\0')
    fields[count++] = (weir_log_field){.name = "key", .text = key, .is_quoted = true};
  fields[count++] = (weir_log_field){.name = "protocol", .text = denial->protocol};
  fields[count++] = (weir_log_field){.name = "cost", .number = decision->cost};
  fields[count++] = (weir_log_field){.name = "retry_after_us", .number = reply->retry_after_us};
  fields[count++] = (weir_log_field){.name = "source", .text = weir_source_name(decision->source)};
  if (reply->of.id_length > 0) {
    snprintf(id, sizeof id, "%.*s", (int)reply->of.id_length, reply->of.id);
    fields[count++] = (weir_log_field){.name = "request_id", .text = id, .is_quoted = true};
  }
  weir_serve_log_event(reply->is_shadowed ? "would deny" : "denied", fields, count);
}

void weir_denial_log_look(weir_denial_log *log) {
  uint64_t count = atomic_exchange_explicit(&log->left_out, 0, memory_order_relaxed);
  if (count > 0) weir_serve_log("%" PRIu64 " more denials are not in this log", count);
}

/* --- the keys of which there is most ------------------------------------------------------------ */

static size_t find(const weir_sketch *sketch, uint64_t hash) {
  size_t i = 0;
  while (i < sketch->count && sketch->hashes[i] != hash)
    i++;
  return i;
}

static size_t find_lowest(const weir_sketch *sketch) {
  size_t lowest = 0;
  for (size_t i = 1; i < sketch->count; i++)
    if (sketch->entries[i].count < sketch->entries[lowest].count) lowest = i;
  return lowest;
}

weir_sketch_key *weir_sketch_add(weir_sketch *sketch, uint64_t hash, uint64_t amount) {
  size_t at = find(sketch, hash);
  sketch->total += amount;
  if (at < sketch->count) {
    sketch->entries[at].count += amount;
    return NULL;
  }
  uint64_t floor = 0;
  if (sketch->count < WEIR_SKETCH_ENTRIES) {
    sketch->count++;
  } else {
    at = find_lowest(sketch);
    floor = sketch->entries[at].count;
  }
  sketch->hashes[at] = hash;
  sketch->entries[at] = (weir_sketch_entry){floor + amount, floor, {.hash = hash}};
  return &sketch->entries[at].key;
}

/* What a key that is not in a sketch may have been added at most. */
static uint64_t floor_of(const weir_sketch *sketch) {
  if (sketch->count < WEIR_SKETCH_ENTRIES) return 0;
  return sketch->entries[find_lowest(sketch)].count;
}

/* The highest count first; of equals always in the same order. */
static int compare(const void *left, const void *right) {
  const weir_sketch_entry *a = left;
  const weir_sketch_entry *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return a->key.hash < b->key.hash ? -1 : a->key.hash > b->key.hash;
}

/* Replaces the entries by the highest of these. */
static void keep_highest(weir_sketch *sketch, weir_sketch_entry *entries, size_t count) {
  qsort(entries, count, sizeof *entries, compare);
  sketch->count = count < WEIR_SKETCH_ENTRIES ? count : WEIR_SKETCH_ENTRIES;
  for (size_t i = 0; i < sketch->count; i++) {
    sketch->entries[i] = entries[i];
    sketch->hashes[i] = entries[i].key.hash;
  }
}

void weir_sketch_merge(weir_sketch *sketch, const weir_sketch *other) {
  weir_sketch_entry all[2 * WEIR_SKETCH_ENTRIES];
  size_t count = 0;
  uint64_t floor = floor_of(sketch);
  uint64_t other_floor = floor_of(other);
  for (size_t i = 0; i < sketch->count; i++) {
    size_t at = find(other, sketch->hashes[i]);
    bool both = at < other->count;
    all[count] = sketch->entries[i];
    all[count].count += both ? other->entries[at].count : other_floor;
    all[count++].error += both ? other->entries[at].error : other_floor;
  }
  for (size_t i = 0; i < other->count; i++) {
    if (find(sketch, other->hashes[i]) < sketch->count) continue;
    all[count] = other->entries[i];
    all[count].count += floor;
    all[count++].error += floor;
  }
  sketch->total += other->total;
  keep_highest(sketch, all, count);
}

void weir_sketch_sort(weir_sketch *sketch) {
  weir_sketch_entry all[WEIR_SKETCH_ENTRIES];
  memcpy(all, sketch->entries, sketch->count * sizeof *all);
  keep_highest(sketch, all, sketch->count);
}
