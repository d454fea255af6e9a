/* Clients that may be cut off from the store, and whose policy is LOCAL. */
#ifndef MODEL_OUTAGE_H
#define MODEL_OUTAGE_H

#include "limiter/continue.h"
#include "model.h"

enum {
  INSIDE_KEYS_MOST = 8, /* of a client's own store */
  OUTAGES_MOST = 2      /* of one client */
};

/* A key of the store inside a client. */
struct inside_key {
  int64_t index, value;
  uint64_t version;
  uint8_t rule, place;
  bool used, present;
};

/* What a client's account must owe: truth_outage.c. */
struct dues {
  int64_t owed;        /* admitted, certainly not in the store, and neither paid nor dropped */
  int64_t admitted_us; /* when the last of it was */
};

/* A client whose policy is LOCAL. */
struct outage {
  weir_pool pools[RULES_MOST];
  struct inside_key keys[INSIDE_KEYS_MOST];
  weir_claim payment;               /* first of its group; zero where nothing is paid */
  int64_t offered[WEIR_RULES_MOST]; /* by it, and ... */
  weir_payment paid;                /* ... what there was room for */
  int64_t rest[WEIR_RULES_MOST];    /* of a refund: what goes back to the store */
  struct dues dues;
  int64_t began_us, hold_until_us; /* as in weir_account, but known by what the client saw */
  bool gone;                       /* and so is this */
  int32_t cuts;                    /* how often it was cut off */
  bool away;
  bool has_account;
};

/* Whose account decides. */
struct inside {
  struct model *model;
  struct client *client;
};

/* inside.c: the limiter inside a client, which counts for its account. */
weir_status inside_settle(void *owner, weir_claim *request);

/* outage.c: what a client does around its account, as src/limits/limiter/account.c. Where there
 * are no outages there is nothing to do. */
size_t outage_steps(const struct model *model, int who, struct step *steps);
uint64_t outage_secret(const struct model *model, const struct client *client);
void outage_cut(struct model *model, struct client *client);
void outage_end(struct model *model, struct client *client);
bool outage_withholds(struct model *model, struct client *client, weir_claim *request);
weir_claim *outage_offer(struct model *model, struct client *client, weir_claim *group);
void outage_round(struct model *model, struct client *client);
void outage_paid(struct model *model, struct client *client);
void outage_settle(struct model *model, struct client *client);
bool outage_refund(struct model *model, struct client *client, weir_claim *request,
                   struct record *taken);

/* The policy LOCAL: the client's account, where it has one. */
void policy_answer(struct model *model, struct client *client, weir_claim *request);
bool policy_waits(const struct client *client, const weir_claim *request);

#endif
