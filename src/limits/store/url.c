/* A URL is read from left to right: its scheme, which says what else it may have; the authority,
 * with user, password and hosts; the path; the names of its options. Values of options are read
 * when a backend asks for them.
 *
 *  * None of the authority is quoted in a message: in a URL that lacks its '@', or has it in an
 * odd place, any part may be of the password. */
#include "store/url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/duration.h>
#include <weir/word.h>

#include "number.h"

enum {
  SCHEME_SHOWN_MOST = 20,
  NAME_SHOWN_MOST = 32, /* of an option */
  LIST_BYTES = 256      /* for the names of all schemes, or of all options of one */
};

static const char *const common_options[] = {"namespace", "timeout", NULL};

typedef struct piece {
  const char *text;
  size_t length;
} piece;

typedef struct reader {
  weir_parsed_url *parsed;
  const weir_scheme *scheme;
  weir_url_host *hosts;
  weir_url_option *options;
  char *free; /* room for decoded text */
  weir_message *message;
} reader;

/* --- pieces -------------------------------------------------------------------------------------
 */

/* Cuts what stands before `separator` off the front of *rest, and the separator; false where there
 * is none, and then all of *rest goes to *prefix. */
static bool cut(piece *rest, char separator, piece *prefix) {
  const char *end = memchr(rest->text, separator, rest->length);
  *prefix = *rest;
  if (end == NULL) {
    *rest = (piece){rest->text + rest->length, 0};
    return false;
  }
  prefix->length = (size_t)(end - rest->text);
  *rest = (piece){end + 1, rest->length - prefix->length - 1};
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* *text is the piece percent-decoded, NULL for an empty one. `part` names it in a message. */
static weir_status decode(reader *self, piece escaped, const char *part, const char **text) {
  *text = NULL;
  if (escaped.length == 0) return WEIR_OK;
  char *to = self->free;
  for (size_t at = 0; at < escaped.length; at++) {
    if (escaped.text[at] != '%') {
      *to++ = escaped.text[at];
      continue;
    }
    bool whole = escaped.length - at >= 3;
    int high = whole ? hex_digit(escaped.text[at + 1]) : -1;
    int low = whole ? hex_digit(escaped.text[at + 2]) : -1;
    if (high < 0 || low < 0 || (high | low) == 0) {
      weir_message_set(
          self->message,
          "bad percent escape in %s: accepted are %% and two hexadecimal digits, not %%00", part);
      return WEIR_BAD_URL;
    }
    *to++ = (char)(high * 16 + low);
    at += 2;
  }
  *to++ = '\0';
  *text = self->free;
  self->free = to;
  return WEIR_OK;
}

/* --- the authority ------------------------------------------------------------------------------
 */

static weir_status read_number(const reader *self, piece digits, const char *part, int64_t most,
                               uint32_t *value) {
  int64_t number;
  if (weir_number_read(digits.text, digits.length, most, &number) && number >= 1) {
    *value = (uint32_t)number;
    return WEIR_OK;
  }
  weir_message_set(self->message, "the %s is not a number from 1 to %" PRId64, part, most);
  return WEIR_BAD_URL;
}

static bool is_host_name(const char *name) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  size_t length = strlen(name);
  return length > 0 && length <= WEIR_URL_HOST_NAME_MOST && strspn(name, accepted) == length;
}

/* A zone may follow, which is the name of an interface: fe80::1%eth0 */
static bool is_ipv6(const char *name) {
  char address[INET6_ADDRSTRLEN];
  struct in6_addr parsed;
  size_t length = strcspn(name, "%");
  if (length >= sizeof address || (name[length] == '%' && !is_host_name(name + length + 1)))
    return false;
  memcpy(address, name, length);
  address[length] = '\0';
  return inet_pton(AF_INET6, address, &parsed) == 1;
}

static weir_status read_name(reader *self, piece text, bool bracketed, weir_url_host *host) {
  weir_status status = decode(self, text, "the host", &host->name);
  if (status != WEIR_OK) return status;
  if (host->name == NULL) {
    weir_message_set(self->message,
                     "the host is missing: accepted are a name, 192.0.2.1 and [::1]");
    return WEIR_BAD_URL;
  }
  if (bracketed ? is_ipv6(host->name) : is_host_name(host->name)) return WEIR_OK;
  if (bracketed)
    weir_message_set(self->message, "what stands in brackets is not an IPv6 address");
  else
    weir_message_set(self->message,
                     "the host is no name: accepted are A-Z a-z 0-9 . - _, at most %d bytes",
                     WEIR_URL_HOST_NAME_MOST);
  return WEIR_BAD_URL;
}

/* ":port[:weight]" or nothing. */
static weir_status read_port(reader *self, piece rest, weir_url_host *host) {
  piece port;
  uint32_t number;
  if (rest.length == 0) return WEIR_OK;
  rest = (piece){rest.text + 1, rest.length - 1};
  bool has_weight = cut(&rest, ':', &port);
  weir_status status = read_number(self, port, "port", UINT16_MAX, &number);
  if (status != WEIR_OK) return status;
  host->port = (uint16_t)number;
  if (!has_weight) return WEIR_OK;
  if (self->scheme->parts & WEIR_URL_HOSTS)
    return read_number(self, rest, "weight", WEIR_URL_WEIGHT_MOST, &host->weight);
  weir_message_set(self->message, "%s takes no weight after the port", self->scheme->name);
  return WEIR_BAD_URL;
}

/* "name:port:weight" or "[address]:port:weight". More colons than these, or two in a row, are an
 * IPv6 address without its brackets. */
static weir_status read_host(reader *self, piece text, weir_url_host *host) {
  piece name = text, rest;
  bool bracketed = text.length > 0 && text.text[0] == '[';
  *host = (weir_url_host){.weight = 1};
  if (bracketed) {
    rest = (piece){text.text + 1, text.length - 1};
    if (!cut(&rest, ']', &name) || (rest.length > 0 && rest.text[0] != ':')) {
      weir_message_set(self->message, "an IPv6 address must end in ']', then :port or nothing");
      return WEIR_BAD_URL;
    }
  } else {
    size_t colons = 0;
    bool doubled = false;
    for (size_t i = text.length; i-- > 0;) {
      if (text.text[i] != ':') continue;
      doubled = doubled || (i > 0 && text.text[i - 1] == ':');
      colons++;
      name.length = i;
    }
    rest = (piece){text.text + name.length, text.length - name.length};
    if (colons > 2 || doubled) {
      weir_message_set(self->message,
                       "too many colons: an IPv6 address stands in brackets, as [::1]");
      return WEIR_BAD_URL;
    }
  }
  weir_status status = read_name(self, name, bracketed, host);
  return status == WEIR_OK ? read_port(self, rest, host) : status;
}

static weir_status read_hosts(reader *self, piece rest) {
  size_t *count = &self->parsed->url.host_count;
  bool many = (self->scheme->parts & WEIR_URL_HOSTS) != 0;
  for (bool more = true; more; (*count)++) {
    piece text;
    more = cut(&rest, ',', &text);
    if (more && !many) {
      weir_message_set(self->message, "%s takes one host", self->scheme->name);
      return WEIR_BAD_URL;
    }
    weir_status status = read_host(self, text, &self->hosts[*count]);
    if (status == WEIR_OK) continue;
    if (many) weir_message_prefix(self->message, "host %zu of the list: ", *count + 1);
    return status;
  }
  return WEIR_OK;
}

/* The text between "//" and the path or the options; empty where there is no "//". Before the last
 * '@' stands "user[:password]". */
static weir_status read_authority(reader *self, piece authority) {
  weir_url *url = &self->parsed->url;
  piece hosts = authority, user, password;
  while (memchr(hosts.text, '@', hosts.length) != NULL)
    cut(&hosts, '@', &user);
  if (hosts.text != authority.text) {
    if (!(self->scheme->parts & WEIR_URL_USER)) {
      weir_message_set(self->message, "%s takes no user and no password", self->scheme->name);
      return WEIR_BAD_URL;
    }
    password = (piece){authority.text, (size_t)(hosts.text - authority.text) - 1};
    cut(&password, ':', &user);
    weir_status status = decode(self, user, "the user", &url->user);
    if (status == WEIR_OK) status = decode(self, password, "the password", &url->password);
    if (status != WEIR_OK) return status;
  }
  if (self->scheme->parts & (WEIR_URL_HOST | WEIR_URL_HOSTS)) return read_hosts(self, hosts);
  if (hosts.length == 0) return WEIR_OK;
  weir_message_set(self->message, "%s takes no host", self->scheme->name);
  return WEIR_BAD_URL;
}

/* --- options ------------------------------------------------------------------------------------
 */

static bool is_listed(const char *const *words, const char *name) {
  for (; *words != NULL; words++) {
    if (strcmp(*words, name) == 0) return true;
  }
  return false;
}

/* A name that no backend has is quoted, "timeot" of "?timeot=1s"; but not what follows the '?' in a
 * password. */
static weir_status check_name(reader *self, const char *name, bool has_value) {
  const weir_parsed_url *parsed = self->parsed;
  if (weir_url_find(&parsed->url, name) != NULL) {
    weir_message_set(self->message, "option %s is given twice", name);
    return WEIR_BAD_URL;
  }
  if (is_listed(common_options, name) || is_listed(parsed->backend->options, name)) return WEIR_OK;

  char list[LIST_BYTES] = "";
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  const char *const *const sources[] = {common_options, parsed->backend->options};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    for (const char *const *word = sources[i]; *word != NULL; word++) {
      weir_word_list(list, sizeof list, *word, false);
      if (weir_word_nearer(name, strlen(name), *word, &distance)) nearest = *word;
    }
  }
  bool shown = has_value && strlen(name) <= NAME_SHOWN_MOST &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz-_") == strlen(name);
  if (!shown) nearest = NULL;
  weir_message_set(self->message, "unknown option%s%s%s: %s accepts %s%s%s", shown ? " \"" : "",
                   shown ? name : "", shown ? "\"" : "", self->scheme->name, list,
                   nearest != NULL ? "; the nearest is " : "", nearest != NULL ? nearest : "");
  return WEIR_BAD_URL;
}

static weir_status read_option(reader *self, piece text) {
  weir_url *url = &self->parsed->url;
  weir_url_option *option = &self->options[url->option_count];
  piece value = text;
  piece name;
  bool has_value = cut(&value, '=', &name);
  weir_status status = decode(self, name, "the name of an option", &option->name);
  if (status != WEIR_OK) return status;
  if (option->name == NULL) {
    weir_message_set(self->message, "an option has no name: write ?name=value&name=value");
    return WEIR_BAD_URL;
  }
  status = check_name(self, option->name, has_value);
  if (status != WEIR_OK) return status;
  status = decode(self, value, "the value of an option", &option->value);
  if (status == WEIR_OK && option->value == NULL) {
    weir_message_set(self->message, "option %s has no value: write %s=...", option->name,
                     option->name);
    return WEIR_BAD_URL;
  }
  if (status == WEIR_OK) url->option_count++;
  return status;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

static weir_status find_scheme(reader *self, piece name, const weir_backend *const *backends) {
  char list[LIST_BYTES] = "";
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (; *backends != NULL; backends++) {
    for (const weir_scheme *scheme = (*backends)->schemes; scheme->name != NULL; scheme++) {
      if (strlen(scheme->name) == name.length &&
          memcmp(scheme->name, name.text, name.length) == 0) {
        self->scheme = scheme;
        self->parsed->backend = *backends;
        self->parsed->url.scheme = scheme->name;
        return WEIR_OK;
      }
      weir_word_list(list, sizeof list, scheme->name, false);
      if (weir_word_nearer(name.text, name.length, scheme->name, &distance)) nearest = scheme->name;
    }
  }

  /* In "user:password@host", and in a password alone, a credential stands in the scheme's place.
   * Not in "memroy:" and "redsi://". */
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+.-";
  const char *rest = name.text + name.length;
  bool shown = name.length <= SCHEME_SHOWN_MOST && strspn(name.text, accepted) == name.length &&
               (strncmp(rest, "://", 3) == 0 || strcmp(rest, ":") == 0);
  if (shown)
    weir_message_set(self->message, "unknown scheme \"%.*s\": accepted are %s%s%s",
                     (int)name.length, name.text, list, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  else
    weir_message_set(self->message, "no scheme that is known: accepted are %s", list);
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
static bool make_room(reader *self, const char *text) {
  size_t hosts = 1 + count_byte(text, ',');
  size_t options = 1 + count_byte(text, '&');
  size_t size =
      hosts * sizeof(weir_url_host) + options * sizeof(weir_url_option) + 2 * strlen(text);
  self->parsed->memory = malloc(size);
  if (self->parsed->memory == NULL) return false;
  self->options = self->parsed->memory;
  self->hosts = (weir_url_host *)(void *)(self->options + options);
  self->free = (char *)(self->hosts + hosts);
  self->parsed->url.options = self->options;
  self->parsed->url.hosts = self->hosts;
  return true;
}

static weir_status read_path(reader *self, piece path) {
  unsigned parts = self->scheme->parts;
  bool given = path.length > 1; /* a slash alone is no path */
  bool known = (parts & WEIR_URL_PATH) != 0;
  bool needed = known && (parts & (WEIR_URL_HOST | WEIR_URL_HOSTS)) == 0;
  if (given && known) return decode(self, path, "the path", &self->parsed->url.path);
  if (!given && !needed) return WEIR_OK;
  if (needed)
    weir_message_set(self->message, "the path is missing: write %s:///path", self->scheme->name);
  else
    weir_message_set(self->message, "%s takes no path", self->scheme->name);
  return WEIR_BAD_URL;
}

/* Everything after the scheme's colon. */
static weir_status read_rest(reader *self, piece rest) {
  piece body;
  cut(&rest, '?', &body);
  piece authority = {body.text, 0};
  if (body.length >= 2 && memcmp(body.text, "//", 2) == 0) {
    piece path = {body.text + 2, body.length - 2};
    cut(&path, '/', &authority);
    authority.text = body.text + 2;
    body.length -= 2 + authority.length;
    body.text = authority.text + authority.length;
  } else if (body.length > 0 && body.text[0] != '/') {
    weir_message_set(self->message, "after \"%s:\" neither // nor a path nor ? follows",
                     self->scheme->name);
    return WEIR_BAD_URL;
  }
  weir_status status = read_authority(self, authority);
  if (status == WEIR_OK) status = read_path(self, body);
  for (bool more = rest.length > 0; more && status == WEIR_OK;) {
    piece option;
    more = cut(&rest, '&', &option);
    status = read_option(self, option);
  }
  return status;
}

static weir_status read_url(reader *self, const char *text, const weir_backend *const *backends) {
  if (text == NULL) {
    weir_message_set(self->message, "none given");
    return WEIR_BAD_URL;
  }
  for (size_t at = 0; text[at] != '\0'; at++) {
    if (at == WEIR_URL_BYTES_MOST) {
      weir_message_set(self->message, "longer than %d bytes", WEIR_URL_BYTES_MOST);
      return WEIR_BAD_URL;
    }
    if (text[at] <= ' ' || text[at] >= 0x7f) {
      weir_message_set(self->message,
                       "byte 0x%02x at offset %zu: accepted are printable ASCII and %%XX escapes",
                       (unsigned char)text[at], at);
      return WEIR_BAD_URL;
    }
  }

  piece rest = {text, strlen(text)}, name;
  bool colon = cut(&rest, ':', &name);
  weir_status status = find_scheme(self, name, backends);
  if (status != WEIR_OK) return status;
  if (!colon) {
    weir_message_set(self->message, "no ':' after \"%s\"", self->scheme->name);
    return WEIR_BAD_URL;
  }

  const char *last = strrchr(rest.text, '@');
  bool has_authority = strncmp(rest.text, "//", 2) == 0;
  if (last != NULL && !(has_authority && last < rest.text + 2 + strcspn(rest.text + 2, "/?"))) {
    weir_message_set(self->message,
                     "a '@' after the hosts: write it as %%40; in a user or password, write / and "
                     "? as %%2F and %%3F");
    return WEIR_BAD_URL;
  }
  return make_room(self, text) ? read_rest(self, rest) : WEIR_NO_MEMORY;
}

weir_status weir_url_parse(const char *text, const weir_backend *const *backends,
                           weir_parsed_url *parsed, weir_message *message) {
  *parsed = (weir_parsed_url){0};
  reader self = {.parsed = parsed, .message = message};
  weir_status status = read_url(&self, text, backends);
  if (status == WEIR_BAD_URL) weir_message_prefix(message, "store URL: ");
  if (status != WEIR_OK) weir_url_clear(parsed);
  return status;
}

void weir_url_clear(weir_parsed_url *parsed) {
  free(parsed->memory);
  *parsed = (weir_parsed_url){0};
}

/* --- values of options --------------------------------------------------------------------------
 */

const char *weir_url_find(const weir_url *url, const char *name) {
  for (size_t i = 0; i < url->option_count; i++) {
    if (strcmp(url->options[i].name, name) == 0) return url->options[i].value;
  }
  return NULL;
}

static bool starts_with_digit(const char *text) {
  return *text >= '0' && *text <= '9';
}

weir_status weir_url_duration(const weir_url *url, const char *name, int64_t least_us,
                              int64_t most_us, int64_t otherwise_us, int64_t *us,
                              weir_message *message) {
  const char *text = weir_url_find(url, name);
  int64_t found = otherwise_us;
  /* A rule may say "5/s"; "timeout=s" is a slip. */
  if (text == NULL || (starts_with_digit(text) && weir_duration_parse(text, strlen(text), &found) &&
                       found >= least_us && found <= most_us)) {
    *us = found;
    return WEIR_OK;
  }
  char least[WEIR_DURATION_BYTES];
  char most[WEIR_DURATION_BYTES];
  weir_duration_format(least_us, least, sizeof least);
  weir_duration_format(most_us, most, sizeof most);
  weir_message_set(
      message,
      "%s=%.80s: accepted is a duration from %s to %s (a whole number and ms, s, m, h or d)", name,
      text, least, most);
  return WEIR_BAD_URL;
}

weir_status weir_url_integer(const weir_url *url, const char *name, int64_t least, int64_t most,
                             int64_t otherwise, int64_t *value, weir_message *message) {
  const char *text = weir_url_find(url, name);
  if (text == NULL) {
    *value = otherwise;
    return WEIR_OK;
  }
  char *end;
  errno = 0;
  long long found = strtoll(text, &end, 10);
  bool number = starts_with_digit(text + (*text == '-')) && *end == '\0' && errno == 0;
  if (number && found >= least && found <= most) {
    *value = found;
    return WEIR_OK;
  }
  weir_message_set(message, "%s=%.80s: accepted is a whole number from %" PRId64 " to %" PRId64,
                   name, text, least, most);
  return WEIR_BAD_URL;
}

weir_status weir_url_word(const weir_url *url, const char *name, const char *const *words,
                          size_t otherwise, size_t *index, weir_message *message) {
  const char *text = weir_url_find(url, name);
  char list[LIST_BYTES] = "";
  if (text == NULL) {
    *index = otherwise;
    return WEIR_OK;
  }
  for (size_t i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], text) == 0) {
      *index = i;
      return WEIR_OK;
    }
    weir_word_list(list, sizeof list, words[i], false);
  }
  weir_message_set(message, "%s=%.80s: accepted are %s", name, text, list);
  return WEIR_BAD_URL;
}
