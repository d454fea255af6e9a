#include "memcached/memcached.h"

#include <stdlib.h>
#include <string.h>

/* An ADD that loses the race between `incr` and `add` this often has a key that comes and goes. */
enum { ATTEMPTS_MOST = 8 };

static bool reserve(weir_order *order, size_t count) {
  if (count <= order->room) return true;
  size_t room = 64;
  while (room < count)
    room *= 2;
  free(order->steps);
  free(order->table);
  order->steps = malloc(room * sizeof *order->steps);
  order->table = malloc(2 * room * sizeof *order->table);
  order->room = order->steps != NULL && order->table != NULL ? room : 0;
  return order->room > 0;
}

/* The text by which operations are grouped: the home, or the whole key. */
static const char *text_of(const weir_operation *operation, bool home, size_t *length) {
  *length = home ? operation->home_length : operation->key_length;
  return home ? operation->key + operation->home_offset : operation->key;
}

/* Puts `i` in the place of the last one with the same text and returns that (1 + index, or 0). */
static uint32_t replace(weir_order *order, const weir_operation *operations, size_t i, bool home) {
  size_t mask = 2 * order->room - 1;
  size_t length;
  const char *text = text_of(&operations[i], home, &length);
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (size_t each = 0; each < length; each++)
    hash = (hash ^ (unsigned char)text[each]) * UINT64_C(0x100000001b3);
  for (size_t at = (hash ^ hash >> 32) & mask;; at = (at + 1) & mask) {
    uint32_t found = order->table[at];
    size_t found_length = 0;
    if (found != 0) {
      const char *other = text_of(&operations[found - 1], home, &found_length);
      if (found_length != length || memcmp(text, other, length) != 0) continue;
    }
    order->table[at] = (uint32_t)i + 1;
    return found;
  }
}

static void clear_table(weir_order *order) {
  memset(order->table, 0, 2 * order->room * sizeof *order->table);
}

bool weir_order_start(weir_order *order, const weir_operation *operations, size_t count) {
  if (!reserve(order, count)) return false;
  memset(order->steps, 0, count * sizeof *order->steps);
  clear_table(order);
  for (size_t i = 0; i < count; i++) {
    order->steps[i].open = true;
    order->steps[i].home_before = replace(order, operations, i, true);
  }
  clear_table(order);
  for (size_t i = 0; i < count; i++) {
    if (operations[i].kind == WEIR_GET) continue;
    order->steps[i].write_before = replace(order, operations, i, false);
  }
  return true;
}

bool weir_order_plan(weir_order *order, const weir_operation *operations, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    weir_order_step *step = &order->steps[i];
    step->held = false;
    if (step->write_before != 0) {
      const weir_order_step *before = &order->steps[step->write_before - 1];
      bool add = operations[step->write_before - 1].kind == WEIR_ADD;
      step->held = before->open && (add || before->held);
    }
    any |= step->open;
  }
  return any;
}

bool weir_order_settle(weir_order *order, weir_operation *operations, size_t count,
                       weir_message *message) {
  bool given_up = false;
  for (size_t i = 0; i < count; i++) {
    weir_order_step *step = &order->steps[i];
    weir_operation *operation = &operations[i];
    if (step->home_before != 0) {
      const weir_order_step *before = &order->steps[step->home_before - 1];
      bool writes = operations[step->home_before - 1].kind != WEIR_GET;
      step->unsettled = before->unsettled || (before->open && writes);
    }
    if (!step->open || step->held) continue;
    if (operation->kind == WEIR_GET) {
      step->open = step->unsettled;
    } else if (operation->outcome != WEIR_PENDING) {
      step->open = false;
    } else if (++step->attempt == ATTEMPTS_MOST) {
      step->open = false;
      operation->outcome = WEIR_REFUSED;
      given_up = true;
      weir_message_set(message, "key \"%.*s\" kept coming and going", (int)operation->key_length,
                       operation->key);
    }
  }
  return given_up;
}

void weir_order_free(weir_order *order) {
  free(order->steps);
  free(order->table);
  free(order);
}
