/* Where a listener listens: "127.0.0.1:6380", "[::1]:6380", "unix:/path", "systemd:NAME". */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "config/reader.h"

#define ACCEPTED                                                                               \
  "accepted are ADDRESS:PORT as 127.0.0.1:6380, [::1]:6380 or localhost:6380, unix:/PATH and " \
  "systemd:NAME"

static bool read_port(const char *text, in_port_t *port) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 5 || text[digits] != '\0') return false;
  long number = strtol(text, NULL, 10);
  *port = htons((uint16_t)number);
  return number >= 1 && number <= 65535;
}

static void set_socket(weir_config_listener *listener, const void *address, size_t length) {
  memcpy(&listener->socket, address, length);
  listener->socket_length = (socklen_t)length;
}

/* `host` stands without its brackets. */
static bool read_host(const char *host, bool has_brackets, in_port_t port,
                      weir_config_listener *listener) {
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
  if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
  if (!has_brackets && inet_pton(AF_INET, host, &four.sin_addr) == 1)
    set_socket(listener, &four, sizeof four);
  else if (has_brackets && inet_pton(AF_INET6, host, &six.sin6_addr) == 1)
    set_socket(listener, &six, sizeof six);
  return listener->socket_length != 0;
}

static bool read_tcp(const char *text, weir_config_listener *listener) {
  char host[64];
  in_port_t port;
  bool has_brackets = text[0] == '[';
  const char *colon = strrchr(text, ':');
  const char *end = has_brackets ? strchr(text, ']') : colon;
  const char *start = text + has_brackets;
  if (colon == NULL || end == NULL || end + has_brackets != colon) return false;
  if ((size_t)(end - start) >= sizeof host || !read_port(colon + 1, &port)) return false;
  memcpy(host, start, (size_t)(end - start));
  host[end - start] = '\0';
  listener->kind = WEIR_CONFIG_TCP;
  return read_host(host, has_brackets, port, listener);
}

static void read_unix(weir_reader *reader, const weir_node *node, const char *path,
                      weir_config_listener *listener) {
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
}

void weir_read_address(weir_reader *reader, const weir_node *node, weir_config_listener *listener) {
  const char *text = weir_read_text(reader, node);
  if (text == NULL) return;
  listener->address = text;
  if (strncmp(text, "unix:", 5) == 0) {
    read_unix(reader, node, text + 5, listener);
  } else if (strncmp(text, "systemd:", 8) == 0 && text[8] != '\0') {
    listener->kind = WEIR_CONFIG_SYSTEMD;
    listener->name = text + 8;
  } else if (!read_tcp(text, listener)) {
    weir_fault(reader, node, "found %s, " ACCEPTED, weir_quote(node).text);
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
