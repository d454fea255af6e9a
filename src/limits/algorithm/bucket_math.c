#include "algorithm/bucket_math.h"

enum { EPOCH_BITS = 52, STORED_BITS = 62, AHEAD_BITS = 58, UNITS_BITS_MOST = 61 };

#define LOW_BITS(count) ((INT64_C(1) << (count)) - 1)

int64_t weir_bucket_units(const weir_rule *rule, int64_t us) {
  int64_t most_us = INT64_C(1) << (UNITS_BITS_MOST - rule->unit_bits);
  return (us < most_us ? us : most_us) << rule->unit_bits;
}

int64_t weir_bucket_us(const weir_rule *rule, int64_t units) {
  return (units + LOW_BITS(rule->unit_bits)) >> rule->unit_bits;
}

int64_t weir_bucket_full(const weir_rule *rule) {
  return (rule->burst - rule->reserve) * rule->token_units;
}

/* Room in units; below 0: that much too little. */
static int64_t bucket_free_units(const weir_rule *rule, int64_t ahead,
                                 const weir_request_state *request) {
  int64_t room = weir_bucket_full(rule) - ahead;
  if (request != NULL && request->waits && rule->kind == WEIR_TOKEN_BUCKET)
    room += weir_bucket_units(rule, request->wait_us);
  return room;
}

/* By how much the place in the queue is later than a request to a leaky bucket accepts. */
static int64_t bucket_too_late(const weir_rule *rule, int64_t ahead,
                               const weir_request_state *request) {
  if (request == NULL || !request->waits || rule->kind != WEIR_LEAKY_BUCKET) return 0;
  int64_t late = ahead - weir_bucket_units(rule, request->wait_us);
  return late > 0 ? late : 0;
}

int64_t weir_bucket_room(const weir_rule *rule, int64_t ahead, const weir_request_state *request) {
  int64_t room = bucket_free_units(rule, ahead, request) / rule->token_units;
  int64_t capacity = rule->burst - rule->reserve;
  if (room <= 0 || bucket_too_late(rule, ahead, request) > 0) return 0;
  return room < capacity ? room : capacity;
}

int64_t weir_bucket_retry_after_us(const weir_rule *rule, int64_t ahead,
                                   const weir_request_state *request, int64_t cost) {
  int64_t wait = cost * rule->token_units - bucket_free_units(rule, ahead, request);
  int64_t late = bucket_too_late(rule, ahead, request);
  if (wait < late) wait = late;
  return wait > 0 ? weir_bucket_us(rule, wait) : 0;
}

int64_t weir_bucket_delay_us(const weir_rule *rule, int64_t ahead, int64_t cost) {
  int64_t delay = ahead;
  if (rule->kind == WEIR_TOKEN_BUCKET) delay += cost * rule->token_units - weir_bucket_full(rule);
  return delay > 0 ? weir_bucket_us(rule, delay) : 0;
}

int64_t weir_bucket_undrained(const weir_rule *rule, int64_t cost, int64_t before,
                              int64_t elapsed_us) {
  int64_t drained = elapsed_us > 0 ? weir_bucket_units(rule, elapsed_us) - before : 0;
  int64_t left = cost * rule->token_units - (drained > 0 ? drained : 0);
  return left > 0 ? left : 0;
}

static int64_t bucket_wrapped_now(const weir_rule *rule, int64_t now_us) {
  return (now_us & LOW_BITS(STORED_BITS - rule->unit_bits)) << rule->unit_bits;
}

int64_t weir_bucket_wrap(const weir_rule *rule, int64_t now_us, int64_t ahead) {
  return (bucket_wrapped_now(rule, now_us) + ahead) & LOW_BITS(STORED_BITS);
}

int64_t weir_bucket_unwrap(const weir_rule *rule, int64_t now_us, int64_t stored) {
  int64_t ahead = (stored - bucket_wrapped_now(rule, now_us)) & LOW_BITS(STORED_BITS);
  return ahead <= LOW_BITS(AHEAD_BITS) ? ahead : 0;
}

int64_t weir_bucket_told_apart_us(const weir_rule *rule) {
  return (LOW_BITS(STORED_BITS) - LOW_BITS(AHEAD_BITS)) >> rule->unit_bits;
}

int64_t weir_bucket_wrapped_less(int64_t stored, int64_t units) {
  return (stored - units) & LOW_BITS(STORED_BITS);
}

int64_t weir_bucket_epoch(const weir_rule *rule, int64_t now_us) {
  return now_us >> (EPOCH_BITS - rule->unit_bits);
}

int64_t weir_bucket_offset(const weir_rule *rule, int64_t now_us) {
  return (now_us & LOW_BITS(EPOCH_BITS - rule->unit_bits)) << rule->unit_bits;
}
