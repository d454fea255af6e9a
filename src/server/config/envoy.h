/* Descriptor files, in the format of envoyproxy/ratelimit, as plain structures. docs/serve/envoy.md
 * has what they may say. */
#ifndef WEIR_CONFIG_ENVOY_H
#define WEIR_CONFIG_ENVOY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/faults.h"

enum {
  WEIR_CONFIG_DOMAIN_MOST = 63,   /* bytes of a domain's name: printable ASCII, no '"', no '\' */
  WEIR_CONFIG_MATCH_MOST = 1024,  /* bytes of KEY_VALUE */
  WEIR_CONFIG_REPLACES_MOST = 16, /* names that one limit replaces */
  WEIR_CONFIG_REQUESTS_MOST = 1000000000
};

/* Numbered as on the wire. */
typedef enum weir_config_unit {
  WEIR_CONFIG_UNIT_UNKNOWN,
  WEIR_CONFIG_SECOND,
  WEIR_CONFIG_MINUTE,
  WEIR_CONFIG_HOUR,
  WEIR_CONFIG_DAY,
  WEIR_CONFIG_MONTH, /* 30 days */
  WEIR_CONFIG_YEAR,  /* 365 days */
  WEIR_CONFIG_WEEK,
  WEIR_CONFIG_UNITS
} weir_config_unit;

/* Their names on the wire: "SECOND". */
extern const char *const weir_config_units[WEIR_CONFIG_UNITS];

/* rate_limit. */
typedef struct weir_config_rate {
  bool is_unlimited;
  weir_config_unit unit;
  int64_t requests; /* per unit; 0: all are denied */
  const char *rule; /* NULL where no store is asked */
  const char *name; /* NULL: none */
  const char **replaces;
  size_t replace_count;
  weir_config_place place;
} weir_config_rate;

typedef struct weir_config_descriptor {
  const char *key, *value; /* value: NULL where any will do */
  const char *match;       /* KEY or KEY_VALUE, which is what requests are held against */
  size_t match_length;
  bool is_wildcard; /* the match holds a '*' */
  bool shadow, quota;
  bool shares;      /* a wildcard whose values have one count */
  bool detailed;    /* counted by the values of requests, of all levels; */
  bool shows_value; /* or of this one, wherever it leads to */
  weir_config_place place;
  weir_config_rate *rate; /* NULL: none */
  struct weir_config_descriptor *children;
  size_t child_count;
} weir_config_descriptor;

typedef enum weir_config_algorithm {
  WEIR_CONFIG_FIXED,
  WEIR_CONFIG_SLIDING,
  WEIR_CONFIG_QUOTA,
  WEIR_CONFIG_BUCKET,
  WEIR_CONFIG_PLACES /* of what is in flight: held, and given back */
} weir_config_algorithm;

typedef enum weir_config_headers {
  WEIR_CONFIG_HEADERS_DRAFT_10,
  WEIR_CONFIG_HEADERS_DRAFT_03, /* X-RateLimit-*: WEIR_HTTP_X_RATELIMIT */
  WEIR_CONFIG_HEADERS_OFF
} weir_config_headers;
extern const char *const weir_config_header_styles[]; /* up to NULL */

typedef struct weir_config_domain {
  const char *name;
  weir_config_place place;
  const struct weir_config_store *store; /* NULL only where there is a fault */
  weir_config_algorithm algorithm;
  bool counts_all; /* also what is denied */
  bool together;
  bool calendar;               /* months and years are those of the calendar, in UTC */
  weir_config_headers headers; /* to be added to answers */
  weir_config_descriptor *descriptors;
  size_t count;
  size_t node_count; /* of all levels */
} weir_config_domain;

typedef struct weir_config_envoy {
  weir_config_domain *domains;
  size_t domain_count;
  size_t node_count; /* of all of them */
} weir_config_envoy;

/* A key and a value of a request's descriptor. */
typedef struct weir_entry {
  const char *key, *value; /* never NULL */
  size_t key_length, value_length;
} weir_entry;

/* Whether a domain's limits of this unit have the date in their keys. */
bool weir_config_is_dated(const weir_config_domain *domain, weir_config_unit unit);

/* A rule of a domain is ALGORITHM:REQUESTS/SECONDSsSUFFIX. Where the date stands in the key, it is a
 * quota that is longer than what the date stands for. */
int64_t weir_config_unit_s(const weir_config_domain *domain, weir_config_unit unit);
const char *weir_config_algorithm_of(const weir_config_domain *domain, weir_config_unit unit);
extern const char *const weir_config_algorithms[]; /* up to NULL */

/* What stands behind the rules of a domain: "" or ",count=all". */
const char *weir_config_rule_suffix(const weir_config_domain *domain);

#endif
