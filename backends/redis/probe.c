/* A server is asked for its form by a command that changes nothing, on a connection of its own, as a
 * proxy hangs up on what it does not know.
 *
 * Nothing rests on the answer but the form: a server that has lost INCREX since refuses it, which is
 * certainly not executed, and the operation goes again in the plain form (exec.c). */
#include "redis/probe.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "wire/exchange.h"

enum {
  PAUSE_US = 1000000, /* between two questions to one server */
  TIMEOUT_US = 500000
};

static const char beside[] = ":increx";
enum { KEY_BYTES = WEIR_STORE_KEY_MOST + sizeof beside };

typedef struct form_errand {
  weir_redis_errand errand; /* first */
  unsigned node;
  char key[KEY_BYTES];
} form_errand;

typedef struct form_exchange {
  weir_exchange exchange; /* first */
  const char *key;
  bool asked;
  weir_redis_form_answer answer;
} form_exchange;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  form_exchange *self = (form_exchange *)exchange;
  if (self->asked) return 0;
  self->asked = true;
  return weir_redis_form_question(self->key, say);
}

/* What is no answer at all is taken for none: time runs out. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL) return false;
  *taken = length;
  ((form_exchange *)exchange)->answer = weir_redis_form_read(reply);
  freeReplyObject(reply);
  return true;
}

/* A proxy; or a server that has just gone, whose heir is met by a new connection. */
static void lose(weir_exchange *exchange) {
  ((form_exchange *)exchange)->answer = WEIR_FORM_PLAIN;
}

static void run(weir_redis_errand *errand) {
  const form_errand *self = (const form_errand *)errand;
  const weir_redis_nodes_plan *plan = weir_redis_nodes_plan_of(errand->nodes);
  weir_redis_form *form = weir_redis_nodes_form(errand->nodes, self->node);
  form_exchange question = {.exchange = {.protocol = plan->protocol,
                                         .settings = plan->login,
                                         .ask = ask,
                                         .receive = receive,
                                         .lose = lose},
                            .key = self->key,
                            .answer = WEIR_FORM_UNKNOWN};
  weir_wire *wire = weir_redis_nodes_hold(errand->nodes, self->node);
  weir_message why;
  if (wire != NULL) {
    weir_wire_exchange(wire, &question.exchange, NULL, TIMEOUT_US, &why);
    weir_redis_nodes_release(errand->nodes, self->node);
  }
  if (question.answer == WEIR_FORM_BOUNDED) weir_redis_nodes_note_bounded(errand->nodes);
  if (question.answer == WEIR_FORM_UNKNOWN)
    atomic_store_explicit(&form->due, 1, memory_order_relaxed);
  else
    atomic_store_explicit(&form->bounded, question.answer == WEIR_FORM_BOUNDED,
                          memory_order_relaxed);
}

/* --- when it is asked ----------------------------------------------------------------------------
 */

/* The operation's home and what stands before it, which rights to keys go by, and on a cluster the
 * slot. Nothing counts under that key. */
static bool go_and_ask(weir_redis_nodes *nodes, unsigned node, const weir_operation *operation) {
  size_t length = operation->home_offset + (size_t)operation->home_length;
  form_errand *made = malloc(sizeof *made);
  if (made == NULL) return false;
  if (length < operation->key_length) length++; /* the brace */
  made->errand = (weir_redis_errand){.nodes = nodes, .run = run};
  made->node = node;
  memcpy(made->key, operation->key, length);
  memcpy(made->key + length, beside, sizeof beside);
  bool sent = weir_redis_nodes_send(&made->errand);
  if (!sent) free(made);
  return sent;
}

__attribute__((cold, noinline)) static void come_nearer(weir_redis_nodes *nodes, unsigned node,
                                                        weir_redis_form *form,
                                                        const weir_operation *operation) {
  unsigned due = atomic_load_explicit(&form->due, memory_order_relaxed);
  int64_t asked_us = atomic_load_explicit(&form->asked_us, memory_order_relaxed);
  int64_t now_us = due == 1 ? weir_monotonic_us() : 0;
  if (due == 0 || (due == 1 && asked_us != 0 && now_us < asked_us + PAUSE_US)) return;
  /* Who brings it to 0 asks, alone. */
  if (!atomic_compare_exchange_strong(&form->due, &due, due - 1) || due > 1) return;
  atomic_store_explicit(&form->asked_us, now_us, memory_order_relaxed);
  if (!go_and_ask(nodes, node, operation))
    atomic_store_explicit(&form->due, 1, memory_order_relaxed);
}

bool weir_redis_probe_use(weir_redis_nodes *nodes, unsigned node, const weir_operation *operation) {
  weir_redis_form *form = weir_redis_nodes_form(nodes, node);
  if (form == NULL) return false;
  if (atomic_load_explicit(&form->due, memory_order_relaxed) > 0)
    come_nearer(nodes, node, form, operation);
  return atomic_load_explicit(&form->bounded, memory_order_relaxed);
}
