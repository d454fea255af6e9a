#include "redis/page.h"

#include <string.h>

/* Of a server that has INCREX, in place of the rows with the same names. */
static const weir_redis_plan_name bounded[] = {WEIR_PLAN_ADD_BOUNDED, WEIR_PLAN_ADD_REFRESH_BOUNDED,
                                               WEIR_PLAN_ADD_MOST, WEIR_PLAN_ADD_SEED_MOST,
                                               WEIR_PLAN_SUB_BOUNDED};
enum { BOUNDED_COUNT = sizeof bounded / sizeof bounded[0] };

const struct page_need page_needs[] = {
    {"`fixed-window`, `sliding-window`, `in-flight`",
     {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_SUB, WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED,
      WEIR_PLAN_GET_SHORT, WEIR_PLAN_ASK, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED},
     9},
    {"`quota`",
     {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN_SEED, WEIR_PLAN_SUB, WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED,
      WEIR_PLAN_GET_SHORT, WEIR_PLAN_CREATE, WEIR_PLAN_PUT, WEIR_PLAN_ASK, WEIR_PLAN_MEND,
      WEIR_PLAN_MEND_OWED},
     11},
    {"`sliding-log`",
     {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_PUT, WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED,
      WEIR_PLAN_GET_SHORT, WEIR_PLAN_ASK, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED},
     9},
    {"`token-bucket`, `leaky-bucket`",
     {WEIR_PLAN_RAISE, WEIR_PLAN_RAISE_REFRESH, WEIR_PLAN_GET_RAISED, WEIR_PLAN_SUB_RAISED},
     4},
    {"`reset` of any rule",
     {WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED, WEIR_PLAN_GET_SHORT, WEIR_PLAN_DROP},
     4},
};
const size_t page_need_count = sizeof page_needs / sizeof page_needs[0];

const struct page_need page_everything = {
    "all of `weir/backend.h`",
    {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_ADD_SEEN_SEED, WEIR_PLAN_ADD_REFRESH,
     WEIR_PLAN_SUB, WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED, WEIR_PLAN_GET_SHORT, WEIR_PLAN_CREATE,
     WEIR_PLAN_PUT, WEIR_PLAN_DROP, WEIR_PLAN_RAISE, WEIR_PLAN_RAISE_REFRESH, WEIR_PLAN_GET_RAISED,
     WEIR_PLAN_SUB_RAISED, WEIR_PLAN_ASK, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED},
    WEIR_PLAN_COUNT - BOUNDED_COUNT};

static bool is_listed(const char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) return true;
  }
  return false;
}

size_t page_names(const struct page_need *need, const char *names[PAGE_NAMES_MOST]) {
  size_t count = 0;
  names[count++] = "ping";
  for (size_t i = 0; i < need->count; i++) {
    const weir_redis_step *step = weir_redis_plans[need->plans[i]].steps;
    for (; *step != WEIR_STEP_END; step++) {
      const char *name = weir_redis_commands[*step].name;
      if (!is_listed(names, count, name)) names[count++] = name;
    }
  }
  return count;
}

void page_acl(const struct page_need *need, char acl[PAGE_ACL_BYTES]) {
  const char *names[PAGE_NAMES_MOST];
  size_t count = page_names(need, names);
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    used +=
        (size_t)snprintf(acl + used, PAGE_ACL_BYTES - used, "%s+%s", i > 0 ? " " : "", names[i]);
  }
}

static const char *const holes[WEIR_HOLE_COUNT] = {
    [WEIR_HOLE_KEY] = " key",     [WEIR_HOLE_KEYS] = " key ...",  [WEIR_HOLE_TTL] = " ttl",
    [WEIR_HOLE_SEED] = " seed",   [WEIR_HOLE_DELTA] = " delta",   [WEIR_HOLE_LESS] = " -delta",
    [WEIR_HOLE_VALUE] = " value", [WEIR_HOLE_FLOOR] = " floor",   [WEIR_HOLE_OWED] = " owed",
    [WEIR_HOLE_WHOLE] = " whole", [WEIR_HOLE_LEAST] = " 1-delta", [WEIR_HOLE_MORE] = " delta+1",
    [WEIR_HOLE_MOST] = " most"};

/* The words of preformatted bytes, without counts and lengths: "SET key seed PX ttl NX". */
static void print_step(FILE *out, weir_redis_step step) {
  const weir_redis_piece *pieces = weir_redis_commands[step].pieces;
  for (size_t i = 0; i < WEIR_REDIS_PIECES_MOST && pieces[i].text != NULL; i++) {
    const char *end = pieces[i].text + pieces[i].length;
    size_t length;
    for (const char *word = pieces[i].text; word < end; word += length + 2) {
      length = strcspn(word, "\r");
      bool first = i == 0;
      if (*word != '*' && *word != '$') fprintf(out, "%s%.*s", first ? "" : " ", (int)length, word);
    }
    if (pieces[i].hole != WEIR_HOLE_END) fputs(holes[pieces[i].hole], out);
  }
}

static void print_plan(FILE *out, const weir_redis_plan *plan) {
  fprintf(out, "| %s | `", plan->title);
  for (const weir_redis_step *step = plan->steps; *step != WEIR_STEP_END; step++) {
    if (step != plan->steps) fputs("`, `", out);
    print_step(out, *step);
  }
  fputs("` |\n", out);
}

static void print_need(FILE *out, const struct page_need *need) {
  char acl[PAGE_ACL_BYTES];
  page_acl(need, acl);
  fprintf(out, "| %s | `%s` |\n", need->what, acl);
}

void page_print(FILE *out) {
  char acl[PAGE_ACL_BYTES];
  page_acl(&page_everything, acl);
  fputs(
      "# The commands weir sends to Redis\n\n"
      "`tests/redis/commands_page.c` writes this page from the table in "
      "`backends/redis/commands.c`, from\nwhich the library encodes what it sends. A test compares "
      "them. Every command but MGET names one key.\n\n"
      "| Operation | Commands, in one write |\n|---|---|\n",
      out);
  for (size_t i = 0; i < page_everything.count; i++) {
    print_plan(out, &weir_redis_plans[page_everything.plans[i]]);
  }
  fputs(
      "\n`ttl` is in milliseconds. A key counts as lately seen for the 63 ADDs of a store after "
      "one "
      "that\nasked. The last three rows are further writes. The first of them is rare. The others "
      "are sent when\n`PTTL` has answered -1. `owed` is the seed of an ADD, `whole` of a SUB, "
      "which "
      "is\nits delta and, of a quota's count, a seed.\n\n"
      "\"GET after one that went wrong\" is for a key that held no integer or was not answered for "
      "in time. It\nreads the first 21 bytes, as something of half a gigabyte may be there. A user "
      "without `+bitfield`\nreads it whole.\n\n"
      "\"GETs in a row\" are two or more of one write, of keys to which the store has lately "
      "added, "
      "on a cluster\nof one slot. Where MGET has no value or an error, GET asks again; so a key to "
      "which the same write adds\nlater is read by a GET. A user without `+mget` sends GETs.\n\n"
      "A new connection first sends `AUTH` and `SELECT` where the store's URL has a password and a "
      "database,\nthen `PING`. Once a server has refused to write as a replica, it sends `SELECT` "
      "without a database in\nthe URL as well, to tell a proxy from a server. A user need not have "
      "that command.\n\n"
      "A raised key is one that RAISE made. RAISE needs Redis 6.2. A charge of a bucket is a RAISE "
      "with\nrefresh where a quarter of its key's TTL may be over, else one without.\n\n"
      "## Where the server has INCREX\n\n"
      "Redis 8.8 and Valkey 9.2 have a command that adds, keeps to bounds and gives a TTL in one. "
      "There\n"
      "these go in place of the rows above:\n\n"
      "| Operation | Command |\n|---|---|\n",
      out);
  for (size_t i = 0; i < BOUNDED_COUNT; i++)
    print_plan(out, &weir_redis_plans[bounded[i]]);
  fputs(
      "\n"
      "`INCREX` answers with the total and with what it has added. A bounded ADD that has added "
      "nothing is\n"
      "FULL: the total would be above `most`, so the request is denied without a trace. A SUB that "
      "has added\n"
      "nothing has met no key, or one of 0 or less: it goes by the rows above, which tell. An ADD\n"
      "with a seed must make no key without it. Its least total is what a key of 1 comes to; one "
      "of less goes\n"
      "by the rows above, and so does one without a bound.\n\n"
      "A server is asked for the command on a connection of its own, after the first uses of each\n"
      "new connection, and once a second at most. The question is `INCREX key BYINT 1 LBOUND 0 "
      "UBOUND 0\n"
      "PX 1000 ENX` of a key `...{home}:increx`. It is out of bounds and changes nothing. A server "
      "that\n"
      "does not know the command counts it among its errors, and so does one whose user lacks the "
      "right:\n"
      "both keep the rows above. So does a server that refuses an `INCREX` later, as it was "
      "replaced by\n"
      "an older one or as the right was taken away. It did not execute the refused command, so "
      "weir sends\n"
      "the commands of the rows above at once.\n\n"
      "## Users\n\n"
      "| Rule | A user needs |\n|---|---|\n",
      out);
  for (size_t i = 0; i < page_need_count; i++)
    print_need(out, &page_needs[i]);
  print_need(out, &page_everything);
  fprintf(
      out,
      "\n`+select` is needed besides where the URL names a database. A user who may do all "
      "that, and "
      "nothing else:\n\n"
      "```text\nACL SETUSER limiter reset on >PASSWORD ~weir:* resetchannels -@all %s\n```\n\n"
      "On a cluster (cluster.md) add `+%s +cluster|slots`. The first stands before each command to "
      "a node\nthat is being given the key's slot. `CLUSTER SLOTS` asks which node owns what. "
      "Neither names a key.\n\n"
      "On a server with INCREX add `+increx`, and leave out nothing: it spares commands and round "
      "trips,\n"
      "and the rest is what is left without it. Older servers refuse a line that names it.\n",
      acl, weir_redis_commands[WEIR_STEP_ASKING].name);
}
