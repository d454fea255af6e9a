/* The admin listener's pages about the server: /metrics, /status, /status.json. The main thread
 * writes them; it waits for no store. */
#ifndef WEIR_SERVE_STATUS_H
#define WEIR_SERVE_STATUS_H

#include "protocol/bytes.h"
#include "serve/server.h"

/* All counts, in the text format of Prometheus. */
void weir_serve_write_metrics(const weir_server *server, weir_bytes *out);

/* What the page /status shows, as JSON. */
void weir_serve_write_status(const weir_server *server, weir_bytes *out);

/* The page itself: src/server/serve/status.html, the same for every server. */
extern const char weir_status_page[];
extern const size_t weir_status_page_length;

/* --- what both have to say ------------------------------------------------------------------- */

/* How many limiters are listed by name. Those behind them in the file count in the totals alone. */
enum { WEIR_STATUS_LIMITERS_MOST = 512 };

/* A count of weir_serve_counts, of all loops; `offset`: which. */
uint64_t weir_serve_total(const weir_server *server, size_t offset);
int64_t weir_serve_open_connections(const weir_server *server);

#endif
