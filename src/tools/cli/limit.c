/* limit: the limits of single keys, which a program or an operator sets while limiters run.
 *
 *     set KEY LIMIT    unset KEY    get KEY    load FILE, whose lines are KEY, a tab and LIMIT
 *
 * A limit is a number, with or without the period of the rule that it is for: 500, 500/1m; `blocked`, or
 * `none`, the rule's own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "report.h"
#include "session.h"

/* As many as the library sends in one exchange: none is sent behind one without an answer. */
enum { LINES_AT_ONCE = 512 };

/* What is written, and to whom. */
typedef struct weir_limit_work {
  const weir_cli_options *options;
  weir_cli_session session;
  weir_limit *limits;
  size_t count;
  char *bytes; /* the keys of `limits`, one behind the other */
  size_t used, room;
  uint64_t lines, done;           /* so far */
  uint64_t places[LINES_AT_ONCE]; /* the lines of `limits` */
  weir_message message;
} weir_limit_work;

/* Nobody reads the limits of a rule that charges ahead: what it holds would outlive them. */
static weir_status refuse_leases(const weir_limiter *limiter, weir_message *message) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    weir_limiter_read_rule(limiter, i, &rule);
    if (strstr(rule.text, ",lease=") == NULL) continue;
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

static int set_one(weir_limit_work *work, const char *key, const char *text) {
  weir_limit one = {.key = key, .key_length = strlen(key), .for_us = work->options->for_us};
  weir_status status =
      weir_limiter_parse_limit(work->session.limiter, text, strlen(text), &one, &work->message);
  if (status == WEIR_OK)
    status = weir_limiter_set_limits(work->session.limiter, &one, 1, &work->message);
  if (status != WEIR_OK) return fail(work, "", status);
  if (!work->options->quiet) puts("set");
  return weir_cli_flush();
}

static int get_one(weir_limit_work *work, const char *key) {
  char text[WEIR_LIMIT_TEXT_BYTES];
  weir_limit one = {.key = key, .key_length = strlen(key)};
  weir_status status = weir_limiter_read_limit(work->session.limiter, &one, &work->message);
  if (status != WEIR_OK) return fail(work, "", status);
  weir_limit_format(&one, text);
  puts(text);
  return weir_cli_flush();
}

/* --- many ------------------------------------------------------------------------------------- */

static int fail_line(const weir_limit_work *work, uint64_t line, weir_status status) {
  char place[64];
  snprintf(place, sizeof place, "line %" PRIu64 ", after %" PRIu64 " that are set: ", line,
           work->done);
  return fail(work, place, status);
}

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

static int add_line(weir_limit_work *work, const char *line, size_t length) {
  weir_limit *next = &work->limits[work->count];
  const char *tab = memchr(line, '\t', length);
  work->lines++;
  if (length == 0) return 0;
  if (tab == NULL || tab == line) {
    snprintf(work->message.text, sizeof work->message.text, "KEY, a tab and LIMIT are accepted");
    return fail_line(work, work->lines, WEIR_BAD_ARGUMENT);
  }
  *next = (weir_limit){.key_length = (size_t)(tab - line), .for_us = work->options->for_us};
  weir_status status = weir_limiter_parse_limit(
      work->session.limiter, tab + 1, length - next->key_length - 1, next, &work->message);
  if (status != WEIR_OK) return fail_line(work, work->lines, status);
  if (!keep_key(work, line, next->key_length)) return weir_cli_fail_memory();
  work->places[work->count] = work->lines;
  return ++work->count == LINES_AT_ONCE ? end_lines(work) : 0;
}

static int load_lines(weir_limit_work *work, FILE *in) {
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  int failed = 0;
  while (failed == 0 && (length = getline(&line, &room, in)) >= 0) {
    if (length > 0 && line[length - 1] == '\n') length--;
    failed = add_line(work, line, (size_t)length);
  }
  free(line);
  if (failed == 0 && ferror(in)) {
    weir_cli_error("limit: the input cannot be read");
    failed = WEIR_EXIT_USAGE;
  }
  if (failed == 0 && work->count > 0) failed = end_lines(work);
  return failed;
}

static int load(weir_limit_work *work, const char *path) {
  FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (in == NULL) {
    weir_cli_error("limit: \"%s\" cannot be read", weir_cli_show(path).text);
    return WEIR_EXIT_USAGE;
  }
  work->limits = calloc(LINES_AT_ONCE, sizeof *work->limits);
  int failed = work->limits != NULL ? load_lines(work, in) : weir_cli_fail_memory();
  if (in != stdin) fclose(in);
  free(work->limits);
  free(work->bytes);
  if (failed != 0) return failed;
  if (!work->options->quiet) printf("%" PRIu64 " set\n", work->done);
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
                   : set_one(&work, argument, action == SET ? options->arguments[2] : "none");
  weir_cli_session_close(&work.session);
  return failed;
}
