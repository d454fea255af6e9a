#include "redis/inspect.h"

#include <string.h>

/* DEL is asked for besides: reset needs it, and who tidies up. */
static unsigned asked_for(const weir_inspection *inspection) {
  return inspection->needs | WEIR_NEED_DROP;
}

static void report_memory(const weir_redis_info *info, const weir_inspection *inspection) {
  double used_mb = (double)info->used_bytes / (1 << 20);
  double most_mb = (double)info->maxmemory_bytes / (1 << 20);
  if (info->maxmemory_bytes <= 0)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "memory", "%.1f MB used, no maxmemory",
                     used_mb);
  else
    weir_wire_report(inspection, WEIR_FINDING_FACT, "memory", "%.1f MB used, maxmemory %.1f MB",
                     used_mb, most_mb);
  if (info->evicted > 0) {
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "eviction",
        "%lld keys since it started: each may be a counter whose limit is then admitted "
        "once more; give it more memory",
        (long long)info->evicted);
  } else if (info->maxmemory_bytes <= 0) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "eviction", "never: there is no maxmemory");
  } else if (strcmp(info->policy, "noeviction") == 0) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "never (noeviction): at maxmemory nothing more is counted, and there are no "
                     "decisions");
  } else {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "allowed at maxmemory (%s), none so far: a lost counter admits its limit once "
                     "more",
                     info->policy);
  }
}

static void report_info(const weir_redis_questions *questions, const weir_inspection *inspection) {
  const weir_redis_info *info = &questions->info;
  bool valkey = info->valkey[0] != '\0';
  char age[WEIR_AGE_BYTES];
  weir_wire_report(inspection, WEIR_FINDING_FACT, "server", "%s %s, up %s",
                   valkey ? "Valkey" : "Redis", valkey ? info->valkey : info->version,
                   weir_wire_age(info->uptime_s, age));
  if (strcmp(info->role, "slave") == 0 && info->cluster <= 0)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "role",
                     "a replica: what is written to it is refused or lost; its primary is needed");
  report_memory(info, inspection);
}

static void report_rights_in_cluster(const weir_redis_questions *questions, bool guarded,
                                     const weir_inspection *inspection) {
  if (questions->lacks_asking)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "access",
                     "asking: refused, so that keys whose slot moves are refused meanwhile: let it "
                     "with ACL SETUSER <user> +asking");
  if (questions->lacks_map && guarded)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "access",
                     "cluster|slots: refused, so that nodes which the URL does not name are not "
                     "told the password: let it with ACL SETUSER <user> +cluster|slots, or name "
                     "all nodes in the URL");
  else if (questions->lacks_map)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "access",
                     "cluster|slots: refused, so that owners are learnt slot by slot, each by a "
                     "round trip more: let it with ACL SETUSER <user> +cluster|slots");
}

/* Of a node of a cluster. */
static void report_cluster(const weir_redis_store *store, const weir_redis_questions *questions,
                           const weir_inspection *inspection) {
  unsigned node = (unsigned)inspection->server;
  bool replica = strcmp(questions->info.role, "slave") == 0;
  if (!weir_redis_nodes_follows(store->nodes)) {
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "cluster",
                     "a node of a cluster, whose redirections cluster=off forbids to follow");
    return;
  }
  if (!questions->lacks_map) weir_redis_map_read(store->nodes, node, inspection->timeout_us);
  size_t slots = weir_redis_nodes_slots(store->nodes, node);
  if (replica)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "cluster",
                     "a replica, which takes over when its master fails");
  else
    weir_wire_report(inspection, WEIR_FINDING_FACT, "cluster",
                     "a master, which owns %zu of %d slots", slots, WEIR_REDIS_SLOTS);
  weir_wire_report(inspection, WEIR_FINDING_FACT, "fail-over",
                   "a planned one costs nothing; one that is not may forget what the replica had "
                   "not got: each counter there admits its limit once more, and so does a master "
                   "cut off from the others for up to cluster-node-timeout");
  if (weir_redis_nodes_seeds(store->nodes) == 1)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "cluster",
                     "the URL names one of its nodes: while that is away, a process that starts "
                     "does not find the others; name several");
  report_rights_in_cluster(questions, weir_redis_nodes_is_guarded(store->nodes), inspection);
}

static void report_clock(const weir_redis_questions *questions, const weir_inspection *inspection) {
  int64_t half_us = (questions->after_us - questions->before_us) / 2;
  if (questions->info.time_us > 0)
    weir_wire_report_clock(inspection, questions->info.time_us - questions->before_us - half_us,
                           half_us);
}

/* What decisions are made without: NULL, or what it is for. */
static const char *spared(const weir_redis_denied *denied, unsigned needs) {
  if (strcmp(denied->name, "del") == 0 && !(needs & WEIR_NEED_DROP)) return "only a reset needs it";
  if (strcmp(denied->name, "bitfield") == 0)
    return "only for keys that hold something else: a long text there is else read whole";
  return NULL;
}

static void report_access(const weir_redis_questions *questions, const weir_redis_login *login,
                          const char *user, const weir_inspection *inspection) {
  bool known = login->count > 1 && strcmp(login->names[0], "auth") == 0;
  for (size_t i = 0; i < questions->denied_count; i++) {
    const weir_redis_denied *denied = &questions->denied[i];
    const char *use = spared(denied, inspection->needs);
    if (use == NULL)
      weir_wire_report(inspection, WEIR_FINDING_FAULT, "access", "%s", denied->why.text);
    else
      weir_wire_report(inspection, WEIR_FINDING_WARNING, "access", "%s (%s)", denied->why.text,
                       use);
  }
  if (questions->denied_count == 0)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "access", "user %.64s may run all that %s",
                     known && user != NULL ? user : "default",
                     inspection->needs & WEIR_NEED_DROP ? "is needed" : "these rules need");
}

static void report_acl(const weir_redis_store *store, const weir_inspection *inspection) {
  const char *user = store->user[0] != '\0' ? store->user : NULL;
  char acl[WEIR_ACL_BYTES];
  weir_redis_acl(asked_for(inspection), &store->login, user, inspection->pattern,
                 weir_redis_nodes_is_cluster(store->nodes), acl);
  weir_wire_report(inspection, WEIR_FINDING_FACT, "ACL", "%s", acl);
}

static void report_answers(weir_wire *wire, const weir_redis_questions *questions,
                           const weir_redis_store *store, const weir_inspection *inspection) {
  if (questions->reported) {
    report_info(questions, inspection);
    if (questions->info.cluster > 0) report_cluster(store, questions, inspection);
  } else if (questions->is_proxy) {
    weir_wire_report_proxy(inspection, questions->is_spread);
  } else {
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "server",
        "INFO is refused, so that version, role, maxmemory and eviction are not known: "
        "%s",
        questions->info_refused.text);
  }
  weir_wire_report_any(wire, inspection, questions->is_proxy);
  report_clock(questions, inspection);
  report_access(questions, &store->login, store->user[0] != '\0' ? store->user : NULL, inspection);
}

void weir_redis_inspect(weir_wire *wire, const weir_redis_store *store,
                        const weir_inspection *inspection) {
  weir_redis_questions questions;
  weir_message why = {""};
  if (inspection->answers) {
    weir_redis_questions_init(&questions, &store->login, asked_for(inspection), inspection->key);
    weir_wire_report_security(wire, inspection);
    if (weir_wire_exchange(wire, &questions.exchange, inspection->key, inspection->timeout_us,
                           &why))
      report_answers(wire, &questions, store, inspection);
    else
      weir_wire_report(inspection, WEIR_FINDING_FAULT, "questions",
                       "not all were answered in time: %s", why.text);
  }
  report_acl(store, inspection);
}
