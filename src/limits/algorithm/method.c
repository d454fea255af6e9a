#include "algorithm/method.h"

const weir_method *weir_method_of(const weir_rule *rule) {
  static const weir_method *const methods[] = {
      [WEIR_FIXED_WINDOW] = &weir_window_method, [WEIR_SLIDING_WINDOW] = &weir_window_method,
      [WEIR_SLIDING_LOG] = &weir_log_method,     [WEIR_QUOTA] = &weir_quota_method,
      [WEIR_TOKEN_BUCKET] = &weir_bucket_method, [WEIR_LEAKY_BUCKET] = &weir_bucket_method,
  };
  return methods[rule->kind];
}

int64_t weir_method_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  int64_t ttl_us = weir_method_of(rule)->ttl_us(rule, settings);
  if (ttl_us < settings->least_ttl_us) ttl_us = settings->least_ttl_us;
  return ttl_us < WEIR_TTL_MOST_US ? ttl_us : WEIR_TTL_MOST_US;
}

uint32_t weir_plan_stake(int64_t part, int64_t whole) {
  if (part <= 0) return 0;
  if (part >= whole) return WEIR_STAKE_WHOLE;
  int shift = 0; /* what is above 2^32 is divided coarsely */
  while (whole >> shift >= INT64_C(1) << 32)
    shift++;
  int64_t half = whole >> shift >> 1;
  return (uint32_t)(((part >> shift) * (int64_t)WEIR_STAKE_WHOLE + half) / (whole >> shift));
}
