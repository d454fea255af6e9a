/* The kinds of rules: the one table that says what each of them is to all but its algorithm. Code
 * that must tell kinds apart asks one of these questions; a kind's name stands nowhere else but
 * in src/limits/algorithm. */
#include "rule/kind.h"

const weir_kind weir_kinds[WEIR_RULE_KINDS] = {
    [WEIR_FIXED_WINDOW] = {"fixed-window", "fw",
                           WEIR_KIND_COUNTS | WEIR_KIND_LEASES | WEIR_KIND_SETTLES, 1,
                           WEIR_COUNT_LIMIT_MOST},
    [WEIR_SLIDING_WINDOW] = {"sliding-window", "sw",
                             WEIR_KIND_COUNTS | WEIR_KIND_SLIDES | WEIR_KIND_CELLS |
                                 WEIR_KIND_LEASES | WEIR_KIND_SETTLES,
                             4, WEIR_COUNT_LIMIT_MOST},
    [WEIR_SLIDING_LOG] = {"sliding-log", "log", WEIR_KIND_SLIDES | WEIR_KIND_ONE, 1,
                          WEIR_LOG_LIMIT_MOST},
    [WEIR_QUOTA] = {"quota", "quota",
                    WEIR_KIND_COUNTS | WEIR_KIND_OPENED | WEIR_KIND_LEASES | WEIR_KIND_SETTLES, 1,
                    WEIR_COUNT_LIMIT_MOST},
    [WEIR_TOKEN_BUCKET] = {"token-bucket", "tb",
                           WEIR_KIND_MOVES | WEIR_KIND_LEASES | WEIR_KIND_SETTLES, 1,
                           WEIR_LIMIT_MOST},
    [WEIR_LEAKY_BUCKET] = {"leaky-bucket", "lb", WEIR_KIND_MOVES | WEIR_KIND_PLACES, 1,
                           WEIR_LIMIT_MOST},
    [WEIR_IN_FLIGHT] = {"in-flight", "if", WEIR_KIND_HELD | WEIR_KIND_LEASES, 1, WEIR_LIMIT_MOST},
    [WEIR_SHARED_WINDOW] = {"shared-window", "sh",
                            WEIR_KIND_SLIDES | WEIR_KIND_SHARED | WEIR_KIND_LEASES |
                                WEIR_KIND_SETTLES,
                            1, WEIR_LIMIT_MOST},
};

const weir_rule_kind weir_kind_usual = WEIR_SLIDING_WINDOW;

const char *weir_rule_kind_name(weir_rule_kind kind) {
  return weir_kinds[kind].name;
}

bool weir_rule_keeps_counts(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_COUNTS;
}

bool weir_rule_slides(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_SLIDES;
}

bool weir_rule_has_cells(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_CELLS;
}

bool weir_rule_opens_windows(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_OPENED;
}

bool weir_rule_takes_one(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_ONE;
}

bool weir_rule_moves_in_time(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_MOVES;
}

bool weir_rule_gives_places(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_PLACES;
}

bool weir_rule_settles(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_SETTLES;
}

bool weir_rule_is_held(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_HELD;
}

bool weir_rule_is_shared(const weir_rule *rule) {
  return weir_kinds[rule->kind].traits & WEIR_KIND_SHARED;
}

void weir_rule_count_entries(weir_rule *rule) {
  enum { CELLS_OF_A_LOG = 16 };
  rule->kind = WEIR_SLIDING_WINDOW;
  rule->cells = CELLS_OF_A_LOG;
  rule->strict = true;
}
