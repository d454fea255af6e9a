/* A fake world for machines: a store with the semantics of weir/backend.h whose keys go at the end
 * of their TTL, not later, and a few clients whose clocks differ. A client's operations land one by
 * one, so that a test can put those of others between them. */
#ifndef TESTS_ALGORITHM_FAKE_H
#define TESTS_ALGORITHM_FAKE_H

#include "algorithm/view.h"

enum { FAKE_CLIENTS_MOST = 3, FAKE_CLIENTS_ROOM = 12 /* for tests that want more */ };

#define FAKE_CLOCK_ERROR_US INT64_C(10000)
#define FAKE_DEADLINE_US INT64_C(20000)
#define FAKE_RESERVE_US INT64_C(5000) /* of the deadline, for what gives back */
#define FAKE_MARGIN_US (2 * FAKE_CLOCK_ERROR_US + FAKE_DEADLINE_US)
#define FAKE_FINAL_US (2 * FAKE_CLOCK_ERROR_US + WEIR_DEADLINE_OF_ANYBODY_US)

struct fake_key {
  uint32_t rule;
  weir_place place;
  int64_t index, entry;
  int64_t value;
  int64_t ends_us; /* 0: nobody has asked for this one yet */
  bool present;
};

struct fake_client {
  weir_machine *machine;
  weir_operation *operations; /* of one round */
  weir_memo *memo;
  weir_claim requests[2];
  int64_t offset_us; /* of its clock */
  int64_t deadline_us;
  size_t landed; /* operations of this round */
  int rounds;    /* so far */
  weir_turn turn;
  bool busy;
};

struct fake_world {
  weir_stack stack;
  weir_settings settings;
  int64_t now_us; /* true time */
  struct fake_client clients[FAKE_CLIENTS_ROOM];
  struct fake_key *keys; /* a hash table; key_room is a power of two */
  size_t key_count, key_room;
  unsigned seed;
  int written; /* operations that could change something */
};

/* 0 to below - 1. */
int64_t fake_random(struct fake_world *world, int64_t below);

struct fake_world *fake_open(const char *rules, int64_t now_us, unsigned seed);
void fake_close(struct fake_world *world);

/* A key of the first rule, absent at first; where it is now. */
struct fake_key *fake_key(struct fake_world *world, weir_place place, int64_t index, int64_t entry);
void fake_write(struct fake_world *world, weir_place place, int64_t index, int64_t entry,
                int64_t value);
bool fake_has(struct fake_world *world, weir_place place, int64_t index, int64_t entry);

int64_t fake_clock(const struct fake_world *world, const struct fake_client *client);

/* Starts client->requests, as many as are given. */
void fake_begin(struct fake_world *world, struct fake_client *client, size_t count);

/* The operation that lands with the next step; NULL: the next step takes in the answers. */
weir_operation *fake_next(const struct fake_client *client);

/* One operation lands, or the answers are taken in, or a pause ends. */
void fake_step(struct fake_world *world, struct fake_client *client);

/* The same until the round's answers are taken in; until the operation that lands next is of this
 * kind, on such a key; until all is settled. */
void fake_finish_round(struct fake_world *world, struct fake_client *client);
void fake_step_until(struct fake_world *world, struct fake_client *client, weir_operation_kind kind,
                     weir_place place);
void fake_finish(struct fake_world *world, struct fake_client *client);

/* An operation of the round that is under way. */
void fake_expect(const struct fake_client *client, size_t at, weir_operation_kind kind,
                 weir_place place, int64_t index, int64_t entry);

/* Never to be heard of again. */
void fake_crash(struct fake_client *client);

struct fake_client *fake_begin_take(struct fake_world *world, int client, int64_t cost);

/* One request from begin to end with nothing in between. */
const weir_claim *fake_run(struct fake_world *world, int client, weir_claim request);

const weir_decision *fake_take(struct fake_world *world, int client, int64_t cost);
const weir_decision *fake_peek(struct fake_world *world, int client, int64_t cost);

#endif
