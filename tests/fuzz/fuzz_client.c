/* Any peer and X-Forwarded-For: a key names an address as its own key does, and where the peer is
 * not trusted, the field changes nothing. */
#include <stdlib.h>
#include <string.h>

#include <weir/http.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { TEXT_MOST = 512 };

/* The text up to the first newline, and what is behind it. */
static void split(const unsigned char *data, size_t size, char peer[TEXT_MOST],
                  char field[TEXT_MOST]) {
  const unsigned char *newline = memchr(data, '\n', size);
  size_t first = newline != NULL ? (size_t)(newline - data) : size;
  size_t rest = newline != NULL ? size - first - 1 : 0;
  memcpy(peer, data, first);
  peer[first] = '\0';
  if (rest > 0) memcpy(field, newline + 1, rest);
  field[rest] = '\0';
}

static weir_status key_of(const weir_http_networks *trusted, const char *peer, const char *field,
                          char key[WEIR_HTTP_CLIENT_KEY_BYTES]) {
  return weir_http_client_key(trusted, peer, field, 0, 0, key, NULL);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static weir_http_networks *all;
  static weir_http_networks *none;
  char peer[TEXT_MOST];
  char field[TEXT_MOST];
  char key[WEIR_HTTP_CLIENT_KEY_BYTES];
  char other[WEIR_HTTP_CLIENT_KEY_BYTES];
  weir_http_networks *read;
  if (size >= TEXT_MOST) return 0;
  if (all == NULL && weir_http_networks_create("::/0, 0.0.0.0/0", &all, NULL) != WEIR_OK) abort();
  if (none == NULL && weir_http_networks_create("", &none, NULL) != WEIR_OK) abort();
  split(data, size, peer, field);
  weir_status status = key_of(none, peer, field, key);
  if (key_of(NULL, peer, NULL, other) != status || strcmp(key, other) != 0) abort();
  if (key_of(all, peer, field, key) != status || (key[0] != '\0') != (status == WEIR_OK)) abort();
  if (status == WEIR_OK && weir_http_networks_create(key, &read, NULL) != WEIR_OK) abort();
  if (status == WEIR_OK) weir_http_networks_destroy(read);
  if (weir_http_networks_create(field, &read, NULL) == WEIR_OK) weir_http_networks_destroy(read);
  return 0;
}
