#include "rule/rule.h"

#include <inttypes.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>

/* A piece of the caller's text. */
struct piece {
  const char *text;
  size_t length;
};

enum { MESSAGE_PIECE_MOST = 80 };

/* For "%.*s": as much of a piece as a message can bear. */
#define SHOW(piece) \
  (int)((piece).length < MESSAGE_PIECE_MOST ? (piece).length : MESSAGE_PIECE_MOST), (piece).text

static bool piece_is(struct piece piece, const char *word) {
  return piece.length == strlen(word) && memcmp(piece.text, word, piece.length) == 0;
}

/* Cuts what stands before `separator` off the front of *rest; all of it where there is none. */
static struct piece cut(struct piece *rest, char separator) {
  const char *end = memchr(rest->text, separator, rest->length);
  struct piece front = {rest->text, end != NULL ? (size_t)(end - rest->text) : rest->length};
  size_t used = front.length + (end != NULL);
  rest->text += used;
  rest->length -= used;
  return front;
}

/* Digits only, at most `most`; -1 for anything else. */
static int64_t whole_number(struct piece piece, int64_t most) {
  int64_t number = 0;
  if (piece.length == 0) return -1;
  for (size_t i = 0; i < piece.length; i++) {
    if (piece.text[i] < '0' || piece.text[i] > '9') return -1;
    number = number * 10 + (piece.text[i] - '0');
    if (number > most) return -1;
  }
  return number;
}

static weir_status read_kind(struct piece word, weir_rule *rule, weir_message *message) {
  if (piece_is(word, "fixed-window")) {
    *rule = (weir_rule){.kind = WEIR_FIXED_WINDOW, .cells = 1};
    return WEIR_OK;
  }
  if (piece_is(word, "sliding-window")) {
    *rule = (weir_rule){.kind = WEIR_SLIDING_WINDOW, .cells = 4};
    return WEIR_OK;
  }
  weir_message_set(message,
                   "unknown algorithm \"%.*s\": accepted are fixed-window and sliding-window",
                   SHOW(word));
  return WEIR_BAD_RULE;
}

static weir_status read_limit(struct piece word, weir_rule *rule, weir_message *message) {
  rule->limit = whole_number(word, WEIR_LIMIT_MOST);
  if (rule->limit >= 1) return WEIR_OK;
  weir_message_set(message, "limit \"%.*s\" is not a whole number from 1 to %" PRId64, SHOW(word),
                   WEIR_LIMIT_MOST);
  return WEIR_BAD_RULE;
}

static weir_status read_period(struct piece word, weir_rule *rule, weir_message *message) {
  if (weir_duration_parse(word.text, word.length, &rule->period_us) &&
      rule->period_us >= WEIR_PERIOD_LEAST_US && rule->period_us <= WEIR_PERIOD_MOST_US)
    return WEIR_OK;
  weir_message_set(message,
                   "period \"%.*s\" is not a duration from 1ms to 400d (units ms, s, m, h, d)",
                   SHOW(word));
  return WEIR_BAD_RULE;
}

static weir_status read_cells(struct piece value, weir_rule *rule, weir_message *message) {
  int64_t cells = whole_number(value, WEIR_CELLS_MOST);
  if (cells >= 1 && (cells & (cells - 1)) == 0) {
    rule->cells = (int)cells;
    return WEIR_OK;
  }
  weir_message_set(message, "cells=%.*s: accepted are 1, 2, 4, 8, 16, 32 and 64", SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_strict(struct piece value, weir_rule *rule, weir_message *message) {
  if (value.text == NULL) {
    rule->strict = true;
    return WEIR_OK;
  }
  weir_message_set(message, "strict=%.*s: strict takes no value", SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_count(struct piece value, weir_rule *rule, weir_message *message) {
  rule->count_all = piece_is(value, "all");
  if (rule->count_all || piece_is(value, "admitted")) return WEIR_OK;
  weir_message_set(message, "count=%.*s: accepted are admitted and all", SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_name(struct piece value, weir_rule *rule, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  bool good = value.length >= 1 && value.length <= WEIR_NAME_MOST;
  for (size_t i = 0; good && i < value.length; i++)
    good = value.text[i] != '\0' && strchr(accepted, value.text[i]) != NULL;
  if (!good) {
    weir_message_set(message, "name=%.*s: accepted are 1 to %d of A-Z a-z 0-9 _ . -", SHOW(value),
                     WEIR_NAME_MOST);
    return WEIR_BAD_RULE;
  }
  memcpy(rule->name, value.text, value.length);
  return WEIR_OK;
}

static const struct {
  const char *name;
  bool needs_value;
  unsigned kinds; /* one bit per weir_rule_kind */
  weir_status (*read)(struct piece value, weir_rule *rule, weir_message *message);
} options[] = {
    {"cells", true, 1U << WEIR_SLIDING_WINDOW, read_cells},
    {"strict", false, 1U << WEIR_SLIDING_WINDOW, read_strict},
    {"count", true, 1U << WEIR_SLIDING_WINDOW | 1U << WEIR_FIXED_WINDOW, read_count},
    {"name", true, 1U << WEIR_SLIDING_WINDOW | 1U << WEIR_FIXED_WINDOW, read_name},
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static weir_status unknown_option(struct piece name, const weir_rule *rule, weir_message *message) {
  weir_message_set(message, "unknown option \"%.*s\" of %s", SHOW(name),
                   rule->kind == WEIR_FIXED_WINDOW
                       ? "fixed-window: accepted are count= and name="
                       : "sliding-window: accepted are cells=, strict, count= and name=");
  return WEIR_BAD_RULE;
}

/* `seen` has one bit per option. */
static weir_status read_option(struct piece text, unsigned *seen, weir_rule *rule,
                               weir_message *message) {
  struct piece value = text;
  struct piece name = cut(&value, '=');
  if (name.length == text.length) value = (struct piece){NULL, 0};
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!piece_is(name, options[i].name) || !(options[i].kinds & 1U << rule->kind)) continue;
    if (*seen & 1U << i) {
      weir_message_set(message, "option %s is given twice", options[i].name);
      return WEIR_BAD_RULE;
    }
    *seen |= 1U << i;
    if (options[i].needs_value && value.text == NULL) {
      weir_message_set(message, "option %s needs a value: %s=...", options[i].name,
                       options[i].name);
      return WEIR_BAD_RULE;
    }
    return options[i].read(value, rule, message);
  }
  return unknown_option(name, rule, message);
}

static weir_status read_rule(struct piece text, weir_rule *rule, weir_message *message) {
  struct piece rest = text;
  struct piece head = cut(&rest, ',');
  bool more = rest.text != head.text + head.length;
  struct piece numbers = head;
  struct piece kind = cut(&numbers, ':');
  weir_status status = read_kind(kind, rule, message);
  if (status != WEIR_OK) return status;
  if (memchr(numbers.text, '/', numbers.length) == NULL) {
    weir_message_set(message, "\"%.*s\" lacks LIMIT/PERIOD: write %.*s:100/1m", SHOW(head),
                     SHOW(kind));
    return WEIR_BAD_RULE;
  }
  struct piece limit = cut(&numbers, '/');
  status = read_limit(limit, rule, message);
  if (status == WEIR_OK) status = read_period(numbers, rule, message);
  for (unsigned seen = 0; status == WEIR_OK && more;) {
    const char *end = rest.text + rest.length;
    struct piece option = cut(&rest, ',');
    status = read_option(option, &seen, rule, message);
    more = option.text + option.length != end;
  }
  return status;
}

weir_status weir_stack_parse(const char *text, uint32_t processes, weir_stack *stack,
                             weir_message *message) {
  struct piece rest = {text, strlen(text)};
  *stack = (weir_stack){0};
  for (bool more = true; more;) {
    const char *end = rest.text + rest.length;
    struct piece one = cut(&rest, ';');
    more = one.text + one.length != end;
    if (stack->count == WEIR_RULES_MOST) {
      weir_message_set(message, "more than %d rules: accepted are 1 to %d", WEIR_RULES_MOST,
                       WEIR_RULES_MOST);
      return WEIR_BAD_RULE;
    }
    weir_rule *rule = &stack->rules[stack->count];
    weir_status status = read_rule(one, rule, message);
    if (status != WEIR_OK) {
      weir_message_prefix(message, "rule \"%.*s\": ", SHOW(one));
      return status;
    }
    stack->count++;
    stack->count_all = stack->count_all || rule->count_all;
  }
  return weir_stack_lay_out(stack, processes, message);
}
