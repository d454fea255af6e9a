#include "memcached/inspect.h"

void weir_memcached_statistics_init(weir_memcached_statistics *statistics) {
  *statistics = (weir_memcached_statistics){.uptime_s = -1,
                                            .time_s = -1,
                                            .items = -1,
                                            .bytes = -1,
                                            .limit_bytes = -1,
                                            .evictions = -1,
                                            .evicts = -1,
                                            .has_auth = -1};
}

static void read_word(const char *text, size_t length, char word[WEIR_MEMCACHED_WORD_BYTES]) {
  if (length >= WEIR_MEMCACHED_WORD_BYTES) length = WEIR_MEMCACHED_WORD_BYTES - 1;
  memcpy(word, text, length);
  word[length] = '\0';
}

static int64_t read_number(const char *text, size_t length) {
  uint64_t number;
  bool whole = weir_number_parse(text, length, &number) && number <= INT64_MAX;
  return whole ? (int64_t)number : -1;
}

static bool is(const char *text, size_t length, const char *word) {
  return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* "evictions" is a count in one list and a switch in the other. */
static void read_evictions(weir_memcached_statistics *statistics, const char *text, size_t length) {
  if (is(text, length, "on") || is(text, length, "off"))
    statistics->evicts = is(text, length, "on");
  else
    statistics->evictions = read_number(text, length);
}

static void read_statistic(weir_memcached_statistics *statistics, const char *name,
                           size_t name_length, const char *value, size_t length) {
  const struct {
    const char *name;
    int64_t *number;
  } numbers[] = {{"uptime", &statistics->uptime_s},
                 {"time", &statistics->time_s},
                 {"curr_items", &statistics->items},
                 {"bytes", &statistics->bytes},
                 {"limit_maxbytes", &statistics->limit_bytes}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (is(name, name_length, numbers[i].name)) *numbers[i].number = read_number(value, length);
  }
  if (is(name, name_length, "version")) read_word(value, length, statistics->version);
  if (is(name, name_length, "evictions")) read_evictions(statistics, value, length);
  if (is(name, name_length, "auth_enabled_ascii")) statistics->has_auth = !is(value, length, "no");
}

void weir_memcached_statistics_read(weir_memcached_statistics *statistics, const weir_line *line) {
  static const char start[] = "STAT ";
  if (!weir_line_starts(line, start)) return;
  const char *name = line->text + strlen(start);
  size_t left = line->length - strlen(start);
  const char *blank = memchr(name, ' ', left);
  if (blank == NULL) return;
  size_t name_length = (size_t)(blank - name);
  read_statistic(statistics, name, name_length, blank + 1, left - name_length - 1);
}
