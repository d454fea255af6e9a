/* The operations, one by one, held against weir/backend.h; and what every probe does: it makes an
 * operation, has it executed within its time, and reports. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/inspect.h"

enum { FINDING_BYTES = 768 };

void weir_probe_report(const weir_probe *probe, weir_finding_level level, const char *topic,
                       const char *format, ...) {
  char text[FINDING_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *at = text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  const weir_finding finding = {
      .level = level, .server = probe->name, .topic = topic, .text = text};
  probe->plan->tell(probe->plan->context, &finding);
}

weir_operation weir_probe_operation(const weir_probe *probe, weir_operation_kind kind, size_t key) {
  return (weir_operation){.kind = kind,
                          .key = probe->keys[key],
                          .key_length = (uint16_t)strlen(probe->keys[key]),
                          .home_offset = probe->home_offset,
                          .home_length = WEIR_HOME_DIGITS,
                          .delta = 1,
                          .ttl_us = WEIR_PROBE_TTL_US};
}

void weir_probe_give_time(weir_probe *probe, int64_t us) {
  probe->end_us = weir_monotonic_us() + us;
}

bool weir_probe_is_over(const weir_probe *probe) {
  return weir_monotonic_us() >= probe->end_us;
}

void weir_probe_run(weir_probe *probe, weir_operation *operations, size_t count) {
  weir_store_exec(probe->store, operations, count, probe->end_us, &probe->why);
}

/* A refusal is an answer. */
bool weir_probe_connect(weir_probe *probe) {
  bool raised = !(probe->plan->needs & WEIR_NEED_GET);
  weir_operation read = weir_probe_operation(probe, WEIR_GET, 0);
  read.raised = raised && probe->store->backend->traits & WEIR_TRAIT_RAISE;
  weir_probe_run(probe, &read, 1);
  if (read.outcome != WEIR_NOT_SENT && read.outcome != WEIR_UNKNOWN) return true;
  weir_probe_report(probe, WEIR_FINDING_FAULT, "connection", "%s", probe->why.text);
  return false;
}

enum version { NO_VERSION, VERSION_READ, VERSION_OLD };

#define ENDS(outcome) (1U << WEIR_##outcome)
#define SUMS (WEIR_NEED_ADD | WEIR_NEED_SUB | WEIR_NEED_GET)
#define SWAPS (WEIR_NEED_CREATE | WEIR_NEED_GET | WEIR_NEED_SWAP)
#define RAISES (WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB)

enum { ANY_VALUE = -1 };

/* A step is done where all of `needs` is needed, in this order. */
static const struct step {
  unsigned needs;
  const char *name;
  weir_operation_kind kind;
  size_t key;
  int64_t delta, seed, floor, value;
  enum version version;
  bool refresh, raised;
  unsigned ends;    /* outcomes that are right */
  int64_t expected; /* the value of DONE */
} steps[] = {
    {WEIR_NEED_ADD, "ADD", WEIR_ADD, 0, .delta = 3, .seed = 5, .ends = ENDS(DONE), .expected = 8},
    {WEIR_NEED_ADD, "ADD", WEIR_ADD, 0, .delta = 2, .ends = ENDS(DONE), .expected = 10},
    {SUMS, "GET", WEIR_GET, 0, .ends = ENDS(DONE), .expected = 10},
    {WEIR_NEED_ADD | WEIR_NEED_SUB, "SUB", WEIR_SUB, 0, .delta = 4, .ends = ENDS(DONE),
     .expected = 6},
    {WEIR_NEED_SUB, "SUB", WEIR_SUB, 1, .delta = 1, .ends = ENDS(DONE) | ENDS(ABSENT),
     .expected = ANY_VALUE},
    {WEIR_NEED_CREATE, "CREATE", WEIR_CREATE, 2, .value = 7, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {WEIR_NEED_CREATE, "CREATE", WEIR_CREATE, 2, .value = 9, .ends = ENDS(CONFLICT)},
    {SWAPS, "GET", WEIR_GET, 2, .ends = ENDS(DONE), .expected = 7},
    {SWAPS, "SWAP", WEIR_SWAP, 2, .value = 8, .version = VERSION_READ, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {SWAPS, "SWAP", WEIR_SWAP, 2, .value = 9, .version = VERSION_OLD, .ends = ENDS(CONFLICT)},
    {SWAPS, "GET", WEIR_GET, 2, .ends = ENDS(DONE), .expected = 8},
    {RAISES, "RAISE without refresh", WEIR_RAISE, 3, .floor = 100, .delta = 5,
     .ends = ENDS(ABSENT)},
    {RAISES, "RAISE", WEIR_RAISE, 3, .floor = 100, .delta = 5, .refresh = true, .ends = ENDS(DONE),
     .expected = 105},
    {RAISES, "RAISE without refresh", WEIR_RAISE, 3, .floor = 50, .delta = 5, .ends = ENDS(DONE),
     .expected = 110},
    {RAISES, "GET of a raised key", WEIR_GET, 3, .raised = true, .ends = ENDS(DONE),
     .expected = 110},
    {RAISES, "SUB of a raised key", WEIR_SUB, 3, .delta = 10, .raised = true, .ends = ENDS(DONE),
     .expected = 100},
    {WEIR_NEED_PUT, "PUT", WEIR_PUT, 4, .value = 4, .ends = ENDS(DONE), .expected = ANY_VALUE},
    {WEIR_NEED_PUT | WEIR_NEED_GET, "GET", WEIR_GET, 4, .ends = ENDS(DONE), .expected = 4},
    {WEIR_NEED_PUT | WEIR_NEED_DROP, "DROP", WEIR_DROP, 4, .ends = ENDS(DONE),
     .expected = ANY_VALUE},
    {WEIR_NEED_PUT | WEIR_NEED_DROP | WEIR_NEED_GET, "GET", WEIR_GET, 4, .ends = ENDS(ABSENT)},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* What became of a step, in words; false: what should. */
static bool is_wrong(const struct step *step, const weir_operation *done, const weir_message *why,
                     weir_message *text) {
  static const char *const outcomes[] = {
      [WEIR_PENDING] = "nothing",   [WEIR_DONE] = "done",         [WEIR_ABSENT] = "absent",
      [WEIR_CONFLICT] = "conflict", [WEIR_NOT_SENT] = "not sent", [WEIR_UNKNOWN] = "unknown",
      [WEIR_REFUSED] = "refused"};
  bool failed = done->outcome == WEIR_NOT_SENT || done->outcome == WEIR_UNKNOWN ||
                done->outcome == WEIR_REFUSED;
  if (failed) {
    weir_message_set(text, "%s: %s: %s", step->name, outcomes[done->outcome], why->text);
    return true;
  }
  if (!(step->ends & 1U << done->outcome)) {
    weir_message_set(text,
                     "%s: \"%s\" is not what follows from the operations before it: the store "
                     "lost or kept what it should not",
                     step->name, outcomes[done->outcome]);
    return true;
  }
  if (done->outcome != WEIR_DONE || step->expected == ANY_VALUE || done->value == step->expected)
    return false;
  weir_message_set(text, "%s: answered %lld where %lld was expected: the store counts wrongly",
                   step->name, (long long)done->value, (long long)step->expected);
  return true;
}

void weir_probe_operations(weir_probe *probe) {
  static const struct {
    unsigned need;
    const char *name;
  } names[] = {{WEIR_NEED_ADD, "ADD"},       {WEIR_NEED_SUB, "SUB"},   {WEIR_NEED_GET, "GET"},
               {WEIR_NEED_CREATE, "CREATE"}, {WEIR_NEED_SWAP, "SWAP"}, {WEIR_NEED_RAISE, "RAISE"},
               {WEIR_NEED_PUT, "PUT"},       {WEIR_NEED_DROP, "DROP"}};
  unsigned needs = probe->plan->needs;
  uint64_t versions[] = {[VERSION_READ] = 1, [VERSION_OLD] = 1};
  unsigned failed = 0; /* keys on which a step went wrong: the rest of their steps would as well */
  for (const struct step *step = steps; step < steps + STEPS; step++) {
    weir_message text;
    if ((needs & step->needs) != step->needs || failed & 1U << step->key) continue;
    weir_operation done = weir_probe_operation(probe, step->kind, step->key);
    if (step->delta != 0) done.delta = step->delta;
    done.seed = step->seed;
    done.floor = step->floor;
    done.value = step->value;
    done.refresh = step->refresh;
    done.raised = step->raised;
    done.version = versions[step->version];
    weir_probe_run(probe, &done, 1);
    if (weir_probe_is_over(probe)) return;
    if (is_wrong(step, &done, &probe->why, &text)) {
      weir_probe_report(probe, WEIR_FINDING_FAULT, "operations", "%s", text.text);
      failed |= 1U << step->key;
    } else if (step->kind == WEIR_GET && done.outcome == WEIR_DONE && done.version_out != 0) {
      versions[VERSION_READ] = versions[VERSION_OLD] = done.version_out;
    }
  }
  if (failed != 0) return;
  char list[64] = "";
  size_t used = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (needs & names[i].need)
      used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i].name);
  weir_probe_report(probe, WEIR_FINDING_FACT, "operations", "do what they must:%s", list);
}

/* What cannot be deleted in time goes when its TTL ends. */
#define CLEAN_US INT64_C(1000000)

void weir_probe_clean(weir_probe *probe) {
  weir_operation drops[WEIR_PROBE_KEYS];
  weir_probe_give_time(probe,
                       probe->plan->timeout_us < CLEAN_US ? probe->plan->timeout_us : CLEAN_US);
  for (size_t i = 0; i < WEIR_PROBE_KEYS; i++)
    drops[i] = weir_probe_operation(probe, WEIR_DROP, i);
  weir_probe_run(probe, drops, WEIR_PROBE_KEYS);
}
