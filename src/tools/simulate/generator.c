/* Traffic by recipe, the same on every machine. */
#include "simulate/generator.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "number.h"
#include "simulate/chance.h"

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

typedef void (*advance_function)(const weir_generator *generator, struct stream *stream);

struct weir_generator {
  advance_function advance;
  int64_t requests; /* still to come */
  int64_t keys;
  int64_t load; /* percent */
  int64_t seed;
  int64_t limit;
  int64_t period_us;
  double gap_us;       /* mean distance of a key's requests */
  struct stream *heap; /* the earliest first */
  char key[KEY_BYTES];
};

/* --- chance ------------------------------------------------------------------------------------
 */

/* Exponentially distributed; never 0, so that time goes on. */
static int64_t draw_gap(uint64_t *state, double mean_us) {
  return 1 + (int64_t)(-log(weir_chance_fraction(state)) * mean_us);
}

/* --- kinds -------------------------------------------------------------------------------------
 */

static void advance_uniform(const weir_generator *generator, struct stream *stream) {
  stream->next_us += 1 + (int64_t)generator->gap_us;
}

static void advance_poisson(const weir_generator *generator, struct stream *stream) {
  stream->next_us += draw_gap(&stream->random, generator->gap_us);
}

static void advance_bursts(const weir_generator *generator, struct stream *stream) {
  double on_us = (double)generator->period_us / 2;
  stream->next_us += draw_gap(&stream->random, generator->gap_us / 4);
  while (stream->next_us > stream->until_us) {
    int64_t begin_us = stream->until_us + draw_gap(&stream->random, 3 * on_us);
    stream->until_us = begin_us + draw_gap(&stream->random, on_us);
    stream->next_us = begin_us + draw_gap(&stream->random, generator->gap_us / 4);
  }
}

/* Twice the rate, thinned out to what the hour asks for. */
static void advance_diurnal(const weir_generator *generator, struct stream *stream) {
  const double turn = 6.283185307179586;
  double share;
  do {
    stream->next_us += draw_gap(&stream->random, generator->gap_us / 2);
    share = (1 - 0.95 * cos(turn * (double)(stream->next_us % DAY_US) / (double)DAY_US)) / 2;
  } while (weir_chance_fraction(&stream->random) > share);
}

static void advance_pages(const weir_generator *generator, struct stream *stream) {
  if (weir_chance_fraction(&stream->random) * PAGE_REQUESTS > 1)
    stream->next_us += draw_gap(&stream->random, PAGE_GAP_US);
  else
    stream->next_us += draw_gap(&stream->random, generator->gap_us * PAGE_REQUESTS);
}

/* The `i`th of a limit's worth of requests within a small part of the period. */
static int64_t edge_offset(const weir_generator *generator, int64_t i) {
  int64_t gap_us = generator->period_us / 20 / generator->limit;
  return i * (gap_us < EDGE_GAP_US ? gap_us : EDGE_GAP_US);
}

/* until_us counts: up to L before an edge, up to 2L after it. */
static void advance_boundary(const weir_generator *generator, struct stream *stream) {
  int64_t limit = generator->limit;
  int64_t turn = stream->until_us / (2 * limit), step = stream->until_us % (2 * limit);
  int64_t edge_us = BEGIN_US / generator->period_us * generator->period_us +
                    (2 * turn + 1 + stream->number % 2) * generator->period_us;
  stream->next_us = step < limit ? edge_us - 1 - edge_offset(generator, limit - 1 - step)
                                 : edge_us + edge_offset(generator, step - limit);
  stream->until_us++;
}

/* until_us counts: up to L before an edge, up to 3L in the period after it. */
static void advance_paced(const weir_generator *generator, struct stream *stream) {
  int64_t limit = generator->limit;
  int64_t turn = stream->until_us / (3 * limit), step = stream->until_us % (3 * limit);
  int64_t edge_us = BEGIN_US / generator->period_us * generator->period_us +
                    (3 * turn + 1 + stream->number % 3) * generator->period_us;
  stream->next_us = step < limit ? edge_us - 1 - edge_offset(generator, limit - 1 - step)
                                 : edge_us + (step - limit) * (generator->period_us / limit / 2);
  stream->until_us++;
}

static const struct {
  const char *name;
  advance_function advance;
} kinds[] = {
    {"uniform", advance_uniform}, {"poisson", advance_poisson}, {"bursts", advance_bursts},
    {"diurnal", advance_diurnal}, {"pages", advance_pages},     {"boundary", advance_boundary},
    {"paced", advance_paced},
};

/* --- text --------------------------------------------------------------------------------------
 */

static bool read_kind(weir_generator *generator, const char *text, size_t length,
                      weir_message *message) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strlen(kinds[i].name) != length || memcmp(kinds[i].name, text, length) != 0) continue;
    generator->advance = kinds[i].advance;
    return true;
  }
  weir_message_set(message,
                   "\"%.*s\" is no kind; uniform, poisson, bursts, diurnal, pages, boundary and "
                   "paced are accepted",
                   (int)(length < 40 ? length : 40), text);
  return false;
}

static bool read_option(weir_generator *generator, const char *text, size_t length,
                        weir_message *message) {
  const struct {
    const char *name;
    int64_t most;
    int64_t *value;
  } options[] = {{"requests=", 10000000000, &generator->requests},
                 {"keys=", 1000000, &generator->keys},
                 {"load=", 100000, &generator->load},
                 {"seed=", 1000000000, &generator->seed}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    size_t name = strlen(options[i].name);
    if (length < name || memcmp(text, options[i].name, name) != 0) continue;
    if (weir_number_read(text + name, length - name, options[i].most, options[i].value) &&
        *options[i].value >= 1)
      return true;
    weir_message_set(message, "\"%.*s\": a whole number from 1 to %" PRId64 " is accepted",
                     (int)(length < 60 ? length : 60), text, options[i].most);
    return false;
  }
  weir_message_set(message, "\"%.*s\" is no option; requests, keys, load and seed are accepted",
                   (int)(length < 40 ? length : 40), text);
  return false;
}

static bool read_text(weir_generator *generator, const char *text, weir_message *message) {
  size_t length = strcspn(text, ":");
  if (!read_kind(generator, text, length, message)) return false;
  const char *at = text + length;
  while (*at != '\0') {
    length = strcspn(++at, ",");
    if (!read_option(generator, at, length, message)) return false;
    at += length;
  }
  return true;
}

/* --- the heap ----------------------------------------------------------------------------------
 */

/* At the same moment, in the order of the keys. */
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

static void begin(weir_generator *generator) {
  generator->gap_us =
      (double)generator->period_us * 100 / ((double)generator->limit * (double)generator->load);
  uint64_t seeds = (uint64_t)generator->seed;
  for (int64_t i = 0; i < generator->keys; i++) {
    struct stream *stream = &generator->heap[i];
    *stream = (struct stream){.random = weir_random_next(&seeds), .number = i};
    stream->next_us = stream->until_us =
        BEGIN_US + (int64_t)(weir_chance_fraction(&stream->random) * generator->gap_us);
    if (generator->advance == advance_boundary || generator->advance == advance_paced)
      stream->until_us = 0;
    generator->advance(generator, stream);
  }
  for (int64_t i = generator->keys / 2 - 1; i >= 0; i--)
    sink(generator, i);
}

weir_generator *weir_generator_create(const char *text, const weir_rule *rule,
                                      weir_message *message) {
  weir_generator *generator = calloc(1, sizeof *generator);
  if (generator == NULL) {
    weir_message_set(message, "there is not enough memory");
    return NULL;
  }
  *generator = (weir_generator){.requests = 100000,
                                .keys = 100,
                                .load = 120,
                                .seed = 1,
                                .limit = rule->limit,
                                .period_us = rule->period_us};
  bool read = read_text(generator, text, message);
  if (read) {
    generator->heap = calloc((size_t)generator->keys, sizeof *generator->heap);
    if (generator->heap == NULL) weir_message_set(message, "there is not enough memory");
  }
  if (generator->heap == NULL) {
    free(generator);
    return NULL;
  }
  begin(generator);
  return generator;
}

void weir_generator_destroy(weir_generator *generator) {
  if (generator == NULL) return;
  free(generator->heap);
  free(generator);
}

bool weir_generator_next(weir_generator *generator, weir_arrival *arrival) {
  struct stream *first = &generator->heap[0];
  if (generator->requests == 0) return false;
  generator->requests--;
  arrival->time_us = first->next_us;
  arrival->key = generator->key;
  arrival->key_length =
      (size_t)snprintf(generator->key, sizeof generator->key, "key%" PRId64, first->number + 1);
  generator->advance(generator, first);
  sink(generator, 0);
  return true;
}
