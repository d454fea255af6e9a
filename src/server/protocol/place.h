/* What a place is called that the server holds for a client: "5f3a9c20-17-8be01f44". The server that
 * gave it, which of its places it is, and a number that no other client can guess. */
#ifndef WEIR_PROTOCOL_PLACE_H
#define WEIR_PROTOCOL_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_PLACE_NAME_BYTES = 40 }; /* of its text, with the end */

typedef struct weir_place_name {
  bool is_none; /* "-": nothing is held, as the key is in a list or the limiter in shadow mode */
  uint32_t server;
  uint64_t number;
  uint32_t secret;
} weir_place_name;

/* The text's length. */
size_t weir_place_name_write(const weir_place_name *name, char text[WEIR_PLACE_NAME_BYTES]);

/* False: it is no text that weir_place_name_write() writes. */
bool weir_place_name_read(const char *text, size_t length, weir_place_name *name);

#endif
