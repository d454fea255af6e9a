/* protobuf, as far as five small messages need it.
 *
 * A message is a row of fields: a varint of number * 8 + type, then a varint (type 0), 8 bytes (1), a
 * length and so many bytes (2), or 4 bytes (5). A field that comes again takes the place of the one
 * before; a message within a message is merged with it. Numbers are those of the public
 * envoy/service/ratelimit/v3/rls.proto and grpc/health/v1/health.proto. */
#include "protocol/grpc/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };
enum { NUMBER_MOST = 536870911, VARINT_BYTES = 10 };

/* --- reading ------------------------------------------------------------------------------------
 */

typedef struct reader {
  const char *at, *end;
  bool is_broken;
} reader;

typedef struct field {
  uint64_t number;
  unsigned type;
  uint64_t value; /* of VARINT */
  reader bytes;   /* of BYTES */
} field;

static bool refuse(weir_message *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(weir_message *why, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why->text, sizeof why->text, format, arguments);
  va_end(arguments);
  return false;
}

static bool read_varint(reader *from, uint64_t *value) {
  *value = 0;
  for (unsigned i = 0; i < VARINT_BYTES && from->at < from->end; i++) {
    unsigned char byte = (unsigned char)*from->at++;
    *value |= (uint64_t)(byte & 0x7f) << (7 * i); /* bits above 64 are lost, as everywhere */
    if (byte < 0x80) return true;
  }
  from->is_broken = true;
  return false;
}

static bool take(reader *from, uint64_t length, reader *taken) {
  if (length > (uint64_t)(from->end - from->at)) {
    from->is_broken = true;
    return false;
  }
  *taken = (reader){from->at, from->at + length, false};
  from->at += length;
  return true;
}

/* False: there is no more, or it cannot be read. */
static bool next_field(reader *from, field *read) {
  uint64_t tag;
  if (from->at == from->end || !read_varint(from, &tag)) return false;
  *read = (field){.number = tag >> 3, .type = (unsigned)(tag & 7)};
  from->is_broken = read->number < 1 || read->number > NUMBER_MOST;
  if (from->is_broken) return false;
  switch (read->type) {
    case VARINT:
      return read_varint(from, &read->value);
    case FIXED_64:
      return take(from, 8, &read->bytes);
    case FIXED_32:
      return take(from, 4, &read->bytes);
    case BYTES:
      return read_varint(from, &read->value) && take(from, read->value, &read->bytes);
    default: /* groups, which proto3 has not */
      from->is_broken = true;
      return false;
  }
}

/* A field of another type is another field, as every reader of protobuf takes it. */
static bool is(const field *read, uint64_t number, unsigned type) {
  return read->number == number && read->type == type;
}

static void set_text(const field *read, const char **text, size_t *length) {
  *text = read->bytes.at;
  *length = (size_t)(read->bytes.end - read->bytes.at);
}

static bool end(const reader *from, weir_message *why) {
  return !from->is_broken || refuse(why, "the message cannot be read as protobuf");
}

static bool read_entry(reader from, weir_envoy_request *request, weir_envoy_descriptor *descriptor,
                       size_t index, weir_message *why) {
  field read;
  if (request->entry_count == WEIR_ENVOY_ENTRIES_MOST)
    return refuse(why, "descriptors[%zu].entries: there are more than %d of all descriptors", index,
                  WEIR_ENVOY_ENTRIES_MOST);
  weir_entry *entry = &request->entries[request->entry_count++];
  descriptor->count++;
  *entry = (weir_entry){.key = "", .value = ""};
  while (next_field(&from, &read)) {
    if (is(&read, 1, BYTES)) set_text(&read, &entry->key, &entry->key_length);
    if (is(&read, 2, BYTES)) set_text(&read, &entry->value, &entry->value_length);
  }
  if (!end(&from, why)) return false;
  return entry->key_length > 0 ||
         refuse(why, "descriptors[%zu].entries[%zu].key is missing", index, descriptor->count - 1);
}

static bool read_descriptor(reader from, weir_envoy_request *request, weir_message *why) {
  field read;
  field inner;
  size_t index = request->count;
  if (index == WEIR_ENVOY_DESCRIPTORS_MOST)
    return refuse(why, "descriptors: 1 to %d are accepted", WEIR_ENVOY_DESCRIPTORS_MOST);
  weir_envoy_descriptor *descriptor = &request->descriptors[request->count++];
  *descriptor =
      (weir_envoy_descriptor){.entries = &request->entries[request->entry_count], .hits = -1};
  while (next_field(&from, &read)) {
    bool good = true;
    if (is(&read, 1, BYTES)) good = read_entry(read.bytes, request, descriptor, index, why);
    if (is(&read, 2, BYTES)) { /* a limit */
      descriptor->has_limit = true;
      while (next_field(&read.bytes, &inner)) {
        if (is(&inner, 1, VARINT)) descriptor->requests = (int64_t)(inner.value & UINT32_MAX);
        if (is(&inner, 2, VARINT))
          descriptor->unit = inner.value <= WEIR_CONFIG_YEAR ? (weir_config_unit)inner.value
                                                             : WEIR_CONFIG_UNIT_UNKNOWN;
      }
      good = end(&read.bytes, why);
    }
    if (is(&read, 3,
           BYTES)) { /* google.protobuf.UInt64Value; too much is a little more than any limit */
      if (descriptor->hits < 0) descriptor->hits = 0;
      while (next_field(&read.bytes, &inner))
        if (is(&inner, 1, VARINT))
          descriptor->hits =
              inner.value < WEIR_ORDER_COST_MOST ? (int64_t)inner.value : WEIR_ORDER_COST_MOST;
      good = end(&read.bytes, why);
    }
    if (is(&read, 4, VARINT)) descriptor->gives_back = read.value != 0;
    if (!good) return false;
  }
  if (!end(&from, why)) return false;
  if (!descriptor->has_limit) return true;
  if (descriptor->requests > WEIR_CONFIG_REQUESTS_MOST)
    descriptor->requests = WEIR_CONFIG_REQUESTS_MOST;
  return descriptor->unit != WEIR_CONFIG_UNIT_UNKNOWN ||
         refuse(why,
                "descriptors[%zu].limit.unit: SECOND, MINUTE, HOUR, DAY, MONTH and YEAR are "
                "accepted",
                index);
}

bool weir_grpc_read_request(const char *bytes, size_t length, weir_envoy_request *request,
                            weir_message *why) {
  reader from = {bytes, bytes + length, false};
  field read;
  int64_t hits = 0;
  request->domain = "";
  request->domain_length = request->count = request->entry_count = 0;
  while (next_field(&from, &read)) {
    if (is(&read, 1, BYTES)) set_text(&read, &request->domain, &request->domain_length);
    if (is(&read, 2, BYTES) && !read_descriptor(read.bytes, request, why)) return false;
    if (is(&read, 3, VARINT)) hits = (int64_t)(read.value & UINT32_MAX);
  }
  if (!end(&from, why)) return false;
  if (request->domain_length == 0) return refuse(why, "domain is missing");
  if (request->count == 0)
    return refuse(why, "descriptors: 1 to %d are accepted", WEIR_ENVOY_DESCRIPTORS_MOST);
  if (hits == 0) hits = 1;
  if (hits > WEIR_ORDER_COST_MOST) hits = WEIR_ORDER_COST_MOST;
  for (size_t i = 0; i < request->count; i++)
    if (request->descriptors[i].hits < 0) request->descriptors[i].hits = hits;
  return true;
}

bool weir_grpc_read_health(const char *bytes, size_t length, const char **service,
                           size_t *service_length, weir_message *why) {
  reader from = {bytes, bytes + length, false};
  field read;
  *service = "";
  *service_length = 0;
  while (next_field(&from, &read))
    if (is(&read, 1, BYTES)) set_text(&read, service, service_length);
  return end(&from, why);
}

/* --- writing ------------------------------------------------------------------------------------
 *
 * Members that are 0 or empty are not written, as in proto3. The length of a message stands before
 * it, so it is reckoned first. */

enum { CODE_OK = 1, CODE_OVER_LIMIT = 2 };

static size_t varint_size(uint64_t value) {
  size_t size = 1;
  while ((value >>= 7) > 0)
    size++;
  return size;
}

static void write_varint(uint64_t value, weir_bytes *out) {
  char bytes[VARINT_BYTES];
  size_t length = 0;
  for (; value >= 0x80; value >>= 7)
    bytes[length++] = (char)(value | 0x80);
  bytes[length++] = (char)value;
  weir_bytes_add(out, bytes, length);
}

/* Fields up to number 15, so a tag is one byte. */
static size_t number_size(uint64_t value) {
  return value > 0 ? 1 + varint_size(value) : 0;
}

static size_t bytes_size(size_t length) {
  return 1 + varint_size(length) + length;
}

static void write_number(unsigned number, uint64_t value, weir_bytes *out) {
  if (value == 0) return;
  write_varint(number << 3 | VARINT, out);
  write_varint(value, out);
}

static void begin_bytes(unsigned number, size_t length, weir_bytes *out) {
  write_varint(number << 3 | BYTES, out);
  write_varint(length, out);
}

static uint64_t code_of(bool is_over) {
  return is_over ? CODE_OVER_LIMIT : CODE_OK;
}

static void write_status(const weir_envoy_status *status, weir_bytes *out) {
  uint64_t remaining = status->remaining < 0            ? 0
                       : status->remaining > UINT32_MAX ? UINT32_MAX
                                                        : (uint64_t)status->remaining;
  /* Whole seconds, rounded up, as POST /json says them. */
  bool has_reset = status->reset_after_us >= 0;
  uint64_t reset = has_reset ? (uint64_t)weir_seconds_up(status->reset_after_us) : 0;
  size_t name = status->name != NULL ? strlen(status->name) : 0;
  size_t limit = number_size((uint64_t)status->requests) + number_size(status->unit) +
                 (name > 0 ? bytes_size(name) : 0);
  size_t all = number_size(code_of(status->is_over)) + (status->has_limit ? bytes_size(limit) : 0) +
               number_size(remaining) + (has_reset ? bytes_size(number_size(reset)) : 0);

  begin_bytes(2, all, out);
  write_number(1, code_of(status->is_over), out);
  if (status->has_limit) {
    begin_bytes(2, limit, out);
    write_number(1, (uint64_t)status->requests, out);
    write_number(2, status->unit, out);
    if (name > 0) begin_bytes(3, name, out);
    weir_bytes_add(out, status->name, name);
  }
  write_number(3, remaining, out);
  if (!has_reset) return;
  begin_bytes(4, number_size(reset), out);
  write_number(1, reset, out);
}

void weir_grpc_write_answer(const weir_envoy_answer *answer, weir_bytes *out) {
  write_number(1, code_of(answer->is_over), out);
  for (size_t i = 0; i < answer->count; i++)
    write_status(&answer->statuses[i], out);
  for (size_t i = 0; i < answer->field_count; i++) { /* envoy.config.core.v3.HeaderValue */
    const weir_http_field *added = &answer->fields[i];
    size_t name = strlen(added->name);
    size_t value = strlen(added->value);
    begin_bytes(3, bytes_size(name) + bytes_size(value), out);
    begin_bytes(1, name, out);
    weir_bytes_add(out, added->name, name);
    begin_bytes(2, value, out);
    weir_bytes_add(out, added->value, value);
  }
}

void weir_grpc_write_health(weir_grpc_health health, weir_bytes *out) {
  write_number(1, health, out);
}
