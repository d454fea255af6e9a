/* All that <weir/weir.h> declares, for foreign-function interfaces. Made by flatten.py: do not edit.
 * Where something is unclear, the headers in include/weir say more. */

int64_t weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us);

enum {
  WEIR_DURATION_BYTES = 24
};

_Bool weir_duration_parse(const char *text, size_t length, int64_t *us);

void weir_duration_format(int64_t us, char *text, size_t size);

typedef enum weir_status_class {
  WEIR_CLASS_NONE = 0,
  WEIR_CLASS_CALLER = 1,
  WEIR_CLASS_TRANSIENT = 2,
  WEIR_CLASS_STORE = 3,
  WEIR_CLASS_BUG = 4
} weir_status_class;

typedef enum weir_status {
  WEIR_OK = 0,
  WEIR_BAD_ARGUMENT = 1,
  WEIR_BAD_RULE = 2,
  WEIR_BAD_URL = 3,
  WEIR_BAD_KEY = 4,
  WEIR_BAD_COST = 5,
  WEIR_NO_MEMORY = 6,
  WEIR_TIMEOUT = 7,
  WEIR_CONTENDED = 8,
  WEIR_UNAVAILABLE = 9,
  WEIR_UNKNOWN_OUTCOME = 10,
  WEIR_REFUSED_BY_STORE = 11,
  WEIR_BROKEN_BACKEND = 12,
  WEIR_PLACE_LOST = 13,
  WEIR_STATUS_COUNT = 14
} weir_status;

const char *weir_status_name(weir_status status);

const char *weir_status_text(weir_status status);

weir_status_class weir_status_classify(weir_status status);

enum {
  WEIR_MESSAGE_BYTES = 512
};

typedef struct weir_message {
  char text[512];
} weir_message;

typedef struct weir_clock {
  int64_t (*now_us)(void *context);
  void *context;
} weir_clock;

enum weir_limiter_flag {
  WEIR_NO_CACHED_CELLS = 1,
  WEIR_NO_LOCAL_DENIAL = 2,
  WEIR_NO_COMBINING = 4,
  WEIR_ABSENT_DENIES = 16,
  WEIR_NO_LEASES = 8
};

typedef enum weir_fallback {
  WEIR_FALLBACK_LOCAL = 0,
  WEIR_FALLBACK_DENY = 1,
  WEIR_FALLBACK_ALLOW = 2,
  WEIR_FALLBACK_NONE = 3
} weir_fallback;

typedef enum weir_renew_by {
  WEIR_RENEW_BY_THREAD = 0,
  WEIR_RENEW_BY_CALLER = 1
} weir_renew_by;

typedef struct weir_limiter_options {
  size_t size;
  weir_clock clock;
  int64_t deadline_us;
  int64_t clock_error_us;
  uint32_t processes;
  uint32_t memo_keys;
  int64_t memo_age_us;
  int64_t local_denial_us;
  int64_t least_ttl_us;
  int64_t longest_wait_us;
  unsigned flags;
  unsigned fallback;
  uint32_t peers;
  uint32_t reserved;
  unsigned renew;
  uint32_t reserved_too;
  int64_t limits_us;
} weir_limiter_options;

typedef struct weir_store weir_store;

weir_status weir_store_open(const char *url, weir_store **store, weir_message *message);

weir_status weir_store_connect(weir_store *store, int64_t timeout_us, weir_message *message);

weir_status weir_store_renew_files(weir_store *store, weir_message *message);

weir_status weir_store_prepare_files(weir_store *store, weir_message *message);

int64_t weir_store_certificate_end_s(const weir_store *store);

typedef struct weir_store_times {
  size_t size;
  int64_t timeout_us;
  int64_t connect_timeout_us;
} weir_store_times;

weir_status weir_store_read_times(const weir_store *store, weir_store_times *times);

void weir_store_close(weir_store *store);

typedef enum weir_breaker_state {
  WEIR_BREAKER_CLOSED = 0,
  WEIR_BREAKER_OPEN = 1,
  WEIR_BREAKER_HALF_OPEN = 2
} weir_breaker_state;

typedef struct weir_server_state {
  size_t size;
  const char *name;
  weir_breaker_state breaker;
  uint64_t outages;
  int64_t next_try_us;
  weir_message last_error;
  _Bool answered;
  uint64_t refusals;
  weir_message last_refusal;
  uint64_t addresses;
  uint64_t address;
  uint64_t clock_ahead_us;
} weir_server_state;

weir_status weir_store_read_server(const weir_store *store, size_t index, weir_server_state *state);

typedef struct weir_limiter weir_limiter;

weir_status weir_limiter_create(weir_store *store, const char *rules, const weir_limiter_options *options, weir_limiter **limiter, weir_message *message);

const char *weir_limiter_warning_at(const weir_limiter *limiter, size_t index);

const char *weir_limiter_warning(const weir_limiter *limiter);

_Bool weir_limiter_tell_apart(const weir_limiter *limiter, size_t index, const weir_limiter *other, size_t other_index, weir_message *message);

void weir_limiter_destroy(weir_limiter *limiter);

weir_status weir_limiter_follow(weir_limiter *limiter, weir_limiter *before, weir_message *message);

typedef enum weir_source {
  WEIR_SOURCE_STORE = 0,
  WEIR_SOURCE_LOCAL = 1,
  WEIR_SOURCE_FALLBACK = 2,
  WEIR_SOURCE_LATE = 3,
  WEIR_SOURCE_SETTLED = 4,
  WEIR_SOURCE_UNLIMITED = 5
} weir_source;

enum {
  WEIR_NEVER = -1,
  WEIR_NOT_KNOWN = -1,
  WEIR_OWN_COSTS = 0
};

typedef struct weir_decision {
  _Bool allowed;
  weir_source source;
  uint32_t rule;
  int64_t limit;
  int64_t remaining;
  int64_t retry_after_us;
  int64_t reset_after_us;
  int64_t delay_us;
  int64_t cost;
  int64_t at_us;
  weir_status store_status;
} weir_decision;

weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost, weir_decision *decision, weir_message *message);

weir_status weir_limiter_take_up_to(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost, weir_decision *decision, weir_message *message);

weir_status weir_limiter_wait(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost, int64_t longest_wait_us, weir_decision *decision, weir_message *message);

weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost, weir_decision *decision, weir_message *message);

weir_status weir_limiter_refund(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost, weir_decision *taken, weir_message *message);

weir_status weir_limiter_settle(weir_limiter *limiter, const void *key, size_t key_length, int64_t real, weir_decision *taken, weir_message *message);

weir_status weir_limiter_reset(weir_limiter *limiter, const void *key, size_t key_length, weir_message *message);

weir_status weir_limiter_return_leases(weir_limiter *limiter, weir_message *message);

enum weir_request_flag {
  WEIR_REQUEST_PEEK = 1,
  WEIR_REQUEST_UP_TO = 2,
  WEIR_REQUEST_SETTLE = 4
};

typedef struct weir_request {
  const void *key;
  size_t key_length;
  int64_t cost;
  const int64_t *costs;
  int64_t longest_wait_us;
  unsigned flags;
  weir_status status;
  weir_decision decision;
} weir_request;

typedef struct weir_extra {
  size_t size;
  const char *class_name;
  int64_t limit;
  const void *tenant;
  size_t tenant_length;
} weir_extra;

enum {
  WEIR_STATUSES_MOST = 32,
  WEIR_WAIT_BUCKETS = 14
};

typedef struct weir_limiter_counts {
  size_t size;
  uint64_t by_store;
  uint64_t by_local;
  uint64_t by_fallback;
  uint64_t allowed;
  uint64_t denied;
  uint64_t statuses[32];
  uint64_t clock_steps;
  uint64_t keys_lost;
  uint64_t round_trips;
  uint64_t by_late;
  uint64_t leased;
  uint64_t lease_used;
  uint64_t lease_returned;
  uint64_t lease_lost;
  uint64_t waits[14];
  uint64_t waited_us;
  uint64_t owed;
  uint64_t paid;
  uint64_t unpaid;
  uint64_t share;
  uint64_t places_held;
  uint64_t places_entered;
  uint64_t places_denied;
  uint64_t places_released;
  uint64_t places_lost;
  uint64_t renewals;
  uint64_t settled_up;
  uint64_t settled_down;
  uint64_t settled_cut;
  uint64_t settled_up_cost;
  uint64_t settled_down_cost;
  uint64_t settled_cut_cost;
  uint64_t limits_lost;
  uint64_t by_unlimited;
  uint64_t tiers_unknown;
} weir_limiter_counts;

int64_t weir_wait_bound_us(size_t bucket);

void weir_limiter_read_counts(const weir_limiter *limiter, weir_limiter_counts *counts);

enum {
  WEIR_BATCH_MOST = 1024
};

weir_status weir_limiter_decide(weir_limiter *limiter, weir_request *requests, size_t count, weir_message *message);

weir_status weir_decide_together(weir_limiter *const *limiters, weir_request *requests, size_t count, weir_message *message);

weir_status weir_decide_known(weir_limiter *const *limiters, weir_request *requests, size_t count, _Bool *known, weir_message *message);

enum {
  WEIR_ALL_MOST = 16
};

weir_status weir_decide_all(weir_limiter *const *limiters, weir_request *requests, size_t count, size_t *denied_by, weir_message *message);

weir_status weir_decide_extra(weir_limiter *const *limiters, weir_request *requests, const weir_extra *const *extras, size_t count, weir_message *message);

weir_status weir_decide_known_extra(weir_limiter *const *limiters, weir_request *requests, const weir_extra *const *extras, size_t count, _Bool *known, weir_message *message);

weir_status weir_decide_all_extra(weir_limiter *const *limiters, weir_request *requests, const weir_extra *const *extras, size_t count, size_t *denied_by, weir_message *message);

weir_status weir_limiter_check_extra(weir_limiter *limiter, const weir_extra *extra, weir_message *message);

enum {
  WEIR_CLASS_NAME_BYTES = 33
};

weir_status weir_limiter_read_class(const weir_limiter *limiter, size_t index, char name[33]);

typedef enum weir_limit_kind {
  WEIR_KEY_LIMIT_ABSENT = 0,
  WEIR_KEY_LIMIT_NONE = 1,
  WEIR_KEY_LIMIT_NUMBER = 2,
  WEIR_KEY_LIMIT_BLOCKED = 3,
  WEIR_KEY_LIMIT_UNLIMITED = 4,
  WEIR_KEY_LIMIT_TIER = 5
} weir_limit_kind;

typedef struct weir_limit {
  const void *key;
  size_t key_length;
  unsigned kind;
  int64_t limit;
  int64_t for_us;
  weir_status status;
} weir_limit;

weir_status weir_limiter_set_limits(weir_limiter *limiter, weir_limit *limits, size_t count, weir_message *message);

weir_status weir_limiter_read_limit(weir_limiter *limiter, weir_limit *limit, weir_message *message);

weir_status weir_limiter_parse_limit(const weir_limiter *limiter, const char *text, size_t length, weir_limit *limit, weir_message *message);

enum {
  WEIR_LIMIT_TEXT_BYTES = 24,
  WEIR_LIMIT_NAME_BYTES = 40
};

void weir_limit_format(const weir_limit *limit, char text[24]);

void weir_limiter_format_limit(const weir_limiter *limiter, const weir_limit *limit, char text[40]);

weir_status weir_check_all(weir_limiter *const *limiters, size_t count, weir_message *message);

size_t weir_limiter_rules(const weir_limiter *limiter);

typedef struct weir_rule_info {
  size_t size;
  const char *text;
  const char *algorithm;
  const char *name;
  int64_t limit;
  int64_t period_us;
  int64_t capacity;
  const char *tag;
} weir_rule_info;

weir_status weir_limiter_read_rule(const weir_limiter *limiter, size_t index, weir_rule_info *info);

typedef struct weir_reservation weir_reservation;

weir_status weir_limiter_reserve(weir_limiter *limiter, weir_request *request, weir_reservation **reservation, weir_message *message);

weir_status weir_limiter_reserve_wait(weir_limiter *limiter, weir_request *request, int64_t longest_wait_us, weir_reservation **reservation, weir_message *message);

_Bool weir_reservation_held(const weir_reservation *reservation);

int64_t weir_reservation_held_until_us(const weir_reservation *reservation);

uint64_t weir_reservation_token(const weir_reservation *reservation);

weir_status weir_limiter_renew(weir_limiter *limiter, int64_t *next_us, weir_message *message);

weir_status weir_reservation_commit(weir_reservation *reservation, weir_message *message);

weir_status weir_reserve_together(weir_limiter *const *limiters, weir_request *requests, size_t count, weir_reservation **reservations, weir_message *message);

weir_status weir_reserve_extra(weir_limiter *const *limiters, weir_request *requests, const weir_extra *const *extras, size_t count, weir_reservation **reservations, weir_message *message);

weir_status weir_release_together(weir_reservation *const *reservations, size_t count, weir_status *statuses, weir_message *message);

weir_status weir_reservation_cancel(weir_reservation *reservation, weir_message *message);

weir_status weir_reservation_settle(weir_reservation *reservation, int64_t *costs, weir_message *message);

void weir_reservation_destroy(weir_reservation *reservation);

typedef enum weir_http_style {
  WEIR_HTTP_DRAFT_10 = 0,
  WEIR_HTTP_X_RATELIMIT = 1
} weir_http_style;

enum {
  WEIR_HTTP_FIELDS_MOST = 4,
  WEIR_HTTP_NAME_MOST = 64,
  WEIR_HTTP_VALUE_BYTES = 1024
};

typedef struct weir_http_field {
  const char *name;
  char value[1024];
} weir_http_field;

weir_status weir_http_write_fields(const weir_limiter *limiter, const char *name, const weir_decision *decision, unsigned style, weir_http_field fields[4], size_t *count, weir_message *message);

typedef struct weir_http_networks weir_http_networks;

enum {
  WEIR_HTTP_NETWORKS_MOST = 256
};

weir_status weir_http_networks_create(const char *text, weir_http_networks **networks, weir_message *message);

void weir_http_networks_destroy(weir_http_networks *networks);

_Bool weir_http_networks_contain(const weir_http_networks *networks, const char *address);

enum {
  WEIR_HTTP_CLIENT_KEY_BYTES = 64
};

weir_status weir_http_client_key(const weir_http_networks *trusted, const char *peer, const char *forwarded_for, unsigned ipv4_bits, unsigned ipv6_bits, char key[64], weir_message *message);

typedef enum weir_finding_level {
  WEIR_FINDING_FACT = 0,
  WEIR_FINDING_WARNING = 1,
  WEIR_FINDING_FAULT = 2
} weir_finding_level;

typedef struct weir_finding {
  weir_finding_level level;
  const char *server;
  const char *topic;
  const char *text;
} weir_finding;

typedef void weir_tell(void *context, const weir_finding *finding);

typedef struct weir_monitor_source {
  const char *name;
  const weir_limiter *limiter;
  const weir_store *store;
} weir_monitor_source;

enum {
  WEIR_MONITOR_NAME_MOST = 64,
  WEIR_MONITOR_SOURCES_MOST = 1024
};

typedef int weir_monitor_write(void *context, const char *text, size_t length);

weir_status weir_monitor_prometheus(const weir_monitor_source *sources, size_t count, weir_monitor_write *write, void *context, weir_message *message);

weir_status weir_monitor_print_prometheus(const weir_monitor_source *sources, size_t count, char *buffer, size_t size, size_t *length, weir_message *message);

typedef enum weir_event_kind {
  WEIR_EVENT_SERVER_LOST = 0,
  WEIR_EVENT_SERVER_BACK = 1,
  WEIR_EVENT_CLOCK_STEP = 2,
  WEIR_EVENT_KEYS_LOST = 3,
  WEIR_EVENT_REFUSED = 4,
  WEIR_EVENT_UNKNOWN = 5,
  WEIR_EVENT_FALLBACK = 6,
  WEIR_EVENT_LATE = 7,
  WEIR_EVENT_CONTENDED = 8,
  WEIR_EVENT_LEASE_LOST = 9,
  WEIR_EVENT_BROKEN = 10,
  WEIR_EVENT_CUT = 11,
  WEIR_EVENT_ADDRESS = 12,
  WEIR_EVENT_SERVER_CLOCK = 13
} weir_event_kind;

typedef struct weir_event {
  weir_event_kind kind;
  const char *kind_name;
  const char *source;
  const char *server;
  uint64_t count;
  const char *text;
} weir_event;

typedef void weir_event_hook(void *context, const weir_event *event);

typedef struct weir_watch weir_watch;

weir_status weir_watch_create(const weir_monitor_source *sources, size_t count, int64_t quiet_us, weir_watch **watch, weir_message *message);

size_t weir_watch_look(weir_watch *watch, weir_event_hook *hook, void *context);

void weir_watch_destroy(weir_watch *watch);

const char *weir_version(void);

_Bool weir_word_nearer(const char *text, size_t length, const char *word, size_t *distance);

void weir_word_list(char *list, size_t size, const char *word, _Bool last);
