/* Counts that begin anew: told as warnings, as a key may then have two limits within one period. So it is
 * where a rule has other counters than the one it follows: at a reload, and where a key moves from one tier
 * of a limiter to another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "registry/registry.h"
#include "table.h"

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

/* The first rule that is kin; SIZE_MAX: none is. */
static size_t find_kin(const weir_limiter *limiter, const weir_rule_info *rule) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info each = rule_at(limiter, i);
    if (are_kin(&each, rule)) return i;
  }
  return SIZE_MAX;
}

/* --- at a reload -------------------------------------------------------------------------------- */

/* The rule of `before` that `fresh` of `after` takes the place of: its kin; else one whose counts nothing
 * goes on with, and which has no kin either. SIZE_MAX: it has joined the others. */
static size_t find_replaced(const weir_limiter *before, const weir_limiter *after,
                            const weir_rule_info *fresh) {
  size_t kin = find_kin(before, fresh);
  if (kin != SIZE_MAX) return has_counts(after, rule_at(before, kin).tag) ? SIZE_MAX : kin;
  for (size_t i = 0; i < weir_limiter_rules(before); i++) {
    weir_rule_info replaced = rule_at(before, i);
    if (!has_counts(after, replaced.tag) && find_kin(after, &replaced) == SIZE_MAX) return i;
  }
  return SIZE_MAX;
}

static void compare(const weir_limiter *before, const weir_limiter *after, weir_config_place place,
                    const char *path, weir_config_faults *faults) {
  if (before == NULL || after == NULL || before == after) return;
  for (size_t i = 0; i < weir_limiter_rules(after); i++) {
    weir_rule_info fresh = rule_at(after, i);
    size_t old = has_counts(before, fresh.tag) ? SIZE_MAX : find_replaced(before, after, &fresh);
    weir_message said;
    if (old == SIZE_MAX) continue;
    bool has_most = strstr(fresh.text, ",most=") != NULL; /* nobody can give it to the old one */
    bool kin = !has_most && weir_limiter_tell_apart(after, i, before, old, &said);
    if (!kin)
      snprintf(said.text, sizeof said.text, "its counts are not those of %s",
               rule_at(before, old).text);
    weir_config_warn(faults, place, path,
                     "%s begins to count anew, as %s%s; a key may have both limits in full, once",
                     fresh.text, kin ? "it " : "", said.text);
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
    const weir_config_tier *before =
        weir_config_find_tier(old->config, tier->name, strlen(tier->name));
    if (before != NULL)
      compare(old->tiers[before - old->config->tiers], fresh->tiers[i], tier->place, path, faults);
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

/* How a limit is counted: by the rules of this limiter, the first that counts it so. */
typedef struct layout {
  const weir_limiter *limiter;
  size_t place; /* among the limiters that were looked at */
  size_t next;  /* another of the same limit, which came later; 0: none */
} layout;

/* Kin are one. */
typedef struct limit {
  weir_rule_info rule; /* any of them */
  size_t first, last;  /* of its layouts */
} limit;

/* Tiers may be many, and their layouts are few. */
typedef struct layouts {
  weir_hash_table limits;
  layout *each; /* the first is none */
  size_t count, room;
} layouts;

static bool is_limit(const void *context, const void *item, const void *key) {
  (void)context;
  return are_kin(&((const limit *)item)->rule, key);
}

static uint32_t mark_of(const weir_hash_table *limits, const weir_rule_info *rule) {
  const uint32_t marks[] = {weir_hash_table_mark(limits, rule->algorithm, strlen(rule->algorithm)),
                            weir_hash_table_mark(limits, rule->name, strlen(rule->name)),
                            weir_hash_table_mark(limits, &rule->period_us, sizeof rule->period_us)};
  return weir_hash_table_mark(limits, marks, sizeof marks);
}

/* Whether all that `one` counts of this limit `other` has as well. */
static bool covers(const weir_limiter *other, const weir_limiter *one, const weir_rule_info *rule) {
  for (size_t i = 0; i < weir_limiter_rules(one); i++) {
    weir_rule_info each = rule_at(one, i);
    if (are_kin(&each, rule) && !has_counts(other, each.tag)) return false;
  }
  return true;
}

/* False: no memory. */
static bool add_layout(layouts *all, const weir_limiter *limiter, size_t place,
                       const weir_rule_info *rule) {
  uint32_t mark = mark_of(&all->limits, rule);
  limit *found = weir_hash_table_find(&all->limits, mark, rule);
  for (size_t at = found != NULL ? found->first : 0; at != 0; at = all->each[at].next)
    if (covers(all->each[at].limiter, limiter, rule) &&
        covers(limiter, all->each[at].limiter, rule))
      return true;
  if (!weir_array_grow(&all->each, &all->room, all->count + 2, sizeof *all->each)) return false;
  size_t added = ++all->count;
  all->each[added] = (layout){.limiter = limiter, .place = place};
  if (found != NULL) all->each[found->last].next = added;
  if (found == NULL) found = weir_hash_table_add(&all->limits, mark);
  if (found == NULL) return false;
  if (found->first == 0) *found = (limit){.rule = *rule, .first = added};
  found->last = added;
  return true;
}

static bool add_layouts(layouts *all, const weir_limiter *limiter, size_t place) {
  for (size_t i = 0; limiter != NULL && i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = rule_at(limiter, i);
    if (!add_layout(all, limiter, place, &rule)) return false;
  }
  return true;
}

/* The first limiter that has kin of rule `one` of `tier`, and counts apart from it; NULL: there is none. */
static const layout *find_apart(const layouts *all, const weir_limiter *tier, size_t *one) {
  const layout *apart = NULL;
  for (size_t i = 0; i < weir_limiter_rules(tier); i++) {
    weir_rule_info rule = rule_at(tier, i);
    const limit *found = weir_hash_table_find(&all->limits, mark_of(&all->limits, &rule), &rule);
    size_t at = found != NULL ? found->first : 0;
    while (at != 0 && has_counts(all->each[at].limiter, rule.tag))
      at = all->each[at].next;
    if (at == 0 || (apart != NULL && apart->place <= all->each[at].place)) continue;
    apart = &all->each[at];
    *one = i;
  }
  return apart;
}

static void warn_of_tier(const layouts *all, const weir_limiter *tier, weir_config_place place,
                         const char *path, weir_config_faults *faults) {
  size_t one = 0;
  weir_message said;
  const layout *apart = find_apart(all, tier, &one);
  if (apart == NULL) return;
  weir_rule_info rule = rule_at(tier, one);
  if (!weir_limiter_tell_apart(tier, one, apart->limiter, find_kin(apart->limiter, &rule), &said))
    return;
  weir_config_warn(faults, place, path,
                   "%s %s; a key that moves from one to the other may have both limits in full",
                   rule.text, said.text);
}

/* Without memory it warns of no more. */
static void warn_of_tiers(const weir_named *named, weir_config_faults *faults) {
  char path[2 * WEIR_CONFIG_NAME_MOST + 32];
  const weir_config_limiter *config = named->config;
  layouts all = {.count = 0};
  weir_hash_table_init(&all.limits, sizeof(limit), is_limit, NULL);
  bool goes_on = add_layouts(&all, named->own, 0);
  for (size_t i = 0; goes_on && i < config->tier_count; i++) {
    const weir_limiter *tier = named->tiers[i];
    if (tier == NULL) continue;
    snprintf(path, sizeof path, "limiters.%s.tiers.%s", config->name, config->tiers[i].name);
    warn_of_tier(&all, tier, config->tiers[i].place, path, faults);
    goes_on = add_layouts(&all, tier, i + 1);
  }
  weir_hash_table_clean_up(&all.limits);
  free(all.each);
}

/* Whoever looks at a server later sees them as well. Without memory there are none to see. */
static void keep_warnings(weir_registry *fresh, const weir_config_faults *warnings) {
  if (warnings == NULL || warnings->kept == 0) return;
  fresh->warnings = calloc(warnings->kept, sizeof *fresh->warnings);
  if (fresh->warnings == NULL) return;
  fresh->warning_count = warnings->kept;
  for (size_t i = 0; i < warnings->kept; i++)
    fresh->warnings[i] = warnings->lines[i].text;
}

void weir_registry_warn(const weir_registry *old, weir_registry *fresh,
                        weir_config_faults *faults) {
  for (size_t i = 0; i < fresh->named_count; i++)
    if (fresh->named[i].tiers != NULL) warn_of_tiers(&fresh->named[i], faults);
  keep_warnings(fresh, faults->warnings);
  if (old != NULL) compare_all(old, fresh, faults);
}
