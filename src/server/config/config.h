/* A configuration file as plain structures. docs/configuration.md has every key.
 *
 * Nothing here opens a store or makes a limiter: that is src/server/registry, which alone knows whether a
 * rule and a URL are good. */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <weir/weir.h>

/* --- faults -------------------------------------------------------------------------------------
 *
 * The faults in the files of a configuration: all of them, each with its place. */

/* The first FAULTS_MOST are kept as text, all are counted. */
enum { WEIR_CONFIG_FAULTS_MOST = 100 };

/* Where something stands. Lines and columns count from 1, columns in characters; line 0: the file
 * as a whole. */
typedef struct weir_config_place {
  const char *file; /* of a configuration: lives as long as it */
  uint32_t line, column;
} weir_config_place;

typedef struct weir_config_fault_line {
  size_t file_length; /* of FILE in the text */
  uint32_t line, column;
  weir_message text; /* "FILE:LINE:COL: PATH: what was found, what is accepted" */
} weir_config_fault_line;

/* Zero it before use. Lines are in the order of their places. */
typedef struct weir_config_faults {
  weir_config_fault_line lines[WEIR_CONFIG_FAULTS_MOST];
  size_t kept;
  size_t count;                        /* also of those that found no room */
  struct weir_config_faults *warnings; /* what may not be meant; NULL: not asked for */
} weir_config_faults;

/* One more. `path`: what it is about, "limiters.api.rule"; may be empty. The line is printable
 * ASCII; other bytes stand as "?". */
void weir_config_fault(weir_config_faults *faults, weir_config_place place, const char *path,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* One more of faults->warnings: "FILE:LINE:COL: warning: PATH: what is so". */
void weir_config_warn(weir_config_faults *faults, weir_config_place place, const char *path,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* --- descriptor files ---------------------------------------------------------------------------
 *
 * Descriptor files, in the format of envoyproxy/ratelimit, as plain structures. docs/serve/envoy.md
 * has what they may say. */

enum {
  WEIR_CONFIG_DOMAIN_MOST = 63,   /* bytes of a domain's name: printable ASCII, no '"', no '\' */
  WEIR_CONFIG_MATCH_MOST = 1024,  /* bytes of KEY_VALUE */
  WEIR_CONFIG_REPLACES_MOST = 16, /* names that one limit replaces */
  WEIR_CONFIG_REQUESTS_MOST = 1000000000
};

/* Numbered as on the wire. */
typedef enum weir_config_unit {
  WEIR_CONFIG_UNIT_UNKNOWN,
  WEIR_CONFIG_SECOND,
  WEIR_CONFIG_MINUTE,
  WEIR_CONFIG_HOUR,
  WEIR_CONFIG_DAY,
  WEIR_CONFIG_MONTH, /* 30 days */
  WEIR_CONFIG_YEAR,  /* 365 days */
  WEIR_CONFIG_WEEK,
  WEIR_CONFIG_UNITS
} weir_config_unit;

/* Their names on the wire: "SECOND". */
extern const char *const weir_config_units[WEIR_CONFIG_UNITS];

/* rate_limit. */
typedef struct weir_config_rate {
  bool is_unlimited;
  weir_config_unit unit;
  int64_t units;    /* that the period has */
  int64_t requests; /* in each period; 0: all are denied */
  const char *rule; /* NULL where no store is asked */
  const char *name; /* NULL: none */
  const char **replaces;
  size_t replace_count;
  weir_config_place place;
} weir_config_rate;

typedef struct weir_config_descriptor {
  const char *key, *value; /* value: NULL where any will do */
  const char *match;       /* KEY or KEY_VALUE, which is what requests are held against */
  size_t match_length;
  bool is_wildcard; /* the match holds a '*' */
  bool shadow, quota;
  bool shares;      /* a wildcard whose values have one count */
  bool detailed;    /* counted by the values of requests, of all levels; */
  bool shows_value; /* or of this one, wherever it leads to */
  weir_config_place place;
  weir_config_rate *rate; /* NULL: none */
  struct weir_config_descriptor *children;
  size_t child_count;
} weir_config_descriptor;

typedef enum weir_config_algorithm {
  WEIR_CONFIG_FIXED,
  WEIR_CONFIG_SLIDING,
  WEIR_CONFIG_QUOTA,
  WEIR_CONFIG_BUCKET,
  WEIR_CONFIG_PLACES /* of what is in flight: held, and given back */
} weir_config_algorithm;

typedef enum weir_config_headers {
  WEIR_CONFIG_HEADERS_DRAFT_10,
  WEIR_CONFIG_HEADERS_DRAFT_03, /* X-RateLimit-*: WEIR_HTTP_X_RATELIMIT */
  WEIR_CONFIG_HEADERS_OFF
} weir_config_headers;
extern const char *const weir_config_header_styles[]; /* up to NULL */

/* What requests of a listener may say of themselves: bits, whose names are weir_config_claims. */
enum {
  WEIR_CONFIG_CLASS = 1 << 0,
  WEIR_CONFIG_LIMIT = 1 << 1,
  WEIR_CONFIG_TENANT = 1 << 2,
  WEIR_CONFIG_CLAIMS = 3
};
extern const char *const weir_config_claims[WEIR_CONFIG_CLAIMS];

typedef struct weir_config_domain {
  const char *name;
  weir_config_place place;
  const struct weir_config_store *store; /* NULL only where there is a fault */
  weir_config_algorithm algorithm;
  bool counts_all; /* also what is denied */
  bool together;
  bool calendar;               /* months and years are those of the calendar, in UTC */
  weir_config_headers headers; /* to be added to answers */
  const char *limit_field, *remaining_field, *reset_field; /* of draft-03; NULL: as they are */
  int64_t near_percent; /* of a limit: where more is used up, it is near */
  const char *classes;  /* of all its rules, as in one; NULL: none */
  int64_t most; /* of its files' rules: up to which a request's own limit may go; 0: none may */
  const char *suffix;                        /* weir_config_rule_suffix() */
  const char *said_keys[WEIR_CONFIG_CLAIMS]; /* of entries that say something of the request */
  weir_config_descriptor *descriptors;
  size_t count, room;
  size_t node_count; /* of all levels */
} weir_config_domain;

typedef struct weir_config_envoy {
  bool merges; /* a domain may stand in several files */
  weir_config_domain *domains;
  size_t domain_count;
  size_t node_count; /* of all of them */
} weir_config_envoy;

/* A key and a value of a request's descriptor. */
typedef struct weir_entry {
  const char *key, *value; /* never NULL */
  size_t key_length, value_length;
} weir_entry;

/* Whether a domain's limits of this unit have the date in their keys. */
bool weir_config_is_dated(const weir_config_domain *domain, weir_config_unit unit);

/* A rule of a domain is ALGORITHM:REQUESTS/SECONDSsSUFFIX. Where the date stands in the key, it is a
 * quota that is longer than what the date stands for. */
int64_t weir_config_unit_s(const weir_config_domain *domain, weir_config_unit unit);
const char *weir_config_algorithm_of(const weir_config_domain *domain, weir_config_unit unit);
extern const char *const weir_config_algorithms[]; /* up to NULL */

/* The text behind the rules of a domain: "" or ",count=all", ",classes=batch:60%". */
const char *weir_config_rule_suffix(const weir_config_domain *domain);

/* --- what is configured -------------------------------------------------------------------------
 */

enum {
  WEIR_CONFIG_NAME_MOST = 64,  /* bytes of a name of a limiter, tier, store: A-Z a-z 0-9 _ . - */
  WEIR_CONFIG_KEY_MOST = 4096, /* bytes of a key in overrides, allow and block */
  WEIR_CONFIG_MEMBERS_MOST = 8 /* of a group */
};

typedef enum weir_config_protocol {
  WEIR_CONFIG_RESP,
  WEIR_CONFIG_HTTP,
  WEIR_CONFIG_GRPC,
  WEIR_CONFIG_ADMIN
} weir_config_protocol;

typedef enum weir_config_address_kind {
  WEIR_CONFIG_TCP,
  WEIR_CONFIG_UNIX,
  WEIR_CONFIG_SYSTEMD /* "systemd:NAME": handed over at the start, under this FileDescriptorName */
} weir_config_address_kind;

/* Where the key of a check stands in an HTTP request. */
typedef enum weir_config_key_kind {
  WEIR_CONFIG_KEY_QUERY,  /* "query:NAME"; the default is query:key */
  WEIR_CONFIG_KEY_HEADER, /* "header:NAME" */
  WEIR_CONFIG_KEY_CLIENT  /* "client": the first address that is not trusted */
} weir_config_key_kind;

typedef struct weir_config_key {
  weir_config_key_kind kind;
  const char *name; /* of the field or argument; NULL for WEIR_CONFIG_KEY_CLIENT */
} weir_config_key;

typedef struct weir_config_credential {
  const char *user; /* of RESP, where "default" is that of AUTH with a password alone. Else NULL */
  const char *secret; /* a password, or a bearer token; never print it */
  size_t secret_length;
} weir_config_credential;

typedef struct weir_config_tls {
  const char *certificate, *key; /* names of PEM files; NULL: no TLS */
  const char *client_ca;         /* NULL: clients need no certificate */
  weir_config_place place;
} weir_config_tls;

typedef struct weir_config_listener {
  weir_config_protocol protocol;
  weir_config_place place;
  const char *address; /* as in the file */
  weir_config_address_kind kind;
  struct sockaddr_storage socket; /* of WEIR_CONFIG_TCP and WEIR_CONFIG_UNIX */
  socklen_t socket_length;
  const char *name;  /* of WEIR_CONFIG_SYSTEMD: NAME; of WEIR_CONFIG_UNIX: its path */
  unsigned mode;     /* of a unix socket; default 0660 */
  const char *group; /* of a unix socket; NULL: as it comes */
  weir_config_credential *credentials;
  size_t credential_count; /* 0: none is asked for */
  weir_config_tls tls;
  bool insecure;
  bool sets_limits;   /* of RESP and HTTP: its clients may set the limits of keys */
  const char **hosts; /* of HTTP and admin: further names by which clients call it */
  size_t host_count;
  bool reuse_port; /* of WEIR_CONFIG_TCP: other servers may listen at the same address */
  unsigned says;   /* of all but admin: WEIR_CONFIG_CLASS and so on */
  /* A listener of HTTP alone: */
  int denied_status; /* 400 to 599; default 429 */
  weir_config_key key;
  weir_http_networks *trusted; /* NULL: no proxy is */
  unsigned ipv4_bits, ipv6_bits;
} weir_config_listener;

/* A store that limiters count in, and how these behave. */
typedef struct weir_config_store {
  const char *name;
  const char *url; /* all put in that stood as ${...}: never print it */
  weir_config_place place, url_place;

  /* Of these: processes, peers, fallback, deadline_us, clock_error_us, memo_keys. */
  weir_limiter_options options;
} weir_config_store;

typedef enum weir_config_tier_kind {
  WEIR_CONFIG_TIER_RULE,
  WEIR_CONFIG_TIER_UNLIMITED,
  WEIR_CONFIG_TIER_BLOCKED
} weir_config_tier_kind;

typedef struct weir_config_tier {
  const char *name;
  weir_config_tier_kind kind;
  const char *rule; /* of WEIR_CONFIG_TIER_RULE */
  weir_config_place place;
} weir_config_tier;

/* A key or a pattern, and the tier it is put into. */
typedef struct weir_config_override {
  const char *key;
  uint16_t key_length;
  uint16_t tier; /* index in the limiter's tiers; 0 in allow and block */
  bool is_pattern;
  weir_config_place place;
} weir_config_override;

typedef struct weir_config_overrides {
  weir_config_override *items;
  size_t count;
} weir_config_overrides;

typedef enum weir_config_log_keys {
  WEIR_CONFIG_LOG_KEYS_OFF,
  WEIR_CONFIG_LOG_KEYS_HASHED,
  WEIR_CONFIG_LOG_KEYS_PLAIN
} weir_config_log_keys;

typedef struct weir_config_limiter {
  const char *name;
  weir_config_place place, rule_place;
  const weir_config_store *store; /* NULL only where there is a fault */
  const char *rule;               /* NULL only where there is a fault */
  weir_config_tier *tiers;
  const char *const **tiers_by_name; /* their names, sorted */
  size_t tier_count;
  weir_config_overrides overrides, allow, block;
  const char *overrides_file; /* NULL: none */
  weir_config_place overrides_file_place;
  bool has_key; /* else the listener's */
  weir_config_key key;
  /* Where a check's class and tenant stand, unless it says them; and the class of a request that has none. */
  bool has_class, has_tenant;
  weir_config_key class_of, tenant_of;
  const char *class_else; /* NULL: none */
  weir_config_place class_place, class_else_place, tenant_place;

  /* The part of WEIR_CONFIG_ALL_KEYS that it denies: 0 in shadow mode, be that its own or that of all. */
  uint32_t enforced;
  weir_config_headers headers;
  weir_config_log_keys log_keys;
  int64_t cost;       /* of a request that names none; default 1 */
  bool has_limits;    /* its keys have limits of their own in the store, ... */
  bool absent_denies; /* ... and one that has none is denied */
  int64_t most; /* most= of all its rules that do not have one; 0: none. They say it already */
} weir_config_limiter;

/* The whole of a limiter's keys, in steps of .01 %. */
enum { WEIR_CONFIG_ALL_KEYS = 10000 };

/* A limiter as a group names it. */
typedef struct weir_config_member {
  size_t limiter; /* in the configuration's limiters */
  weir_config_place place;
} weir_config_member;

/* Limiters whose requests are one decision. */
typedef struct weir_config_group {
  const char *name; /* no limiter has it */
  weir_config_member members[WEIR_CONFIG_MEMBERS_MOST];
  size_t member_count;
} weir_config_group;

typedef struct weir_config_throttle {
  bool enabled;
  bool throttlecrab; /* the command THROTTLE as well */
  const weir_config_store *store;
  weir_config_place place;
  uint32_t limiters;  /* 1 to 65536; default 256 */
  uint32_t memo_keys; /* of each; default 16384 */
} weir_config_throttle;

typedef struct weir_config_limits {
  int64_t connections, connections_per_address;
  int64_t resp_arguments, resp_request_bytes, key_bytes;
  int64_t http_header_bytes, http_body_bytes;
  int64_t grpc_streams, grpc_message_bytes, grpc_age_us;
  int64_t output_bytes;   /* unsent; then reads stop */
  int64_t waiting;        /* requests in one loop; beyond that they are shed */
  int64_t logged_denials; /* a second */
  int64_t idle_us, first_bytes_us, drain_us;
} weir_config_limits;

/* The places that are held for clients. */
typedef struct weir_config_places {
  int64_t most;        /* at once, by all clients */
  int64_t for_us;      /* of a client that does not say for how long, ... */
  int64_t for_most_us; /* ... and the longest that one may say */
} weir_config_places;

typedef enum weir_config_log_format {
  WEIR_CONFIG_LOG_TEXT,
  WEIR_CONFIG_LOG_JSON
} weir_config_log_format;

typedef struct weir_config_log {
  int format; /* weir_config_log_format */
} weir_config_log;

/* The file that a name led to when it was read. */
typedef struct weir_config_file {
  const char *name;
  uint64_t device, inode, size; /* all 0: to nothing */
  int64_t changed_ns;
} weir_config_file;

typedef struct weir_config {
  const char *file; /* as it was named */
  weir_config_listener *listeners;
  size_t listener_count;
  weir_config_store *stores;
  size_t store_count;
  weir_config_limiter *limiters;
  size_t limiter_count;
  weir_config_group *groups;
  size_t group_count;
  weir_config_throttle throttle;
  weir_config_envoy envoy;
  weir_config_limits limits;
  weir_config_places places;
  weir_config_log log;
  int64_t loops;           /* 0: half the cores, 1 at least */
  bool shadow;             /* every limiter */
  weir_config_file *files; /* each that was read for it, itself first */
  size_t file_count;
} weir_config;

/* Reads a file, and those that its secrets come from. NULL, with a fault, when it cannot be read.
 * Else what is wrong has its default or is left out, so that src/server/registry can look for more:
 * faults->count says whether it may be used. */
weir_config *weir_config_read(const char *file, weir_config_faults *faults);

/* The same for text that is there already. */
weir_config *weir_config_read_text(const char *file, const char *text, size_t length,
                                   weir_config_faults *faults);

/* Whether only this host reaches what listens at this address. */
bool weir_config_is_local(const struct sockaddr *address);

/* Whether a listener may be reached by other hosts: it asks for a credential, speaks TLS, or says
 * insecure: true. */
bool weir_config_is_guarded(const weir_config_listener *listener);

/* "listen.resp", "listen.http" and so on: where a protocol's listeners stand in the file. */
const char *weir_config_listen_path(weir_config_protocol protocol);

/* The tier with a name; NULL: there is none. */
const weir_config_tier *weir_config_find_tier(const weir_config_limiter *limiter, const char *name,
                                              size_t length);

/* NULL is fine. */
void weir_config_destroy(weir_config *config);

/* --- changes ------------------------------------------------------------------------------------
 *
 * A file is what its name leads to: device, inode, size and time. So a symbolic link that is turned
 * elsewhere counts (mounted ConfigMaps), as do replaced and rewritten files.
 */

typedef struct weir_config_watch weir_config_watch;

/* Watches config->files, from the moment each was read. NULL: no memory. */
weir_config_watch *weir_config_watch_create(const weir_config *config);
void weir_config_watch_destroy(weir_config_watch *watch);

/* Whether any of them is another than at the last look. One that is gone counts once. One stat() a
 * file; call it once a second. One thread at a time. */
bool weir_config_watch_look(weir_config_watch *watch);

#endif
