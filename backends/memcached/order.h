/* Order among operations where an ADD may take several tries.
 *
 * With the classic commands an ADD of an absent key is known only after the reply. Operations then
 * go in rounds, and two rules keep what the contract of `exec` promises:
 *   - a write waits until an earlier ADD of its key is finished;
 *   - a GET is good only if no earlier write of its home was left unfinished by the same round,
 * else it is read again. Writes are never repeated. */
#ifndef WEIR_MEMCACHED_ORDER_H
#define WEIR_MEMCACHED_ORDER_H

#include <weir/backend.h>

typedef struct weir_order_step {
  uint32_t home_before;  /* 1 + index of the operation before with the same home, or 0 */
  uint32_t write_before; /* 1 + index of the write before with the same key, or 0 */
  uint8_t attempt;
  bool open;      /* still to be done */
  bool held;      /* but not in this round */
  bool unsettled; /* some write of the same home before it is open */
} weir_order_step;

/* Scratch memory, pooled by its owner. */
typedef struct weir_order weir_order;
struct weir_order {
  weir_order *next;
  weir_order_step *steps;
  uint32_t *table;
  size_t room;
};

bool weir_order_start(weir_order *order, const weir_operation *operations, size_t count);
/* Before a round: which operations go. False when none is left. */
bool weir_order_plan(weir_order *order, const weir_operation *operations, size_t count);
/* After it: which are finished. True: some ADD was given up, which `message` explains. */
bool weir_order_settle(weir_order *order, weir_operation *operations, size_t count,
                       weir_message *message);
static inline bool weir_order_goes(const weir_order *order, size_t i) {
  return order->steps[i].open && !order->steps[i].held;
}
void weir_order_free(weir_order *order);

#endif
