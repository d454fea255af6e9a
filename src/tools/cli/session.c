/* A store and a limiter, opened as the options say, for the commands that make decisions. */
#include "session.h"

#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "report.h"

/* The first look whether servers refuse. It is below half of a deadline, so that its end says
 * nothing of a server that needs longer. */
enum { LOOK_LEAST_US = 1000, LOOK_MOST_US = 25000, LOOK_DIVISOR = 4 };

/* A deadline has room for so many round trips in three quarters of it: doctor has the same rule. */
enum { ROUND_TRIPS_LEAST = 4, LOOKS = 4 };

/* How long a limit of a key is believed. A command that asks once reads it once, whatever this is. */
enum { KEY_LIMITS_US = 1000000 };

/* The command line has another name for the option limits_us. */
static void say_as_option(weir_message *message) {
  static const char option[] = "option limits_us";
  weir_message said = *message;
  if (strncmp(said.text, option, sizeof option - 1) != 0) return;
  snprintf(message->text, sizeof message->text, "--key-limits%s", said.text + sizeof option - 1);
}

/* A command that asks once would leave behind what a lease charges ahead; and a trace has its own
 * clock. */
static weir_status create(weir_cli_session *session, const weir_cli_options *options,
                          const weir_limiter_options *limiter_options, weir_message *message) {
  weir_limiter_options own = *limiter_options;
  own.flags |= WEIR_NO_LEASES;
  if (options->key_limits) own.limits_us = KEY_LIMITS_US;
  session->limiter = NULL;
  weir_status status =
      weir_limiter_create(session->store, options->rule, &own, &session->limiter, message);
  if (status != WEIR_OK) say_as_option(message);
  return status;
}

weir_status weir_cli_session_open(const weir_cli_options *options,
                                  const weir_limiter_options *limiter_options,
                                  weir_cli_session *session, weir_message *message) {
  *session = (weir_cli_session){0};
  weir_status status = weir_store_open(options->store, &session->store, message);
  if (status != WEIR_OK) return status;
  status = create(session, options, limiter_options, message);
  if (status != WEIR_OK) {
    weir_cli_session_close(session);
    return status;
  }
  const char *warning;
  for (size_t i = 0; (warning = weir_limiter_warning_at(session->limiter, i)) != NULL; i++)
    if (!options->quiet) weir_cli_error("warning: %s", warning);
  return WEIR_OK;
}

weir_status weir_cli_session_extend(weir_cli_session *session, const weir_cli_options *options,
                                    const weir_limiter_options *limiter_options,
                                    int64_t deadline_us, weir_message *message) {
  weir_limiter_options longer = *limiter_options;
  longer.deadline_us = deadline_us;
  weir_limiter_destroy(session->limiter);
  return create(session, options, &longer, message);
}

/* --- connecting --------------------------------------------------------------------------------
 */

/* How many servers have not answered yet; of these, those that are not known to be away. */
typedef struct missing_servers {
  size_t silent, awaited;
} missing_servers;

static missing_servers count_missing(const weir_store *store) {
  weir_server_state server = WEIR_SERVER_STATE_INIT;
  missing_servers missing = {0};
  for (size_t i = 0; weir_store_read_server(store, i, &server) == WEIR_OK; i++) {
    missing.silent += !server.answered;
    missing.awaited += !server.answered && server.breaker == WEIR_BREAKER_CLOSED;
  }
  return missing;
}

static weir_store_times times_of(const weir_store *store) {
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  weir_store_read_times(store, &times);
  return times;
}

/* A command that asks once does not wait the whole time for a server that refuses. */
void weir_cli_session_connect(const weir_cli_session *session) {
  const weir_store_times times = times_of(session->store);
  int64_t look_us = times.timeout_us / LOOK_DIVISOR;
  if (look_us < LOOK_LEAST_US) look_us = LOOK_LEAST_US;
  if (look_us > LOOK_MOST_US) look_us = LOOK_MOST_US;
  weir_status status = weir_store_connect(session->store, look_us, NULL);
  if (status != WEIR_UNAVAILABLE || count_missing(session->store).awaited == 0) return;
  int64_t left_us = times.connect_timeout_us - look_us;
  if (left_us >= LOOK_LEAST_US) weir_store_connect(session->store, left_us, NULL);
}

/* --- explaining --------------------------------------------------------------------------------
 */

/* How long a round trip of this look took; 0: the store did not answer, or was not asked. */
static int64_t measure_look(weir_limiter *limiter, const char *key) {
  weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_counts after = WEIR_LIMITER_COUNTS_INIT;
  weir_decision decision;
  weir_limiter_read_counts(limiter, &before);
  int64_t begin_us = weir_monotonic_us();
  weir_status status = weir_limiter_peek(limiter, key, strlen(key), 1, &decision, NULL);
  int64_t took_us = weir_monotonic_us() - begin_us;
  weir_limiter_read_counts(limiter, &after);
  uint64_t trips = after.round_trips - before.round_trips;
  return status == WEIR_OK && trips > 0 ? took_us / (int64_t)trips : 0;
}

/* The fastest look tells the distance: others wait for what still comes of the failed request, or
 * for a busy machine. 0: the store does not answer. */
static int64_t measure_round_trip(const weir_cli_session *session, const weir_cli_options *options,
                                  const char *key) {
  weir_limiter_options patient = options->limiter;
  weir_limiter *limiter = NULL;
  int64_t least_us = 0;
  patient.deadline_us = times_of(session->store).connect_timeout_us;
  patient.flags |= WEIR_NO_LEASES | WEIR_NO_LOCAL_DENIAL;
  if (weir_store_connect(session->store, patient.deadline_us, NULL) != WEIR_OK ||
      weir_limiter_create(session->store, options->rule, &patient, &limiter, NULL) != WEIR_OK)
    return 0;
  for (int look = 0; look < LOOKS; look++) {
    int64_t us = measure_look(limiter, key);
    if (us == 0) break;
    if (least_us == 0 || us < least_us) least_us = us;
  }
  weir_limiter_destroy(limiter);
  return least_us;
}

void weir_cli_session_explain(const weir_cli_session *session, const weir_cli_options *options,
                              const char *key, weir_status status, weir_message *message) {
  bool is_own = options->limiter.deadline_us != 0;
  int64_t deadline_us = is_own ? options->limiter.deadline_us : times_of(session->store).timeout_us;
  char deadline[WEIR_DURATION_BYTES];
  if (status != WEIR_UNAVAILABLE && status != WEIR_UNKNOWN_OUTCOME && status != WEIR_TIMEOUT)
    return;
  if (count_missing(session->store).silent > 0) return;
  int64_t trip_us = measure_round_trip(session, options, key);
  int64_t needed_ms = (ROUND_TRIPS_LEAST * trip_us * 4 / 3 + 999) / 1000;
  if (needed_ms * 1000 <= deadline_us) return;
  weir_duration_format(deadline_us, deadline, sizeof deadline);
  weir_message_prefix(
      message,
      "a round trip takes %.1f ms, and the deadline is %s: %s%lldms in every process "
      "that uses these keys would do; ",
      (double)trip_us / 1000, deadline, is_own ? "--deadline " : "timeout=", (long long)needed_ms);
}

int64_t weir_cli_held_us(const weir_limiter *limiter) {
  int64_t period_us = 0;
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    weir_limiter_read_rule(limiter, i, &rule);
    if (strcmp(rule.algorithm, "in-flight") != 0) continue;
    if (period_us == 0 || rule.period_us < period_us) period_us = rule.period_us;
  }
  return period_us;
}

void weir_cli_session_close(weir_cli_session *session) {
  weir_limiter_destroy(session->limiter);
  weir_store_close(session->store);
  *session = (weir_cli_session){0};
}
