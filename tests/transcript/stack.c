#include "transcript/stack.h"

#include <stdio.h>
#include <string.h>

#include "fixture/chance.h"

enum { ALGORITHMS = 6, RULES_MOST = 3 };

static const char *const algorithms[ALGORITHMS] = {
    "fixed-window", "sliding-window", "sliding-log", "quota", "token-bucket", "leaky-bucket"};
static const char *const periods[] = {"20ms", "1s", "1s", "10s", "1m", "1m", "1h", "400d"};
enum { PERIODS = sizeof periods / sizeof *periods };

static int pick_limit(uint32_t *seed) {
  static const int most[] = {3, 10, 10, 60, 1000, 1000000};
  return 1 + (int)chance(seed, (uint32_t)most[chance(seed, 6)]);
}

/* Appends; the text is long enough for all that is said here. */
static void add(char text[STACK_BYTES], const char *format, int value) {
  size_t length = strlen(text);
  snprintf(text + length, STACK_BYTES - length, format, value);
}

static void add_options(uint32_t *seed, int algorithm, int limit, char text[STACK_BYTES]) {
  switch (algorithm) {
    case 1:
      if (chance(seed, 2) == 0) add(text, ",cells=%d", 1 << chance(seed, 5));
      if (chance(seed, 3) == 0) add(text, ",strict", 0);
      break;
    case 4:
      if (chance(seed, 2) == 0) add(text, ",burst=%d", limit + (int)chance(seed, 50));
      break;
    case 5:
      if (chance(seed, 2) == 0) add(text, ",queue=%d", (int)chance(seed, 50));
      break;
    default:
      break;
  }
  if ((algorithm == 0 || algorithm == 1 || algorithm == 3) && chance(seed, 6) == 0)
    add(text, ",count=all", 0);
  if (algorithm != 2 && algorithm != 5 && chance(seed, 4) == 0)
    add(text, ",lease=%dms", 1 + (int)chance(seed, 100));
  if (chance(seed, 6) == 0) add(text, ",hold=%dms", 1 + (int)chance(seed, 50));
}

void stack_write(uint32_t *seed, char text[STACK_BYTES], char group[STACK_GROUP_BYTES]) {
  bool has[ALGORITHMS] = {false};
  int count = 1 + (int)chance(seed, RULES_MOST);
  text[0] = '\0';
  for (int i = 0; i < count; i++) {
    int algorithm = (int)chance(seed, ALGORITHMS);
    int limit = pick_limit(seed);
    has[algorithm] = true;
    if (i > 0) add(text, ";", 0);
    size_t length = strlen(text);
    snprintf(text + length, STACK_BYTES - length, "%s:%d/%s", algorithms[algorithm],
             algorithm == 2 && limit > 50 ? 50 : limit, periods[chance(seed, PERIODS)]);
    add_options(seed, algorithm, limit, text);
  }
  group[0] = '\0';
  for (int i = 0; i < ALGORITHMS; i++) {
    size_t length = strlen(group);
    if (has[i])
      snprintf(group + length, STACK_GROUP_BYTES - length, "%s%s", length > 0 ? "+" : "",
               algorithms[i]);
  }
}
