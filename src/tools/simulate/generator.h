/* Made-up traffic, the same on every machine for the same text. */
#ifndef WEIR_SIMULATE_GENERATOR_H
#define WEIR_SIMULATE_GENERATOR_H

#include "rule/rule.h"

typedef struct weir_generator weir_generator;

typedef struct weir_arrival {
  int64_t time_us;
  const char *key; /* good until the next one */
  size_t key_length;
  const char *class_name; /* of the rule's; "": none */
} weir_arrival;

/* Text: KIND[:option=value,...]. Kinds:
 *
 *   uniform    each key asks at equal distances
 *   poisson    at independent moments
 *   bursts     on and off: four times as fast for a quarter of the time, half a period on average
 *   diurnal    poisson, with a rate that goes from 5 % to 195 % and back within a day
 *   pages      pages of ten requests on average, within some tenths of a second, at independent
 *              moments
 *   boundary   a limit's worth just before the end of every other period, and one just after
 *   paced      a limit's worth at the end of every third period, then twice the limit, evenly, in
 *              the period that follows
 *
 * Options: requests (default 100000), keys (100), load (percent of limit/period that a key asks for
 * on average; 120; not for boundary and paced), seed (1), classes (percent of the requests that are of a
 * class, each as often as another; 0). Limit, period and classes are those of the first rule of `stack`.
 *
 * NULL with a message on error. */
weir_generator *weir_generator_create(const char *text, const weir_stack *stack,
                                      weir_message *message);
void weir_generator_destroy(weir_generator *generator);

/* In order of time. False: there are no more. */
bool weir_generator_next(weir_generator *generator, weir_arrival *arrival);

/* How many requests are still to come. */
int64_t weir_generator_left(const weir_generator *generator);

#endif
