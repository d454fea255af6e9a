#include <string.h>

#include "rule/parse.h"

bool weir_rule_piece_is(weir_rule_piece piece, const char *word) {
  return piece.length == strlen(word) && memcmp(piece.text, word, piece.length) == 0;
}

bool weir_rule_cut(weir_rule_piece *rest, char separator, weir_rule_piece *prefix) {
  const char *end = memchr(rest->text, separator, rest->length);
  *prefix = *rest;
  if (end != NULL) prefix->length = (size_t)(end - rest->text);
  size_t used = prefix->length + (end != NULL);
  rest->text += used;
  rest->length -= used;
  return end != NULL;
}

int64_t weir_rule_number(weir_rule_piece piece, int64_t most) {
  int64_t number = 0;
  if (piece.length == 0) return -1;
  for (size_t i = 0; i < piece.length; i++) {
    if (piece.text[i] < '0' || piece.text[i] > '9') return -1;
    number = number * 10 + (piece.text[i] - '0');
    if (number > most) return -1;
  }
  return number;
}
