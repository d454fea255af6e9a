/* Stores under attack: those of with_servers, by their names without WEIR_TEST_. */
#ifndef TESTS_ATTACK_STORES_H
#define TESTS_ATTACK_STORES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "fixture/clock.h"

#define SECOND_US INT64_C(1000000)

/* A moment at which windows of up to an hour begin. */
#define START_US (INT64_C(1700002800) * SECOND_US)

/* For whatever is to end well on however busy a machine. */
#define PATIENCE_US (30 * SECOND_US)

enum { ATTACK_URL_BYTES = 1200 };

/* The URL, with a namespace that was not used before in this process; ends the program where the
 * variable is missing. */
const char *attack_url(const char *name, char url[ATTACK_URL_BYTES]);

weir_store *attack_open(const char *url);

/* Without a policy, and so patient that no deadline passes; `clock` may be NULL for real time. */
weir_limiter_options attack_options(hand_clock *clock);

weir_limiter *attack_limiter(weir_store *store, const char *rules,
                             const weir_limiter_options *options);

#endif
