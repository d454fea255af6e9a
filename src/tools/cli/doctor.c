/* doctor: what a store allows, and what cannot be promised on it. src/tools/doctor tells its
 * findings as it makes them; they are kept until all of them are there, as people read them server
 * by server. */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "options.h"
#include "output.h"
#include "report.h"

/* Copies of findings, in the order in which they were told. */
typedef struct findings {
  weir_finding *list;
  size_t count;
  size_t room;
  bool lost; /* there was no memory for one */
} findings;

/* A socket's path may hold any byte; in the copy, what is not plain ASCII is '?'. */
static char *copy_text(const char *text) {
  char *made = strdup(text);
  for (char *at = made; at != NULL && *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  return made;
}

static void free_texts(const weir_finding *finding) {
  const char *const texts[] = {finding->server, finding->topic, finding->text};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    free((void *)(uintptr_t)texts[i]); /* ours, from copy_text */
}

/* A weir_tell. */
static void keep(void *context, const weir_finding *told) {
  findings *kept = context;
  if (!weir_array_grow(&kept->list, &kept->room, kept->count + 1, sizeof *kept->list)) {
    kept->lost = true;
    return;
  }
  weir_finding *made = &kept->list[kept->count];
  *made = (weir_finding){.level = told->level,
                         .server = told->server != NULL ? copy_text(told->server) : NULL,
                         .topic = copy_text(told->topic),
                         .text = copy_text(told->text)};
  bool whole =
      made->topic != NULL && made->text != NULL && (told->server == NULL || made->server != NULL);
  if (!whole) free_texts(made);
  kept->count += whole;
  kept->lost |= !whole;
}

static size_t count_at(const findings *kept, weir_finding_level level) {
  size_t count = 0;
  for (size_t i = 0; i < kept->count; i++)
    count += kept->list[i].level == level;
  return count;
}

/* --- for people ------------------------------------------------------------------------------ */

static bool same(const char *left, const char *right) {
  return left == right || (left != NULL && right != NULL && strcmp(left, right) == 0);
}

enum { COLUMNS = 80, BEFORE_TEXT = 23 };

/* Goes on below the text's begin where a line is full. A word that is longer than a line stays whole. */
static void print_wrapped(const char *text) {
  size_t column = BEFORE_TEXT;
  for (const char *word = text; *word != '\0';) {
    size_t length = strcspn(word, " ");
    bool first = word == text;
    bool full = !first && column + 1 + length > COLUMNS;
    if (full) printf("\n%*s", BEFORE_TEXT, "");
    if (!first && !full) putchar(' ');
    fwrite(word, 1, length, stdout);
    column = (full ? BEFORE_TEXT : column + !first) + length;
    word += length + (word[length] == ' ');
  }
  putchar('\n');
}

/* All that is about one server, or, NULL, about the store as a whole. Marks need no colour. */
static void print_server(const findings *kept, const char *server) {
  static const char *const marks[] = {[WEIR_FINDING_FACT] = "ok",
                                      [WEIR_FINDING_WARNING] = "warning",
                                      [WEIR_FINDING_FAULT] = "FAULT"};
  static const weir_cli_colour colours[] = {[WEIR_FINDING_FACT] = WEIR_CLI_GREEN,
                                            [WEIR_FINDING_WARNING] = WEIR_CLI_YELLOW,
                                            [WEIR_FINDING_FAULT] = WEIR_CLI_RED};
  printf("%s\n", server != NULL ? server : "store");
  for (size_t i = 0; i < kept->count; i++) {
    const weir_finding *finding = &kept->list[i];
    if (!same(finding->server, server)) continue;
    printf("  %s%-7s%s  %-10s  ", weir_cli_colour_on(stdout, colours[finding->level]),
           marks[finding->level], weir_cli_colour_on(stdout, WEIR_CLI_PLAIN), finding->topic);
    if (strcmp(finding->topic, "ACL") == 0) /* a command to copy, whole */
      puts(finding->text);
    else
      print_wrapped(finding->text);
  }
}

/* Server by server, each where its first finding was told; the store comes last. */
static void print_text(const findings *kept) {
  bool whole = false;
  for (size_t i = 0; i < kept->count; i++) {
    const char *server = kept->list[i].server;
    size_t first = 0;
    while (!same(kept->list[first].server, server))
      first++;
    whole |= server == NULL;
    if (server != NULL && first == i) print_server(kept, server);
  }
  if (whole) print_server(kept, NULL);
  size_t faults = count_at(kept, WEIR_FINDING_FAULT);
  size_t warnings = count_at(kept, WEIR_FINDING_WARNING);
  printf("%zu fault%s, %zu warning%s\n", faults, faults == 1 ? "" : "s", warnings,
         warnings == 1 ? "" : "s");
}

/* --- for programs ---------------------------------------------------------------------------- */

/* One object a line, in the order in which they were told. False: not enough memory. */
static bool print_json(const findings *kept) {
  static const char *const names[] = {[WEIR_FINDING_FACT] = "fact",
                                      [WEIR_FINDING_WARNING] = "warning",
                                      [WEIR_FINDING_FAULT] = "fault"};
  enum { DIGITS = 0 }; /* every number is whole */
  for (size_t i = 0; i < kept->count; i++) {
    const weir_finding *finding = &kept->list[i];
    json_t *object =
        json_pack("{s:s?, s:s, s:s, s:s}", "server", finding->server, "level",
                  names[finding->level], "topic", finding->topic, "text", finding->text);
    bool printed = weir_cli_json_print(stdout, object, DIGITS);
    json_decref(object);
    if (!printed) return false;
  }
  return true;
}

/* --- the command ----------------------------------------------------------------------------- */

static weir_status inspect(const weir_cli_options *options, findings *kept, weir_message *message) {
  weir_store *store;
  weir_limiter *limiter = NULL;
  weir_status status = weir_store_open(options->store, &store, message);
  if (status != WEIR_OK) return status;
  if (options->rule == NULL) {
    status = weir_store_inspect(store, 0, keep, kept, message);
  } else {
    status = weir_limiter_create(store, options->rule, &options->limiter, &limiter, message);
    if (status == WEIR_OK) status = weir_limiter_inspect(limiter, 0, keep, kept, message);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (status != WEIR_OK || !kept->lost) return status;
  snprintf(message->text, sizeof message->text, "%s", weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

int weir_cli_doctor(const weir_cli_options *options) {
  findings kept = {0};
  weir_message message = {{0}};
  weir_status status = inspect(options, &kept, &message);
  int lost = 0;
  if (status == WEIR_OK && !options->quiet) {
    if (!options->json)
      print_text(&kept);
    else if (!print_json(&kept))
      status = WEIR_NO_MEMORY;
    if (status == WEIR_OK) lost = weir_cli_flush();
  }
  int exit_status = WEIR_EXIT_NO_DECISION;
  if (status != WEIR_OK)
    exit_status = weir_cli_fail("", status, &message);
  else if (lost == 0 && count_at(&kept, WEIR_FINDING_FAULT) == 0)
    exit_status = 0;
  for (size_t i = 0; i < kept.count; i++)
    free_texts(&kept.list[i]);
  free(kept.list);
  return exit_status;
}
