/* What there is of one key under one rule, and the same in few bytes.
 *
 * A subject in use is made of arrays with room to grow. Most keys of a large log are asked for
 * seldom: theirs are written down as numbers of variable length, times as distances, until they are
 * used again. Nothing is lost by it.
 */
#ifndef WEIR_SIMULATE_PACK_H
#define WEIR_SIMULATE_PACK_H

#include "simulate/driver.h"
#include "simulate/measure.h"

/* One key under one stack of rules. */
typedef struct weir_subject {
  weir_driven_key driven;
  weir_exact *exact;  /* one for each rule of the stack */
  int64_t difference; /* cost that the stack has admitted above what exact windows have */
  size_t weight;      /* weir_subject_weight() when it was last looked at; its user's */
} weir_subject;

/* False: not enough memory. */
bool weir_subject_init(weir_subject *subject, const weir_driver *driver);
void weir_subject_clean_up(weir_subject *subject, const weir_driver *driver);

/* As if it were new; what it has for few entries stays with it. */
void weir_subject_clear(weir_subject *subject, const weir_driver *driver);

/* Bytes of what grows with the requests that count. */
size_t weir_subject_weight(const weir_subject *subject, const weir_driver *driver);

/* Bytes that are written, and where to; begins zeroed. */
typedef struct weir_packer {
  unsigned char *bytes;
  size_t length;
  size_t room;
  bool failed; /* for want of memory */
} weir_packer;

void weir_packer_clean_up(weir_packer *packer);

/* A number, short where it is small or near `base`. Behind the bytes that are kept, so many more must
 * stand: they are read, and do not matter. */
enum { WEIR_PACK_NUMBER_MOST = 9 };
void weir_pack_number(weir_packer *packer, int64_t value, int64_t base);
int64_t weir_unpack_number(const unsigned char **at, int64_t base);

/* All but `difference`. `base_us`: a time near those of the subject. */
void weir_subject_pack(const weir_subject *subject, const weir_driver *driver, int64_t base_us,
                       weir_packer *packer);

/* Into a clear subject, from where pack() has written with the same base; moves *at behind it.
 * False: not enough memory. */
bool weir_subject_unpack(weir_subject *subject, const weir_driver *driver, int64_t base_us,
                         const unsigned char **at);

#endif
