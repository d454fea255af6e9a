/* serve: the server, until a signal ends it. */
#include "serve/server.h"

#include "commands.h"

int weir_cli_serve(const weir_cli_options *options) {
  return weir_serve_run(options->arguments[0]);
}
