/* replay: a trace's requests, decided one by one on the trace's own clock. Ends at the end of the
 * file, at the first line without a decision, or when output is lost.
 *
 * Under rules that are held each request enters, and holds its place until a line says that its key
 * leaves. Meanwhile the trace's clock stops wherever what is held has to be paid again. The last
 * estimate of each key is kept until its real cost comes, or another estimate. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "decision.h"
#include "logs/trace.h"
#include "options.h"
#include "report.h"
#include "session.h"
#include "table.h"

/* No decision may depend on expiry, and a trace runs at another pace than the store's clock. */
#define LEAST_TTL_US (INT64_C(24) * 3600 * 1000000)

/* Its keys and stamps are its own, so no other process counts on a deadline. */
#define DEADLINE_US INT64_C(5000000)

enum { OUTPUT_BUFFER_BYTES = 1 << 16, PLACE_BYTES = 256, TRIES_MOST = 100 };

typedef struct held_place {
  struct held_place *next;
  weir_reservation *reservation;
  int64_t cost;
} held_place;

/* The open ends of a key that the trace has left. */
typedef struct open_key {
  weir_decision estimate; /* to be settled, where it is allowed */
  held_place *first;      /* what it holds; what entered first comes first */
  held_place **end;       /* where the next one goes */
  size_t key_length;
  char key[];
} open_key;

typedef struct replay {
  const char *name; /* of the file, for messages */
  weir_trace_file *file;
  weir_cli_session session;
  bool json, quiet;
  bool has_tenants;     /* the keys are tenants */
  bool is_connected;    /* by the first line that is good: a bad one does not even connect */
  int64_t now_us;       /* the trace's own clock */
  bool holds;           /* the rules are held */
  size_t held;          /* places, of all keys */
  weir_hash_table open; /* of pointers to open_key */
  uint64_t line;        /* the number of the line under way, from 1 */
  weir_message message;
} replay;

static int64_t trace_now_us(void *context) {
  const replay *run = context;
  return run->now_us;
}

/* --- what is open ------------------------------------------------------------------------------
 */

static bool is_of_key(const void *context, const void *item, const void *key) {
  const open_key *open = *(open_key *const *)item;
  const weir_trace_request *line = key;
  (void)context;
  return open->key_length == line->key_length &&
         memcmp(open->key, line->key, line->key_length) == 0;
}

/* Finds those of the line's key; NULL: there is nothing. */
static open_key **find_open(replay *run, const weir_trace_request *line) {
  uint32_t mark = weir_hash_table_mark(&run->open, line->key, line->key_length);
  return weir_hash_table_find(&run->open, mark, line);
}

/* Made where there was nothing. NULL: not enough memory. */
static open_key *use_open(replay *run, const weir_trace_request *line) {
  open_key **found = find_open(run, line);
  if (found != NULL) return *found;
  uint32_t mark = weir_hash_table_mark(&run->open, line->key, line->key_length);
  open_key *made = malloc(sizeof *made + line->key_length);
  open_key **place = made != NULL ? weir_hash_table_add(&run->open, mark) : NULL;
  if (place == NULL) {
    free(made);
    return NULL;
  }
  *made = (open_key){.key_length = line->key_length};
  made->end = &made->first;
  memcpy(made->key, line->key, line->key_length);
  return *place = made;
}

/* Forgets the key once nothing of it is open. */
static void close_key(replay *run, open_key **open) {
  if ((*open)->first != NULL || (*open)->estimate.allowed) return;
  free(*open);
  weir_hash_table_remove(&run->open, open);
}

/* --- what is held ------------------------------------------------------------------------------
 */

/* Moves the clock on, and pays again for what is held wherever that is due. */
static weir_status move_clock(replay *run, int64_t to_us) {
  int64_t next_us = 0;
  while (run->held > 0 && run->now_us + next_us < to_us) {
    run->now_us += next_us;
    weir_status status = weir_limiter_renew(run->session.limiter, &next_us, &run->message);
    if (status != WEIR_OK) return status;
    if (next_us == WEIR_NEVER) break;
    if (next_us < 1) next_us = 1;
  }
  run->now_us = to_us;
  if (run->held == 0) return WEIR_OK;
  return weir_limiter_renew(run->session.limiter, &next_us, &run->message);
}

static weir_status enter(replay *run, const weir_trace_request *line, weir_decision *decision) {
  weir_request request = {.key = line->key, .key_length = line->key_length, .cost = line->cost};
  weir_reservation *reservation;
  weir_status status =
      weir_limiter_reserve(run->session.limiter, &request, &reservation, &run->message);
  *decision = request.decision;
  if (reservation == NULL) return status;
  open_key *open = use_open(run, line);
  held_place *made = open != NULL ? malloc(sizeof *made) : NULL;
  if (made == NULL) {
    weir_reservation_destroy(reservation);
    return WEIR_NO_MEMORY;
  }
  *made = (held_place){.reservation = reservation, .cost = line->cost};
  *open->end = made;
  open->end = &made->next;
  run->held++;
  return status;
}

/* Leaves the place that the key has held longest, as at a release. */
static weir_status leave_first(replay *run, open_key *open) {
  held_place *first = open->first;
  open->first = first->next;
  if (open->first == NULL) open->end = &open->first;
  run->held--;
  weir_status status = weir_reservation_commit(first->reservation, &run->message);
  weir_reservation_destroy(first->reservation);
  free(first);
  return status == WEIR_PLACE_LOST ? WEIR_OK : status; /* no work was done that it could harm */
}

/* Charges under other rules stay. Nothing is held: nothing is released. */
static weir_status leave(replay *run, const weir_trace_request *line, int64_t *cost) {
  open_key **open = find_open(run, line);
  *cost = 0;
  if (open == NULL || (*open)->first == NULL) return WEIR_OK;
  *cost = (*open)->first->cost;
  weir_status status = leave_first(run, *open);
  close_key(run, open);
  return status;
}

/* All that the trace has left inside leaves. */
static void free_open(replay *run) {
  for (open_key **each = NULL; (each = weir_hash_table_next(&run->open, each)) != NULL;) {
    while ((*each)->first != NULL)
      leave_first(run, *each);
    free(*each);
  }
  weir_hash_table_clean_up(&run->open);
}

static weir_status replay_leave(replay *run, const weir_trace_request *line) {
  int64_t cost;
  if (!run->holds) {
    weir_message_set(&run->message, "leave: accepted under an in-flight rule");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = leave(run, line, &cost);
  if (status != WEIR_OK) return status;
  const weir_cli_request request = {.time_ms = line->time_ms,
                                    .key = line->key,
                                    .key_length = line->key_length,
                                    .cost = cost,
                                    .cost_count = 1};
  if (run->json) return weir_cli_done_json(stdout, &request, "released") ? WEIR_OK : WEIR_NO_MEMORY;
  weir_cli_released_tabs(stdout, &request);
  return WEIR_OK;
}

/* --- estimates ---------------------------------------------------------------------------------
 */

/* No longer open, if it was; its decision, not allowed if there was none. */
static weir_decision take_out(replay *run, const weir_trace_request *line) {
  open_key **open = find_open(run, line);
  weir_decision taken = {0};
  if (open == NULL) return taken;
  taken = (*open)->estimate;
  (*open)->estimate.allowed = false;
  close_key(run, open);
  return taken;
}

/* In the place of the key's last one. A denied request leaves none. */
static weir_status keep_estimate(replay *run, const weir_trace_request *line,
                                 const weir_decision *taken) {
  if (!taken->allowed) {
    take_out(run, line);
    return WEIR_OK;
  }
  open_key *open = use_open(run, line);
  if (open == NULL) return WEIR_NO_MEMORY;
  open->estimate = *taken;
  return WEIR_OK;
}

/* Nothing is open: nothing is charged. */
static weir_status replay_real(replay *run, const weir_trace_request *line) {
  weir_decision taken = take_out(run, line);
  bool open = taken.allowed;
  int64_t estimated = taken.cost;
  weir_status status = open ? WEIR_TIMEOUT : WEIR_OK;
  for (int tries = 0; status == WEIR_TIMEOUT && tries < TRIES_MOST; tries++)
    status = weir_limiter_settle(run->session.limiter, line->key, line->key_length, line->cost,
                                 &taken, &run->message);
  if (status != WEIR_OK) return status;
  weir_cli_request request = {.time_ms = line->time_ms,
                              .key = line->key,
                              .key_length = line->key_length,
                              .cost = run->json ? estimated : taken.cost,
                              .cost_count = 1,
                              .verdict = open ? "settled" : "nothing"};
  const weir_cli_settled settled = {
      .reals = &line->cost, .charged = &taken.cost, .count = 1, .decision = &taken};
  if (run->json)
    return weir_cli_settled_json(stdout, &request, &settled) ? WEIR_OK : WEIR_NO_MEMORY;
  weir_cli_decision_tabs(stdout, &request, &taken);
  return WEIR_OK;
}

/* --- tenants ------------------------------------------------------------------------------------
 */

/* With --tenant key all lines ask one pool, whose tenants their keys are. */
static weir_status take(replay *run, const weir_trace_request *line, weir_decision *decision) {
  static const char pool[] = "all";
  if (!run->has_tenants)
    return weir_limiter_take(run->session.limiter, line->key, line->key_length, line->cost,
                             decision, &run->message);
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra};
  weir_request request = {.key = pool, .key_length = sizeof pool - 1, .cost = line->cost};
  extra.tenant = line->key;
  extra.tenant_length = line->key_length;
  weir_status status = weir_decide_extra(&run->session.limiter, &request, extras, 1, &run->message);
  *decision = request.decision;
  return status;
}

/* --- lines -------------------------------------------------------------------------------------
 */

static weir_status replay_line(replay *run, const char *text, size_t length) {
  weir_trace_request line;
  weir_decision decision;
  if (!weir_trace_line_parse(text, length, &line, &run->message)) return WEIR_BAD_ARGUMENT;
  if (!run->is_connected) weir_cli_session_connect(&run->session);
  run->is_connected = true;
  weir_status moved = move_clock(run, line.time_ms * 1000);
  if (moved != WEIR_OK) return moved;
  if (line.leaves) return replay_leave(run, &line);
  if (line.settles) return replay_real(run, &line);

  /* On a busy machine a whole deadline may pass before anything was charged. Then the same request
   * can be asked again, and a trace can wait. */
  weir_status status = WEIR_TIMEOUT;
  for (int tries = 0; status == WEIR_TIMEOUT && tries < TRIES_MOST; tries++)
    status = run->holds ? enter(run, &line, &decision) : take(run, &line, &decision);
  if (status == WEIR_OK && line.estimates) status = keep_estimate(run, &line, &decision);
  if (status != WEIR_OK) return status;

  const weir_cli_request request = {.time_ms = line.time_ms,
                                    .key = line.key,
                                    .key_length = line.key_length,
                                    .cost = line.cost,
                                    .cost_count = 1};
  if (!run->json)
    weir_cli_decision_tabs(stdout, &request, &decision);
  else if (!weir_cli_decision_json(stdout, &request, &decision))
    return WEIR_NO_MEMORY;
  return WEIR_OK;
}

static void show_progress(const replay *run, weir_cli_progress *progress) {
  int64_t done, all;
  bool known = weir_trace_file_measure(run->file, &done, &all);
  weir_cli_progress_show(progress, run->line, known && all > 0 ? (double)done / (double)all : 0);
}

/* The exit status, after one line on stderr where it is not 0. */
static int replay_all(replay *run) {
  weir_cli_progress progress;
  weir_status status = WEIR_OK;
  bool at_end = false;
  weir_cli_progress_begin(&progress, run->quiet, true);
  while (status == WEIR_OK && !at_end && !ferror(stdout)) {
    const char *text;
    size_t length;
    run->line++;
    switch (weir_trace_file_next(run->file, &text, &length, &run->message)) {
      case WEIR_TRACE_LINE:
        status = replay_line(run, text, length);
        if (weir_cli_progress_is_due(&progress)) show_progress(run, &progress);
        break;
      case WEIR_TRACE_END:
        at_end = true;
        break;
      case WEIR_TRACE_TOO_LONG:
      case WEIR_TRACE_BROKEN:
        status = WEIR_BAD_ARGUMENT;
    }
  }
  weir_cli_progress_end(&progress);
  int lost = weir_cli_flush();
  if (lost != 0 || status == WEIR_OK) return lost;
  char place[PLACE_BYTES];
  snprintf(place, sizeof place, "%s:%" PRIu64 ": ", weir_cli_show(run->name).text, run->line);
  return weir_cli_fail(place, status, &run->message);
}

/* A line of a trace says who its tenant is only if its key is that. A limiter of its own tells so: that of the trace may be refused
 * for its long deadline, as if another would help. */
static weir_status refuse_shares(const char *rule, weir_message *message) {
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_rule_info info = WEIR_RULE_INFO_INIT;
  bool is_shared = weir_store_open("memory:", &store, NULL) == WEIR_OK &&
                   weir_limiter_create(store, rule, NULL, &limiter, NULL) == WEIR_OK &&
                   weir_limiter_read_rule(limiter, 0, &info) == WEIR_OK &&
                   strcmp(info.algorithm, "shared-window") == 0;
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  if (!is_shared) return WEIR_OK;
  weir_message_set(
      message,
      "a shared-window is asked with tenants: accepted are the other algorithms, and --tenant key, "
      "which makes each key a tenant of one pool");
  return WEIR_BAD_RULE;
}

int weir_cli_replay(const weir_cli_options *options) {
  const char *path = options->argument_count > 0 ? options->arguments[0] : "-";
  replay run = {.name = strcmp(path, "-") == 0 ? "stdin" : path,
                .json = options->json,
                .has_tenants = options->tenant_field != NULL,
                .quiet = options->quiet};
  if (run.has_tenants && strcmp(options->tenant_field, "key") != 0) {
    weir_cli_error("--tenant \"%s\": of a trace key is accepted",
                   weir_cli_show(options->tenant_field).text);
    return WEIR_EXIT_USAGE;
  }
  weir_hash_table_init(&run.open, sizeof(open_key *), is_of_key, NULL);
  run.file = weir_trace_file_open(path, &run.message);
  if (run.file == NULL) {
    weir_cli_error("%s: %s", weir_cli_show(run.name).text, run.message.text);
    return WEIR_EXIT_USAGE;
  }
  weir_limiter_options limiter_options = options->limiter;
  limiter_options.clock = (weir_clock){.now_us = trace_now_us, .context = &run};
  limiter_options.least_ttl_us = LEAST_TTL_US;
  limiter_options.renew = WEIR_RENEW_BY_CALLER;
  if (limiter_options.processes == 0) limiter_options.processes = 1; /* its keys are its own */
  weir_status status = run.has_tenants ? WEIR_OK : refuse_shares(options->rule, &run.message);
  if (status == WEIR_OK)
    status = weir_cli_session_open(options, &limiter_options, &run.session, &run.message);
  if (status == WEIR_OK && limiter_options.deadline_us == 0)
    status =
        weir_cli_session_extend(&run.session, options, &limiter_options, DEADLINE_US, &run.message);
  run.holds = status == WEIR_OK && weir_cli_held_us(run.session.limiter) > 0;
  setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER_BYTES);
  int exit_status = status == WEIR_OK ? replay_all(&run) : weir_cli_fail("", status, &run.message);
  free_open(&run);
  weir_cli_session_close(&run.session);
  weir_trace_file_close(run.file);
  return exit_status;
}
