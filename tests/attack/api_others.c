/* The calls of api_hunt that make, read and tell: limiters, stores, counts, HTTP, texts. */
#include <stdlib.h>
#include <string.h>

#include "attack/api_hunt.h"

/* --- limiters and stores -----------------------------------------------------------------------
 */

/* Bytes that may be anything, of a text that was right. */
static const char *spoil(api_thread *thread, const char *right, char *text, size_t size) {
  size_t length = strlen(right) < size - 1 ? strlen(right) : size - 1;
  memcpy(text, right, length);
  text[length] = '\0';
  for (uint32_t n = api_chance(thread, 4); n > 0 && length > 0; n--)
    text[api_chance(thread, (uint32_t)length)] = (char)(1 + api_chance(thread, 255));
  if (api_chance(thread, 4) == 0) text[api_chance(thread, (uint32_t)length + 1)] = '\0';
  return text;
}

/* Options at their ends and beyond, and structures of other versions: those may be longer. */
enum { LONGEST = 5000 };
typedef union long_options {
  weir_limiter_options here;
  char newer[sizeof(size_t) + LONGEST];
} long_options;

static void draw_options(api_thread *thread, weir_limiter_options *options) {
  *options = (weir_limiter_options)WEIR_LIMITER_OPTIONS_INIT;
  int64_t *const times[] = {&options->deadline_us,     &options->clock_error_us,
                            &options->memo_age_us,     &options->local_denial_us,
                            &options->longest_wait_us, &options->least_ttl_us};
  unsigned *const numbers[] = {&options->processes, &options->memo_keys, &options->peers,
                               &options->flags,     &options->fallback,  &options->renew};
  for (uint32_t n = api_chance(thread, 3); n > 0; n--)
    *times[api_chance(thread, sizeof times / sizeof times[0])] = api_edge(thread);
  for (uint32_t n = api_chance(thread, 3); n > 0; n--)
    *numbers[api_chance(thread, sizeof numbers / sizeof numbers[0])] = api_chance(thread, 5);
  if (api_chance(thread, 16) == 0) options->peers = (unsigned)api_edge(thread);
  if (api_chance(thread, 16) == 0) options->size = api_chance(thread, 2) == 0 ? 0 : SIZE_MAX;
  if (api_chance(thread, 16) == 0) options->size = sizeof(size_t) + api_chance(thread, LONGEST);
}

/* A limiter that is used once, and gone. It must not wait for longer than others. */
static void call_create(api_thread *thread) {
  char text[200];
  weir_limiter *limiter = (weir_limiter *)(uintptr_t)16;
  long_options options = {.newer = {0}};
  weir_message *message = api_message(thread);
  draw_options(thread, &options.here);
  const char *rules = spoil(thread, api_rules[api_chance(thread, API_RULES)], text, sizeof text);
  weir_status status =
      weir_limiter_create(api_store(thread), rules,
                          api_chance(thread, 4) == 0 ? NULL : &options.here, &limiter, message);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_RULE) | API_STATUS(BAD_ARGUMENT),
                   message);
  if ((status == WEIR_OK) != (limiter != NULL)) api_fail(thread, "*limiter beside %d", status);
  if (limiter == NULL) return;
  weir_decision decision = {0};
  thread->waits_us = 60000000;
  status = weir_limiter_take(limiter, "k1", 2, 1, &decision, message);
  api_check_status(thread, status, API_ASKED, NULL);
  if (status == WEIR_OK) api_check_decision(thread, limiter, &decision);
  weir_limiter_destroy(limiter);
}

static void call_limiter_destroy(api_thread *thread) {
  (void)thread;
  weir_limiter_destroy(NULL);
}

static void call_open(api_thread *thread) {
  static const char *const urls[] = {"memory:?shards=4&keys=100",
                                     "memcached://127.0.0.1:1?timeout=1ms&namespace=n",
                                     "redis://user:word@127.0.0.1:1/3?connect-timeout=1ms",
                                     "memcached://[::1]:1,127.0.0.1:2:3",
                                     "redis+sentinel://127.0.0.1:1/name",
                                     "memcached+unix:///nowhere?protocol=meta"};
  char text[120];
  weir_store *store = (weir_store *)(uintptr_t)16;
  weir_message *message = api_message(thread);
  const char *right = urls[api_chance(thread, sizeof urls / sizeof urls[0])];
  const char *url = right;
  if (api_chance(thread, 2) == 0) { /* what comes behind: no name is to be looked up */
    spoil(thread, strchr(right, ':') + 1, text + 11, sizeof text - 11);
    memcpy(text, "memory:?k&", 10);
    text[10] = '=';
    url = text;
  }
  weir_status status = weir_store_open(url, &store, message);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_URL), message);
  if ((status == WEIR_OK) != (store != NULL)) api_fail(thread, "*store beside %d", status);
  weir_store_close(store);
}

static void call_open_backend(api_thread *thread) {
  static const char *const urls[] = {"own:?wait=1ms&number=3&word=two",
                                     "own:",
                                     "own:?wait=2s",
                                     "own:?number=6",
                                     "own:?word=three",
                                     "other:",
                                     "own:?wait=x"};
  weir_store *store = NULL;
  weir_message *message = api_message(thread);
  uint32_t n = api_chance(thread, sizeof urls / sizeof urls[0]);
  weir_status status = weir_store_open_backend(&api_backend, urls[n], &store, message);
  api_check_status(thread, status, n < 2 ? API_STATUS(OK) : API_STATUS(BAD_URL), message);
  weir_store_close(store);
}

static void call_close(api_thread *thread) {
  (void)thread;
  weir_store_close(NULL);
}

static void call_connect(api_thread *thread) {
  weir_message *message = api_message(thread);
  int64_t timeout_us = api_patience(thread, 1000);
  weir_status status = weir_store_connect(api_store(thread), timeout_us, message);
  bool bad = timeout_us < 1000 || timeout_us > 60000000;
  api_check_status(thread, status,
                   bad ? API_STATUS(BAD_ARGUMENT) : API_STATUS(OK) | API_STATUS(UNAVAILABLE),
                   message);
}

static void call_read_times(api_thread *thread) {
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  times.size = api_chance(thread, 2) == 0 ? api_chance(thread, sizeof times + 1) : sizeof times;
  weir_status status = weir_store_read_times(api_store(thread), &times);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), NULL);
}

static void call_read_server(api_thread *thread) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  size_t index = api_chance(thread, 4) == 0 ? (size_t)api_edge(thread) : 0;
  state.size = api_chance(thread, 2) == 0 ? api_chance(thread, sizeof state + 1) : sizeof state;
  weir_status status = weir_store_read_server(api_store(thread), index, &state);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), NULL);
  if (status == WEIR_OK && index > 0) api_fail(thread, "there is a server %zu", index);
}

/* Inspecting waits for keys to expire: memory: alone, as that has the fewest to tell. */
static void tell(void *context, const weir_finding *finding) {
  if (finding->text == NULL || finding->topic == NULL || (unsigned)finding->level > 2)
    api_fail(context, "a finding without a text");
}

static void call_store_inspect(api_thread *thread) {
  weir_message *message = api_message(thread);
  thread->waits_us = 20000000;
  int64_t timeout_us = api_chance(thread, 2) == 0 ? -1 : 1000;
  weir_status status =
      weir_store_inspect(thread->world->stores[0], timeout_us, tell, thread, message);
  api_check_status(thread, status, timeout_us < 0 ? API_STATUS(BAD_ARGUMENT) : API_STATUS(OK),
                   message);
}

static void call_limiter_inspect(api_thread *thread) {
  weir_message *message = api_message(thread);
  thread->waits_us = 20000000;
  weir_limiter *limiter = thread->world->limiters[api_chance(thread, API_RULES)];
  weir_status status = weir_limiter_inspect(limiter, 1000, tell, thread, message);
  api_check_status(thread, status, API_STATUS(OK), message);
}

/* --- what limiters tell ------------------------------------------------------------------------
 */

static void call_rules(api_thread *thread) {
  size_t count = weir_limiter_rules(api_limiter(thread));
  if (count < 1 || count > 8) api_fail(thread, "%zu rules", count);
}

static void call_read_rule(api_thread *thread) {
  weir_rule_info info = WEIR_RULE_INFO_INIT;
  weir_limiter *limiter = api_limiter(thread);
  size_t index = (size_t)api_edge(thread);
  info.size = api_chance(thread, 2) == 0 ? api_chance(thread, sizeof info + 1) : sizeof info;
  weir_status status = weir_limiter_read_rule(limiter, index, &info);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), NULL);
  if (status == WEIR_OK && index >= weir_limiter_rules(limiter))
    api_fail(thread, "there is a rule %zu", index);
}

static void call_check_extra(api_thread *thread) {
  weir_message *message = api_message(thread);
  weir_limiter *limiter = api_limiter(thread);
  const weir_extra *said[1];
  const weir_extra *const *extras = api_extras(thread, &limiter, said, 1);
  weir_status status =
      weir_limiter_check_extra(limiter, extras != NULL ? extras[0] : NULL, message);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), message);
}

static void call_read_class(api_thread *thread) {
  char name[WEIR_CLASS_NAME_BYTES] = "";
  weir_status status = weir_limiter_read_class(api_limiter(thread), (size_t)api_edge(thread), name);
  api_check_status(thread, status, API_STATUS(OK) | API_STATUS(BAD_ARGUMENT), NULL);
  if ((status == WEIR_OK) != (name[0] != '\0')) api_fail(thread, "a class is called \"%s\"", name);
}

static void call_warning(api_thread *thread) {
  weir_limiter *limiter = api_limiter(thread);
  if (weir_limiter_warning(limiter) != weir_limiter_warning_at(limiter, 0))
    api_fail(thread, "the first warning is another");
}

static void call_warning_at(api_thread *thread) {
  const char *text = weir_limiter_warning_at(api_limiter(thread), (size_t)api_edge(thread));
  if (text != NULL && text[0] == '\0') api_fail(thread, "an empty warning");
}

static void call_tell_apart(api_thread *thread) {
  weir_message message = {""};
  bool apart =
      weir_limiter_tell_apart(api_limiter(thread), (size_t)api_edge(thread), api_limiter(thread),
                              api_chance(thread, 3), api_chance(thread, 3) == 0 ? NULL : &message);
  if (!apart && message.text[0] != '\0') api_fail(thread, "it tells of none");
}

static void call_read_counts(api_thread *thread) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  if (api_chance(thread, 4) == 0)
    counts.size = sizeof counts.size + 8 * (size_t)api_chance(thread, 16);
  size_t size = counts.size;
  weir_limiter_read_counts(api_limiter(thread), &counts);
  if (size < sizeof counts) return;
  if (counts.statuses[WEIR_BROKEN_BACKEND] > 0) api_fail(thread, "a broken contract is counted");
  if (counts.share > 1000000) api_fail(thread, "a share above all");
}

static void call_wait_bound(api_thread *thread) {
  if (weir_wait_bound_us((size_t)api_edge(thread)) < 100) api_fail(thread, "a bound below 100");
}

/* --- monitoring --------------------------------------------------------------------------------
 */

enum { SOURCES = 6 };

static void draw_sources(api_thread *thread, weir_monitor_source sources[SOURCES]) {
  static const char *const names[SOURCES] = {"a", "b", "c", "d\xc3", "e", "f"};
  for (size_t i = 0; i < SOURCES; i++)
    sources[i] =
        (weir_monitor_source){.name = api_chance(thread, 80) == 0 ? names[0] : names[i],
                              .limiter = api_chance(thread, 3) == 0 ? NULL : api_limiter(thread),
                              .store = api_chance(thread, 3) == 0 ? NULL : api_store(thread)};
}

enum { TOLD = 1 << WEIR_OK | 1 << WEIR_BAD_ARGUMENT };

static int take_text(void *context, const char *text, size_t length) {
  api_thread *thread = context;
  if (length == 0 || length > 1024 || text[0] == '\0') api_fail(thread, "%zu bytes", length);
  return api_chance(thread, 4000) == 0;
}

static void call_prometheus(api_thread *thread) {
  weir_monitor_source sources[SOURCES];
  weir_message *message = api_message(thread);
  draw_sources(thread, sources);
  api_check_status(thread, weir_monitor_prometheus(sources, SOURCES, take_text, thread, message),
                   TOLD, message);
}

static void call_print_prometheus(api_thread *thread) {
  weir_monitor_source sources[SOURCES];
  char buffer[40000];
  size_t length = 0;
  weir_message *message = api_message(thread);
  size_t size = api_chance(thread, 2) == 0 ? sizeof buffer : api_chance(thread, 2000);
  draw_sources(thread, sources);
  weir_status status = weir_monitor_print_prometheus(sources, SOURCES, size > 0 ? buffer : NULL,
                                                     size, &length, message);
  api_check_status(thread, status, TOLD, message);
  if (status == WEIR_OK && (length >= size || buffer[length] != '\0'))
    api_fail(thread, "%zu bytes into %zu", length, size);
}

static void hear(void *context, const weir_event *event) {
  if (event->count == 0 || event->text == NULL || event->source == NULL ||
      event->kind == WEIR_EVENT_BROKEN)
    api_fail(context, "event %d: %s", (int)event->kind, event->text != NULL ? event->text : "");
}

static void call_watch(api_thread *thread) {
  weir_monitor_source sources[SOURCES];
  weir_watch *watch = NULL;
  weir_message *message = api_message(thread);
  draw_sources(thread, sources);
  weir_status status =
      weir_watch_create(sources, SOURCES, api_small_or_edge(thread, 1000), &watch, message);
  api_check_status(thread, status, TOLD, message);
  if ((status == WEIR_OK) != (watch != NULL)) api_fail(thread, "*watch beside %d", status);
  for (int i = 0; i < 3 && watch != NULL; i++)
    weir_watch_look(watch, hear, thread);
  weir_watch_destroy(watch);
}

/* --- HTTP --------------------------------------------------------------------------------------
 */

static void call_fields(api_thread *thread) {
  static const char *const names[] = {"api", "", "bad name", "a-b_c.9"};
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST];
  weir_limiter *limiter = api_limiter(thread);
  weir_decision decision = {0};
  weir_message *message = api_message(thread);
  size_t count = 99;
  if (weir_limiter_peek(limiter, "k1", 2, 1, &decision, NULL) != WEIR_OK)
    decision = (weir_decision){.rule = (uint32_t)api_edge(thread),
                               .limit = api_edge(thread),
                               .remaining = api_edge(thread),
                               .retry_after_us = api_edge(thread),
                               .reset_after_us = api_edge(thread)};
  weir_status status = weir_http_write_fields(limiter, names[api_chance(thread, 4)], &decision,
                                              api_chance(thread, 3), fields, &count, message);
  api_check_status(thread, status, TOLD, message);
  if (count > (status == WEIR_OK ? (size_t)WEIR_HTTP_FIELDS_MOST : 0))
    api_fail(thread, "%zu fields", count);
  for (size_t i = 0; i < count; i++)
    if (fields[i].name == NULL || memchr(fields[i].value, '\0', WEIR_HTTP_VALUE_BYTES) == NULL)
      api_fail(thread, "field %zu has no name or no end", i);
}

static void call_networks(api_thread *thread) {
  char text[80], address[80], key[WEIR_HTTP_CLIENT_KEY_BYTES];
  weir_http_networks *networks = NULL;
  weir_message *message = api_message(thread);
  spoil(thread, "10.0.0.0/8, 192.0.2.7 fd00::/8,::ffff:10.1.2.3", text, sizeof text);
  spoil(thread, "[2001:db8::7]:80", address, sizeof address);
  weir_status status = weir_http_networks_create(text, &networks, message);
  api_check_status(thread, status, TOLD, message);
  if (networks != NULL) weir_http_networks_contain(networks, address);
  const char *peer = api_chance(thread, 2) == 0 ? "10.1.2.3" : address;
  status = weir_http_client_key(networks, peer, api_chance(thread, 3) == 0 ? NULL : address,
                                (unsigned)api_small_or_edge(thread, 33),
                                (unsigned)api_small_or_edge(thread, 129), key, message);
  api_check_status(thread, status, TOLD, message);
  weir_http_networks_destroy(networks);
}

/* --- texts and numbers -------------------------------------------------------------------------
 */

static void call_statuses(api_thread *thread) {
  weir_status status = (weir_status)api_edge(thread);
  if (weir_status_name(status)[0] == '\0' || weir_status_text(status)[0] == '\0' ||
      (unsigned)weir_status_classify(status) > WEIR_CLASS_BUG)
    api_fail(thread, "says nothing of %d", (int)status);
}

static void call_durations(api_thread *thread) {
  char text[WEIR_DURATION_BYTES];
  int64_t us = 7, again = 7;
  spoil(thread, "25ms", text, sizeof text);
  bool read = weir_duration_parse(text, strlen(text), &us);
  if (!read && us != 7) api_fail(thread, "a duration that was not read is written");
  if (!read) us = api_edge(thread);
  weir_duration_format(us, text, sizeof text);
  if (read && (!weir_duration_parse(text, strlen(text), &again) || again != us))
    api_fail(thread, "%lld us is written as %s", (long long)us, text);
}

/* Both are this thread's own, as the one that is followed must outlive the other. */
static void call_follow(api_thread *thread) {
  weir_limiter *before = NULL, *limiter = NULL;
  weir_message *message = api_message(thread);
  weir_store *store = api_store(thread);
  const char *rules = api_rules[api_chance(thread, API_RULES)];
  const char *others =
      api_chance(thread, 2) == 0 ? rules : api_rules[api_chance(thread, API_RULES)];
  if (weir_limiter_create(store, rules, NULL, &before, NULL) == WEIR_OK &&
      weir_limiter_create(store, others, NULL, &limiter, NULL) == WEIR_OK) {
    api_check_status(thread, weir_limiter_follow(limiter, before, message),
                     API_STATUS(OK) | API_STATUS(BAD_ARGUMENT) | API_STATUS(NO_MEMORY), message);
    if (api_chance(thread, 2) == 0) (void)weir_limiter_follow(limiter, NULL, NULL);
  }
  weir_limiter_destroy(limiter);
  weir_limiter_destroy(before);
}

static void call_renew_files(api_thread *thread) {
  weir_store *store = api_store(thread);
  weir_message *message = api_message(thread);
  if (api_chance(thread, 2) == 0)
    api_check_status(thread, weir_store_prepare_files(store, message), API_STATUS(OK), message);
  api_check_status(thread, weir_store_renew_files(store, message), API_STATUS(OK), message);
  if (weir_store_certificate_end_s(store) < 0) api_fail(thread, "a certificate ends before 1970");
}

static void call_words(api_thread *thread) {
  char text[40], list[24] = "";
  size_t room = 8 + api_chance(thread, sizeof list - 7);
  size_t distance = WEIR_WORD_FAR;
  spoil(thread, "sliding-window", text, sizeof text);
  weir_word_nearer(text, strlen(text), "sliding-window", &distance);
  for (int i = 0; i < 4; i++)
    weir_word_list(list, room, text, i == 3);
}

static void call_small(api_thread *thread) {
  int64_t base_us = api_edge(thread), most_us = api_edge(thread);
  int64_t us = weir_backoff_us((unsigned)api_edge(thread), base_us, most_us);
  if (us < 0 || (us > most_us && us > 0)) api_fail(thread, "a pause of %lld", (long long)us);
  if (strcmp(weir_version(), WEIR_VERSION_TEXT) != 0) api_fail(thread, "another version");
  int64_t now_us = weir_monotonic_us();
  if (weir_monotonic_us() < now_us) api_fail(thread, "time goes back");
}

/* Functions that go together have one call, as those of a backend: it calls them as a store opens. */
const api_call api_others[] = {
    {"weir_limiter_create", 10, call_create},
    {"weir_limiter_destroy", 1, call_limiter_destroy},
    {"weir_limiter_follow", 2, call_follow},
    {"weir_store_prepare_files weir_store_renew_files weir_store_certificate_end_s", 1,
     call_renew_files},
    {"weir_store_open", 6, call_open},
    {"weir_store_open_backend weir_url_find weir_url_duration weir_url_integer weir_url_word "
     "weir_message_set weir_message_prefix weir_operation_show_key",
     4, call_open_backend},
    {"weir_store_close", 1, call_close},
    {"weir_store_connect", 4, call_connect},
    {"weir_store_read_times", 2, call_read_times},
    {"weir_store_read_server", 4, call_read_server},
    {"weir_store_inspect", 0, call_store_inspect},
    {"weir_limiter_inspect", 0, call_limiter_inspect},
    {"weir_limiter_rules", 2, call_rules},
    {"weir_limiter_read_rule", 2, call_read_rule},
    {"weir_limiter_check_extra", 2, call_check_extra},
    {"weir_limiter_read_class", 2, call_read_class},
    {"weir_limiter_warning", 2, call_warning},
    {"weir_limiter_warning_at", 2, call_warning_at},
    {"weir_limiter_tell_apart", 2, call_tell_apart},
    {"weir_limiter_read_counts", 6, call_read_counts},
    {"weir_wait_bound_us", 1, call_wait_bound},
    {"weir_monitor_prometheus", 2, call_prometheus},
    {"weir_monitor_print_prometheus", 2, call_print_prometheus},
    {"weir_watch_create weir_watch_look weir_watch_destroy", 3, call_watch},
    {"weir_http_write_fields", 6, call_fields},
    {"weir_http_networks_create weir_http_networks_contain weir_http_client_key "
     "weir_http_networks_destroy",
     6, call_networks},
    {"weir_status_name weir_status_text weir_status_classify", 2, call_statuses},
    {"weir_duration_parse weir_duration_format", 2, call_durations},
    {"weir_word_nearer weir_word_list", 2, call_words},
    {"weir_backoff_us weir_version weir_monotonic_us", 2, call_small},
    {NULL, 0, NULL},
};
