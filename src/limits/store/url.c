#include "store/url.h"

#include <stdlib.h>
#include <string.h>

#include <weir/word.h>

enum { SCHEME_SHOWN_MOST = 20 };

bool weir_url_cut(weir_url_piece *rest, char separator, weir_url_piece *prefix) {
  const char *end = memchr(rest->text, separator, rest->length);
  *prefix = *rest;
  if (end == NULL) {
    *rest = (weir_url_piece){rest->text + rest->length, 0};
    return false;
  }
  prefix->length = (size_t)(end - rest->text);
  *rest = (weir_url_piece){end + 1, rest->length - prefix->length - 1};
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The byte that the escape at `at` stands for; 0 where it stands for none that is accepted. */
static int escaped_byte(weir_url_piece piece, size_t at) {
  if (piece.length - at < 3) return 0;
  int high = hex_digit(piece.text[at + 1]);
  int low = hex_digit(piece.text[at + 2]);
  return high < 0 || low < 0 ? 0 : high * 16 + low;
}

weir_status weir_url_decode(weir_url_reader *reader, weir_url_piece piece, const char *part,
                            const char **text) {
  *text = NULL;
  if (piece.length == 0) return WEIR_OK;
  char *to = reader->free;
  for (size_t at = 0; at < piece.length; at++) {
    if (piece.text[at] != '%') {
      *to++ = piece.text[at];
      continue;
    }
    int byte = escaped_byte(piece, at);
    if (byte == 0) {
      weir_message_set(
          reader->message,
          "bad percent escape in %s: accepted are %% and two hexadecimal digits, not %%00", part);
      return WEIR_BAD_URL;
    }
    *to++ = (char)byte;
    at += 2;
  }
  *to++ = '\0';
  *text = reader->free;
  reader->free = to;
  return WEIR_OK;
}

static weir_status read_path(weir_url_reader *reader, weir_url_piece path) {
  unsigned parts = reader->scheme->parts;
  bool given = path.length > 1; /* a slash alone is no path */
  bool known = (parts & WEIR_URL_PATH) != 0;
  bool needed = known && (parts & (WEIR_URL_HOST | WEIR_URL_HOSTS)) == 0;
  if (given && known) return weir_url_decode(reader, path, "the path", &reader->parsed->url.path);
  if (!given && !needed) return WEIR_OK;
  if (needed)
    weir_message_set(reader->message, "the path is missing: write %s:///path",
                     reader->scheme->name);
  else
    weir_message_set(reader->message, "%s takes no path", reader->scheme->name);
  return WEIR_BAD_URL;
}

/* Everything after the scheme's colon. */
static weir_status read_rest(weir_url_reader *reader, weir_url_piece rest) {
  weir_url_piece body;
  weir_url_cut(&rest, '?', &body);
  weir_url_piece authority = {body.text, 0};
  if (body.length >= 2 && memcmp(body.text, "//", 2) == 0) {
    weir_url_piece path = {body.text + 2, body.length - 2};
    weir_url_cut(&path, '/', &authority);
    authority.text = body.text + 2;
    body.length -= 2 + authority.length;
    body.text = authority.text + authority.length;
  } else if (body.length > 0 && body.text[0] != '/') {
    weir_message_set(reader->message, "after \"%s:\" neither // nor a path nor ? follows",
                     reader->scheme->name);
    return WEIR_BAD_URL;
  }
  weir_status status = weir_url_read_authority(reader, authority);
  if (status == WEIR_OK) status = read_path(reader, body);
  if (status == WEIR_OK) status = weir_url_read_options(reader, rest);
  return status;
}

/* In "user:password@host", and in a password alone, a credential stands in the scheme's place. Not
 * in "memroy:" and "redsi://". */
static bool is_shown_scheme(weir_url_piece name) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+.-";
  const char *rest = name.text + name.length;
  return name.length <= SCHEME_SHOWN_MOST && strspn(name.text, accepted) == name.length &&
         (strncmp(rest, "://", 3) == 0 || strcmp(rest, ":") == 0);
}

static weir_status find_scheme(weir_url_reader *reader, weir_url_piece name,
                               const weir_backend *const *backends) {
  char list[WEIR_URL_LIST_BYTES] = "";
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (; *backends != NULL; backends++) {
    for (const weir_scheme *scheme = (*backends)->schemes; scheme->name != NULL; scheme++) {
      if (strlen(scheme->name) == name.length &&
          memcmp(scheme->name, name.text, name.length) == 0) {
        reader->scheme = scheme;
        reader->parsed->backend = *backends;
        reader->parsed->url.scheme = scheme->name;
        return WEIR_OK;
      }
      weir_word_list(list, sizeof list, scheme->name, false);
      if (weir_word_nearer(name.text, name.length, scheme->name, &distance)) nearest = scheme->name;
    }
  }
  if (is_shown_scheme(name))
    weir_message_set(reader->message, "unknown scheme \"%.*s\": accepted are %s%s%s",
                     (int)name.length, name.text, list, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  else
    weir_message_set(reader->message, "no scheme that is known: accepted are %s", list);
  return WEIR_BAD_URL;
}

static weir_status check_bytes(const char *text, weir_message *message) {
  for (size_t at = 0; text[at] != '\0'; at++) {
    if (at == WEIR_URL_BYTES_MOST) {
      weir_message_set(message, "longer than %d bytes", WEIR_URL_BYTES_MOST);
      return WEIR_BAD_URL;
    }
    if (text[at] <= ' ' || text[at] >= 0x7f) {
      weir_message_set(message,
                       "byte 0x%02x at offset %zu: accepted are printable ASCII and %%XX escapes",
                       (unsigned char)text[at], at);
      return WEIR_BAD_URL;
    }
  }
  return WEIR_OK;
}

/* `rest` follows the scheme's colon. */
static weir_status check_credentials(const char *rest, weir_message *message) {
  const char *last = strrchr(rest, '@');
  if (last == NULL) return WEIR_OK;
  bool has_authority = strncmp(rest, "//", 2) == 0;
  if (has_authority && last < rest + 2 + strcspn(rest + 2, "/?")) return WEIR_OK;
  weir_message_set(message,
                   "a '@' after the hosts: write it as %%40; in a user or password, write / and ? "
                   "as %%2F and %%3F");
  return WEIR_BAD_URL;
}

static size_t count_byte(const char *text, char byte) {
  size_t count = 0;
  for (; *text != '\0'; text++)
    count += *text == byte;
  return count;
}

/* One block: hosts, options, then decoded text. Every decoded piece is at least one byte long and
 * gets one more for its NUL, so twice the URL holds them all. */
static bool make_room(weir_url_reader *reader, const char *text) {
  size_t hosts = 1 + count_byte(text, ',');
  size_t options = 1 + count_byte(text, '&');
  size_t size =
      hosts * sizeof(weir_url_host) + options * sizeof(weir_url_option) + 2 * strlen(text);
  reader->parsed->memory = malloc(size);
  if (reader->parsed->memory == NULL) return false;
  reader->options = reader->parsed->memory;
  reader->hosts = (weir_url_host *)(void *)(reader->options + options);
  reader->free = (char *)(reader->hosts + hosts);
  reader->parsed->url.options = reader->options;
  reader->parsed->url.hosts = reader->hosts;
  return true;
}

static weir_status read_url(weir_url_reader *reader, const char *text,
                            const weir_backend *const *backends) {
  if (text == NULL) {
    weir_message_set(reader->message, "none given");
    return WEIR_BAD_URL;
  }
  weir_status status = check_bytes(text, reader->message);
  if (status != WEIR_OK) return status;
  weir_url_piece rest = {text, strlen(text)};
  weir_url_piece name;
  bool colon = weir_url_cut(&rest, ':', &name);
  status = find_scheme(reader, name, backends);
  if (status != WEIR_OK) return status;
  if (!colon) {
    weir_message_set(reader->message, "no ':' after \"%s\"", reader->scheme->name);
    return WEIR_BAD_URL;
  }
  status = check_credentials(rest.text, reader->message);
  if (status != WEIR_OK) return status;
  if (!make_room(reader, text)) return WEIR_NO_MEMORY;
  return read_rest(reader, rest);
}

weir_status weir_url_parse(const char *text, const weir_backend *const *backends,
                           weir_parsed_url *parsed, weir_message *message) {
  *parsed = (weir_parsed_url){0};
  weir_url_reader reader = {.parsed = parsed, .message = message};
  weir_status status = read_url(&reader, text, backends);
  if (status == WEIR_BAD_URL) weir_message_prefix(message, "store URL: ");
  if (status != WEIR_OK) weir_url_clear(parsed);
  return status;
}

void weir_url_clear(weir_parsed_url *parsed) {
  free(parsed->memory);
  *parsed = (weir_parsed_url){0};
}
