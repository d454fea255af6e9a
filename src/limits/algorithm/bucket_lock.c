/* How high things stand, from the bottom up:
 *
 *     furthest                  what was admitted, by honest clocks
 *     + overshoot               what others have charged in vain, now or when the lock is over
 *     + 2 settle                for as long as a lock counts
 *     + overshoot               what is taken back while it does
 *     = the lock: whoever finds more than the first three knows that nobody has put it back
 *     + 2d                      the lock of a clock that is ahead: more is no lock at all
 */
#include "algorithm/bucket_lock.h"

/* With an offset in its epoch on top, and what others add, a double is still exact. */
#define LOCK_MOST (INT64_C(1) << 51)

static int64_t lock_overshoot_units(const weir_rule *rule, const weir_settings *settings) {
  int64_t others = settings->processes > 1 ? settings->processes - 1 : 0;
  int64_t full = weir_bucket_full(rule);
  return full <= LOCK_MOST / (others + 1) ? others * full : LOCK_MOST;
}

/* Until then whoever believed that something fits has learnt better, and taken back: knowledge is
 * so old at most, and a decision, by another clock, lasts so long, by any deadline. */
static int64_t lock_settle_us(const weir_settings *settings) {
  return settings->memo_age_us + 2 * settings->final_us;
}

/* What a lock is still above when it is over. */
static int64_t lock_unlocked_units(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_furthest(rule, settings) + lock_overshoot_units(rule, settings) +
         weir_bucket_units(rule, 2 * lock_settle_us(settings));
}

int64_t weir_bucket_lock_units(const weir_rule *rule, const weir_settings *settings) {
  return lock_unlocked_units(rule, settings) + lock_overshoot_units(rule, settings);
}

/* A process alone charges nothing in vain. */
static bool lock_can_lock(const weir_rule *rule, const weir_settings *settings) {
  return settings->processes > 1 && weir_bucket_lock_units(rule, settings) < LOCK_MOST;
}

int64_t weir_bucket_lock_step_us(const weir_rule *rule, const weir_settings *settings) {
  return lock_can_lock(rule, settings) ? lock_settle_us(settings) : 0;
}

/* A lock counts for two settle times: after that it may have been put back and gone ahead again. */
static bool lock_is_locked(const weir_settings *settings, const weir_bucket_memory *memory,
                           int64_t now_us) {
  int64_t since_us = now_us - memory->locked_us;
  return since_us >= 0 && since_us <= 2 * lock_settle_us(settings);
}

static bool lock_has_settled(const weir_rule *rule, const weir_settings *settings,
                             const weir_bucket_memory *memory, int64_t now_us, int64_t ahead) {
  int64_t since_us = now_us - memory->locked_us;
  return lock_is_locked(settings, memory, now_us) && since_us >= lock_settle_us(settings) &&
         ahead + weir_bucket_units(rule, since_us) > lock_unlocked_units(rule, settings);
}

bool weir_bucket_lock_is_over(const weir_rule *rule, const weir_settings *settings,
                              const weir_bucket_memory *memory, int64_t now_us, int64_t ahead) {
  int64_t furthest = weir_bucket_furthest(rule, settings);
  if (ahead <= furthest) return false;
  if (!lock_can_lock(rule, settings))
    return ahead > furthest + lock_overshoot_units(rule, settings);
  int64_t highest_lock = weir_bucket_lock_units(rule, settings) +
                         weir_bucket_units(rule, 2 * settings->clock_error_us);
  return ahead > highest_lock || lock_has_settled(rule, settings, memory, now_us, ahead);
}

bool weir_bucket_lock_is_due(const weir_rule *rule, const weir_settings *settings,
                             weir_bucket_memory *memory, int64_t now_us, int64_t ahead) {
  int64_t *since_us = &memory->far_since_us;
  if (ahead <= weir_bucket_furthest(rule, settings)) {
    *since_us = 0;
    return false;
  }
  if (*since_us == 0 || *since_us > now_us) *since_us = now_us;
  return lock_can_lock(rule, settings) && !lock_is_locked(settings, memory, now_us) &&
         now_us - *since_us >= lock_settle_us(settings);
}
