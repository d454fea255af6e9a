/* Counts that begin anew: told as warnings, as a key may then have two limits within one period. So it is
 * where a rule has other counters than the one it follows: at a reload, and where a key moves from one tier
 * of a limiter to another. */
#include <stdio.h>
#include <string.h>

#include "registry/registry.h"

static weir_rule_info rule_at(const weir_limiter *limiter, size_t index) {
  weir_rule_info rule = WEIR_RULE_INFO_INIT;
  weir_limiter_read_rule(limiter, index, &rule);
  return rule;
}

static bool has_counts(const weir_limiter *limiter, const char *tag) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++)
    if (strcmp(rule_at(limiter, i).tag, tag) == 0) return true;
  return false;
}

/* The same limit, whatever its number and layout. */
static bool are_kin(const weir_rule_info *one, const weir_rule_info *other) {
  return one->period_us == other->period_us && strcmp(one->algorithm, other->algorithm) == 0 &&
         strcmp(one->name, other->name) == 0;
}

static bool find_kin(const weir_limiter *limiter, const weir_rule_info *rule, weir_rule_info *kin) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    *kin = rule_at(limiter, i);
    if (are_kin(kin, rule)) return true;
  }
  return false;
}

/* --- at a reload -------------------------------------------------------------------------------- */

/* The rule of `before` that `fresh` of `after` takes the place of: its kin; else one whose counts nothing
 * goes on with, and which has no kin either. False: it has joined the others. */
static bool find_replaced(const weir_limiter *before, const weir_limiter *after,
                          const weir_rule_info *fresh, weir_rule_info *replaced) {
  weir_rule_info kin;
  if (find_kin(before, fresh, replaced)) return !has_counts(after, replaced->tag);
  for (size_t i = 0; i < weir_limiter_rules(before); i++) {
    *replaced = rule_at(before, i);
    if (!has_counts(after, replaced->tag) && !find_kin(after, replaced, &kin)) return true;
  }
  return false;
}

static void compare(const weir_limiter *before, const weir_limiter *after, weir_config_place place,
                    const char *path, weir_config_faults *faults) {
  if (before == NULL || after == NULL || before == after) return;
  for (size_t i = 0; i < weir_limiter_rules(after); i++) {
    weir_rule_info fresh = rule_at(after, i), old;
    if (has_counts(before, fresh.tag) || !find_replaced(before, after, &fresh, &old)) continue;
    weir_config_warn(faults, place, path,
                     "%s begins to count anew, as its counts are not those of %s: a key may have "
                     "both limits in full, once",
                     fresh.text, old.text);
  }
}

static void compare_named(const weir_named *old, const weir_named *fresh,
                          weir_config_faults *faults) {
  char path[2 * WEIR_CONFIG_NAME_MOST + 32];
  const weir_config_limiter *config = fresh->config;
  snprintf(path, sizeof path, "limiters.%s.rule", config->name);
  compare(old->own, fresh->own, config->rule_place, path, faults);
  for (size_t i = 0; i < config->tier_count; i++) {
    const weir_config_tier *tier = &config->tiers[i];
    snprintf(path, sizeof path, "limiters.%s.tiers.%s", config->name, tier->name);
    for (size_t j = 0; j < old->config->tier_count; j++)
      if (strcmp(old->config->tiers[j].name, tier->name) == 0)
        compare(old->tiers[j], fresh->tiers[i], tier->place, path, faults);
  }
}

static void compare_domains(const weir_domain *old, const weir_domain *fresh,
                            weir_config_faults *faults) {
  char path[WEIR_CONFIG_DOMAIN_MOST + 32];
  snprintf(path, sizeof path, "domain %s", fresh->config->name);
  for (uint32_t i = 0; i < fresh->node_count; i++) {
    const weir_descriptor *node = &fresh->nodes[i];
    const weir_descriptor *before =
        node->limiter != NULL ? weir_domain_counterpart(fresh, i, old) : NULL;
    if (before != NULL)
      compare(before->limiter, node->limiter, node->config->rate->place, path, faults);
  }
}

static void compare_all(const weir_registry *old, const weir_registry *fresh,
                        weir_config_faults *faults) {
  for (size_t i = 0; i < fresh->named_count; i++) {
    const weir_named *named = &fresh->named[i];
    const weir_named *before = weir_registry_find(old, named->prefix, named->prefix_length - 1);
    if (before != NULL) compare_named(before, named, faults);
  }
  for (size_t i = 0; i < fresh->descriptors->count; i++) {
    const weir_domain *domain = &fresh->descriptors->domains[i];
    const char *name = domain->config->name;
    const weir_domain *before = weir_descriptors_find(old->descriptors, name, strlen(name));
    if (before != NULL) compare_domains(before, domain, faults);
  }
}

/* --- of tiers ----------------------------------------------------------------------------------- */

/* Whether some rule of `tier` is kin to one of `other`, and counts apart from it. */
static bool are_apart(const weir_limiter *tier, const weir_limiter *other, weir_rule_info *one,
                      weir_rule_info *kin) {
  for (size_t i = 0; i < weir_limiter_rules(tier); i++) {
    *one = rule_at(tier, i);
    if (!has_counts(other, one->tag) && find_kin(other, one, kin)) return true;
  }
  return false;
}

static void warn_of_tiers(const weir_named *named, weir_config_faults *faults) {
  char path[2 * WEIR_CONFIG_NAME_MOST + 32];
  const weir_config_limiter *config = named->config;
  for (size_t i = 0; i < config->tier_count; i++) {
    const weir_limiter *tier = named->tiers[i];
    weir_rule_info one, kin;
    snprintf(path, sizeof path, "limiters.%s.tiers.%s", config->name, config->tiers[i].name);
    for (size_t j = 0; tier != NULL && j <= i; j++) {
      const weir_limiter *other = j == 0 ? named->own : named->tiers[j - 1];
      if (other == NULL || other == tier || !are_apart(tier, other, &one, &kin)) continue;
      weir_config_warn(faults, config->tiers[i].place, path,
                       "%s does not share its counts with %s, as they are laid out apart: a key "
                       "that moves from one to the other may have both limits in full",
                       one.text, kin.text);
      break;
    }
  }
}

void weir_registry_warn(const weir_registry *old, const weir_registry *fresh,
                        weir_config_faults *faults) {
  if (old != NULL) compare_all(old, fresh, faults);
  for (size_t i = 0; i < fresh->named_count; i++)
    if (fresh->named[i].tiers != NULL) warn_of_tiers(&fresh->named[i], faults);
}
