/* What Envoy's rate limit service is asked and answers, in whichever form it comes. */
#ifndef WEIR_PROTOCOL_ENVOY_H
#define WEIR_PROTOCOL_ENVOY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/http.h>
#include <weir/weir.h>

#include "config/envoy.h"

enum {
  WEIR_ENVOY_DESCRIPTORS_MOST = 64, /* of one request */
  WEIR_ENVOY_RETURNS_MOST = 8,      /* of them, those that give back: each is a round trip */
  WEIR_ENVOY_ENTRIES_MOST = 512     /* of all its descriptors */
};

typedef struct weir_envoy_descriptor {
  const weir_entry *entries;
  size_t count;
  int64_t hits;    /* 0: a peek */
  bool gives_back; /* so many are not charged but go back */
  bool has_limit;  /* instead of the descriptor file's: */
  int64_t requests;
  weir_config_unit unit;
} weir_envoy_descriptor;

/* Why a request has no answer. Every protocol has its own word for each. */
typedef enum weir_envoy_failure {
  WEIR_ENVOY_WELL,
  WEIR_ENVOY_BAD_REQUEST, /* it is not one, or asks for more than is offered */
  WEIR_ENVOY_NO_FILES,    /* the configuration has no descriptor files */
  WEIR_ENVOY_UNAVAILABLE, /* no decision, or no memory for one */
  WEIR_ENVOY_EXPIRED      /* its time was over before it was decided: nothing is charged */
} weir_envoy_failure;

typedef struct weir_envoy_refusal {
  weir_envoy_failure failure;
  weir_message why;
} weir_envoy_refusal;

/* Texts stand in the request's own bytes. */
typedef struct weir_envoy_request {
  const char *domain;
  size_t domain_length;
  weir_envoy_descriptor descriptors[WEIR_ENVOY_DESCRIPTORS_MOST];
  size_t count;
  weir_entry entries[WEIR_ENVOY_ENTRIES_MOST];
  size_t entry_count;
} weir_envoy_request;

typedef struct weir_envoy_status {
  bool is_over;
  bool has_limit; /* else nothing matched, or it is unlimited */
  int64_t requests;
  weir_config_unit unit;
  const char *name;       /* NULL: none */
  int64_t remaining;      /* negative: not known; UINT32_MAX: unlimited */
  int64_t reset_after_us; /* negative: not known */
} weir_envoy_status;

typedef struct weir_envoy_answer {
  bool is_over;
  weir_envoy_status statuses[WEIR_ENVOY_DESCRIPTORS_MOST]; /* in the order of the request */
  size_t count;
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST]; /* to be added to the response */
  size_t field_count;
} weir_envoy_answer;

#endif
