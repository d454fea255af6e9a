#include "wire/addresses.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

weir_status weir_addresses_of_path(const char *path, weir_addresses *addresses,
                                   weir_message *message) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  *addresses = (weir_addresses){0};
  if (length >= sizeof address.sun_path) {
    weir_message_set(message, "socket path \"%s\" is longer than %zu bytes", path,
                     sizeof address.sun_path - 1);
    return WEIR_BAD_URL;
  }
  addresses->list = calloc(1, sizeof *addresses->list);
  if (addresses->list == NULL) return WEIR_NO_MEMORY;
  memcpy(address.sun_path, path, length + 1);
  memcpy(&addresses->list[0].bytes, &address, sizeof address);
  addresses->list[0].length = sizeof address;
  addresses->count = 1;
  return WEIR_OK;
}

/* What an address is sorted by, as bytes that memcmp puts into the order of the header. */
typedef struct address_key {
  unsigned char bytes[32];
} address_key;

static address_key key_of(const weir_address *address) {
  address_key key = {{0}};
  const void *bytes = &address->bytes;
  if (address->bytes.ss_family == AF_INET) {
    const struct sockaddr_in *v4 = bytes;
    memcpy(key.bytes + 1, &v4->sin_addr, sizeof v4->sin_addr);
    memcpy(key.bytes + 17, &v4->sin_port, sizeof v4->sin_port);
  } else if (address->bytes.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = bytes;
    key.bytes[0] = 1;
    memcpy(key.bytes + 1, &v6->sin6_addr, sizeof v6->sin6_addr);
    memcpy(key.bytes + 17, &v6->sin6_port, sizeof v6->sin6_port);
    memcpy(key.bytes + 19, &v6->sin6_scope_id, sizeof v6->sin6_scope_id);
  }
  return key;
}

static int compare(const void *one, const void *other) {
  address_key one_key = key_of(one);
  address_key other_key = key_of(other);
  return memcmp(one_key.bytes, other_key.bytes, sizeof one_key.bytes);
}

bool weir_addresses_sort(const struct addrinfo *found, weir_addresses *addresses) {
  size_t count = 0;
  *addresses = (weir_addresses){0};
  for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
    count++;
  addresses->list = calloc(count + 1, sizeof *addresses->list);
  if (addresses->list == NULL) return false;
  weir_address *list = addresses->list;
  for (size_t i = 0; i < count; i++, found = found->ai_next) {
    memcpy(&list[i].bytes, found->ai_addr, found->ai_addrlen);
    list[i].length = found->ai_addrlen;
  }
  qsort(list, count, sizeof *list, compare);
  for (size_t i = 0; i < count; i++) {
    size_t kept = addresses->count;
    if (kept == 0 || compare(&list[kept - 1], &list[i]) != 0) list[addresses->count++] = list[i];
  }
  return true;
}

bool weir_addresses_equal(const weir_addresses *one, const weir_addresses *other) {
  if (one->count != other->count) return false;
  for (size_t i = 0; i < one->count; i++)
    if (compare(&one->list[i], &other->list[i]) != 0) return false;
  return true;
}

size_t weir_addresses_find(const weir_addresses *addresses, const weir_address *address) {
  size_t at = 0;
  while (at < addresses->count && compare(&addresses->list[at], address) != 0)
    at++;
  return at;
}

size_t weir_addresses_alike(const weir_addresses *addresses) {
  size_t v6 = 0;
  for (size_t i = 0; i < addresses->count; i++)
    v6 += addresses->list[i].bytes.ss_family == AF_INET6;
  return v6 > addresses->count - v6 ? v6 : addresses->count - v6;
}

void weir_addresses_free(weir_addresses *addresses) {
  free(addresses->list);
  *addresses = (weir_addresses){0};
}
