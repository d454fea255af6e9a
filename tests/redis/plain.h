/* A plain client, to look and act behind a store's back. */
#ifndef TESTS_REDIS_PLAIN_H
#define TESTS_REDIS_PLAIN_H

#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/operations.h"

static inline redisContext *plain_connect(const struct server *server) {
  redisContext *plain = redisConnectFd(server_connect(server));
  assert_non_null(plain);
  assert_int_equal(plain->err, 0);
  return plain;
}

/* The integer, or length of the array, that a command answers; fails the test on an error. */
static inline long long plain_do(redisContext *plain, const char *command) {
  redisReply *reply = redisCommand(plain, command);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("%s: %s", command, reply != NULL ? reply->str : plain->errstr);
  long long integer =
      reply->type == REDIS_REPLY_ARRAY ? (long long)reply->elements : reply->integer;
  freeReplyObject(reply);
  return integer;
}

/* How many keys of the server's database have no TTL; *count: how many there are. */
static inline long long plain_count_immortal(redisContext *plain, size_t *count) {
  redisReply *keys = redisCommand(plain, "KEYS *");
  long long immortal = 0;
  assert_non_null(keys);
  *count = keys->elements;
  for (size_t i = 0; i < keys->elements; i++) {
    redisReply *ttl = redisCommand(plain, "PTTL %s", keys->element[i]->str);
    immortal += ttl->integer == -1;
    freeReplyObject(ttl);
  }
  freeReplyObject(keys);
  return immortal;
}

/* The number behind `label` in a section of INFO; 0: it is not there. */
static inline long long plain_number(redisContext *plain, const char *section, const char *label) {
  redisReply *reply = redisCommand(plain, "INFO %s", section);
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
  const char *found = strstr(reply->str, label);
  long long number = found != NULL ? strtoll(found + strlen(label), NULL, 10) : 0;
  freeReplyObject(reply);
  return number;
}

/* How often the server has executed a command. */
static inline long long plain_calls(redisContext *plain, const char *name) {
  char label[32];
  snprintf(label, sizeof label, "cmdstat_%s:calls=", name);
  return plain_number(plain, "commandstats", label);
}

static inline weir_operation raise_to(const char *key, int64_t floor, int64_t delta) {
  weir_operation operation = operation_on(WEIR_RAISE, key);
  operation.refresh = true;
  operation.floor = floor;
  operation.delta = delta;
  return operation;
}

static inline weir_operation raised(weir_operation operation) {
  operation.raised = true;
  return operation;
}

static inline weir_operation lasting(weir_operation operation, int64_t ttl_us) {
  operation.ttl_us = ttl_us;
  return operation;
}

#endif
