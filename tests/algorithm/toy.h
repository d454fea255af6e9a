/* A toy world for machines: a store with the semantics of weir/backend.h whose keys go at the end
 * of their TTL, not later, and a few clients whose clocks differ. A client's operations land one by
 * one, so that a test can put those of others between them. */
#ifndef TESTS_ALGORITHM_TOY_H
#define TESTS_ALGORITHM_TOY_H

#include "algorithm/algorithm.h"

enum { TOY_CLIENTS_MOST = 3 };

#define TOY_CLOCK_ERROR_US INT64_C(10000)
#define TOY_DEADLINE_US INT64_C(20000)
#define TOY_RESERVE_US INT64_C(5000) /* of the deadline, for what gives back */
#define TOY_MARGIN_US (2 * TOY_CLOCK_ERROR_US + TOY_DEADLINE_US)

struct toy_key {
  uint32_t rule;
  weir_place place;
  int64_t index, entry;
  int64_t value;
  int64_t ends_us; /* 0: nobody has asked for this one yet */
  bool present;
};

struct toy_client {
  weir_machine *machine;
  weir_memo *memo;
  weir_ask asks[2];
  int64_t offset_us; /* of its clock */
  int64_t deadline_us;
  size_t landed; /* operations of this round */
  int rounds;    /* so far */
  weir_turn turn;
  bool busy;
};

struct toy_world {
  weir_stack stack;
  weir_terms terms;
  int64_t now_us; /* true time */
  struct toy_client clients[TOY_CLIENTS_MOST];
  struct toy_key *keys; /* a hash table; key_room is a power of two */
  size_t key_count, key_room;
  unsigned seed;
  int written; /* operations that could change something */
};

/* 0 to below - 1. */
int64_t toy_random(struct toy_world *world, int64_t below);

struct toy_world *toy_open(const char *rules, int64_t now_us, unsigned seed);
void toy_close(struct toy_world *world);

/* A key of the first rule, absent at first; where it is now. */
struct toy_key *toy_key(struct toy_world *world, weir_place place, int64_t index, int64_t entry);
void toy_write(struct toy_world *world, weir_place place, int64_t index, int64_t entry,
               int64_t value);
bool toy_has(struct toy_world *world, weir_place place, int64_t index, int64_t entry);

int64_t toy_clock(const struct toy_world *world, const struct toy_client *client);

/* Starts client->asks, as many as are given. */
void toy_begin(struct toy_world *world, struct toy_client *client, size_t asks);

/* The operation that lands with the next step; NULL: the next step takes in the answers. */
weir_action *toy_next(const struct toy_client *client);

/* One operation lands, or the answers are taken in, or a pause ends. */
void toy_step(struct toy_world *world, struct toy_client *client);

/* The same until the round's answers are taken in; until the operation that lands next is of this
 * kind, on such a key; until all is settled. */
void toy_finish_round(struct toy_world *world, struct toy_client *client);
void toy_step_until(struct toy_world *world, struct toy_client *client, weir_operation_kind kind,
                    weir_place place);
void toy_finish(struct toy_world *world, struct toy_client *client);

/* An operation of the round that is under way. */
void toy_expect(const struct toy_client *client, size_t at, weir_operation_kind kind,
                weir_place place, int64_t index, int64_t entry);

/* Never to be heard of again. */
void toy_crash(struct toy_client *client);

struct toy_client *toy_begin_take(struct toy_world *world, int client, int64_t cost);

/* One ask from begin to end with nothing in between. */
const weir_ask *toy_run(struct toy_world *world, int client, weir_ask ask);

const weir_decision *toy_take(struct toy_world *world, int client, int64_t cost);
const weir_decision *toy_peek(struct toy_world *world, int client, int64_t cost);

#endif
