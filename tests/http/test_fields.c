/* Decisions as response fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

/* Under a clock that stands, so that every figure is known. */
static int64_t stands(void *context) {
  return *(const int64_t *)context;
}

static int64_t now_us = INT64_C(1000000000) * 1000000;

typedef struct service {
  weir_store *store;
  weir_limiter *limiter;
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  size_t count;
} service;

static void begin(service *s, const char *rules) {
  const weir_limiter_options options = {.size = sizeof options, .clock = {stands, &now_us}};
  weir_message message;
  memset(s, 0, sizeof *s);
  assert_int_equal(weir_store_open("memory:", &s->store, &message), WEIR_OK);
  assert_int_equal(weir_limiter_create(s->store, rules, &options, &s->limiter, &message), WEIR_OK);
}

static void end(service *s) {
  weir_limiter_destroy(s->limiter);
  weir_store_close(s->store);
}

static weir_decision take(service *s, int64_t cost) {
  weir_decision decision;
  assert_int_equal(weir_limiter_take(s->limiter, "a", 1, cost, &decision, NULL), WEIR_OK);
  return decision;
}

static void write_named(service *s, const char *name, const weir_decision *decision,
                        unsigned style) {
  weir_message message;
  assert_int_equal(
      weir_http_write_fields(s->limiter, name, decision, style, s->fields, &s->count, &message),
      WEIR_OK);
}

static void write_fields(service *s, const weir_decision *decision, unsigned style) {
  write_named(s, "api", decision, style);
}

static const char *find(const service *s, const char *name) {
  for (size_t i = 0; i < s->count; i++)
    if (strcmp(s->fields[i].name, name) == 0) return s->fields[i].value;
  return NULL;
}

static void says_what_remains(void **state) {
  (void)state;
  service s;
  begin(&s, "fixed-window:10/1m");
  weir_decision decision = take(&s, 3);
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_int_equal(s.count, 2);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api\";q=10;w=60");
  assert_string_equal(find(&s, "RateLimit"), "\"api\";r=7;t=20"); /* 10^9 s is 40 s into a minute */
  end(&s);
}

static void tells_the_denied_when_to_come_back(void **state) {
  (void)state;
  service s;
  begin(&s, "fixed-window:10/1m");
  take(&s, 10);
  weir_decision decision = take(&s, 1);
  assert_false(decision.allowed);
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit"), "\"api\";r=0;t=20");
  assert_string_equal(find(&s, "Retry-After"), "20");
  write_fields(&s, &decision, WEIR_HTTP_X_RATELIMIT);
  assert_int_equal(s.count, 4);
  assert_string_equal(find(&s, "X-RateLimit-Limit"), "10");
  assert_string_equal(find(&s, "X-RateLimit-Remaining"), "0");
  assert_string_equal(find(&s, "X-RateLimit-Reset"), "20");
  assert_string_equal(find(&s, "Retry-After"), "20");
  end(&s);
}

/* Whoever waits for the seconds that were told is admitted, at any fraction of a second. */
static void who_waits_as_told_is_admitted(void **state) {
  (void)state;
  static const char *const rules[] = {"fixed-window:5/1s", "sliding-window:5/7s",
                                      "token-bucket:7/3s,burst=2", "quota:3/1500ms"};
  int64_t begin_us = now_us;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    service s;
    begin(&s, rules[i]);
    for (int step = 0; step < 200; step++) {
      now_us += 137911;
      weir_decision decision = take(&s, 1);
      if (decision.allowed) continue;
      write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
      now_us += INT64_C(1000000) * atoi(find(&s, "Retry-After"));
      assert_true(take(&s, 1).allowed);
    }
    end(&s);
  }
  now_us = begin_us;
}

static void a_cost_that_never_fits_has_no_retry_after(void **state) {
  (void)state;
  service s;
  begin(&s, "fixed-window:10/1m");
  weir_decision decision = take(&s, 11);
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_null(find(&s, "Retry-After"));
  assert_null(find(&s, "RateLimit")); /* nobody asked the store what remains */
  assert_non_null(find(&s, "RateLimit-Policy"));
  end(&s);
}

static void names_every_rule_of_a_stack(void **state) {
  (void)state;
  service s;
  begin(&s, "sliding-window:10/1s;fixed-window:100/1h,name=hourly;token-bucket:5/2s,burst=20");
  weir_decision decision = take(&s, 4);
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"),
                      "\"api-1\";q=10;w=1, \"hourly\";q=100;w=3600, \"api-3\";q=20;w=8");
  assert_int_equal(decision.rule, 0);
  assert_memory_equal(find(&s, "RateLimit"), "\"api-1\";r=6;t=", 14);
  end(&s);
}

static void what_is_held_is_counted_at_once(void **state) {
  (void)state;
  service s;
  weir_reservation *held;
  weir_request request = {.key = "k", .key_length = 1, .cost = 4};
  begin(&s, "in-flight:10/30s;fixed-window:100/1h,name=hourly");
  assert_int_equal(weir_limiter_reserve(s.limiter, &request, &held, NULL), WEIR_OK);
  write_fields(&s, &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"),
                      "\"api-1\";q=10;qu=\"concurrent-requests\", \"hourly\";q=100;w=3600");
  assert_int_equal(weir_reservation_commit(held, NULL), WEIR_OK);
  weir_reservation_destroy(held);
  end(&s);
}

static void a_class_and_a_limit_have_their_own_figure(void **state) {
  (void)state;
  service s;
  weir_extra extra = {.size = sizeof extra, .class_name = "batch"};
  const weir_extra *extras = &extra;
  weir_request request = {.key = "a", .key_length = 1, .cost = 1};
  begin(&s, "quota:50/1h,most=1000;fixed-window:10/1m,classes=batch:60%");
  assert_int_equal(weir_decide_extra(&s.limiter, &request, &extras, 1, NULL), WEIR_OK);
  write_fields(&s, &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api-1\";q=50;w=3600, \"api-2\";q=6;w=60");
  extra = (weir_extra){.size = sizeof extra, .limit = 3};
  assert_int_equal(weir_decide_extra(&s.limiter, &request, &extras, 1, NULL), WEIR_OK);
  write_fields(&s, &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api-1\";q=3;w=3600, \"api-2\";q=10;w=60");
  end(&s);
}

/* The one whose figure is that of the class, and no other; in RateLimit as well. */
static void a_policy_says_its_class(void **state) {
  (void)state;
  service s;
  weir_extra extra = {.size = sizeof extra, .class_name = "batch"};
  const weir_extra *extras = &extra;
  weir_request request = {.key = "a", .key_length = 1, .cost = 1};
  begin(&s, "fixed-window:10/1m,classes=batch:60%");
  assert_int_equal(weir_decide_extra(&s.limiter, &request, &extras, 1, NULL), WEIR_OK);
  write_named(&s, "api/batch", &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api/batch\";q=6;w=60");
  assert_memory_equal(find(&s, "RateLimit"), "\"api/batch\";r=5;", 16);
  request.decision.source = WEIR_SOURCE_FALLBACK; /* which tells a share */
  write_named(&s, "api/batch", &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api\";q=10;w=60");
  end(&s);

  begin(&s,
        "quota:50/1h;fixed-window:10/1m,classes=batch:60%;quota:7/1d,classes=batch:50%,name=own");
  request.cost = 3;
  assert_int_equal(weir_decide_extra(&s.limiter, &request, &extras, 1, NULL), WEIR_OK);
  write_named(&s, "api/batch", &request.decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"),
                      "\"api-1\";q=50;w=3600, \"api-2\";q=10;w=60, \"own/batch\";q=3;w=86400");
  assert_memory_equal(find(&s, "RateLimit"), "\"own/batch\";r=0;", 16);
  request.decision.rule = 0; /* which has no classes */
  write_named(&s, "api/batch", &request.decision, WEIR_HTTP_DRAFT_10);
  assert_memory_equal(find(&s, "RateLimit"), "\"api-1\";", 8);
  end(&s);
}

static void names_are_refused(void **state) {
  static const char *const names[] = {
      "", "/batch", "api/", "api/a/b", "api/\"", "a\"", "api/a23456789012345678901234567890123"};
  (void)state;
  service s;
  begin(&s, "fixed-window:10/1m,classes=batch:60%");
  weir_decision decision = take(&s, 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    assert_int_equal(weir_http_write_fields(s.limiter, names[i], &decision, WEIR_HTTP_DRAFT_10,
                                            s.fields, &s.count, NULL),
                     WEIR_BAD_ARGUMENT);
  write_named(&s, "api/a2345678901234567890123456789012", &decision, WEIR_HTTP_DRAFT_10);
  end(&s);
}

static void windows_below_a_second_are_told_as_one(void **state) {
  (void)state;
  service s;
  begin(&s, "fixed-window:10/100ms");
  weir_decision decision = take(&s, 1);
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api\";q=10;w=1");
  end(&s);
}

static void the_longest_of_all_fits(void **state) {
  (void)state;
  service s;
  char name[WEIR_HTTP_NAME_MOST + 1];
  begin(&s,
        "quota:1000000000/399d;quota:999999999/400d;quota:999999998/400d,name=a;"
        "fixed-window:999999997/400d;fixed-window:999999996/399d;sliding-window:5/400d;"
        "sliding-window:9/399d;token-bucket:1000000000/400d");
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  weir_decision decision = take(&s, 1);
  assert_int_equal(weir_http_write_fields(s.limiter, name, &decision, WEIR_HTTP_DRAFT_10, s.fields,
                                          &s.count, NULL),
                   WEIR_OK);
  const char *value = find(&s, "RateLimit-Policy");
  assert_string_equal(value + strlen(value) - 27, "-8\";q=1000000000;w=34560000");
  end(&s);
}

/* As many digits as a structured field may have; older fields have no such end. */
static void the_largest_limit_is_a_number_of_15_digits(void **state) {
  (void)state;
  service s;
  begin(&s, "quota:9007199254740992/30d");
  weir_decision decision = take(&s, 1);
  assert_int_equal(decision.remaining, INT64_C(9007199254740991));
  write_fields(&s, &decision, WEIR_HTTP_DRAFT_10);
  assert_string_equal(find(&s, "RateLimit-Policy"), "\"api\";q=999999999999999;w=2592000");
  assert_string_equal(find(&s, "RateLimit"), "\"api\";r=999999999999999;t=2592000");
  write_fields(&s, &decision, WEIR_HTTP_X_RATELIMIT);
  assert_string_equal(find(&s, "X-RateLimit-Limit"), "9007199254740992");
  assert_string_equal(find(&s, "X-RateLimit-Remaining"), "9007199254740991");
  end(&s);
}

static void a_bad_name_is_one_clear_error(void **state) {
  (void)state;
  static const char *const names[] = {"", "a b", "\"", "\x1b[1m", NULL};
  service s;
  begin(&s, "fixed-window:10/1m");
  weir_decision decision = take(&s, 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    weir_message message;
    assert_int_equal(
        weir_http_write_fields(s.limiter, names[i], &decision, 0, s.fields, &s.count, &message),
        WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "accepted are 1 to 64"));
    assert_int_equal(s.count, 0);
  }
  weir_message message;
  assert_int_equal(
      weir_http_write_fields(s.limiter, "api", &decision, 2, s.fields, &s.count, &message),
      WEIR_BAD_ARGUMENT);
  decision.rule = 1;
  assert_int_equal(
      weir_http_write_fields(s.limiter, "api", &decision, 0, s.fields, &s.count, &message),
      WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "rule 1"));
  end(&s);
}

static void a_limiter_tells_its_rules(void **state) {
  (void)state;
  service s;
  begin(&s, "token-bucket:5/2s,burst=20,name=x");
  weir_rule_info info = {.size = sizeof info};
  assert_int_equal(weir_limiter_read_rule(s.limiter, 0, &info), WEIR_OK);
  assert_string_equal(info.text, "token-bucket:5/2s,burst=20,name=x");
  assert_string_equal(info.algorithm, "token-bucket");
  assert_string_equal(info.name, "x");
  assert_int_equal(info.limit, 5);
  assert_int_equal(info.period_us, 2000000);
  assert_int_equal(info.capacity, 20);
  assert_int_equal(weir_limiter_read_rule(s.limiter, 1, &info), WEIR_BAD_ARGUMENT);

  struct { /* a caller of a later version */
    weir_rule_info info;
    int64_t more;
  } later = {.info = {.size = sizeof later}, .more = 7};
  assert_int_equal(weir_limiter_read_rule(s.limiter, 0, &later.info), WEIR_OK);
  assert_int_equal(later.more, 0);
  assert_int_equal(later.info.capacity, 20);

  weir_rule_info earlier = {.size = offsetof(weir_rule_info, name), .name = "untouched"};
  assert_int_equal(weir_limiter_read_rule(s.limiter, 0, &earlier), WEIR_OK);
  assert_string_equal(earlier.algorithm, "token-bucket");
  assert_string_equal(earlier.name, "untouched");
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_what_remains),
      cmocka_unit_test(tells_the_denied_when_to_come_back),
      cmocka_unit_test(who_waits_as_told_is_admitted),
      cmocka_unit_test(a_cost_that_never_fits_has_no_retry_after),
      cmocka_unit_test(names_every_rule_of_a_stack),
      cmocka_unit_test(what_is_held_is_counted_at_once),
      cmocka_unit_test(a_class_and_a_limit_have_their_own_figure),
      cmocka_unit_test(a_policy_says_its_class),
      cmocka_unit_test(names_are_refused),
      cmocka_unit_test(windows_below_a_second_are_told_as_one),
      cmocka_unit_test(the_longest_of_all_fits),
      cmocka_unit_test(the_largest_limit_is_a_number_of_15_digits),
      cmocka_unit_test(a_bad_name_is_one_clear_error),
      cmocka_unit_test(a_limiter_tells_its_rules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
