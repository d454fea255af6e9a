/* groups: limiters whose requests are one decision. Whether their rules can be charged so is not known
 * here: that is src/server/registry. */
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"

enum { GROUPS_MOST = 1000, MEMBERS_LEAST = 2 };

/* Limiters in the order of their names, to be searched: there may be many of them. */
static int compare_names(const void *a, const void *b) {
  const weir_config_limiter *const *first = a;
  const weir_config_limiter *const *second = b;
  return strcmp((*first)->name, (*second)->name);
}

static int compare_wanted(const void *name, const void *limiter) {
  return strcmp(name, (*(const weir_config_limiter *const *)limiter)->name);
}

static const weir_config_limiter **sort_limiters(const weir_config *config) {
  const weir_config_limiter **sorted = calloc(config->limiter_count + 1, sizeof *sorted);
  for (size_t i = 0; sorted != NULL && i < config->limiter_count; i++)
    sorted[i] = &config->limiters[i];
  if (sorted != NULL) qsort(sorted, config->limiter_count, sizeof *sorted, compare_names);
  return sorted;
}

/* NULL: none has this name. */
static const weir_config_limiter *find(const weir_config *config,
                                       const weir_config_limiter *const *sorted,
                                       const weir_node *node) {
  if (strlen(node->text) != node->length) return NULL;
  const weir_config_limiter *const *found =
      bsearch(node->text, sorted, config->limiter_count, sizeof *sorted, compare_wanted);
  return found != NULL ? *found : NULL;
}

static const char *limiter_at(const void *list, size_t index) {
  const weir_config *config = list;
  return index < config->limiter_count ? config->limiters[index].name : NULL;
}

static bool has_member(const weir_config_group *group, size_t limiter) {
  for (size_t i = 0; i < group->member_count; i++)
    if (group->members[i].limiter == limiter) return true;
  return false;
}

static void read_members(weir_reader *reader, const weir_node *node,
                         const weir_config_limiter *const *sorted, weir_config_group *group) {
  const weir_config *config = reader->config;
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  if (node->length < MEMBERS_LEAST || node->length > WEIR_CONFIG_MEMBERS_MOST) {
    weir_fault(reader, node, "a group of %u, accepted are %d to %d limiters", node->length,
               MEMBERS_LEAST, WEIR_CONFIG_MEMBERS_MOST);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    if (!weir_expect(reader, item->value, WEIR_NODE_SCALAR)) continue;
    const weir_config_limiter *limiter = find(config, sorted, item->value);
    if (limiter == NULL) {
      weir_fault_unknown(reader, item->value, "no limiter", config, limiter_at);
      continue;
    }
    size_t index = (size_t)(limiter - config->limiters);
    if (has_member(group, index))
      weir_fault(reader, item->value, "limiter \"%s\" stands there twice, accepted is each once",
                 limiter->name);
    else
      group->members[group->member_count++] =
          (weir_config_member){index, weir_place(reader, item->value)};
  }
}

void weir_read_groups(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_MAPPING, GROUPS_MOST, "groups")) return;
  config->groups = weir_arena_take(reader->arena, node->length, sizeof *config->groups);
  const weir_config_limiter **sorted = sort_limiters(config);
  if (sorted == NULL) reader->arena->failed = true;
  if (sorted == NULL || config->groups == NULL) {
    free(sorted);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_group *group = &config->groups[config->group_count];
    if (!weir_read_name(reader, item->key)) continue;
    size_t length = weir_path_enter(reader, item->key->text);
    *group = (weir_config_group){
        .name = weir_arena_copy(reader->arena, item->key->text, item->key->length)};
    if (find(config, sorted, item->key) != NULL)
      weir_fault(reader, item->key, "a limiter has this name, accepted is one that none has");
    read_members(reader, item->value, sorted, group);
    weir_path_leave(reader, length);
    if (group->name == NULL) break;
    config->group_count++;
  }
  free(sorted);
}
