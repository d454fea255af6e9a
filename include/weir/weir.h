/* weir: rate limits on memcached or Redis, without scripts and without transactions.
 *
 * Callers include this; authors of backends include <weir/backend.h>. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/backoff.h>
#include <weir/duration.h>
#include <weir/http.h>
#include <weir/inspect.h>
#include <weir/limiter.h>
#include <weir/monitor.h>
#include <weir/options.h>
#include <weir/status.h>
#include <weir/store.h>
#include <weir/version.h>
#include <weir/word.h>

#endif
