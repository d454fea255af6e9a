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

/* Moves what stands before the first separator from rest to front. False, and all of it in front,
 * where there is none. */
bool weir_rule_cut(weir_rule_piece *rest, char separator, weir_rule_piece *front);

/* Digits only, at most `most`; -1 for anything else. */
int64_t weir_rule_number(weir_rule_piece piece, int64_t most);

/* Room for the names of all algorithms, or of all options, in one list. */
enum { WEIR_RULE_LIST_BYTES = 128 };

/* Appends word and suffix to a list that begins as "": "a", "a, b", and with `last` "a, b and c".
 */
void weir_rule_list(char list[WEIR_RULE_LIST_BYTES], const char *word, const char *suffix,
                    bool last);

/* The algorithms of a set, one bit per weir_rule_kind: "fixed-window and quota". */
void weir_rule_list_kinds(unsigned set, char list[WEIR_RULE_LIST_BYTES]);

/* Of a rule without cells=. */
int weir_rule_default_cells(weir_rule_kind kind);

/* Reads one option, like "cells=4", into a rule whose kind is known. `seen` begins with 0 and lasts
 * for the rule. */
weir_status weir_rule_read_option(weir_rule_piece text, unsigned *seen, weir_rule *rule,
                                  weir_message *message);

/* Chooses the unit of time of a bucket whose options have been read. Fails where its rate is too
 * fast or its burst too long. */
weir_status weir_bucket_measure(weir_rule *rule, weir_message *message);

#endif
