/* What the replies of an attempt add up to: the operation's outcome, or what another attempt must
 * still find out or mend. */
#ifndef WEIR_REDIS_CONCLUDE_H
#define WEIR_REDIS_CONCLUDE_H

#include "redis/commands.h"

/* After the last reply of an attempt that went by `plan`. The outcome is PENDING where another has
 * to follow. */
void weir_redis_conclude(weir_wire_command *command, const weir_redis_plan *plan,
                         weir_message *message);

#endif
