#include "memo/leased.h"

#include <stdlib.h>
#include <string.h>

/* How many entries one look goes through, as it is done in front of a decision; and how often
 * somebody looks. */
enum { LOOKS_MOST = 8, LOOKS_IN_A_LEASE = 8 };

/* Entries that were given up and wait for their return at the most. Each comes with a request for
 * another key, which takes some along. */
enum { GIVEN_UP_MOST = 256 };

size_t weir_leased_bytes(const weir_stack *stack) {
  return sizeof(weir_leased) + weir_purse_bytes(stack);
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
    if (leased->purse->lots[i].left > 0) return true;
  return false;
}

/* --- the line ----------------------------------------------------------------------------------
 */

static weir_leased_list *list_of(weir_leased_line *line, const weir_leased *leased) {
  return leased->given_up ? &line->given_up : &line->known;
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

bool weir_leased_give_up(weir_leased_line *line, weir_leased *leased) {
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  weir_purse_end(leased->purse, line->lease);
  bool stays = line->given_up.count < GIVEN_UP_MOST && line->lease->gives_back &&
               weir_leased_has_some(leased);
  if (!stays) weir_purse_empty(leased->purse, line->lease);
  atomic_fetch_add_explicit(&line->lost, leased->purse->lost, memory_order_relaxed);
  leased->purse->lost = 0;
  leased->given_up = stays;
  if (stays) append(line, leased);
  pthread_mutex_unlock(&line->lock);
  return stays;
}

void weir_leased_let_go(weir_leased_line *line, weir_leased *leased) {
  if (!leased->given_up || weir_leased_has_some(leased)) return;
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  pthread_mutex_unlock(&line->lock);
  atomic_fetch_add_explicit(&line->lost, leased->purse->lost, memory_order_relaxed);
  free(leased->entry);
}

void weir_leased_forget(weir_leased_line *line, weir_leased *leased) {
  weir_purse_empty(leased->purse, line->lease);
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
    bool locked = weir_shard_try_lock(entry->shard);
    take_out(line, leased);
    if (locked && !entry->busy) {
      if (end) weir_purse_end(leased->purse, line->lease);
      if (weir_purse_owes(leased->purse, line->lease, now_us)) found = entry;
    }
    if (!locked || weir_leased_has_some(leased)) append(line, leased);
    if (locked && found == NULL) weir_shard_unlock(entry->shard);
  }
  return found;
}

weir_memo_entry *weir_leased_find_owing(weir_leased_line *line, int64_t now_us,
                                        weir_leased_look look) {
  bool end = look == WEIR_LOOK_END;
  pthread_mutex_lock(&line->lock);
  size_t given_up = line->given_up.count;
  size_t known = line->known.count;
  if (!end && given_up > LOOKS_MOST) given_up = LOOKS_MOST;
  if (!end && known > LOOKS_MOST) known = LOOKS_MOST;
  weir_memo_entry *found = find_in(line, &line->given_up, given_up, now_us, end);
  if (found == NULL && look != WEIR_LOOK_GIVEN_UP)
    found = find_in(line, &line->known, known, now_us, end);
  pthread_mutex_unlock(&line->lock);
  return found;
}
