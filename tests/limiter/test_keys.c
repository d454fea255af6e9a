/* Keys of any bytes: each limits itself alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limiter.h"
#include "limiter/world.h"

#define KEY(text) \
  { text, sizeof(text) - 1 }

/* Each looks like another one with something added, escaped, or injected. */
static const struct {
  const char *bytes;
  size_t length;
} odd[] = {
    KEY("a"),
    KEY("a}"),
    KEY("a}:1"),
    KEY("a}:1}"),
    KEY("{a}"),
    KEY("{a"),
    KEY("A"),
    KEY("aa"),
    KEY("a "),
    KEY(" a"),
    KEY("a\0"),
    KEY("a\0b"),
    KEY("\0"),
    KEY("\0\0"),
    KEY("a\r\n"),
    KEY("a\r"),
    KEY("a\n"),
    KEY("a%0d%0a"),
    KEY("a%0D%0A"),
    KEY("a%00"),
    KEY("%"),
    KEY("%25"),
    KEY("%%"),
    KEY("#"),
    KEY("%23"),
    KEY(" "),
    KEY("%20"),
    KEY("\t"),
    KEY("\x7f"),
    KEY("\xff"),
    KEY("%ff"),
    KEY("\xc3\xa9"),
    KEY("e\xcc\x81"),
    KEY("\xc3"),
    KEY("weir:"),
    KEY("a:1"),
    KEY(":"),
    KEY("::"),
    KEY("}:0"),
    KEY("a\r\nflush_all\r\n"),
    KEY("a 0 0 1\r\n1\r\nset b 0 0 1"),
    KEY("#00000000000000000000000000000000"),
};
enum { ODD_COUNT = sizeof odd / sizeof odd[0] };

static weir_decision take(world *w, const void *key, size_t length) {
  weir_decision decision = {0};
  assert_int_equal(weir_limiter_take(w->limiter, key, length, 1, &decision, NULL), WEIR_OK);
  return decision;
}

static void never_meet_however_odd(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:1/1m", NULL);
  for (size_t i = 0; i < ODD_COUNT; i++)
    assert_true(take(&w, odd[i].bytes, odd[i].length).allowed);
  for (size_t i = 0; i < ODD_COUNT; i++)
    assert_false(take(&w, odd[i].bytes, odd[i].length).allowed);
  world_close(&w);
}

/* Around the length where a key is replaced by its hash, and at 10 kB. */
static void never_meet_however_long(void **state) {
  static char text[10001];
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:1/1m", NULL);
  memset(text, 'x', sizeof text);
  for (size_t length = 110; length <= 130; length++)
    assert_true(take(&w, text, length).allowed);
  assert_true(take(&w, text, 10000).allowed);
  assert_true(take(&w, text, 10001).allowed);
  text[9999] = 'y';
  assert_true(take(&w, text, 10000).allowed);
  for (size_t length = 110; length <= 130; length++)
    assert_false(take(&w, text, length).allowed);
  assert_false(take(&w, text, 10000).allowed);
  world_close(&w);
}

static void of_every_single_byte_are_distinct(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  for (int pass = 0; pass < 2; pass++) {
    for (int byte = 0; byte < 256; byte++) {
      unsigned char key = (unsigned char)byte;
      assert_int_equal(take(&w, &key, 1).allowed, pass == 0);
    }
  }
  world_close(&w);
}

static void are_kept_apart_by_rule(void **state) {
  static const char *const rules[] = {
      "fixed-window:1/1m",
      "fixed-window:1/1h",
      "fixed-window:1/1m,name=a",
      "fixed-window:1/1m,name=b",
      "fixed-window:1/1m,count=all",
      "fixed-window:1/1m,name=all",
      "fixed-window:1/1m,name=all-a",
      "fixed-window:1/1m,count=all,name=a",
      "sliding-window:1/1m",
      "sliding-window:1/1m,cells=1",
      "sliding-window:1/1m,count=all",
      "sliding-window:1/1m,count=all,name=all",
  };
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/30d", NULL);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_limiter *limiter = world_limiter(&w, rules[i], NULL);
    if (!limiter_take(limiter, "k", 1).allowed) fail_msg("%s shares another's counts", rules[i]);
    weir_limiter_destroy(limiter);
  }
  world_close(&w);
}

static void keep_their_counts_when_only_the_limit_changes(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:5/1m", NULL);
  world_take(&w, "k", 5);
  weir_limiter *raised = world_limiter(&w, "sliding-window:9/1m", NULL);
  assert_int_equal(limiter_peek(raised, "k", 1).remaining, 4);
  weir_limiter_destroy(raised);
  world_close(&w);
}

/* One of the limiter's has up to as many of the store's as a round has operations. */
static void are_remembered_as_long_as_an_embedded_store_may_keep_them(void **state) {
  const weir_limiter_options few = {.memo_keys = 7};
  world w;
  (void)state;
  world_open(&w, "memory:?keys=1000000", "fixed-window:5/1m", NULL);
  size_t counters = weir_machine_operations_most(&w.limiter->stack);
  assert_int_equal(w.limiter->memo_keys, 1000000 / counters);
  world_close(&w);
  world_open(&w, "memory:?keys=100", "fixed-window:5/1m", NULL);
  assert_int_equal(w.limiter->memo_keys, 16384);
  world_close(&w);
  world_open(&w, "memory:?keys=1000000", "fixed-window:5/1m", &few);
  assert_int_equal(w.limiter->memo_keys, 7);
  world_close(&w);
  world_open(&w, "memcached://127.0.0.1:1", "fixed-window:5/1m", NULL); /* nobody is asked */
  assert_int_equal(w.limiter->memo_keys, 16384);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(never_meet_however_odd),
      cmocka_unit_test(never_meet_however_long),
      cmocka_unit_test(of_every_single_byte_are_distinct),
      cmocka_unit_test(are_kept_apart_by_rule),
      cmocka_unit_test(keep_their_counts_when_only_the_limit_changes),
      cmocka_unit_test(are_remembered_as_long_as_an_embedded_store_may_keep_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
