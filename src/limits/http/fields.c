/* A decision as response fields. A client must come back neither too early nor believe in more than
 * there is: seconds are rounded up, and so is the time in which a limit is admitted again. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/http.h>

#include "wide.h"

#define SECOND_US INT64_C(1000000)

/* A rule's policy as a name: its own, or the limiter's; and a class. */
enum { CLASS_MOST = 32, POLICY_BYTES = WEIR_HTTP_NAME_MOST + 4 + CLASS_MOST + 1 };

/* The fields that are being written. Every value fits: eight rules of at most 120 bytes each. */
typedef struct field_list {
  weir_http_field *fields;
  size_t count;
} field_list;

/* An integer of structured fields has 15 digits at the most (RFC 9651). */
static int64_t structured(int64_t number) {
  const int64_t most = INT64_C(999999999999999);
  return number < most ? number : most;
}

static int64_t seconds_up(int64_t us) {
  return us / SECOND_US + (us % SECOND_US > 0);
}

/* Whether the decision's figures are those of this rule. Its class or its own limit is told by them alone; while
 * the store is away they tell a part of what all processes have. */
static bool is_told(size_t i, const weir_decision *decision) {
  return i == decision->rule && decision->limit > 0 && decision->source != WEIR_SOURCE_FALLBACK &&
         decision->source != WEIR_SOURCE_LATE;
}

static void name_policy(const weir_limiter *limiter, const char *name, size_t i,
                        const weir_rule_info *rule, const weir_decision *decision,
                        char policy[POLICY_BYTES]) {
  size_t length = strcspn(name, "/");
  bool has_class = is_told(i, decision) && strstr(rule->text, ",classes=") != NULL;
  const char *class = has_class ? name + length : "";
  if (rule->name[0] != '\0')
    snprintf(policy, POLICY_BYTES, "%s%s", rule->name, class);
  else if (weir_limiter_rules(limiter) == 1)
    snprintf(policy, POLICY_BYTES, "%.*s%s", (int)length, name, class);
  else
    snprintf(policy, POLICY_BYTES, "%.*s-%zu%s", (int)length, name, i + 1, class);
}

static void add_number(field_list *list, const char *name, int64_t number) {
  weir_http_field *field = &list->fields[list->count++];
  field->name = name;
  snprintf(field->value, sizeof field->value, "%" PRId64, number);
}

/* The most that is admitted at once. */
static int64_t most_of(const weir_rule_info *rule, size_t i, const weir_decision *decision) {
  return is_told(i, decision) ? decision->limit : rule->capacity;
}

/* The policies of all rules. */
static void add_policies(field_list *list, const weir_limiter *limiter, const char *name,
                         const weir_decision *decision) {
  weir_http_field *field = &list->fields[list->count++];
  size_t used = 0;
  field->name = "RateLimit-Policy";
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = {.size = sizeof rule};
    char policy[POLICY_BYTES];
    weir_limiter_read_rule(limiter, i, &rule);
    name_policy(limiter, name, i, &rule, decision, policy);
    /* The time in which as much as fits at once is admitted again: a full bucket drains within 400
     * days. */
    int64_t capacity_us = (int64_t)((weir_wide)rule.period_us * rule.capacity / rule.limit);
    used += (size_t)snprintf(field->value + used, sizeof field->value - used, "%s\"%s\";q=%" PRId64,
                             i > 0 ? ", " : "", policy, structured(most_of(&rule, i, decision)));
    if (strcmp(rule.algorithm, "in-flight") == 0) /* at once, and in no time */
      used += (size_t)snprintf(field->value + used, sizeof field->value - used,
                               ";qu=\"concurrent-requests\"");
    else
      used += (size_t)snprintf(field->value + used, sizeof field->value - used, ";w=%" PRId64,
                               seconds_up(capacity_us));
  }
}

/* The room that remains under one of them: the one that this decision speaks of. */
static void add_remaining(field_list *list, const char *policy, const weir_decision *decision) {
  int64_t more_us = decision->allowed ? decision->reset_after_us : decision->retry_after_us;
  if (decision->remaining == WEIR_NOT_KNOWN) return;
  weir_http_field *field = &list->fields[list->count++];
  field->name = "RateLimit";
  int used = snprintf(field->value, sizeof field->value, "\"%s\";r=%" PRId64, policy,
                      structured(decision->remaining));
  if (more_us >= 0) /* else there is no such time, or it is not known */
    snprintf(field->value + used, sizeof field->value - (size_t)used, ";t=%" PRId64,
             seconds_up(more_us));
}

static void add_older(field_list *list, const weir_decision *decision) {
  int64_t more_us = decision->allowed ? decision->reset_after_us : decision->retry_after_us;
  add_number(list, "X-RateLimit-Limit", decision->limit);
  if (decision->remaining != WEIR_NOT_KNOWN)
    add_number(list, "X-RateLimit-Remaining", decision->remaining);
  if (more_us >= 0) add_number(list, "X-RateLimit-Reset", seconds_up(more_us));
}

/* NAME, or NAME/CLASS. */
static bool is_name(const char *name) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  size_t length = name != NULL ? strspn(name, accepted) : 0;
  if (length < 1 || length > WEIR_HTTP_NAME_MOST) return false;
  if (name[length] == '\0') return true;
  const char *class = name + length + 1;
  size_t class_length = name[length] == '/' ? strspn(class, accepted) : 0;
  return class_length >= 1 && class_length <= CLASS_MOST && class[class_length] == '\0';
}

weir_status weir_http_write_fields(const weir_limiter *limiter, const char *name,
                                   const weir_decision *decision, unsigned style,
                                   weir_http_field fields[WEIR_HTTP_FIELDS_MOST], size_t *count,
                                   weir_message *message) {
  field_list list = {.fields = fields};
  weir_rule_info rule = {.size = sizeof rule};
  char policy[POLICY_BYTES];
  *count = 0;
  if (!is_name(name)) {
    weir_message_set(message,
                     "the policy's name is \"%.80s\": accepted are 1 to %d of %s, and / with a "
                     "class behind them",
                     name != NULL ? name : "", WEIR_HTTP_NAME_MOST, "A-Z a-z 0-9 _ . -");
    return WEIR_BAD_ARGUMENT;
  }
  if (style > WEIR_HTTP_X_RATELIMIT) {
    weir_message_set(message, "style is %u: accepted are those of weir_http_style", style);
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_read_rule(limiter, decision->rule, &rule);
  if (status != WEIR_OK) {
    weir_message_set(message, "the decision is another limiter's: its rule %" PRIu32 " is not here",
                     decision->rule);
    return status;
  }
  name_policy(limiter, name, decision->rule, &rule, decision, policy);
  if (style == WEIR_HTTP_DRAFT_10) {
    add_policies(&list, limiter, name, decision);
    add_remaining(&list, policy, decision);
  } else {
    add_older(&list, decision);
  }
  if (!decision->allowed && decision->retry_after_us != WEIR_NEVER)
    add_number(&list, "Retry-After", seconds_up(decision->retry_after_us));
  *count = list.count;
  return WEIR_OK;
}
