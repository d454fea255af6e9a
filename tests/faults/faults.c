/* weir_faults [--strict] [--fault TEXT] [--store TEXT] [--deadline MS]
 *
 * Starts its own servers, makes them fail under load in every way that it knows, and prints what
 * callers saw, as a table for docs/failure.md. Exit code 0 only if every cell is as promised:
 *
 *   never over the bound of docs/guarantees.md, in any interval of stamps
 *   no answer by a store that cannot have one; the policy's instead; the store's again when it is
 *   back
 *   no call lasts longer than its deadline and `grace`
 *
 * Without --strict the stores are hit side by side, briefly, and the grace is what a busy machine
 * needs: this is for tests. With it they are hit one after another, for longer; the grace is 5 ms
 * for 999 calls of 1000, and the store must be in use again within a second. --fault and --store:
 * only the rows and columns whose names contain the text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/ground.h"
#include "faults/resolver.h"
#include "faults/rows.h"
#include "faults/run.h"

static const settings quick = {.processes = 2,
                               .threads = 3,
                               .deadline_us = 20 * MS_US,
                               .pause_us = 2 * MS_US,
                               .warm_us = 300 * MS_US,
                               .hold_us = 600 * MS_US,
                               .after_us = 600 * MS_US,
                               .grace_us = 2 * SECOND_US};

static const settings strict = {.processes = 3,
                                .threads = 4,
                                .deadline_us = 20 * MS_US,
                                .pause_us = 1 * MS_US,
                                .warm_us = 1000 * MS_US,
                                .hold_us = 3000 * MS_US,
                                .after_us = 2000 * MS_US,
                                .grace_us = 5 * MS_US,
                                .is_strict = true};

static struct {
  settings how;
  const char *fault, *store; /* parts of names */
} asked = {.fault = "", .store = ""};

/* The worst that the machine did to threads that slept, of all cells. */
static struct { int64_t p999_us, longest_us; } late;

static site sites[SITE_KINDS], evicting[SITE_KINDS];

static void note_lateness(const cell *c) {
  if (c->late_p999_us > late.p999_us) late.p999_us = c->late_p999_us;
  if (c->late_us > late.longest_us) late.longest_us = c->late_us;
}

static void print_cell(const cell *c) {
  printf(" %s%.1f (%.1f) ms<br>", c->bad != NULL ? "**" : "", (double)c->longest_us / 1000.0,
         (double)c->p999_us / 1000.0);
  printf("%zu, %zu, %zu<br>", c->by_source[WEIR_SOURCE_STORE], c->by_source[WEIR_SOURCE_LOCAL],
         c->by_source[WEIR_SOURCE_FALLBACK]);
  printf("%" PRId64 " of %" PRId64, c->store.admitted, c->store.bound);
  if (c->fallback.admitted > 0)
    printf("; %" PRId64 " of %" PRId64, c->fallback.admitted, c->fallback.bound);
  if (c->row->is_silence) printf("<br>back in %.0f ms", (double)c->back_us / 1000.0);
  if (c->opened_us > 0) printf("<br>opening: %.1f s", (double)c->opened_us / 1e6);
  if (c->evicted > 0) printf("<br>%zu evicted", c->evicted);
  if (c->keys_lost > 0) printf("<br>%" PRIu64 " noticed", c->keys_lost);
  if (c->late > 0) printf("<br>%zu late", c->late);
  printf("%s%s |", c->bad != NULL ? "<br>** " : "", c->bad != NULL ? c->bad : "");
}

static bool is_asked_for(const char *name, const char *part) {
  return strstr(name, part) != NULL;
}

/* Servers start when the first row needs them. */
static const site *find_site(const fault *row, site_kind kind) {
  site *found = row->evicts ? &evicting[kind] : &sites[kind];
  if (found->name == NULL) site_start(found, kind, row->evicts);
  return found;
}

/* A line of the table; false where a cell is not as promised. */
static bool print_row(const fault *row, const cell *cells, size_t count) {
  const cell *next = cells;
  bool good = true;
  printf("| %s |", row->name);
  for (site_kind kind = 0; kind < SITE_KINDS; kind++) {
    if (next == cells + count || next->place->kind != kind) {
      printf(" - |");
      continue;
    }
    print_cell(next);
    note_lateness(next);
    good = good && next->bad == NULL;
    next++;
  }
  printf("\n");
  fflush(stdout);
  return good;
}

static bool run_row(const fault *row) {
  static cell cells[SITE_KINDS];
  const site *there[SITE_KINDS];
  size_t count = 0;
  for (site_kind kind = 0; kind < SITE_KINDS; kind++)
    if (run_applies(row, kind) && is_asked_for(site_name(kind), asked.store))
      there[count++] = find_site(row, kind);
  if (!asked.how.is_strict) run_fault(row, there, count, &asked.how, cells);
  for (size_t i = 0; i < count && asked.how.is_strict; i++)
    run_fault(row, &there[i], 1, &asked.how, &cells[i]);
  return print_row(row, cells, count);
}

static void print_head(void) {
  printf("|  |");
  for (site_kind kind = 0; kind < SITE_KINDS; kind++)
    printf(" %s |", site_name(kind));
  printf("\n|---|");
  for (site_kind kind = 0; kind < SITE_KINDS; kind++)
    printf("---|");
  printf("\n");
}

static void read_arguments(int count, char **arguments) {
  asked.how = quick;
  for (int i = 1; i < count; i++)
    if (strcmp(arguments[i], "--strict") == 0) asked.how = strict;
  for (int i = 1; i < count; i++) {
    const char *value = i + 1 < count ? arguments[i + 1] : NULL;
    if (strcmp(arguments[i], "--strict") == 0) continue;
    if (strcmp(arguments[i], "--fault") == 0 && value != NULL)
      asked.fault = value;
    else if (strcmp(arguments[i], "--store") == 0 && value != NULL)
      asked.store = value;
    else if (strcmp(arguments[i], "--deadline") == 0 && value != NULL)
      asked.how.deadline_us = strtol(value, NULL, 10) * MS_US;
    else
      give_up("usage: weir_faults [--strict] [--fault TEXT] [--store TEXT] [--deadline MS]");
    i++;
  }
  if (asked.how.deadline_us < MS_US) give_up("--deadline: accepted are 1 and more milliseconds");
}

int main(int count, char **arguments) {
  bool good = true;
  size_t run = 0;
  int64_t begin_us = weir_monotonic_us();
  read_arguments(count, arguments);
  resolver_begin();
  print_head();
  for (size_t i = 0; i < row_count; i++) {
    if (!is_asked_for(rows[i].name, asked.fault)) continue;
    run++;
    good = run_row(&rows[i]) && good;
  }
  if (run == 0) give_up("--fault %s: no row has such a name", asked.fault);
  printf("\nthreads that slept were woken up to %.1f ms late, %.1f ms at p99.9 of the worst cell\n",
         (double)late.longest_us / 1000.0, (double)late.p999_us / 1000.0);
  printf("%s, in %.0f s\n", good ? "every cell is as promised" : "NOT AS PROMISED: see **",
         (double)(weir_monotonic_us() - begin_us) / 1e6);
  return good ? 0 : 1;
}
