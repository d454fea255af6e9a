/* How a thread waits for its slot: decided here, from what the wire has seen. Nothing here waits. */
#ifndef WEIR_WIRE_WAITING_H
#define WEIR_WIRE_WAITING_H

#include "wire/line.h"

/* A wake-up costs more than some yields, so a thread may stay awake for a near server. The kernel takes
 * a yield for a wish to wait: where other work wants the processor, staying awake does harm. What
 * happens without one of them stands in docs/performance.md. */
typedef struct weir_waiting_constants {
  unsigned crowd_slots; /* a crowd lasts for so many slots after its threads were too many */
  int yields;           /* of a follower in a crowd, before it sleeps */
  int64_t near_us;      /* a server whose answers take longer is not waited for awake */
  size_t many_commands; /* a slot of fewer is waited for asleep by its leader */
  int64_t lost_us;      /* a leader's yield that took longer was lost; twice in a row, it stops */
  int64_t yield_us;     /* a yield in a crowd that took longer was lost, */
  int64_t done_us;      /* unless a slot was done in each so much of it */
  int64_t pressed_us;   /* no thread yields for so long, once yields were lost; it doubles, */
  int64_t pressed_most_us; /* up to this, where the next try is lost as well */
} weir_waiting_constants;

static const weir_waiting_constants weir_waiting = {
    .crowd_slots = 1024,
    .yields = 6,
    .near_us = 300,
    .many_commands = 16,
    .lost_us = 30,
    .yield_us = 300,
    .done_us = 30,
    .pressed_us = 10000,
    .pressed_most_us = 1000000,
};

/* How a thread waits. Each member is for one moment of it; the others do not matter then. */
typedef struct weir_wait {
  int gives_way; /* yields before it leads or follows */
  int yields;    /* yields as a follower, before it sleeps */
  bool listens;  /* as the leader it receives without a poll before */
  bool tries;    /* and tries for a while before that receive waits */
  bool counts;   /* the time of its answer is learnt from */
} weir_wait;

/* Many threads share the first connection, and yield. */
static inline bool weir_is_crowd(const weir_wire *wire) {
  return wire->crowd > 0 && !wire->crowded.felt;
}

/* How the thread of this slot waits at the line, if it can wait for `left_us`. The lock is held.
 *
 * In a crowd each thread gives way once: its slot was done, so it has the processor, and would lead for
 * itself again and again while the others wait for the processor. The next leader then sends what all of
 * them have brought. It is no loss for followers: replies come in bursts.
 *
 * A receive that waits saves a poll, a tenth of a round trip. It ends a little late, so it is not for the
 * last milliseconds before a deadline, nor for TLS, whose session a follower may not touch meanwhile.
 *
 * Many commands take their server a while, in which the processors of both sides go idle: the wake-ups
 * then cost both more than the tries. Threads that have met at the server, so that there is a further
 * connection, have better use for the processor. */
static inline weir_wait weir_how_to_wait(const weir_wire_line *line, const weir_wire_slot *slot,
                                         int64_t left_us) {
  const weir_wire *wire = line->wire;
  bool crowd = weir_is_crowd(wire);
  bool near = wire->took_us < weir_waiting.near_us;
  bool many = slot->count >= weir_waiting.many_commands;
  return (weir_wait){
      .gives_way = crowd && line->waiting > 1 ? 1 : 0,
      .yields = crowd && near ? weir_waiting.yields : 0,
      .listens = line->session == NULL && left_us > wire->patience_us,
      .tries = many && near && left_us > wire->patience_us + weir_waiting.near_us &&
               wire->waiting == 1 && !wire->watched.felt &&
               wire->server.connections[1].state == WEIR_CONNECTION_CLOSED,
      .counts = (crowd || many) && slot->encoded > 0,
  };
}

/* Yields were lost: no thread yields for a while, which doubles if that comes again soon. */
static inline void weir_pressure_feel(weir_pressure *pressure, int64_t now_us) {
  if (pressure->felt) return;
  bool soon = now_us - pressure->until_us < pressure->lasts_us;
  pressure->felt = true;
  pressure->lasts_us = soon ? 2 * pressure->lasts_us : weir_waiting.pressed_us;
  if (pressure->lasts_us > weir_waiting.pressed_most_us)
    pressure->lasts_us = weir_waiting.pressed_most_us;
  pressure->until_us = now_us + pressure->lasts_us;
}

static inline void weir_pressure_ease(weir_pressure *pressure, int64_t now_us) {
  if (now_us >= pressure->until_us) pressure->felt = false;
}

#endif
