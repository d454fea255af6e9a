/* The admin listener's page /metrics. The main thread writes it; it waits for no store. */
#ifndef WEIR_SERVE_METRICS_H
#define WEIR_SERVE_METRICS_H

#include "serve/client.h"

/* How many limiters are listed by name. Those behind them in the file count in the totals alone. */
enum { WEIR_STATUS_LIMITERS_MOST = 512 };

/* Clients' connections that are open. */
int64_t weir_serve_open_connections(const weir_served_all *all);

/* All counts, in the text format of Prometheus. */
void weir_serve_write_metrics(weir_service *service, weir_bytes *out);

#endif
