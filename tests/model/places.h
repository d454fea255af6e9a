/* Places that are held, as their client believes. */
#ifndef MODEL_PLACES_H
#define MODEL_PLACES_H

#include "model.h"

/* Whether its client believes now that it holds it. */
bool place_is_held(const struct model *model, int rule, const struct record *record);

/* Asks for all that the client holds and that ends with this epoch; NULL: nothing does, or it is not
 * the time. And what became of that. */
weir_claim *place_renew(struct model *model, struct client *client);
void place_renewed(struct model *model, struct client *client);

#endif
