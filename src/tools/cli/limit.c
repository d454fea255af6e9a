/* limit: the limits of single keys, which a program or an operator sets while limiters run.
 *
 *     set KEY LIMIT    unset KEY    get KEY    load FILE, whose lines are KEY, a tab and LIMIT
 *     load FILE --before OLD: what differs from OLD, both sorted, which are read side by side
 *
 * A limit is a number, with or without the period of the rule that it is for: 500, 500/1m; a tier of the rule,
 * `blocked`, `unlimited`, or `none`, the rule's own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "report.h"
#include "session.h"

/* As many as the library sends in one exchange: none is sent behind one without an answer. */
enum { LINES_AT_ONCE = 1024 };

/* What is written, and to whom. */
typedef struct weir_limit_work {
  const weir_cli_options *options;
  weir_cli_session session;
  weir_limit *limits;
  size_t count;
  char *bytes; /* the keys of `limits`, one behind the other */
  size_t used, room;
  uint64_t done;        /* so far */
  uint64_t unset, kept; /* of a difference: those that are gone, those that are as they were */
  const struct limit_lines *old;  /* of --before */
  uint64_t places[LINES_AT_ONCE]; /* the lines of `limits` */
  weir_message message;
} weir_limit_work;

/* Nobody reads the limits of a rule whose places are kept for a while: those would outlive them. */
static weir_status refuse_leases(const weir_limiter *limiter, weir_message *message) {
  static const char held[] = "in-flight:";
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    weir_limiter_read_rule(limiter, i, &rule);
    if (strncmp(rule.text, held, sizeof held - 1) != 0 || strstr(rule.text, ",lease=") == NULL)
      continue;
    snprintf(message->text, sizeof message->text,
             "limits of keys of %s: accepted is the rule without lease=, as its limiters have it",
             rule.text);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

static int fail(const weir_limit_work *work, const char *place, weir_status status) {
  int failed = weir_cli_fail(place, status, &work->message);
  return status == WEIR_UNKNOWN_OUTCOME ? WEIR_EXIT_UNKNOWN : failed;
}

/* --- one key ---------------------------------------------------------------------------------- */

static int set_one(weir_limit_work *work, const char *key, const char *text, const char *done) {
  weir_limit one = {.key = key, .key_length = strlen(key), .for_us = work->options->for_us};
  weir_status status =
      weir_limiter_parse_limit(work->session.limiter, text, strlen(text), &one, &work->message);
  if (status == WEIR_OK)
    status = weir_limiter_set_limits(work->session.limiter, &one, 1, &work->message);
  if (status != WEIR_OK) return fail(work, "", status);
  if (!work->options->quiet) puts(done);
  return weir_cli_flush();
}

static int get_one(weir_limit_work *work, const char *key) {
  char text[WEIR_LIMIT_NAME_BYTES];
  weir_limit one = {.key = key, .key_length = strlen(key)};
  weir_status status = weir_limiter_read_limit(work->session.limiter, &one, &work->message);
  if (status != WEIR_OK) return fail(work, "", status);
  weir_limiter_format_limit(work->session.limiter, &one, text);
  puts(text);
  return weir_cli_flush();
}

/* --- lines ------------------------------------------------------------------------------------ */

/* A file of limits, read line by line. Its text and its key are good until the next line is read. */
typedef struct limit_lines {
  const char *path;
  FILE *in;
  char *line, *before; /* the one that is read, and the one before it */
  size_t room, before_room;
  size_t key_length, before_length;
  const char *text; /* of the limit */
  size_t text_length;
  uint64_t number; /* of the line; the first is 1 */
  bool has_line;
  bool rises; /* its keys must */
} limit_lines;

static int fail_line(const weir_limit_work *work, uint64_t line, weir_status status) {
  char place[64];
  snprintf(place, sizeof place, "line %" PRIu64 ", after %" PRIu64 " that are set: ", line,
           work->done);
  return fail(work, place, status);
}

static int refuse_line(weir_limit_work *work, const limit_lines *lines, const char *why) {
  bool is_old = work->old == lines;
  snprintf(work->message.text, sizeof work->message.text, "%s%s", is_old ? "of --before: " : "",
           why);
  return fail_line(work, lines->number, WEIR_BAD_ARGUMENT);
}

static bool open_lines(limit_lines *lines, const char *path, bool rises) {
  *lines = (limit_lines){.path = path, .rises = rises};
  lines->in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (lines->in == NULL) weir_cli_error("limit: \"%s\" cannot be read", weir_cli_show(path).text);
  return lines->in != NULL;
}

static void close_lines(limit_lines *lines) {
  if (lines->in != NULL && lines->in != stdin) fclose(lines->in);
  free(lines->line);
  free(lines->before);
}

/* As bytes; what is a part of another stands before it. */
static int compare_keys(const char *a, size_t a_length, const char *b, size_t b_length) {
  int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
  return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

/* Empty lines are passed over. At the end there is no line. */
static int next_line(weir_limit_work *work, limit_lines *lines) {
  char *last = lines->line;
  size_t room = lines->room;
  ssize_t length;
  bool has_before = lines->has_line;
  lines->line = lines->before;
  lines->room = lines->before_room;
  lines->before = last;
  lines->before_room = room;
  lines->before_length = lines->key_length;
  do {
    length = getline(&lines->line, &lines->room, lines->in);
    if (length > 0 && lines->line[length - 1] == '\n') length--;
    lines->number++;
  } while (length == 0);
  lines->has_line = length > 0;
  if (length < 0 && ferror(lines->in)) {
    weir_cli_error("limit: \"%s\" cannot be read", weir_cli_show(lines->path).text);
    return WEIR_EXIT_USAGE;
  }
  if (length < 0) return 0;
  const char *tab = memchr(lines->line, '\t', (size_t)length);
  if (tab == NULL || tab == lines->line)
    return refuse_line(work, lines, "KEY, a tab and LIMIT are accepted");
  lines->key_length = (size_t)(tab - lines->line);
  lines->text = tab + 1;
  lines->text_length = (size_t)length - lines->key_length - 1;
  if (!lines->rises || !has_before ||
      compare_keys(lines->before, lines->before_length, lines->line, lines->key_length) < 0)
    return 0;
  return refuse_line(work, lines,
                     "its key does not rise: with --before both files are sorted by their keys, "
                     "each key once, as by LC_ALL=C sort -k 1,1");
}

/* --- many ------------------------------------------------------------------------------------- */

/* The first that failed is named. Those before it are set, unless all were refused unsent. */
static int fail_some(weir_limit_work *work, weir_status status) {
  size_t first = 0;
  while (first + 1 < work->count && work->limits[first].status == WEIR_OK)
    first++;
  if (work->limits[first].status == WEIR_OK) first = 0; /* the reason is none of a line */
  if (status != WEIR_BAD_ARGUMENT && status != WEIR_BAD_KEY) work->done += first;
  return fail_line(work, work->places[first], status);
}

static int end_lines(weir_limit_work *work) {
  char *key = work->bytes;
  for (size_t i = 0; i < work->count; key += work->limits[i++].key_length)
    work->limits[i].key = key;
  weir_status status =
      weir_limiter_set_limits(work->session.limiter, work->limits, work->count, &work->message);
  if (status != WEIR_OK) return fail_some(work, status);
  work->done += work->count;
  work->count = work->used = 0;
  return 0;
}

/* Keys are copied behind one another, as the memory that they stand in may move. */
static bool keep_key(weir_limit_work *work, const char *key, size_t length) {
  if (work->used + length > work->room) {
    size_t room = 2 * (work->used + length);
    char *bytes = realloc(work->bytes, room);
    if (bytes == NULL) return false;
    work->bytes = bytes;
    work->room = room;
  }
  memcpy(work->bytes + work->used, key, length);
  work->used += length;
  return true;
}

static int read_limit(weir_limit_work *work, const limit_lines *lines, weir_limit *limit) {
  weir_status status = weir_limiter_parse_limit(work->session.limiter, lines->text,
                                                lines->text_length, limit, &work->message);
  return status != WEIR_OK ? fail_line(work, lines->number, status) : 0;
}

/* The key of the line gets its limit, or where it `is_gone` none. */
static int add_line(weir_limit_work *work, const limit_lines *lines, bool is_gone) {
  weir_limit *next = &work->limits[work->count];
  *next = (weir_limit){.kind = WEIR_KEY_LIMIT_NONE,
                       .key_length = lines->key_length,
                       .for_us = work->options->for_us};
  int failed = is_gone ? 0 : read_limit(work, lines, next);
  if (failed != 0) return failed;
  if (!keep_key(work, lines->line, lines->key_length)) return weir_cli_fail_memory();
  work->places[work->count] = lines->number;
  return ++work->count == LINES_AT_ONCE ? end_lines(work) : 0;
}

/* A store that was begun anew has nothing of what a difference leaves as it is. Of keys that do not change the
 * first ones are looked at, and one of a thousand: so a server of a pool that is empty is found as well. */
static int check_kept(weir_limit_work *work, const limit_lines *lines) {
  enum { FIRST = 64, OF_EACH = 1024 };
  weir_limit wanted = {.key = lines->line, .key_length = lines->key_length};
  int failed = read_limit(work, lines, &wanted);
  if (failed != 0 || (work->kept++ >= FIRST && work->kept % OF_EACH != 0)) return failed;
  weir_status status = weir_limiter_read_limit(work->session.limiter, &wanted, &work->message);
  if (status != WEIR_OK) return fail_line(work, lines->number, status);
  if (wanted.kind != WEIR_KEY_LIMIT_ABSENT) return 0;
  return refuse_line(work, lines,
                     "the store has no limit of this key, which was set before: it has lost some; "
                     "load the file without --before");
}

static int load_all(weir_limit_work *work, limit_lines *lines) {
  int failed = next_line(work, lines);
  while (failed == 0 && lines->has_line) {
    failed = add_line(work, lines, false);
    if (failed == 0) failed = next_line(work, lines);
  }
  return failed;
}

/* What both have is left as it is. */
static int load_difference(weir_limit_work *work, limit_lines *lines, limit_lines *old) {
  int failed = next_line(work, lines);
  if (failed == 0) failed = next_line(work, old);
  while (failed == 0 && (lines->has_line || old->has_line)) {
    int order = !old->has_line ? -1
                : !lines->has_line
                    ? 1
                    : compare_keys(lines->line, lines->key_length, old->line, old->key_length);
    bool is_same = order == 0 && lines->text_length == old->text_length &&
                   memcmp(lines->text, old->text, old->text_length) == 0;
    failed =
        is_same ? check_kept(work, lines) : add_line(work, order <= 0 ? lines : old, order > 0);
    work->unset += order > 0;
    if (failed == 0 && order <= 0) failed = next_line(work, lines);
    if (failed == 0 && order >= 0) failed = next_line(work, old);
  }
  return failed;
}

static int load(weir_limit_work *work, const char *path) {
  limit_lines lines = {.in = NULL}, old = {.in = NULL};
  const char *before = work->options->before;
  work->limits = calloc(LINES_AT_ONCE, sizeof *work->limits);
  if (work->limits == NULL) return weir_cli_fail_memory();
  int failed = 0;
  work->old = &old;
  if (!open_lines(&lines, path, before != NULL) ||
      (before != NULL && !open_lines(&old, before, true)))
    failed = WEIR_EXIT_USAGE;
  if (failed == 0)
    failed = before != NULL ? load_difference(work, &lines, &old) : load_all(work, &lines);
  if (failed == 0 && work->count > 0) failed = end_lines(work);
  close_lines(&lines);
  close_lines(&old);
  work->old = NULL;
  free(work->limits);
  free(work->bytes);
  if (failed != 0) return failed;
  if (!work->options->quiet) printf("%" PRIu64 " set", work->done - work->unset);
  if (!work->options->quiet && before != NULL)
    printf(", %" PRIu64 " unset, %" PRIu64 " as before", work->unset, work->kept);
  if (!work->options->quiet) puts("");
  return weir_cli_flush();
}

/* --- the command ------------------------------------------------------------------------------- */

int weir_cli_key_limit(const weir_cli_options *options) {
  static const struct {
    const char *name, *arguments;
    int count;
  } actions[] = {
      {"set", "KEY and LIMIT", 3}, {"get", "KEY", 2}, {"unset", "KEY", 2}, {"load", "FILE", 2}};
  enum { SET, GET, UNSET, LOAD, ACTIONS };
  int action = 0;
  while (action < ACTIONS && strcmp(options->arguments[0], actions[action].name) != 0)
    action++;
  if (action == ACTIONS) {
    weir_cli_error("limit: \"%s\": set, get, unset and load are accepted",
                   weir_cli_show(options->arguments[0]).text);
    return WEIR_EXIT_USAGE;
  }
  if (options->argument_count != actions[action].count) {
    weir_cli_error("limit %s: %s %s accepted behind it; see \"weir help limit\"",
                   actions[action].name, actions[action].arguments, action == SET ? "are" : "is");
    return WEIR_EXIT_USAGE;
  }
  if (options->before != NULL && (action != LOAD || weir_cli_given(options, WEIR_CLI_FOR))) {
    weir_cli_error(
        "limit: --before is accepted with load, and without --for: what is as it was before "
        "ends when it did");
    return WEIR_EXIT_USAGE;
  }
  weir_limit_work work = {.options = options};
  const char *argument = options->arguments[1];
  weir_status status =
      weir_cli_session_open(options, &options->limiter, &work.session, &work.message);
  if (status == WEIR_OK) status = refuse_leases(work.session.limiter, &work.message);
  if (status != WEIR_OK) {
    weir_cli_session_close(&work.session);
    return fail(&work, "", status);
  }
  weir_cli_session_connect(&work.session);
  int failed = action == LOAD ? load(&work, argument)
               : action == GET
                   ? get_one(&work, argument)
                   : set_one(&work, argument, action == SET ? options->arguments[2] : "none",
                             actions[action].name);
  weir_cli_session_close(&work.session);
  return failed;
}
