/* Keys that RAISE made: what is sent for them, and what the replies prove, without a server. */
#include "redis/answer.h"

static weir_operation without_refresh(weir_operation raise) {
  raise.refresh = false;
  return raise;
}

static void sends_nothing_that_creates_a_raised_key(void **state) {
  (void)state;
  weir_operation sub = raised(sub_from("k", 12));
  assert_string_equal(words(&sub, 0), "ZADD k XX INCR -12 m");
  weir_operation raise = without_refresh(raise_to(100, 5));
  assert_string_equal(words(&raise, 0), "ZADD k XX GT 100 m ZADD k XX INCR 5 m");
  weir_operation get = raised(get_of("k"));
  assert_string_equal(words(&get, 0), "ZSCORE k m");
}

static void a_raise_tells_when_the_key_was_lost_in_between(void **state) {
  (void)state;
  assert_done(answer(raise_to(100, 5), 0, ":1\r\n$3\r\n105\r\n:1\r\n"), 105);
  assert_outcome(answer(raise_to(100, 5), 0, ":1\r\n$-1\r\n:0\r\n"), WEIR_ABSENT);
}

static void a_raise_without_refresh_finds_the_key_or_nothing(void **state) {
  (void)state;
  weir_operation raise = without_refresh(raise_to(100, 5));
  assert_done(answer(raise, 0, ":0\r\n$3\r\n105\r\n"), 105);
  assert_outcome(answer(raise, 0, ":0\r\n$-1\r\n"), WEIR_ABSENT);
  assert_outcome(answer(raise, 0, "-NOPERM no\r\n-NOPERM no\r\n"), WEIR_REFUSED);
  assert_outcome(answer(raise, 0, "-LOADING later\r\n$3\r\n105\r\n"), WEIR_UNKNOWN);
}

/* A score that is no integer, or no exact one, is somebody else's. */
static void a_score_that_may_be_wrong_is_never_told(void **state) {
  (void)state;
  static const char *const scores[] = {"$22\r\n4.6116860184273879e+18\r\n",
                                       "$3\r\n1.5\r\n",
                                       "$3\r\ninf\r\n",
                                       "$4\r\n-inf\r\n",
                                       "$2\r\n-0\r\n",
                                       "$16\r\n9007199254740992\r\n",
                                       "$17\r\n-9007199254740992\r\n",
                                       "$17\r\n99999999999999984\r\n"};
  for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
    char replies[96];
    snprintf(replies, sizeof replies, ":0\r\n%s:1\r\n", scores[i]);
    assert_outcome(answer(raise_to(100, 5), 0, replies), WEIR_UNKNOWN); /* it was written */
    assert_outcome(answer(raised(get_of("k")), 0, scores[i]), WEIR_REFUSED);
    assert_non_null(strstr(message.text, "zscore of key \"k\": it holds"));
    assert_outcome(answer(raised(sub_from("k", 5)), 0, scores[i]), WEIR_REFUSED);
    assert_non_null(
        strstr(message.text, i < 5 ? "not an integer" : "a score beyond what is exact"));
  }
}

static void a_raised_key_is_read_and_taken_from(void **state) {
  (void)state;
  assert_done(answer(raised(get_of("k")), 0, "$3\r\n105\r\n"), 105);
  assert_done(answer(raised(get_of("k")), 0, "$16\r\n9007199254740991\r\n"),
              (INT64_C(1) << 53) - 1);
  assert_done(answer(raised(get_of("k")), 0, "$17\r\n-9007199254740991\r\n"),
              1 - (INT64_C(1) << 53));
  assert_outcome(answer(raised(get_of("k")), 0, "$-1\r\n"), WEIR_ABSENT);
  assert_done(answer(raised(sub_from("k", 5)), 0, "$2\r\n-3\r\n"), -3);
  assert_done(answer(raised(sub_from("k", 5)), 0, "$1\r\n0\r\n"), 0);
  assert_outcome(answer(raised(sub_from("k", 5)), 0, "$-1\r\n"), WEIR_ABSENT);
}

/* A GET that was refused changed nothing, whatever the words; a SUB may have been executed. */
static void a_refused_read_of_a_raised_key_is_refused(void **state) {
  (void)state;
  static const char *const errors[] = {"-WRONGTYPE Operation against a key\r\n",
                                       "-NOPERM this user has no permissions\r\n",
                                       "-ERR Connection timed out\r\n"};
  for (size_t i = 0; i < 3; i++) {
    assert_outcome(answer(raised(get_of("k")), 0, errors[i]), WEIR_REFUSED);
    assert_outcome(answer(raised(sub_from("k", 5)), 0, errors[i]),
                   i < 2 ? WEIR_REFUSED : WEIR_UNKNOWN);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sends_nothing_that_creates_a_raised_key),
      cmocka_unit_test(a_raise_without_refresh_finds_the_key_or_nothing),
      cmocka_unit_test(a_raise_tells_when_the_key_was_lost_in_between),
      cmocka_unit_test(a_score_that_may_be_wrong_is_never_told),
      cmocka_unit_test(a_raised_key_is_read_and_taken_from),
      cmocka_unit_test(a_refused_read_of_a_raised_key_is_refused),
  };
  return cmocka_run_group_tests(tests, make_parser, free_parser);
}
