/* Groups: several limiters of the configuration that are one decision, each with a key of its own. */
#ifndef WEIR_SERVE_GROUPS_H
#define WEIR_SERVE_GROUPS_H

#include "serve/tick.h"

/* As weir_tick_add_ask(), where ask->keys are there. */
uint32_t weir_groups_add(weir_tick *tick, const weir_ask *ask, unsigned note, weir_status *status,
                         weir_message *why);

/* What is to be said for a WEIR_ANSWER_GROUP. */
void weir_groups_reply(const weir_tick *tick, const weir_answer *answer, weir_group_reply *told);

#endif
