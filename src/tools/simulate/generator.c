/* Traffic by recipe, the same on every machine.
 *
 * Each key is a stream that knows its next request and how to find the one behind it, by chance of
 * its own. A heap has the streams with the earliest first: to take a request is to advance that one
 * and to let it sink to where it belongs. */
#include "simulate/generator.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "number.h"
#include "random.h"

#define DAY_US (INT64_C(24) * 3600 * 1000000)

/* A Saturday's midnight in 2020, from which every period is counted. */
#define BEGIN_US (INT64_C(1577836800) * 1000000)

/* A page is so many requests, so far apart on average; an edge's are this far apart at most. */
enum { KEY_BYTES = 24, PAGE_REQUESTS = 10, PAGE_GAP_US = 40000, EDGE_GAP_US = 1000 };

/* One key's requests to come. */
struct stream {
  int64_t next_us;
  int64_t until_us; /* bursts: the end of this one. pages: requests left. edges: how far we are */
  uint64_t random;
  int64_t number; /* of the key */
};

typedef enum kind { UNIFORM, POISSON, BURSTS, DIURNAL, PAGES, BOUNDARY, PACED, KINDS } kind;

static const char *const kinds[KINDS] = {"uniform", "poisson",  "bursts", "diurnal",
                                         "pages",   "boundary", "paced"};

struct weir_generator {
  kind kind;
  int64_t requests; /* still to come */
  int64_t keys;
  int64_t load; /* percent */
  int64_t seed;
  int64_t classes; /* percent */
  const weir_stack *stack;
  uint64_t random; /* of classes alone, so that times are the same without them */
  int64_t limit;
  int64_t period_us;
  double gap_us;       /* mean distance of a key's requests */
  struct stream *heap; /* the earliest first */
  char key[KEY_BYTES];
  char class_name[WEIR_NAME_MOST + 1];
};

/* --- the next request --------------------------------------------------------------------------
 */

/* Above 0, at most 1. */
static double draw_share(uint64_t *state) {
  return weir_random_fraction(state) + 0x1p-53;
}

/* Exponentially distributed; never 0, so that time goes on. */
static int64_t draw_gap(uint64_t *state, double mean_us) {
  return 1 + (int64_t)(-log(draw_share(state)) * mean_us);
}

/* A limit's worth of requests before the edge of a period, close together. Behind it as many follow
 * as closely, or twice as many evenly, before the key rests until its turn begins anew. until_us
 * counts them. */
static void advance_edges(const weir_generator *generator, struct stream *stream) {
  bool paced = generator->kind == PACED;
  int64_t limit = generator->limit, period_us = generator->period_us;
  int64_t periods = paced ? 3 : 2; /* of a turn, which has as many times the limit */
  int64_t turn = stream->until_us / (periods * limit), step = stream->until_us % (periods * limit);
  int64_t edge_us = BEGIN_US / period_us * period_us +
                    (periods * turn + 1 + stream->number % periods) * period_us;
  int64_t gap_us = period_us / 20 / limit;
  if (gap_us > EDGE_GAP_US) gap_us = EDGE_GAP_US;
  if (step < limit)
    stream->next_us = edge_us - 1 - (limit - 1 - step) * gap_us;
  else
    stream->next_us = edge_us + (step - limit) * (paced ? period_us / limit / 2 : gap_us);
  stream->until_us++;
}

/* Moves the stream on to its key's next request. */
static void advance(const weir_generator *generator, struct stream *stream) {
  const double turn = 6.283185307179586;
  double gap_us = generator->gap_us, on_us = (double)generator->period_us / 2, share;
  switch (generator->kind) {
    case UNIFORM:
      stream->next_us += 1 + (int64_t)gap_us;
      break;
    case POISSON:
      stream->next_us += draw_gap(&stream->random, gap_us);
      break;
    case BURSTS:
      stream->next_us += draw_gap(&stream->random, gap_us / 4);
      while (stream->next_us > stream->until_us) {
        int64_t begin_us = stream->until_us + draw_gap(&stream->random, 3 * on_us);
        stream->until_us = begin_us + draw_gap(&stream->random, on_us);
        stream->next_us = begin_us + draw_gap(&stream->random, gap_us / 4);
      }
      break;
    case DIURNAL: /* twice the rate, thinned out to what the hour asks for */
      do {
        stream->next_us += draw_gap(&stream->random, gap_us / 2);
        share = (1 - 0.95 * cos(turn * (double)(stream->next_us % DAY_US) / (double)DAY_US)) / 2;
      } while (draw_share(&stream->random) > share);
      break;
    case PAGES:
      if (draw_share(&stream->random) * PAGE_REQUESTS > 1)
        stream->next_us += draw_gap(&stream->random, PAGE_GAP_US);
      else
        stream->next_us += draw_gap(&stream->random, gap_us * PAGE_REQUESTS);
      break;
    default: /* BOUNDARY, PACED */
      advance_edges(generator, stream);
      break;
  }
}

/* --- text --------------------------------------------------------------------------------------
 */

static bool read_option(weir_generator *generator, const char *text, size_t length,
                        weir_message *message) {
  const struct {
    const char *name;
    int64_t most;
    int64_t *value;
  } options[] = {{"requests=", 10000000000, &generator->requests},
                 {"keys=", 1000000, &generator->keys},
                 {"load=", 100000, &generator->load},
                 {"seed=", 1000000000, &generator->seed},
                 {"classes=", 100, &generator->classes}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    size_t name = strlen(options[i].name);
    int64_t value;
    if (length < name || memcmp(text, options[i].name, name) != 0) continue;
    if (weir_number_read(text + name, length - name, options[i].most, &value) && value >= 1) {
      *options[i].value = value;
      return true;
    }
    weir_message_set(message, "\"%.*s\": a whole number from 1 to %" PRId64 " is accepted",
                     (int)(length < 60 ? length : 60), text, options[i].most);
    return false;
  }
  weir_message_set(message,
                   "\"%.*s\" is no option; requests, keys, load, seed and classes are accepted",
                   (int)(length < 40 ? length : 40), text);
  return false;
}

/* KIND[:option=value,...] */
static bool read_text(weir_generator *generator, const char *text, weir_message *message) {
  size_t length = strcspn(text, ":");
  int found = 0;
  while (found < KINDS &&
         (strlen(kinds[found]) != length || memcmp(kinds[found], text, length) != 0))
    found++;
  if (found == KINDS) {
    weir_message_set(message,
                     "\"%.*s\" is no kind; uniform, poisson, bursts, diurnal, pages, boundary and "
                     "paced are accepted",
                     (int)(length < 40 ? length : 40), text);
    return false;
  }
  generator->kind = (kind)found;
  for (const char *at = text + length; *at != '\0'; at += length) {
    length = strcspn(++at, ",");
    if (!read_option(generator, at, length, message)) return false;
  }
  return true;
}

/* --- the heap ----------------------------------------------------------------------------------
 */

/* Requests at the same moment come in the order of the keys. */
static bool is_earlier(const struct stream *a, const struct stream *b) {
  return a->next_us != b->next_us ? a->next_us < b->next_us : a->number < b->number;
}

static void sink(weir_generator *generator, int64_t at) {
  struct stream *heap = generator->heap;
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= generator->keys) return;
    if (child + 1 < generator->keys && is_earlier(&heap[child + 1], &heap[child])) child++;
    if (!is_earlier(&heap[child], &heap[at])) return;
    struct stream moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
    at = child;
  }
}

weir_generator *weir_generator_create(const char *text, const weir_stack *stack,
                                      weir_message *message) {
  const weir_rule *rule = &stack->rules[0];
  weir_generator *generator = calloc(1, sizeof *generator);
  if (generator == NULL) {
    weir_message_set(message, "there is not enough memory");
    return NULL;
  }
  *generator = (weir_generator){.requests = 100000,
                                .keys = 100,
                                .load = 120,
                                .seed = 1,
                                .stack = stack,
                                .limit = rule->limit,
                                .period_us = rule->period_us};
  bool read = read_text(generator, text, message);
  if (read && generator->classes > 0 && stack->class_count == 0) {
    weir_message_set(message, "classes= needs a rule that has some, the first");
    read = false;
  }
  if (read) {
    generator->heap = calloc((size_t)generator->keys, sizeof *generator->heap);
    if (generator->heap == NULL) weir_message_set(message, "there is not enough memory");
  }
  if (generator->heap == NULL) {
    free(generator);
    return NULL;
  }

  generator->gap_us =
      (double)generator->period_us * 100 / ((double)generator->limit * (double)generator->load);
  bool counts = generator->kind == BOUNDARY || generator->kind == PACED;
  uint64_t seeds = (uint64_t)generator->seed;
  generator->random = ~seeds;
  for (int64_t i = 0; i < generator->keys; i++) {
    struct stream *stream = &generator->heap[i];
    *stream = (struct stream){.random = weir_random_next(&seeds), .number = i};
    stream->next_us = BEGIN_US + (int64_t)(draw_share(&stream->random) * generator->gap_us);
    stream->until_us = counts ? 0 : stream->next_us;
    advance(generator, stream);
  }
  for (int64_t i = generator->keys / 2 - 1; i >= 0; i--)
    sink(generator, i);
  return generator;
}

void weir_generator_destroy(weir_generator *generator) {
  if (generator == NULL) return;
  free(generator->heap);
  free(generator);
}

static void draw_class(weir_generator *generator) {
  generator->class_name[0] = '\0';
  if (generator->classes == 0) return;
  double share = weir_random_fraction(&generator->random) * 100 / (double)generator->classes;
  if (share < 1)
    weir_stack_read_class(generator->stack, (size_t)(share * (double)generator->stack->class_count),
                          generator->class_name);
}

bool weir_generator_next(weir_generator *generator, weir_arrival *arrival) {
  struct stream *first = &generator->heap[0];
  if (generator->requests == 0) return false;
  generator->requests--;
  arrival->time_us = first->next_us;
  arrival->key = generator->key;
  arrival->class_name = generator->class_name;
  draw_class(generator);
  arrival->key_length =
      (size_t)snprintf(generator->key, sizeof generator->key, "key%" PRId64, first->number + 1);
  advance(generator, first);
  sink(generator, 0);
  return true;
}

int64_t weir_generator_left(const weir_generator *generator) {
  return generator->requests;
}
