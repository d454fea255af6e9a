/* The replies of an attempt add up to an outcome: for every stage, kind, outcome and set of
 * facts. */
#include "redis/answer.h"

typedef struct one_case {
  weir_operation operation;
  weir_redis_attempt attempt;
} one_case;

static bool is_sum(const weir_operation *operation) {
  return operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
}

static bool is_one_of(weir_outcome outcome, weir_outcome one, weir_outcome other) {
  return outcome == one || outcome == other;
}

/* An operation has its outcome if, and only if, it is settled; until then it goes on, and stays where
 * it is only because a node sent it elsewhere. */
static void check_way(const one_case *before, const one_case *after) {
  bool settled = after->attempt.stage == WEIR_STAGE_SETTLED;
  assert_int_equal(settled, after->operation.outcome != WEIR_PENDING);
  assert_true(after->attempt.stage >= before->attempt.stage);
  if (after->attempt.stage == before->attempt.stage)
    assert_int_not_equal(before->attempt.told, WEIR_TOLD_NOTHING);
  if (after->attempt.stage == WEIR_STAGE_FIRST)
    assert_true(before->operation.kind == WEIR_GET || before->operation.outcome == WEIR_PENDING);
  assert_int_equal(after->operation.version_out, 0);
}

/* The first attempt's addition stands, and nothing is told of it before its key has a TTL. */
static void check_first(const one_case *before, const one_case *after) {
  const uint32_t facts = before->attempt.facts;
  weir_outcome outcome = after->operation.outcome;
  bool summed = is_one_of(before->operation.outcome, WEIR_DONE, WEIR_ABSENT);
  bool own = before->operation.value != 77;
  if (before->operation.kind == WEIR_GET) {
    assert_true(outcome == WEIR_PENDING || outcome == before->operation.outcome);
    return;
  }
  if (!summed) {
    bool again = before->operation.outcome == WEIR_PENDING;
    assert_int_equal(outcome, again ? WEIR_PENDING : before->operation.outcome);
    return;
  }
  if ((facts & (WEIR_FACT_BARE | WEIR_FACT_UNASKED)) != 0) {
    assert_int_equal(outcome, WEIR_PENDING);
    assert_int_equal((after->attempt.facts & WEIR_FACT_OWED) != 0,
                     own || (facts & WEIR_FACT_OWED) != 0);
  } else if (outcome != WEIR_PENDING) {
    bool doubt = (facts & WEIR_FACT_DOUBT) != 0;
    assert_int_equal(outcome, doubt ? WEIR_UNKNOWN : before->operation.outcome);
    assert_false(own && (facts & WEIR_FACT_SEEN) != 0 && (facts & WEIR_FACT_BOUNDED) == 0);
  }
}

/* The sum stands: what may be said of it, without a doubt, is its outcome. */
static void check_further(const one_case *before, const one_case *after) {
  const uint32_t facts = before->attempt.facts;
  weir_outcome outcome = after->operation.outcome;
  bool mends = before->attempt.stage == WEIR_STAGE_MEND;
  bool doubt = (facts & (WEIR_FACT_DOUBT | (mends ? WEIR_FACT_UNSEEDED : 0))) != 0;
  bool given_back = (facts & (WEIR_FACT_MADE | (mends ? WEIR_FACT_OWED : 0))) != 0;
  if (!mends && (facts & WEIR_FACT_BARE) != 0) assert_int_equal(outcome, WEIR_PENDING);
  if (mends && before->operation.outcome == WEIR_DONE)
    assert_int_equal(weir_redis_owed(&after->operation, &after->attempt), 0);
  if (outcome == WEIR_PENDING) return;
  if (doubt) {
    assert_int_equal(outcome, WEIR_UNKNOWN);
    assert_true(message.text[0] != '\0');
  } else {
    bool absent = before->operation.kind == WEIR_SUB && given_back;
    assert_int_equal(outcome, absent ? WEIR_ABSENT : WEIR_DONE);
  }
}

static void check(one_case before) {
  const uint32_t lasting = WEIR_FACT_SHORT | WEIR_FACT_FOREIGN | WEIR_FACT_BARRED | WEIR_FACT_PLAIN;
  one_case after = before;
  message.text[0] = '\0';
  weir_redis_conclude(&after.operation, &after.attempt, &message);
  check_way(&before, &after);
  if (before.attempt.stage == WEIR_STAGE_FIRST)
    check_first(&before, &after);
  else
    check_further(&before, &after);
  assert_int_equal(after.attempt.facts & lasting, before.attempt.facts & lasting);
}

/* Whether the replies of an attempt may leave it so. */
static bool is_possible(const one_case *one) {
  const weir_redis_attempt *attempt = &one->attempt;
  weir_outcome outcome = one->operation.outcome;
  bool told = attempt->told != WEIR_TOLD_NOTHING;
  bool doubted = (attempt->facts & WEIR_FACT_DOUBT) != 0;
  /* Of what goes by one command nothing is asked, and nothing is left to be mended. */
  const uint32_t mended = WEIR_FACT_BARE | WEIR_FACT_UNASKED | WEIR_FACT_UNRENEWED |
                          WEIR_FACT_OWED | WEIR_FACT_PAID | WEIR_FACT_UNSEEDED;
  if (outcome == WEIR_NOT_SENT) return false;
  if (outcome == WEIR_FULL && one->operation.kind != WEIR_ADD) return false;
  if (outcome == WEIR_FULL && (attempt->facts & WEIR_FACT_BOUNDED) == 0) return false;
  if ((attempt->facts & WEIR_FACT_BOUNDED) != 0 && (attempt->facts & mended) != 0) return false;
  if (attempt->stage == WEIR_STAGE_FIRST) return told || outcome != WEIR_PENDING;
  if (!is_sum(&one->operation)) return false;
  if (attempt->stage == WEIR_STAGE_ASK_TTL) return outcome == WEIR_PENDING;
  return is_one_of(outcome, WEIR_PENDING, WEIR_DONE) || (outcome == WEIR_UNKNOWN && doubted);
}

static void every_set_of_facts_has_its_outcome(void **state) {
  (void)state;
  for (int kind = WEIR_ADD; kind <= WEIR_DROP; kind++)
    for (int outcome = WEIR_PENDING; outcome <= WEIR_FULL; outcome++)
      for (unsigned rest = 0; rest < 3 * 5 * 2; rest++)
        for (uint32_t facts = 0; facts < WEIR_FACTS_END; facts++) {
          if (((facts & WEIR_FACT_PLAIN) != 0) != ((facts & WEIR_FACT_MADE) != 0))
            continue; /* it has to last, and is otherwise not looked at */
          one_case one = {.operation = operation_on((weir_operation_kind)kind, "k"),
                          .attempt = {.stage = (uint8_t)(rest % 3),
                                      .told = (uint8_t)(rest / 3 % 5),
                                      .cause = 1,
                                      .facts = facts}};
          one.operation.delta = 3;
          one.operation.seed = 40;
          one.operation.outcome = (weir_outcome)outcome;
          one.operation.value = kind == WEIR_SUB ? -3 : 3;
          if (rest / 15 != 0) one.operation.value = 77;
          if (is_possible(&one)) check(one);
        }
}

/* A node was sent PEXPIRE for a key that it has not; but the RAISE has found none in any case. */
static void a_raise_of_a_lost_key_stays_absent_where_its_ttl_was_not_renewed(void **state) {
  (void)state;
  weir_operation raise = raise_to(100, 5);
  weir_redis_attempt attempt = {.told = WEIR_TOLD_ASK, .facts = WEIR_FACT_UNRENEWED};
  raise.outcome = WEIR_ABSENT;
  weir_redis_conclude(&raise, &attempt, &message);
  assert_outcome(raise, WEIR_ABSENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_set_of_facts_has_its_outcome),
      cmocka_unit_test(a_raise_of_a_lost_key_stays_absent_where_its_ttl_was_not_renewed),
  };
  return cmocka_run_group_tests(tests, make_parser, free_parser);
}
