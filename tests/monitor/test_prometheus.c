/* The page for Prometheus: its lines, its labels, its bounds. promtool.sh asks Prometheus itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/weir.h>

enum { PAGE_BYTES = 65536 };

typedef struct world {
  weir_store *store;
  weir_limiter *limiter;
} world;

static world open_world(void) {
  world w;
  assert_int_equal(weir_store_open("memory:", &w.store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(w.store, "fixed-window:2/1h", NULL, &w.limiter, NULL),
                   WEIR_OK);
  return w;
}

static void close_world(world *w) {
  weir_limiter_destroy(w->limiter);
  weir_store_close(w->store);
}

static void take(const world *w, int times) {
  weir_decision decision;
  for (int i = 0; i < times; i++)
    assert_int_equal(weir_limiter_take(w->limiter, "secret-user", 11, 1, &decision, NULL), WEIR_OK);
}

static const char *print(const weir_monitor_source *sources, size_t count) {
  static char page[PAGE_BYTES];
  size_t length;
  weir_message why = {""};
  if (weir_monitor_print_prometheus(sources, count, page, sizeof page, &length, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  assert_int_equal(length, strlen(page));
  return page;
}

static void expect_line(const char *page, const char *line) {
  char whole[512];
  snprintf(whole, sizeof whole, "\n%s\n", line);
  if (strstr(page, whole) == NULL) fail_msg("%s is not in\n%s", line, page);
}

static void counts_are_shown_by_what_and_by_whom(void **state) {
  world w = open_world();
  const weir_monitor_source source = {"api", w.limiter, w.store};
  (void)state;
  take(&w, 5);
  const char *page = print(&source, 1);
  expect_line(page, "# TYPE weir_decisions_total counter");
  expect_line(page, "weir_decisions_total{limiter=\"api\",result=\"allowed\"} 2");
  expect_line(page, "weir_decisions_total{limiter=\"api\",result=\"denied\"} 3");
  expect_line(page, "weir_requests_total{limiter=\"api\",status=\"OK\"} 5");
  expect_line(page, "weir_keys_lost_total{limiter=\"api\"} 0");
  expect_line(page, "weir_store_wait_seconds_bucket{limiter=\"api\",le=\"0.0001\"} 0");
  expect_line(page, "weir_store_wait_seconds_bucket{limiter=\"api\",le=\"+Inf\"} 0");
  expect_line(page, "weir_server_breaker{store=\"api\",server=\"0\",state=\"closed\"} 1");
  expect_line(page, "weir_server_breaker{store=\"api\",server=\"0\",state=\"open\"} 0");
  assert_null(strstr(page, "secret-user"));
  close_world(&w);
}

/* Whoever names a limiter after what a client sent cannot forge a line. */
static void names_cannot_break_out_of_a_label(void **state) {
  world w = open_world();
  const weir_monitor_source source = {"a\"} 1\nb\\\x01", w.limiter, NULL};
  (void)state;
  expect_line(print(&source, 1),
              "weir_clock_steps_total{limiter=\"a\\\"} 1\\\\x0ab\\\\\\\\x01\"} 0");
  close_world(&w);
}

static void families_stand_together(void **state) {
  world one = open_world();
  world two = open_world();
  const weir_monitor_source sources[] = {
      {"one", one.limiter, NULL}, {"two", two.limiter, NULL}, {"both", NULL, one.store}};
  (void)state;
  const char *page = print(sources, 3);
  const char *head = "# TYPE weir_keys_lost_total";
  assert_null(strstr(strstr(page, head) + 1, head));
  assert_non_null(strstr(page,
                         "weir_keys_lost_total{limiter=\"one\"} 0\n"
                         "weir_keys_lost_total{limiter=\"two\"} 0\n"));
  close_world(&one);
  close_world(&two);
}

static void a_buffer_too_small_stays_empty_and_learns_the_length(void **state) {
  world w = open_world();
  const weir_monitor_source source = {"api", w.limiter, w.store};
  weir_message why = {""};
  size_t whole = strlen(print(&source, 1));
  size_t length = 0;
  char *buffer = malloc(whole + 1); /* exactly, so that a sanitizer sees one byte too many */
  (void)state;
  assert_non_null(buffer);
  for (size_t size = 0; size <= whole; size += size < 100 ? 1 : 97) {
    assert_int_equal(weir_monitor_print_prometheus(&source, 1, buffer, size, &length, &why),
                     WEIR_BAD_ARGUMENT);
    assert_int_equal(length, whole);
    if (size > 0) assert_int_equal(buffer[0], '\0');
  }
  assert_non_null(strstr(why.text, "are needed"));
  assert_int_equal(weir_monitor_print_prometheus(&source, 1, buffer, whole + 1, &length, NULL),
                   WEIR_OK);
  assert_int_equal(strlen(buffer), whole);
  free(buffer);
  close_world(&w);
}

static int stop_at_third(void *context, const char *text, size_t length) {
  int *calls = context;
  assert_true(length > 0 && length <= 1024 && text[length] == '\0');
  return ++*calls == 3;
}

static void a_function_that_stops_is_not_called_again(void **state) {
  world w = open_world();
  const weir_monitor_source source = {"api", w.limiter, w.store};
  int calls = 0;
  (void)state;
  assert_int_equal(weir_monitor_prometheus(&source, 1, stop_at_third, &calls, NULL),
                   WEIR_BAD_ARGUMENT);
  assert_int_equal(calls, 3);
  close_world(&w);
}

static void expect_refused(const weir_monitor_source *sources, size_t count, const char *why) {
  weir_message message = {""};
  weir_watch *watch;
  size_t length;
  assert_int_equal(weir_monitor_print_prometheus(sources, count, NULL, 0, &length, &message),
                   WEIR_BAD_ARGUMENT);
  if (strstr(message.text, why) == NULL) fail_msg("\"%s\" is not in: %s", why, message.text);
  assert_int_equal(weir_watch_create(sources, count, 0, &watch, &message), WEIR_BAD_ARGUMENT);
  assert_null(watch);
}

static void bad_sources_are_named(void **state) {
  world w = open_world();
  char longest[WEIR_MONITOR_NAME_MOST + 2];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  const weir_monitor_source nameless[] = {{"a", w.limiter, NULL}, {"", w.limiter, NULL}};
  const weir_monitor_source empty = {"a", NULL, NULL};
  const weir_monitor_source twice[] = {{"a", w.limiter, NULL}, {"a", w.limiter, w.store}};
  const weir_monitor_source too_long = {longest, w.limiter, NULL};
  (void)state;
  expect_refused(nameless, 2, "sources[1] has no name");
  expect_refused(&empty, 1, "sources[0] has neither");
  expect_refused(twice, 2, "sources[1] has the name of another");
  expect_refused(&too_long, 1, "more than 64 bytes");
  expect_refused(twice, WEIR_MONITOR_SOURCES_MOST + 1, "accepted are up to 1024");
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_shown_by_what_and_by_whom),
      cmocka_unit_test(names_cannot_break_out_of_a_label),
      cmocka_unit_test(families_stand_together),
      cmocka_unit_test(a_buffer_too_small_stays_empty_and_learns_the_length),
      cmocka_unit_test(a_function_that_stops_is_not_called_again),
      cmocka_unit_test(bad_sources_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
