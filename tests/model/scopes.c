#include "scopes.h"

#include <string.h>

const struct scope *scope_at(size_t number) {
  const struct {
    const struct scope *scopes;
    size_t count;
  } tables[] = {
      {window_scopes, window_scope_count},       {bucket_scopes, bucket_scope_count},
      {quota_scopes, quota_scope_count},         {log_scopes, log_scope_count},
      {stack_scopes, stack_scope_count},         {lease_scopes, lease_scope_count},
      {outage_scopes, outage_scope_count},       {cluster_scopes, cluster_scope_count},
      {deadline_scopes, deadline_scope_count},   {settle_scopes, settle_scope_count},
      {in_flight_scopes, in_flight_scope_count}, {cells_scopes, cells_scope_count},
      {class_scopes, class_scope_count},         {keys_scopes, keys_scope_count},
      {shared_scopes, shared_scope_count},
  };
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    if (number < tables[i].count) return &tables[i].scopes[number];
    number -= tables[i].count;
  }
  return NULL;
}

const struct scope *scope_find(const char *name) {
  const struct scope *scope;
  for (size_t i = 0; (scope = scope_at(i)) != NULL; i++)
    if (strcmp(scope->name, name) == 0) return scope;
  return NULL;
}
