/* Scopes: the small worlds that are explored to the end. */
#ifndef MODEL_SCOPES_H
#define MODEL_SCOPES_H

#include "model.h"

extern const struct scope scopes[];
extern const size_t scope_count;

/* NULL when there is none of that name. */
const struct scope *scope_find(const char *name);

#endif
