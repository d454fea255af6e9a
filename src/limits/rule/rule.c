/* The text of rules, read and written.
 *
 *     sliding-window:100/1m,cells=8,name=a;quota:1000/1d
 *     `--- kind ---' `-limit/period-' `---- options ---' `- the next rule of the stack
 *
 * A piece of the text is cut off at a time and looked at alone. What is refused names the piece and
 * says what is accepted instead. */
#include "rule/rule.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/word.h>

#include "number.h"
#include "rule/kind.h"

/* --- pieces -------------------------------------------------------------------------------------
 */

/* Of the caller's text. */
typedef struct piece {
  const char *text;
  size_t length;
} piece;

enum {
  SHOWN_MOST = 80,
  LIST_BYTES = 128 /* for the names of all algorithms, or of all options */
};

/* For "%.*s": as much of a piece as a message can bear. */
#define SHOW(piece) (int)((piece).length < SHOWN_MOST ? (piece).length : SHOWN_MOST), (piece).text

static bool is(piece text, const char *word) {
  return text.length == strlen(word) && memcmp(text.text, word, text.length) == 0;
}

/* Moves what stands before the first separator from rest to prefix. False, and all of it in prefix,
 * where there is none. */
static bool cut(piece *rest, char separator, piece *prefix) {
  const char *end = memchr(rest->text, separator, rest->length);
  *prefix = *rest;
  if (end != NULL) prefix->length = (size_t)(end - rest->text);
  size_t used = prefix->length + (end != NULL);
  rest->text += used;
  rest->length -= used;
  return end != NULL;
}

/* -1 for what is no number up to `most`. */
static int64_t read_number(piece digits, int64_t most) {
  int64_t number;
  return weir_number_read(digits.text, digits.length, most, &number) ? number : -1;
}

/* The algorithms of a set, one bit per weir_rule_kind: "fixed-window and quota". */
static void list_kinds(unsigned set, char list[LIST_BYTES]) {
  list[0] = '\0';
  for (unsigned kind = 0; set != 0; kind++) {
    if (!(set & 1U << kind)) continue;
    set &= ~(1U << kind);
    weir_word_list(list, LIST_BYTES, weir_kinds[kind].name, set == 0);
  }
}

/* --- options ------------------------------------------------------------------------------------
 */

typedef enum option_name {
  CELLS,
  SHARED_CELLS,
  FLOORS,
  WEIGHTS,
  OTHERS,
  STRICT,
  COUNT,
  BURST,
  QUEUE,
  HOLD,
  LEASE,
  DEBT,
  MOST,
  CLASSES,
  TIERS,
  NAME,
  OPTION_COUNT
} option_name;

/* An option belongs to the kinds that have all traits of one set and none of the other. How far a debt may
 * go the limit and the burst say, and how far a limit the algorithm: weir_rule_measure(). */
static const struct option {
  const char *name;
  bool needs_value;
  unsigned all, none;   /* enum weir_kind_trait */
  const char *accepted; /* which values, in a message */
} options[OPTION_COUNT] = {
    [CELLS] = {"cells", true, WEIR_KIND_CELLS, 0, "accepted are 1, 2, 4, 8, 16, 32 and 64"},
    [SHARED_CELLS] = {"cells", true, WEIR_KIND_SHARED, 0, "accepted are 8 to 60"},
    [FLOORS] = {"floors", true, WEIR_KIND_SHARED, 0, "accepted are 1% to 100%"},
    [WEIGHTS] = {"weights", true, WEIR_KIND_SHARED, 0, NULL /* see weir_shares_measure() */},
    [OTHERS] = {"others", true, WEIR_KIND_SHARED, 0, "accepted is a weight of 1 to 1000000"},
    [STRICT] = {"strict", false, WEIR_KIND_CELLS, 0, "strict takes no value"},
    [COUNT] = {"count", true, WEIR_KIND_COUNTS, 0, "accepted are admitted and all"},
    [BURST] = {"burst", true, WEIR_KIND_MOVES, WEIR_KIND_PLACES, "accepted are 1 to 1000000000"},
    [QUEUE] = {"queue", true, WEIR_KIND_PLACES, 0, "accepted are 0 to 999999999"},
    [HOLD] = {"hold", true, 0, 0,
              "accepted is a duration from 1ms to 60s (a whole number and ms, s or m)"},
    [LEASE] = {"lease", true, WEIR_KIND_LEASES, 0,
               "accepted is a duration from 1ms to 1s (a whole number and ms or s)"},
    [DEBT] = {"debt", true, WEIR_KIND_SETTLES, 0,
              "accepted is a whole number from 0 to what the rule admits at once"},
    [MOST] =
        {"most", true, 0, 0,
         "accepted is a whole number from 1 to 9007199254740992, the largest limit that the name "
         "will have"},
    [CLASSES] =
        {"classes", true, 0, WEIR_KIND_SHARED,
         "accepted are 1 to 8 of NAME:PART with | between them; NAME is 1 to 32 of A-Z a-z 0-9 "
         "_ . -, PART is 1% to 100%, or a whole number"},
    [TIERS] = {"tiers", true, 0, WEIR_KIND_SHARED,
               "accepted are 1 to 16 of NAME:LIMIT with | between them; NAME is 1 to 32 of A-Z a-z "
               "0-9 _ . - and begins with no digit, and is not absent, none, blocked or unlimited"},
    [NAME] = {"name", true, 0, 0, "accepted are 1 to 32 of A-Z a-z 0-9 _ . -"},
};
_Static_assert(WEIR_LIMIT_MOST == 1000000000 && WEIR_COUNT_LIMIT_MOST == 9007199254740992 &&
                   WEIR_NAME_MOST == 32 && WEIR_CLASSES_MOST == 8 && WEIR_TIERS_MOST == 16,
               "what the table accepts");

static bool read_name(piece text, char name[WEIR_NAME_MOST + 1]) {
  if (!weir_name_is_accepted(text.text, text.length, WEIR_NAME_MOST)) return false;
  memcpy(name, text.text, text.length);
  return true;
}

/* False: the value is none that the table accepts. A queue of so many waits behind one that acts at once,
 * which a bucket's burst counts. */
static bool read_value(option_name option, piece value, weir_rule *rule) {
  int64_t number = value.text != NULL ? read_number(value, WEIR_COUNT_LIMIT_MOST) : -1, us = 0;
  bool lasts = weir_duration_parse(value.text, value.length, &us);
  switch (option) {
    case CELLS:
      if (number < 1 || number > WEIR_CELLS_MOST || (number & (number - 1)) != 0) return false;
      rule->cells = (int)number;
      return true;
    case SHARED_CELLS:
      rule->cells = (int)number;
      return number >= WEIR_SHARED_CELLS_LEAST && number <= WEIR_SHARED_CELLS_MOST;
    case FLOORS:
      if (value.length < 2 || value.text[--value.length] != '%') return false;
      rule->floors = (int)read_number(value, 100);
      return rule->floors >= 1;
    case WEIGHTS:
      rule->weights = value.text;
      rule->weights_length = value.length;
      return true;
    case OTHERS:
      rule->others = number;
      return number >= 1 && number <= WEIR_WEIGHT_MOST;
    case STRICT:
      return rule->strict = value.text == NULL;
    case COUNT:
      rule->count_all = is(value, "all");
      return rule->count_all || is(value, "admitted");
    case BURST:
      rule->burst = number;
      return number >= 1 && number <= WEIR_LIMIT_MOST;
    case QUEUE:
      rule->burst = number + 1;
      return number >= 0 && number < WEIR_LIMIT_MOST;
    case HOLD:
      rule->hold_us = us;
      return lasts && us >= WEIR_HOLD_LEAST_US && us <= WEIR_HOLD_MOST_US;
    case LEASE:
      rule->lease_us = us;
      return lasts && us >= WEIR_LEASE_LEAST_US && us <= WEIR_LEASE_MOST_US;
    case DEBT:
      rule->debt = number;
      return number >= 0;
    case MOST:
      rule->most = number;
      return number >= 1;
    case CLASSES:
      return weir_classes_read(rule, value.text, value.length);
    case TIERS:
      return weir_tiers_read(rule, value.text, value.length);
    default:
      return read_name(value, rule->name);
  }
}

enum { OPTION_BYTES = 16 /* a name, and "=" where it needs a value */ };

static bool belongs(const struct option *option, unsigned kind) {
  unsigned traits = weir_kinds[kind].traits;
  return (traits & option->all) == option->all && (traits & option->none) == 0;
}

/* Another algorithm's option, or none's: then `option` is NULL, and the nearest name is told. */
static weir_status refuse_option(piece name, const struct option *option, const weir_rule *rule,
                                 weir_message *message) {
  const char *kind = weir_rule_kind_name(rule->kind);
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;

  char accepted[LIST_BYTES] = ""; /* "cells=, strict and name=" */
  size_t last = OPTION_COUNT;
  while (last > 0 && !belongs(&options[last - 1], rule->kind))
    last--;
  for (size_t i = 0; i < last; i++) {
    char word[OPTION_BYTES];
    if (!belongs(&options[i], rule->kind)) continue;
    snprintf(word, sizeof word, "%s%s", options[i].name, options[i].needs_value ? "=" : "");
    weir_word_list(accepted, sizeof accepted, word, i + 1 == last);
    if (weir_word_nearer(name.text, name.length, options[i].name, &distance))
      nearest = options[i].name;
  }

  if (option == NULL) {
    weir_message_set(message, "unknown option \"%.*s\": %s accepts %s%s%s", SHOW(name), kind,
                     accepted, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  } else {
    char owners[LIST_BYTES];
    unsigned set = 0;
    for (unsigned other = 0; other < WEIR_RULE_KINDS; other++)
      if (belongs(option, other)) set |= 1U << other;
    list_kinds(set, owners);
    weir_message_set(message, "option %s belongs to %s: %s accepts %s", option->name, owners, kind,
                     accepted);
  }
  return WEIR_BAD_RULE;
}

/* "name=value" or "name". `seen` has one bit per option of this rule. */
static weir_status read_option(piece text, unsigned *seen, weir_rule *rule, weir_message *message) {
  piece value = text, name;
  const struct option *option = NULL;
  if (!cut(&value, '=', &name)) value = (piece){NULL, 0};
  for (size_t i = 0; i < OPTION_COUNT && option == NULL; i++)
    if (is(name, options[i].name)) option = &options[i];
  if (option == &options[CELLS] && belongs(&options[SHARED_CELLS], rule->kind))
    option = &options[SHARED_CELLS];
  if (option == NULL || !belongs(option, rule->kind))
    return refuse_option(name, option, rule, message);
  unsigned bit = 1U << (option - options);
  if (*seen & bit) {
    weir_message_set(message, "option %s is given twice", option->name);
    return WEIR_BAD_RULE;
  }
  *seen |= bit;
  if (option->needs_value && value.text == NULL) {
    weir_message_set(message, "option %s needs a value: %s=...", option->name, option->name);
    return WEIR_BAD_RULE;
  }
  if (read_value((option_name)(option - options), value, rule)) return WEIR_OK;
  weir_message_set(message, "%s=%.*s: %s", option->name, SHOW(value), option->accepted);
  return WEIR_BAD_RULE;
}

/* --- rules --------------------------------------------------------------------------------------
 */

/* "100/1m": a rule but for its algorithm, as other limiters write it; so it is no secret either. */
static bool is_limit_and_period(piece text) {
  piece period = text, limit;
  int64_t us;
  return cut(&period, '/', &limit) && read_number(limit, WEIR_COUNT_LIMIT_MOST) >= 1 &&
         weir_duration_parse(period.text, period.length, &us) && us >= WEIR_PERIOD_LEAST_US &&
         us <= WEIR_PERIOD_MOST_US;
}

static weir_status read_kind(piece word, weir_rule *rule, weir_message *message) {
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (unsigned kind = 0; kind < WEIR_RULE_KINDS; kind++) {
    const char *name = weir_kinds[kind].name;
    if (weir_word_nearer(word.text, word.length, name, &distance)) nearest = name;
    if (!is(word, name)) continue;
    *rule = (weir_rule){.kind = (weir_rule_kind)kind, .cells = weir_kinds[kind].cells};
    return WEIR_OK;
  }

  /* A store URL in the place of a rule must not show its password. */
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";
  char accepted[LIST_BYTES];
  bool may_be_a_name = true;
  for (size_t i = 0; i < word.length; i++)
    may_be_a_name = may_be_a_name && strchr(letters, word.text[i]) != NULL;
  list_kinds((1U << WEIR_RULE_KINDS) - 1, accepted);
  if (may_be_a_name)
    weir_message_set(message, "unknown algorithm \"%.*s\": accepted are %s%s%s", SHOW(word),
                     accepted, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  else if (is_limit_and_period(word))
    weir_message_set(message, "no algorithm is named: accepted are %s; did you mean %s:%.*s?",
                     accepted, weir_kinds[weir_kind_usual].name, SHOW(word));
  else
    weir_message_set(message, "no algorithm that is known: accepted are %s", accepted);
  return WEIR_BAD_RULE;
}

/* "algorithm:limit/period" */
static weir_status read_head(piece head, weir_rule *rule, weir_message *message) {
  piece kind, limit, period = head;
  cut(&period, ':', &kind);
  weir_status status = read_kind(kind, rule, message);
  if (status != WEIR_OK) return status;
  if (!cut(&period, '/', &limit)) {
    weir_message_set(message, "\"%.*s\" lacks LIMIT/PERIOD: write %s:100/1m", SHOW(head),
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_RULE;
  }
  int64_t most = weir_kinds[rule->kind].limit_most;
  rule->limit = read_number(limit, most);
  if (rule->limit < 1) {
    weir_message_set(message, "limit \"%.*s\" is not a whole number from 1 to %" PRId64,
                     SHOW(limit), most);
    return WEIR_BAD_RULE;
  }
  bool held = weir_rule_is_held(rule);
  if (weir_duration_parse(period.text, period.length, &rule->period_us) &&
      rule->period_us >= (held ? WEIR_HELD_LEAST_US : WEIR_PERIOD_LEAST_US) &&
      rule->period_us <= (held ? WEIR_HELD_MOST_US : WEIR_PERIOD_MOST_US))
    return WEIR_OK;
  weir_message_set(
      message, "period \"%.*s\" is not a duration from %s (a whole number and ms, s, m, h or d)",
      SHOW(period), held ? "1s to 1h" : "1ms to 400d");
  return WEIR_BAD_RULE;
}

static weir_status check_most(const weir_rule *rule, weir_message *message) {
  int64_t largest = weir_kinds[rule->kind].limit_most;
  if (rule->most < rule->limit || rule->most > largest)
    weir_message_set(message,
                     "most=%" PRId64 " is %s: accepted are %" PRId64 ", the limit, to %" PRId64,
                     rule->most, rule->most < rule->limit ? "below the limit" : "too large",
                     rule->limit, largest);
  else if (rule->debt > rule->most)
    weir_message_set(message,
                     "debt=%" PRId64 " is above most=%" PRId64 ": accepted are 0 to %" PRId64,
                     rule->debt, rule->most, rule->most);
  else
    return WEIR_OK;
  return WEIR_BAD_RULE;
}

static weir_status read_rule(piece text, weir_rule *rule, weir_message *message) {
  piece rest = text, head, option;
  bool more = cut(&rest, ',', &head);
  weir_status status = read_head(head, rule, message);
  for (unsigned seen = 0; status == WEIR_OK && more;) {
    more = cut(&rest, ',', &option);
    status = read_option(option, &seen, rule, message);
  }
  if (status == WEIR_OK && rule->most > 0) status = check_most(rule, message);
  if (status == WEIR_OK) status = weir_rule_measure(rule, message);
  if (status == WEIR_OK && rule->tiers != NULL) status = weir_tiers_check(rule, message);
  return status == WEIR_OK && rule->classes_length > 0
             ? weir_classes_check(rule, weir_rule_capacity(rule), message)
             : status;
}

weir_status weir_stack_parse(const char *text, uint32_t processes, weir_stack *stack,
                             weir_message *message) {
  piece rest = {text, strlen(text)}, one;
  *stack = (weir_stack){0};
  for (bool more = true; more;) {
    more = cut(&rest, ';', &one);
    if (stack->count == WEIR_RULES_MOST) {
      weir_message_set(message, "more than %d rules: accepted are 1 to %d", WEIR_RULES_MOST,
                       WEIR_RULES_MOST);
      return WEIR_BAD_RULE;
    }
    weir_rule *rule = &stack->rules[stack->count];
    weir_status status = read_rule(one, rule, message);
    if (status != WEIR_OK) {
      if (rule->cells > 0) /* the algorithm is known, so that this is a rule and nothing else */
        weir_message_prefix(message, "rule \"%.*s\": ", SHOW(one));
      else
        weir_message_prefix(message, "rule %zu: ", stack->count + 1);
      return status;
    }
    stack->count++;
    stack->count_all = stack->count_all || rule->count_all;
  }
  for (size_t i = 0; i < stack->count; i++) {
    if ((stack->rules[i].lease_us > 0) == (stack->rules[0].lease_us > 0)) continue;
    weir_message_set(message,
                     "rules 1 and %zu: accepted is lease= for every rule of a stack, or for none",
                     i + 1);
    return WEIR_BAD_RULE;
  }
  weir_status status = weir_classes_of_stack(stack, message);
  return status == WEIR_OK ? weir_stack_lay_out(stack, processes, message) : status;
}

/* --- written ------------------------------------------------------------------------------------
 */

/* A rule's text so far: there is room for every rule. */
typedef struct writing {
  char *at, *end;
} writing;

__attribute__((format(printf, 2, 3))) static void put(writing *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  text->at += vsnprintf(text->at, (size_t)(text->end - text->at), format, values);
  va_end(values);
}

static void put_number(writing *text, const char *option, int64_t number, int64_t usual) {
  if (number != usual) put(text, ",%s=%" PRId64, option, number);
}

static void put_duration(writing *text, const char *option, int64_t us) {
  char duration[WEIR_DURATION_BYTES];
  weir_duration_format(us, duration, sizeof duration);
  if (us != 0) put(text, ",%s=%s", option, duration);
}

/* What is left out is default. */
void weir_rule_write(const weir_rule *rule, char text[WEIR_RULE_TEXT_BYTES]) {
  writing to = {text, text + WEIR_RULE_TEXT_BYTES + rule->weights_length};
  bool shared = weir_rule_is_shared(rule), queues = weir_rule_gives_places(rule);
  int cells = shared ? weir_shares_cells(rule->period_us) : weir_kinds[rule->kind].cells;
  char period[WEIR_DURATION_BYTES];
  weir_duration_format(rule->period_us, period, sizeof period);
  put(&to, "%s:%" PRId64 "/%s", weir_rule_kind_name(rule->kind), rule->limit, period);
  put_number(&to, "cells", rule->cells, cells);
  if (shared) {
    put(&to, ",floors=%d%%", rule->floors);
    if (rule->weights != NULL) put(&to, ",weights=");
    to.at += weir_shares_write(rule, to.at, (size_t)(to.end - to.at));
    put_number(&to, "others", rule->others, 0);
  }
  if (rule->strict) put(&to, ",strict");
  if (queues)
    put_number(&to, "queue", rule->burst - 1, 0);
  else if (weir_rule_moves_in_time(rule))
    put_number(&to, "burst", rule->burst, rule->limit);
  if (rule->count_all) put(&to, ",count=all");
  put_duration(&to, "hold", rule->hold_us);
  put_duration(&to, "lease", rule->lease_us);
  put_number(&to, "debt", rule->debt, 0);
  put_number(&to, "most", rule->most, 0);
  if (rule->classes_length > 0) {
    put(&to, ",classes=");
    to.at += weir_classes_write(rule, to.at, (size_t)(to.end - to.at));
  }
  if (rule->tiers_length > 0) {
    put(&to, ",tiers=");
    to.at += weir_tiers_write(rule, to.at, (size_t)(to.end - to.at));
  }
  if (rule->name[0] != '\0') put(&to, ",name=%s", rule->name);
}
