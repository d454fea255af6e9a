#include "memo/leased.h"

#include <string.h>

/* How many entries one look goes through, as it is done in front of a decision; and how often
 * somebody looks. */
enum { LOOKS_MOST = 8, LOOKS_IN_A_LEASE = 8 };

size_t weir_leased_bytes(const weir_stack *stack) {
  return sizeof(weir_leased) + weir_purse_bytes(stack);
}

bool weir_leased_line_init(weir_leased_line *line, const weir_lease *lease) {
  line->lease = lease;
  return pthread_mutex_init(&line->lock, NULL) == 0;
}

void weir_leased_line_clean_up(weir_leased_line *line) {
  pthread_mutex_destroy(&line->lock);
}

bool weir_leased_has_some(const weir_leased *leased) {
  for (size_t i = 0; i < WEIR_LOTS_IN_ALL; i++)
    if (leased->purse->lots[i].left > 0) return true;
  return false;
}

/* --- the line ----------------------------------------------------------------------------------
 */

static void append(weir_leased_line *line, weir_leased *leased) {
  leased->next = NULL;
  leased->before = line->last;
  *(line->last != NULL ? &line->last->next : &line->first) = leased;
  line->last = leased;
  line->count++;
  leased->in_line = true;
}

static void take_out(weir_leased_line *line, weir_leased *leased) {
  *(leased->before != NULL ? &leased->before->next : &line->first) = leased->next;
  *(leased->next != NULL ? &leased->next->before : &line->last) = leased->before;
  line->count--;
  leased->in_line = false;
}

void weir_leased_enter(weir_leased_line *line, weir_memo_entry *entry) {
  weir_leased *leased = entry->leased;
  pthread_mutex_lock(&line->lock);
  if (!leased->in_line) append(line, leased);
  pthread_mutex_unlock(&line->lock);
}

void weir_leased_leave(weir_leased_line *line, weir_leased *leased) {
  weir_purse_empty(leased->purse, line->lease);
  atomic_fetch_add_explicit(&line->lost, leased->purse->lost, memory_order_relaxed);
  pthread_mutex_lock(&line->lock);
  if (leased->in_line) take_out(line, leased);
  pthread_mutex_unlock(&line->lock);
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
weir_memo_entry *weir_leased_find_owing(weir_leased_line *line, int64_t now_us, bool end) {
  weir_memo_entry *found = NULL;
  pthread_mutex_lock(&line->lock);
  size_t looks = end || line->count < LOOKS_MOST ? line->count : LOOKS_MOST;
  for (; looks > 0 && found == NULL; looks--) {
    weir_leased *leased = line->first;
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
  pthread_mutex_unlock(&line->lock);
  return found;
}
