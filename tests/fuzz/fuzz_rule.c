/* Any text: a rule that is accepted keeps its promises to the rest of the library, one that is not
 * has a message. */
#include <stdlib.h>
#include <string.h>

#include "rule/rule.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_rule(const weir_rule *rule) {
  if (rule->limit < 1 || rule->limit > WEIR_LIMIT_MOST) abort();
  if (rule->period_us < WEIR_PERIOD_LEAST_US || rule->period_us > WEIR_PERIOD_MOST_US) abort();
  if (rule->cells < 1 || rule->cells > WEIR_CELLS_MOST || (rule->cells & (rule->cells - 1)))
    abort();
  if (rule->cell_us * rule->cells < rule->period_us) abort();
  if (rule->lanes * rule->lane_bits > 63) abort();
  if (strlen(rule->tag) == 0 || strpbrk(rule->tag, ":{} ") != NULL) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_stack stack;
  weir_message message = {""};
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  weir_status status = weir_stack_parse(text, 64, &stack, &message);
  if ((status == WEIR_OK) != (message.text[0] == '\0')) abort();
  for (size_t i = 0; status == WEIR_OK && i < stack.count; i++)
    check_rule(&stack.rules[i]);
  free(text);
  return 0;
}
