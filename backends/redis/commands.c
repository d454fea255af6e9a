#include "redis/commands.h"

#define PIECE(text, hole) \
  { text "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", sizeof(text) - 1, WEIR_HOLE_##hole }

/* Preformatted, as snprintf would cost more than the rest of an operation. */
const weir_redis_command weir_redis_commands[WEIR_STEP_COUNT] = {
    [WEIR_STEP_SET_SEED] = {"set",
                            false,
                            {PIECE("*6\r\n$3\r\nSET\r\n", KEY), PIECE("", SEED),
                             PIECE("$2\r\nPX\r\n", TTL), PIECE("$2\r\nNX\r\n", END)}},
    [WEIR_STEP_SET_ZERO] = {"set",
                            false,
                            {PIECE("*6\r\n$3\r\nSET\r\n", KEY),
                             PIECE("$1\r\n0\r\n$2\r\nPX\r\n", TTL), PIECE("$2\r\nNX\r\n", END)}},
    [WEIR_STEP_SET_DELTA] = {"set",
                             false,
                             {PIECE("*6\r\n$3\r\nSET\r\n", KEY), PIECE("", WHOLE),
                              PIECE("$2\r\nPX\r\n", TTL), PIECE("$2\r\nNX\r\n", END)}},
    [WEIR_STEP_SET_ABSENT] = {"set",
                              true,
                              {PIECE("*6\r\n$3\r\nSET\r\n", KEY), PIECE("", VALUE),
                               PIECE("$2\r\nPX\r\n", TTL), PIECE("$2\r\nNX\r\n", END)}},
    [WEIR_STEP_SET_ALWAYS] = {"set",
                              true,
                              {PIECE("*5\r\n$3\r\nSET\r\n", KEY), PIECE("", VALUE),
                               PIECE("$2\r\nPX\r\n", TTL)}},
    [WEIR_STEP_INCRBY] = {"incrby", true, {PIECE("*3\r\n$6\r\nINCRBY\r\n", KEY), PIECE("", DELTA)}},
    [WEIR_STEP_INCRBY_OWED] = {"incrby",
                               false,
                               {PIECE("*3\r\n$6\r\nINCRBY\r\n", KEY), PIECE("", OWED)}},
    [WEIR_STEP_DECRBY] = {"decrby", true, {PIECE("*3\r\n$6\r\nDECRBY\r\n", KEY), PIECE("", DELTA)}},
    [WEIR_STEP_INCREX] = {"increx",
                          true,
                          {PIECE("*7\r\n$6\r\nINCREX\r\n", KEY), PIECE("$5\r\nBYINT\r\n", DELTA),
                           PIECE("$2\r\nPX\r\n", TTL), PIECE("$3\r\nENX\r\n", END)}},
    [WEIR_STEP_INCREX_RENEW] = {"increx",
                                true,
                                {PIECE("*6\r\n$6\r\nINCREX\r\n", KEY),
                                 PIECE("$5\r\nBYINT\r\n", DELTA), PIECE("$2\r\nPX\r\n", TTL)}},
    [WEIR_STEP_INCREX_MOST] = {"increx",
                               true,
                               {PIECE("*9\r\n$6\r\nINCREX\r\n", KEY),
                                PIECE("$5\r\nBYINT\r\n", DELTA), PIECE("$6\r\nUBOUND\r\n", MOST),
                                PIECE("$2\r\nPX\r\n", TTL), PIECE("$3\r\nENX\r\n", END)}},
    [WEIR_STEP_INCREX_THERE] = {"increx",
                                true,
                                {PIECE("*11\r\n$6\r\nINCREX\r\n", KEY),
                                 PIECE("$5\r\nBYINT\r\n", DELTA), PIECE("$6\r\nLBOUND\r\n", MORE),
                                 PIECE("$6\r\nUBOUND\r\n", MOST), PIECE("$2\r\nPX\r\n", TTL),
                                 PIECE("$3\r\nENX\r\n", END)}},
    [WEIR_STEP_INCREX_LESS] = {"increx",
                               true,
                               {PIECE("*9\r\n$6\r\nINCREX\r\n", KEY),
                                PIECE("$5\r\nBYINT\r\n", LESS), PIECE("$6\r\nLBOUND\r\n", LEAST),
                                PIECE("$2\r\nPX\r\n", TTL), PIECE("$3\r\nENX\r\n", END)}},
    [WEIR_STEP_GET] = {"get", true, {PIECE("*2\r\n$3\r\nGET\r\n", KEY)}},
    [WEIR_STEP_MGET] = {"mget", true, {PIECE("$4\r\nMGET\r\n", KEYS)}},
    [WEIR_STEP_BITFIELD] = {"bitfield",
                            true,
                            {PIECE("*11\r\n$8\r\nBITFIELD\r\n", KEY),
                             PIECE("$3\r\nGET\r\n$3\r\ni64\r\n$1\r\n0\r\n"
                                   "$3\r\nGET\r\n$3\r\ni64\r\n$2\r\n64\r\n"
                                   "$3\r\nGET\r\n$3\r\nu40\r\n$3\r\n128\r\n",
                                   END)}},
    [WEIR_STEP_DEL] = {"del", true, {PIECE("*2\r\n$3\r\nDEL\r\n", KEY)}},
    [WEIR_STEP_PTTL] = {"pttl", false, {PIECE("*2\r\n$4\r\nPTTL\r\n", KEY)}},
    [WEIR_STEP_PEXPIRE] = {"pexpire",
                           false,
                           {PIECE("*3\r\n$7\r\nPEXPIRE\r\n", KEY), PIECE("", TTL)}},
    [WEIR_STEP_ZADD_FLOOR] = {"zadd",
                              false,
                              {PIECE("*5\r\n$4\r\nZADD\r\n", KEY), PIECE("$2\r\nGT\r\n", FLOOR),
                               PIECE("$1\r\nm\r\n", END)}},
    [WEIR_STEP_ZADD_LIFT] = {"zadd",
                             false,
                             {PIECE("*6\r\n$4\r\nZADD\r\n", KEY),
                              PIECE("$2\r\nXX\r\n$2\r\nGT\r\n", FLOOR), PIECE("$1\r\nm\r\n", END)}},
    [WEIR_STEP_ZADD_DELTA] = {"zadd",
                              true,
                              {PIECE("*6\r\n$4\r\nZADD\r\n", KEY),
                               PIECE("$2\r\nXX\r\n$4\r\nINCR\r\n", DELTA),
                               PIECE("$1\r\nm\r\n", END)}},
    [WEIR_STEP_ZADD_LESS] = {"zadd",
                             true,
                             {PIECE("*6\r\n$4\r\nZADD\r\n", KEY),
                              PIECE("$2\r\nXX\r\n$4\r\nINCR\r\n", LESS),
                              PIECE("$1\r\nm\r\n", END)}},
    [WEIR_STEP_ZSCORE] = {"zscore",
                          true,
                          {PIECE("*3\r\n$6\r\nZSCORE\r\n", KEY), PIECE("$1\r\nm\r\n", END)}},
    [WEIR_STEP_ASKING] = {"asking", false, {PIECE("*1\r\n$6\r\nASKING\r\n", END)}},
};

/* A sum can meet a key that went away since SET looked (expired, evicted, deleted by another) and
 * then creates it without a TTL; so may a sum whose client died. PTTL tells, and a second attempt
 * mends the key. A sum that creates its key answers with the delta itself, so its own client knows:
 * where the key was lately seen with a TTL (seen.h), PTTL is sent after that answer only. SUB seeds
 * with what it takes: never, not for an instant, is a missing key counted below zero. The sums of
 * RAISE and of its SUB answer nil instead of creating; without refresh nor does RAISE's floor.
 *
 * INCREX gives its key a TTL in the same instant, if it has none: nothing to ask, nothing to mend.
 * Its SUB names a least total, so that an absent key, which counts as 0, is refused and not made. So is
 * one that holds 0 or less. It is there all the same: another may have taken from it what is about to go
 * back. So the plain form takes from it, and finds out whether there is one. An ADD with a seed is told in
 * the same way that there may be no key: it names the total that a key of 1 would come to for the least.
 *
 * A key may hold something of another program's, half a gigabyte long. A GET of it keeps the server
 * and the connection busy for seconds, and all other operations wait. So a key with which something
 * went wrong (seen.h) is read by its first 21 bytes, one more than an integer has: BITFIELD, as
 * GETRANGE is no command that users for weir may run so far. Absent bytes read as 0, so PTTL says
 * whether the key is there. */
const weir_redis_plan weir_redis_plans[WEIR_PLAN_COUNT] = {
    [WEIR_PLAN_ADD] = {"ADD", {WEIR_STEP_SET_SEED, WEIR_STEP_INCRBY, WEIR_STEP_PTTL}},
    [WEIR_PLAN_ADD_SEEN] = {"ADD to a key lately seen with a TTL",
                            {WEIR_STEP_SET_ZERO, WEIR_STEP_INCRBY}},
    [WEIR_PLAN_ADD_SEEN_SEED] = {"ADD with a seed to a key lately seen with a TTL",
                                 {WEIR_STEP_SET_SEED, WEIR_STEP_INCRBY}},
    [WEIR_PLAN_ADD_REFRESH] = {"ADD with refresh",
                               {WEIR_STEP_SET_SEED, WEIR_STEP_INCRBY, WEIR_STEP_PTTL,
                                WEIR_STEP_PEXPIRE}},
    [WEIR_PLAN_SUB] = {"SUB", {WEIR_STEP_SET_DELTA, WEIR_STEP_DECRBY, WEIR_STEP_PTTL}},
    [WEIR_PLAN_SUB_RAISED] = {"SUB of a raised key", {WEIR_STEP_ZADD_LESS}},
    [WEIR_PLAN_ADD_BOUNDED] = {"ADD without a seed", {WEIR_STEP_INCREX}},
    [WEIR_PLAN_ADD_REFRESH_BOUNDED] = {"ADD with refresh, without a seed",
                                       {WEIR_STEP_INCREX_RENEW}},
    [WEIR_PLAN_ADD_MOST] = {"ADD with a bound, without a seed", {WEIR_STEP_INCREX_MOST}},
    [WEIR_PLAN_ADD_SEED_MOST] = {"ADD with a bound and a seed", {WEIR_STEP_INCREX_THERE}},
    [WEIR_PLAN_SUB_BOUNDED] = {"SUB", {WEIR_STEP_INCREX_LESS}},
    [WEIR_PLAN_GET] = {"GET", {WEIR_STEP_GET}},
    [WEIR_PLAN_GET_JOINED] = {"GETs in a row of keys lately seen", {WEIR_STEP_MGET}},
    [WEIR_PLAN_GET_SHORT] = {"GET after one that went wrong", {WEIR_STEP_PTTL, WEIR_STEP_BITFIELD}},
    [WEIR_PLAN_GET_RAISED] = {"GET of a raised key", {WEIR_STEP_ZSCORE}},
    [WEIR_PLAN_CREATE] = {"CREATE", {WEIR_STEP_SET_ABSENT}},
    [WEIR_PLAN_RAISE] = {"RAISE", {WEIR_STEP_ZADD_LIFT, WEIR_STEP_ZADD_DELTA}},
    [WEIR_PLAN_RAISE_REFRESH] = {"RAISE with refresh",
                                 {WEIR_STEP_ZADD_FLOOR, WEIR_STEP_ZADD_DELTA, WEIR_STEP_PEXPIRE}},
    [WEIR_PLAN_PUT] = {"PUT", {WEIR_STEP_SET_ALWAYS}},
    [WEIR_PLAN_DROP] = {"DROP", {WEIR_STEP_DEL}},
    [WEIR_PLAN_ASK] = {"ADD without `PTTL` whose total is its delta", {WEIR_STEP_PTTL}},
    [WEIR_PLAN_MEND] = {"ADD or SUB that found no TTL", {WEIR_STEP_PEXPIRE}},
    [WEIR_PLAN_MEND_OWED] = {"ADD or SUB whose own sum created the key",
                             {WEIR_STEP_INCRBY_OWED, WEIR_STEP_PEXPIRE}},
};

int64_t weir_redis_owed(const weir_operation *operation, const weir_redis_attempt *attempt) {
  if ((attempt->facts & (WEIR_FACT_OWED | WEIR_FACT_PAID)) != WEIR_FACT_OWED) return 0;
  return operation->kind == WEIR_ADD ? operation->seed : weir_redis_whole(operation);
}

int64_t weir_redis_whole(const weir_operation *operation) {
  bool fits = operation->seed <= INT64_MAX - operation->delta;
  return fits ? operation->seed + operation->delta : INT64_MAX;
}

bool weir_redis_may_be_seen(const weir_operation *operation) {
  return operation->kind == WEIR_ADD && !operation->refresh;
}

bool weir_redis_may_be_bounded(const weir_operation *operation) {
  if (operation->kind != WEIR_ADD) return operation->kind == WEIR_SUB && !operation->raised;
  return operation->seed == 0 || (!operation->refresh && operation->delta + 1 < operation->floor);
}

/* The first attempt of each kind of operation. A column is a sum of bits: 1 what is known of the key
 * spares a question, or asks for care; 2 the key is raised, or an ADD has a seed; 4 its TTL is
 * renewed. SWAP is never asked for: the backend lacks the trait. */
#define ALL(plan) \
  { plan, plan, plan, plan, plan, plan, plan, plan }
static const uint8_t first_plans[][8] = {
    [WEIR_ADD] = {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN_SEED,
                  WEIR_PLAN_ADD_REFRESH, WEIR_PLAN_ADD_REFRESH, WEIR_PLAN_ADD_REFRESH,
                  WEIR_PLAN_ADD_REFRESH},
    [WEIR_SUB] = {WEIR_PLAN_SUB, WEIR_PLAN_SUB, WEIR_PLAN_SUB_RAISED, WEIR_PLAN_SUB_RAISED,
                  WEIR_PLAN_SUB, WEIR_PLAN_SUB, WEIR_PLAN_SUB_RAISED, WEIR_PLAN_SUB_RAISED},
    [WEIR_GET] = {WEIR_PLAN_GET, WEIR_PLAN_GET_SHORT, WEIR_PLAN_GET_RAISED, WEIR_PLAN_GET_RAISED,
                  WEIR_PLAN_GET, WEIR_PLAN_GET_SHORT, WEIR_PLAN_GET_RAISED, WEIR_PLAN_GET_RAISED},
    [WEIR_CREATE] = ALL(WEIR_PLAN_CREATE),
    [WEIR_SWAP] = ALL(WEIR_PLAN_GET),
    [WEIR_RAISE] = {WEIR_PLAN_RAISE, WEIR_PLAN_RAISE, WEIR_PLAN_RAISE, WEIR_PLAN_RAISE,
                    WEIR_PLAN_RAISE_REFRESH, WEIR_PLAN_RAISE_REFRESH, WEIR_PLAN_RAISE_REFRESH,
                    WEIR_PLAN_RAISE_REFRESH},
    [WEIR_PUT] = ALL(WEIR_PLAN_PUT),
    [WEIR_DROP] = ALL(WEIR_PLAN_DROP),
};

weir_redis_plan_name weir_redis_plan_of(const weir_operation *operation,
                                        const weir_redis_attempt *attempt) {
  if (attempt->stage == WEIR_STAGE_ASK_TTL) return WEIR_PLAN_ASK;
  if (attempt->stage == WEIR_STAGE_MEND) {
    bool bare = (attempt->facts & WEIR_FACT_BARE) != 0;
    bool owes = bare && weir_redis_owed(operation, attempt) > 0;
    return owes ? WEIR_PLAN_MEND_OWED : WEIR_PLAN_MEND;
  }
  if ((attempt->facts & WEIR_FACT_BOUNDED) != 0) {
    if (operation->kind == WEIR_SUB) return WEIR_PLAN_SUB_BOUNDED;
    if (operation->refresh) return WEIR_PLAN_ADD_REFRESH_BOUNDED;
    if (operation->floor == 0) return WEIR_PLAN_ADD_BOUNDED;
    return operation->seed == 0 ? WEIR_PLAN_ADD_MOST : WEIR_PLAN_ADD_SEED_MOST;
  }
  bool known = (attempt->facts & (WEIR_FACT_SEEN | WEIR_FACT_SHORT)) != 0;
  bool seeded = operation->kind == WEIR_ADD && operation->seed != 0;
  unsigned column = known + 2U * (operation->raised || seeded) + 4U * operation->refresh;
  return (weir_redis_plan_name)first_plans[operation->kind][column];
}
