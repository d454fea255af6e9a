/* Runs one key's requests through a rule and the exact window, and draws what both say. */
#include "simulate/curve.h"

#include "simulate/driver.h"
#include "simulate/measure.h"

/* The stretch that is drawn, as far as it has come. */
struct stretch {
  const weir_curve *curve;
  weir_driver driver;
  weir_driven_key key;
  weir_stamps stamps;
};

static weir_status decide(struct stretch *stretch, int64_t now_us, int64_t cost, bool takes,
                          weir_message *message) {
  const weir_rule *rule = &stretch->driver.stack.rules[0];
  weir_request_state request = {.kind = takes ? WEIR_TAKE : WEIR_PEEK, .cost = cost};
  weir_curve_point point = {.at_us = now_us};
  weir_status status =
      weir_driver_decide(&stretch->driver, &stretch->key, now_us, &request, message);
  if (status != WEIR_OK) return status;
  weir_stamps_slide(&stretch->stamps, now_us, rule->period_us);
  bool fits = stretch->stamps.counted + cost <= rule->limit;
  bool allowed = request.decision.allowed;
  if (takes && weir_measure_counts(rule, cost, allowed) &&
      !weir_stamps_add(&stretch->stamps, now_us, cost, allowed ? cost : 0))
    return WEIR_NO_MEMORY;
  if (takes)
    point.mark = allowed == fits ? WEIR_MARK_RIGHT
                 : allowed       ? WEIR_MARK_WRONGLY_ALLOWED
                                 : WEIR_MARK_WRONGLY_DENIED;
  point.truth = weir_measure_truth(rule, &stretch->stamps);
  point.estimate = request.decision.limit - request.decision.remaining;
  if (takes && (request.decision.remaining == WEIR_NOT_KNOWN)) point.estimate = point.truth;
  if (now_us >= stretch->curve->from_us && now_us <= stretch->curve->until_us)
    stretch->curve->draw(stretch->curve->context, &point);
  return WEIR_OK;
}

weir_status weir_curve_draw(const weir_curve *curve, weir_message *message) {
  struct stretch stretch = {.curve = curve};
  weir_status status = weir_driver_init(&stretch.driver, curve->rule, curve->options, message);
  if (status != WEIR_OK) return status;
  if (!weir_driver_add_key(&stretch.driver, &stretch.key)) status = WEIR_NO_MEMORY;

  /* Looks at even distances, and between them the requests, all in order of time. */
  int64_t step_us = (curve->until_us - curve->from_us) / curve->looks;
  int64_t look_us = curve->from_us;
  if (step_us < 1) step_us = 1;
  for (size_t i = 0; i <= curve->request_count && status == WEIR_OK; i++) {
    bool over = i == curve->request_count || curve->requests[i].at_us > curve->until_us;
    int64_t end_us = over ? curve->until_us + 1 : curve->requests[i].at_us;
    for (; look_us < end_us && status == WEIR_OK; look_us += step_us)
      status = decide(&stretch, look_us, 1, false, message);
    if (over || status != WEIR_OK) break;
    status = decide(&stretch, curve->requests[i].at_us, curve->requests[i].cost, true, message);
  }
  weir_stamps_clean_up(&stretch.stamps);
  weir_driver_remove_key(&stretch.driver, &stretch.key);
  weir_driver_clean_up(&stretch.driver);
  return status;
}
