/* What the files of this folder share while they read a rule's text. */
#ifndef WEIR_RULE_PARSE_H
#define WEIR_RULE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/rule.h"

/* A piece of the caller's text. */
typedef struct weir_rule_piece {
  const char *text;
  size_t length;
} weir_rule_piece;

enum { WEIR_RULE_SHOW_MOST = 80 };

/* For "%.*s": as much of a piece as a message can bear. */
#define WEIR_RULE_SHOW(piece) \
  (int)((piece).length < WEIR_RULE_SHOW_MOST ? (piece).length : WEIR_RULE_SHOW_MOST), (piece).text

bool weir_rule_piece_is(weir_rule_piece piece, const char *word);

/* Moves what stands before the first separator from rest to prefix. False, and all of it in prefix,
 * where there is none. */
bool weir_rule_cut(weir_rule_piece *rest, char separator, weir_rule_piece *prefix);

/* Digits only, at most `most`; -1 for anything else. */
int64_t weir_rule_number(weir_rule_piece piece, int64_t most);

/* Room for the names of all algorithms, or of all options, in one list. */
enum { WEIR_RULE_LIST_BYTES = 128 };

/* The algorithms of a set, one bit per weir_rule_kind: "fixed-window and quota". */
void weir_rule_list_kinds(unsigned set, char list[WEIR_RULE_LIST_BYTES]);

/* What a kind is: each bit is a question of rule/rule.h. */
enum weir_kind_trait {
  WEIR_KIND_COUNTS = 1 << 0, /* weir_rule_keeps_counts() */
  WEIR_KIND_SLIDES = 1 << 1, /* weir_rule_slides() */
  WEIR_KIND_CELLS = 1 << 2,  /* weir_rule_has_cells() */
  WEIR_KIND_OPENED = 1 << 3, /* weir_rule_opens_windows() */
  WEIR_KIND_ONE = 1 << 4,    /* weir_rule_takes_one() */
  WEIR_KIND_MOVES = 1 << 5,  /* weir_rule_moves_in_time() */
  WEIR_KIND_PLACES = 1 << 6, /* weir_rule_gives_places() */
  WEIR_KIND_LEASES = 1 << 7  /* lease= is accepted */
};

/* Whether a kind has all of these traits and none of those. */
bool weir_rule_kind_has(weir_rule_kind kind, unsigned all, unsigned none);

/* "fw": what the tag of its counters begins with. */
const char *weir_rule_kind_tag(weir_rule_kind kind);

/* Of a rule without cells=. */
int weir_rule_default_cells(weir_rule_kind kind);

/* The largest limit. */
int64_t weir_rule_limit_most(weir_rule_kind kind);

/* Reads one option, like "cells=4", into a rule whose kind is known. `seen` begins with 0 and lasts
 * for the rule. */
weir_status weir_rule_read_option(weir_rule_piece text, unsigned *seen, weir_rule *rule,
                                  weir_message *message);

/* Chooses the unit of time of a bucket whose options have been read. Fails where its rate is too
 * fast or its burst too long. */
weir_status weir_bucket_measure(weir_rule *rule, weir_message *message);

/* Makes of a log the window that never admits more than it: with weighed costs, which a log cannot
 * have, as it keeps an entry for each request. */
void weir_rule_count_entries(weir_rule *rule);

/* Finds the reserve of a rule with lease=, whose options have been read. Fails where the rule
 * cannot have such a lease. */
weir_status weir_rule_measure_lease(weir_rule *rule, weir_message *message);

/* Fails where some rules of a stack have lease= and others not. */
weir_status weir_stack_check_leases(const weir_stack *stack, weir_message *message);

#endif
