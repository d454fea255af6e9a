/* One request, decided where it stands: under the lock of its key's shard.
 *
 *     find ──> start ──> name ──> exec ──> resume ──┬──> keep what was learnt, unlock
 *                          ^                        ├──> PAUSE: the request joins the line
 *                          └────── another round ───┘
 *
 * In a store inside this process exec waits for nothing, and names a counter by a number. So where
 * no thread leads the key, the one that comes decides at once, with a machine of its own: it waits
 * for no other, gathers no group, and needs no line, no deadline, no text of the key. Further
 * rounds, as one that takes back, run under the same lock. A pause never does, as all other keys of
 * the shard would wait for it. At PAUSE a machine holds nothing, and has left the request as open as
 * it was: so that pauses without the lock, and then stands in line.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <weir/backend.h>

#include "limiter/limiter.h"

/* A machine, and behind it the operations of a round: one thread's at a time, on cache lines that no
 * other thread writes. */
struct weir_direct {
  atomic_flag taken;
  unsigned decided; /* by this machine */
  weir_machine *machine;
  weir_operation *operations;
};

static struct weir_direct *make_direct(const weir_limiter *limiter) {
  size_t align = _Alignof(max_align_t);
  size_t head = (sizeof(struct weir_direct) + align - 1) / align * align;
  size_t bytes = (weir_machine_bytes(&limiter->stack) + align - 1) / align * align;
  size_t operations = weir_machine_operations_most(&limiter->stack) * sizeof(weir_operation);
  size_t lines = (head + bytes + operations + WEIR_CACHE_LINE_BYTES - 1) / WEIR_CACHE_LINE_BYTES;
  struct weir_direct *made = aligned_alloc(WEIR_CACHE_LINE_BYTES, lines * WEIR_CACHE_LINE_BYTES);
  if (made == NULL) return NULL;
  made->decided = 0;
  atomic_flag_clear(&made->taken);
  made->machine = weir_machine_init((char *)made + head, &limiter->stack, &limiter->settings);
  made->operations = (weir_operation *)(void *)((char *)made + head + bytes);
  return made;
}

/* One that no other thread has, first of all that of the thread's own place, so that threads do not
 * meet. A thread's first is the one moment at which it allocates, so that its place among the
 * counts is made here too. NULL: so many are at it already, or there is no memory for one more. */
static struct weir_direct *take_direct(weir_limiter *limiter) {
  unsigned place = weir_thread_place();
  for (unsigned i = 0; i < WEIR_DIRECT_MOST; i++) {
    struct weir_direct *_Atomic *at = &limiter->directs[(place + i) % WEIR_DIRECT_MOST];
    struct weir_direct *direct = atomic_load_explicit(at, memory_order_acquire);
    if (direct == NULL) {
      struct weir_direct *made = make_direct(limiter);
      if (made == NULL) return NULL;
      weir_counts_part(limiter->counts);
      if (atomic_compare_exchange_strong(at, &direct, made))
        direct = made;
      else
        free(made);
    }
    if (!atomic_flag_test_and_set_explicit(&direct->taken, memory_order_acquire)) return direct;
  }
  return NULL;
}

void weir_direct_clean_up(weir_limiter *limiter) {
  for (size_t i = 0; i < WEIR_DIRECT_MOST; i++)
    free(limiter->directs[i]);
}

/* Round after round. False: the machine wants to pause.
 *
 * No deadline runs, as exec waits for nothing; but this thread can be held up between the stamp and
 * the charge, and others may have charged and read meanwhile: limiters on one store share counters
 * under locks of their own. Then the store says that it is later, and what took longer than a deadline
 * admits nothing. */
static bool run(weir_limiter *limiter, weir_memo_entry *entry, struct weir_direct *direct,
                weir_waiting *request, int64_t now_us, int64_t stamped_us, weir_message *why) {
  weir_machine *machine = direct->machine;
  weir_operation *operations = direct->operations;
  unsigned rounds = 0;
  int64_t executed_us = stamped_us;
  weir_machine_work_on(machine, entry->memo);
  weir_turn turn = weir_machine_start(machine, now_us, entry->memo, &request->claim, operations);
  while (turn == WEIR_TURN_EXECUTE) {
    weir_limiter_identify(limiter, entry->fingerprint, operations, machine->frame.operation_count);
    weir_store_exec_at(limiter->store, operations, machine->frame.operation_count, &executed_us,
                       why->text[0] == '\0' ? why : NULL);
    rounds++;
    if (executed_us != stamped_us) now_us = weir_limiter_now(limiter);
    bool late = executed_us - stamped_us >= limiter->deadline_us;
    turn = weir_machine_resume(machine, now_us, late, operations);
  }
  if (rounds > 0 && turn == WEIR_TURN_DONE && request->claim.verdict.status == WEIR_OK &&
      weir_call_count(entry->shard, request))
    rounds--;
  if (rounds > 0 || machine->frame.lost > 0)
    weir_counts_add_work(limiter->counts,
                         &(weir_work){.round_trips = rounds, .keys_lost = machine->frame.lost});
  return turn == WEIR_TURN_DONE;
}

bool weir_direct_answer(weir_limiter *limiter, weir_waiting *request, const weir_key *key,
                        weir_moment *at, weir_message *message) {
  weir_message why;
  int64_t stamped_us = weir_limiter_monotonic(limiter, at);

  /* Where others lead the key, or a stand-in must see it, or memory is short, the request joins. */
  weir_memo_entry *entry = weir_limiter_lock_known(limiter, key);
  if (entry == NULL) return false;
  weir_shard *shard = entry->shard;
  struct weir_direct *direct = NULL;
  if (!entry->busy && !(entry->stand_ins & WEIR_DIVERTS)) direct = take_direct(limiter);
  if (direct == NULL) {
    weir_lock_leave(&shard->lock);
    return false;
  }
  weir_machine *machine = direct->machine;
  bool done = weir_limiter_recall(limiter, entry, request, *at);
  if (!done) {
    /* Not with a time of before a step of the clock that others have seen. */
    if (at->clock_steps != entry->clock_steps) *at = weir_limiter_moment(limiter);
    why.text[0] = '\0';
    done = run(limiter, entry, direct, request, at->now_us, stamped_us, &why);
    weir_call_learn(&limiter->stack, shard, machine, ++direct->decided);
    weir_known_keep(limiter, entry);
  }
  unsigned pauses = machine->pauses;
  atomic_flag_clear_explicit(&direct->taken, memory_order_release);
  weir_lock_leave(&shard->lock);

  if (!done) {
    weir_sleep_until(weir_call_pause_end_us(pauses));
    *at = weir_limiter_moment(limiter);
  }
  if (done && request->claim.verdict.status != WEIR_OK) {
    bool store_did_all = request->claim.verdict.status == WEIR_CONTENDED ||
                         request->claim.verdict.status == WEIR_BAD_COST;
    bool says_why = !store_did_all && why.text[0] != '\0';
    weir_message_set(message, "%s",
                     says_why ? why.text : weir_status_text(request->claim.verdict.status));
  }
  return done;
}
