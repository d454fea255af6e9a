#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

/* Each bad text, and the words that its message must hold. */
static const struct {
  const char *text, *names, *accepts;
} bad[] = {
    {"", "\"\"", "fixed-window"},
    {"gcra:1/s", "\"gcra\"",
     "fixed-window, sliding-window, sliding-log, quota, token-bucket, leaky-bucket, in-flight "
     "and shared-window"},
    {"Quota:1/s", "\"Quota\"", "quota"},
    {"redis://:hunter2@h", "rule 1: unknown algorithm \"redis\"", "quota"},
    {"hunter2@h:1/s", "rule 1: no algorithm that is known", "quota"},
    {"quota:1/s;ann:hunter2@h", "rule 2: unknown algorithm \"ann\"", "quota"},
    {"token:1/s", "\"token\"", "fixed-window"},
    {"quota:1/s;5/s,name=a", "rule 2: no algorithm is named", "; did you mean sliding-window:5/s?"},
    {"hunter2/1m", "rule 1: no algorithm that is known", "quota"},
    {"0/1m", "rule 1: no algorithm that is known", "quota"},
    {"100/401d", "rule 1: no algorithm that is known", "quota"},
    {"fixed-window", "LIMIT/PERIOD", "100/1m"},
    {"fixed-window:5", "LIMIT/PERIOD", "100/1m"},
    {"fixed-window:0/s", "\"0\"", "1 to 9007199254740992"},
    {"fixed-window:-1/s", "\"-1\"", "1 to 9007199254740992"},
    {"fixed-window:9007199254740993/s", "\"9007199254740993\"", "1 to 9007199254740992"},
    {"fixed-window:99999999999999999999999/s", "99999999999999999999999", "1 to 9007199254740992"},
    {"fixed-window:1.5/s", "\"1.5\"", "whole number"},
    {"fixed-window:/s", "\"\"", "whole number"},
    {"fixed-window:1/", "\"\"", "1ms to 400d"},
    {"fixed-window:1/0s", "\"0s\"", "1ms to 400d"},
    {"fixed-window:1/401d", "\"401d\"", "1ms to 400d"},
    {"fixed-window:1/5x", "\"5x\"", "a whole number and ms, s, m, h or d"},
    {"fixed-window:1/99999999999999999999d", "99999999999999999999d", "1ms to 400d"},
    {"fixed-window:1/s,", "\"\"", "count="},
    {"sliding-window:1/s,colour=red", "\"colour\"",
     "cells=, strict, count=, hold=, lease=, debt=, most=, classes=, tiers= and name="},
    {"token-bucket:1/s,=5", "unknown option \"\"",
     "burst=, hold=, lease=, debt=, most=, classes=, tiers= and name="},
    {"sliding-window:1/s,cells=3", "cells=3", "1, 2, 4"},
    {"sliding-window:1/s,cells=128", "cells=128", "and 64"},
    {"sliding-window:1/s,cells=0", "cells=0", "1, 2, 4"},
    {"sliding-window:1/s,cells", "cells", "needs a value"},
    {"sliding-window:1/s,strict=yes", "strict=yes", "no value"},
    {"sliding-window:1/s,count=some", "count=some", "admitted and all"},
    {"sliding-window:1/s,name=", "name=", "1 to 32"},
    {"sliding-window:1/s,name=a b", "name=a b", "A-Z"},
    {"sliding-window:1/s,name=123456789012345678901234567890123", "name=", "1 to 32"},
    {"sliding-window:1/s,strict,strict", "strict", "twice"},
    {"sliding-log:0/s", "\"0\"", "1 to 100000"},
    {"sliding-log:100001/s", "\"100001\"", "1 to 100000"},
    {"quota:9007199254740993/s", "\"9007199254740993\"", "1 to 9007199254740992"},
    {"token-bucket", "LIMIT/PERIOD", "token-bucket:100/1m"},
    {"token-bucket:5/0ms", "\"0ms\"", "1ms to 400d"},
    {"leaky-bucket:5/401d", "\"401d\"", "1ms to 400d"},
    {"in-flight:0/30s", "\"0\"", "1 to 1000000000"},
    {"in-flight:1/999ms", "\"999ms\"", "1s to 1h"},
    {"in-flight:1/61m", "\"61m\"", "1s to 1h"},
    {"in-flight:1/30s,count=all", "option count",
     "in-flight accepts hold=, lease=, most=, classes=, tiers= and name="},
    {"in-flight:1/30s,burst=1", "option burst",
     "in-flight accepts hold=, lease=, most=, classes=, tiers= and name="},
    {"in-flight:1/30s,cells=1", "option cells",
     "in-flight accepts hold=, lease=, most=, classes=, tiers= and name="},
    {"in-flight:1/30s;in-flight:2/30s", "rules 1 and 2", "(if-30000)"},
    {"in-flight:1/30s;fixed-window:2/s,count=all", "in-flight", "count=admitted"},
    {"token-bucket:1/s,burst=0", "burst=0", "1 to 1000000000"},
    {"token-bucket:1/s,burst=-1", "burst=-1", "1 to 1000000000"},
    {"token-bucket:1/s,burst=", "burst=:", "1 to 1000000000"},
    {"token-bucket:1/s,burst=5s", "burst=5s", "1 to 1000000000"},
    {"token-bucket:1/s,burst=1000000001", "burst=1000000001", "1 to 1000000000"},
    {"token-bucket:1/s,burst=18446744073709551617", "burst=18446744073709551617",
     "1 to 1000000000"},
    {"token-bucket:1/s,burst", "burst", "needs a value"},
    {"token-bucket:1/s,burst=3,hold=1s,burst=3", "burst", "twice"},
    {"leaky-bucket:1/s,queue=-1", "queue=-1", "0 to 999999999"},
    {"leaky-bucket:1/s,queue=1000000000", "queue=1000000000", "0 to 999999999"},
    {"leaky-bucket:1/s,queue", "queue", "needs a value"},
    {"leaky-bucket:1/s,queue=1,queue=1", "queue", "twice"},
    {"quota:1/s,hold=0ms", "hold=0ms", "1ms to 60s"},
    {"quota:1/s,hold=0", "hold=0", "1ms to 60s"},
    {"quota:1/s,hold=60001ms", "hold=60001ms", "1ms to 60s"},
    {"quota:1/s,hold=h", "hold=h", "1ms to 60s"},
    {"quota:1/s,hold=-1s", "hold=-1s", "1ms to 60s"},
    {"quota:1/s,hold=500us", "hold=500us", "ms, s or m"},
    {"quota:1/s,hold=", "hold=:", "1ms to 60s"},
    {"quota:1/s,hold", "hold", "needs a value"},
    {"quota:1/s,hold=1s,hold=2s", "hold", "twice"},
    {"quota:1/s,lease=0ms", "lease=0ms", "1ms to 1s"},
    {"quota:1/s,lease=1001ms", "lease=1001ms", "1ms to 1s"},
    {"quota:1/s,lease=1m", "lease=1m", "1ms to 1s"},
    {"quota:1/s,lease=1", "lease=1", "ms or s"},
    {"quota:1/s,lease=500us", "lease=500us", "ms or s"},
    {"quota:1/s,lease=", "lease=:", "1ms to 1s"},
    {"quota:1/s,lease", "lease", "needs a value"},
    {"quota:1/s,lease=1s,lease=1s", "lease", "twice"},
    {"fixed-window:1/s,lease=1s,count=all", "lease= with count=all", "count=admitted"},
    {"sliding-window:1/s,count=all,lease=1s", "lease= with count=all", "no lease="},
    {"token-bucket:20000/s,burst=2000,lease=26ms", "burst of 2000", "1ms to 25ms"},
    {"token-bucket:1000/s,burst=9,lease=3ms", "burst of 9", "1ms to 2ms"},
    {"token-bucket:1000/s,burst=3,lease=1ms", "burst of 3", "too fast for any lease"},
    {"token-bucket:1/s,burst=1,lease=1ms", "keeps back 1 of burst=1", "a burst of 2 or more"},
    {"quota:5/s,debt=6", "debt=6", "0 to 5"},
    {"quota:5/s,debt=-1", "debt=-1", "from 0"},
    {"quota:5/s,debt=1k", "debt=1k", "whole number"},
    {"quota:5/s,debt=", "debt=:", "whole number"},
    {"quota:5/s,debt", "debt", "needs a value"},
    {"quota:5/s,debt=1,debt=1", "debt", "twice"},
    {"sliding-window:5/s,debt=9007199254740993", "debt=9007199254740993", "whole number"},
    {"token-bucket:5/s,debt=8,burst=7", "debt=8", "0 to 7"},
    {"token-bucket:20000/s,burst=2000,lease=10ms,debt=1801", "debt=1801", "0 to 1800"},
    {"fixed-window:5/s,debt=1,count=all", "debt= with count=all", "count=admitted"},
    {"leaky-bucket:5/s,debt=1", "debt", "fixed-window"},
    {"sliding-window:5/s,most=4", "most=4 is below the limit", "5, the limit, to 9007199254740992"},
    {"sliding-log:5/s,most=100001", "most=100001 is too large", "5, the limit, to 100000"},
    {"quota:5/s,most=0", "most=0", "the largest limit"},
    {"quota:5/s,most=-1", "most=-1", "the largest limit"},
    {"quota:5/s,most=9007199254740993", "most=9007199254740993:", "from 1 to 9007199254740992"},
    {"quota:5/s,most=", "most=:", "whole number"},
    {"quota:5/s,most", "most", "needs a value"},
    {"quota:5/s,most=9,most=9", "most", "twice"},
    {"quota:5/s,debt=6,most=9", "debt=6", "0 to 5"},
    {"token-bucket:1000000001/1h", "\"1000000001\"", "1 to 1000000000"},
    {"leaky-bucket:5/1h,most=1000000001", "most=1000000001 is too large",
     "5, the limit, to 1000000000"},
    {"token-bucket:5/1h,debt=9,burst=8", "debt=9", "0 to 8"},
    {"token-bucket:5/s,burst=99,debt=10,most=9", "debt=10 is above most=9", "0 to 9"},
    {"token-bucket:5/1ms,most=1025001", "most=1025001 per 1ms is too fast", "up to 1025000"},
    {"quota:1/s,lease=1s;fixed-window:1/s", "rules 1 and 2",
     "for every rule of a stack, or for none"},
    {"quota:1/s;fixed-window:1/s;sliding-log:1/s;token-bucket:9/s,lease=9ms", "rules 1 and 4",
     "lease="},
    {"quota:1/s,count=admitted,count=admitted", "count", "twice"},
    {"sliding-log:1/s,name=a,name=b", "name", "twice"},
    {"fixed-window:1/s;", "\"\"", "fixed-window"},
    {"fixed-window:1/s;fixed-window:2/s", "rules 1 and 2", "name="},
    {"sliding-window:1/s;sliding-window:2/s,strict", "rules 1 and 2", "name="},
    {"quota:1/s;quota:2/s,hold=1s", "rules 1 and 2", "name="},
    {"quota:1/s;fixed-window:1/s;quota:1/s", "rules 1 and 3", "name="},
    {"quota:9/s,most=9,tiers", "option tiers needs a value", "tiers=..."},
    {"quota:9/s,most=9,tiers=", "tiers=:", "1 to 16 of NAME:LIMIT"},
    {"quota:9/s,most=9,tiers=a", "tiers=a:", "NAME:LIMIT with | between them"},
    {"quota:9/s,most=9,tiers=a:0", "tiers=a:0:", "NAME:LIMIT"},
    {"quota:9/s,most=9,tiers=a:1%", "tiers=a:1%:", "NAME:LIMIT"},
    {"quota:9/s,most=9,tiers=a:1|", "tiers=a:1|:", "NAME:LIMIT"},
    {"quota:9/s,most=9,tiers=5m:1", "tiers=5m:1:", "begins with no digit"},
    {"quota:9/s,most=9,tiers=unlimited:1", "tiers=unlimited:1:", "blocked or unlimited"},
    {"quota:9/s,most=9,tiers=a:1|b:2|c:3|d:4|e:5|f:6|g:7|h:8|i:9|j:1|k:1|l:1|m:1|n:1|o:1|p:1|q:1",
     "tiers=a:1", "1 to 16"},
    {"quota:9/s,tiers=a:1", "tiers= without most=", "accepted are both, or none"},
    {"quota:9/s,most=9,tiers=a:10", "tier a has a limit of 10", "accepted are 1 to 9"},
    {"quota:9/s,most=9,tiers=a:1|b:2|a:3", "tier a is given twice", "given twice"},
    {"token-bucket:100/s,burst=2,most=500,tiers=a:9", "tier a has a limit of 9",
     "accepted are 50 to 500"},
    {"shared-window:60000/1m,weights=a:5,most=70000,tiers=a:1", "option tiers belongs to",
     "shared-window accepts"},
    {"quota:9/s,classes", "option classes needs a value", "classes=..."},
    {"quota:9/s,classes=", "classes=:", "1 to 8 of NAME:PART"},
    {"quota:9/s,classes=a", "classes=a:", "PART is 1% to 100%"},
    {"quota:9/s,classes=a:", "classes=a::", "PART is"},
    {"quota:9/s,classes=:5", "classes=:5:", "NAME is 1 to 32 of"},
    {"quota:9/s,classes=a b:5", "classes=a b:5", "NAME is"},
    {"quota:9/s,classes=a:0", "classes=a:0", "or a whole number"},
    {"quota:9/s,classes=a:0%", "classes=a:0%", "1% to 100%"},
    {"quota:9/s,classes=a:101%", "classes=a:101%", "1% to 100%"},
    {"quota:9/s,classes=a:1.5%", "classes=a:1.5%", "1% to 100%"},
    {"quota:9/s,classes=a:%", "classes=a:%", "1% to 100%"},
    {"quota:9/s,classes=a:1|", "classes=a:1|", "with | between them"},
    {"quota:9/s,classes=abcdefghijklmnopqrstuvwxyz0123456:1", "classes=abc", "1 to 32"},
    {"quota:99/s,classes=a:1|b:2|c:3|d:4|e:5|f:6|g:7|h:8|i:9", "classes=a:1", "1 to 8"},
    {"quota:9/s,classes=a:1,classes=b:2", "option classes", "twice"},
    {"quota:9/s,classes=a:1|a:2", "class a", "twice"},
    {"quota:9/s,classes=a:10", "class a has 10 of 9", "1 to 9"},
    {"token-bucket:9/s,burst=4,classes=a:5", "class a has 5 of 4", "1 to 4"},
    {"leaky-bucket:9/s,queue=3,classes=a:5", "class a has 5 of 4", "1 to 4"},
    {"token-bucket:20000/s,burst=2000,lease=10ms,classes=a:1801", "class a has 1801 of 1800",
     "1 to 1800"},
    {"quota:9/s,classes=a:5|b:5", "class b has no more than class a", "parts that rise"},
    {"quota:9/s,classes=a:60%|b:60%", "class b has no more than class a", "parts that rise"},
    {"quota:9/s,classes=a:60%|b:5", "class b has no more than class a", "parts that rise"},
    {"fixed-window:9/s,classes=a:5,count=all", "classes= with count=all", "count=admitted"},
    {"quota:9/s,classes=a:5;fixed-window:1/s;quota:9/m,classes=b:5", "rules 1 and 3",
     "the same names in the same order"},
    {"quota:9/s,classes=a:5|b:6;quota:9/m,classes=b:5|a:6", "rules 1 and 2", "the same order"},
    {"quota:9/s,classes=a:5;quota:9/m,classes=a:5|b:6", "rules 1 and 2", "the same names"},
    {"token-bucket:1/s;quota:1/s;token-bucket:2/s,burst=5", "rules 1 and 3", "name="},
    {"leaky-bucket:1/s;leaky-bucket:1/s,queue=5", "rules 1 and 2", "name="},
    {"leaky-bucket:1/s,name=a;leaky-bucket:1/s,name=a", "(lb-1000-u0+a)", "name="},
    {"fixed-window:1/s,count=all;token-bucket:1/s", "in a stack with a token-bucket",
     "count=admitted"},
    {"fixed-window:1/s;quota:1/s,count=all", "in a stack with a quota", "count=admitted"},
    {"sliding-log:1/m;quota:1/s;sliding-log:2/m", "rules 1 and 3 are both sliding-log",
     "one limit for it"},
    {"sliding-log:1/s;sliding-log:1/1000ms",
     "rules 1 and 2 are both sliding-log and have one period", "one limit for it"},
    {"sliding-log:1/s,name=a;sliding-log:1/m,name=b", "both sliding-log and share one log",
     "one name= for both, or none"},
    {"sliding-log:1/s;sliding-log:1/m,name=b", "both sliding-log and share one log", "or none"},
    {"sliding-log:1/s;quota:1/s,count=all;sliding-log:1/m", "in a stack with a quota",
     "count=admitted"},
    {"fixed-window:1/1s;fixed-window:1/2s;fixed-window:1/3s;fixed-window:1/4s;fixed-window:1/5s;"
     "fixed-window:1/6s;fixed-window:1/7s;fixed-window:1/8s;fixed-window:1/9s",
     "more than 8", "1 to 8"},
};

static void names_what_is_wrong_and_what_is_accepted(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weir_stack stack;
    weir_message message = {""};
    weir_status status = weir_stack_parse(bad[i].text, 64, &stack, &message);
    if (status != WEIR_BAD_RULE || strstr(message.text, bad[i].names) == NULL ||
        strstr(message.text, bad[i].accepts) == NULL)
      fail_msg("\"%s\" gave %d \"%s\", wanted \"%s\" and \"%s\"", bad[i].text, (int)status,
               message.text, bad[i].names, bad[i].accepts);
  }
}

/* Of 2^53: 66 * 2^53 for 64 processes, and as much again where a debt is as large. */
static void names_the_largest_limit_that_counters_have_room_for(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t processes;
    int64_t most; /* 0: all are accepted */
  } cases[] = {
      {"quota:9007199254740992/30d", 64, 0},
      {"sliding-window:9007199254740992/1m,cells=1,debt=9007199254740992", 64, 0},
      {"sliding-window:9007199254740992/1m,cells=1,debt=9007199254740992", 124, 0},
      {"sliding-window:9007199254740992/1m,cells=1,debt=9007199254740992", 126, 8868626958514207},
      {"fixed-window:9007199254740992/1m", 253, 0},
      {"fixed-window:9007199254740992/1m", 255, 8972151786823711},
      {"quota:9007199254740992/1m", 100000, 23057968932758},
      {"quota:1/1m,most=9007199254740992", 100000, 23057968932758},
      {"quota:1000000000/1m,debt=1000000000", 100000, 0},
      {"in-flight:1000000000/1m", 100000, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_stack stack;
    weir_message message = {""};
    char accepted[80];
    weir_status status = weir_stack_parse(cases[i].text, cases[i].processes, &stack, &message);
    snprintf(accepted, sizeof accepted, ": accepted are up to %lld, or fewer processes",
             (long long)cases[i].most);
    if (status != (cases[i].most == 0 ? WEIR_OK : WEIR_BAD_RULE) ||
        (cases[i].most > 0 && strstr(message.text, accepted) == NULL))
      fail_msg("\"%s\" with %u gave %d \"%s\"", cases[i].text, cases[i].processes, (int)status,
               message.text);
  }
}

static void bears_very_long_text(void **state) {
  (void)state;
  char text[5000];
  weir_stack stack;
  weir_message message = {""};
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  assert_int_equal(weir_stack_parse(text, 64, &stack, &message), WEIR_BAD_RULE);
  assert_true(strlen(message.text) < WEIR_MESSAGE_BYTES);
}

static void says_each_thing_in_one_sentence(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"100/1m",
       "rule 1: no algorithm is named: accepted are fixed-window, sliding-window, sliding-log, "
       "quota, token-bucket, leaky-bucket, in-flight and shared-window; did you mean "
       "sliding-window:100/1m?"},
      {"token-bucket:1/s,queue=3",
       "rule \"token-bucket:1/s,queue=3\": option queue belongs to "
       "leaky-bucket: token-bucket accepts burst=, hold=, lease=, debt=, most=, classes=, tiers= "
       "and "
       "name="},
      {"sliding-log:1/s,count=all",
       "rule \"sliding-log:1/s,count=all\": option count belongs to fixed-window, sliding-window "
       "and quota: sliding-log accepts hold=, most=, classes=, tiers= and name="},
      {"quota:1/s,hold=61s",
       "rule \"quota:1/s,hold=61s\": hold=61s: accepted is a duration from 1ms to 60s (a whole "
       "number and ms, s or m)"},
      {"token-bucket:1/1d,burst=401",
       "rule \"token-bucket:1/1d,burst=401\": burst=401 at 1 per 1d takes more than 400d to fill: "
       "accepted are 1 to 400"},
      {"leaky-bucket:2/1d,queue=800",
       "rule \"leaky-bucket:2/1d,queue=800\": queue=800 at 2 per 1d takes more than 400d to drain: "
       "accepted are 0 to 799"},
      {"sliding-log:9/1s,lease=1s",
       "rule \"sliding-log:9/1s,lease=1s\": option lease belongs to fixed-window, sliding-window, "
       "quota, token-bucket, in-flight and shared-window: sliding-log accepts hold=, most=, "
       "classes=, tiers= and name="},
      {"token-bucket:20000/1s,burst=2000,lease=1s",
       "rule \"token-bucket:20000/1s,burst=2000,lease=1s\": lease=1s is more than a quarter of "
       "what "
       "a burst of 2000 takes to fill: accepted are 1ms to 25ms"},
      {"token-bucket:9/1s,lease=1ms;quota:9/1s",
       "rules 1 and 2: accepted is lease= for every rule of a stack, or for none"},
      {"token-bucket:1/1m,burst=18,most=60058652",
       "rule \"token-bucket:1/1m,burst=18,most=60058652\": burst=18 takes too long to fill for "
       "most=60058652, by which time is counted in units of 2^-20 us, and a bucket has 2^50 of "
       "them: "
       "accepted are burst=17 or less, or most=60058651 or less"},
      {"leaky-bucket:1/1m,queue=17,most=60058652",
       "rule \"leaky-bucket:1/1m,queue=17,most=60058652\": queue=17 takes too long to drain for "
       "most=60058652, by which time is counted in units of 2^-20 us, and a bucket has 2^50 of "
       "them: "
       "accepted are queue=16 or less, or most=60058651 or less"},
      {"quota:1/30m,most=many",
       "rule \"quota:1/30m,most=many\": most=many: accepted is a whole number from 1 to "
       "9007199254740992, the largest limit "
       "that the name will have"},
      {"token-bucket:1000000000/1ms",
       "rule \"token-bucket:1000000000/1ms\": 1000000000 per 1ms is too fast for token-bucket: "
       "accepted are up to 1025000 per 1ms"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    weir_stack stack;
    weir_message message = {""};
    assert_int_equal(weir_stack_parse(pairs[i][0], 64, &stack, &message), WEIR_BAD_RULE);
    assert_string_equal(message.text, pairs[i][1]);
  }
}

/* The table of the documentation, once more. */
static const struct {
  const char *option;
  const char *owners; /* NULL: every algorithm */
} options[] = {
    {"cells=4", "sliding-window"},
    {"strict", "sliding-window"},
    {"count=all", "fixed-window, sliding-window and quota"},
    {"burst=2", "token-bucket"},
    {"queue=2", "leaky-bucket"},
    {"hold=5s", NULL},
    {"debt=0", "fixed-window, sliding-window, quota, token-bucket and shared-window"},
    {"lease=1ms", "fixed-window, sliding-window, quota, token-bucket, in-flight and shared-window"},
    {"most=9000", NULL},
    {"name=x", NULL},
};

static void sends_an_option_to_where_it_belongs(void **state) {
  (void)state;
  for (int kind = 0; kind < WEIR_RULE_KINDS; kind++) {
    const char *name = weir_rule_kind_name((weir_rule_kind)kind);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
      char text[80], belongs[160], accepts[80];
      weir_stack stack;
      weir_message message = {""};
      bool shared = kind == WEIR_SHARED_WINDOW; /* has a "cells" of its own */
      if (shared && i == 0) continue;
      snprintf(text, sizeof text, shared ? "%s:9000/m,weights=a:1,%s" : "%s:9/m,%s", name,
               options[i].option);
      weir_status status = weir_stack_parse(text, 64, &stack, &message);
      if (options[i].owners == NULL || strstr(options[i].owners, name) != NULL) {
        if (status != WEIR_OK) fail_msg("%s", message.text);
        continue;
      }
      snprintf(belongs, sizeof belongs, "belongs to %s: ", options[i].owners);
      snprintf(accepts, sizeof accepts, "%s accepts ", name);
      assert_int_equal(status, WEIR_BAD_RULE);
      assert_non_null(strstr(message.text, belongs));
      assert_non_null(strstr(message.text, accepts));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_what_is_wrong_and_what_is_accepted),
      cmocka_unit_test(says_each_thing_in_one_sentence),
      cmocka_unit_test(sends_an_option_to_where_it_belongs),
      cmocka_unit_test(names_the_largest_limit_that_counters_have_room_for),
      cmocka_unit_test(bears_very_long_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
