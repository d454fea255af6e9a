/* The options of a store URL: their names when it is read, their values when a backend asks. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/duration.h>
#include <weir/word.h>

#include "store/url.h"

enum { NAME_SHOWN_MOST = 32 };

static const char *const common_options[] = {"namespace", "timeout", NULL};

static bool is_listed(const char *const *words, const char *name) {
  for (; *words != NULL; words++) {
    if (strcmp(*words, name) == 0) return true;
  }
  return false;
}

/* "timeot" of "?timeot=1s"; but not what follows the '?' in a password. */
static bool is_shown_name(const char *name, bool has_value) {
  return has_value && strlen(name) <= NAME_SHOWN_MOST &&
         strspn(name, "abcdefghijklmnopqrstuvwxyz-_") == strlen(name);
}

static void refuse_name(weir_url_reader *reader, const char *name, bool shown) {
  char list[WEIR_URL_LIST_BYTES] = "";
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  const char *const *const sources[] = {common_options, reader->parsed->backend->options};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    for (const char *const *word = sources[i]; *word != NULL; word++) {
      weir_word_list(list, sizeof list, *word, false);
      if (weir_word_nearer(name, strlen(name), *word, &distance)) nearest = *word;
    }
  }
  if (!shown) nearest = NULL;
  weir_message_set(reader->message, "unknown option%s%s%s: %s accepts %s%s%s", shown ? " \"" : "",
                   shown ? name : "", shown ? "\"" : "", reader->scheme->name, list,
                   nearest != NULL ? "; the nearest is " : "", nearest != NULL ? nearest : "");
}

static weir_status check_name(weir_url_reader *reader, const char *name, bool has_value) {
  const weir_parsed_url *parsed = reader->parsed;
  if (weir_url_find(&parsed->url, name) != NULL) {
    weir_message_set(reader->message, "option %s is given twice", name);
    return WEIR_BAD_URL;
  }
  if (is_listed(common_options, name) || is_listed(parsed->backend->options, name)) return WEIR_OK;
  refuse_name(reader, name, is_shown_name(name, has_value));
  return WEIR_BAD_URL;
}

static weir_status read_option(weir_url_reader *reader, weir_url_piece text) {
  weir_url *url = &reader->parsed->url;
  weir_url_option *option = &reader->options[url->option_count];
  weir_url_piece value = text;
  weir_url_piece name;
  bool has_value = weir_url_cut(&value, '=', &name);
  weir_status status = weir_url_decode(reader, name, "the name of an option", &option->name);
  if (status != WEIR_OK) return status;
  if (option->name == NULL) {
    weir_message_set(reader->message, "an option has no name: write ?name=value&name=value");
    return WEIR_BAD_URL;
  }
  status = check_name(reader, option->name, has_value);
  if (status != WEIR_OK) return status;
  status = weir_url_decode(reader, value, "the value of an option", &option->value);
  if (status == WEIR_OK && option->value == NULL) {
    weir_message_set(reader->message, "option %s has no value: write %s=...", option->name,
                     option->name);
    return WEIR_BAD_URL;
  }
  if (status == WEIR_OK) url->option_count++;
  return status;
}

weir_status weir_url_read_options(weir_url_reader *reader, weir_url_piece query) {
  weir_status status = WEIR_OK;
  for (bool more = query.length > 0; more && status == WEIR_OK;) {
    weir_url_piece text;
    more = weir_url_cut(&query, '&', &text);
    status = read_option(reader, text);
  }
  return status;
}

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
  char list[WEIR_URL_LIST_BYTES] = "";
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
