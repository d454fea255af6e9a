/* explain: which limit of a configuration a key has, and why; what is used, and when more will fit.
 *
 *     list, tier or rule ──> each rule alone ──> peeks of rising cost ──> how long each would wait
 *
 * A rule that stands alone counts as it does in its stack; one without classes is asked without any.
 * Where keys have limits of their own, the rule with most= reads the key's from the store, as the server
 * does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/word.h>

#include "decision.h"
#include "options.h"
#include "output.h"
#include "registry/registry.h"
#include "report.h"
#include "serve.h"

enum { PARTS = 4, DIGITS = 4 };

/* What is to be known of one rule. */
typedef struct explained_rule {
  char *text;
  bool is_steered;                 /* a key may have a limit of its own in the store, ... */
  char own[WEIR_LIMIT_NAME_BYTES]; /* ... and this one has it */
  weir_decision now;               /* of a request of cost 1 */
  struct {
    int64_t amount, in_us; /* WEIR_NEVER: a rule takes no such request */
  } later[PARTS];
  size_t later_count;
} explained_rule;

/* What is to be known of the key. */
typedef struct explained {
  const weir_named *named;
  const char *key;
  size_t key_length;
  const char *class_name, *tenant; /* of the request; NULL: none */
  char *counted; /* the key in the store, without what the library puts around it */
  size_t counted_length;
  weir_target target;
  weir_named_entry entry;
  bool is_enforced;
  explained_rule *rules;
  size_t rule_count;
} explained;

/* --- asked -----------------------------------------------------------------------------------
 */

static weir_status look(weir_limiter *limiter, const explained *one, int64_t cost,
                        weir_decision *decision, weir_message *message) {
  weir_request request = {.key = one->counted,
                          .key_length = one->counted_length,
                          .cost = cost,
                          .flags = WEIR_REQUEST_PEEK};
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[] = {&extra};
  char lowest[WEIR_CLASS_NAME_BYTES];
  if (weir_limiter_read_class(limiter, 0, lowest) == WEIR_OK) extra.class_name = one->class_name;
  extra.tenant = one->tenant;
  extra.tenant_length = one->tenant != NULL ? strlen(one->tenant) : 0;
  weir_status status = weir_decide_extra(&limiter, &request, extras, 1, message);
  *decision = request.decision;
  return status;
}

/* When a quarter, half, three quarters and all of the limit will fit, as far as it does not now. */
static weir_status look_ahead(weir_limiter *limiter, const explained *one, explained_rule *rule,
                              weir_message *message) {
  for (int64_t part = 1; part <= PARTS; part++) {
    int64_t limit = rule->now.limit;
    int64_t amount = limit / PARTS * part + limit % PARTS * part / PARTS;
    weir_decision decision;
    if (amount < 1 || amount <= rule->now.remaining ||
        (rule->later_count > 0 && amount == rule->later[rule->later_count - 1].amount))
      continue;
    weir_status status = look(limiter, one, amount, &decision, message);
    if (status == WEIR_BAD_COST) return WEIR_OK; /* a sliding log takes one at a time */
    if (status != WEIR_OK) return status;
    rule->later[rule->later_count].amount = amount;
    rule->later[rule->later_count++].in_us = decision.allowed ? 0 : decision.retry_after_us;
  }
  return WEIR_OK;
}

/* Limits of keys are for the one rule that has most=; alone, another would refuse them. */
static weir_status explain_rule(weir_store *store, weir_limiter_options options,
                                const explained *one, explained_rule *rule, weir_message *message) {
  weir_limiter *limiter = NULL;
  rule->is_steered = options.limits_us > 0 && strstr(rule->text, ",most=") != NULL;
  weir_limit own = {.key = one->counted, .key_length = one->counted_length};
  if (!rule->is_steered) {
    options.limits_us = 0;
    options.flags &= ~(unsigned)WEIR_ABSENT_DENIES;
  }
  weir_status status = weir_limiter_create(store, rule->text, &options, &limiter, message);
  if (status == WEIR_OK && rule->is_steered)
    status = weir_limiter_read_limit(limiter, &own, message);
  if (status == WEIR_OK) weir_limiter_format_limit(limiter, &own, rule->own);
  if (status == WEIR_OK) status = look(limiter, one, 1, &rule->now, message);
  if (status == WEIR_OK) status = look_ahead(limiter, one, rule, message);
  weir_limiter_destroy(limiter);
  return status;
}

/* A policy has no say: where the store does not answer, that is told. */
static weir_status explain_rules(const weir_registry *registry, explained *one, const char *rules,
                                 weir_message *message) {
  const weir_config_store *config = one->named->config->store;
  weir_store *store = weir_registry_store_at(registry, (size_t)(config - registry->config->stores));
  weir_limiter_options options = weir_registry_options(config, one->named->config);
  options.fallback = WEIR_FALLBACK_NONE;
  one->rules = calloc(strlen(rules) + 1, sizeof *one->rules);
  if (one->rules == NULL) return WEIR_NO_MEMORY;
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  weir_store_read_times(store, &times);
  weir_store_connect(store, times.connect_timeout_us, message); /* the look says it, if it fails */
  for (const char *rest = rules; *rest != '\0';) {
    explained_rule *rule = &one->rules[one->rule_count++];
    size_t length = strcspn(rest, ";");
    rule->text = strndup(rest, length);
    if (rule->text == NULL) return WEIR_NO_MEMORY;
    rest += length + (rest[length] == ';');
    weir_status status = explain_rule(store, options, one, rule, message);
    if (status != WEIR_OK) return status;
  }
  return WEIR_OK;
}

static weir_status refuse_name(const weir_registry *registry, const char *name,
                               weir_message *message) {
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (size_t i = 0; i < registry->named_count; i++)
    if (weir_word_nearer(name, strlen(name), registry->named[i].config->name, &distance))
      nearest = registry->named[i].config->name;
  if (weir_registry_find_group(registry, name, strlen(name)) != NULL)
    snprintf(message->text, sizeof message->text,
             "\"%s\" is a group: the name of one of its members is accepted", name);
  else if (nearest != NULL)
    snprintf(message->text, sizeof message->text, "no limiter \"%s\": did you mean \"%s\"?",
             weir_cli_show(name).text, nearest);
  else
    snprintf(message->text, sizeof message->text, "no limiter \"%s\" in this configuration",
             weir_cli_show(name).text);
  return WEIR_BAD_ARGUMENT;
}

/* The class and tenant that a server would give the request, unless it is said here. */
static weir_status set_extra(const weir_registry *registry, explained *one,
                             const weir_cli_options *options, weir_message *message) {
  const weir_named *named = one->named;
  one->tenant = options->tenant;
  one->class_name = options->class_name != NULL ? options->class_name : named->config->class_else;
  if (one->target.kind != WEIR_TARGET_LIMITER) return WEIR_OK;
  if (options->class_name != NULL &&
      (options->class_name[0] == '\0' ||
       weir_named_find_class(registry, named, options->class_name) == SIZE_MAX))
    snprintf(message->text, sizeof message->text, "--class: the limiter %s has no class \"%s\"",
             named->config->name, weir_cli_show(options->class_name).text);
  else if (one->tenant == NULL &&
           weir_limiter_check_extra(one->target.limiter, NULL, NULL) != WEIR_OK)
    snprintf(message->text, sizeof message->text,
             "the limiter %s is shared by tenants: --tenant NAME is needed", named->config->name);
  else
    return WEIR_OK;
  return WEIR_BAD_ARGUMENT;
}

/* "api:alice": as docs/configuration.md says. */
static weir_status find(const weir_registry *registry, explained *one,
                        const weir_cli_options *options, weir_message *message) {
  const char *name = options->arguments[1];
  one->named = weir_registry_find(registry, name, strlen(name));
  if (one->named == NULL) return refuse_name(registry, name, message);
  one->target = weir_named_target(one->named, one->key, one->key_length);
  one->entry = weir_named_find_entry(one->named, one->key, one->key_length);
  weir_status status = set_extra(registry, one, options, message);
  if (status != WEIR_OK) return status;
  one->is_enforced = weir_named_enforces(one->named, one->key, one->key_length);
  one->counted_length = one->named->prefix_length + one->key_length;
  one->counted = malloc(one->counted_length + 1);
  if (one->counted == NULL) return WEIR_NO_MEMORY;
  memcpy(one->counted, one->named->prefix, one->named->prefix_length);
  memcpy(one->counted + one->named->prefix_length, one->key, one->key_length + 1);
  if (one->target.kind != WEIR_TARGET_LIMITER) return WEIR_OK;
  const char *rules = one->named->config->rule;
  const char *name_of_tier = one->target.tier;
  const weir_config_tier *tier =
      weir_config_find_tier(one->named->config, name_of_tier, strlen(name_of_tier));
  if (tier != NULL) rules = tier->rule;
  return explain_rules(registry, one, rules, message);
}

/* --- told ------------------------------------------------------------------------------------
 */

static const char *const kinds[] = {[WEIR_TARGET_LIMITER] = "limited",
                                    [WEIR_TARGET_UNLIMITED] = "unlimited",
                                    [WEIR_TARGET_BLOCKED] = "blocked"};

static void print_rule(const explained_rule *rule) {
  char in[WEIR_CLI_DURATION_BYTES];
  const weir_decision *now = &rule->now;
  printf("%s\n  ", rule->text);
  if (rule->is_steered) printf("limit of the key: %s\n  ", rule->own);
  weir_cli_decision_text(stdout, now, false, false);
  for (size_t i = 0; i < rule->later_count; i++) {
    weir_cli_format_duration(rule->later[i].in_us, in);
    printf("%s%" PRId64 " %s%s", i == 0 ? "  " : ", ", rule->later[i].amount,
           rule->later[i].in_us == WEIR_NEVER ? "never fit" : "fit in ",
           rule->later[i].in_us == WEIR_NEVER ? "" : in);
  }
  if (rule->later_count > 0) printf("\n");
}

static void print_text(const explained *one) {
  const weir_config_limiter *config = one->named->config;
  printf("counted as ");
  weir_cli_print_key(stdout, one->counted, one->counted_length, SIZE_MAX);
  printf(" on store %s\n%s", config->store->name, kinds[one->target.kind]);
  if (one->target.tier[0] != '\0') printf(" by tier %s", one->target.tier);
  if (one->entry.list != NULL) {
    printf(", as %s has ", one->entry.list);
    weir_cli_print_key(stdout, one->entry.text, one->entry.length, SIZE_MAX);
  }
  if (config->enforced < WEIR_CONFIG_ALL_KEYS)
    printf("; %s, as %g %% of the keys are enforced",
           one->is_enforced ? "enforced" : "in shadow mode",
           config->enforced * 100. / WEIR_CONFIG_ALL_KEYS);
  printf("\n");
  for (size_t i = 0; i < one->rule_count; i++)
    print_rule(&one->rules[i]);
}

static json_t *rule_of(const explained_rule *rule) {
  json_t *later = json_array();
  for (size_t i = 0; i < rule->later_count; i++)
    json_array_append_new(later, json_pack("{sIsI}", "amount", (json_int_t)rule->later[i].amount,
                                           "in_us", (json_int_t)rule->later[i].in_us));
  json_t *object =
      json_pack("{sssbsIsIsIsIso}", "rule", rule->text, "allowed", rule->now.allowed, "limit",
                (json_int_t)rule->now.limit, "remaining", (json_int_t)rule->now.remaining,
                "retry_after_us", (json_int_t)rule->now.retry_after_us, "reset_after_us",
                (json_int_t)rule->now.reset_after_us, "fits", later);
  if (object == NULL || !rule->is_steered ||
      json_object_set_new(object, "key_limit", json_string(rule->own)) == 0)
    return object;
  json_decref(object);
  return NULL;
}

/* False: not enough memory. */
static bool print_json(const explained *one) {
  const weir_config_limiter *config = one->named->config;
  json_t *rules = json_array();
  for (size_t i = 0; i < one->rule_count; i++)
    json_array_append_new(rules, rule_of(&one->rules[i]));
  json_t *object =
      json_pack("{sssssssssbsfso}", "limiter", config->name, "store", config->store->name, "kind",
                kinds[one->target.kind], "tier", one->target.tier, "enforced", one->is_enforced,
                "enforce", config->enforced * 100. / WEIR_CONFIG_ALL_KEYS, "rules", rules);
  bool whole = object != NULL && json_array_size(rules) == one->rule_count &&
               weir_cli_json_set_bytes(object, "key", one->key, one->key_length) &&
               weir_cli_json_set_bytes(object, "counted", one->counted, one->counted_length) &&
               (one->entry.list == NULL ||
                (json_object_set_new(object, "list", json_string(one->entry.list)) == 0 &&
                 weir_cli_json_set_bytes(object, "entry", one->entry.text, one->entry.length)));
  bool printed = whole && weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  return printed;
}

static int tell(const explained *one, bool json) {
  if (!json)
    print_text(one);
  else if (!print_json(one))
    return weir_cli_fail_memory();
  return weir_cli_flush();
}

int weir_cli_explain(const weir_cli_options *options) {
  const char *key = options->arguments[2];
  explained one = {.key = key, .key_length = strlen(key)};
  weir_message message = {{0}};
  if (one.key_length == 0) {
    weir_cli_error("KEY is empty: one byte or more is accepted");
    return WEIR_EXIT_USAGE;
  }
  weir_config_faults *faults = calloc(1, sizeof *faults);
  if (faults == NULL) return weir_cli_fail_memory();
  weir_registry *registry = weir_registry_load(options->arguments[0], NULL, NULL, NULL, faults);
  int exit_status = WEIR_EXIT_USAGE;
  if (registry == NULL) {
    weir_cli_print_faults(faults);
  } else {
    weir_status status = find(registry, &one, options, &message);
    exit_status =
        status == WEIR_OK ? tell(&one, options->json) : weir_cli_fail("", status, &message);
  }
  for (size_t i = 0; i < one.rule_count; i++)
    free(one.rules[i].text);
  free(one.rules);
  free(one.counted);
  weir_registry_release(registry);
  free(faults);
  return exit_status;
}
