#include "memory/operations.h"

/* What all operations have before them. */
struct call {
  weir_memory_table *table;
  weir_memory_fingerprint fingerprint;
  int64_t now_us;
  uint64_t version;
  weir_memory_entry *entry; /* NULL: the key is absent */
  weir_operation *operation;
  weir_message *message;
};

static weir_outcome refuse(const struct call *call, const char *why) {
  weir_message_set(call->message, "%s", why);
  return WEIR_REFUSED;
}

static weir_outcome write_entry(const struct call *call, weir_memory_entry *entry, int64_t value) {
  entry->value = value;
  entry->version = call->version;
  call->operation->version_out = call->version;
  return WEIR_DONE;
}

/* The sum of many charges may pass a whole limit, where denied requests count: it is cut. */
static void raise_stake(weir_memory_entry *entry, uint32_t stake) {
  entry->stake = stake < UINT32_MAX - entry->stake ? entry->stake + stake : UINT32_MAX;
}

static void lower_stake(weir_memory_entry *entry, uint32_t stake) {
  entry->stake = stake < entry->stake ? entry->stake - stake : 0;
}

/* Both terms are at most 2^63 - 1 in size, the clock is far below 2^62: no overflow. */
static weir_outcome write_with_ttl(const struct call *call, weir_memory_entry *entry,
                                   int64_t value) {
  entry->expiry_us = call->now_us + call->operation->ttl_us;
  return write_entry(call, entry, value);
}

static weir_outcome insert(const struct call *call, int64_t value) {
  weir_memory_entry *entry = weir_memory_table_insert(call->table, call->fingerprint, call->now_us);
  if (entry == NULL) return refuse(call, "there is not enough memory for another key");
  entry->stake = call->operation->stake;
  return write_with_ttl(call, entry, value);
}

static weir_outcome add(const struct call *call) {
  weir_operation *operation = call->operation;
  int64_t before = call->entry != NULL ? call->entry->value : operation->seed;
  if (before > INT64_MAX - operation->delta) return refuse(call, "the value would pass 2^63 - 1");
  operation->value = before + operation->delta;
  if (call->entry == NULL) return insert(call, operation->value);
  raise_stake(call->entry, operation->stake);
  if (operation->refresh) return write_with_ttl(call, call->entry, operation->value);
  return write_entry(call, call->entry, operation->value);
}

static weir_outcome sub(const struct call *call) {
  weir_operation *operation = call->operation;
  if (call->entry == NULL) return WEIR_ABSENT;
  if (call->entry->value < INT64_MIN + operation->delta)
    return refuse(call, "the value would pass -2^63");
  operation->value = call->entry->value - operation->delta;
  lower_stake(call->entry, operation->stake);
  return write_entry(call, call->entry, operation->value);
}

static weir_outcome get(const struct call *call) {
  if (call->entry == NULL) return WEIR_ABSENT;
  if (call->entry->stake < call->operation->stake) call->entry->stake = call->operation->stake;
  call->operation->value = call->entry->value;
  call->operation->version_out = call->entry->version;
  return WEIR_DONE;
}

static weir_outcome swap(const struct call *call) {
  if (call->entry == NULL) return WEIR_ABSENT;
  if (call->entry->version != call->operation->version) return WEIR_CONFLICT;
  call->entry->stake = call->operation->stake;
  return write_with_ttl(call, call->entry, call->operation->value);
}

static weir_outcome put(const struct call *call) {
  if (call->entry == NULL) return insert(call, call->operation->value);
  call->entry->stake = call->operation->stake;
  return write_with_ttl(call, call->entry, call->operation->value);
}

static weir_outcome drop(const struct call *call) {
  if (call->entry == NULL) return WEIR_ABSENT;
  weir_memory_table_erase(call->table, call->entry);
  return WEIR_DONE;
}

static weir_outcome run(const struct call *call) {
  switch (call->operation->kind) {
    case WEIR_ADD:
      return add(call);
    case WEIR_SUB:
      return sub(call);
    case WEIR_GET:
      return get(call);
    case WEIR_CREATE:
      return call->entry != NULL ? WEIR_CONFLICT : insert(call, call->operation->value);
    case WEIR_SWAP:
      return swap(call);
    case WEIR_PUT:
      return put(call);
    case WEIR_DROP:
      return drop(call);
    case WEIR_RAISE:
      break;
  }
  return refuse(call, "memory has no such operation");
}

void weir_memory_execute(weir_memory_table *table, weir_memory_fingerprint fingerprint,
                         int64_t now_us, uint64_t version, weir_operation *operation,
                         weir_message *message) {
  struct call call = {
      table,     fingerprint, now_us, version, weir_memory_table_find(table, fingerprint, now_us),
      operation, message};
  operation->outcome = run(&call);
}
