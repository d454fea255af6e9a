/* Any bytes as a file of overrides: what is wrong is said in readable lines, and where nothing is, each
 * line's key is in its tier. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/require.h"
#include "registry/registry.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Keys of the list stand before those of the file. */
static const char form[] =
    "listen: {resp: {}}\n"
    "stores: {m: {url: \"memory:\"}}\n"
    "limiters: {api: {rule: quota:1/1s, overrides_file: /proc/self/fd/%d,\n"
    "  tiers: {a: unlimited, b: blocked}, overrides: {listed: a, \"wild*\": b}}}\n";

static bool is_listed(const char *key, size_t length) {
  return length == 6 && memcmp(key, "listed", length) == 0;
}

static void check_line(const weir_named *named, const char *line, size_t length) {
  if (length > 0 && line[length - 1] == '\r') length--;
  if (length == 0) return;
  size_t key = length - 2; /* before the tab and a tier of one letter */
  require(length > 2 && line[key] == '\t');
  weir_target target = weir_named_target(named, line, key);
  char tier = is_listed(line, key) ? 'a' : line[key + 1];
  require(target.tier[0] == tier && target.tier[1] == '\0');
  require(target.kind == (tier == 'a' ? WEIR_TARGET_UNLIMITED : WEIR_TARGET_BLOCKED));
}

static void check_lines(const weir_named *named, const char *text, size_t size) {
  const char *end = text + size;
  for (const char *line = text; line < end;) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (stop == NULL) stop = end;
    check_line(named, line, (size_t)(stop - line));
    line = stop + 1;
  }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static weir_config_faults faults;
  char text[sizeof form + 16];
  faults.kept = faults.count = 0;
  int file = memfd_create("overrides", MFD_CLOEXEC);
  require(file >= 0 && write(file, data, size) == (ssize_t)size);
  int length = snprintf(text, sizeof text, form, file);
  weir_config *config = weir_config_read_text("f.yaml", text, (size_t)length, &faults);
  require(config != NULL && faults.count == 0);
  weir_registry *registry = weir_registry_create(config, NULL, &faults);
  require((registry == NULL) == (faults.count > 0));
  for (size_t i = 0; i < faults.kept; i++)
    require_readable(&faults.lines[i].text);
  if (registry != NULL) check_lines(&registry->named[0], (const char *)data, size);
  weir_registry_release(registry);
  close(file);
  return 0;
}
