/* Scopes: the small worlds that are explored to the end. */
#ifndef MODEL_SCOPES_H
#define MODEL_SCOPES_H

#include "model.h"

/* The edge E as the clocks see it: the leader is 4 us ahead of real time, the late one 4 behind,
 * and e is 16. The late clock reads E-17 and E-16 (from here on it looks one cell ahead), the
 * leader E-1 and E, the late one E-1 and E, the leader E+15 and E+16 (from here on it caches).
 * Where 8 us lie between two instants, an operation sent at the first may just land at the second.
 */
#define EDGE -12, -4, 3, 11
#define AHEAD -13, -12, -5, -4, 3
#define BEHIND 3, 4, 11, 12
#define WHOLE_EDGE -13, -12, -5, -4, 3, 4, 11, 12

/* Storage layouts, by the number of processes: see src/limits/rule/layout.c. */
enum { LANES_4 = 3, LANES_2 = 100000 };
#define LANES_1 UINT32_MAX

/* How long a key of the scopes of renewals lives beyond what it needs: a third of 2 s for whole
 * seconds, twice a full bucket and the longest wait, 4x. */
#define SPARE ((2000000 + 2 * (3 * 2000 + LONGEST_WAIT_US) + 4 * FINAL_US + 2) / 3)

/* One table per file scopes_*.c. */
extern const struct scope window_scopes[];
extern const size_t window_scope_count;
extern const struct scope cells_scopes[];
extern const size_t cells_scope_count;
extern const struct scope bucket_scopes[];
extern const size_t bucket_scope_count;
extern const struct scope quota_scopes[];
extern const size_t quota_scope_count;
extern const struct scope log_scopes[];
extern const size_t log_scope_count;
extern const struct scope stack_scopes[];
extern const size_t stack_scope_count;
extern const struct scope cluster_scopes[];
extern const size_t cluster_scope_count;
extern const struct scope outage_scopes[];
extern const size_t outage_scope_count;
extern const struct scope deadline_scopes[];
extern const size_t deadline_scope_count;
extern const struct scope settle_scopes[];
extern const size_t settle_scope_count;
extern const struct scope in_flight_scopes[];
extern const size_t in_flight_scope_count;
extern const struct scope class_scopes[];
extern const size_t class_scope_count;
extern const struct scope shared_scopes[];
extern const size_t shared_scope_count;
extern const struct scope keys_scopes[];
extern const size_t keys_scope_count;
extern const struct scope lease_scopes[];
extern const size_t lease_scope_count;

/* All of them, one after another; NULL behind the last. */
const struct scope *scope_at(size_t number);

/* NULL when there is none of that name. */
const struct scope *scope_find(const char *name);

#endif
