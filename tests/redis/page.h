/* docs/redis-commands.md, from the table in backends/redis/commands.c. */
#ifndef TESTS_REDIS_PAGE_H
#define TESTS_REDIS_PAGE_H

#include <stdio.h>

#include "redis/commands.h"

enum {
  PAGE_PLANS_MOST = WEIR_PLAN_COUNT,
  PAGE_NAMES_MOST = WEIR_STEP_COUNT + 1,
  PAGE_ACL_BYTES = 512
};

/* Which operations something needs; the plans of a repair come with ADD and SUB. */
struct page_need {
  const char *what;
  weir_redis_plan_name plans[PAGE_PLANS_MOST];
  size_t count;
};

extern const struct page_need page_needs[];
extern const size_t page_need_count;

/* All of them. */
extern const struct page_need page_everything;

/* The names of all commands, each once, "ping" first. Returns how many. */
size_t page_names(const struct page_need *need, const char *names[PAGE_NAMES_MOST]);

/* "+ping +set ..." */
void page_acl(const struct page_need *need, char acl[PAGE_ACL_BYTES]);

void page_print(FILE *out);

#endif
