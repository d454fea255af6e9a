/* Feeds the URL parser: any bytes at all, and a secret among any bytes in front of a '@'. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "store/store.h"
#include "store/url.h"

#define SECRET "Zq7-Xw9_Kp4"

static const char *const options[] = {"protocol", "depth", NULL};
static const weir_scheme here_schemes[] = {{"a", 0}, {NULL, 0}};
static const weir_scheme net_schemes[] = {{"b", WEIR_URL_HOSTS},
                                          {"c", WEIR_URL_HOST | WEIR_URL_USER},
                                          {"d", WEIR_URL_PATH},
                                          {"e", WEIR_URL_PATH | WEIR_URL_USER},
                                          {"f", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                          {NULL, 0}};
static const weir_backend here = {.name = "here", .schemes = here_schemes, .options = options};
static const weir_backend net = {.name = "net", .schemes = net_schemes, .options = options};
static const weir_backend *const backends[] = {&here, &net, NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned parts_of(const weir_parsed_url *parsed) {
  for (const weir_scheme *scheme = parsed->backend->schemes; scheme->name != NULL; scheme++) {
    if (strcmp(scheme->name, parsed->url.scheme) == 0) return scheme->parts;
  }
  abort();
}

static void check_hosts(const weir_url *url) {
  for (size_t i = 0; i < url->host_count; i++) {
    size_t length = strlen(url->hosts[i].name);
    require(length >= 1 && length <= WEIR_URL_HOST_NAME_MOST);
    require(url->hosts[i].weight >= 1 && url->hosts[i].weight <= WEIR_URL_WEIGHT_MOST);
    for (size_t at = 0; at < length; at++)
      require(url->hosts[i].name[at] != ' ');
  }
}

static void check_options(const weir_url *url) {
  weir_message message = {""};
  int64_t number = -1;
  for (size_t i = 0; i < url->option_count; i++) {
    const char *name = url->options[i].name;
    require(weir_url_find(url, name) == url->options[i].value); /* so none is there twice */
    require(url->options[i].value[0] != '\0');
    if (weir_url_duration(url, name, 1000, 60000000, 1000, &number, &message) == WEIR_OK)
      require(number >= 1000 && number <= 60000000);
    if (weir_url_integer(url, name, -10, 10, 0, &number, &message) == WEIR_OK)
      require(number >= -10 && number <= 10);
  }
}

static void check_accepted(const weir_parsed_url *parsed) {
  const weir_url *url = &parsed->url;
  unsigned parts = parts_of(parsed);
  bool hosts = (parts & (WEIR_URL_HOST | WEIR_URL_HOSTS)) != 0;
  require((url->host_count > 0) == hosts);
  require(url->host_count <= 1 || parts & WEIR_URL_HOSTS);
  require(url->path == NULL || parts & WEIR_URL_PATH);
  require(url->path != NULL || hosts || !(parts & WEIR_URL_PATH)); /* optional after a host */
  require(url->path == NULL || url->path[0] == '/');
  require((url->user == NULL && url->password == NULL) || parts & WEIR_URL_USER);
  check_hosts(url);
  check_options(url);
}

static void parse(const char *text, const weir_backend *const *among, weir_message *message) {
  weir_parsed_url parsed;
  message->text[0] = '\0';
  if (weir_url_parse(text, among, &parsed, message) == WEIR_OK) {
    check_accepted(&parsed);
    weir_url_clear(&parsed);
  } else {
    require_readable(message);
  }
}

/* The input is cut in three at newlines: what is before the secret, between it and the '@', and
 * after. */
static void parse_with_secret(char *text) {
  static char url[2 * WEIR_URL_BYTES_MOST];
  weir_message message;
  char *middle = text + strcspn(text, "\n");
  if (*middle != '\0') *middle++ = '\0';
  char *end = middle + strcspn(middle, "\n");
  if (*end != '\0') *end++ = '\0';
  for (char scheme = 'a'; scheme <= 'f'; scheme++) {
    snprintf(url, sizeof url, "%c://%s" SECRET "%s@%s", scheme, text, middle, end);
    parse(url, backends, &message);
    require(strstr(message.text, SECRET) == NULL);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weir_message message;
  if (size > WEIR_URL_BYTES_MOST + 16) return -1;
  char *text = malloc(size + 1);
  if (text == NULL) abort();
  memcpy(text, data, size);
  text[size] = '\0';
  parse(text, backends, &message);
  parse(text, weir_builtin_backends, &message);
  if (strstr(text, SECRET) == NULL) parse_with_secret(text);
  free(text);
  return 0;
}
