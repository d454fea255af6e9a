/* listen: where clients reach the server, in which protocol, and what they must show. A listener
 * stands at "127.0.0.1:6380", "[::1]:6380", "unix:/path" or "systemd:NAME"; one that other hosts
 * reach must be guarded. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/reader.h"
#include "number.h"

enum { LISTENERS_MOST = 32, CREDENTIALS_MOST = 1000, HOSTS_MOST = 100, TRUSTED_BYTES = 16 * 1024 };

static const char *const default_addresses[] = {
    [WEIR_CONFIG_RESP] = "127.0.0.1:6380",
    [WEIR_CONFIG_HTTP] = "127.0.0.1:8080",
    [WEIR_CONFIG_GRPC] = "127.0.0.1:8081",
    [WEIR_CONFIG_ADMIN] = "127.0.0.1:9090",
};

/* --- addresses ----------------------------------------------------------------------------------
 */

#define ACCEPTED_ADDRESSES                                                                     \
  "accepted are ADDRESS:PORT as 127.0.0.1:6380, [::1]:6380 or localhost:6380, unix:/PATH and " \
  "systemd:NAME"

static void set_socket(weir_config_listener *listener, const void *address, size_t length) {
  memcpy(&listener->socket, address, length);
  listener->socket_length = (socklen_t)length;
}

/* HOST:PORT, where an address of IPv6 stands in brackets. */
static bool read_tcp(const char *text, weir_config_listener *listener) {
  char host[64];
  bool has_brackets = text[0] == '[';
  const char *colon = strrchr(text, ':');
  const char *end = has_brackets ? strchr(text, ']') : colon;
  const char *start = text + has_brackets;
  if (colon == NULL || end == NULL || end + has_brackets != colon) return false;

  int64_t number;
  size_t digits = strlen(colon + 1);
  if (digits > 5 || !weir_number_read(colon + 1, digits, UINT16_MAX, &number) || number == 0)
    return false;
  in_port_t port = htons((uint16_t)number);

  if ((size_t)(end - start) >= sizeof host) return false;
  memcpy(host, start, (size_t)(end - start));
  host[end - start] = '\0';
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
  const char *address = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
  listener->kind = WEIR_CONFIG_TCP;
  if (!has_brackets && inet_pton(AF_INET, address, &four.sin_addr) == 1)
    set_socket(listener, &four, sizeof four);
  else if (has_brackets && inet_pton(AF_INET6, address, &six.sin6_addr) == 1)
    set_socket(listener, &six, sizeof six);
  return listener->socket_length != 0;
}

static void read_address(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_listener *listener = target;
  const char *text = weir_read_text(reader, node);
  if (text == NULL) return;
  listener->address = text;
  if (strncmp(text, "unix:", 5) == 0) {
    const char *path = text + 5;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    listener->kind = WEIR_CONFIG_UNIX;
    listener->name = path;
    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path) {
      weir_fault(reader, node, "unix:PATH takes an absolute path of at most %zu bytes",
                 sizeof address.sun_path - 1);
      return;
    }
    memcpy(address.sun_path, path, strlen(path));
    set_socket(listener, &address, sizeof address);
  } else if (strncmp(text, "systemd:", 8) == 0 && text[8] != '\0') {
    listener->kind = WEIR_CONFIG_SYSTEMD;
    listener->name = text + 8;
  } else if (!read_tcp(text, listener)) {
    weir_fault(reader, node, "found %s, " ACCEPTED_ADDRESSES, weir_quote(node).text);
  }
}

bool weir_config_is_local(const struct sockaddr *address) {
  const void *any = address;
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)any)->sin6_addr);
  if (address->sa_family == AF_INET)
    return (ntohl(((const struct sockaddr_in *)any)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_UNIX;
}

/* --- fields -------------------------------------------------------------------------------------
 */

static void read_mode(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_listener *listener = target;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  bool good = node->length >= 3 && node->length <= 4 &&
              strspn(node->text, "01234567") == node->length &&
              (node->length == 3 || node->text[0] == '0');
  if (good)
    listener->mode = (unsigned)strtoul(node->text, NULL, 8);
  else
    weir_fault(reader, node, "found %s, accepted are 000 to 777 in octal digits, as \"0660\"",
               weir_quote(node).text);
}

static void read_credential(weir_reader *reader, const char *user, const weir_node *node,
                            weir_config_listener *listener) {
  weir_config_credential *credential = &listener->credentials[listener->credential_count];
  credential->user = user;
  credential->secret = weir_read_secret(reader, node, false, &credential->secret_length);
  if (credential->secret != NULL) listener->credential_count++;
}

/* RESP: a password, or a mapping of users; else a token, or a list of tokens. */
static void read_auth(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_listener *listener = target;
  bool is_resp = listener->protocol == WEIR_CONFIG_RESP;
  weir_node_kind many = is_resp ? WEIR_NODE_MAPPING : WEIR_NODE_SEQUENCE;
  size_t count = node->kind == WEIR_NODE_SCALAR ? 1 : node->length;
  if (node->kind != WEIR_NODE_SCALAR && node->kind != many) {
    weir_fault(reader, node, "found %s",
               is_resp ? "a list, accepted are a password and a mapping of users to passwords"
                       : "a mapping, accepted are a token and a list of tokens");
    return;
  }
  if (count < 1 || count > CREDENTIALS_MOST) {
    weir_fault(reader, node, "found %zu credentials, accepted are 1 to %d", count,
               CREDENTIALS_MOST);
    return;
  }
  listener->credentials = weir_arena_take(reader->arena, count, sizeof *listener->credentials);
  if (listener->credentials == NULL) return;
  if (node->kind == WEIR_NODE_SCALAR) {
    read_credential(reader, is_resp ? "default" : NULL, node, listener);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    const char *user = is_resp ? weir_read_text(reader, item->key) : NULL;
    if (is_resp && user == NULL) continue;
    size_t length = strlen(reader->path);
    if (is_resp) weir_path_enter(reader, user);
    read_credential(reader, user, item->value, listener);
    weir_path_leave(reader, length);
  }
}

/* A file that the server must be able to read when it starts. */
static void read_file(weir_reader *reader, const weir_node *node, void *target) {
  const char *name = weir_read_text(reader, node);
  const char *whole = name != NULL ? weir_resolve_file(reader, name) : NULL;
  if (whole == NULL) return;
  *(const char **)target = whole;
  weir_watch_file(reader, whole);
  if (access(whole, R_OK) != 0) weir_fault(reader, node, "file \"%.200s\" cannot be read", name);
}

static void read_tls(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      WEIR_ROW_READ("certificate", read_file, weir_config_tls, certificate),
      WEIR_ROW_READ("key", read_file, weir_config_tls, key),
      WEIR_ROW_READ("client_ca", read_file, weir_config_tls, client_ca),
      {.name = NULL},
  };
  weir_config_tls *tls = target;
  tls->place = weir_place(reader, node);
  weir_read_fields(reader, node, fields, tls);
  if (node->kind == WEIR_NODE_MAPPING &&
      (weir_node_find(node, "certificate") == NULL || weir_node_find(node, "key") == NULL))
    weir_fault(reader, node, "certificate and key are both needed");
}

/* Networks, joined as the library reads them. */
static void read_trusted(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_listener *listener = target;
  weir_message message = {""};
  char text[TRUSTED_BYTES];
  size_t length = 0;
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  text[0] = '\0';
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    const char *network = weir_read_text(reader, item->value);
    if (network == NULL) return;
    if (strlen(network) > sizeof text - 2 - length) {
      weir_fault(reader, node, "too many networks; accepted are %d", WEIR_HTTP_NETWORKS_MOST);
      return;
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "%s,", network);
  }
  if (length > 0) text[length - 1] = '\0';
  weir_status status = weir_http_networks_create(text, &listener->trusted, &message);
  if (status == WEIR_NO_MEMORY)
    reader->arena->failed = true;
  else if (status != WEIR_OK)
    weir_fault(reader, node, "%s", message.text);
}

/* Hosts as they stand in Host, without the port. */
static void read_hosts(weir_reader *reader, const weir_node *node, void *target) {
  static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  weir_config_listener *listener = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_SEQUENCE, HOSTS_MOST, "hosts")) return;
  listener->hosts = weir_arena_take(reader->arena, node->length + 1, sizeof *listener->hosts);
  if (listener->hosts == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    const char *host = weir_read_text(reader, item->value);
    if (host == NULL) continue;
    if (strspn(host, bytes) == strlen(host))
      listener->hosts[listener->host_count++] = host;
    else
      weir_fault(reader, item->value, "found %s, accepted are names and addresses without a port",
                 weir_quote(item->value).text);
  }
}

const char *const weir_config_claims[WEIR_CONFIG_CLAIMS] = {"class", "limit", "tenant"};

static void read_says(weir_reader *reader, const weir_node *node, void *target) {
  unsigned *says = target;
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    size_t which = 0;
    if (!weir_expect(reader, item->value, WEIR_NODE_SCALAR)) continue;
    while (which < WEIR_CONFIG_CLAIMS && !weir_node_is(item->value, weir_config_claims[which]))
      which++;
    if (which < WEIR_CONFIG_CLAIMS)
      *says |= 1U << which;
    else
      weir_fault_unknown(
          reader, item->value, "a request cannot say",
          (weir_names){weir_config_claims, sizeof *weir_config_claims, WEIR_CONFIG_CLAIMS});
  }
}

#define COMMON_FIELDS                                                                            \
  {.name = "address", .read = read_address}, {.name = "mode", .read = read_mode},                \
      WEIR_ROW("group", TEXT, weir_config_listener, group), {.name = "auth", .read = read_auth}, \
      WEIR_ROW_READ("tls", read_tls, weir_config_listener, tls),                                 \
      WEIR_ROW("insecure", BOOL, weir_config_listener, insecure),                                \
      WEIR_ROW("reuse_port", BOOL, weir_config_listener, reuse_port)

static const weir_field fields[] = {
    COMMON_FIELDS,
    WEIR_ROW_READ("says", read_says, weir_config_listener, says),
    {.name = NULL},
};

static const weir_field resp_fields[] = {
    COMMON_FIELDS,
    WEIR_ROW_READ("says", read_says, weir_config_listener, says),
    WEIR_ROW("sets_limits", BOOL, weir_config_listener, sets_limits),
    {.name = NULL},
};

static const weir_field admin_fields[] = {
    COMMON_FIELDS,
    {.name = "hosts", .read = read_hosts},
    {.name = NULL},
};

typedef struct http_numbers {
  weir_config_listener listener; /* first: the common fields are read into it */
  int64_t denied_status, ipv4_bits, ipv6_bits;
} http_numbers;

static const weir_field http_fields[] = {
    COMMON_FIELDS,
    WEIR_ROW_RANGE("denied_status", NUMBER, http_numbers, denied_status, 400, 599),
    {.name = "hosts", .read = read_hosts},
    WEIR_ROW_READ("says", read_says, http_numbers, listener.says),
    WEIR_ROW("sets_limits", BOOL, http_numbers, listener.sets_limits),
    WEIR_ROW_READ("key", weir_read_key, http_numbers, listener.key),
    {.name = "trusted", .read = read_trusted},
    WEIR_ROW_RANGE("ipv4_bits", NUMBER, http_numbers, ipv4_bits, 1, 32),
    WEIR_ROW_RANGE("ipv6_bits", NUMBER, http_numbers, ipv6_bits, 1, 128),
    {.name = NULL},
};

/* --- listeners ----------------------------------------------------------------------------------
 */

bool weir_config_is_guarded(const weir_config_listener *listener) {
  return listener->credential_count > 0 || listener->tls.certificate != NULL || listener->insecure;
}

const char *weir_config_listen_path(weir_config_protocol protocol) {
  static const char *const paths[] = {[WEIR_CONFIG_RESP] = "listen.resp",
                                      [WEIR_CONFIG_HTTP] = "listen.http",
                                      [WEIR_CONFIG_GRPC] = "listen.grpc",
                                      [WEIR_CONFIG_ADMIN] = "listen.admin"};
  return paths[protocol];
}

/* Which address systemd has bound is known when it hands the socket over: see serve/listen.h. */
static bool is_open_to_others(const weir_config_listener *listener) {
  return listener->socket_length > 0 &&
         !weir_config_is_local((const struct sockaddr *)(const void *)&listener->socket);
}

static void check_listener(weir_reader *reader, const weir_node *node,
                           const weir_config_listener *listener) {
  const weir_config *config = reader->config;
  if (listener->kind != WEIR_CONFIG_UNIX &&
      (weir_node_find(node, "mode") != NULL || weir_node_find(node, "group") != NULL))
    weir_fault(reader, node, "mode and group are of unix sockets alone");
  if (listener->kind != WEIR_CONFIG_TCP && weir_node_find(node, "reuse_port") != NULL)
    weir_fault(reader, node, "reuse_port is of TCP addresses alone");

  if (is_open_to_others(listener) && !weir_config_is_guarded(listener))
    weir_fault(reader, node,
               "%s is open to other hosts: give it auth or tls, or say insecure: true",
               listener->address);

  bool is_local = listener->kind != WEIR_CONFIG_SYSTEMD && !is_open_to_others(listener);
  if (listener->sets_limits && !is_local && listener->credential_count == 0 &&
      listener->tls.client_ca == NULL)
    weir_fault(reader, node,
               "sets_limits: %s may be open to other hosts: give it auth, or client_ca of tls",
               listener->address);

  /* One address may be written in more than one way, and SO_REUSEPORT would let both have it. */
  for (size_t i = 0; i < config->listener_count; i++) {
    const weir_config_listener *other = &config->listeners[i];
    bool is_same = other->kind == listener->kind;
    if (is_same && listener->kind == WEIR_CONFIG_SYSTEMD)
      is_same = strcmp(other->name, listener->name) == 0;
    else if (is_same)
      is_same = listener->socket_length > 0 && listener->socket_length == other->socket_length &&
                memcmp(&listener->socket, &other->socket, listener->socket_length) == 0;
    if (is_same)
      weir_fault(reader, node, "address %s is that of the listener in line %u", listener->address,
                 other->place.line);
  }
}

static void read_listener(weir_reader *reader, const weir_node *node,
                          weir_config_protocol protocol) {
  static const weir_field *const fields_of[] = {[WEIR_CONFIG_RESP] = resp_fields,
                                                [WEIR_CONFIG_HTTP] = http_fields,
                                                [WEIR_CONFIG_GRPC] = fields,
                                                [WEIR_CONFIG_ADMIN] = admin_fields};
  weir_config *config = reader->config;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (config->listener_count == LISTENERS_MOST) {
    weir_fault(reader, node, "more than %d listeners", LISTENERS_MOST);
    return;
  }
  http_numbers read = {.listener = {.protocol = protocol,
                                    .place = weir_place(reader, node),
                                    .mode = 0660,
                                    .key = {WEIR_CONFIG_KEY_QUERY, "key"}},
                       .denied_status = 429};
  weir_config_listener *listener = &read.listener;
  weir_read_fields(reader, node, fields_of[protocol], &read);
  if (weir_node_find(node, "address") == NULL) {
    const char *address = default_addresses[protocol];
    const weir_node given = {.kind = WEIR_NODE_SCALAR,
                             .text = address,
                             .length = (uint32_t)strlen(address),
                             .line = node->line,
                             .column = node->column};
    read_address(reader, &given, listener);
  }
  listener->denied_status = (int)read.denied_status;
  listener->ipv4_bits = (unsigned)read.ipv4_bits;
  listener->ipv6_bits = (unsigned)read.ipv6_bits;
  if (listener->address == NULL) listener->address = "";
  check_listener(reader, node, listener);
  config->listeners[config->listener_count++] = *listener;
}

/* One listener, or a list of them; target: their protocol. */
static void read_listeners(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_protocol protocol = *(const weir_config_protocol *)target;
  if (node->kind != WEIR_NODE_SEQUENCE) {
    read_listener(reader, node, protocol);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    read_listener(reader, item->value, protocol);
}

void weir_read_listen(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_protocol protocols[] = {WEIR_CONFIG_RESP, WEIR_CONFIG_HTTP, WEIR_CONFIG_GRPC,
                                      WEIR_CONFIG_ADMIN};
  static const weir_field sections[] = {
      {.name = "resp", .read = read_listeners, .offset = 0 * sizeof *protocols},
      {.name = "http", .read = read_listeners, .offset = 1 * sizeof *protocols},
      {.name = "grpc", .read = read_listeners, .offset = 2 * sizeof *protocols},
      {.name = "admin", .read = read_listeners, .offset = 3 * sizeof *protocols},
      {.name = NULL},
  };
  weir_config *config = target;
  config->listeners = weir_arena_take(reader->arena, LISTENERS_MOST, sizeof *config->listeners);
  if (config->listeners != NULL) weir_read_fields(reader, node, sections, protocols);
}

/* The limiter's own key, or the listener's where that stands. */
static bool has_client_key(const weir_config *config, const weir_config_listener *listener) {
  bool has = listener->key.kind == WEIR_CONFIG_KEY_CLIENT;
  for (size_t i = 0; i < config->limiter_count; i++)
    has |= config->limiters[i].has_key && config->limiters[i].key.kind == WEIR_CONFIG_KEY_CLIENT;
  return has;
}

void weir_warn_of_untrusted(weir_reader *reader) {
  const weir_config *config = reader->config;
  for (size_t i = 0; i < config->listener_count; i++) {
    const weir_config_listener *listener = &config->listeners[i];
    if (listener->protocol != WEIR_CONFIG_HTTP || listener->trusted != NULL) continue;
    if (!is_open_to_others(listener) || !has_client_key(config, listener)) continue;
    weir_config_warn(reader->faults, listener->place, weir_config_listen_path(WEIR_CONFIG_HTTP),
                     "key: client without trusted: behind a proxy all clients are one, the proxy; "
                     "name it in trusted, or say trusted: [] where clients come themselves");
  }
}

bool weir_is_field_name(const char *text) {
  static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return *text != '\0' && strspn(text, name) == strlen(text);
}

void weir_read_key(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_key *key = target;
  const char *text = weir_read_text(reader, node);
  if (text == NULL) return;
  bool is_header = strncmp(text, "header:", 7) == 0;
  bool is_query = strncmp(text, "query:", 6) == 0;
  const char *rest = text + (is_header ? 7 : 6);
  for (size_t i = 0; is_query && i < WEIR_CONFIG_CLAIMS; i++) {
    if (strcmp(rest, weir_config_claims[i]) != 0) continue;
    weir_fault(reader, node,
               "query:%s is what a request says of itself; accepted is another name than class, "
               "limit and tenant",
               rest);
    return;
  }
  if (strcmp(text, "client") == 0)
    *key = (weir_config_key){WEIR_CONFIG_KEY_CLIENT, NULL};
  else if ((is_header || is_query) && weir_is_field_name(rest))
    *key = (weir_config_key){is_header ? WEIR_CONFIG_KEY_HEADER : WEIR_CONFIG_KEY_QUERY, rest};
  else
    weir_fault(reader, node,
               "found %s, accepted are header:NAME, query:NAME (NAME of A-Z a-z 0-9 _ . -) and "
               "client",
               weir_quote(node).text);
}
