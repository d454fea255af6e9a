#include "memo/leased.h"

#include <stdlib.h>

/* How many entries one look goes through, as it is done in front of a decision; and how often
 * somebody looks. */
enum { LOOKS_MOST = 8, LOOKS_IN_A_LEASE = 8 };

/* Entries that were given up and wait for their return at the most. Each comes with a request for
 * another key, which takes some along. */
enum { GIVEN_UP_MOST = 256 };

size_t weir_leased_bytes(const weir_stack *stack) {
  return sizeof(weir_leased) + weir_stock_bytes(stack);
}

bool weir_leased_line_init(weir_leased_line *line, const weir_lease *lease) {
  line->lease = lease;
  return pthread_mutex_init(&line->lock, NULL) == 0;
}

/* Those that the table knew went with it. In a child of the process that made the line, a thread of
 * the parent may have been changing it at the fork: then what was given up stays. */
void weir_leased_line_clean_up(weir_leased_line *line) {
  if (pthread_mutex_trylock(&line->lock) != 0) return;
  for (weir_leased *leased = line->given_up.first, *next; leased != NULL; leased = next) {
    next = leased->next;
    free(leased->entry);
  }
  pthread_mutex_unlock(&line->lock);
  pthread_mutex_destroy(&line->lock);
}

bool weir_leased_has_some(const weir_leased *leased) {
  for (size_t i = 0; i < WEIR_LOTS_IN_ALL; i++)
    if (leased->stock->lots[i].left > 0) return true;
  return false;
}

static weir_leased_list *list_of(weir_leased_line *line, const weir_leased *leased) {
  return leased->given_up ? &line->given_up : leased->due ? &line->due : &line->known;
}

static void append(weir_leased_line *line, weir_leased *leased) {
  weir_leased_list *list = list_of(line, leased);
  leased->next = NULL;
  leased->before = list->last;
  *(list->last != NULL ? &list->last->next : &list->first) = leased;
  list->last = leased;
  list->count++;
  leased->in_line = true;
}

static void take_out(weir_leased_line *line, weir_leased *leased) {
  weir_leased_list *list = list_of(line, leased);
  *(leased->before != NULL ? &leased->before->next : &list->first) = leased->next;
  *(leased->next != NULL ? &leased->next->before : &list->last) = leased->before;
  list->count--;
  leased->in_line = false;
}

void weir_leased_enter(weir_leased_line *line, weir_memo_entry *entry) {
  weir_leased *leased = entry->leased;
  pthread_mutex_lock(&line->lock);
  if (!leased->in_line) append(line, leased);
  pthread_mutex_unlock(&line->lock);
}

/* What is lost is counted when it is, as no request for that key may come any more. */
static void count_lost(weir_leased_line *line, weir_leased *leased) {
  if (leased->stock->lost == 0) return;
  atomic_fetch_add_explicit(&line->lost, leased->stock->lost, memory_order_relaxed);
  leased->stock->lost = 0;
}

bool weir_leased_give_up(weir_leased_line *line, weir_leased *leased) {
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  leased->due = false;
  weir_stock_end(leased->stock, line->lease);
  bool stays = line->given_up.count < GIVEN_UP_MOST && line->lease->gives_back &&
               weir_leased_has_some(leased);
  if (!stays) weir_stock_empty(leased->stock, line->lease);
  count_lost(line, leased);
  leased->given_up = stays;
  if (stays) append(line, leased);
  pthread_mutex_unlock(&line->lock);
  return stays;
}

bool weir_leased_mark_due(weir_leased_line *line, weir_leased *leased) {
  if (leased->due) return false;
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  leased->due = true;
  append(line, leased);
  pthread_mutex_unlock(&line->lock);
  return true;
}

/* The shard that the first is in; NULL: none is due. */
static weir_shard *due_shard(weir_leased_line *line) {
  pthread_mutex_lock(&line->lock);
  const weir_leased *first = line->due.first;
  weir_shard *shard = first != NULL ? first->entry->shard : NULL;
  pthread_mutex_unlock(&line->lock);
  return shard;
}

/* A shard is there as long as its table, and is locked before the line: then the first may be one of
 * another shard, as someone else took it. */
weir_memo_entry *weir_leased_take_due(weir_leased_line *line) {
  weir_memo_entry *found = NULL;
  weir_shard *shard;
  while (found == NULL && (shard = due_shard(line)) != NULL) {
    weir_lock_take(&shard->lock);
    pthread_mutex_lock(&line->lock);
    weir_leased *leased = line->due.first;
    if (leased != NULL && leased->entry->shard == shard) {
      found = leased->entry;
      take_out(line, leased);
      leased->due = false;
      if (weir_leased_has_some(leased)) append(line, leased);
    }
    pthread_mutex_unlock(&line->lock);
    if (found == NULL) weir_lock_leave(&shard->lock);
  }
  return found;
}

void weir_leased_let_go(weir_leased_line *line, weir_leased *leased) {
  count_lost(line, leased);
  if (!leased->given_up || weir_leased_has_some(leased)) return;
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  pthread_mutex_unlock(&line->lock);
  free(leased->entry);
}

void weir_leased_forget(weir_leased_line *line, weir_leased *leased) {
  weir_stock_empty(leased->stock, line->lease);
  weir_leased_let_go(line, leased);
}

/* A look that is further ahead than looks are apart is one of before the clock was set back. */
bool weir_leased_is_due(weir_leased_line *line, int64_t now_us) {
  int64_t apart_us = line->lease->life_us / LOOKS_IN_A_LEASE;
  int64_t next_us = atomic_load_explicit(&line->next_look_us, memory_order_relaxed);
  if (now_us < next_us && next_us - now_us <= apart_us) return false;
  return atomic_compare_exchange_strong_explicit(&line->next_look_us, &next_us, now_us + apart_us,
                                                 memory_order_relaxed, memory_order_relaxed);
}

/* The entry cannot go while the line is locked, as it would have to leave it first. Those that hold
 * nothing more are taken out; those that owe nothing yet go to the end, as does one that is found:
 * it may owe more. */
static weir_memo_entry *find_in(weir_leased_line *line, const weir_leased_list *list, size_t looks,
                                int64_t now_us, bool end) {
  weir_memo_entry *found = NULL;
  for (; looks > 0 && found == NULL; looks--) {
    weir_leased *leased = list->first;
    weir_memo_entry *entry = leased->entry;
    bool locked = weir_lock_try(&entry->shard->lock);
    take_out(line, leased);
    if (locked && !entry->busy) {
      if (end) weir_stock_end(leased->stock, line->lease);
      if (weir_stock_owes(leased->stock, line->lease, now_us)) found = entry;
      count_lost(line, leased);
    }
    if (!locked || leased->due || weir_leased_has_some(leased)) append(line, leased);
    if (locked && found == NULL) weir_lock_leave(&entry->shard->lock);
  }
  return found;
}

static size_t looks_at(const weir_leased_list *list, weir_leased_look look) {
  bool few = look != WEIR_LOOK_END && list->count > LOOKS_MOST;
  return few ? LOOKS_MOST : list->count;
}

weir_memo_entry *weir_leased_find_owing(weir_leased_line *line, int64_t now_us,
                                        weir_leased_look look) {
  bool end = look == WEIR_LOOK_END;
  pthread_mutex_lock(&line->lock);
  size_t given_up = looks_at(&line->given_up, look);
  size_t known = looks_at(&line->known, look);
  size_t due = looks_at(&line->due, look);
  weir_memo_entry *found = find_in(line, &line->given_up, given_up, now_us, end);
  if (found == NULL && look != WEIR_LOOK_GIVEN_UP)
    found = find_in(line, &line->known, known, now_us, end);
  if (found == NULL && look != WEIR_LOOK_GIVEN_UP)
    found = find_in(line, &line->due, due, now_us, end);
  pthread_mutex_unlock(&line->lock);
  return found;
}
