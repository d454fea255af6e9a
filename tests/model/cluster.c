/* Two nodes, A and B, and the keys of one slot that move from A to B while clients act. What a
 * client does with a redirection is judged for every command.
 *
 *     the slot is A's ──> it moves, key by key ──> the slot is B's
 *
 * While it moves, A answers for what it still holds and says ASK for the rest, which B executes
 * behind ASKING. Whoever asks the wrong node hears MOVED. A redirected command was not executed. */
#include <string.h>

#include "cluster.h"
#include "mutants.h"
#include "truth.h"

enum slot { OF_A, MOVING, OF_B };
enum node { A, B };
enum reply { EXECUTED, ASK, MOVED };

/* SET NX and PTTL around a sum; the floor of a RAISE, its sum and, with refresh, its TTL. */
static int commands_of(const weir_operation *operation) {
  bool sum = operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
  if (operation->kind == WEIR_RAISE) return operation->refresh ? 3 : 2;
  return sum && !operation->raised ? 3 : 1;
}

/* The command that decides what became of the operation. */
static int sum_of(const weir_operation *operation) {
  return commands_of(operation) > 1 ? 1 : 0;
}

static struct courier *courier_of(const struct model *model, const struct client *client) {
  return &model->cluster->couriers[world_client_number(model, client)];
}

static struct key *key_of(struct model *model, const weir_operation *operation) {
  return store_find(model, (int)operation->counter.rule, operation->counter.place,
                    operation->counter.index, operation->counter.entry);
}

/* --- the nodes ---------------------------------------------------------------------------------
 */

static enum reply reply_of(const struct model *model, const struct key *key, enum node node,
                           bool asking) {
  bool held = key != NULL && key->present && !key->away;
  if (model->cluster->slot == OF_A) return node == A ? EXECUTED : MOVED;
  if (model->cluster->slot == OF_B) return node == B ? EXECUTED : MOVED;
  if (node == B) return asking ? EXECUTED : MOVED;
  return held ? EXECUTED : ASK;
}

/* B executes what comes behind ASKING whether it holds the key yet or not. */
static bool misses(struct model *model, struct sent *sent, const struct key *key) {
  if (key == NULL || !key->present || key->away == (sent->node == B)) return false;
  if (sent->operation.kind != WEIR_GET)
    check_fails(model, CHECK_STATUS, "a key is written on two nodes");
  sent->operation.outcome = WEIR_ABSENT;
  return true;
}

static void execute(struct model *model, struct client *client, struct sent *sent) {
  int sum = sum_of(&sent->operation);
  bool raises = sent->operation.kind == WEIR_RAISE;
  if (misses(model, sent, key_of(model, &sent->operation))) return;
  sent->half = raises && sent->command == sum;
  if (sent->command == sum || (raises && sent->command < sum))
    store_execute(model, client, sent);
  else if (sent->command < sum && sent->operation.kind == WEIR_ADD)
    store_make(model, &sent->operation);
  struct key *key = key_of(model, &sent->operation);
  if (key != NULL) key->away = key->present && sent->node == B;
}

static void tell(const struct model *model, const struct sent *sent, enum reply reply) {
  static const char *const replies[] = {"", ", ASK", ", MOVED"};
  story_print(model, "to %c%s, command %d of %d, ", "AB"[sent->node],
              sent -> asking ? ", ASKING" : "", sent->command + 1, commands_of(&sent->operation));
  story_operation(model, sent);
  story_print(model, "%s", replies[reply]);
}

static enum reply deliver(struct model *model, struct client *client, struct sent *sent) {
  enum reply reply =
      reply_of(model, key_of(model, &sent->operation), (enum node)sent->node, sent->asking);
  if (reply == EXECUTED) execute(model, client, sent);
  tell(model, sent, reply);
  return reply;
}

size_t cluster_steps(const struct model *model, struct step *steps) {
  size_t count = 0;
  if (model->cluster->slot == OF_B) return 0;
  for (int i = 0; i < KEYS_MOST && model->cluster->slot == MOVING; i++) {
    const struct key *key = &model->world->keys[i];
    if (key->present && !key->away) steps[count++] = (struct step){MIGRATES, 0, i};
  }
  if (count == 0) steps[count++] = (struct step){MIGRATES, 0, KEYS_MOST};
  return count;
}

void cluster_migrate(struct model *model, int what) {
  if (what == KEYS_MOST) {
    model->cluster->slot++;
    story_print(model, model->cluster->slot == MOVING ? "the slot begins to move from A to B"
                                                      : "the slot is B's");
    return;
  }
  model->world->keys[what].away = true;
  story_print(model, "to B moves ");
  story_key(model, &model->world->keys[what]);
}

/* --- a client ----------------------------------------------------------------------------------
 */

/* The next operation of this attempt; all have had their turn: the number of operations. */
static void find_next(const struct client *client, struct courier *courier, size_t from) {
  while (from < client_sent(client) && !courier->hops[from].going)
    from++;
  courier->operation = (uint8_t)from;
  courier->command = from < client_sent(client) ? courier->hops[from].command : 0;
}

void cluster_send(struct model *model, struct client *client) {
  struct courier *courier = courier_of(model, client);
  memset(courier->hops, 0, sizeof courier->hops);
  if (client_sent(client) > ROUTED_MOST)
    check_fails(model, CHECK_STATUS, "more than %d operations in a round", ROUTED_MOST);
  for (size_t i = 0; i < client_sent(client) && i < ROUTED_MOST; i++)
    courier->hops[i] = (struct hop){.going = true, .node = courier->table};
  find_next(client, courier, 0);
}

/* It goes where it was told: as a whole, unless its sum was executed. */
static void send_again(struct model *model, const weir_operation *operation, struct hop *hop) {
  bool whole = !hop->decided || model->mutant->resends_whole;
  hop->command = (uint8_t)(whole ? 0 : sum_of(operation) + 1);
  hop->node = hop->to;
  hop->asking = hop->asks;
  hop->redirected = false;
}

/* A read behind a write that was redirected has read too early: it goes again when that is done, to
 * where it belongs. One that was redirected itself goes behind the write, on the same connection.
 */
static void read_again(const struct model *model, const struct hop *write, struct hop *hop) {
  hop->again = !model->mutant->keeps_reads;
  if (!model->mutant->reads_along) return;
  hop->again = false;
  hop->going = true;
  hop->node = write->to;
  hop->asking = write->asks;
}

static bool answered(const weir_operation *operation) {
  return operation->outcome != WEIR_UNKNOWN && operation->outcome != WEIR_NOT_SENT;
}

/* All commands of an attempt have their replies. False: nothing is left to do. */
static bool judge(struct model *model, struct client *client, struct courier *courier) {
  const struct hop *write = NULL; /* the last that was redirected */
  bool going = false;
  for (size_t i = 0; i < client_sent(client); i++) {
    struct hop *hop = &courier->hops[i];
    const weir_operation *operation = &client->operations[i];
    bool reads = operation->kind == WEIR_GET;
    hop->going = hop->going && hop->redirected;
    if (hop->going) {
      if (!reads && !hop->decided) write = hop;
      send_again(model, operation, hop);
    } else if (reads && write != NULL && answered(operation)) {
      read_again(model, write, hop);
    }
    going = going || hop->going;
  }
  for (size_t i = 0; i < client_sent(client) && !going; i++) {
    struct hop *hop = &courier->hops[i];
    if (hop->again) *hop = (struct hop){.going = true, .node = courier->table};
  }
  find_next(client, courier, 0);
  return courier->operation < client_sent(client);
}

static void go_on(struct model *model, struct client *client, struct courier *courier) {
  client->half = true; /* something was sent */
  if (courier->operation < client_sent(client) || judge(model, client, courier)) return;
  client->landed = (int32_t)client_sent(client);
  client->half = false;
  memset(courier->hops, 0, sizeof courier->hops);
  courier->operation = courier->command = 0;
}

struct sent cluster_next(const struct model *model, const struct client *client) {
  const struct courier *courier = courier_of(model, client);
  const struct hop *hop = &courier->hops[courier->operation];
  bool first = courier->command == hop->command;
  return (struct sent){.operation = client->operations[courier->operation],
                       .command = courier->command,
                       .node = hop->node,
                       .asking = hop->asking && (first || !model->mutant->asks_once)};
}

void cluster_land(struct model *model, struct client *client) {
  struct courier *courier = courier_of(model, client);
  struct hop *hop = &courier->hops[courier->operation];
  weir_operation *operation = &client->operations[courier->operation];
  struct sent sent = cluster_next(model, client);
  story_print(model, "client %d ", world_client_number(model, client));
  enum reply reply = deliver(model, client, &sent);
  if (reply == EXECUTED) {
    hop->decided = hop->decided || sent.command == sum_of(operation);
    operation->outcome = sent.operation.outcome;
    operation->value = sent.operation.value;
    operation->late = operation->slow = false;
  } else {
    if (!hop->redirected && hop->hops++ > 0)
      check_fails(model, CHECK_HOPS, "a command is redirected once more");
    hop->redirected = true;
    hop->to = !sent.node;
    hop->asks = reply == ASK;
    if (reply == MOVED || model->mutant->learns_ask) courier->table = hop->to;
  }
  if (++courier->command == commands_of(operation))
    find_next(client, courier, (size_t)courier->operation + 1);
  go_on(model, client, courier);
}

/* The rest of an attempt gets no answer. What was redirected goes on; what may have been executed
 * does not. */
void cluster_lose(struct model *model, struct client *client, weir_outcome outcome) {
  struct courier *courier = courier_of(model, client);
  for (size_t i = courier->operation; i < client_sent(client); i++) {
    struct hop *hop = &courier->hops[i];
    weir_operation *operation = &client->operations[i];
    struct sent sent;
    if (!hop->going) continue;
    if (i > courier->operation) find_next(client, courier, i);
    sent = cluster_next(model, client);
    if (outcome == WEIR_UNKNOWN && operation->kind != WEIR_GET)
      fault_make_orphan(model, client, &sent);
    hop->redirected = model->mutant->resends;
    hop->to = hop->node;
    hop->asks = hop->asking;
    if (model->mutant->resends) continue;
    operation->outcome = outcome;
    operation->late = operation->slow = true;
  }
  courier->operation = (uint8_t)client_sent(client);
  go_on(model, client, courier);
}

/* What got no answer arrives after all. Nobody learns that it was redirected. */
bool cluster_land_orphan(struct model *model, struct sent *sent) {
  deliver(model, NULL, sent);
  return ++sent->command == commands_of(&sent->operation);
}
