/* A form that is given as a pattern: it is read once into pieces, fields and the texts between
 * them, and each line is held against these from left to right. */
#include "access_log.h"

#include <string.h>
#include <strings.h>

#include <weir/backend.h>

/* The meanings of a piece besides fields. Times are in one run: the first two have blanks in them,
 * and end by themselves. */
enum {
  TIME_BRACKETS = WEIR_ACCESS_FIELDS,
  TIME_LOCAL,
  TIME_ISO,
  TIME_SECONDS,
  REQUEST,
  URI,
  OTHER
};

typedef struct meaning {
  const char *name;
  int means;
} meaning;

static const meaning apache_letters[] = {
    {"h", WEIR_ACCESS_CLIENT},
    {"a", WEIR_ACCESS_CLIENT},
    {"u", WEIR_ACCESS_USER},
    {"t", TIME_BRACKETS},
    {"r", REQUEST},
    {"s", WEIR_ACCESS_STATUS},
    {"b", WEIR_ACCESS_BYTES},
    {"B", WEIR_ACCESS_BYTES},
    {"O", WEIR_ACCESS_BYTES},
    {"U", URI},
    {"m", WEIR_ACCESS_METHOD},
    {"v", WEIR_ACCESS_HOST},
    {"V", WEIR_ACCESS_HOST},
};
static const meaning apache_headers[] = {
    {"X-Forwarded-For", WEIR_ACCESS_FORWARDED},
    {"User-Agent", WEIR_ACCESS_AGENT},
    {"Referer", WEIR_ACCESS_REFERER},
    {"Host", WEIR_ACCESS_HOST},
};
static const meaning nginx_names[] = {
    {"remote_addr", WEIR_ACCESS_CLIENT},
    {"remote_user", WEIR_ACCESS_USER},
    {"time_local", TIME_LOCAL},
    {"time_iso8601", TIME_ISO},
    {"msec", TIME_SECONDS},
    {"request", REQUEST},
    {"request_uri", URI},
    {"uri", URI},
    {"request_method", WEIR_ACCESS_METHOD},
    {"status", WEIR_ACCESS_STATUS},
    {"body_bytes_sent", WEIR_ACCESS_BYTES},
    {"bytes_sent", WEIR_ACCESS_BYTES},
    {"host", WEIR_ACCESS_HOST},
    {"server_name", WEIR_ACCESS_HOST},
    {"http_referer", WEIR_ACCESS_REFERER},
    {"http_user_agent", WEIR_ACCESS_AGENT},
    {"http_x_forwarded_for", WEIR_ACCESS_FORWARDED},
};

static int find(const meaning *table, size_t count, const char *name, size_t length) {
  for (size_t i = 0; i < count; i++)
    if (strlen(table[i].name) == length && strncasecmp(table[i].name, name, length) == 0 &&
        (length > 1 || table[i].name[0] == name[0]))
      return table[i].means;
  return OTHER;
}

#define FIND(table, name, length) find(table, sizeof(table) / sizeof *(table), name, length)

/* --- the pattern ----------------------------------------------------------------------------- */

/* "%>s", "%{Referer}i", "%400,501{User-agent}i": conditions and modifiers change nothing here.
 * Behind it; NULL: it does not end. A time is that of the begin, save for "%{end:msec}t". */
static const char *read_apache(const char *at, int *means, bool *ends) {
  *ends = false;
  at += strspn(at, "<>!,0123456789");
  if (*at != '{') {
    *means = FIND(apache_letters, at, 1);
    return *at != '\0' ? at + 1 : NULL;
  }
  const char *name = at + 1, *end = strchr(name, '}');
  if (end == NULL || end[1] == '\0') return NULL;
  if (end[1] == 't') {
    *ends = strncmp(name, "end:", 4) == 0;
    name += *ends ? 4 : strncmp(name, "begin:", 6) == 0 ? 6 : 0;
  }
  size_t length = (size_t)(end - name);
  *means = OTHER;
  if (end[1] == 'i') *means = FIND(apache_headers, name, length);
  bool counted = (length == 3 && memcmp(name, "sec", 3) == 0) ||
                 (length == 4 && (memcmp(name, "msec", 4) == 0 || memcmp(name, "usec", 4) == 0));
  if (end[1] == 't' && counted) *means = TIME_SECONDS;
  if (end[1] == 'a') *means = WEIR_ACCESS_CLIENT;
  return end + 2;
}

/* "$request", "${request}". */
static const char *read_nginx(const char *at, int *means) {
  bool braced = *at == '{';
  const char *name = at + braced;
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (length == 0 || (braced && name[length] != '}')) return NULL;
  *means = FIND(nginx_names, name, length);
  return name + length + braced;
}

static bool may_follow(const weir_access_piece *piece, const weir_access_piece *last,
                       const weir_access_format *format, weir_message *message) {
  if (format->count == WEIR_ACCESS_PIECES_MOST) {
    weir_message_set(message, "up to %d fields and texts are accepted", WEIR_ACCESS_PIECES_MOST);
    return false;
  }
  if (!piece->is_field || last == NULL || !last->is_field) return true;
  weir_message_set(message, "two fields need a text between them");
  return false;
}

bool weir_access_format_read(const char *pattern, weir_access_format *format,
                             weir_message *message) {
  bool has_time = false;
  *format = (weir_access_format){0};
  for (const char *at = pattern; *at != '\0';) {
    weir_access_piece piece = {.text = at, .means = OTHER};
    weir_access_piece *last = format->count > 0 ? &format->pieces[format->count - 1] : NULL;
    bool apache = at[0] == '%' && at[1] != '%', nginx = at[0] == '$', ends = true;
    piece.is_field = apache || nginx;
    if (piece.is_field) {
      const char *end =
          apache ? read_apache(at + 1, &piece.means, &ends) : read_nginx(at + 1, &piece.means);
      if (end == NULL) {
        weir_message_set(message, "byte %zu begins no field that ends", (size_t)(at - pattern) + 1);
        return false;
      }
      piece.length = (size_t)(end - at);
      at = end;
    } else {
      /* A backslash stands before a quote, as in the servers' configurations. A percent sign is
       * written twice. */
      at += (at[0] == '\\' && at[1] != '\0') || at[0] == '%';
      piece.text = at;
      piece.length = 1 + strcspn(at + 1, "%$\\");
      at += piece.length;
      if (last != NULL && !last->is_field && last->text + last->length == piece.text) {
        last->length += piece.length;
        continue;
      }
    }

    if (!may_follow(&piece, last, format, message)) return false;
    bool is_time = piece.is_field && piece.means >= TIME_BRACKETS && piece.means <= TIME_SECONDS;
    has_time |= is_time;
    if (is_time) format->tells_begin = !ends; /* of several the last is read last */
    format->pieces[format->count++] = piece;
  }
  if (has_time) return true;
  weir_message_set(message, "it has no time: %%t, $time_local, $time_iso8601 or $msec is needed");
  return false;
}

/* A field that may be asked for by its name. */
static bool has_name(const weir_access_piece *piece) {
  return piece->is_field && piece->means != TIME_BRACKETS && piece->means != TIME_LOCAL;
}

bool weir_access_format_ask(weir_access_format *format, const weir_access_others *others,
                            weir_message *message) {
  for (size_t i = 0; i < others->count; i++) {
    const weir_access_text name = others->names[i];
    bool found = false;
    for (size_t j = 0; j < format->count && !found; j++) {
      weir_access_piece *piece = &format->pieces[j];
      found = has_name(piece) && piece->length == name.length &&
              memcmp(piece->text, name.at, name.length) == 0;
      if (found) piece->other = WEIR_ACCESS_FIELDS + (int)i;
    }
    if (found) continue;
    /* Behind what is wrong as many of the fields there are as the message has room for. */
    weir_message_set(message, "--format has no \"%.*s\"; it has", (int)name.length, name.at);
    for (size_t j = 0; j < format->count; j++) {
      const weir_access_piece *piece = &format->pieces[j];
      const weir_message before = *message;
      if (has_name(piece))
        weir_message_set(message, "%s %.*s", before.text, (int)piece->length, piece->text);
    }
    return false;
  }
  return true;
}

/* --- a line ---------------------------------------------------------------------------------- */

/* Where the text that follows a field begins; in quotes a backslash hides the next byte. */
static const char *find_end(const weir_access_format *format, size_t i, weir_line_rest rest) {
  if (i + 1 == format->count) {
    size_t left = (size_t)(rest.end - rest.at);
    const char *blank = left > 0 ? memchr(rest.at, ' ', left) : NULL;
    return blank != NULL ? blank : rest.end;
  }
  const weir_access_piece *next = &format->pieces[i + 1];
  bool quoted = next->text[0] == '"';
  for (const char *at = rest.at; at + next->length <= rest.end; at++) {
    if (memcmp(at, next->text, next->length) == 0) return at;
    if (quoted && *at == '\\') at++;
  }
  return NULL;
}

static bool take_field(const weir_access_format *format, size_t i, weir_line_rest *rest,
                       weir_access *access) {
  const weir_access_piece *piece = &format->pieces[i];
  if (piece->means == TIME_LOCAL) return weir_line_take_time(rest, &access->time_us);
  if (piece->means == TIME_BRACKETS)
    return weir_line_take_text(rest, "[") && weir_line_take_time(rest, &access->time_us) &&
           weir_line_take_text(rest, "]");

  const char *first = rest->at, *end = find_end(format, i, *rest);
  if (end == NULL) return false;
  size_t length = (size_t)(end - first);
  weir_line_rest time = {first, end};
  rest->at = end;
  if (piece->other != 0) weir_access_set(access, piece->other, first, length);
  switch (piece->means) {
    case TIME_ISO:
      return weir_line_take_iso_time(&time, &access->time_us) && time.at == end;
    case TIME_SECONDS:
      return weir_line_take_seconds(&time, &access->time_us) && time.at == end;
    case REQUEST:
      weir_access_set_request(access, first, length);
      return true;
    case URI:
      weir_access_set(access, WEIR_ACCESS_PATH, first, length);
      return true;
    case OTHER:
      return true;
    default:
      weir_access_set(access, piece->means, first, length);
      return true;
  }
}

bool weir_access_format_parse(const weir_access_format *format, const char *text, size_t length,
                              weir_access *access, weir_message *message) {
  if (length > 0 && text[length - 1] == '\r') length--;
  weir_line_rest rest = {text, text + length};
  *access = (weir_access){0};
  if (length == 0 || memchr(text, '\0', length) != NULL) {
    weir_message_set(message, "%s", length == 0 ? "blank line" : "NUL byte");
    return false;
  }
  for (size_t i = 0; i < format->count; i++) {
    const weir_access_piece *piece = &format->pieces[i];
    size_t column = (size_t)(rest.at - text) + 1;
    if (piece->is_field) {
      if (take_field(format, i, &rest, access)) continue;
    } else if ((size_t)(rest.end - rest.at) >= piece->length &&
               memcmp(rest.at, piece->text, piece->length) == 0) {
      rest.at += piece->length;
      continue;
    }
    weir_message_set(message, "column %zu is not the %s that --format has as piece %zu", column,
                     piece->is_field ? "field" : "text", i + 1);
    return false;
  }
  if (rest.at == rest.end || *rest.at == ' ') return true;
  weir_message_set(message, "--format ends at column %zu, and the line goes on",
                   (size_t)(rest.at - text) + 1);
  return false;
}
