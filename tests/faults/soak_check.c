#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "faults/bound.h"
#include "faults/ground.h"
#include "faults/soak.h"

void soak_wrong(soak *mine, const char *format, ...) {
  enum { REPORTED_MOST = 20 };
  va_list arguments;
  if (atomic_fetch_add(&mine->wrong, 1) >= REPORTED_MOST) return;
  char text[512];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "weir_soak: %s\n", text);
}

/* A policy speaks of the whole rule, too. */
static bool is_capacity(int rule, int64_t limit) {
  weir_stack whole;
  if (weir_stack_parse(soak_rules[rule].text, SOAK_PROCESSES, &whole, NULL) != WEIR_OK)
    give_up("%s cannot be read", soak_rules[rule].text);
  for (size_t i = 0; i < whole.count; i++)
    if (weir_rule_capacity(&whole.rules[i]) == limit) return true;
  return false;
}

static const char *find_odd_source(const soak_answer *a) {
  const weir_decision *d = &a->decision;
  weir_fallback fallback = soak_rules[a->rule].fallback;
  bool late = d->source == WEIR_SOURCE_LATE;
  bool fell_back = late || d->source == WEIR_SOURCE_FALLBACK;
  /* After an outage the account denies beside the store. */
  bool holds = d->source == WEIR_SOURCE_FALLBACK && fallback == WEIR_FALLBACK_LOCAL && !d->allowed;
  if (d->source > WEIR_SOURCE_LATE) return "an unknown source";
  if (fell_back != (d->store_status != WEIR_OK) && !holds)
    return "a store status that does not fit";
  if (fell_back && a->is_peek) return "a peek that fell back";
  if (fell_back && fallback == WEIR_FALLBACK_NONE) return "a policy that was not asked for";
  if (fell_back && fallback == WEIR_FALLBACK_DENY && d->allowed) return "DENY allowed";
  if (fell_back && fallback == WEIR_FALLBACK_ALLOW && !d->allowed) return "ALLOW denied";
  return NULL;
}

static const char *find_odd_figure(const soak_answer *a) {
  const weir_decision *d = &a->decision;
  bool fell_back = d->source == WEIR_SOURCE_FALLBACK || d->source == WEIR_SOURCE_LATE;
  if (!is_capacity(a->rule, d->limit)) return "a limit that is not the rule's";
  if (d->remaining > d->limit || d->remaining < WEIR_NOT_KNOWN) return "an impossible remaining";
  if (d->allowed && d->retry_after_us != 0) return "allowed, with a time to retry after";
  if (!d->allowed && d->retry_after_us < 1) return "denied, with no time to retry after";
  if (d->cost > a->cost || d->cost < 1) return "an impossible cost";
  if (d->cost < a->cost && !(a->may_be_less && d->allowed)) return "another cost";
  if (d->allowed && (d->at_us < a->begin_us || d->at_us > a->end_us))
    return "a stamp from outside its call";
  /* An account has a share of what is left, which is no whole number of costs. */
  if (soak_rules[a->rule].is_counted && d->remaining >= 0 && !fell_back &&
      (d->limit - d->remaining) % soak_costs[a->key] != 0)
    return "what remains is another key's";
  return NULL;
}

static bool is_expected(const soak_answer *a) {
  weir_fallback fallback = soak_rules[a->rule].fallback;
  if (a->status == WEIR_OK) return true;
  bool answers = !a->is_peek && fallback != WEIR_FALLBACK_NONE;
  bool is_store = a->status == WEIR_TIMEOUT || a->status == WEIR_CONTENDED ||
                  a->status == WEIR_UNAVAILABLE || a->status == WEIR_UNKNOWN_OUTCOME ||
                  a->status == WEIR_REFUSED_BY_STORE;
  return is_store && !answers;
}

void soak_check(soak *mine, const soak_answer *a) {
  const char *odd = NULL;
  if (!is_expected(a)) odd = weir_status_name(a->status);
  if (odd == NULL && a->status == WEIR_OK) odd = find_odd_source(a);
  if (odd == NULL && a->status == WEIR_OK) odd = find_odd_figure(a);
  if (odd == NULL) return;
  const weir_decision *d = &a->decision;
  soak_wrong(mine,
             "%s: cost %" PRId64
             ": %s (status %d, allowed %d, source %d, store status %d, limit "
             "%" PRId64 ", remaining %" PRId64 ", retry %" PRId64 ", cost %" PRId64 ")",
             soak_rules[a->rule].text, a->cost, odd, (int)a->status, d->allowed, (int)d->source,
             (int)d->store_status, d->limit, d->remaining, d->retry_after_us, d->cost);
}

/* --- a key of one's own ------------------------------------------------------------------------
 */

static int64_t window_of(int64_t at_us) {
  static weir_stack stack;
  if (stack.count == 0 &&
      weir_stack_parse(soak_rules[SOAK_OWN].text, SOAK_PROCESSES, &stack, NULL) != WEIR_OK)
    give_up("%s cannot be read", soak_rules[SOAK_OWN].text);
  return at_us / stack.rules[0].period_us;
}

static void enter(soak_model *model, int64_t window, unsigned losses) {
  if (window != model->window) *model = (soak_model){.window = window, .losses = losses};
}

/* A request without an answer may be counted in the window of its beginning or of its end. */
static void note_unanswered(soak_model *model, const soak_answer *a, unsigned losses) {
  enter(model, window_of(a->end_us), losses);
  if (!a->is_peek && a->status == WEIR_UNKNOWN_OUTCOME) model->maybe += a->cost;
}

void soak_model_check(soak *mine, soak_model *model, int store, const soak_answer *a,
                      unsigned losses) {
  const weir_decision *d = &a->decision;
  if (a->status != WEIR_OK) {
    note_unanswered(model, a, losses);
    return;
  }
  enter(model, window_of(d->at_us), losses);
  if (!a->is_peek && d->allowed) model->sure += d->cost;
  int64_t counted = d->limit - d->remaining;
  if (counted > model->sure + model->maybe)
    soak_wrong(mine, "%s holds %" PRId64 " of a key that was charged %" PRId64 " or %" PRId64,
               mine->urls[store], counted, model->sure, model->sure + model->maybe);
  if (model->losses % 2 != 0 || model->losses != atomic_load(&mine->losses[store])) return;
  atomic_fetch_add(&mine->certain, 1);
  if (counted < model->sure - model->maybe)
    soak_wrong(mine,
               "%s holds %" PRId64 " of a key that was charged %" PRId64 ", and has lost nothing",
               mine->urls[store], counted, model->sure);
}

void soak_model_refund(soak_model *model, const weir_decision *taken, int64_t cost,
                       weir_status status) {
  if (window_of(taken->at_us) != model->window) return;
  if (status == WEIR_OK) model->sure -= cost;
  if (status == WEIR_UNKNOWN_OUTCOME) model->maybe += cost;
}
