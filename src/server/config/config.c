/* The file as a whole: its sections, of which listen, stores with limiters and groups, and envoy have
 * files of their own, and what must be there for a server to be of use. */

#include <stdlib.h>
#include <string.h>

#include "config/reader.h"

enum { LOOPS_MOST = 64 };

/* The configuration that a caller has, and the memory that all of it is in. */
typedef struct whole {
  weir_config config; /* first */
  weir_arena arena;
} whole;

/* --- sections -----------------------------------------------------------------------------------
 */

typedef struct throttle_fields {
  weir_config_throttle throttle;
  int64_t limiters, memo_keys;
} throttle_fields;

static void read_throttle(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      WEIR_ROW("enabled", BOOL, throttle_fields, throttle.enabled),
      WEIR_ROW("throttlecrab", BOOL, throttle_fields, throttle.throttlecrab),
      WEIR_ROW_READ("store", weir_read_store, throttle_fields, throttle.store),
      WEIR_ROW_RANGE("limiters", NUMBER, throttle_fields, limiters, 1, 65536),
      WEIR_ROW_RANGE("memo_keys", NUMBER, throttle_fields, memo_keys, 1, 16777216),
      {.name = NULL},
  };
  throttle_fields read = {.limiters = 256, .memo_keys = 16384};
  weir_config *config = target;
  read.throttle.place = weir_place(reader, node);
  weir_read_fields(reader, node, fields, &read);
  if (read.throttle.enabled && weir_node_find(node, "store") == NULL)
    read.throttle.store = weir_only_store(reader, node);
  read.throttle.limiters = (uint32_t)read.limiters;
  read.throttle.memo_keys = (uint32_t)read.memo_keys;
  config->throttle = read.throttle;
}

#define LIMIT(text, member, kind, low, high) \
  WEIR_ROW_RANGE(text, kind, weir_config_limits, member, low, high)

static void read_limits(weir_reader *reader, const weir_node *node, void *target) {
  enum { KIB = 1024, MIB = 1024 * 1024, SECOND = 1000000 };
  static const weir_field fields[] = {
      LIMIT("connections", connections, NUMBER, 1, 1000000),
      LIMIT("connections_per_address", connections_per_address, NUMBER, 1, 1000000),
      LIMIT("resp_arguments", resp_arguments, NUMBER, 8, 1024),
      LIMIT("resp_request", resp_request_bytes, BYTES, KIB, 16 * MIB),
      LIMIT("key", key_bytes, BYTES, 1, WEIR_CONFIG_KEY_MOST),
      LIMIT("http_headers", http_header_bytes, BYTES, KIB, MIB),
      LIMIT("http_body", http_body_bytes, BYTES, KIB, 16 * MIB),
      LIMIT("grpc_streams", grpc_streams, NUMBER, 1, 100000),
      LIMIT("grpc_message", grpc_message_bytes, BYTES, KIB, 16 * MIB),
      LIMIT("grpc_age", grpc_age_us, DURATION, SECOND, INT64_C(400) * 86400 * SECOND),
      LIMIT("output", output_bytes, BYTES, 4 * KIB, 1024 * MIB),
      LIMIT("waiting", waiting, NUMBER, 1, 1000000),
      LIMIT("logged_denials", logged_denials, NUMBER, 0, 1000000),
      LIMIT("idle", idle_us, DURATION, SECOND, INT64_C(86400) * SECOND),
      LIMIT("first_bytes", first_bytes_us, DURATION, SECOND / 10, 3600 * (int64_t)SECOND),
      LIMIT("drain", drain_us, DURATION, SECOND / 10, 3600 * (int64_t)SECOND),
      {.name = NULL},
  };
  weir_read_fields(reader, node, fields, &((weir_config *)target)->limits);
}

static void read_places(weir_reader *reader, const weir_node *node, void *target) {
  enum { MOST = 1000000, SECOND = 1000000, DAY = 86400 };
  static const weir_field fields[] = {
      WEIR_ROW_RANGE("most", NUMBER, weir_config_places, most, 1, MOST),
      WEIR_ROW_RANGE("for", DURATION, weir_config_places, for_us, SECOND,
                     400 * DAY * INT64_C(1000000)),
      WEIR_ROW_RANGE("for_most", DURATION, weir_config_places, for_most_us, SECOND,
                     400 * DAY * INT64_C(1000000)),
      {.name = NULL},
  };
  weir_config_places *places = &((weir_config *)target)->places;
  weir_read_fields(reader, node, fields, places);
  if (places->for_us > places->for_most_us) weir_fault(reader, node, "for is longer than for_most");
}

static void read_log(weir_reader *reader, const weir_node *node, void *target) {
  static const char *const formats[] = {
      [WEIR_CONFIG_LOG_TEXT] = "text", [WEIR_CONFIG_LOG_JSON] = "json", NULL};
  static const weir_field fields[] = {
      WEIR_ROW_CHOICE("format", weir_config_log, format, formats),
      {.name = NULL},
  };
  weir_read_fields(reader, node, fields, &((weir_config *)target)->log);
}

static const weir_config_limits default_limits = {
    .connections = 10000,
    .connections_per_address = 512,
    .resp_arguments = 16,
    .resp_request_bytes = 64 * 1024,
    .key_bytes = 4096,
    .http_header_bytes = 16 * 1024,
    .http_body_bytes = 64 * 1024,
    .grpc_streams = 1000,
    .grpc_age_us = INT64_C(1800) * 1000000,
    .grpc_message_bytes = 64 * 1024,
    .output_bytes = 1024 * 1024,
    .waiting = 8192,
    .logged_denials = 10,
    .idle_us = INT64_C(300) * 1000000,
    .first_bytes_us = INT64_C(10) * 1000000,
    .drain_us = INT64_C(10) * 1000000,
};

static const weir_config_places default_places = {
    .most = 100000,
    .for_us = INT64_C(300) * 1000000,
    .for_most_us = INT64_C(86400) * 1000000,
};

/* In this order: stores are read before the sections that refer to them. */
static const weir_field sections[] = {
    {.name = "listen", .read = weir_read_listen},
    {.name = "stores", .read = weir_read_stores},
    WEIR_ROW("shadow", BOOL, weir_config, shadow),
    {.name = "limiters", .read = weir_read_limiters},
    {.name = "groups", .read = weir_read_groups},
    {.name = "throttle", .read = read_throttle},
    {.name = "envoy", .read = weir_read_envoy},
    {.name = "limits", .read = read_limits},
    {.name = "places", .read = read_places},
    {.name = "log", .read = read_log},
    WEIR_ROW_RANGE("loops", NUMBER, weir_config, loops, 1, LOOPS_MOST),
    {.name = NULL},
};

/* Two of these faults are reported only where there is no other, as they may follow from it. */
static void read_root(weir_reader *reader, const weir_node *root) {
  weir_config *config = reader->config;
  weir_read_fields(reader, root, sections, config);
  if (root->kind != WEIR_NODE_MAPPING) return;
  bool has_service = false;
  for (size_t i = 0; i < config->listener_count; i++)
    has_service |= config->listeners[i].protocol != WEIR_CONFIG_ADMIN;
  if (weir_node_find(root, "listen") == NULL)
    weir_fault(reader, root, "listen is missing, such as \"listen: {resp: {}, http: {}}\"");
  else if (!has_service && reader->faults->count == 0)
    weir_fault(reader, root, "listen has neither resp, http nor grpc, so no client could ask");
  if (weir_node_find(root, "stores") == NULL)
    weir_fault(reader, root,
               "stores is missing, such as \"stores: {main: {url: memcached://localhost}}\"");
  if (config->limiter_count + config->envoy.domain_count == 0 && !config->throttle.enabled &&
      reader->faults->count == 0)
    weir_fault(reader, root, "no limiters, and throttle is not enabled: nothing is limited");
  weir_warn_of_untrusted(reader);
}

/* --- the file -----------------------------------------------------------------------------------
 */

weir_config *weir_config_read_text(const char *file, const char *text, size_t length,
                                   weir_config_faults *faults) {
  whole *made = calloc(1, sizeof *made);
  weir_reader *reader = calloc(1, sizeof *reader);
  weir_config_place place = {.file = file};
  if (made != NULL && reader != NULL) {
    weir_config *config = &made->config;
    *reader = (weir_reader){.arena = &made->arena, .faults = faults, .config = config};
    reader->file = weir_arena_copy(&made->arena, file, strlen(file));
    config->files = weir_arena_take(&made->arena, WEIR_WATCHED_MOST, sizeof *config->files);
    config->limits = default_limits;
    config->places = default_places;
    if (reader->file != NULL && config->files != NULL) {
      config->file = reader->file;
      weir_watch_file(reader, reader->file);
      weir_arena tree = {0}; /* the configuration has copies of what it needs */
      const weir_node *root = weir_tree_read(file, text, length, &tree, faults);
      if (root != NULL) read_root(reader, root);
      made->arena.failed |= tree.failed;
      weir_arena_free(&tree);
    }
  }
  if (made == NULL || reader == NULL || made->arena.failed)
    weir_config_fault(faults, place, "", "there is not enough memory");
  free(reader);
  return made != NULL ? &made->config : NULL;
}

weir_config *weir_config_read(const char *file, weir_config_faults *faults) {
  size_t length;
  char *text = weir_config_read_bytes(file, &length, faults);
  if (text == NULL) return NULL;
  weir_config *config = weir_config_read_text(file, text, length, faults);
  free(text);
  return config;
}

void weir_config_destroy(weir_config *config) {
  if (config == NULL) return;
  for (size_t i = 0; i < config->listener_count; i++)
    weir_http_networks_destroy(config->listeners[i].trusted);
  weir_arena arena = ((whole *)config)->arena;
  free(config);
  weir_arena_free(&arena);
}
