/* A message about a word that is not accepted says which words are, and which one was probably
 * meant. */
#ifndef WEIR_WORD_H
#define WEIR_WORD_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The distance with which a search for the nearest word begins. */
#define WEIR_WORD_FAR ((size_t)-1)

/* Whether `word` is nearer to the text than *distance, which then becomes its own; the nearest of
 * several is the last that was. A distance is how many bytes were left out, added, put in the place
 * of others or swapped with their neighbour. A word is never near of which more than a third would
 * have been mistyped, nor one that is longer than 32 bytes. Upper and lower case are the same. */
WEIR_EXPORT bool weir_word_nearer(const char *text, size_t length, const char *word,
                                  size_t *distance);

/* Appends a word to a list of `size` bytes that begins as "": "a", "a, b", and with `last` "a, b and
 * c". A word that would not leave room for more is left out, and so are those behind it: the list
 * then ends in "...". `size` is at least 8. */
WEIR_EXPORT void weir_word_list(char *list, size_t size, const char *word, bool last);

#ifdef __cplusplus
}
#endif

#endif
