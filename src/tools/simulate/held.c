/* Walks through requests in the order in which they begin. A heap has all that are inside, the
 * first to leave on top. At one moment requests leave before others enter; a request that takes no
 * time has left before the next enters. */
#include "simulate/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/backend.h>

#include "array.h"

void weir_held_clean_up(weir_held *held) {
  weir_record_clean_up(&held->record);
  weir_spans_clean_up(&held->spans);
  *held = (weir_held){0};
}

weir_status weir_held_add(weir_held *held, const weir_span *request, const char *key,
                          size_t key_length, weir_message *message) {
  weir_record *record = &held->record;
  weir_record_key *used = weir_record_use_key(record, key, key_length);
  int64_t end_us = request->begin_us + request->duration_us;
  if (used == NULL || used->requests == UINT32_MAX) return WEIR_NO_MEMORY;
  weir_span span = *request;
  span.key = (uint32_t)(used - record->keys);
  if (record->count == 0 || span.begin_us < held->first_us) held->first_us = span.begin_us;
  if (record->count == 0 || end_us > held->last_us) held->last_us = end_us;
  if (span.cost > record->cost_most) record->cost_most = span.cost;
  record->count++;
  used->requests++;
  return weir_spans_add(&held->spans, &span) ? WEIR_OK : weir_spans_check(&held->spans, message);
}

/* --- who is inside ------------------------------------------------------------------------------ */

typedef struct place {
  int64_t end_us;
  uint32_t key, cost;
} place;

typedef struct inside {
  place *heap;
  size_t count, room;
  int64_t *cost; /* by key */
  int64_t all;
  size_t keys; /* with a cost above 0 */
} inside;

static bool begin_walk(weir_held *held, inside *who) {
  size_t keys = held->record.key_count;
  *who = (inside){.cost = calloc(keys > 0 ? keys : 1, sizeof *who->cost)};
  weir_spans_begin(&held->spans);
  return who->cost != NULL;
}

static void end_walk(inside *who) {
  free(who->heap);
  free(who->cost);
}

static void change(inside *who, uint32_t key, int64_t cost) {
  bool before = who->cost[key] > 0;
  who->cost[key] += cost;
  who->all += cost;
  who->keys += (size_t)(who->cost[key] > 0) - (size_t)before;
}

/* False: not enough memory. */
static bool enter(inside *who, const weir_span *span) {
  if (!weir_array_grow(&who->heap, &who->room, who->count + 1, sizeof *who->heap)) return false;
  const place entered = {span->begin_us + span->duration_us, span->key, span->cost};
  size_t at = who->count++;
  for (; at > 0 && who->heap[(at - 1) / 2].end_us > entered.end_us; at = (at - 1) / 2)
    who->heap[at] = who->heap[(at - 1) / 2];
  who->heap[at] = entered;
  change(who, span->key, span->cost);
  return true;
}

/* The last one fills the gap on top, and goes down as far as it must. */
static void leave_first(inside *who) {
  const place first = who->heap[0], last = who->heap[--who->count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < who->count; at = child) {
    if (child + 1 < who->count && who->heap[child + 1].end_us < who->heap[child].end_us) child++;
    if (who->heap[child].end_us >= last.end_us) break;
    who->heap[at] = who->heap[child];
  }
  who->heap[at] = last;
  change(who, first.key, -(int64_t)first.cost);
}

static void leave_until(inside *who, int64_t now_us) {
  while (who->count > 0 && who->heap[0].end_us <= now_us)
    leave_first(who);
}

weir_status weir_held_finish(weir_held *held, weir_message *message) {
  weir_record *record = &held->record;
  inside who;
  weir_span span;
  weir_status status = WEIR_OK;
  record->keeps_peaks = true;
  if (!weir_spans_sort(&held->spans)) return weir_spans_check(&held->spans, message);
  if (!begin_walk(held, &who)) return WEIR_NO_MEMORY;
  while (status == WEIR_OK && weir_spans_next(&held->spans, &span)) {
    int64_t *peak = &record->keys[span.key].peak;
    leave_until(&who, span.begin_us);
    if (!enter(&who, &span)) status = WEIR_NO_MEMORY;
    if (who.cost[span.key] > *peak) *peak = who.cost[span.key];
    if (who.all > held->most) held->most_us = span.begin_us;
    if (who.all > held->most) held->most = who.all;
    if (who.keys > held->keys_most) held->keys_most = who.keys;
  }
  end_walk(&who);
  return status == WEIR_OK ? weir_spans_check(&held->spans, message) : status;
}

/* --- one limit -------------------------------------------------------------------------------- */

/* Told of each request that is denied. False: enough was seen, or `status` says what went wrong. */
typedef struct trial trial;
typedef bool denied_one(trial *tried, const weir_span *span);

struct trial {
  weir_held *held;
  int64_t limit;
  denied_one *tell;
  weir_status status;
  /* For a simulation: */
  weir_simulation *simulation;
  size_t rule;
  /* For a recommendation: */
  const weir_record_key *only; /* the one key that matters; NULL: all do */
  weir_denied_count most;      /* from above one of them on, no more is counted */
  weir_denied_count denied;
  uint32_t *of_key; /* how often each was denied */
};

/* Keys that never have more than the limit are denied nothing, and need not be looked at. */
static weir_status try_limit(trial *tried, weir_message *message) {
  weir_held *held = tried->held;
  inside who;
  weir_span span;
  bool goes_on = true;
  if (!begin_walk(held, &who)) return WEIR_NO_MEMORY;
  tried->status = WEIR_OK;
  while (goes_on && weir_spans_next(&held->spans, &span)) {
    if (held->record.keys[span.key].peak <= tried->limit) continue;
    leave_until(&who, span.begin_us);
    if (who.cost[span.key] + span.cost > tried->limit) {
      goes_on = tried->tell(tried, &span);
    } else if (!enter(&who, &span)) {
      tried->status = WEIR_NO_MEMORY;
      goes_on = false;
    }
  }
  end_walk(&who);
  return tried->status == WEIR_OK ? weir_spans_check(&held->spans, message) : tried->status;
}

/* --- a simulation ----------------------------------------------------------------------------- */

weir_status weir_held_check_rule(const char *rule, weir_message *message) {
  weir_stack stack;
  weir_status status = weir_stack_parse(rule, 1, &stack, message);
  if (status != WEIR_OK) return status;
  if (stack.count == 1 && weir_rule_is_held(&stack.rules[0])) return WEIR_OK;
  weir_message_set(message,
                   "--duration is for in-flight rules, each with its own --rule: \"%.60s\" is %s",
                   rule, stack.count > 1 ? "a stack" : "none");
  return WEIR_BAD_RULE;
}

static bool note_denied(trial *tried, const weir_span *span) {
  weir_record *record = &tried->held->record;
  weir_measure *measure = &tried->simulation->measures[tried->rule];
  size_t length;
  const char *key = weir_record_name(record, &record->keys[span->key], &length);
  measure->allowed--;
  measure->cost_allowed -= span->cost;
  if (weir_denied_keys_add(&tried->simulation->denied[tried->rule], key, length,
                           weir_hash_table_mark(&record->by_name, key, length), span->begin_us))
    return true;
  tried->status = WEIR_NO_MEMORY;
  return false;
}

weir_status weir_held_simulate(weir_held *held, const char *const *rules, size_t rule_count,
                               weir_simulation *simulation, weir_message *message) {
  int64_t cost = 0;
  weir_span span;
  weir_status status = WEIR_OK;
  *simulation = (weir_simulation){.rule_count = rule_count,
                                  .requests = held->record.count,
                                  .first_us = held->first_us,
                                  .now_us = held->last_us,
                                  .keys.most = held->keys_most};
  weir_spans_begin(&held->spans);
  while (weir_spans_next(&held->spans, &span))
    cost += span.cost;
  for (size_t i = 0; status == WEIR_OK && i < rule_count; i++) {
    simulation->texts[i] = rules[i];
    status = weir_stack_parse(rules[i], 1, &simulation->drivers[i].stack, message);
    if (status != WEIR_OK) return status;
    simulation->measures[i] = (weir_measure){.requests = held->record.count,
                                             .allowed = held->record.count,
                                             .cost = cost,
                                             .cost_allowed = cost};
    trial tried = {.held = held,
                   .limit = weir_simulation_rule(simulation, i)->limit,
                   .tell = note_denied,
                   .simulation = simulation,
                   .rule = i};
    status = try_limit(&tried, message);
  }
  return status;
}

/* --- a recommendation ------------------------------------------------------------------------- */

static bool count_denied(trial *tried, const weir_span *span) {
  if (tried->only != NULL && tried->only != &tried->held->record.keys[span->key]) return true;
  tried->denied.requests++;
  tried->denied.keys += tried->of_key[span->key]++ == 0;
  return tried->denied.requests <= tried->most.requests && tried->denied.keys <= tried->most.keys;
}

/* Counts no further than to see that it denies more than `most`. */
static weir_status count_limit(trial *tried, int64_t limit, const weir_denied_count *most,
                               weir_message *message) {
  tried->limit = limit;
  tried->most = *most;
  tried->denied = (weir_denied_count){0};
  memset(tried->of_key, 0, tried->held->record.key_count * sizeof *tried->of_key);
  return try_limit(tried, message);
}

/* Counts what a limit that is one less denies, and whether that is one key's doing. A limit of 0
 * would deny all. */
static weir_status count_below(trial *tried, weir_recommendation *found, weir_message *message) {
  static const weir_denied_count any = {UINT64_MAX, UINT64_MAX};
  const weir_record *record = &tried->held->record;
  if (found->limit == 1) {
    found->denied_below = (weir_denied_count){record->count, record->key_count};
    if (tried->only != NULL) found->denied_below = (weir_denied_count){tried->only->requests, 1};
    return WEIR_OK;
  }
  weir_status status = count_limit(tried, found->limit - 1, &any, message);
  found->denied_below = tried->denied;
  for (size_t i = 0; status == WEIR_OK && i < record->key_count; i++) {
    if (tried->of_key[i] <= tried->denied.requests / 2) continue;
    found->rests_on = &record->keys[i];
    found->rests_on_requests = tried->of_key[i];
  }
  return status;
}

/* By halving, between what is enough for all and nothing. A request of cost 1 that a limit denies
 * is denied under every lower one, too: of two that a higher limit lets in beside, the later would
 * have found it as full as the lower. So is a key, whatever its requests cost. */
static weir_status search(trial *tried, const weir_denied_count *allowed,
                          weir_recommendation *found, weir_message *message) {
  int64_t below = 0, limit = weir_record_percentile(&tried->held->record, 1000);
  if (limit > WEIR_LIMIT_MOST) limit = WEIR_LIMIT_MOST;
  for (int64_t tried_next = limit; tried_next > below;
       tried_next = below + (found->limit - below) / 2) {
    weir_status status = count_limit(tried, tried_next, allowed, message);
    if (status != WEIR_OK) return status;
    bool enough =
        tried->denied.requests <= allowed->requests && tried->denied.keys <= allowed->keys;
    if (!enough && tried_next == limit) {
      weir_message_set(message, "no limit is enough: with %lld it still denies %llu requests",
                       (long long)limit, (unsigned long long)tried->denied.requests);
      return WEIR_BAD_RULE;
    }
    if (enough) found->limit = tried_next;
    if (enough) found->denied = tried->denied;
    if (!enough) below = tried_next;
  }
  return WEIR_OK;
}

weir_status weir_held_recommend(weir_held *held, const char *rule, const weir_goal *goal,
                                weir_recommendation *found, weir_message *message) {
  const weir_record *record = &held->record;
  trial tried = {.held = held, .tell = count_denied};
  *found = (weir_recommendation){
      .least = 1, .smallest = goal->of_keys || goal->key != NULL || record->cost_most <= 1};
  weir_status status = weir_held_check_rule(rule, message);
  if (status == WEIR_OK) status = weir_goal_find_key(goal, record, &tried.only, message);
  if (status != WEIR_OK) return status;
  const weir_denied_count allowed = weir_goal_allows(goal, record);
  tried.of_key = calloc(record->key_count, sizeof *tried.of_key);
  if (tried.of_key == NULL) return WEIR_NO_MEMORY;
  status = search(&tried, &allowed, found, message);
  if (status == WEIR_OK) status = count_below(&tried, found, message);
  free(tried.of_key);
  return status;
}

/* --- over time -------------------------------------------------------------------------------- */

weir_status weir_held_history(weir_held *held, const weir_record_key *key, int64_t *most,
                              size_t count, weir_message *message) {
  inside who;
  weir_span span;
  weir_status status = WEIR_OK;
  int64_t part_us = (held->last_us - held->first_us) / (int64_t)count + 1;
  size_t part = 0;
  if (!begin_walk(held, &who)) return WEIR_NO_MEMORY;
  memset(most, 0, count * sizeof *most);
  bool more = true;
  while (status == WEIR_OK && more) {
    more = weir_spans_next(&held->spans, &span);
    if (more && key != NULL && key != &held->record.keys[span.key]) continue;
    /* Parts that have begun since begin with what is still inside. */
    int64_t until_us = more ? span.begin_us : INT64_MAX;
    for (; part + 1 < count && held->first_us + (int64_t)(part + 1) * part_us <= until_us; part++) {
      leave_until(&who, held->first_us + (int64_t)(part + 1) * part_us);
      most[part + 1] = who.all;
    }
    if (!more) break;
    leave_until(&who, span.begin_us);
    if (!enter(&who, &span)) status = WEIR_NO_MEMORY;
    if (who.all > most[part]) most[part] = who.all;
  }
  end_walk(&who);
  return status == WEIR_OK ? weir_spans_check(&held->spans, message) : status;
}

/* --- requests with their durations --------------------------------------------------------------
 *
 * Sorts in memory what fits, and writes it down as a run. In the end runs are merged, MERGED_MOST at a
 * time, until there is one:
 *
 *     file    | run, sorted | run, sorted | run, sorted | ...
 *     memory  [ of the 1st  | of the 2nd  | of the 3rd  ]      a part of each at a time
 */

enum { MERGED_MOST = 16 };

void weir_spans_clean_up(weir_spans *spans) {
  if (spans->file != NULL) fclose(spans->file);
  free(spans->memory);
  *spans = (weir_spans){0};
}

static bool fail(weir_spans *spans, int error) {
  spans->error = error != 0 ? error : EIO;
  return false;
}

weir_status weir_spans_check(const weir_spans *spans, weir_message *message) {
  if (spans->error == 0) return WEIR_OK;
  if (spans->error == ENOMEM) return WEIR_NO_MEMORY;
  weir_message_set(message, "the temporary file in which requests are sorted: %s",
                   strerror(spans->error));
  return WEIR_BAD_ARGUMENT;
}

/* No two that differ are equal, so that the order is the same however many runs there were. */
static int compare(const void *left, const void *right) {
  const weir_span *a = left, *b = right;
  if (a->begin_us != b->begin_us) return a->begin_us < b->begin_us ? -1 : 1;
  if (a->duration_us != b->duration_us) return a->duration_us < b->duration_us ? -1 : 1;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->cost > b->cost) - (a->cost < b->cost);
}

/* The requests in memory become a run of the file. */
static bool write_run(weir_spans *spans) {
  qsort(spans->memory, spans->used, sizeof *spans->memory, compare);
  errno = 0;
  if (spans->file == NULL && (spans->file = tmpfile()) == NULL) return fail(spans, errno);
  if (fwrite(spans->memory, sizeof *spans->memory, spans->used, spans->file) != spans->used)
    return fail(spans, errno);
  spans->written += spans->used;
  spans->used = 0;
  return true;
}

bool weir_spans_add(weir_spans *spans, const weir_span *span) {
  if (spans->error != 0) return false;
  if (spans->most == 0) spans->most = WEIR_SPANS_MOST;
  if (spans->used == spans->most && !write_run(spans)) return false;
  if (!weir_array_grow(&spans->memory, &spans->room, spans->used + 1, sizeof *spans->memory))
    return fail(spans, ENOMEM);
  spans->memory[spans->used++] = *span;
  spans->count++;
  return true;
}

/* --- merging ---------------------------------------------------------------------------------- */

/* A run, and the part of memory that has the next of it. */
typedef struct run {
  uint64_t next, end; /* in the file */
  weir_span *part, *at, *stop;
} run;

/* `first` and `count` in spans. */
static bool read_spans(weir_spans *spans, uint64_t first, weir_span *to, size_t count) {
  char *at = (char *)to;
  size_t left = count * sizeof *to;
  off_t offset = (off_t)(first * sizeof *to);
  while (left > 0) {
    errno = 0;
    ssize_t got = pread(fileno(spans->file), at, left, offset);
    if (got <= 0) return fail(spans, errno);
    at += got;
    left -= (size_t)got;
    offset += got;
  }
  return true;
}

/* False: an error. At the end of the run nothing is there. */
static bool refill(weir_spans *spans, run *from) {
  size_t count = spans->most / MERGED_MOST;
  if (count > from->end - from->next) count = (size_t)(from->end - from->next);
  from->at = from->part;
  from->stop = from->part + count;
  from->next += count;
  return read_spans(spans, from->next - count, from->part, count);
}

/* The runs of `length` each from `first` on, MERGED_MOST of them at the most, into one. */
static bool merge(weir_spans *spans, uint64_t first, uint64_t length, FILE *to) {
  run runs[MERGED_MOST];
  for (size_t i = 0; i < MERGED_MOST; i++) {
    uint64_t begin = first + i * length, end = begin + length;
    runs[i] = (run){.next = begin < spans->count ? begin : spans->count,
                    .end = end < spans->count ? end : spans->count,
                    .part = spans->memory + i * (spans->most / MERGED_MOST)};
    if (!refill(spans, &runs[i])) return false;
  }
  for (;;) {
    run *earliest = NULL;
    for (size_t i = 0; i < MERGED_MOST; i++)
      if (runs[i].at < runs[i].stop && (earliest == NULL || compare(runs[i].at, earliest->at) < 0))
        earliest = &runs[i];
    if (earliest == NULL) return true;
    errno = 0;
    if (fwrite(earliest->at, sizeof *earliest->at, 1, to) != 1) return fail(spans, errno);
    if (++earliest->at == earliest->stop && !refill(spans, earliest)) return false;
  }
}

bool weir_spans_sort(weir_spans *spans) {
  if (spans->error != 0) return false;
  if (spans->file == NULL) {
    if (spans->used > 0) qsort(spans->memory, spans->used, sizeof *spans->memory, compare);
    return true;
  }
  if (!write_run(spans)) return false;
  if (fflush(spans->file) != 0) return fail(spans, errno);
  for (uint64_t length = spans->most; length < spans->count; length *= MERGED_MOST) {
    FILE *to = tmpfile();
    bool good = to != NULL || fail(spans, errno);
    for (uint64_t first = 0; good && first < spans->count; first += length * MERGED_MOST)
      good = merge(spans, first, length, to);
    if (good && fflush(to) != 0) good = fail(spans, errno);
    if (!good && to != NULL) fclose(to);
    if (!good) return false;
    fclose(spans->file);
    spans->file = to;
  }
  return true;
}

/* --- a pass ----------------------------------------------------------------------------------- */

void weir_spans_begin(weir_spans *spans) {
  spans->read = 0;
  spans->at = 0;
  if (spans->file != NULL) spans->used = 0;
}

bool weir_spans_next(weir_spans *spans, weir_span *span) {
  if (spans->error != 0 || spans->read == spans->count) return false;
  if (spans->at == spans->used) { /* of a file alone: memory has all otherwise */
    uint64_t left = spans->count - spans->read;
    spans->used = left < spans->most ? (size_t)left : spans->most;
    spans->at = 0;
    if (!read_spans(spans, spans->read, spans->memory, spans->used)) return false;
  }
  *span = spans->memory[spans->at++];
  spans->read++;
  return true;
}
