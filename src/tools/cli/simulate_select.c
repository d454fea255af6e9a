/* Chooses requests of a log, and makes their keys and costs. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "logs/access_log.h"
#include "logs/trace.h"
#include "number.h"
#include "report.h"

#define KEYS_ACCEPTED                                                                         \
  "accepted are all for one key, or between commas, up to 4 of client, user, path, method, "  \
  "status, host, "                                                                            \
  "referer, agent, forwarded, of a --format its fields as they stand in it, and of --format " \
  "json any member; client/24/56 cuts addresses to networks"

#define NAMES_ACCEPTED                                                                      \
  "accepted are client, user, path, method, status, host, referer, agent, forwarded, of a " \
  "--format one of its fields as it stands in it, and of --format json any member"

/* --- the options ----------------------------------------------------------------------------- */

/* "/24" or "/24/56" behind a field of addresses. */
static bool read_bits(const char *text, size_t length, weir_cli_key_part *part) {
  int64_t ipv4 = 0, ipv6 = 0;
  bool addresses = part->field == WEIR_ACCESS_CLIENT || part->field >= WEIR_ACCESS_FIELDS;
  if (!addresses || length < 2 || text[0] != '/') return false;
  const char *second = memchr(text + 1, '/', length - 1);
  size_t first = second != NULL ? (size_t)(second - text) - 1 : length - 1;
  if (!weir_number_read(text + 1, first, 32, &ipv4) || ipv4 < 1) return false;
  if (second != NULL && (!weir_number_read(second + 1, length - first - 2, 128, &ipv6) || ipv6 < 1))
    return false;
  part->is_cut = true;
  part->ipv4_bits = (unsigned)ipv4;
  part->ipv6_bits = (unsigned)ipv6;
  return true;
}

/* A field by its name, or the next of the others; `length` bytes of text are the name. */
static bool read_field(weir_cli_selection *selection, const char *text, size_t length, int *field) {
  weir_access_others *others = &selection->others;
  for (*field = 0; *field < WEIR_ACCESS_FIELDS; ++*field) {
    const char *name = weir_access_field_name((weir_access_field)*field);
    if (strlen(name) == length && memcmp(text, name, length) == 0) return true;
  }
  for (size_t i = 0; i < others->count; i++) {
    const weir_access_text *name = &others->names[i];
    *field = WEIR_ACCESS_FIELDS + (int)i;
    if (name->length == length && memcmp(text, name->at, length) == 0) return true;
  }
  bool marked = length > 0 && (text[0] == '%' || text[0] == '$');
  bool accepted = selection->format == WEIR_CLI_FORMAT_PATTERN ? marked
                  : selection->format == WEIR_CLI_FORMAT_JSON  ? length > 0
                                                               : false;
  if (!accepted || others->count == WEIR_ACCESS_OTHERS_MOST) return false;
  *field = WEIR_ACCESS_FIELDS + (int)others->count;
  others->names[others->count++] = (weir_access_text){text, length};
  return true;
}

static bool read_part(weir_cli_selection *selection, const char *text, size_t length,
                      weir_cli_key_part *part) {
  const char *slash = length > 0 ? memchr(text, '/', length) : NULL;
  size_t named = slash != NULL ? (size_t)(slash - text) : length;
  *part = (weir_cli_key_part){0};
  if (!read_field(selection, text, named, &part->field) || part->field == WEIR_ACCESS_BYTES)
    return false;
  return slash == NULL || read_bits(slash, length - named, part);
}

static bool read_key(weir_cli_selection *selection, const char *text) {
  if (strcmp(text, "all") == 0) return true;
  for (const char *at = text; selection->part_count < WEIR_CLI_KEY_PARTS_MOST; at++) {
    size_t length = strcspn(at, ",");
    if (!read_part(selection, at, length, &selection->parts[selection->part_count++])) break;
    if (*(at += length) == '\0') return true;
  }
  weir_cli_error("--key \"%s\": " KEYS_ACCEPTED, weir_cli_show(text).text);
  return false;
}

static bool read_cost(weir_cli_selection *selection, const char *option, const char *text,
                      int *field) {
  *field = WEIR_ACCESS_ALL;
  if (text == NULL) return true;
  bool known = read_field(selection, text, strlen(text), field);
  if (known && (*field == WEIR_ACCESS_BYTES || *field >= WEIR_ACCESS_FIELDS)) return true;
  weir_cli_error(
      "--%s \"%s\": accepted are bytes, of a --format one of its fields as it stands "
      "in it, and of --format json any member",
      option, weir_cli_show(text).text);
  return false;
}

/* A field that says a name. */
static bool read_name(weir_cli_selection *selection, const char *option, const char *text,
                      int *field) {
  *field = WEIR_ACCESS_ALL;
  if (text == NULL ||
      (read_field(selection, text, strlen(text), field) && *field != WEIR_ACCESS_BYTES))
    return true;
  weir_cli_error("--%s \"%s\": " NAMES_ACCEPTED, option, weir_cli_show(text).text);
  return false;
}

/* A field, and what it counts where that is no second: "$request_time", "took/ms", Apache's %D. */
static bool read_duration(weir_cli_selection *selection, const char *text) {
  static const struct {
    const char *ends;
    size_t cut; /* of that, what is not of the field's name */
    int64_t us;
  } units[] = {{"/ms", 3, 1000}, {"/us", 3, 1},    {"/s", 2, 1000000},
               {"%D", 0, 1},     {"%{us}T", 0, 1}, {"%{ms}T", 0, 1000}};
  selection->duration = WEIR_ACCESS_ALL;
  selection->duration_unit_us = 1000000;
  if (text == NULL) return true;
  size_t length = strlen(text);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    size_t unit = strlen(units[i].ends);
    if (length < unit || strcmp(text + length - unit, units[i].ends) != 0) continue;
    length -= units[i].cut;
    selection->duration_unit_us = units[i].us;
    break;
  }
  if (read_field(selection, text, length, &selection->duration) &&
      selection->duration >= WEIR_ACCESS_FIELDS)
    return true;
  weir_cli_error(
      "--duration \"%s\": accepted are, of a --format, one of its fields as it stands in it, and "
      "of --format json any member, such as request_time; or took/ms, which counts milliseconds",
      weir_cli_show(text).text);
  return false;
}

/* "404,4xx". */
static bool read_status(const char *text) {
  static const char digits[] = "0123456789";
  for (const char *at = text; *at >= '1' && *at <= '9'; at++) {
    if (strncmp(at + 1, "xx", 2) != 0 && strspn(at + 1, digits) != 2) break;
    at += 3;
    if (*at == '\0') return true;
    if (*at != ',') break;
  }
  weir_cli_error("--status \"%s\": statuses between commas are accepted, such as 200,404,5xx",
                 weir_cli_show(text).text);
  return false;
}

bool weir_cli_selection_init(weir_cli_selection *selection, const weir_cli_options *options) {
  weir_message why;
  *selection = (weir_cli_selection){
      .format = options->format, .status = options->status, .path = options->path};
  const char *key = options->tenant_field != NULL ? "all" : "client"; /* one pool of all tenants */
  if (!read_key(selection, options->key != NULL ? options->key : key)) return false;
  if (!read_cost(selection, "cost", options->cost_field, &selection->cost) ||
      !read_cost(selection, "real", options->real_field, &selection->real) ||
      !read_name(selection, "class", options->class_field, &selection->class) ||
      !read_name(selection, "tenant",
                 weir_cli_tenant_is_key(options) ? NULL : options->tenant_field,
                 &selection->tenant) ||
      !read_duration(selection, options->duration_field))
    return false;
  if (options->status != NULL && !read_status(options->status)) return false;
  if (options->trust == NULL ||
      weir_http_networks_create(options->trust, &selection->trusted, &why) == WEIR_OK)
    return true;
  weir_cli_error("--trust: %s", why.text);
  return false;
}

void weir_cli_selection_clean_up(weir_cli_selection *selection) {
  weir_http_networks_destroy(selection->trusted);
  free(selection->key);
  *selection = (weir_cli_selection){0};
}

/* --- a request ------------------------------------------------------------------------------- */

static bool is_filtered(const weir_cli_selection *selection, const weir_access *access) {
  weir_access_text path = access->fields[WEIR_ACCESS_PATH];
  weir_access_text status = access->fields[WEIR_ACCESS_STATUS];
  size_t prefix = selection->path != NULL ? strlen(selection->path) : 0;
  if (prefix > path.length || (prefix > 0 && memcmp(path.at, selection->path, prefix) != 0))
    return true;
  if (selection->status == NULL) return false;
  for (const char *at = selection->status; status.length == 3; at += 4) { /* "404,4xx" */
    bool alike = at[0] == status.at[0];
    if (alike && (at[1] == 'x' || memcmp(at, status.at, 3) == 0)) return false;
    if (at[3] == '\0') break;
  }
  return true;
}

/* A copy with an end, where it is short enough to be an address; else "". */
static const char *as_text(weir_access_text text, char *copy, size_t room) {
  size_t length = text.length < room ? text.length : 0;
  if (length > 0) memcpy(copy, text.at, length);
  copy[length] = '\0';
  return copy;
}

/* A text that is no address, a name say, stays as it is. */
static weir_access_text find_address(const weir_cli_selection *selection,
                                     const weir_cli_key_part *part, const weir_access *access,
                                     char key[WEIR_HTTP_CLIENT_KEY_BYTES]) {
  enum { PEER_BYTES = 64, FORWARDED_BYTES = 4096 };
  char peer[PEER_BYTES], forwarded[FORWARDED_BYTES];
  weir_access_text client = access->fields[part->field];
  weir_access_text list = access->fields[WEIR_ACCESS_FORWARDED];
  const weir_http_networks *trusted = part->field == WEIR_ACCESS_CLIENT ? selection->trusted : NULL;
  weir_message unused;
  if (client.length == 0 || (!part->is_cut && trusted == NULL)) return client;
  /* The right end of a list that is too long counts, which the nearest proxies have written. */
  if (list.length >= FORWARDED_BYTES) {
    list.at += list.length - (FORWARDED_BYTES - 1);
    list.length = FORWARDED_BYTES - 1;
  }
  weir_status status = weir_http_client_key(
      trusted, as_text(client, peer, sizeof peer),
      list.length > 0 ? as_text(list, forwarded, sizeof forwarded) : NULL,
      part->is_cut ? part->ipv4_bits : 32, part->is_cut ? part->ipv6_bits : 128, key, &unused);
  return status == WEIR_OK ? (weir_access_text){key, strlen(key)} : client;
}

/* Where a line says nothing, as where no byte was sent, the cost is 1, the least there is. One that
 * is more than a limiter takes makes the line malformed: it is not cut down. */
static weir_cli_selected read_number(weir_access_text text, int64_t least, int64_t *cost) {
  *cost = least;
  for (size_t i = 0; i < text.length; i++)
    if (text.at[i] < '0' || text.at[i] > '9') return WEIR_CLI_COSTLESS;
  if (text.length > 0 && !weir_number_read(text.at, text.length, WEIR_TRACE_COST_MOST, cost))
    return WEIR_CLI_TOO_DEAR;
  if (*cost < least) *cost = least;
  return WEIR_CLI_SELECTED;
}

static bool read_time_taken(const weir_cli_selection *selection, weir_access_text text,
                            int64_t *duration_us) {
  if (text.length == 0) return false;
  weir_line_rest rest = {text.at, text.at + text.length};
  return weir_line_take_duration(&rest, selection->duration_unit_us, duration_us) &&
         rest.at == rest.end;
}

weir_cli_selected weir_cli_select(weir_cli_selection *selection, const weir_access *access,
                                  weir_cli_selected_request *request) {
  static const char all[] = "all";
  size_t written = 0;
  *request = (weir_cli_selected_request){.key = {all, sizeof all - 1}, .cost = 1};
  if (is_filtered(selection, access)) return WEIR_CLI_FILTERED;
  for (size_t i = 0; i < selection->part_count; i++) {
    char client[WEIR_HTTP_CLIENT_KEY_BYTES];
    const weir_cli_key_part *part = &selection->parts[i];
    weir_access_text text = find_address(selection, part, access, client);
    if (text.length == 0) return WEIR_CLI_KEYLESS;
    if (!weir_array_grow(&selection->key, &selection->key_room, written + text.length + 1, 1))
      return WEIR_CLI_SELECT_NO_MEMORY;
    memcpy(selection->key + written, text.at, text.length);
    written += text.length;
    selection->key[written++] = ' ';
  }
  if (written > 0) request->key = (weir_access_text){selection->key, written - 1};
  if (selection->tenant != WEIR_ACCESS_ALL) request->tenant = access->fields[selection->tenant];
  if (selection->tenant != WEIR_ACCESS_ALL && request->tenant.length == 0) return WEIR_CLI_KEYLESS;
  if (selection->class != WEIR_ACCESS_ALL) request->class_name = access->fields[selection->class];
  weir_cli_selected found = WEIR_CLI_SELECTED;
  if (selection->cost != WEIR_ACCESS_ALL)
    found = read_number(access->fields[selection->cost], 1, &request->cost);
  if (found == WEIR_CLI_SELECTED && selection->duration != WEIR_ACCESS_ALL &&
      !read_time_taken(selection, access->fields[selection->duration], &request->duration_us))
    return WEIR_CLI_TIMELESS;
  if (found != WEIR_CLI_SELECTED || selection->real == WEIR_ACCESS_ALL) return found;
  found = read_number(access->fields[selection->real], 0, &request->real);
  return found == WEIR_CLI_COSTLESS   ? WEIR_CLI_REALLESS
         : found == WEIR_CLI_TOO_DEAR ? WEIR_CLI_REAL_TOO_DEAR
                                      : found;
}
