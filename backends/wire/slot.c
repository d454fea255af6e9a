/* Slots: their memory, their pool, their place in line, their end. */
#include <stdlib.h>
#include <string.h>

#include "wire/internal.h"

static weir_wire_slot *slot_new(void) {
  weir_wire_slot *slot = calloc(1, sizeof *slot);
  if (slot == NULL) return NULL;
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic) != 0) goto no_attributes;
  if (pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0) goto no_condition;
  if (pthread_cond_init(&slot->wake, &monotonic) != 0) goto no_condition;
  pthread_condattr_destroy(&monotonic);
  return slot;

no_condition:
  pthread_condattr_destroy(&monotonic);
no_attributes:
  free(slot);
  return NULL;
}

void weir_wire_slot_free(weir_wire_slot *slot) {
  pthread_cond_destroy(&slot->wake);
  free(slot->commands);
  free(slot->keys);
  free(slot);
}

weir_wire_slot *weir_wire_slot_take(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  weir_wire_slot *slot = wire->pool;
  if (slot != NULL) {
    wire->pool = slot->next;
  } else if (wire->slot_count < WEIR_WIRE_SLOTS_MOST && (slot = slot_new()) != NULL) {
    wire->slot_count++;
  }
  pthread_mutex_unlock(&wire->lock);
  if (slot == NULL) return NULL;
  slot->next = NULL;
  slot->connection = &wire->connections[0];
  slot->count = slot->encoded = slot->answered = slot->keys_length = 0;
  slot->moved = slot->abandoned = slot->waiting = slot->sleeping = false;
  slot->missed = slot->late = false;
  slot->connects = slot->connected = false;
  slot->message.text[0] = '\0';
  slot->done = false;
  return slot;
}

/* Makes an array hold `need` items of `size` bytes; doubles, so that a pooled slot settles. */
static bool grow(void **items, size_t *room, size_t need, size_t size) {
  size_t grown = *room == 0 ? 16 : *room;
  while (grown < need)
    grown *= 2;
  void *moved = realloc(*items, grown * size);
  if (moved == NULL) return false;
  *items = moved;
  *room = grown;
  return true;
}

bool weir_wire_slot_add(weir_wire_slot *slot, weir_operation *operation, uint8_t attempt) {
  size_t keys_length = slot->keys_length + operation->key_length;
  if (slot->count == slot->room) {
    void *commands = slot->commands;
    if (!grow(&commands, &slot->room, slot->count + 1, sizeof *slot->commands)) return false;
    slot->commands = commands;
  }
  if (keys_length > slot->keys_room) {
    void *keys = slot->keys;
    if (!grow(&keys, &slot->keys_room, keys_length, 1)) return false;
    slot->keys = keys;
  }
  weir_wire_command *command = &slot->commands[slot->count++];
  memcpy(&command->operation, operation, offsetof(weir_operation, counter));
  command->operation.outcome = WEIR_PENDING;
  command->caller = operation;
  memset(command->notes, 0, sizeof command->notes);
  command->kept = NULL;
  command->attempt = attempt;
  command->replies = 0;
  memcpy(slot->keys + slot->keys_length, operation->key, operation->key_length);
  slot->keys_length = keys_length;
  return true;
}

void weir_wire_slot_keep_notes(weir_wire_slot *slot, void *notes) {
  weir_wire_command *command = &slot->commands[slot->count - 1];
  memcpy(command->notes, notes, sizeof command->notes);
  command->kept = notes;
}

void weir_wire_line_append(weir_wire_connection *connection, weir_wire_slot *slot) {
  /* The keys stand still from here on; until now they could move as the slot grew. */
  const char *key = slot->keys;
  for (size_t i = 0; i < slot->count; i++) {
    slot->commands[i].operation.key = key;
    key += slot->commands[i].operation.key_length;
  }
  slot->connection = connection;
  if (connection->last != NULL) connection->last->next = slot;
  if (connection->first == NULL) connection->first = slot;
  if (connection->unsent == NULL) connection->unsent = slot;
  connection->last = slot;
}

void weir_wire_line_remove(weir_wire_connection *connection, weir_wire_slot *slot) {
  weir_wire_slot *before = NULL;
  for (weir_wire_slot *each = connection->first; each != slot; each = each->next)
    before = each;
  if (before != NULL) {
    before->next = slot->next;
  } else {
    connection->first = slot->next;
  }
  if (connection->last == slot) connection->last = before;
  if (connection->unsent == slot) connection->unsent = slot->next;
  slot->next = NULL;
}

void weir_wire_slot_mark(weir_wire_slot *slot, uint64_t accepted) {
  for (size_t i = slot->answered; i < slot->count; i++) {
    weir_wire_command *command = &slot->commands[i];
    bool sent = i < slot->encoded && command->start < accepted;
    command->operation.outcome = sent ? WEIR_UNKNOWN : WEIR_NOT_SENT;
  }
}

void weir_wire_slot_explain(weir_wire_slot *slot, const char *why) {
  if (slot->message.text[0] == '\0') weir_message_set(&slot->message, "%s", why);
}

void weir_wire_slot_give(weir_wire *wire, weir_wire_slot *slot) {
  if (slot->room > WEIR_WIRE_COMMANDS_KEPT) {
    free(slot->commands);
    free(slot->keys);
    slot->commands = NULL;
    slot->keys = NULL;
    slot->room = slot->keys_room = 0;
  }
  slot->next = wire->pool;
  wire->pool = slot;
}

void weir_wire_slot_end(weir_wire_connection *connection, weir_wire_slot *slot) {
  slot->late = connection->wire->breaker.state == WEIR_BREAKER_CLOSED;
  weir_wire_line_remove(connection, slot);
  if (slot->abandoned) {
    connection->abandoned--;
    weir_wire_slot_give(connection->wire, slot);
    return;
  }
  slot->done = true;
  if (slot->sleeping) weir_wire_rouse(connection->wire, slot);
}

bool weir_wire_slot_collect(const weir_wire *wire, const weir_wire_slot *slot,
                            weir_message *message) {
  bool failed = slot->connects && !slot->connected;
  for (size_t i = 0; i < slot->count; i++) {
    const weir_wire_command *command = &slot->commands[i];
    const weir_operation *result = &command->operation;
    weir_operation *caller = command->caller;
    caller->outcome = result->outcome;
    caller->value = result->value;
    caller->version_out = result->version_out;
    caller->late = slot->late && result->outcome >= WEIR_NOT_SENT;
    if (command->kept != NULL) memcpy(command->kept, command->notes, sizeof command->notes);
    failed |= result->outcome >= WEIR_NOT_SENT;
  }
  if (failed) weir_message_set(message, "%s: %s", wire->name, slot->message.text);
  return failed;
}
