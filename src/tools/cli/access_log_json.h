/* A log whose lines are JSON objects, as nginx, Caddy and others write them. */
#ifndef WEIR_CLI_ACCESS_LOG_JSON_H
#define WEIR_CLI_ACCESS_LOG_JSON_H

#include <jansson.h>

#include "access_log.h"

enum { WEIR_ACCESS_NUMBER_BYTES = 32 };

/* What the fields of the latest line point into; begins zeroed. */
typedef struct weir_access_json {
  json_t *line;
  char numbers[WEIR_ACCESS_ALL][WEIR_ACCESS_NUMBER_BYTES];
  const weir_access_others *others; /* set by who asks for them; NULL: none */
} weir_access_json;

void weir_access_json_clean_up(weir_access_json *json);

/* The fields are good until the next line. False with a message. */
bool weir_access_json_parse(weir_access_json *json, const char *text, size_t length,
                            weir_access *access, weir_message *message);

#endif
