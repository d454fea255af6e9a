/* Words: which of those that are accepted a slip comes nearest to, and lists of them. */
#include <stdio.h>
#include <string.h>

#include <weir/word.h>

enum { WORD_MOST = 32 };

static char lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The distance of Damerau and Levenshtein, in its plain form, where no byte is changed twice.
 * Row by row: row[j] is the distance of the text's first i bytes to the word's first j. */
static size_t measure(const char *text, size_t length, const char *word, size_t word_length) {
  size_t rows[3][WORD_MOST + 1];
  for (size_t j = 0; j <= word_length; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= length; i++) {
    size_t *row = rows[i % 3];
    const size_t *above = rows[(i - 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= word_length; j++) {
      bool same = lower(text[i - 1]) == lower(word[j - 1]);
      row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
      bool swapped = i > 1 && j > 1 && lower(text[i - 1]) == lower(word[j - 2]) &&
                     lower(text[i - 2]) == lower(word[j - 1]);
      if (swapped) row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
    }
  }
  return rows[length % 3][word_length];
}

bool weir_word_nearer(const char *text, size_t length, const char *word, size_t *distance) {
  size_t word_length = strlen(word);
  if (length == 0 || length > WORD_MOST || word_length > WORD_MOST) return false;
  size_t most = (word_length + 2) / 3;
  size_t measured = measure(text, length, word, word_length);
  if (measured > most || measured >= *distance) return false;
  *distance = measured;
  return true;
}

void weir_word_list(char *list, size_t size, const char *word, bool last) {
  static const char cut[] = ", ...";
  size_t used = strlen(list);
  if (used >= strlen(cut) && strcmp(list + used - strlen(cut), cut) == 0) return;
  const char *separator = used == 0 ? "" : last ? " and " : ", ";
  size_t reserved = last ? 1 : sizeof cut; /* an end behind the word, or before it the dots */
  bool fits = used + strlen(separator) + strlen(word) + reserved <= size;
  snprintf(list + used, size - used, "%s%s", fits ? separator : "", fits ? word : cut);
}
