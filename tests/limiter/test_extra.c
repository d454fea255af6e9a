/* What requests say of themselves, beside them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

enum { UNTOUCHED = 77 };

static weir_request plain(void) {
  return (weir_request){.key = "k", .key_length = 1, .cost = 1, .decision = {.cost = UNTOUCHED}};
}

static void assert_says(const weir_message *message, const char *part) {
  if (strstr(message->text, part) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", message->text, part);
}

/* By each function that takes an extra, alone and among others; and nobody asked the store. */
static void assert_refused(const world *w, const weir_extra *extra, const char *part) {
  weir_limiter *limiters[2] = {w->limiter, w->limiter};
  const weir_extra *extras[2] = {extra, NULL};
  weir_request requests[2] = {plain(), plain()};
  weir_reservation *made[2];
  weir_message why = {""};
  size_t denied_by = UNTOUCHED;
  bool known = false;
  fake_forget();
  assert_int_equal(weir_limiter_check_extra(w->limiter, extra, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, part);
  assert_int_equal(weir_limiter_check_extra(w->limiter, NULL, &why), WEIR_OK);
  why.text[0] = '\0';
  assert_int_equal(weir_decide_extra(limiters, requests, extras, 1, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, part);
  why.text[0] = '\0';
  assert_int_equal(weir_decide_all_extra(limiters, requests, extras, 1, &denied_by, &why),
                   WEIR_BAD_ARGUMENT);
  assert_int_equal(denied_by, 0);
  assert_says(&why, part);
  assert_int_equal(weir_decide_known_extra(limiters, requests, extras, 1, &known, NULL), WEIR_OK);
  assert_true(known);
  assert_int_equal(requests[0].status, WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_reserve_extra(limiters, requests, extras, 1, made, &why),
                   WEIR_BAD_ARGUMENT);
  assert_null(made[0]);
  assert_says(&why, part);
  assert_int_equal(the_fake.counts.commands, 0);
  assert_int_equal(requests[0].decision.cost, UNTOUCHED);

  assert_int_equal(weir_decide_extra(limiters, requests, extras, 2, &why), WEIR_BAD_ARGUMENT);
  assert_says(&why, "requests[0]: ");
  assert_says(&why, part);
  assert_int_equal(requests[1].status, WEIR_OK);
  assert_true(requests[1].decision.allowed);
}

static void what_no_rule_has_is_refused(void **state) {
  weir_extra extra = WEIR_EXTRA_INIT;
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:50/1m", NULL);
  extra.class_name = "batch";
  assert_refused(&w, &extra, "the class \"batch\": fixed-window:50/1m has no classes");
  extra.class_name = "";
  assert_refused(&w, &extra, "the class \"\"");
  extra.class_name = NULL;
  extra.limit = 5;
  assert_refused(&w, &extra,
                 "a limit of 5 for fixed-window:50/1m: accepted is a limiter with most=");
  extra.limit = -1;
  assert_refused(&w, &extra, "a limit of -1");
  extra.limit = 0;
  extra.tenant = "north";
  extra.tenant_length = 5;
  assert_refused(&w, &extra, "a tenant for fixed-window:50/1m");
  extra.tenant = NULL;
  assert_refused(&w, &extra, "a tenant for");
  world_close(&w);
}

/* A caller that was built with a newer header is not passed over. */
static void an_extra_says_its_size(void **state) {
  struct {
    weir_extra extra;
    int64_t more;
  } longer = {.extra = {.size = sizeof longer}};
  weir_extra extra = {.size = 0};
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:50/1m", NULL);
  assert_refused(&w, &extra, "extra size is 0: accepted is sizeof(weir_extra)");
  extra.size = sizeof extra - 1;
  assert_refused(&w, &extra, "extra size is");
  extra.size = (size_t)-1;
  assert_refused(&w, &extra, "extra size is");
  longer.more = 1;
  assert_refused(&w, &longer.extra, "extra size is");
  longer.more = 0;
  weir_request request = plain();
  const weir_extra *extras[1] = {&longer.extra};
  assert_int_equal(weir_decide_extra(&w.limiter, &request, extras, 1, NULL), WEIR_OK);
  assert_true(request.decision.allowed);
  world_close(&w);
}

/* One that says nothing is decided as one without. */
static void an_empty_extra_is_none(void **state) {
  weir_extra empty = WEIR_EXTRA_INIT;
  const weir_extra *extras[3] = {&empty, NULL, &empty};
  weir_reservation *made[3];
  size_t denied_by;
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:50/1m", NULL);
  weir_limiter *limiters[3] = {w.limiter, w.limiter, w.limiter};
  weir_request requests[3] = {plain(), plain(), plain()};
  assert_int_equal(weir_decide_extra(limiters, requests, extras, 3, NULL), WEIR_OK);
  assert_int_equal(requests[2].decision.remaining, 47);
  assert_int_equal(weir_decide_extra(limiters, requests, NULL, 3, NULL), WEIR_OK);
  assert_int_equal(requests[2].decision.remaining, 44);
  assert_int_equal(weir_decide_all_extra(limiters, requests, extras, 1, &denied_by, NULL), WEIR_OK);
  assert_int_equal(requests[0].decision.remaining, 43);
  assert_int_equal(weir_reserve_extra(limiters, requests, extras, 3, made, NULL), WEIR_OK);
  assert_int_equal(requests[2].decision.remaining, 40);
  for (size_t i = 0; i < 3; i++)
    weir_reservation_destroy(made[i]);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_no_rule_has_is_refused),
      cmocka_unit_test(an_extra_says_its_size),
      cmocka_unit_test(an_empty_extra_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
