/* stores: where counts live, and what limiters on them are like. */
#include "config/reader.h"

enum { STORES_MOST = 256 };

static const char *const fallbacks[] = {[WEIR_FALLBACK_LOCAL] = "local",
                                        [WEIR_FALLBACK_DENY] = "deny",
                                        [WEIR_FALLBACK_ALLOW] = "allow",
                                        [WEIR_FALLBACK_NONE] = "none",
                                        NULL};

typedef struct store_fields {
  weir_config_store *store;
  int64_t processes, peers, memo_keys, deadline_us, clock_error_us;
  int fallback;
} store_fields;

static void read_url(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_store *store = ((store_fields *)target)->store;
  store->url_place = weir_place(reader, node);
  store->url = weir_read_secret(reader, node, true, NULL);
}

#define NUMBER(text, member, low, high)                                                \
  {                                                                                    \
    .name = text, .type = WEIR_FIELD_NUMBER, .offset = offsetof(store_fields, member), \
    .least = low, .most = high                                                         \
  }
#define DURATION(text, member, low, high)                                                \
  {                                                                                      \
    .name = text, .type = WEIR_FIELD_DURATION, .offset = offsetof(store_fields, member), \
    .least = low, .most = high                                                           \
  }

static const weir_field fields[] = {
    {.name = "url", .read = read_url},
    NUMBER("processes", processes, 1, 100000),
    NUMBER("peers", peers, 1, 100000),
    {.name = "fallback",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(store_fields, fallback),
     .choices = fallbacks},
    DURATION("deadline", deadline_us, 1000, 60000000),
    DURATION("clock_error", clock_error_us, 1000, 60000000),
    NUMBER("memo_keys", memo_keys, 1, 16777216),
    {.name = NULL},
};

static void read_store(weir_reader *reader, const weir_node_item *item, weir_config_store *store) {
  store_fields read = {.store = store};
  weir_read_fields(reader, item->value, fields, &read);
  if (item->value->kind == WEIR_NODE_MAPPING && weir_node_find(item->value, "url") == NULL)
    weir_fault(reader, item->key, "url is missing, such as \"memcached://localhost\"");
  store->options = (weir_limiter_options){
      .size = sizeof store->options,
      .deadline_us = read.deadline_us, /* 0: the store's timeout, as with every other process */
      .clock_error_us = read.clock_error_us,
      .processes = (uint32_t)read.processes,
      .memo_keys = (uint32_t)read.memo_keys,
      .peers = (uint32_t)read.peers,
      .fallback = (unsigned)read.fallback,
  };
}

void weir_read_stores(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (node->length < 1 || node->length > STORES_MOST) {
    weir_fault(reader, node, "found %u stores, accepted are 1 to %d", node->length, STORES_MOST);
    return;
  }
  config->stores = weir_arena_take(reader->arena, node->length, sizeof *config->stores);
  if (config->stores == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_store *store = &config->stores[config->store_count];
    if (!weir_read_name(reader, item->key)) continue;
    store->name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
    if (store->name == NULL) return;
    store->place = weir_place(reader, item->key);
    config->store_count++;
    size_t length = weir_path_enter(reader, store->name);
    read_store(reader, item, store);
    weir_path_leave(reader, length);
  }
}

static const char *store_at(const void *list, size_t index) {
  const weir_config *config = list;
  return index < config->store_count ? config->stores[index].name : NULL;
}

const weir_config_store *weir_find_store(weir_reader *reader, const weir_node *node,
                                         const weir_node *whole) {
  const weir_config *config = reader->config;
  if (config->store_count == 0) return NULL; /* which is reported once, at its own place */
  if (node == NULL) {
    if (config->store_count == 1) return &config->stores[0];
    weir_fault(reader, whole, "store is missing, as there are %zu of them", config->store_count);
    return NULL;
  }
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return NULL;
  for (size_t i = 0; i < config->store_count; i++)
    if (weir_node_is(node, config->stores[i].name)) return &config->stores[i];
  weir_fault_unknown(reader, node, "no store", config, store_at);
  return NULL;
}
