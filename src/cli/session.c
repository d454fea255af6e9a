/* A store and a limiter, opened as the options say, for the commands that make decisions. */
#include "session.h"

#include "report.h"

weir_status weir_cli_session_open(const weir_cli_options *options,
                                  const weir_limiter_options *limiter_options,
                                  weir_cli_session *session, weir_message *message) {
  *session = (weir_cli_session){0};
  weir_status status = weir_store_open(options->store, &session->store, message);
  if (status != WEIR_OK) return status;
  /* Who asks once would leave what is charged ahead behind; and a trace has its own clock. */
  weir_limiter_options own = *limiter_options;
  own.flags |= WEIR_NO_LEASES;
  status = weir_limiter_create(session->store, options->rule, &own, &session->limiter, message);
  if (status != WEIR_OK) {
    weir_cli_session_close(session);
    return status;
  }
  const char *warning;
  for (size_t i = 0;
       !options->quiet && (warning = weir_limiter_warning_at(session->limiter, i)) != NULL; i++)
    weir_cli_error("warning: %s", warning);
  return WEIR_OK;
}

void weir_cli_session_close(weir_cli_session *session) {
  weir_limiter_destroy(session->limiter);
  weir_store_close(session->store);
  *session = (weir_cli_session){0};
}
