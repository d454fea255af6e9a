/* envoy: which descriptor files are read, and what holds for their domains. */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/reader.h"

enum { FILES_MOST = 1000, PATTERNS_MOST = 100, DOMAINS_MOST = 1000 };

/* --- domains ------------------------------------------------------------------------------------
 */

static const char *const counts[] = {"admitted", "all", NULL};

typedef struct domain_fields {
  weir_config_domain *domain;
  int algorithm, counts, headers;
  bool together, calendar;
} domain_fields;

static void read_store(weir_reader *reader, const weir_node *node, void *target) {
  ((domain_fields *)target)->domain->store = weir_find_store(reader, node, node);
}

static const weir_field domain_table[] = {
    {.name = "store", .read = read_store},
    {.name = "algorithm",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(domain_fields, algorithm),
     .choices = weir_config_algorithms},
    {.name = "count",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(domain_fields, counts),
     .choices = counts},
    {.name = "calendar", .type = WEIR_FIELD_BOOL, .offset = offsetof(domain_fields, calendar)},
    {.name = "headers",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(domain_fields, headers),
     .choices = weir_config_header_styles},
    {.name = "together", .type = WEIR_FIELD_BOOL, .offset = offsetof(domain_fields, together)},
    {.name = NULL},
};

static void read_domain(weir_reader *reader, const weir_node_item *item,
                        weir_config_domain *domain) {
  domain_fields read = {.domain = domain, .headers = WEIR_CONFIG_HEADERS_OFF};
  weir_read_fields(reader, item->value, domain_table, &read);
  domain->algorithm = (weir_config_algorithm)read.algorithm;
  domain->counts_all = read.counts == 1;
  domain->together = read.together;
  domain->calendar = read.calendar;
  domain->headers = (weir_config_headers)read.headers;
  if (item->value->kind != WEIR_NODE_MAPPING) return;
  if (weir_node_find(item->value, "store") == NULL)
    domain->store = weir_find_store(reader, NULL, item->key);
  if (domain->counts_all && domain->algorithm == WEIR_CONFIG_BUCKET)
    weir_fault(reader, item->key, "count: all is of windows and quotas, and not of token-bucket");
  if (domain->calendar && domain->algorithm != WEIR_CONFIG_FIXED)
    weir_fault(reader, item->key, "calendar: true is of fixed-window alone");
  if (domain->counts_all && domain->together)
    weir_fault(reader, item->key, "count: all keeps what together: true would give back");
}

static void read_domains(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_envoy *envoy = target;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (node->length > DOMAINS_MOST) {
    weir_fault(reader, node, "found %u domains, accepted are %d", node->length, DOMAINS_MOST);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_domain *domain = &envoy->domains[envoy->domain_count];
    size_t length = weir_path_enter(reader, item->key->text);
    domain->name = weir_read_text(reader, item->key);
    if (domain->name != NULL) {
      envoy->domain_count++;
      read_domain(reader, item, domain);
    }
    weir_path_leave(reader, length);
  }
}

/* --- files --------------------------------------------------------------------------------------
 */

/* A file that comes or goes is a change of its folder. */
static void watch_folder(weir_reader *reader, const char *file) {
  const char *slash = strrchr(file, '/');
  size_t length = slash != NULL ? (size_t)(slash - file) + 1 : 0;
  const char *folder = length > 0 ? weir_arena_copy(reader->arena, file, length) : ".";
  if (folder != NULL) weir_watch_file(reader, folder);
}

static void read_file(weir_reader *reader, const weir_node *node, const char *name) {
  struct stat found;
  size_t length;
  weir_reader *inner = calloc(1, sizeof *inner);
  const char *file = weir_arena_copy(reader->arena, name, strlen(name));
  if (inner == NULL || file == NULL) {
    reader->arena->failed = true;
    free(inner);
    return;
  }
  *inner = (weir_reader){file, reader->arena, reader->faults, reader->config, ""};
  weir_watch_file(reader, file);
  if (stat(file, &found) == 0 && !S_ISREG(found.st_mode)) {
    weir_fault(reader, node, "file \"%.200s\" is no regular file", file);
  } else {
    char *text = weir_config_read_bytes(file, &length, reader->faults);
    if (text != NULL) weir_read_descriptor_file(inner, text, length);
    free(text);
  }
  free(inner);
}

/* A folder that cannot be read matches nothing; but it may be that memory was lacking for it. */
static int stop_without_memory(const char *folder, int error) {
  (void)folder;
  return error == ENOMEM;
}

/* A name, or a pattern of names. */
static void read_pattern(weir_reader *reader, const weir_node *node, size_t *count) {
  glob_t found = {0};
  const char *text = weir_read_text(reader, node);
  const char *pattern = text != NULL ? weir_resolve_file(reader, text) : NULL;
  if (pattern == NULL) return;
  watch_folder(reader, pattern);
  int failed = glob(pattern, GLOB_NOCHECK, stop_without_memory, &found);
  bool matches = failed == 0 && (found.gl_pathc > 1 || strcmp(found.gl_pathv[0], pattern) != 0 ||
                                 strpbrk(pattern, "*?[") == NULL);
  if (failed != 0)
    reader->arena->failed = true;
  else if (!matches)
    weir_fault(reader, node, "no file is named like this");
  for (size_t i = 0; matches && i < found.gl_pathc; i++) {
    if ((*count)++ == FILES_MOST) weir_fault(reader, node, "more than %d files", FILES_MOST);
    if (*count > FILES_MOST) break;
    watch_folder(reader, found.gl_pathv[i]);
    read_file(reader, node, found.gl_pathv[i]);
  }
  if (failed == 0) globfree(&found);
}

static void read_files(weir_reader *reader, const weir_node *node, void *target) {
  size_t count = 0;
  (void)target;
  if (node->kind == WEIR_NODE_SCALAR) {
    read_pattern(reader, node, &count);
    return;
  }
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  if (node->length > PATTERNS_MOST) {
    weir_fault(reader, node, "found %u patterns, accepted are %d", node->length, PATTERNS_MOST);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    read_pattern(reader, item->value, &count);
}

/* --- the section --------------------------------------------------------------------------------
 */

bool weir_envoy_make_room(weir_reader *reader) {
  weir_config_envoy *envoy = &reader->config->envoy;
  envoy->domains =
      weir_arena_take(reader->arena, DOMAINS_MOST + FILES_MOST, sizeof *envoy->domains);
  return envoy->domains != NULL;
}

/* What holds for a domain is known before its file is read. */
void weir_read_envoy(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      {.name = "domains", .read = read_domains},
      {.name = "files", .read = read_files},
      {.name = NULL},
  };
  weir_config_envoy *envoy = &((weir_config *)target)->envoy;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING) || !weir_envoy_make_room(reader)) return;
  weir_read_fields(reader, node, fields, envoy);
  if (weir_node_find(node, "files") == NULL) {
    weir_fault(reader, node, "files is missing, such as \"files: ratelimit/*.yaml\"");
    return;
  }
  const weir_node *domains = weir_node_find(node, "domains");
  if (domains == NULL || domains->kind != WEIR_NODE_MAPPING) return;
  for (const weir_node_item *item = domains->items; item != NULL; item = item->next)
    for (size_t i = 0; i < envoy->domain_count; i++)
      if (strcmp(envoy->domains[i].name, item->key->text) == 0 &&
          envoy->domains[i].place.file == NULL)
        weir_fault(reader, item->key, "no file of envoy.files has the domain %s",
                   weir_quote(item->key).text);
}
