/* Which commands some operations come to, and who may run them. */
#include <stdio.h>
#include <string.h>

#include "redis/inspect.h"

/* What an operation, and the repairs that may follow it, send. */
static const struct need {
  unsigned need;
  weir_redis_plan_name plans[6];
  size_t count;
} table[] = {
    {WEIR_NEED_ADD,
     {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_ADD_REFRESH, WEIR_PLAN_ASK, WEIR_PLAN_MEND,
      WEIR_PLAN_MEND_OWED},
     6},
    {WEIR_NEED_SUB, {WEIR_PLAN_SUB, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED}, 3},
    {WEIR_NEED_GET, {WEIR_PLAN_GET, WEIR_PLAN_GET_SHORT}, 2},
    {WEIR_NEED_DROP, {WEIR_PLAN_DROP}, 1},
    {WEIR_NEED_CREATE, {WEIR_PLAN_CREATE}, 1},
    {WEIR_NEED_PUT, {WEIR_PLAN_PUT}, 1},
    {WEIR_NEED_RAISE, {WEIR_PLAN_RAISE, WEIR_PLAN_RAISE_REFRESH}, 2},
    {WEIR_NEED_RAISED_GET, {WEIR_PLAN_GET_RAISED}, 1},
    {WEIR_NEED_RAISED_SUB, {WEIR_PLAN_SUB_RAISED}, 1},
};

static bool has_step(const weir_redis_step *steps, size_t count, weir_redis_step step) {
  for (size_t i = 0; i < count; i++)
    if (steps[i] == step) return true;
  return false;
}

size_t weir_redis_steps(unsigned needs, weir_redis_step steps[WEIR_STEP_COUNT]) {
  size_t count = 0;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    for (size_t j = 0; needs & table[i].need && j < table[i].count; j++) {
      const weir_redis_step *step = weir_redis_plans[table[i].plans[j]].steps;
      for (; *step != WEIR_STEP_END; step++)
        if (!has_step(steps, count, *step)) steps[count++] = *step;
    }
  }
  return count;
}

size_t weir_redis_harmless(weir_redis_step step, const char *key,
                           char say[WEIR_WIRE_GREETING_MOST]) {
  const weir_redis_piece *pieces = weir_redis_commands[step].pieces;
  size_t used = 0;
  for (size_t i = 0; i < WEIR_REDIS_PIECES_MOST && pieces[i].text != NULL; i++) {
    memcpy(say + used, pieces[i].text, pieces[i].length);
    used += pieces[i].length;
    if (pieces[i].hole == WEIR_HOLE_END) continue;
    const char *argument = pieces[i].hole == WEIR_HOLE_KEY ? key : "x";
    used += (size_t)snprintf(say + used, WEIR_WIRE_GREETING_MOST - used, "$%zu\r\n%s\r\n",
                             strlen(argument), argument);
  }
  return used;
}

static bool says(const weir_redis_login *login, const char *name) {
  for (size_t i = 0; i < login->count; i++)
    if (strcmp(login->names[i], name) == 0) return true;
  return false;
}

static size_t allow(char acl[WEIR_ACL_BYTES], size_t used, const char *name) {
  return used + (size_t)snprintf(acl + used, WEIR_ACL_BYTES - used, " +%s", name);
}

/* A name that another step brought already. */
static bool is_named(const weir_redis_step *steps, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(weir_redis_commands[steps[i]].name, name) == 0) return true;
  return false;
}

/* Long enough for every command and the longest pattern; a user's name is cut. */
void weir_redis_acl(unsigned needs, const weir_redis_login *login, const char *user,
                    const char *pattern, bool cluster, char acl[WEIR_ACL_BYTES]) {
  weir_redis_step steps[WEIR_STEP_COUNT];
  size_t count = weir_redis_steps(needs, steps);
  bool own = user == NULL || strcmp(user, "default") == 0; /* who is for administrators */
  size_t used = (size_t)snprintf(acl, WEIR_ACL_BYTES,
                                 "ACL SETUSER %.64s reset on >PASSWORD ~%s resetchannels -@all",
                                 own ? "limiter" : user, pattern);
  used = allow(acl, used, "ping");
  if (says(login, "select")) used = allow(acl, used, "select");
  for (size_t i = 0; i < count; i++) {
    const char *name = weir_redis_commands[steps[i]].name;
    if (!is_named(steps, i, name)) used = allow(acl, used, name);
  }
  if (!cluster) return;
  used = allow(acl, used, "asking");
  allow(acl, used, "cluster|slots");
}
