#include "mutants.h"

const struct mutant no_mutant = {.name = "none"};
const struct mutant no_mutant_bounded = {.name = "none, sums by INCREX", .bounded = true};
const struct mutant no_mutant_mixed = {
    .name = "none, sums of client 0 by INCREX", .bounded = true, .ignores = true};
const struct mutant no_mutant_withdrawn = {
    .name = "none, sums by INCREX until that is taken away", .bounded = true, .withdraws = true};
const struct mutant no_mutant_contrary = {
    .name = "none, bounds that are too low", .bounded = true, .contrary = true};

const struct mutant *mutant_at(size_t number) {
  const struct {
    const struct mutant *mutants;
    size_t count;
  } tables[] = {
      {window_mutants, window_mutant_count},       {bucket_mutants, bucket_mutant_count},
      {other_mutants, other_mutant_count},         {lease_mutants, lease_mutant_count},
      {outage_mutants, outage_mutant_count},       {cluster_mutants, cluster_mutant_count},
      {deadline_mutants, deadline_mutant_count},   {settle_mutants, settle_mutant_count},
      {in_flight_mutants, in_flight_mutant_count}, {cells_mutants, cells_mutant_count},
      {class_mutants, class_mutant_count},         {bound_mutants, bound_mutant_count},
      {keys_mutants, keys_mutant_count},           {shared_mutants, shared_mutant_count},
  };
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
    if (number < tables[i].count) return &tables[i].mutants[number];
    number -= tables[i].count;
  }
  return NULL;
}
