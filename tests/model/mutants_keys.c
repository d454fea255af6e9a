/* Mistakes about limits of keys, of requests, and of one name. */
#include "limiter/limiter.h"
#include "mutants.h"

static void believe_for_longer(struct weir_limiter *limiter) {
  limiter->limits_us += 4;
}

static void misread_absence(struct weir_limiter *limiter) {
  limiter->absent_denies = !limiter->absent_denies;
}

static void spare_none(struct weir_limiter *limiter) {
  limiter->may_spare = false;
}

static void take_more_than_most(struct weir_limiter *limiter) {
  limiter->stack.rules[0].most += 10;
}

static void forget_own_limit(const struct model *model, struct client *client,
                             weir_claim *request) {
  (void)model;
  (void)client;
  request->ask.limit = 0;
}

/* As if a larger limit had cut it. */
static void lease_what_was_asked(const struct model *model, struct client *client) {
  const struct wallet *wallet = client->wallet;
  (void)model;
  for (int i = 0; i < WEIR_LOTS; i++)
    if (client->stock->lots[i].stamp_us == wallet->ahead_us)
      client->stock->lots[i].left += wallet->request.ask.cost - wallet->ahead;
}

const struct mutant keys_mutants[] = {
    {.name = "judges a request by the rule's limit",
     .scope = "requests with limits, fixed window",
     .killed_by = CHECK_BOUND,
     .alter = forget_own_limit},
    {.name = "believes a key's limit for too long",
     .scope = "a key's limit is lowered",
     .killed_by = CHECK_BOUND,
     .mislimit = believe_for_longer},
    {.name = "believes for too long that a key is not blocked",
     .scope = "a key is blocked",
     .killed_by = CHECK_BOUND,
     .mislimit = believe_for_longer},
    {.name = "takes a key without a limit for blocked",
     .scope = "a key's limit is raised",
     .killed_by = CHECK_DENIAL,
     .mislimit = misread_absence},
    {.name = "takes a key without a limit for one with the rule's",
     .scope = "a key's limit, absent denies",
     .killed_by = CHECK_BOUND,
     .mislimit = misread_absence},
    {.name = "takes a key's limit above most for what it says",
     .scope = "a key's limit is above most",
     .killed_by = CHECK_BOUND,
     .mislimit = take_more_than_most},
    {.name = "judges before the key's limit is there",
     .scope = "a key's limit is lowered",
     .killed_by = CHECK_BOUND,
     .judges_unread = true},
    {.name = "leaves what was charged to a blocked key",
     .scope = "a key is blocked",
     .killed_by = CHECK_LEAK,
     .keeps_blocked = true},
    {.name = "takes an unlimited key for one with most",
     .scope = "a key is unlimited",
     .killed_by = CHECK_DENIAL,
     .mislimit = spare_none},
    {.name = "believes for too long that a key is unlimited",
     .scope = "a key is unlimited no more",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_DENIAL,
     .mislimit = believe_for_longer},
    {.name = "leaves what was charged to an unlimited key",
     .scope = "a key is unlimited",
     .killed_by = CHECK_LEAK,
     .keeps_blocked = true},
    {.name = "unsets a key's limit by a DROP",
     .scope = "a key's limit is unset",
     .killed_by = CHECK_BOUND,
     .unsets_by_drop = true},
    {.name = "uses a lot though the key's record is too old",
     .scope = "a key is blocked, leases",
     .killed_by = CHECK_BOUND,
     .uses_unread = true},
    {.name = "keeps a lot that was held while its key became unlimited",
     .scope = "a key is unlimited, leases",
     .killed_by = CHECK_LEAK,
     .keeps_barred = true},
    {.name = "leases by the rule's limit, whatever the key's is",
     .scope = "a key's limit is lowered, leases",
     .killed_by = CHECK_BOUND,
     .mislease = lease_what_was_asked},
    {.name = "keeps what was leased for a key that is blocked meanwhile",
     .scope = "a key is blocked, leases",
     .killed_by = CHECK_FORGOTTEN,
     .grants_denied = true},
    {.name = "leases by the largest limit of its name",
     .scope = "fixed window, two limits, leases",
     .killed_by = CHECK_BOUND,
     .mislease = lease_what_was_asked},
};
const size_t keys_mutant_count = sizeof keys_mutants / sizeof keys_mutants[0];
